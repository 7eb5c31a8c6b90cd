// Layers on the CPU, called by name, against the limits of the machine. against_pytorch.py times PyTorch over the same lines.
//   bench_layers [threads [FILTER | CASE]]        prints: case, microseconds, GFLOP/s, part of the measured peak, GB/s, part of reading
// With one thread its processor time is measured, so that other load on the machine counts less.
#include "nbx/nbx.h"

#include <stdio.h>

#include "bench/limits.h"

// linear DTYPE rows in out | conv DTYPE n c h w out kernel stride padding groups | attention DTYPE batch heads length size causal
static const char *const cases[] = {
    "linear float32 1024 1024 1024", "linear float32 128 768 3072", "linear float32 197 768 768", "linear float32 1 4096 4096",
    "linear float32 4 4096 4096", "linear float32 8 4096 4096", "linear bfloat16 1024 1024 1024", "linear bfloat16 128 768 3072",
    "linear bfloat16 1 4096 4096", "linear float16 1024 1024 1024", "linear float16 128 768 3072", "linear float16 1 4096 4096",
    "linear float64 512 512 512",
    "conv float32 1 64 56 56 64 3 1 1 1", "conv float32 1 64 56 56 256 1 1 0 1", "conv float32 1 256 56 56 64 1 1 0 1",
    "conv float32 1 256 14 14 256 3 1 1 1", "conv float32 1 512 7 7 512 3 1 1 1", "conv float32 1 128 56 56 128 3 2 1 1",
    "conv float32 1 3 224 224 64 7 2 3 1", "conv float32 1 3 224 224 32 3 2 1 1", "conv float32 1 3 224 224 768 16 16 0 1",
    "conv float32 1 16 112 112 96 1 1 0 1", "conv float32 1 64 112 112 64 3 1 1 64", "conv float32 1 144 56 56 144 3 2 1 144",
    "conv float32 1 384 14 14 384 3 1 1 384", "conv float32 1 960 7 7 960 3 1 1 960", "conv float32 1 96 56 56 96 7 1 3 96",
    "conv bfloat16 1 64 56 56 64 3 1 1 1", "conv float16 1 64 56 56 64 3 1 1 1",
    "attention float32 1 12 1024 64 0", "attention float32 1 12 1024 64 1", "attention float32 8 12 128 64 0",
    "attention float32 1 12 197 64 0", "attention float32 1 32 2048 128 1", "attention bfloat16 1 12 1024 64 0",
    "attention float16 1 12 1024 64 0",
};

static nbx_context *ctx;

static nbx_tensor *noise(nbx_dtype dtype, int rank, const int64_t *shape) {
    nbx_value result;
    const nbx_value args[] = {nbx_of_ints(shape, rank), nbx_of_dtype(dtype)};
    return nbx_call(ctx, "aten::randn", args, 2, NULL, 0, &result, 1, NULL) == NBX_OK ? (nbx_tensor *)result.as.tensor : NULL;
}
#define NOISE(...) noise(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

typedef struct layer {
    const char *name;
    nbx_value args[8];
    int arg_count;
    nbx_tensor *weights[16];  // used in turn as args[1], so that products with few rows read theirs from memory
    int weight_count;
    double flops, bytes;
    int64_t lists[3][2];
} layer;

static bool prepare(const char *text, layer *l) {
    char kind[16], type[16];
    int64_t v[9] = {0};
    memset(l, 0, sizeof *l);
    if (sscanf(text, "%15s %15s %ld %ld %ld %ld %ld %ld %ld %ld %ld", kind, type, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8]) < 5)
        return false;
    const nbx_dtype dtype = nbx_dtype_parse(type);
    if (!strcmp(kind, "linear")) {
        l->name = "aten::linear";
        l->args[0] = nbx_of_tensor(NOISE(v[0], v[1]));
        l->bytes = (double)(v[1] * v[2]) * (double)nbx_dtype_bytes(dtype);
        l->weight_count = v[0] > 16 ? 1 : (int)(160e6 / l->bytes) + 1;
        for (int i = 0; i < l->weight_count; i++) l->weights[i] = NOISE(v[2], v[1]);
        l->args[2] = nbx_of_none(), l->arg_count = 3;
        l->flops = 2.0 * (double)(v[0] * v[1] * v[2]);
    } else if (!strcmp(kind, "conv")) {
        l->name = "aten::conv2d";
        l->args[0] = nbx_of_tensor(NOISE(v[0], v[1], v[2], v[3]));
        l->weights[0] = NOISE(v[4], v[1] / v[8], v[5], v[5]), l->weight_count = 1;
        l->args[2] = nbx_of_none();
        const int64_t by[] = {v[6], v[7], 1};
        for (int i = 0; i < 3; i++) l->lists[i][0] = l->lists[i][1] = by[i], l->args[3 + i] = nbx_of_ints(l->lists[i], 2);
        l->args[6] = nbx_of_int(v[8]), l->arg_count = 7;
        const int64_t h = (v[2] + 2 * v[7] - v[5]) / v[6] + 1, w = (v[3] + 2 * v[7] - v[5]) / v[6] + 1;
        l->flops = 2.0 * (double)(v[0] * v[4] * h * w) * (double)(v[1] / v[8] * v[5] * v[5]);
        l->bytes = (double)(v[0] * v[1] * v[2] * v[3] + v[0] * v[4] * h * w) * (double)nbx_dtype_bytes(dtype);
    } else {
        l->name = "aten::scaled_dot_product_attention";
        l->args[0] = nbx_of_tensor(NOISE(v[0], v[1], v[2], v[3]));
        l->weights[0] = NOISE(v[0], v[1], v[2], v[3]), l->weight_count = 1;
        l->args[2] = nbx_of_tensor(NOISE(v[0], v[1], v[2], v[3]));
        l->args[3] = nbx_of_none(), l->args[4] = nbx_of_float(0), l->args[5] = nbx_of_bool(v[4] != 0), l->arg_count = 6;
        l->flops = 4.0 * (double)(v[0] * v[1] * v[2] * v[2] * v[3]) * (v[4] ? 0.5 : 1);
    }
    return true;
}

static double best_time(layer *l) {
    double best = 1e9;
    const double until = seconds() + 0.6;
    for (int i = 0; i < 4 || seconds() < until; i++) {
        const nbx_scope scope = nbx_scope_open(ctx);
        nbx_value result;
        l->args[1] = nbx_of_tensor(l->weights[i % l->weight_count]);
        const double start = seconds();
        const nbx_status status = nbx_call(ctx, l->name, l->args, l->arg_count, NULL, 0, &result, 1, NULL);
        const double t = seconds() - start;
        nbx_scope_close(ctx, scope, NULL);
        if (status != NBX_OK) return 0;
        if (t < best) best = t;
    }
    return best;
}

int main(int argc, char **argv) {
    nbx_pool *pool = nbx_pool_create(argc > 1 ? atoi(argv[1]) : 0);
    nbx_options options = {0};
    options.threads = nbx_pool_threads(pool);
    one_thread = options.threads == 1;
    const double peak = fma_peak(pool), rate = read_rate(pool);
    nbx_pool_destroy(pool);
    ctx = nbx_context_create(&options);
    if (!ctx) return 1;
    printf("# %s, %d threads: %.1f GFLOP/s float32, reading %.1f GB/s\n", nbx_context_isa(ctx), options.threads, peak * 1e-9, rate * 1e-9);
    const bool own = argc > 2 && strchr(argv[2], ' ') && argv[2][strspn(argv[2], " ")] >= 'a';
    for (size_t i = 0; i < (own ? 1 : sizeof cases / sizeof *cases); i++) {
        const char *text = own ? argv[2] : cases[i];
        layer l;
        if (argc > 2 && !strstr(text, argv[2])) continue;
        const nbx_scope scope = nbx_scope_open(ctx);
        const double t = prepare(text, &l) ? best_time(&l) : 0;
        if (t == 0) printf("%s: %s\n", text, nbx_last_message(ctx));
        else printf("%-42s %10.1f us %8.1f GFLOP/s %5.2f %8.1f GB/s %5.2f\n", text, t * 1e6, l.flops / t * 1e-9, l.flops / t / peak,
                    l.bytes / t * 1e-9, l.bytes / t / rate);
        fflush(stdout);
        nbx_clear_error(ctx);
        nbx_scope_close(ctx, scope, NULL);
    }
    nbx_context_destroy(ctx);
    return 0;
}

// Operators on CUDA against the limit of the device: time per call, and bytes or flops per second, beside a plain copy taken
// in the same run. Calls are made back to back and waited for once; operands rotate over more memory than the L2 cache holds.
//   bench_cuda [FILTER]      rows whose name contains FILTER
#include "nbx/nbx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static nbx_context *ctx;
static const char *filter;
static double copy_rate;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static nbx_tensor *random_of(nbx_dtype dtype, int rank, const int64_t *shape) {  // normal-looking numbers, made on the device
    int64_t numel = 1;
    for (int d = 0; d < rank; d++) numel *= shape[d];
    const nbx_scope scope = nbx_scope_open(ctx);
    nbx_tensor *x = nbx_arange(ctx, NBX_FLOAT32, 0, (double)numel, 1);
    x = nbx_mul_scalar(ctx, nbx_sin(ctx, nbx_mul_scalar(ctx, x, 12.9898)), 43758.5453);
    x = nbx_sub(ctx, x, nbx_floor(ctx, x));
    x = nbx_mul_scalar(ctx, nbx_sub_scalar(ctx, x, 0.5), 3.4);
    return nbx_scope_close(ctx, scope, nbx_reshape(ctx, nbx_to_dtype(ctx, x, dtype), rank, shape));
}
#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}

typedef nbx_tensor *(*body)(nbx_tensor *const *t);
enum { ROTATE = 3 };

// Times body over ROTATE sets of operands. bytes or flops per call; 0: not stated.
static double measure(const char *name, const char *dtype, nbx_tensor *sets[ROTATE][4], body f, double bytes, double flops) {
    if (filter && !strstr(name, filter)) return 0;
    double best = 1e30;
    for (int round = 0; round < 4; round++) {
        const int calls = round == 0 ? 3 : 12;
        if (nbx_synchronize(ctx) != NBX_OK) break;
        const double start = now();
        for (int i = 0; i < calls; i++) {
            const nbx_scope scope = nbx_scope_open(ctx);
            nbx_tensor *y = f(sets[i % ROTATE]);
            nbx_scope_close(ctx, scope, NULL);
            if (!y) break;
        }
        if (nbx_synchronize(ctx) != NBX_OK) break;
        const double each = (now() - start) / calls;
        if (round && each < best) best = each;
    }
    if (nbx_last_status(ctx) != NBX_OK) {
        printf("%-28s %-5s %s\n", name, dtype, nbx_last_message(ctx));
        nbx_clear_error(ctx);
        return 0;
    }
    printf("%-28s %-5s %9.1f us", name, dtype, best * 1e6);
    if (bytes > 0) printf("  %7.0f GB/s", bytes / best * 1e-9);
    if (bytes > 0 && copy_rate > 0) printf("  %5.2f of copy", bytes / best / copy_rate);
    if (flops > 0) printf("  %7.1f TFLOP/s", flops / best * 1e-12);
    printf("\n");
    fflush(stdout);
    return best;
}

static nbx_value arg(const nbx_tensor *t) { return nbx_of_tensor(t); }
static nbx_tensor *call(const char *name, int count, const nbx_value *args) {
    nbx_value results[4];
    return nbx_call(ctx, name, args, count, NULL, 0, results, 4, NULL) == NBX_OK ? (nbx_tensor *)results[0].as.tensor : NULL;
}
#define CALL(name, ...) call(name, (int)(sizeof((nbx_value[]){__VA_ARGS__}) / sizeof(nbx_value)), (nbx_value[]){__VA_ARGS__})

static nbx_tensor *do_clone(nbx_tensor *const *t) { return nbx_clone(ctx, t[0]); }
static nbx_tensor *do_add(nbx_tensor *const *t) { return nbx_add(ctx, t[0], t[1]); }
static nbx_tensor *do_mul(nbx_tensor *const *t) { return nbx_mul(ctx, t[0], t[1]); }
static nbx_tensor *do_where(nbx_tensor *const *t) { return nbx_where(ctx, t[2], t[0], t[1]); }
static nbx_tensor *do_gelu(nbx_tensor *const *t) { return nbx_gelu(ctx, t[0]); }
static nbx_tensor *do_silu(nbx_tensor *const *t) { return nbx_silu(ctx, t[0]); }
static nbx_tensor *do_cast(nbx_tensor *const *t) { return nbx_to_dtype(ctx, t[0], nbx_tensor_dtype(t[0]) == NBX_FLOAT32 ? NBX_BFLOAT16 : NBX_FLOAT32); }
static nbx_tensor *do_fill(nbx_tensor *const *t) { return nbx_fill_(ctx, t[0], 0.25) == NBX_OK ? t[0] : NULL; }
static nbx_tensor *do_masked_fill(nbx_tensor *const *t) { return nbx_masked_fill(ctx, t[0], t[2], -1); }
static nbx_tensor *do_transpose(nbx_tensor *const *t) { return CALL("aten::clone", arg(nbx_t(ctx, t[0])), nbx_of_memory_format(NBX_CONTIGUOUS_FORMAT)); }
static nbx_tensor *do_permute(nbx_tensor *const *t) {
    return CALL("aten::clone", arg(nbx_permute(ctx, t[0], SHAPE(0, 2, 1, 3))), nbx_of_memory_format(NBX_CONTIGUOUS_FORMAT));
}
static nbx_tensor *do_sum(nbx_tensor *const *t) { return nbx_sum(ctx, t[0], 0, NULL, false); }
static nbx_tensor *do_sum_rows(nbx_tensor *const *t) { return nbx_sum(ctx, t[0], SHAPE(1), false); }
static nbx_tensor *do_sum_cols(nbx_tensor *const *t) { return nbx_sum(ctx, t[0], SHAPE(0), false); }
static nbx_tensor *do_argmax(nbx_tensor *const *t) { return nbx_argmax(ctx, t[0], -1, false); }
static nbx_tensor *do_softmax(nbx_tensor *const *t) { return nbx_softmax(ctx, t[0], -1); }
static nbx_tensor *do_layer_norm(nbx_tensor *const *t) { return nbx_layer_norm(ctx, t[0], 1, nbx_tensor_shape(t[1]), t[1], t[1], 1e-5); }
static nbx_tensor *do_rms_norm(nbx_tensor *const *t) { return nbx_rms_norm(ctx, t[0], 1, nbx_tensor_shape(t[1]), t[1], 1e-5); }
static nbx_tensor *do_group_norm(nbx_tensor *const *t) { return nbx_group_norm(ctx, t[0], 32, t[1], t[1], 1e-5); }
static nbx_tensor *do_cumsum(nbx_tensor *const *t) { return nbx_cumsum(ctx, t[0], -1); }
static nbx_tensor *do_topk(nbx_tensor *const *t) {
    nbx_tensor *values, *indices;
    return nbx_topk(ctx, t[0], 50, -1, &values, &indices) == NBX_OK ? values : NULL;
}
static nbx_tensor *do_sort(nbx_tensor *const *t) {
    nbx_tensor *values, *indices;
    return nbx_sort(ctx, t[0], -1, false, &values, &indices) == NBX_OK ? values : NULL;
}
static nbx_tensor *do_cat(nbx_tensor *const *t) { return nbx_cat(ctx, 2, (const nbx_tensor *const[]){t[0], t[1]}, -1); }
static nbx_tensor *do_embedding(nbx_tensor *const *t) { return nbx_embedding(ctx, t[0], t[1]); }
static nbx_tensor *do_index_select(nbx_tensor *const *t) { return nbx_index_select(ctx, t[0], 0, t[1]); }
static nbx_tensor *do_gather(nbx_tensor *const *t) { return nbx_gather(ctx, t[0], 1, t[1]); }
static nbx_tensor *do_index_put(nbx_tensor *const *t) { return nbx_index_copy_(ctx, t[0], 0, t[1], t[2]) == NBX_OK ? t[0] : NULL; }
static nbx_tensor *do_mm(nbx_tensor *const *t) { return nbx_mm(ctx, t[0], t[1]); }
static nbx_tensor *do_linear(nbx_tensor *const *t) { return nbx_linear(ctx, t[0], t[1], NBX_NONE); }
static nbx_tensor *do_attention(nbx_tensor *const *t) { return nbx_scaled_dot_product_attention(ctx, t[0], t[1], t[2], NBX_NONE, false, 0, false); }
static nbx_tensor *do_causal(nbx_tensor *const *t) { return nbx_scaled_dot_product_attention(ctx, t[0], t[1], t[2], NBX_NONE, true, 0, false); }
static nbx_tensor *do_conv(nbx_tensor *const *t) { return nbx_conv2d(ctx, t[0], t[1], NBX_NONE, (int64_t[]){1, 1}, (int64_t[]){1, 1}, (int64_t[]){1, 1}, 1); }
static nbx_tensor *do_stem(nbx_tensor *const *t) { return nbx_conv2d(ctx, t[0], t[1], NBX_NONE, (int64_t[]){2, 2}, (int64_t[]){3, 3}, (int64_t[]){1, 1}, 1); }
static nbx_tensor *do_depthwise(nbx_tensor *const *t) {
    return nbx_conv2d(ctx, t[0], t[1], NBX_NONE, (int64_t[]){1, 1}, (int64_t[]){3, 3}, (int64_t[]){1, 1}, nbx_tensor_size(t[0], 1));
}

#define EACH for (int r = 0; r < ROTATE; r++)

static void memory_bound(nbx_dtype dtype, const char *name, double size) {
    nbx_tensor *s[ROTATE][4] = {{NULL}};
    const int64_t rows = (int64_t)(512e6 / size) / 4096 / 2048 * 2048, n = rows * 4096;
    const nbx_scope scope = nbx_scope_open(ctx);
    const double bytes = (double)n * size;
    EACH {
        s[r][0] = random_of(dtype, SHAPE(rows, 4096));
        s[r][1] = random_of(dtype, SHAPE(rows, 4096));
        s[r][2] = nbx_gt_scalar(ctx, s[r][1], 0);
    }
    const double copy = measure("copy", name, s, do_clone, 2 * bytes, 0);
    if (copy > 0) copy_rate = 2 * bytes / copy;
    measure("add", name, s, do_add, 3 * bytes, 0);
    measure("mul", name, s, do_mul, 3 * bytes, 0);
    measure("where", name, s, do_where, 3 * bytes + (double)n, 0);
    measure("masked_fill", name, s, do_masked_fill, 2 * bytes + (double)n, 0);
    measure("cast", name, s, do_cast, bytes + (double)n * (6 - size), 0);
    measure("gelu", name, s, do_gelu, 2 * bytes, 0);
    measure("silu", name, s, do_silu, 2 * bytes, 0);
    measure("transpose", name, s, do_transpose, 2 * bytes, 0);
    measure("sum all", name, s, do_sum, bytes, 0);
    measure("sum rows", name, s, do_sum_rows, bytes, 0);
    measure("sum cols", name, s, do_sum_cols, bytes, 0);
    measure("argmax", name, s, do_argmax, bytes, 0);
    measure("softmax 4096", name, s, do_softmax, 2 * bytes, 0);
    measure("cumsum", name, s, do_cumsum, 2 * bytes, 0);
    measure("cat", name, s, do_cat, 4 * bytes, 0);
    nbx_tensor *keep[ROTATE];
    EACH keep[r] = s[r][1];
    EACH s[r][1] = random_of(dtype, SHAPE(4096));
    measure("add row", name, s, do_add, 2 * bytes, 0);
    measure("layer_norm 4096", name, s, do_layer_norm, 2 * bytes, 0);
    measure("rms_norm 4096", name, s, do_rms_norm, 2 * bytes, 0);
    EACH s[r][1] = random_of(dtype, SHAPE(rows, 1));
    measure("add column", name, s, do_add, 2 * bytes, 0);
    EACH s[r][1] = nbx_to_dtype(ctx, nbx_mul_scalar(ctx, nbx_abs(ctx, random_of(NBX_FLOAT32, SHAPE(rows))), (double)rows / 1.71), NBX_INT64);
    measure("embedding", name, s, do_embedding, 2 * bytes, 0);
    measure("index_select", name, s, do_index_select, 2 * bytes, 0);
    EACH s[r][2] = keep[r];
    EACH s[r][1] = nbx_arange(ctx, NBX_INT64, 0, (double)rows, 1);
    measure("index_copy_", name, s, do_index_put, 2 * bytes, 0);
    EACH s[r][1] = nbx_to_dtype(ctx, nbx_mul_scalar(ctx, nbx_abs(ctx, random_of(NBX_FLOAT32, SHAPE(rows, 4096))), 4096 / 1.71), NBX_INT64);
    measure("gather", name, s, do_gather, 2 * bytes + (double)n * 8, 0);
    EACH s[r][0] = nbx_reshape(ctx, s[r][0], SHAPE(rows / 2048, 2048, 32, 128));
    measure("permute 0213", name, s, do_permute, 2 * bytes, 0);
    EACH s[r][0] = nbx_reshape(ctx, s[r][0], SHAPE(rows * 4096 / (512 * 4096), 512, 64, 64)), s[r][1] = random_of(dtype, SHAPE(512));
    measure("group_norm 32", name, s, do_group_norm, 2 * bytes, 0);
    measure("fill", name, s, do_fill, bytes, 0);
    nbx_scope_close(ctx, scope, NULL);

    const nbx_scope wide = nbx_scope_open(ctx);
    EACH s[r][0] = random_of(dtype, SHAPE((int64_t)(1e9 / size) / 2 / 128256, 128256));
    const double long_bytes = (double)nbx_tensor_nbytes(s[0][0]);
    measure("softmax 128256", name, s, do_softmax, 2 * long_bytes, 0);
    measure("topk 50 of 128256", name, s, do_topk, long_bytes, 0);
    nbx_scope_close(ctx, wide, NULL);
}

static nbx_tensor *channels_last(nbx_tensor *x) { return CALL("aten::contiguous", arg(x), nbx_of_memory_format(NBX_CHANNELS_LAST)); }

static void compute_bound(nbx_dtype dtype, const char *name) {
    nbx_tensor *s[ROTATE][4] = {{NULL}};
    nbx_scope scope = nbx_scope_open(ctx);
    for (int64_t n = 1024; n <= 8192; n *= 2) {
        char text[64];
        if (dtype == NBX_FLOAT32 && n > 4096) break;
        EACH s[r][0] = random_of(dtype, SHAPE(n, n)), s[r][1] = random_of(dtype, SHAPE(n, n));
        snprintf(text, sizeof text, "mm %lld", (long long)n);
        measure(text, name, s, do_mm, 0, 2.0 * (double)n * (double)n * (double)n);
    }
    EACH s[r][0] = random_of(dtype, SHAPE(1, 4096)), s[r][1] = random_of(dtype, SHAPE(14336, 4096));
    measure("linear 1x14336x4096", name, s, do_linear, 14336.0 * 4096 * (dtype == NBX_FLOAT32 ? 4 : 2), 0);
    nbx_scope_close(ctx, scope, NULL);
    scope = nbx_scope_open(ctx);
    EACH for (int k = 0; k < 3; k++) s[r][k] = random_of(dtype, SHAPE(2, 16, 4096, 128));
    const double flops = 4.0 * 2 * 16 * 4096.0 * 4096 * 128;
    if (dtype != NBX_FLOAT32) measure("attention s4096 d128", name, s, do_attention, 0, flops);
    if (dtype != NBX_FLOAT32) measure("attention causal", name, s, do_causal, 0, flops / 2);
    EACH for (int k = 0; k < 3; k++) s[r][k] = random_of(dtype, SHAPE(8, 16, 1024, 64));
    measure("attention s1024 d64", name, s, do_attention, 0, 4.0 * 8 * 16 * 1024.0 * 1024 * 64);
    nbx_scope_close(ctx, scope, NULL);
    scope = nbx_scope_open(ctx);
    EACH s[r][0] = random_of(dtype, SHAPE(64, 512, 14, 14)), s[r][1] = random_of(dtype, SHAPE(512, 512, 3, 3));
    const double conv = 2.0 * 64 * 14 * 14 * 512 * 512 * 9;
    measure("conv 3x3 512 NCHW", name, s, do_conv, 0, conv);
    EACH s[r][0] = channels_last(s[r][0]), s[r][1] = channels_last(s[r][1]);
    measure("conv 3x3 512 NHWC", name, s, do_conv, 0, conv);
    EACH s[r][0] = random_of(dtype, SHAPE(64, 64, 56, 56)), s[r][1] = random_of(dtype, SHAPE(64, 64, 3, 3));
    EACH s[r][0] = channels_last(s[r][0]), s[r][1] = channels_last(s[r][1]);
    measure("conv 3x3 64 NHWC", name, s, do_conv, 0, 2.0 * 64 * 56 * 56 * 64 * 64 * 9);
    EACH s[r][0] = random_of(dtype, SHAPE(64, 3, 224, 224)), s[r][1] = random_of(dtype, SHAPE(64, 3, 7, 7));
    measure("conv stem 7x7", name, s, do_stem, 0, 2.0 * 64 * 112 * 112 * 64 * 3 * 49);
    EACH s[r][0] = random_of(dtype, SHAPE(64, 384, 56, 56)), s[r][1] = random_of(dtype, SHAPE(384, 1, 7, 7));
    measure("conv depthwise 7x7 NCHW", name, s, do_depthwise, 0, 2.0 * 64 * 56 * 56 * 384 * 49);
    EACH s[r][0] = channels_last(s[r][0]);
    measure("conv depthwise 7x7 NHWC", name, s, do_depthwise, 0, 2.0 * 64 * 56 * 56 * 384 * 49);
    nbx_scope_close(ctx, scope, NULL);
}

static void host_cost(void) {
    nbx_scope scope = nbx_scope_open(ctx);
    nbx_tensor *a = random_of(NBX_FLOAT32, SHAPE(16)), *b = random_of(NBX_FLOAT32, SHAPE(16));
    if (nbx_synchronize(ctx) != NBX_OK) return;
    double best = 1e30;
    for (int round = 0; round < 5; round++) {
        const double start = now();
        for (int i = 0; i < 500; i++) {
            const nbx_scope inner = nbx_scope_open(ctx);
            nbx_add(ctx, a, b);
            nbx_scope_close(ctx, inner, NULL);
        }
        const double each = (now() - start) / 500;
        if (each < best) best = each;
        if (nbx_synchronize(ctx) != NBX_OK) return;
    }
    printf("%-28s %-5s %9.2f us host time a call, the driver's launch included\n", "add of 16 elements", "f32", best * 1e6);
    nbx_scope_close(ctx, scope, NULL);
}

int main(int argc, char **argv) {
    const nbx_options options = {.device = {NBX_CUDA, 0}};
    filter = argc > 1 ? argv[1] : NULL;
    ctx = nbx_context_create(&options);
    if (!ctx) {
        fprintf(stderr, "bench_cuda: no CUDA device\n");
        return 1;
    }
    host_cost();
    memory_bound(NBX_BFLOAT16, "bf16", 2);
    memory_bound(NBX_FLOAT32, "f32", 4);
    nbx_tensor *s[ROTATE][4] = {{NULL}};
    nbx_scope scope = nbx_scope_open(ctx);
    EACH s[r][0] = random_of(NBX_FLOAT32, SHAPE(64 << 20));
    measure("sort 64 Mi", "f32", s, do_sort, 0, 0);
    nbx_scope_close(ctx, scope, NULL);
    compute_bound(NBX_BFLOAT16, "bf16");
    compute_bound(NBX_FLOAT32, "f32");
    nbx_context_destroy(ctx);
    return 0;
}

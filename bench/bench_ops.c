// Every operator against the memory and the multipliers of the machine it runs on.
//   bench_ops [ROWS [THREADS]] [--json]     ROWS: a file of rows (bench/ops.txt), or - for rows from the standard input
// A row is: what it is measured against, operator, arguments, separated by spaces.
//   copy         the time of a copy (by streaming stores) of as many bytes, or of a read of the arguments, whichever is longer
//   read         the time of a plain read of as many bytes, by as many threads
//   fma          two flops an element of the results times the argument after the colon (fma:1024)
//   time         nothing: only the time, in the table of torch_ops.py beside PyTorch's
// Arguments: f32[1M,8] is a tensor of random numbers (k, M: times 1024); f32[8,4]/10 permuted; f32[8]+ of positive numbers;
// i64[9]<5 of numbers below 5; {f32[8] f32[8]} a list of tensors; (1,2) of integers; :f16 a dtype; 1 2.5 true none "text".
// The best of repeated calls counts; with one thread processor time is counted, else time. Results are dropped after each call and their memory is used again.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "nbx/call.h"

enum { MOST_ARGS = 24, MOST_RESULTS = 16, LIMIT_BYTES = 256 << 20, MOST_THREADS = 256 };

static nbx_context *ctx;
static double copy_rate, read_rate, fma_rate;  // a second

// One thread: its processor time, which other jobs on the machine leave alone.
static double now(void) {
    struct timespec t;
    clock_gettime(ctx && nbx_context_threads(ctx) == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what, const char *text) {
    fprintf(stderr, "bench_ops: %s: %s\n", what, text);
    exit(1);
}

// ------------------------------------------------------------------------------------------------ limits of the machine
typedef struct worker {
    pthread_t thread;
    const uint64_t *from;
    uint64_t *to;
    size_t words;
    void (*work)(struct worker *);
    double sum;
} worker;

static void copy_words(worker *w) {
#if defined(__x86_64__)
    for (size_t i = 0; i + 8 <= w->words; i += 8)
        for (size_t k = 0; k < 8; k += 2) _mm_stream_si128((__m128i *)(void *)(w->to + i + k), _mm_loadu_si128((const __m128i *)(const void *)(w->from + i + k)));
    _mm_sfence();
#else
    memcpy(w->to, w->from, w->words * 8);
#endif
}

typedef uint64_t words __attribute__((vector_size(16), may_alias));

static void read_words(worker *w) {
    words s[8] = {{0}};
    for (size_t i = 0; i + 16 <= w->words; i += 16) {
#pragma GCC unroll 8
        for (size_t k = 0; k < 8; k++) s[k] += *(const words *)(const void *)(w->from + i + 2 * k);
    }
    for (int k = 0; k < 8; k++) w->sum += (double)s[k][0];
}

#define FMA_ROUNDS 200000
typedef float lanes __attribute__((vector_size(32), aligned(32)));
#ifdef __clang__
#pragma STDC FP_CONTRACT ON
#define CONTRACTED
#else
#define CONTRACTED , optimize("fp-contract=fast")
#endif
#if defined(__x86_64__)
__attribute__((target("avx2,fma") CONTRACTED))
#endif
static void multiply_add(worker *w) {
    lanes x[12], k;
    for (int j = 0; j < 8; j++) k[j] = 0.5f;
    for (int i = 0; i < 12; i++) x[i] = k;
    for (int n = 0; n < FMA_ROUNDS; n++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++) x[i] = x[i] * k + k;
    }
    for (int i = 0; i < 12; i++) w->sum += (double)x[i][0];
}

static void *run(void *arg) {
    worker *w = arg;
    w->work(w);
    return NULL;
}

static uint64_t *from_words, *to_words;

static double best_pass(void (*work)(worker *), int passes) {
    static worker w[MOST_THREADS];
    const int threads = nbx_context_threads(ctx) < MOST_THREADS ? nbx_context_threads(ctx) : MOST_THREADS;
    const size_t share = LIMIT_BYTES / 8 / (size_t)threads;
    double best = 1e30;
    for (int pass = 0; pass < passes; pass++) {
        for (int i = 0; i < threads; i++)
            w[i] = (worker){.from = from_words + share * (size_t)i, .to = to_words + share * (size_t)i, .words = share, .work = work};
        const double start = now();
        for (int i = 1; i < threads; i++)
            if (pthread_create(&w[i].thread, NULL, run, &w[i]) != 0) die("threads", "refused");
        run(&w[0]);
        for (int i = 1; i < threads; i++) pthread_join(w[i].thread, NULL);
        const double took = now() - start;
        if (took < best) best = took;
    }
    return best;
}

// The rates change with what else the host does: they are measured anew beside every row.
static void measure_memory(int passes) {
    copy_rate = 2.0 * LIMIT_BYTES / best_pass(copy_words, passes);
    read_rate = LIMIT_BYTES / best_pass(read_words, passes);
}

static void measure_machine(void) {
    from_words = aligned_alloc(2 << 20, LIMIT_BYTES), to_words = aligned_alloc(2 << 20, LIMIT_BYTES);
    if (!from_words || !to_words) die("memory", "full");
    madvise(from_words, LIMIT_BYTES, MADV_HUGEPAGE), madvise(to_words, LIMIT_BYTES, MADV_HUGEPAGE);
    memset(from_words, 1, LIMIT_BYTES), memset(to_words, 2, LIMIT_BYTES);
    measure_memory(9);
    fma_rate = 2.0 * 8 * 12 * FMA_ROUNDS * nbx_context_threads(ctx) / best_pass(multiply_add, 3);
}

// --------------------------------------------------------------------------------------------------------- tensors by text
static const struct { const char *name; nbx_dtype dtype; } dtypes[] = {
    {"f32", NBX_FLOAT32}, {"f64", NBX_FLOAT64}, {"f16", NBX_FLOAT16}, {"bf16", NBX_BFLOAT16}, {"i64", NBX_INT64}, {"i32", NBX_INT32},
    {"i16", NBX_INT16}, {"i8", NBX_INT8}, {"u8", NBX_UINT8}, {"bool", NBX_BOOL}, {"c64", NBX_COMPLEX64}, {"c128", NBX_COMPLEX128},
};

static nbx_dtype dtype_of(const char *text, size_t length) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strlen(dtypes[i].name) == length && memcmp(dtypes[i].name, text, length) == 0) return dtypes[i].dtype;
    die("no such dtype", text);
    return NBX_DTYPE_NONE;
}

static int64_t integer(const char **at) {
    char *end;
    int64_t x = strtoll(*at, &end, 10);
    if (end == *at) die("not a number", *at);
    if (*end == 'k') x *= 1024, end++;
    else if (*end == 'M') x *= 1048576, end++;
    *at = end;
    return x;
}

// Numbers in [-1, 1), or [0, 1); integers of 16 bits (as many as fit), or below a bound.
static void fill(nbx_tensor *t, int64_t n, int64_t below, bool positive) {
    unsigned state = 1;
    void *p = nbx_tensor_data(t);
    nbx_dtype dtype = nbx_tensor_dtype(t);
    if (dtype == NBX_COMPLEX64 || dtype == NBX_COMPLEX128) n *= 2, dtype = dtype == NBX_COMPLEX64 ? NBX_FLOAT32 : NBX_FLOAT64;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        const float real = positive ? (float)(state >> 8) / 16777216.0f : (float)(state >> 8) / 8388608.0f - 1.0f;
        const int64_t number = below ? (int64_t)(state >> 4) % below : (int64_t)(state >> 16);
        unsigned bits;
        memcpy(&bits, &real, 4);
        switch (dtype) {
        case NBX_FLOAT32: ((float *)p)[i] = real; break;
        case NBX_FLOAT64: ((double *)p)[i] = (double)real; break;
        case NBX_BFLOAT16: ((uint16_t *)p)[i] = (uint16_t)(bits >> 16); break;
        case NBX_FLOAT16: ((uint16_t *)p)[i] = (uint16_t)((positive ? 0 : (state & 1) << 15) | 0x3000 | (state >> 20 & 0xbff)); break;
        case NBX_INT64: ((int64_t *)p)[i] = number; break;
        case NBX_INT32: ((int32_t *)p)[i] = (int32_t)number; break;
        case NBX_INT16: ((int16_t *)p)[i] = (int16_t)number; break;
        case NBX_BOOL: ((uint8_t *)p)[i] = (uint8_t)(number & 1); break;
        default: ((uint8_t *)p)[i] = (uint8_t)number; break;
        }
    }
}

static nbx_tensor *tensor(const char **at) {
    const char *bracket = strchr(*at, '[');
    const nbx_dtype dtype = dtype_of(*at, (size_t)(bracket - *at));
    int64_t shape[8], stride[8], n = 1, below = 0;
    int rank = 0;
    for (*at = bracket + 1; **at != ']'; *at += **at == ',') shape[rank++] = integer(at);
    ++*at;
    for (int d = 0; d < rank; d++) n *= shape[d];
    for (int64_t d = rank - 1, step = 1; d >= 0; d--) stride[d] = step, step *= shape[d];
    int64_t view_shape[8], view_stride[8];
    bool permuted = false, positive = false;
    for (; **at && !strchr(" }", **at);) {
        if (**at == '/') {
            permuted = true;
            ++*at;
            for (int d = 0; d < rank; d++, ++*at) view_shape[d] = shape[**at - '0'], view_stride[d] = stride[**at - '0'];
        } else if (**at == '<') {
            ++*at;
            below = integer(at);
        } else if (**at == '+') {
            positive = true;
            ++*at;
        } else {
            die("what follows a tensor", *at);
        }
    }
    nbx_tensor *t = nbx_tensor_create(ctx, dtype, rank, shape);
    if (!t) die("tensor", nbx_last_message(ctx));
    fill(t, n, below, positive);
    return permuted ? nbx_tensor_view(ctx, t, dtype, rank, view_shape, view_stride, 0) : t;
}

// -------------------------------------------------------------------------------------------------------------- arguments
static double tensor_bytes(const nbx_value *v) {
    if (v->kind == NBX_KIND_TENSOR) return (double)nbx_tensor_nbytes(v->as.tensor);
    double bytes = 0;
    for (int i = 0; v->kind == NBX_KIND_TENSORS && i < v->count; i++) bytes += (double)nbx_tensor_nbytes(v->as.tensors[i]);
    return bytes;
}

static bool word(const char **at, const char *text) {
    const size_t n = strlen(text);
    if (strncmp(*at, text, n) != 0 || ((*at)[n] && (*at)[n] != ' ')) return false;
    *at += n;
    return true;
}

// Lists and texts stay for the program's life: some bytes a row.
static nbx_value argument(const char **at) {
    if (word(at, "none")) return nbx_of_none();
    if (word(at, "true")) return nbx_of_bool(true);
    if (word(at, "false")) return nbx_of_bool(false);
    if (**at == '(') {
        int64_t *list = calloc(16, sizeof *list);
        int count = 0;
        for (++*at; list && **at != ')'; *at += **at == ',') list[count++] = integer(at);
        ++*at;
        return nbx_of_ints(list, count);
    }
    if (**at == '{') {
        const nbx_tensor **list = calloc(64, sizeof *list);
        int count = 0;
        for (++*at; list && **at != '}'; *at += **at == ' ') list[count++] = tensor(at);
        ++*at;
        return nbx_of_tensors(list, count);
    }
    if (**at == '"') {
        const char *end = strchr(*at + 1, '"');
        char *text = end ? strndup(*at + 1, (size_t)(end - *at - 1)) : NULL;
        *at = end + 1;
        return nbx_of_string(text);
    }
    if (**at == ':') {
        const size_t length = strcspn(++*at, " ");
        const nbx_dtype dtype = dtype_of(*at, length);
        *at += length;
        return nbx_of_dtype(dtype);
    }
    const size_t length = strcspn(*at, " ");
    if (memchr(*at, '[', length)) return nbx_of_tensor(tensor(at));
    if (!memchr(*at, '.', length) && !memchr(*at, 'e', length)) return nbx_of_int(integer(at));
    char *end;
    const double real = strtod(*at, &end);
    *at = end;
    return nbx_of_float(real);
}

// ------------------------------------------------------------------------------------------------------------------- rows
// The best time of a call: calls in a row where one is short, at least five times and 0.15 seconds in all.
static double best_time(const nbx_operator *op, const nbx_value *args, int count, double *bytes, double *elements) {
    nbx_value results[MOST_RESULTS];
    double best = 1e30, total = 0;
    int calls = 1;
    for (int pass = 0; pass < 5 || (total < 0.15 && pass < 1000); pass++) {
        const double start = now();
        for (int i = 0; i < calls; i++) {
            int produced = 0;
            const nbx_scope scope = nbx_scope_open(ctx);
            if (nbx_call_operator(ctx, op, args, count, NULL, 0, results, MOST_RESULTS, &produced) != NBX_OK)
                die(nbx_operator_name(op), nbx_last_message(ctx));
            for (int k = 0; pass == 0 && k < produced; k++) {
                *bytes += tensor_bytes(&results[k]);
                if (k == 0 && results[0].kind == NBX_KIND_TENSOR) *elements = (double)nbx_tensor_numel(results[0].as.tensor);
            }
            nbx_scope_close(ctx, scope, NULL);
        }
        const double took = (now() - start) / calls;
        if (pass == 0 && took < 2e-5) calls = (int)(1e-4 / took) + 1;
        total += took * calls;
        if (pass && took < best) best = took;
    }
    return best;
}

static void run_row(const char *row, bool json) {
    const char *at = row;
    char limit[32], name[128];
    int length;
    if (sscanf(at, "%31s %127s%n", limit, name, &length) != 2) die("row", row);
    at += length;
    const nbx_operator *op = nbx_op_find(name);
    if (!op) die("no operator", name);
    nbx_value args[MOST_ARGS];
    int count = 0;
    double bytes = 0, elements = 0;
    const nbx_scope scope = nbx_scope_open(ctx);
    const char *text = at + strspn(at, " ");
    for (; *(at += strspn(at, " ")); count++) {
        if (count == MOST_ARGS) die("too many arguments", row);
        args[count] = argument(&at);
        bytes += tensor_bytes(&args[count]);
    }
    const double read_bytes = bytes;
    if (strcmp(limit, "copy") == 0 || strcmp(limit, "read") == 0) measure_memory(3);
    const double seconds = best_time(op, args, count, &bytes, &elements);
    const double copying = bytes / copy_rate, reading = read_bytes / read_rate;
    double share = 0;
    if (strcmp(limit, "copy") == 0) share = (copying > reading ? copying : reading) / seconds;
    if (strcmp(limit, "read") == 0) share = bytes / read_rate / seconds;
    if (strncmp(limit, "fma:", 4) == 0) share = 2 * elements * atof(limit + 4) / seconds / fma_rate;
    if (json) printf("{\"seconds\": %.9g, \"bytes\": %.17g, \"share\": %.4g}\n", seconds, bytes, share);
    else printf("%-6.*s %-30s %-60.60s %11.2f us %8.2f GB/s %6.2f\n", (int)strcspn(limit, ":"), limit, strncmp(name, "aten::", 6) == 0 ? name + 6 : name, text, seconds * 1e6, bytes / seconds * 1e-9, share);
    fflush(stdout);
    nbx_scope_close(ctx, scope, NULL);
}

int main(int argc, char **argv) {
    const bool json = argc > 1 && strcmp(argv[argc - 1], "--json") == 0;
    const char *path = argc > 1 + json ? argv[1] : "bench/ops.txt";
    const nbx_options options = {.threads = argc > 2 + json ? atoi(argv[2]) : 0};
    FILE *rows = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    ctx = nbx_context_create(&options);
    if (!ctx || !rows) die(path, "cannot be read");
    measure_machine();
    const char *form = json ? "{\"isa\": \"%s\", \"threads\": %d, \"read\": %.4g, \"copy\": %.4g, \"fma\": %.4g}\n"
                            : "isa %s, %d threads; read %.3g, copy %.3g bytes/s, multiply-add %.3g flop/s\n";
    printf(form, nbx_context_isa(ctx), nbx_context_threads(ctx), read_rate, copy_rate, fma_rate);
    fflush(stdout);
    for (char line[1024]; fgets(line, sizeof line, rows);) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] && line[0] != '#') run_row(line, json);
    }
    nbx_context_destroy(ctx);
    return 0;
}

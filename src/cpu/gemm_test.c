// Matrix products against plain loops in the documented order, bit for bit: every dtype, odd shapes, all layouts, batches,
// packed or not, one or three threads, every instruction set.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/half.h"
#include "core/memory.h"
#include "cpu/gemm.h"
#include "cpu/isa.h"

static uint64_t random_state = 88172645463325252u;
static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}
static int below(int n) { return (int)(random_bits() % (uint64_t)n); }
static double uniform(void) { return (double)(random_bits() >> 11) * 0x1p-52 - 1.0; }

static void put(nbx_dtype dtype, void *p, int64_t i, double x, double imaginary)
{
    switch (dtype) {
    case NBX_FLOAT32: ((float *)p)[i] = (float)x; break;
    case NBX_FLOAT64: ((double *)p)[i] = x; break;
    case NBX_FLOAT16: ((uint16_t *)p)[i] = nbx_to_f16((float)x); break;
    case NBX_BFLOAT16: ((uint16_t *)p)[i] = nbx_to_bf16((float)x); break;
    case NBX_COMPLEX64: ((float *)p)[2 * i] = (float)x, ((float *)p)[2 * i + 1] = (float)imaginary; break;
    case NBX_COMPLEX128: ((double *)p)[2 * i] = x, ((double *)p)[2 * i + 1] = imaginary; break;
    case NBX_INT8: case NBX_UINT8: ((uint8_t *)p)[i] = (uint8_t)(int64_t)x; break;
    case NBX_INT16: ((int16_t *)p)[i] = (int16_t)(int64_t)x; break;
    case NBX_INT32: ((uint32_t *)p)[i] = (uint32_t)(int64_t)x; break;
    default: ((int64_t *)p)[i] = (int64_t)x; break;
    }
}
static double get(nbx_dtype dtype, const void *p, int64_t i, int part)
{
    switch (dtype) {
    case NBX_FLOAT32: return (double)((const float *)p)[i];
    case NBX_FLOAT64: return ((const double *)p)[i];
    case NBX_FLOAT16: return (double)nbx_from_f16(((const uint16_t *)p)[i]);
    case NBX_BFLOAT16: return (double)nbx_from_bf16(((const uint16_t *)p)[i]);
    case NBX_COMPLEX64: return (double)((const float *)p)[2 * i + part];
    case NBX_COMPLEX128: return ((const double *)p)[2 * i + part];
    case NBX_INT8: return ((const int8_t *)p)[i];
    case NBX_UINT8: return ((const uint8_t *)p)[i];
    case NBX_INT16: return ((const int16_t *)p)[i];
    case NBX_INT32: return ((const int32_t *)p)[i];
    default: return (double)((const int64_t *)p)[i];
    }
}

// a * b + c in the type the sum is kept in.
static double step(bool single, double a, double b, double c) { return single ? (double)fmaf((float)a, (float)b, (float)c) : fma(a, b, c); }
static double sum_of(bool single, double a, double b) { return single ? (double)((float)a + (float)b) : a + b; }
static double times(bool single, double a, double b) { return single ? (double)((float)a * (float)b) : a * b; }

static double activated(nbx_activation activation, double y)
{
    switch (activation) {
    case NBX_ACTIVATION_RELU: return y > 0 ? y : 0;
    case NBX_ACTIVATION_GELU: return y * 0.5 * (1 + erf(y * 0.70710678118654752440));
    case NBX_ACTIVATION_GELU_TANH: return y * 0.5 * (1 + tanh(0.79788456080286535588 * (y + 0.044715 * y * y * y)));
    case NBX_ACTIVATION_SILU: return y / (1 + exp(-y));
    case NBX_ACTIVATION_SIGMOID: return 1 / (1 + exp(-y));
    default: return y;
    }
}

// What C[entry, row, col] should be, part 0 or 1 of a complex one.
static double expected(const nbx_gemm *g, int64_t entry, int64_t row, int64_t col, int part)
{
    const bool complex = nbx_dtype_is_complex(g->dtype), single = g->dtype != NBX_FLOAT64 && g->dtype != NBX_COMPLEX128;
    const bool integer = nbx_dtype_is_integral(g->dtype, true);
    double total[2] = {0, 0};
    const int64_t block = complex ? 128 : 256;
    for (int64_t k0 = 0; k0 < g->k; k0 += block) {
        double sum[2] = {0, 0};
        for (int64_t k = k0; k < g->k && k < k0 + block; k++) {
            const int64_t ia = entry * g->batch_stride_a + row * g->row_stride_a + k * g->col_stride_a;
            const int64_t ib = entry * g->batch_stride_b + k * g->row_stride_b + col * g->col_stride_b;
            const double a = get(g->dtype, g->a, ia, 0), b = get(g->dtype, g->b, ib, 0);
            if (!complex) {
                sum[0] = integer ? sum[0] + a * b : step(single, a, b, sum[0]);
                continue;
            }
            const double ai = get(g->dtype, g->a, ia, 1), bi = get(g->dtype, g->b, ib, 1);
            sum[0] = step(single, ai, -bi, step(single, a, b, sum[0]));
            sum[1] = step(single, ai, b, step(single, a, bi, sum[1]));
        }
        for (int i = 0; i < 2; i++) total[i] = integer ? total[i] + sum[i] : k0 == 0 ? sum[i] : sum_of(single, total[i], sum[i]);
    }
    const int64_t id = g->d == NULL ? entry * g->batch_stride_c + row * g->row_stride_c + col * g->col_stride_c
                                    : entry * g->batch_stride_d + row * g->row_stride_d + col * g->col_stride_d;
    const void *d = g->d == NULL ? g->c : g->d;
    const double bias = g->bias == NULL ? 0 : get(g->out_dtype, g->bias, g->bias_per_row ? row : col, part);
    if (integer) {
        const int64_t y = (int64_t)total[0] * (int64_t)g->alpha + (g->beta != 0 ? (int64_t)g->beta * (int64_t)get(g->out_dtype, d, id, 0) : 0);
        int64_t wrapped = 0;
        put(g->out_dtype, &wrapped, 0, (double)(y + (int64_t)bias), 0);
        return get(g->out_dtype, &wrapped, 0, 0);
    }
    if (complex) {
        const double beta[2] = {g->beta, g->beta_imaginary}, alpha[2] = {g->alpha, g->alpha_imaginary};
        double y = part == 0 ? total[0] * alpha[0] - total[1] * alpha[1] : total[0] * alpha[1] + total[1] * alpha[0];
        if (beta[0] != 0 || beta[1] != 0) {
            const double dr = get(g->dtype, d, id, 0), di = get(g->dtype, d, id, 1);
            y += part == 0 ? dr * beta[0] - di * beta[1] : dr * beta[1] + di * beta[0];
        }
        return y + bias;
    }
    double y = g->alpha == 1 ? total[0] : times(single, total[0], g->alpha);
    if (g->beta != 0) y = step(single, g->beta, get(g->out_dtype, d, id, 0), y);
    if (g->bias != NULL) y = sum_of(single, y, bias);
    y = activated(g->activation, y);
    double rounded = 0;
    put(g->out_dtype, &rounded, 0, y, 0);
    return get(g->out_dtype, &rounded, 0, 0);
}

typedef struct matrix {
    char *data;
    int64_t row, col, entry, bytes;
} matrix;

// layout 0: rows, 1: columns, 2: rows with a gap, 3: every second element
static matrix make(nbx_dtype dtype, int64_t batch, int64_t rows, int64_t cols, int layout, bool shared)
{
    matrix x;
    x.row = layout == 1 ? 1 : layout == 0 ? cols : layout == 2 ? cols + 3 : 2 * cols + 1;
    x.col = layout == 1 ? rows : layout == 3 ? 2 : 1;
    const int64_t span = rows == 0 || cols == 0 ? 1 : (rows - 1) * x.row + (cols - 1) * x.col + 1;
    x.entry = shared ? 0 : span + 1;
    x.bytes = (int64_t)nbx_dtype_size(dtype) * (span + 1) * (shared ? 1 : batch);
    x.data = nbx_alloc((size_t)x.bytes);
    const bool integer = nbx_dtype_is_integral(dtype, true);
    for (int64_t i = 0; i < x.bytes / (int64_t)nbx_dtype_size(dtype); i++)
        put(dtype, x.data, i, integer ? (double)(below(255) - 127) : uniform(), uniform());
    return x;
}

typedef struct test_case {
    nbx_dtype dtype, out_dtype;
    int64_t batch, m, n, k;
    int layout_a, layout_b, layout_c;
    bool extras;
} test_case;

static void check(const test_case *t, nbx_pool *pool, int isa, bool packed)
{
    matrix a = make(t->dtype, t->batch, t->m, t->k, t->layout_a, false), b = make(t->dtype, t->batch, t->k, t->n, t->layout_b, t->extras);
    matrix c = make(t->out_dtype, t->batch, t->m, t->n, t->layout_c, false), d = make(t->out_dtype, t->batch, t->m, t->n, 0, false);
    matrix bias = make(t->out_dtype, 1, 1, t->m + t->n, 0, false);
    const bool complex = nbx_dtype_is_complex(t->dtype);
    nbx_gemm g = {.m = t->m, .n = t->n, .k = t->k, .batch = t->batch, .dtype = t->dtype, .out_dtype = t->out_dtype,
                  .a = a.data, .row_stride_a = a.row, .col_stride_a = a.col, .batch_stride_a = a.entry,
                  .b = b.data, .row_stride_b = b.row, .col_stride_b = b.col, .batch_stride_b = b.entry,
                  .c = c.data, .row_stride_c = c.row, .col_stride_c = c.col, .batch_stride_c = c.entry,
                  .alpha = 1, .force_isa = 1 + isa};
    const bool integer = nbx_dtype_is_integral(t->dtype, true);
    if (t->extras) {
        g.alpha = integer ? 3 : 0.75;
        g.beta = integer ? -2 : 1.25;
        if (complex) g.alpha_imaginary = 0.5, g.beta_imaginary = -0.25;
        if (t->m % 2) g.d = d.data, g.row_stride_d = 0, g.col_stride_d = 1, g.batch_stride_d = d.entry;
        g.bias = bias.data;
        g.bias_per_row = t->n % 2;
        if (!complex && !integer) g.activation = (nbx_activation)(t->k % 6);
    }
    char *before = nbx_alloc((size_t)c.bytes);
    memcpy(before, c.data, (size_t)c.bytes);
    void *weights = NULL;
    if (packed) {
        weights = nbx_alloc(nbx_gemm_packed_bytes(&g));
        nbx_gemm_pack_b(&g, weights, pool);
        g.packed_b = weights;
    }
    void *scratch = nbx_alloc(nbx_gemm_scratch_bytes(&g, nbx_pool_threads(pool)));
    nbx_gemm_run(&g, pool, scratch);
    // exact where every step is one rounding that C repeats; else a few units of the accumulation type
    const bool exact = !complex && !(g.activation > NBX_ACTIVATION_RELU);
    const double tolerance = t->out_dtype == NBX_FLOAT16 ? 1e-3 : t->out_dtype == NBX_BFLOAT16 ? 8e-3
                           : t->dtype == NBX_FLOAT64 || t->dtype == NBX_COMPLEX128 ? 1e-14 : 2e-6;
    char *result = c.data;
    g.c = before;
    for (int64_t e = 0; e < t->batch; e++) for (int64_t i = 0; i < t->m; i++) for (int64_t j = 0; j < t->n; j++) {
        for (int part = 0; part < (complex ? 2 : 1); part++) {
            if (below((int)(t->batch * t->m * t->n)) > 100 && !(i == t->m - 1 && j == t->n - 1)) continue; // a sample
            const double want = expected(&g, e, i, j, part), got = get(t->out_dtype, result, e * c.entry + i * c.row + j * c.col, part);
            if (exact ? got == want : fabs(got - want) <= tolerance * (1 + fabs(want))) continue;
            fail_msg("%s %s -> %s [%lld, %lld, %lld] x %lld layouts %d %d %d extras %d packed %d threads %d: C[%lld, %lld, %lld] is %a, not %a",
                     nbx_isa_name((nbx_isa)isa), nbx_dtype_rows[t->dtype].name, nbx_dtype_rows[t->out_dtype].name, (long long)t->m,
                     (long long)t->n, (long long)t->k, (long long)t->batch, t->layout_a, t->layout_b, t->layout_c, t->extras, packed,
                     nbx_pool_threads(pool), (long long)e, (long long)i, (long long)j, got, want);
        }
    }
    // elements of C's memory that are not C's stay
    for (int64_t e = 0; e < t->batch; e++) for (int64_t i = 0; i < t->m; i++) for (int64_t j = 0; j < t->n; j++) {
        const int64_t size = (int64_t)nbx_dtype_size(t->out_dtype), at = (e * c.entry + i * c.row + j * c.col) * size;
        memset(result + at, 0, (size_t)size);
        memset(before + at, 0, (size_t)size);
    }
    assert_memory_equal(result, before, (size_t)c.bytes);
    nbx_free(scratch), nbx_free(weights), nbx_free(before);
    nbx_free(a.data), nbx_free(b.data), nbx_free(c.data), nbx_free(d.data), nbx_free(bias.data);
}

static nbx_pool *pools[2];
static bool have_isa(int isa)
{
    static const bool compiled[NBX_ISA_COUNT] = {
#ifdef NBX_HAVE_ISA_BASELINE
        [NBX_ISA_BASELINE] = true,
#endif
#ifdef NBX_HAVE_ISA_AVX2
        [NBX_ISA_AVX2] = true,
#endif
#ifdef NBX_HAVE_ISA_AVX512
        [NBX_ISA_AVX512] = true,
#endif
    };
    return compiled[isa] && isa <= (int)nbx_isa_detect();
}

static void check_all_ways(const test_case *t)
{
    const bool packable = t->dtype == NBX_FLOAT32 || t->dtype == NBX_FLOAT64 || t->dtype == NBX_FLOAT16 || t->dtype == NBX_BFLOAT16;
    for (int isa = 0; isa < NBX_ISA_COUNT; isa++) {
        if (!have_isa(isa) || (isa == 0 && t->batch * t->m * t->n * t->k > 2000000)) continue;
        for (int threads = 0; threads < 2; threads++) {
            for (int packed = 0; packed <= packable; packed++) check(t, pools[threads], isa, packed);
        }
    }
}

static const nbx_dtype pairs[][2] = {
    {NBX_FLOAT32, NBX_FLOAT32}, {NBX_FLOAT32, NBX_BFLOAT16}, {NBX_FLOAT16, NBX_FLOAT16}, {NBX_BFLOAT16, NBX_BFLOAT16},
    {NBX_BFLOAT16, NBX_FLOAT32}, {NBX_FLOAT64, NBX_FLOAT64}, {NBX_COMPLEX64, NBX_COMPLEX64}, {NBX_COMPLEX128, NBX_COMPLEX128},
    {NBX_INT8, NBX_INT32}, {NBX_UINT8, NBX_UINT8}, {NBX_INT16, NBX_INT16}, {NBX_INT32, NBX_INT32}, {NBX_INT64, NBX_INT64},
};
#define PAIRS (int)(sizeof pairs / sizeof pairs[0])

static void every_dtype_and_layout(void **state)
{
    (void)state;
    for (int i = 0; i < PAIRS; i++) {
        for (int layouts = below(3); layouts < 64; layouts += 1 + below(4)) {
            const test_case t = {pairs[i][0], pairs[i][1], 1 + below(3), 1 + below(40), 1 + below(40), below(300),
                                 layouts & 3, layouts >> 2 & 3, layouts >> 4 & 3, layouts % 2 == 0};
            check_all_ways(&t);
        }
    }
}

static void shapes(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {
        {0, 5, 5}, {5, 0, 5}, {5, 5, 0}, {1, 1, 1}, {1, 1, 5000}, {1, 100, 600}, {2, 129, 257}, {3, 64, 1024}, {4, 4, 4}, {100, 1, 600},
        {129, 3, 257}, {14, 32, 256}, {15, 33, 257}, {28, 128, 512}, {29, 127, 511}, {169, 129, 300}, {168, 128, 256}, {340, 70, 100},
        {200, 260, 40}, {7, 500, 20}, {1, 3000, 20}, {16, 16, 16}, {13, 31, 255}, {64, 64, 1024},
    };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int i = 0; i < PAIRS; i++) {
            for (int way = 0; way < 3; way++) {
                const test_case t = {pairs[i][0], pairs[i][1], way == 2 ? 3 : 1, sizes[s][0], sizes[s][1], sizes[s][2], way == 1, way == 0, 0, way == 2};
                check_all_ways(&t);
            }
        }
    }
}

static void long_sums(void **state)
{
    (void)state;
    const test_case t = {NBX_FLOAT32, NBX_FLOAT32, 1, 33, 40, 40000, 0, 0, 0, true};
    check_all_ways(&t);
    const test_case vector = {NBX_BFLOAT16, NBX_FLOAT32, 1, 1, 7, 40000, 0, 1, 0, false};
    check_all_ways(&vector);
}

// What is not a number stays one, and beta 0 does not read C.
static void not_a_number(void **state)
{
    (void)state;
    float a[6] = {1, NAN, 0, 1, 2, 3}, b[6] = {1, 2, 3, 4, INFINITY, 6}, c[4] = {NAN, NAN, NAN, NAN};
    nbx_gemm g = {.m = 2, .n = 2, .k = 3, .batch = 1, .dtype = NBX_FLOAT32, .out_dtype = NBX_FLOAT32, .a = a, .row_stride_a = 3,
                  .col_stride_a = 1, .b = b, .row_stride_b = 2, .col_stride_b = 1, .c = c, .row_stride_c = 2, .col_stride_c = 1, .alpha = 1};
    void *scratch = nbx_alloc(nbx_gemm_scratch_bytes(&g, 1));
    nbx_gemm_run(&g, NULL, scratch);
    assert_true(isnan(c[0]) && isnan(c[1]) && c[2] == INFINITY && c[3] == 28);
    nbx_free(scratch);
}

static int open_pools(void **state)
{
    (void)state;
    pools[1] = nbx_pool_create(3);
    return 0;
}
static int close_pools(void **state)
{
    (void)state;
    nbx_pool_destroy(pools[1]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_dtype_and_layout), cmocka_unit_test(shapes), cmocka_unit_test(long_sums), cmocka_unit_test(not_a_number),
    };
    return cmocka_run_group_tests(tests, open_pools, close_pools);
}

// simd.h against plain C, lane by lane, on every instruction set: special values and random bits.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "cpu/isa.h"

typedef int rows_function(const float *x, const float *y, const float *z, uint32_t (*rows)[16]);
typedef int double_rows_function(const double *x, const double *y, const double *z, uint64_t (*rows)[8]);
typedef void narrow_function(const float *x, uint16_t *f16, uint16_t *bf16);
typedef void widen_function(const uint16_t *x, float *f16, float *bf16);
typedef bool partial_function(int n);
typedef float sum_function(const float *x);

#define DECLARE(ISA)                                                                                      \
    rows_function simd_rows_##ISA; double_rows_function simd_double_rows_##ISA; narrow_function simd_narrow_##ISA; \
    widen_function simd_widen_##ISA; partial_function simd_partial_##ISA; sum_function simd_sum_##ISA;
#define ROW(ISA) {simd_rows_##ISA, simd_double_rows_##ISA, simd_narrow_##ISA, simd_widen_##ISA, simd_partial_##ISA, simd_sum_##ISA}
DECLARE(baseline) DECLARE(avx2) DECLARE(avx512)

static const struct {
    rows_function *rows; double_rows_function *double_rows; narrow_function *narrow;
    widen_function *widen; partial_function *partial; sum_function *sum;
} functions[NBX_ISA_COUNT] = {
#ifdef NBX_HAVE_ISA_BASELINE
    [NBX_ISA_BASELINE] = ROW(baseline),
#endif
#ifdef NBX_HAVE_ISA_AVX2
    [NBX_ISA_AVX2] = ROW(avx2),
#endif
#ifdef NBX_HAVE_ISA_AVX512
    [NBX_ISA_AVX512] = ROW(avx512),
#endif
};
#define EACH_ISA(isa) for (int isa = 0; isa < NBX_ISA_COUNT; isa++) if (functions[isa].rows != NULL && isa <= (int)nbx_isa_detect())

static int32_t bits_of(float x) { int32_t r; memcpy(&r, &x, 4); return r; }
static float float_of(int32_t x) { float r; memcpy(&r, &x, 4); return r; }
static int32_t to_int(float x) { return x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN; }

#define F(expression) for (int l = 0; l < 16; l++) { const float x = X[l], y = Y[l], z = Z[l]; (void)x; (void)y; (void)z; const float v = expression; memcpy(&rows[r][l], &v, 4); } r++
#define I(expression) for (int l = 0; l < 16; l++) { const float x = X[l], y = Y[l], z = Z[l]; (void)z; const int32_t i = bits_of(x), j = bits_of(y); (void)i; (void)j; rows[r][l] = (uint32_t)(expression); } r++
#define D(expression) for (int l = 0; l < 8; l++) { const double x = X[l], y = Y[l], z = Z[l]; (void)x; (void)y; (void)z; const double v = expression; memcpy(&rows[r][l], &v, 8); } r++
#define U(expression) for (int l = 0; l < 8; l++) { uint64_t i, j; memcpy(&i, &X[l], 8); memcpy(&j, &Y[l], 8); (void)j; rows[r][l] = expression; } r++

static int plain_rows(const float *X, const float *Y, const float *Z, uint32_t (*rows)[16])
{
    int r = 0;
    F(x + y); F(x - y); F(x * y); F(x / y); F(sqrtf(x));
    F(fmaf(x, y, z)); F(fmaf(-x, y, z)); F(fmaf(x, y, -z));
    F(floorf(x)); F(ceilf(x)); F(truncf(x)); F(rintf(x)); F(fabsf(x)); F(-x); F(copysignf(x, y));
    F(x < y ? x : y); F(x > y ? x : y); F(isnan(x) ? x : x < y ? x : y); F(isnan(x) ? x : x > y ? x : y); F(x < y ? x : z);
    I(x == y); I(x != y); I(x < y); I(x <= y); I(x > y); I(x >= y); I(x != x);
    I(to_int(x)); I(to_int(rintf(x))); F((float)bits_of(x));
    I((uint32_t)i + (uint32_t)j); I((uint32_t)i - (uint32_t)j); I((uint32_t)i * (uint32_t)j); I(i & j); I(i | j); I(i ^ j); I(~i & j);
    I((uint32_t)i << 5); I((uint32_t)i >> 7); I(i >> 9); I((uint32_t)i << l); I(l + 20 < 32 ? (uint32_t)i >> (l + 20) : 0);
    I(i == j); I(i > j); I(i < j ? i : j); I(i > j ? i : j);
    F(x);
    I(x < y); I((x < y) != !isnan(z)); I(l < 11);
    F(X[bits_of(y) & 15]);
    return r;
}

static double double_of(uint64_t x) { double r; memcpy(&r, &x, 8); return r; }

static int plain_double_rows(const double *X, const double *Y, const double *Z, uint64_t (*rows)[8])
{
    int r = 0;
    D(x + y); D(x * y); D(x / y); D(sqrt(x)); D(fma(x, y, z)); D(fma(-x, y, z)); D(fma(x, y, -z));
    D(floor(x)); D(ceil(x)); D(trunc(x)); D(rint(x)); D(isnan(x) ? x : x < y ? x : y); D(isnan(x) ? x : x > y ? x : y); D(copysign(x, y));
    D(x <= y ? x : z);
    U((i & 3) == 2 ? i : j);
    U(i + j); U(i - j); U(i << 13); U(i >> 21);
    return r;
}

static uint64_t random_state = 88172645463325252u;
static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static const float specials[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, -0.5f, 1.5f, 2.5f, -2.5f, 0x1p-149f, -0x1p-126f, INFINITY, -INFINITY,
    NAN, 0x1.fffffep127f, 0x1p23f, 0x1.000001p23f, -0x1.7ffffep22f, 0x1p31f, -0x1p31f, 0x1.fffffep30f, 65519.0f, 65520.0f, 0x1p-24f,
    0x1p-25f, 0x1.8p-25f, 0x1.ffcp-15f, 3.4e38f, 0.49999997f, 8388609.0f, 1e-20f, -1e20f};

// Nearby exponents half of the time, so that sums cancel and products of small numbers become subnormal.
static float random_float(void)
{
    const uint64_t r = random_bits();
    if (r % 4 == 0) return specials[r / 4 % 32];
    const float f = float_of((int32_t)(r >> 32));
    return r % 4 == 1 ? f : ldexpf(1.0f + (float)(r >> 40) * 0x1p-24f, (int)(r >> 8 & 7) - 4) * (r & 64 ? -1.0f : 1.0f);
}

static bool same(uint32_t a, uint32_t b) { return a == b || (isnan(float_of((int32_t)a)) && isnan(float_of((int32_t)b))); }

static void float_and_int_lanes(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        float x[16], y[16], z[16];
        uint32_t plain[64][16], got[64][16];
        for (int i = 0; i < 16; i++) x[i] = random_float(), y[i] = random_float(), z[i] = i % 3 ? random_float() : -x[i] * y[i];
        const int rows = plain_rows(x, y, z, plain);
        EACH_ISA(isa) {
            assert_int_equal(functions[isa].rows(x, y, z, got), rows);
            for (int r = 0; r < rows; r++) for (int l = 0; l < 16; l++) if (!same(plain[r][l], got[r][l])) {
                fail_msg("%s row %d: x %a y %a z %a: got %08x, plain %08x", nbx_isa_name((nbx_isa)isa), r, (double)x[l], (double)y[l],
                         (double)z[l], got[r][l], plain[r][l]);
            }
        }
    }
}

static void double_lanes(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        double x[8], y[8], z[8];
        uint64_t plain[32][8], got[32][8];
        for (int i = 0; i < 8; i++) {
            x[i] = round % 2 ? (double)random_float() : double_of(random_bits());
            y[i] = round % 2 ? (double)random_float() : double_of(random_bits());
            z[i] = i % 3 ? (double)random_float() : -x[i] * y[i];
        }
        const int rows = plain_double_rows(x, y, z, plain);
        EACH_ISA(isa) {
            assert_int_equal(functions[isa].double_rows(x, y, z, got), rows);
            for (int r = 0; r < rows; r++) for (int l = 0; l < 8; l++) {
                if (plain[r][l] != got[r][l] && !(isnan(double_of(plain[r][l])) && isnan(double_of(got[r][l])))) {
                    fail_msg("%s row %d: x %a y %a z %a: got %a, plain %a", nbx_isa_name((nbx_isa)isa), r, x[l], y[l], z[l],
                             double_of(got[r][l]), double_of(plain[r][l]));
                }
            }
        }
    }
}

static double f16_value(uint16_t h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const double size = exponent == 0 ? ldexp(fraction, -24) : exponent == 31 ? (fraction ? NAN : INFINITY)
                                                             : ldexp(1024 + fraction, exponent - 25);
    return h & 0x8000 ? -size : size;
}

static void widening_is_exact(void **state)
{
    (void)state;
    EACH_ISA(isa) for (int first = 0; first < 65536; first += 16) {
        uint16_t in[16], f16[16], bf16[16];
        float a[16], b[16];
        for (int i = 0; i < 16; i++) in[i] = (uint16_t)(first + i);
        functions[isa].widen(in, a, b);
        functions[isa].narrow(a, f16, bf16);
        for (int i = 0; i < 16; i++) {
            const double exact = f16_value(in[i]);
            assert_true(isnan(exact) ? isnan(a[i]) : (double)a[i] == exact && !signbit(a[i]) == !(in[i] & 0x8000));
            assert_int_equal((uint32_t)bits_of(b[i]), (uint32_t)in[i] << 16);
            assert_int_equal(f16[i], isnan(exact) ? in[i] | 0x200 : in[i]); // and back, NaN quiet
        }
    }
}

// Nearest, halves to the even one: no neighbour of the result is nearer to x.
static void narrowing_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int round = 0; round < 20000; round++) {
        float x[16];
        uint16_t f16[16], bf16[16];
        for (int i = 0; i < 16; i++) {
            x[i] = round % 2 ? random_float() : (float)f16_value((uint16_t)random_bits()) + (i % 2 ? 0 : 0x1p-25f * (float)(random_bits() % 3));
            if (i == 5) x[i] = float_of((int32_t)(random_bits() & 0xffff0000) | 0x8000); // halfway for bfloat16
        }
        EACH_ISA(isa) {
            functions[isa].narrow(x, f16, bf16);
            for (int i = 0; i < 16; i++) {
                if (isnan(x[i])) {
                    assert_true(isnan(f16_value(f16[i])));
                    assert_true((bf16[i] & 0x7fff) > 0x7f80);
                    continue;
                }
                const double size = fabs((double)x[i]);
                const uint16_t h = f16[i] & 0x7fff;
                assert_int_equal(f16[i] >> 15, signbit(x[i]) != 0);
                if (h == 0x7c00) {
                    assert_true(size >= 65520);
                } else {
                    const double down = h > 0 ? f16_value((uint16_t)(h - 1)) : 0, value = f16_value(h);
                    const double up = h == 0x7bff ? 65536 : f16_value((uint16_t)(h + 1));
                    assert_true(h & 1 ? size > (down + value) / 2 && size < (up + value) / 2
                                      : size >= (h > 0 ? (down + value) / 2 : 0) && size <= (up + value) / 2);
                }
                const uint32_t bits = (uint32_t)bits_of(x[i]), upper = bits >> 16, lower = bits & 0xffff;
                assert_int_equal(bf16[i], upper + (lower > 0x8000 || (lower == 0x8000 && upper & 1)));
            }
        }
    }
}

static void partial_loads_and_stores(void **state)
{
    (void)state;
    EACH_ISA(isa) for (int n = 0; n <= 16; n++) assert_true(functions[isa].partial(n));
}

static void sums_have_one_order(void **state)
{
    (void)state;
    for (int round = 0; round < 1000; round++) {
        float x[16], t[16];
        for (int i = 0; i < 16; i++) t[i] = x[i] = ldexpf((float)(int32_t)random_bits(), (int)(random_bits() % 9));
        for (int step = 8; step > 0; step /= 2) for (int i = 0; i < step; i++) t[i] += t[i + step];
        EACH_ISA(isa) assert_true(functions[isa].sum(x) == t[0]);
    }
}

static void isa_names(void **state)
{
    (void)state;
    for (int isa = 0; isa < NBX_ISA_COUNT; isa++) assert_int_equal(nbx_isa_parse(nbx_isa_name((nbx_isa)isa)), isa);
    assert_true((int)nbx_isa_parse("avx1024") < 0 && (int)nbx_isa_parse(NULL) < 0);
    assert_true(nbx_isa_best() <= nbx_isa_detect());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_and_int_lanes),
        cmocka_unit_test(double_lanes),
        cmocka_unit_test(widening_is_exact),
        cmocka_unit_test(narrowing_rounds_to_nearest_even),
        cmocka_unit_test(partial_loads_and_stores),
        cmocka_unit_test(sums_have_one_order),
        cmocka_unit_test(isa_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Measures the error of every function of vecmath.h on every instruction set, and that all of them return the same bits.
//   nbx-tests vecmath_test              every 4099th float, and the special ones
//   nbx-tests vecmath_test all [name]   all 2^32 floats: a minute or two per function
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

#include "cpu/isa.h"
#include "cpu/pool.h"

typedef bool f32_function(const char *name, const float *x, float *y, int n);
typedef bool f64_function(const char *name, const double *x, double *y, int n);
typedef void pow_function(const float *x, const float *y, float *r, int n);

#define DECLARE(ISA) f32_function vecmath_f32_##ISA; f64_function vecmath_f64_##ISA; pow_function vecmath_pow_##ISA;
#define ROW(ISA) {vecmath_f32_##ISA, vecmath_f64_##ISA, vecmath_pow_##ISA}
DECLARE(baseline) DECLARE(avx2) DECLARE(avx512)

struct functions { f32_function *f32; f64_function *f64; pow_function *pow; };

static const struct functions functions[NBX_ISA_COUNT] = {
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

static bool usable(int isa) { return functions[isa].f32 != NULL && isa <= (int)nbx_isa_detect(); }

static bool check_all;
static const char *only;

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
static double rsqrt(double x) { return 1 / sqrt(x); }
static long double sigmoid_l(long double x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }

// ulp: the largest errors found over all 2^32 inputs, rounded up.
static const struct { const char *name; double (*exact)(double); double ulp; } f32_cases[] = {
    {"exp", exp, 1.0}, {"exp2", exp2, 1.0}, {"expm1", expm1, 0.51}, {"log", log, 1.0}, {"log2", log2, 0.51},
    {"log10", log10, 0.51}, {"log1p", log1p, 0.51}, {"sigmoid", sigmoid, 2.01}, {"tanh", tanh, 1.25}, {"erf", erf, 1.8},
    {"erfc", erfc, 0.6}, {"sin", sin, 0.51}, {"cos", cos, 0.51}, {"tan", tan, 0.51}, {"rsqrt", rsqrt, 1.5},
    {"asin", asin, 0.51}, {"acos", acos, 0.51}, {"atan", atan, 0.51}, {"sinh", sinh, 0.51}, {"cosh", cosh, 0.51}, {"asinh", asinh, 0.51},
    {"acosh", acosh, 0.51}, {"atanh", atanh, 0.51},
    // Of these only that all instruction sets agree: bounds are those of 16 bits, or ATen's formulas.
    {"silu", NULL, 0}, {"gelu", NULL, 0}, {"gelu_tanh", NULL, 0}, {"exp_short", NULL, 0}, {"sigmoid_short", NULL, 0}, {"tanh_short", NULL, 0},
    {"erf_short", NULL, 0}, {"silu_short", NULL, 0}, {"gelu_short", NULL, 0}, {"erfinv", NULL, 0},
};
static const struct { const char *name; long double (*exact)(long double); double ulp; } f64_cases[] = {
    {"exp", expl, 1.0}, {"expm1", expm1l, 1.8}, {"log", logl, 1.0}, {"sigmoid", sigmoid_l, 2.2}, {"tanh", tanhl, 2.2},
    {"sin", sinl, 1.0}, {"cos", cosl, 1.0},
};

static bool same_class(double got, double exact) { return isnan(exact) ? isnan(got) : got == exact && !signbit(got) == !signbit(exact); }

// The distance in units of the last place of the exact value's float neighbours; INFINITY when the kind is wrong.
static double ulp_f32(float got, double exact)
{
    if (isnan(exact) || isinf(exact) || exact == 0) return same_class((double)got, exact) ? 0 : INFINITY;
    if (isinf(got)) return fabs(exact) >= 0x1.ffffffp127 && (got > 0) == (exact > 0) ? 0 : INFINITY;
    if (isnan(got)) return INFINITY;
    const int exponent = ilogb(exact) < -126 ? -149 : ilogb(exact) - 23;
    return fabs(((double)got - exact) * ldexp(1, -exponent));
}
static double ulp_f64(double got, long double exact)
{
    if (isnan(exact) || isinf(exact) || exact == 0) return same_class(got, (double)exact) ? 0 : INFINITY;
    if (isinf(got)) return fabsl(exact) >= 0x1.fffffffffffff8p1023L && (got > 0) == (exact > 0) ? 0 : INFINITY;
    if (isnan(got)) return INFINITY;
    const int exponent = ilogbl(exact) < -1022 ? -1074 : ilogbl(exact) - 52;
    return (double)fabsl(ldexpl((long double)got - exact, -exponent));
}

#define BLOCK 4096

struct sweep {
    int which;
    uint64_t step;
    double worst[64];
    float at[64];
    uint32_t differs[64];
};

static void sweep_block(void *arg, int64_t begin, int64_t end, int thread)
{
    struct sweep *s = arg;
    float x[BLOCK], y[NBX_ISA_COUNT][BLOCK];
    for (int64_t block = begin; block < end; block++) {
        for (int i = 0; i < BLOCK; i++) {
            const uint32_t bits = (uint32_t)(((uint64_t)block * BLOCK + (uint64_t)i) * s->step);
            memcpy(&x[i], &bits, 4);
        }
        int first = -1;
        for (int isa = 0; isa < NBX_ISA_COUNT; isa++) {
            if (!usable(isa) || (check_all && isa == 0)) continue; // the baseline is slow, and equal on the sample
            functions[isa].f32(f32_cases[s->which].name, x, y[isa], BLOCK);
            if (first < 0) first = isa;
            for (int i = 0; i < BLOCK; i++) {
                if (memcmp(&y[isa][i], &y[first][i], 4) != 0 && !(isnan(y[isa][i]) && isnan(y[first][i]))) s->differs[thread]++;
            }
        }
        for (int i = 0; i < BLOCK && f32_cases[s->which].exact; i++) {
            const double error = ulp_f32(y[first][i], f32_cases[s->which].exact((double)x[i]));
            if (error > s->worst[thread]) {
                s->worst[thread] = error;
                s->at[thread] = x[i];
            }
        }
    }
}

static void floats_are_within_bounds(void **state)
{
    (void)state;
    nbx_pool *pool = nbx_pool_create(0);
    int failures = 0;
    for (size_t i = 0; i < sizeof f32_cases / sizeof f32_cases[0]; i++) {
        if (only != NULL && strcmp(only, f32_cases[i].name) != 0) continue;
        struct sweep s = {.which = (int)i, .step = check_all ? 1 : 4099};
        nbx_parallel_for(pool, (int64_t)((((uint64_t)1 << 32) / s.step + BLOCK) / BLOCK), 1, sweep_block, &s);
        int w = 0;
        uint32_t differs = 0;
        for (int t = 0; t < 64; t++) {
            if (s.worst[t] > s.worst[w]) w = t;
            differs += s.differs[t];
        }
        if (check_all || s.worst[w] > f32_cases[i].ulp || differs != 0) {
            printf("f32 %s: %.3f ulp at %a, %u results differ between instruction sets\n", f32_cases[i].name, s.worst[w],
                   (double)s.at[w], differs);
        }
        failures += s.worst[w] > f32_cases[i].ulp || differs != 0;
    }
    nbx_pool_destroy(pool);
    assert_int_equal(failures, 0);
}

static const float specials[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, -0.5f, 2.0f, -2.0f, 3.0f, -3.0f, 0x1p-149f, -0x1p-149f,
    0x1p-126f, 0x1.fffffep127f, -0x1.fffffep127f, INFINITY, -INFINITY, NAN, 0x1.fffffep-1f, 0x1.000002p0f, 88.72283f, 88.72284f,
    -87.33654f, -103.97f, -104.1f, 128.0f, -126.5f, -149.5f, -150.1f, 16777215.0f, 16777217.0f, 1e10f, 1e30f, 0.92f, 0.625f,
    -0.92f, -0.625f, 10.0f, -10.0f, 10.06f, 1.5707964f, 3.1415927f, 4.7123890f, 0x1.921fb6p20f, 1.5f, -1.5f, 1000.0f};
#define SPECIALS (int)(sizeof specials / sizeof specials[0])

static void special_floats(void **state)
{
    (void)state;
    float x[48], y[48];
    for (int i = 0; i < 48; i++) x[i] = specials[i < SPECIALS ? i : 0];
    for (int isa = 0; isa < NBX_ISA_COUNT; isa++) {
        for (size_t f = 0; usable(isa) && f < sizeof f32_cases / sizeof f32_cases[0]; f++) {
            if (!f32_cases[f].exact) continue;
            assert_true(functions[isa].f32(f32_cases[f].name, x, y, 48));
            for (int i = 0; i < 48; i++) {
                const double exact = f32_cases[f].exact((double)x[i]);
                if (ulp_f32(y[i], exact) > f32_cases[f].ulp) {
                    fail_msg("%s %s(%a): got %a, exact %a", nbx_isa_name((nbx_isa)isa), f32_cases[f].name, (double)x[i],
                             (double)y[i], exact);
                }
            }
        }
    }
}

static uint64_t random_state = 88172645463325252u;
static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void powers(void **state)
{
    (void)state;
    for (int round = 0; round < (check_all ? 20000 : 200) + SPECIALS; round++) {
        float x[256], y[256], r[NBX_ISA_COUNT][256];
        for (int i = 0; i < 256; i++) {
            const uint32_t bits = (uint32_t)random_bits();
            memcpy(&x[i], &bits, 4);
            y[i] = ((float)(int32_t)random_bits()) * 0x1p-31f * (i % 2 ? 140.0f / fmaxf(1e-6f, fabsf(log2f(fabsf(x[i])))) : 4.0f);
            if (i % 8 == 0) y[i] = rintf(y[i]);
            if (round < SPECIALS) x[i] = specials[round], y[i] = specials[i % SPECIALS];
        }
        int first = -1;
        for (int isa = 0; isa < NBX_ISA_COUNT; isa++) {
            if (!usable(isa)) continue;
            functions[isa].pow(x, y, r[isa], 256);
            if (first < 0) first = isa;
            for (int i = 0; i < 256; i++) {
                const double exact = pow((double)x[i], (double)y[i]);
                if (ulp_f32(r[isa][i], exact) > 0.53 || (memcmp(&r[isa][i], &r[first][i], 4) != 0 && !isnan(exact))) {
                    fail_msg("%s pow(%a, %a): got %a, exact %a", nbx_isa_name((nbx_isa)isa), (double)x[i], (double)y[i],
                             (double)r[isa][i], exact);
                }
            }
        }
    }
}

// Half of the doubles have any bits, half lie where the function bends.
static void fill_doubles(double *x, int n)
{
    for (int i = 0; i < n; i++) {
        const uint64_t bits = random_bits();
        memcpy(&x[i], &bits, 8);
        if (i % 2) x[i] = ((double)(int64_t)random_bits()) * (i % 4 == 1 ? 0x1p-60 : 0x1p-63 * 750);
        if (i % 16 == 15) x[i] = fabs(x[i] - 1);
        if (random_bits() % 64 == 0) x[i] = (double)specials[random_bits() % SPECIALS];
    }
}

static void doubles_are_within_bounds(void **state)
{
    (void)state;
    int failures = 0;
    for (size_t f = 0; f < sizeof f64_cases / sizeof f64_cases[0]; f++) {
        if (only != NULL && strcmp(only, f64_cases[f].name) != 0) continue;
        double worst = 0, at = 0;
        int differs = 0;
        for (int round = 0; round < (check_all ? 20000 : 300); round++) {
            double x[512], y[NBX_ISA_COUNT][512];
            fill_doubles(x, 512);
            int first = -1;
            for (int isa = 0; isa < NBX_ISA_COUNT; isa++) {
                if (!usable(isa)) continue;
                functions[isa].f64(f64_cases[f].name, x, y[isa], 512);
                if (first < 0) first = isa;
                for (int i = 0; i < 512; i++) differs += memcmp(&y[isa][i], &y[first][i], 8) != 0 && !isnan(y[first][i]);
            }
            for (int i = 0; i < 512; i++) {
                const double error = ulp_f64(y[first][i], f64_cases[f].exact((long double)x[i]));
                if (error > worst) worst = error, at = x[i];
            }
        }
        if (check_all || worst > f64_cases[f].ulp || differs != 0) {
            printf("f64 %s: %.3f ulp at %a, %d results differ between instruction sets\n", f64_cases[f].name, worst, at, differs);
        }
        failures += worst > f64_cases[f].ulp || differs != 0;
    }
    assert_int_equal(failures, 0);
}

int main(int argc, char **argv)
{
    check_all = argc > 1 && strcmp(argv[1], "all") == 0;
    only = argc > 2 ? argv[2] : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_are_within_bounds),
        cmocka_unit_test(special_floats),
        cmocka_unit_test(powers),
        cmocka_unit_test(doubles_are_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

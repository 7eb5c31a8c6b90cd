// Loops of comparisons, tests and logic.
#include "ops/elementwise/loops_simd.h"

// --------------------------------------------------------------------------------------------------------- comparisons
#define COMPARISON(NAME, OPERATOR, V)                                                                                  \
    static inline bool i_##NAME(int64_t x, int64_t y) { return x OPERATOR y; }                                         \
    static inline bool u_##NAME(uint64_t x, uint64_t y) { return x OPERATOR y; }                                       \
    static inline uint8_t d_##NAME(double x, double y) { return x OPERATOR y; }                                        \
    EW_LOOP(NAME##_f32, ew_test2, V)                                                                                   \
    EW_LOOP(NAME##_f64, ew_apply2_f64_bool, d_##NAME)                                                                  \
    EW_LOOP(NAME##_ints, ew_int_tests2, i_##NAME, u_##NAME)
COMPARISON(eq, ==, v_eq)
COMPARISON(ne, !=, v_ne)
COMPARISON(lt, <, v_lt)
COMPARISON(le, <=, v_le)
COMPARISON(gt, >, v_gt)
COMPARISON(ge, >=, v_ge)
static inline uint8_t z_eqf(ew_c64 x, ew_c64 y) { return x == y; }
static inline uint8_t z_nef(ew_c64 x, ew_c64 y) { return x != y; }
static inline uint8_t z_eq(ew_c128 x, ew_c128 y) { return x == y; }
static inline uint8_t z_ne(ew_c128 x, ew_c128 y) { return x != y; }
EW_LOOP(eq_c64, ew_apply2_c64_bool, z_eqf)
EW_LOOP(ne_c64, ew_apply2_c64_bool, z_nef)
EW_LOOP(eq_c128, ew_apply2_c128_bool, z_eq)
EW_LOOP(ne_c128, ew_apply2_c128_bool, z_ne)
EW_KERNEL(ew_eq, .f32 = eq_f32, .f64 = eq_f64, .ints = eq_ints, .c64 = eq_c64, .c128 = eq_c128)
EW_KERNEL(ew_ne, .f32 = ne_f32, .f64 = ne_f64, .ints = ne_ints, .c64 = ne_c64, .c128 = ne_c128)
EW_KERNEL(ew_lt, .f32 = lt_f32, .f64 = lt_f64, .ints = lt_ints)
EW_KERNEL(ew_le, .f32 = le_f32, .f64 = le_f64, .ints = le_ints)
EW_KERNEL(ew_gt, .f32 = gt_f32, .f64 = gt_f64, .ints = gt_ints)
EW_KERNEL(ew_ge, .f32 = ge_f32, .f64 = ge_f64, .ints = ge_ints)

// --------------------------------------------------------------------------------------------------------------- logic
static inline uint8_t b_and(uint8_t x, uint8_t y) { return x & y; }
static inline uint8_t b_or(uint8_t x, uint8_t y) { return x | y; }
static inline uint8_t b_xor(uint8_t x, uint8_t y) { return x ^ y; }
static inline uint8_t b_not(uint8_t x) { return x ^ 1; }
EW_LOOP(and_bool, ew_apply2_bool, b_and)
EW_LOOP(or_bool, ew_apply2_bool, b_or)
EW_LOOP(xor_bool, ew_apply2_bool, b_xor)
EW_LOOP(not_bool, ew_apply1_bool, b_not)
EW_KERNEL(ew_logical_and, .boolean = and_bool)
EW_KERNEL(ew_logical_or, .boolean = or_bool)
EW_KERNEL(ew_logical_xor, .boolean = xor_bool)
EW_KERNEL(ew_logical_not, .boolean = not_bool)

// --------------------------------------------------------------------------------------------------------------- tests
static inline bool i_false(int64_t x) { return (void)x, false; }
static inline bool u_false(uint64_t x) { return (void)x, false; }
static inline bool i_true(int64_t x) { return (void)x, true; }
static inline bool u_true(uint64_t x) { return (void)x, true; }
static inline bool i_negative(int64_t x) { return x < 0; }
EW_LOOP(false_ints, ew_int_tests1, i_false, u_false)
EW_LOOP(true_ints, ew_int_tests1, i_true, u_true)
EW_LOOP(negative_ints, ew_int_tests1, i_negative, u_false)

static inline vm32 f_isinf(vf32 x) { return v_eq(v_abs(x), v_set1(INFINITY)); }
static inline vm32 f_isfinite(vf32 x) { return v_lt(v_abs(x), v_set1(INFINITY)); }
static inline vm32 f_isposinf(vf32 x) { return v_eq(x, v_set1(INFINITY)); }
static inline vm32 f_isneginf(vf32 x) { return v_eq(x, v_set1(-INFINITY)); }
static inline vm32 f_isreal(vf32 x) { return vm_or(v_isnan(x), v_eq(x, x)); }
static inline vm32 f_signbit(vf32 x) { return vi_lt(v_bits(x), vi_set1(0)); }
static inline uint8_t d_isnan(double x) { return x != x; }
static inline uint8_t d_isinf(double x) { return fabs(x) == (double)INFINITY; }
static inline uint8_t d_isfinite(double x) { return fabs(x) < (double)INFINITY; }
static inline uint8_t d_isposinf(double x) { return x == (double)INFINITY; }
static inline uint8_t d_isneginf(double x) { return x == -(double)INFINITY; }
static inline uint8_t d_isreal(double x) { return (void)x, 1; }
static inline uint8_t d_signbit(double x) { return signbit(x) != 0; }
static inline uint8_t z_isnan(ew_c128 x) { return d_isnan(__real__ x) | d_isnan(__imag__ x); }
static inline uint8_t z_isinf(ew_c128 x) { return d_isinf(__real__ x) | d_isinf(__imag__ x); }
static inline uint8_t z_isfinite(ew_c128 x) { return d_isfinite(__real__ x) & d_isfinite(__imag__ x); }
static inline uint8_t z_isreal(ew_c128 x) { return __imag__ x == 0; }
EW_LOOP(isnan_f32, ew_test1, v_isnan)
EW_LOOP(isinf_f32, ew_test1, f_isinf)
EW_LOOP(isfinite_f32, ew_test1, f_isfinite)
EW_LOOP(isposinf_f32, ew_test1, f_isposinf)
EW_LOOP(isneginf_f32, ew_test1, f_isneginf)
EW_LOOP(isreal_f32, ew_test1, f_isreal)
EW_LOOP(signbit_f32, ew_test1, f_signbit)
EW_LOOP(isnan_f64, ew_apply1_f64_bool, d_isnan)
EW_LOOP(isinf_f64, ew_apply1_f64_bool, d_isinf)
EW_LOOP(isfinite_f64, ew_apply1_f64_bool, d_isfinite)
EW_LOOP(isposinf_f64, ew_apply1_f64_bool, d_isposinf)
EW_LOOP(isneginf_f64, ew_apply1_f64_bool, d_isneginf)
EW_LOOP(isreal_f64, ew_apply1_f64_bool, d_isreal)
EW_LOOP(signbit_f64, ew_apply1_f64_bool, d_signbit)
EW_LOOP(isnan_c128, ew_apply1_c128_bool, z_isnan)
EW_LOOP(isinf_c128, ew_apply1_c128_bool, z_isinf)
EW_LOOP(isfinite_c128, ew_apply1_c128_bool, z_isfinite)
EW_LOOP(isreal_c128, ew_apply1_c128_bool, z_isreal)
EW_KERNEL(ew_isnan, .f32 = isnan_f32, .f64 = isnan_f64, .ints = false_ints, .c128 = isnan_c128)
EW_KERNEL(ew_isinf, .f32 = isinf_f32, .f64 = isinf_f64, .ints = false_ints, .c128 = isinf_c128)
EW_KERNEL(ew_isfinite, .f32 = isfinite_f32, .f64 = isfinite_f64, .ints = true_ints, .c128 = isfinite_c128)
EW_KERNEL(ew_isposinf, .f32 = isposinf_f32, .f64 = isposinf_f64, .ints = false_ints)
EW_KERNEL(ew_isneginf, .f32 = isneginf_f32, .f64 = isneginf_f64, .ints = false_ints)
EW_KERNEL(ew_isreal, .f32 = isreal_f32, .f64 = isreal_f64, .ints = true_ints, .c128 = isreal_c128)
EW_KERNEL(ew_signbit, .f32 = signbit_f32, .f64 = signbit_f64, .ints = negative_ints)

// ------------------------------------------------------------------------------------------------------------- isclose
// x == y, or |x - y| finite and at most atol + |rtol y|.
static inline bool near(double difference, double size, double rtol, double atol) {
    return difference < (double)INFINITY && difference <= atol + fabs(rtol * size);
}
static void isclose_f32(const ew_run *r) {
    const float *x = r->in[0], *y = r->in[1];
    uint8_t *z = r->out[0];
    const float rtol = (float)r->params->f[0], atol = (float)r->params->f[1];
    const bool nan_too = r->params->i[0];
    for (int64_t i = 0; i < r->count; i++) {
        const float difference = fabsf(x[i] - y[i]);
        const bool close = x[i] == y[i] || (difference < INFINITY && difference <= atol + fabsf(rtol * y[i]));
        z[i] = close || (nan_too && x[i] != x[i] && y[i] != y[i]);
    }
}
static void isclose_f64(const ew_run *r) {
    const double *x = r->in[0], *y = r->in[1];
    uint8_t *z = r->out[0];
    const bool nan_too = r->params->i[0];
    for (int64_t i = 0; i < r->count; i++) {
        const bool close = x[i] == y[i] || near(fabs(x[i] - y[i]), y[i], r->params->f[0], r->params->f[1]);
        z[i] = close || (nan_too && x[i] != x[i] && y[i] != y[i]);
    }
}
static void isclose_i64(const ew_run *r) {  // differences in the default float, as ATen
    const int64_t *x = r->in[0], *y = r->in[1];
    uint8_t *z = r->out[0];
    const float rtol = (float)r->params->f[0], atol = (float)r->params->f[1];
    for (int64_t i = 0; i < r->count; i++)
        z[i] = x[i] == y[i] || fabsf((float)x[i] - (float)y[i]) <= atol + fabsf(rtol * (float)y[i]);
}
static void isclose_c128(const ew_run *r) {
    const ew_c128 *x = r->in[0], *y = r->in[1];
    uint8_t *z = r->out[0];
    const bool nan_too = r->params->i[0];
    for (int64_t i = 0; i < r->count; i++) {
        const bool close = x[i] == y[i] || near(cabs(x[i] - y[i]), cabs(y[i]), r->params->f[0], r->params->f[1]);
        z[i] = close || (nan_too && z_isnan(x[i]) && z_isnan(y[i]));
    }
}
EW_KERNEL(ew_isclose, .f32 = isclose_f32, .f64 = isclose_f64, .i64 = isclose_i64, .c128 = isclose_c128)

// Loops of functions of one argument. float32 runs in vecmath.h where it has the function, else through double.
#include "ops/elementwise/loops_simd.h"

#include "cpu/vecmath_inverse.h"
#include "ops/elementwise/complex_math.h"

// ---------------------------------------------------------------------------------------------------- integers, copies
static inline int64_t i_same(int64_t x) { return x; }
static inline uint64_t u_same(uint64_t x) { return x; }
static inline int64_t i_abs(int64_t x) { return x < 0 ? (int64_t)(0 - (uint64_t)x) : x; }
static inline int64_t i_neg(int64_t x) { return (int64_t)(0 - (uint64_t)x); }
static inline uint64_t u_neg(uint64_t x) { return 0 - x; }
static inline int64_t i_sign(int64_t x) { return (x > 0) - (x < 0); }
static inline uint64_t u_sign(uint64_t x) { return x > 0; }
static inline int64_t i_square(int64_t x) { return (int64_t)((uint64_t)x * (uint64_t)x); }
static inline uint64_t u_square(uint64_t x) { return x * x; }
EW_LOOP(same_ints, ew_ints1, i_same, u_same)
EW_LOOP(abs_ints, ew_ints1, i_abs, u_same)
EW_LOOP(neg_ints, ew_ints1, i_neg, u_neg)
EW_LOOP(sign_ints, ew_ints1, i_sign, u_sign)
EW_LOOP(square_ints, ew_ints1, i_square, u_square)

// ------------------------------------------------------------------------------------------------------- signs, rounding
static inline vf32 f_same(vf32 x) { return x; }
static inline double d_same(double x) { return x; }
static inline vf32 f_sign(vf32 x) {  // sign(NaN) and sign(-0) are 0
    const vf32 one = v_copysign(v_set1(1.0f), x);
    return v_select(vm_or(v_lt(x, v_zero()), v_lt(v_zero(), x)), one, v_zero());
}
static inline double d_sign(double x) { return (double)((x > 0) - (x < 0)); }
static void frexp_f64(const ew_run *r) {
    const double *x = r->in[0];
    double *fraction = r->out[0];
    int *exponent = r->out[1];
    for (int64_t i = 0; i < r->count; i++) {
        const double v = x[i];
        exponent[i] = 0;
        fraction[i] = frexp(v, &exponent[i]);
    }
}
EW_KERNEL(ew_frexp, .f64 = frexp_f64)
static inline double d_neg(double x) { return -x; }
static inline vf32 f_square(vf32 x) { return v_mul(x, x); }
static inline double d_square(double x) { return x * x; }
static inline vf32 f_reciprocal(vf32 x) { return v_div(v_set1(1.0f), x); }
static inline double d_reciprocal(double x) { return 1 / x; }
static inline vf32 f_frac(vf32 x) { return v_sub(x, v_trunc(x)); }
static inline double d_frac(double x) { return x - trunc(x); }
static inline vf32 f_deg2rad(vf32 x) { return v_mul(x, v_set1(0.017453292519943295f)); }
static inline double d_deg2rad(double x) { return x * 0.017453292519943295; }
static inline vf32 f_rad2deg(vf32 x) { return v_mul(x, v_set1(57.29577951308232f)); }
static inline double d_rad2deg(double x) { return x * 57.29577951308232; }
EW_LOOP(same_f32, ew_map1, f_same)
EW_LOOP(same_f64, ew_apply1_f64, d_same)
EW_LOOP(abs_f32, ew_map1, v_abs)
EW_LOOP(abs_f64, ew_apply1_f64, fabs)
EW_LOOP(neg_f32, ew_map1, v_neg)
EW_LOOP(neg_f64, ew_apply1_f64, d_neg)
EW_LOOP(sign_f32, ew_map1, f_sign)
EW_LOOP(sign_f64, ew_apply1_f64, d_sign)
EW_LOOP(square_f32, ew_map1, f_square)
EW_LOOP(square_f64, ew_apply1_f64, d_square)
EW_LOOP(reciprocal_f32, ew_map1, f_reciprocal)
EW_LOOP(reciprocal_f64, ew_apply1_f64, d_reciprocal)
EW_LOOP(floor_f32, ew_map1, v_floor)
EW_LOOP(ceil_f32, ew_map1, v_ceil)
EW_LOOP(round_f32, ew_map1, v_rint)
EW_LOOP(trunc_f32, ew_map1, v_trunc)
EW_LOOP(floor_f64, ew_dmap1, vd_floor)
EW_LOOP(ceil_f64, ew_dmap1, vd_ceil)
EW_LOOP(round_f64, ew_dmap1, vd_rint)
EW_LOOP(trunc_f64, ew_dmap1, vd_trunc)
EW_LOOP(frac_f32, ew_map1, f_frac)
EW_LOOP(frac_f64, ew_apply1_f64, d_frac)
EW_LOOP(deg2rad_f32, ew_map1, f_deg2rad)
EW_LOOP(deg2rad_f64, ew_apply1_f64, d_deg2rad)
EW_LOOP(rad2deg_f32, ew_map1, f_rad2deg)
EW_LOOP(rad2deg_f64, ew_apply1_f64, d_rad2deg)

static void round_decimals_f32(const ew_run *r) {
    const float *x = r->in[0], ten = (float)r->params->f[0];
    float *y = r->out[0];
    if (r->params->i[0] >= 0) {
        EW_INDEPENDENT for (int64_t i = 0; i < r->count; i++) y[i] = rintf(x[i] * ten) / ten;
    } else {
        EW_INDEPENDENT for (int64_t i = 0; i < r->count; i++) y[i] = rintf(x[i] / ten) * ten;
    }
}
static void round_decimals_f64(const ew_run *r) {
    const double *x = r->in[0], ten = r->params->f[0];
    double *y = r->out[0];
    if (r->params->i[0] >= 0) {
        EW_INDEPENDENT for (int64_t i = 0; i < r->count; i++) y[i] = rint(x[i] * ten) / ten;
    } else {
        EW_INDEPENDENT for (int64_t i = 0; i < r->count; i++) y[i] = rint(x[i] / ten) * ten;
    }
}

// -------------------------------------------------------------------------------------------------------------- complex
static inline double z_abs(ew_c128 x) { return hypot(__real__ x, __imag__ x); }
static inline float zf_abs(ew_c64 x) { return hypotf(__real__ x, __imag__ x); }
static inline ew_c128 z_square(ew_c128 x) { return complex_mul(x, x); }
static inline ew_c128 z_reciprocal(ew_c128 x) {
    const double a = __real__ x, b = __imag__ x, size = a * a + b * b;
    if (isinf(a) || isinf(b)) return isnan(a) || isnan(b) || (isinf(a) && isinf(b)) ? complex_make((double)NAN, (double)NAN) : complex_make(0, 0);
    if (isnan(a) || isnan(b)) return complex_make((double)NAN, (double)NAN);
    if (size == 0) return complex_make(a == 0 && b == 0 ? (double)INFINITY : a / size, (double)NAN);
    return complex_make(a / size, -b / size);
}
static inline ew_c128 z_rsqrt(ew_c128 x) { return complex_div(complex_make(1, 0), csqrt(x)); }
static inline ew_c128 z_exp2(ew_c128 x) { return cexp(complex_scale(x, 0.69314718055994530942)); }
static inline ew_c128 z_expm1(ew_c128 x) {  // e^a cos b - 1 without cancelling: expm1(a) - 2 sin^2(b/2) e^a
    const double a = __real__ x, b = __imag__ x, half = sin(b / 2), e = exp(a);
    return complex_make(expm1(a) * cos(b) - 2 * half * half, e * sin(b));
}
static inline ew_c128 z_log2(ew_c128 x) { return complex_scale(clog(x), 1.44269504088896340736); }
static inline ew_c128 z_log10(ew_c128 x) { return complex_scale(clog(x), 0.43429448190325182765); }
static inline ew_c128 z_log1p(ew_c128 x) {
    const double a = __real__ x, b = __imag__ x, theta = atan2(b, a + 1);
    if (hypot(a + 1, b) < 0.5) return complex_make(log(hypot(a + 1, b)), theta);
    return complex_make(0.5 * log1p(a * (2 + a) + b * b), theta);
}
static inline ew_c128 z_sigmoid(ew_c128 x) {
    return complex_div(complex_make(1, 0), complex_add(complex_make(1, 0), cexp(complex_neg(x))));
}
static inline ew_c128 z_sinc(ew_c128 x) {
    if (x == 0) return complex_make(1, 0);
    const ew_c128 t = complex_scale(x, 3.14159265358979323846);
    return complex_div(csin(t), t);
}
static inline ew_c128 z_sgn(ew_c128 x) {
    const double size = z_abs(x);
    return size == 0 ? complex_make(0, 0) : complex_make(__real__ x / size, __imag__ x / size);
}
static inline ew_c64 zf_conj(ew_c64 x) { return complex_makef(__real__ x, -__imag__ x); }
static inline ew_c128 z_conj(ew_c128 x) { return complex_make(__real__ x, -__imag__ x); }
static inline double z_angle(ew_c128 x) { return atan2(__imag__ x, __real__ x); }
static void angle_c64(const ew_run *r) {
    const float *x = r->in[0];
    float *y = r->out[0], rest[32] = {0}, angles[16];
    for (int64_t i = 0; i < r->count; i += 16) {
        const int64_t left = r->count - i < 16 ? r->count - i : 16;
        vf32 re, im;
        if (left < 16) memcpy(rest, x + 2 * i, (size_t)left * 8);
        v_load_pairs(left < 16 ? rest : x + 2 * i, &re, &im);
        v_store(left < 16 ? angles : y + i, v_atan2(im, re));
        if (left < 16) memcpy(y + i, angles, (size_t)left * 4);
    }
}
EW_LOOP(abs_c64, ew_apply1_c64_real, zf_abs)
EW_LOOP(abs_c128, ew_apply1_c128_real, z_abs)
EW_LOOP(angle_c128, ew_apply1_c128_real, z_angle)
EW_LOOP(neg_c64, ew_apply1_c64, complex_negf)
EW_LOOP(neg_c128, ew_apply1_c128, complex_neg)
EW_LOOP(conj_c64, ew_apply1_c64, zf_conj)
EW_LOOP(conj_c128, ew_apply1_c128, z_conj)
#define Z(NAME, F) EW_LOOP(NAME##_c128, ew_apply1_c128, F)
Z(sgn, z_sgn) Z(square, z_square) Z(reciprocal, z_reciprocal) Z(sqrt, csqrt) Z(rsqrt, z_rsqrt) Z(exp, cexp) Z(exp2, z_exp2)
Z(expm1, z_expm1) Z(log, clog) Z(log2, z_log2) Z(log10, z_log10) Z(log1p, z_log1p) Z(sin, csin) Z(cos, ccos) Z(tan, ctan)
Z(asin, casin) Z(acos, cacos) Z(atan, catan) Z(sinh, csinh) Z(cosh, ccosh) Z(tanh, ctanh) Z(asinh, casinh) Z(acosh, cacosh)
Z(atanh, catanh) Z(sigmoid, z_sigmoid) Z(sinc, z_sinc)

// ------------------------------------------------------------------------------------------------- exponentials and more
static inline double d_sinc(double x) {
    const double t = x * 3.14159265358979323846;
    return x == 0 ? 1 : sin(t) / t;
}
static inline ew_c64 zf_sinc(ew_c64 x) {
    if (x == 0) return complex_makef(1, 0);
    const ew_c64 t = complex_scalef(x, 3.14159265358979323846f);
    return complex_divf(csinf(t), t);
}
EW_LOOP(sinc_c64, ew_apply1_c64, zf_sinc)
static inline vf32 f_sinc(vf32 x) {
    const vf32 t = v_mul(x, v_set1(3.14159265358979323846f));
    return v_select(v_eq(x, v_zero()), v_set1(1.0f), v_div(v_sin(t), t));
}
static inline vf32 f_angle(vf32 x) {  // pi for negative numbers, 0 for -0, NaN stays
    return v_select(v_isnan(x), x, v_select(v_lt(x, v_zero()), v_set1(3.14159265358979f), v_zero()));
}
static inline double d_angle(double x) { return x != x ? x : x < 0 ? 3.14159265358979323846 : 0; }
#define VECTOR_PAIR(NAME, V, VD)                                                                                                 \
    EW_LOOP(NAME##_f32, ew_map1, V)                                                                                    \
    EW_LOOP(NAME##_f64, ew_dmap1, VD)
EW_LOOP(abs_halves, ew_halves1, v_abs)
EW_LOOP(neg_halves, ew_halves1, v_neg)
EW_LOOP(sqrt_halves, ew_halves1, v_sqrt)
EW_LOOP(rsqrt_halves, ew_halves1, v_rsqrt)
EW_LOOP(exp_halves, ew_halves1, v_exp_short)
EW_LOOP(tanh_halves, ew_halves1, v_tanh_short)
EW_LOOP(sigmoid_halves, ew_halves1, v_sigmoid_short)
EW_LOOP(erf_halves, ew_halves1, v_erf_short)
#define D(NAME, FUNCTION) EW_LOOP(NAME##_f64, ew_apply1_f64, FUNCTION)
VECTOR_PAIR(sqrt, v_sqrt, vd_sqrt)
VECTOR_PAIR(rsqrt, v_rsqrt, vd_rsqrt)
VECTOR_PAIR(exp, v_exp, vd_exp)
VECTOR_PAIR(exp2, v_exp2, vd_exp2)
VECTOR_PAIR(expm1, v_expm1, vd_expm1)
VECTOR_PAIR(log, v_log, vd_log)
VECTOR_PAIR(log2, v_log2, vd_log2)
VECTOR_PAIR(log10, v_log10, vd_log10)
VECTOR_PAIR(log1p, v_log1p, vd_log1p)
VECTOR_PAIR(sin, v_sin, vd_sin)
VECTOR_PAIR(cos, v_cos, vd_cos)
VECTOR_PAIR(tan, v_tan, vd_tan)
VECTOR_PAIR(tanh, v_tanh, vd_tanh)
VECTOR_PAIR(sigmoid, v_sigmoid, vd_sigmoid)
VECTOR_PAIR(erf, v_erf, vd_erf)
VECTOR_PAIR(erfc, v_erfc, vd_erfc)
#define BY_VECTORS(NAME) EW_LOOP(NAME##_f32, ew_map1, v_##NAME)
BY_VECTORS(asin) BY_VECTORS(acos) BY_VECTORS(atan) BY_VECTORS(sinh) BY_VECTORS(cosh) BY_VECTORS(asinh) BY_VECTORS(acosh) BY_VECTORS(atanh)
D(asin, asin) D(acos, acos) D(atan, atan) D(sinh, sinh) D(cosh, cosh) D(asinh, asinh) D(acosh, acosh) D(atanh, atanh)
D(sinc, d_sinc) D(angle, d_angle)
EW_LOOP(angle_f32, ew_map1, f_angle)
EW_LOOP(sinc_f32, ew_map1, f_sinc)

EW_INLINE void logit(const ew_run *r, nbx_dtype compute) {
    const float *in = r->in[0];
    float *y = r->out[0];
    const vf32 one = v_set1(1.0f), low = ew_round(v_set1((float)r->params->f[0]), compute);
    const vf32 high = ew_round(v_set1((float)r->params->f[1]), compute);
    for (int64_t i = 0; i < r->count; i += 16) {
        const int n = r->count - i < 16 ? (int)(r->count - i) : 16;
        vf32 x = v_load_n(in + i, n);
        if (r->params->i[0]) x = v_min(v_max(x, low), high);
        const vf32 rest = ew_round(v_sub(one, x), compute);
        v_store_n(y + i, v_log(ew_round(v_div(x, rest), compute)), n);
    }
}
static void logit_f32(const ew_run *r) {
    if (r->compute == NBX_BFLOAT16) logit(r, NBX_BFLOAT16);
    else if (r->compute == NBX_FLOAT16) logit(r, NBX_FLOAT16);
    else logit(r, NBX_FLOAT32);
}
static void logit_f64(const ew_run *r) {
    const double *in = r->in[0];
    double *y = r->out[0];
    const ew_params *p = r->params;
    for (int64_t i = 0; i < r->count; i++) {
        const double x = !p->i[0] ? in[i] : in[i] < p->f[0] ? p->f[0] : in[i] > p->f[1] ? p->f[1] : in[i];
        y[i] = x == 1 ? (double)INFINITY : log(x / (1 - x));
    }
}

static inline vf32 f_replace(vf32 x, ew_k32 k) {
    const vf32 y = v_select(v_eq(x, v_set1(INFINITY)), k.b, v_select(v_eq(x, v_set1(-INFINITY)), k.c, x));
    return v_select(v_isnan(x), k.a, y);
}
static inline double d_replace(double x, ew_k64 k) {
    return x != x ? k.a : x == (double)INFINITY ? k.b : x == -(double)INFINITY ? k.c : x;
}
static inline ew_c128 z_replace(ew_c128 x, ew_k64 k) { return complex_make(d_replace(__real__ x, k), d_replace(__imag__ x, k)); }
EW_LOOP(nan_to_num_f32, ew_map1k, f_replace)
EW_LOOP(nan_to_num_f64, ew_apply1k_f64, d_replace)
EW_LOOP(nan_to_num_c128, ew_apply1k_c128, z_replace)

// -------------------------------------------------------------------------------------------------------------- kernels
#define VECTORS(NAME) EW_KERNEL(ew_##NAME, .f32 = NAME##_f32, .f64 = NAME##_f64, .c128 = NAME##_c128)
#define ROUNDS(NAME) EW_KERNEL(ew_##NAME, .f32 = NAME##_f32, .f64 = NAME##_f64, .ints = same_ints)
#define REALS(NAME) EW_KERNEL(ew_##NAME, .f32 = NAME##_f32, .f64 = NAME##_f64)
#define HALVES(NAME) EW_KERNEL(ew_##NAME, .f32 = NAME##_f32, .f64 = NAME##_f64, .halves = NAME##_halves, .c128 = NAME##_c128)
EW_KERNEL(ew_abs, .f32 = abs_f32, .halves = abs_halves, .f64 = abs_f64, .ints = abs_ints, .c64 = abs_c64, .c128 = abs_c128)
EW_KERNEL(ew_neg, .f32 = neg_f32, .halves = neg_halves, .f64 = neg_f64, .ints = neg_ints, .c64 = neg_c64, .c128 = neg_c128)
EW_KERNEL(ew_sign, .f32 = sign_f32, .f64 = sign_f64, .ints = sign_ints)
EW_KERNEL(ew_sgn, .f32 = sign_f32, .f64 = sign_f64, .ints = sign_ints, .c128 = sgn_c128)
EW_KERNEL(ew_square, .f32 = square_f32, .f64 = square_f64, .ints = square_ints, .c128 = square_c128)
EW_KERNEL(ew_conj, .f32 = same_f32, .f64 = same_f64, .ints = same_ints, .c64 = conj_c64, .c128 = conj_c128)
EW_KERNEL(ew_nan_to_num, .f32 = nan_to_num_f32, .f64 = nan_to_num_f64, .ints = same_ints, .c128 = nan_to_num_c128)
HALVES(sqrt) HALVES(rsqrt) HALVES(exp) HALVES(tanh) HALVES(sigmoid)
VECTORS(reciprocal) VECTORS(exp2) VECTORS(expm1) VECTORS(log) VECTORS(log2)
VECTORS(log10) VECTORS(log1p) VECTORS(sin) VECTORS(cos) VECTORS(tan)
EW_KERNEL(ew_angle, .f32 = angle_f32, .f64 = angle_f64, .c64 = angle_c64, .c128 = angle_c128)
EW_KERNEL(ew_erf, .f32 = erf_f32, .f64 = erf_f64, .halves = erf_halves)
EW_KERNEL(ew_sinc, .f32 = sinc_f32, .f64 = sinc_f64, .c64 = sinc_c64, .c128 = sinc_c128)
VECTORS(asin) VECTORS(acos) VECTORS(atan) VECTORS(sinh) VECTORS(cosh) VECTORS(asinh) VECTORS(acosh) VECTORS(atanh)
ROUNDS(floor) ROUNDS(ceil) ROUNDS(round) ROUNDS(trunc)
REALS(frac) REALS(round_decimals) REALS(erfc) REALS(deg2rad) REALS(rad2deg) REALS(logit)

// Loops of other functions of two arguments.
#include "ops/elementwise/loops_simd.h"

#include "core/half.h"
#include "cpu/vecmath_inverse.h"
#include "ops/elementwise/complex_math.h"

// ------------------------------------------------------------------------------------------------------------- extremes
static inline int64_t i_max(int64_t x, int64_t y) { return x > y ? x : y; }
static inline int64_t i_min(int64_t x, int64_t y) { return x < y ? x : y; }
static inline uint64_t u_max(uint64_t x, uint64_t y) { return x > y ? x : y; }
static inline uint64_t u_min(uint64_t x, uint64_t y) { return x < y ? x : y; }
static inline double d_max(double x, double y) { return x > y || x != x ? x : y; }
static inline double d_min(double x, double y) { return x < y || x != x ? x : y; }
static inline vf32 f_fmax(vf32 x, vf32 y) { return v_select(v_isnan(y), x, v_max_fast(x, y)); }
static inline vf32 f_fmin(vf32 x, vf32 y) { return v_select(v_isnan(y), x, v_min_fast(x, y)); }
static inline double d_fmax(double x, double y) { return x > y || y != y ? x : y; }
static inline double d_fmin(double x, double y) { return x < y || y != y ? x : y; }
EW_LOOP(max_ints, ew_ints2, i_max, u_max)
EW_LOOP(min_ints, ew_ints2, i_min, u_min)
EW_LOOP(maximum_f32, ew_map2, v_max)
EW_LOOP(minimum_f32, ew_map2, v_min)
EW_LOOP(fmax_f32, ew_map2, f_fmax)
EW_LOOP(fmin_f32, ew_map2, f_fmin)
EW_LOOP(maximum_f64, ew_apply2_f64, d_max)
EW_LOOP(minimum_f64, ew_apply2_f64, d_min)
EW_LOOP(fmax_f64, ew_apply2_f64, d_fmax)
EW_LOOP(fmin_f64, ew_apply2_f64, d_fmin)
EW_KERNEL(ew_maximum, .f32 = maximum_f32, .f64 = maximum_f64, .ints = max_ints)
EW_KERNEL(ew_minimum, .f32 = minimum_f32, .f64 = minimum_f64, .ints = min_ints)
EW_KERNEL(ew_fmax, .f32 = fmax_f32, .f64 = fmax_f64, .ints = max_ints)
EW_KERNEL(ew_fmin, .f32 = fmin_f32, .f64 = fmin_f64, .ints = min_ints)

// ----------------------------------------------------------------------------------------------------- bits and geometry
EW_LOOP(atan2_f32, ew_map2, v_atan2)
EW_LOOP(atan2_f64, ew_apply2_f64, atan2)
EW_KERNEL(ew_atan2, .f32 = atan2_f32, .f64 = atan2_f64)

static inline float f_hypot(float x, float y) {
    const double a = (double)x, b = (double)y;
    return isinf(x) || isinf(y) ? INFINITY : (float)sqrt(a * a + b * b);
}
EW_LOOP(hypot_f32, ew_apply2_f32, f_hypot)
EW_LOOP(hypot_f64, ew_apply2_f64, hypot)
EW_KERNEL(ew_hypot, .f32 = hypot_f32, .f64 = hypot_f64)

EW_LOOP(copysign_f32, ew_map2, v_copysign)
EW_LOOP(copysign_f64, ew_apply2_f64, copysign)
EW_KERNEL(ew_copysign, .f32 = copysign_f32, .f64 = copysign_f64)

// The neighbour of x toward y among 16-bit floats: bits in order of magnitude, one step up or down.
static inline float nextafter_16(float x, float y, bool bfloat) {
    if (x != x || y != y) return x + y;
    if (x == y) return y;
    uint16_t bits = bfloat ? nbx_to_bf16(x) : nbx_to_f16(x);
    if (x == 0) bits = y < 0 ? 0x8001 : 1;
    else bits = (uint16_t)((x < y) == (x > 0) ? bits + 1 : bits - 1);
    return bfloat ? nbx_from_bf16(bits) : nbx_from_f16(bits);
}
static void nextafter_f32(const ew_run *r) {
    const float *x = r->in[0], *y = r->in[1];
    float *z = r->out[0];
    for (int64_t i = 0; i < r->count; i++)
        z[i] = r->compute == NBX_FLOAT32 ? nextafterf(x[i], y[i]) : nextafter_16(x[i], y[i], r->compute == NBX_BFLOAT16);
}
EW_LOOP(nextafter_f64, ew_apply2_f64, nextafter)
EW_KERNEL(ew_nextafter, .f32 = nextafter_f32, .f64 = nextafter_f64)

static inline vf32 f_heaviside(vf32 x, vf32 y) {
    return v_select(v_eq(x, v_zero()), y, v_select(v_gt(x, v_zero()), v_set1(1.0f), v_zero()));
}
static inline double d_heaviside(double x, double y) { return x == 0 ? y : (double)(x > 0); }
static inline int64_t i_heaviside(int64_t x, int64_t y) { return x == 0 ? y : x > 0; }
static inline uint64_t u_heaviside(uint64_t x, uint64_t y) { return x == 0 ? y : 1; }
EW_LOOP(heaviside_f32, ew_map2, f_heaviside)
EW_LOOP(heaviside_f64, ew_apply2_f64, d_heaviside)
EW_LOOP(heaviside_ints, ew_ints2, i_heaviside, u_heaviside)
EW_KERNEL(ew_heaviside, .f32 = heaviside_f32, .f64 = heaviside_f64, .ints = heaviside_ints)

// ------------------------------------------------------------------------------------------------------------ logarithms
// max + log1p(e^-|x - y|); equal infinities stay.
static inline vf32 f_logaddexp(vf32 x, vf32 y) {
    const vf32 high = v_max(x, y), sum = v_add(high, v_log1p(v_exp(v_neg(v_abs(v_sub(x, y))))));
    return v_select(vm_and(v_eq(x, y), v_eq(v_abs(x), v_set1(INFINITY))), x, sum);
}
static inline double d_logaddexp(double x, double y) {
    return isinf(x) && x == y ? x : d_max(x, y) + log1p(exp(-fabs(x - y)));
}
static inline vf32 f_logaddexp2(vf32 x, vf32 y) {
    const vf32 small = v_log1p(v_exp2(v_neg(v_abs(v_sub(x, y)))));
    const vf32 sum = v_fma(small, v_set1(1.44269504088896341f), v_max(x, y));
    return v_select(vm_and(v_eq(x, y), v_eq(v_abs(x), v_set1(INFINITY))), x, sum);
}
static inline double d_logaddexp2(double x, double y) {
    return isinf(x) && x == y ? x : d_max(x, y) + log1p(exp2(-fabs(x - y))) * 1.44269504088896340736;
}
static inline ew_c128 z_logaddexp(ew_c128 x, ew_c128 y) {
    if (isnan(__real__ x) || isnan(__imag__ x)) return complex_make((double)NAN, (double)NAN);
    if (isnan(__real__ y) || isnan(__imag__ y)) return complex_make((double)NAN, (double)NAN);
    const bool swapped = __real__ x < __real__ y;
    const ew_c128 high = swapped ? y : x, low = swapped ? x : y;
    const double re = __real__ high;
    if (isinf(re) && re == __real__ low) {
        if (re < 0) return low;
        return clog(complex_add(cexp(low), cexp(high)));
    }
    const ew_c128 small = cexp(complex_sub(low, high));
    const double a = __real__ small, b = __imag__ small;
    const ew_c128 log_1p = complex_make(0.5 * log1p(a * (2 + a) + b * b), atan2(b, a + 1));
    return complex_add(high, log_1p);
}
EW_LOOP(logaddexp_f32, ew_map2, f_logaddexp)
EW_LOOP(logaddexp_f64, ew_apply2_f64, d_logaddexp)
EW_LOOP(logaddexp_c128, ew_apply2_c128, z_logaddexp)
EW_LOOP(logaddexp2_f32, ew_map2, f_logaddexp2)
EW_LOOP(logaddexp2_f64, ew_apply2_f64, d_logaddexp2)
EW_KERNEL(ew_logaddexp, .f32 = logaddexp_f32, .f64 = logaddexp_f64, .c128 = logaddexp_c128)
EW_KERNEL(ew_logaddexp2, .f32 = logaddexp2_f32, .f64 = logaddexp2_f64)

// x log(y): 0 where x is 0, unless y is NaN.
static inline vf32 product_of_log(vf32 x, vf32 y, vf32 log_y) {
    const vf32 r = v_select(v_eq(x, v_zero()), v_zero(), v_mul(x, log_y));
    return v_select(v_isnan(y), y, r);
}
// ATen rounds the logarithm of halves, too.
EW_INLINE void halves(const ew_run *r, double (*log_of)(double)) {
    const float *x = r->in[0], *y = r->in[1];
    float *z = r->out[0];
    for (int64_t i = 0; i < r->count; i++) {
        const float l = (float)log_of((double)y[i]);
        const float log_y = r->compute == NBX_FLOAT16 ? nbx_from_f16(nbx_to_f16(l)) : nbx_from_bf16(nbx_to_bf16(l));
        z[i] = y[i] != y[i] ? y[i] : x[i] == 0 ? 0 : x[i] * log_y;
    }
}
static inline vf32 f_xlogy(vf32 x, vf32 y) { return product_of_log(x, y, v_log(y)); }
static inline vf32 f_xlog1py(vf32 x, vf32 y) { return product_of_log(x, y, v_log1p(y)); }
static inline double d_xlogy(double x, double y) { return y != y ? y : x == 0 ? 0 : x * log(y); }
static inline double d_xlog1py(double x, double y) { return y != y ? y : x == 0 ? 0 : x * log1p(y); }
static void xlogy_f32(const ew_run *r) {
    if (r->compute == NBX_FLOAT32) ew_map2(r, f_xlogy);
    else halves(r, log);
}
EW_LOOP(xlogy_f64, ew_apply2_f64, d_xlogy)
static void xlog1py_f32(const ew_run *r) {
    if (r->compute == NBX_FLOAT32) ew_map2(r, f_xlog1py);
    else halves(r, log1p);
}
EW_LOOP(xlog1py_f64, ew_apply2_f64, d_xlog1py)
EW_KERNEL(ew_xlogy, .f32 = xlogy_f32, .f64 = xlogy_f64)
EW_KERNEL(ew_xlog1py, .f32 = xlog1py_f32, .f64 = xlog1py_f64)

// --------------------------------------------------------------------------------------------------------- into complex
static void complex_f32(const ew_run *r) {
    const float *re = r->in[0], *im = r->in[1];
    float *z = r->out[0];
    for (int64_t i = 0; i < r->count; i++) z[2 * i] = re[i], z[2 * i + 1] = im[i];
}
static void complex_f64(const ew_run *r) {
    const double *re = r->in[0], *im = r->in[1];
    double *z = r->out[0];
    for (int64_t i = 0; i < r->count; i++) z[2 * i] = re[i], z[2 * i + 1] = im[i];
}
static void polar_f32(const ew_run *r) {
    const float *size = r->in[0], *angle = r->in[1];
    float *z = r->out[0];
    for (int64_t i = 0; i < r->count; i++) {
        const double t = (double)angle[i];
        z[2 * i] = size[i] * (float)cos(t);
        z[2 * i + 1] = size[i] * (float)sin(t);
    }
}
static void polar_f64(const ew_run *r) {
    const double *size = r->in[0], *angle = r->in[1];
    double *z = r->out[0];
    for (int64_t i = 0; i < r->count; i++) {
        z[2 * i] = size[i] * cos(angle[i]);
        z[2 * i + 1] = size[i] * sin(angle[i]);
    }
}
EW_KERNEL(ew_complex, .f32 = complex_f32, .f64 = complex_f64)
EW_KERNEL(ew_polar, .f32 = polar_f32, .f64 = polar_f64)

// -------------------------------------------------------------------------------------------------------------- swiglu
static inline vf32 f_swiglu(vf32 gate, vf32 up) { return v_mul(v_silu(gate), up); }
static inline vf64 d_swiglu(vf64 gate, vf64 up) { return vd_mul(vd_mul(gate, vd_sigmoid(gate)), up); }
EW_LOOP(swiglu_f32, ew_map2, f_swiglu)
EW_LOOP(swiglu_f64, ew_dmap2, d_swiglu)
EW_KERNEL(ew_swiglu, .f32 = swiglu_f32, .f64 = swiglu_f64)

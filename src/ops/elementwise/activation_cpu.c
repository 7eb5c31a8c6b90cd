// Loops of activations.
#include "ops/elementwise/loops_simd.h"

#include "ops/elementwise/complex_math.h"

#define PAIR(NAME, V, VD)                                                                                              \
    EW_LOOP(NAME##_f32, ew_map1, V)                                                                                    \
    EW_LOOP(NAME##_f64, ew_apply1_f64, VD)
#define PAIR_K(NAME, V, VD)                                                                                            \
    EW_LOOP(NAME##_f32, ew_map1k, V)                                                                                   \
    EW_LOOP(NAME##_f64, ew_apply1k_f64, VD)
#define REALS(NAME) EW_KERNEL(ew_##NAME, .f32 = NAME##_f32, .f64 = NAME##_f64)

// ------------------------------------------------------------------------------------------------------ pieces of lines
static inline double d_max(double x, double y) { return x > y || x != x ? x : y; }
static inline double d_min(double x, double y) { return x < y || x != x ? x : y; }
static inline double d_relu(double x) { return d_max(x, 0); }
static inline int64_t i_relu(int64_t x) { return x > 0 ? x : 0; }
static inline uint64_t u_relu(uint64_t x) { return x; }
PAIR(relu, v_relu, d_relu)
EW_LOOP(relu_halves, ew_halves1, v_relu)
EW_LOOP(relu_ints, ew_ints1, i_relu, u_relu)
EW_KERNEL(ew_relu, .f32 = relu_f32, .halves = relu_halves, .f64 = relu_f64, .ints = relu_ints)

static inline vf32 f_hardtanh(vf32 x, ew_k32 k) { return v_min(v_max(x, k.a), k.b); }
static inline double d_hardtanh(double x, ew_k64 k) { return d_min(d_max(x, k.a), k.b); }
static void hardtanh_i64(const ew_run *r) {
    const int64_t *x = r->in[0], low = r->params->i[0], high = r->params->i[1];
    int64_t *y = r->out[0];
    EW_INDEPENDENT for (int64_t i = 0; i < r->count; i++) {
        const int64_t raised = x[i] > low ? x[i] : low;
        y[i] = raised < high ? raised : high;
    }
}
PAIR_K(hardtanh, f_hardtanh, d_hardtanh)
EW_KERNEL(ew_hardtanh, .f32 = hardtanh_f32, .f64 = hardtanh_f64, .i64 = hardtanh_i64)

static inline vf32 f_leaky_relu(vf32 x, ew_k32 k) { return v_select(v_gt(x, v_zero()), x, v_mul(x, k.a)); }
static inline double d_leaky_relu(double x, ew_k64 k) { return x > 0 ? x : x * k.a; }
static inline vf32 f_prelu(vf32 x, vf32 w) { return v_select(v_gt(x, v_zero()), x, v_mul(x, w)); }
static inline double d_prelu(double x, double w) { return x > 0 ? x : x * w; }
PAIR_K(leaky_relu, f_leaky_relu, d_leaky_relu)
EW_LOOP(prelu_f32, ew_map2, f_prelu)
EW_LOOP(prelu_f64, ew_apply2_f64, d_prelu)
REALS(leaky_relu)
REALS(prelu)

static inline vf32 f_softshrink(vf32 x, ew_k32 k) {
    const vf32 outside = v_select(v_gt(x, k.a), v_sub(x, k.a), v_add(x, k.a));
    return v_select(v_le(v_abs(x), k.a), v_mul(x, v_zero()), outside);
}
static inline double d_softshrink(double x, ew_k64 k) { return x > k.a ? x - k.a : x < -k.a ? x + k.a : x * 0; }
static inline vf32 f_hardshrink(vf32 x, ew_k32 k) { return v_select(vm_and(v_ge(x, v_neg(k.a)), v_le(x, k.a)), v_zero(), x); }
static inline double d_hardshrink(double x, ew_k64 k) { return x >= -k.a && x <= k.a ? 0 : x; }
PAIR_K(softshrink, f_softshrink, d_softshrink)
PAIR_K(hardshrink, f_hardshrink, d_hardshrink)
REALS(softshrink)
REALS(hardshrink)

static inline vf32 f_six(vf32 x) { return v_min(v_max(v_add(x, v_set1(3.0f)), v_zero()), v_set1(6.0f)); }
static inline vf32 f_hardsigmoid(vf32 x) { return v_div(f_six(x), v_set1(6.0f)); }
static inline vf32 f_hardswish(vf32 x) { return v_div(v_mul(x, f_six(x)), v_set1(6.0f)); }
static inline double d_six(double x) { return d_min(d_max(x + 3, 0), 6); }
static inline double d_hardsigmoid(double x) { return d_six(x) / 6; }
static inline double d_hardswish(double x) { return x * d_six(x) / 6; }
PAIR(hardsigmoid, f_hardsigmoid, d_hardsigmoid)
PAIR(hardswish, f_hardswish, d_hardswish)
EW_LOOP(hardswish_halves, ew_halves1, f_hardswish)
REALS(hardsigmoid)
EW_KERNEL(ew_hardswish, .f32 = hardswish_f32, .f64 = hardswish_f64, .halves = hardswish_halves)

static inline vf32 f_threshold(vf32 x, ew_k32 k) { return v_select(v_le(x, k.a), k.b, x); }
static inline double d_threshold(double x, ew_k64 k) { return x <= k.a ? k.b : x; }
static void threshold_i64(const ew_run *r) {
    const int64_t *x = r->in[0];
    int64_t *y = r->out[0];
    EW_INDEPENDENT for (int64_t i = 0; i < r->count; i++) y[i] = x[i] <= r->params->i[0] ? r->params->i[1] : x[i];
}
PAIR_K(threshold, f_threshold, d_threshold)
EW_KERNEL(ew_threshold, .f32 = threshold_f32, .f64 = threshold_f64, .i64 = threshold_i64)

// ---------------------------------------------------------------------------------------------------------- exponentials
static inline vf32 f_elu(vf32 x, ew_k32 k) {
    return v_select(v_gt(x, v_zero()), v_mul(x, k.c), v_mul(v_expm1(v_mul(x, k.a)), k.b));
}
static inline double d_elu(double x, ew_k64 k) { return x > 0 ? x * k.c : expm1(x * k.a) * k.b; }
PAIR_K(elu, f_elu, d_elu)
REALS(elu)

static inline double d_gelu(double x) { return x * 0.5 * (1 + erf(x * 0.70710678118654752440)); }
static inline double d_gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
// ATen's float32 and bfloat16 overflow at half the largest number and give NaN at infinity, its float16 and float64 do not.
static inline vf32 overflowing(vf32 y) { return v_mul(v_add(y, y), v_set1(0.5f)); }
static inline vf32 infinite(vf32 x, vf32 y) { return v_select(v_eq(x, v_set1(INFINITY)), x, y); }
static inline vf32 f_gelu(vf32 x) { return overflowing(v_gelu(x)); }
static inline vf32 f16_gelu(vf32 x) { return infinite(x, v_gelu(x)); }
static inline vf32 bf16_gelu_short(vf32 x) { return overflowing(v_gelu_short(x)); }
static inline vf32 f16_gelu_short(vf32 x) { return infinite(x, v_gelu_short(x)); }
static void gelu_f32(const ew_run *r) {
    if (r->params->i[0]) ew_map1(r, v_gelu_tanh);
    else if (r->compute == NBX_FLOAT16) ew_map1(r, f16_gelu);
    else ew_map1(r, f_gelu);
}
static void gelu_halves(const ew_run *r) {
    if (r->params->i[0]) ew_halves1(r, v_gelu_tanh_short);
    else if (r->compute == NBX_FLOAT16) ew_halves1_of(r, f16_gelu_short, NBX_FLOAT16);
    else ew_halves1_of(r, bf16_gelu_short, NBX_BFLOAT16);
}
static void gelu_f64(const ew_run *r) {
    if (r->params->i[0]) ew_apply1_f64(r, d_gelu_tanh);
    else ew_apply1_f64(r, d_gelu);
}
EW_KERNEL(ew_gelu, .f32 = gelu_f32, .f64 = gelu_f64, .halves = gelu_halves)

static inline vf64 vd_silu(vf64 x) { return vd_mul(x, vd_sigmoid(x)); }
static inline ew_c128 z_silu(ew_c128 x) {
    return complex_div(x, complex_add(complex_make(1, 0), cexp(complex_neg(x))));
}
EW_LOOP(silu_f32, ew_map1, v_silu)
EW_LOOP(silu_halves, ew_halves1, v_silu_short)
EW_LOOP(silu_f64, ew_dmap1, vd_silu)
EW_LOOP(silu_c128, ew_apply1_c128, z_silu)
EW_KERNEL(ew_silu, .f32 = silu_f32, .halves = silu_halves, .f64 = silu_f64, .c128 = silu_c128)

// log(1 + e^x) beyond the threshold is x.
static inline vf32 f_softplus(vf32 x, ew_k32 k) {
    const vf32 scaled = v_mul(x, k.a);
    return v_select(v_gt(scaled, k.b), x, v_div(v_log1p(v_exp(scaled)), k.a));
}
static inline double d_softplus(double x, ew_k64 k) { return x * k.a > k.b ? x : log1p(exp(x * k.a)) / k.a; }
PAIR_K(softplus, f_softplus, d_softplus)
REALS(softplus)

static inline vf32 f_mish(vf32 x) { return v_mul(x, v_tanh(v_log1p(v_exp(x)))); }
static inline double d_mish(double x) { return x * tanh(log1p(exp(x))); }
PAIR(mish, f_mish, d_mish)
REALS(mish)

// log(sigmoid(x)) = min(x, 0) - log1p(e^-|x|); the second result of _forward is e^-|x|.
static inline vf32 f_log_sigmoid(vf32 x) { return v_sub(v_min(x, v_zero()), v_log1p(v_exp(v_neg(v_abs(x))))); }
static inline double d_log_sigmoid(double x) { return d_min(x, 0) - log1p(exp(-fabs(x))); }
PAIR(log_sigmoid, f_log_sigmoid, d_log_sigmoid)
REALS(log_sigmoid)
static void log_sigmoid_forward_f32(const ew_run *r) {
    const float *x = r->in[0];
    float *y = r->out[0], *buffer = r->out[1];
    for (int64_t i = 0; i < r->count; i += 16) {
        const int n = r->count - i < 16 ? (int)(r->count - i) : 16;
        const vf32 v = v_load_n(x + i, n), small = v_exp(v_neg(v_abs(v)));
        v_store_n(buffer + i, small, n);
        v_store_n(y + i, v_sub(v_min(v, v_zero()), v_log1p(small)), n);
    }
}
static void log_sigmoid_forward_f64(const ew_run *r) {
    const double *x = r->in[0];
    double *y = r->out[0], *buffer = r->out[1];
    for (int64_t i = 0; i < r->count; i++) {
        const double v = x[i];
        buffer[i] = exp(-fabs(v));
        y[i] = d_min(v, 0) - log1p(buffer[i]);
    }
}
REALS(log_sigmoid_forward)

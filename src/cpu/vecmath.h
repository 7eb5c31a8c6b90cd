// Elementary functions on 16 floats, within 1 ulp of the exact value for every input but v_rsqrt and v_sigmoid (vecmath_test.c
// checks all 2^32 when asked), with C99's answers for NaN, infinities, zeros and subnormals. The same bits on every instruction set.
//
// The functions that models spend time in (exp, log, tanh, sigmoid, erf) work in float; the final rounding is of a large
// part and a small correction. The others widen to double, use a short polynomial and round once.
#ifndef NBX_CPU_VECMATH_H
#define NBX_CPU_VECMATH_H

#include "cpu/simd.h"
#include "cpu/vecmath_f64.h"

SIMD_INLINE vf32 v_poly(vf32 x, const float *c, int count)
{
    vf32 y = v_set1(c[count - 1]);
    for (int i = count - 2; i >= 0; i--) y = v_fma(y, x, v_set1(c[i]));
    return y;
}
SIMD_INLINE vf32 v_limit(vf32 x, float low, float high) // NaN stays
{
    return v_max_fast(v_set1(low), v_min_fast(v_set1(high), x));
}
// ---- exponentials ---------------------------------------------------------------------------------------------------

// e^x = 2^n (1 + p), for |x| < 2^14; n is integral
typedef struct { vf32 p, n; } v_exp_split;

SIMD_INLINE v_exp_split v_split_exp(vf32 x)
{
    static const float c[] = {0x1p-1f, 0x1.555556p-3f, 0x1.5555p-5f, 0x1.110ff2p-7f, 0x1.6d30cep-10f, 0x1.a26768p-13f};
    const vf32 n = v_rint(v_mul(x, v_set1(0x1.715476p+0f)));
    // the high part of ln2 has 15 bits, so n times it is exact
    const vf32 r = v_fnma(n, v_set1(0x1.7f7d1cp-20f), v_fnma(n, v_set1(0x1.62e4p-1f), x));
    return (v_exp_split){v_fma(v_mul(r, r), v_poly(r, c, 6), r), n};
}
SIMD_INLINE vf32 v_exp(vf32 x)
{
    const v_exp_split s = v_split_exp(v_limit(x, -104.0f, 89.0f));
    return v_scale(v_add(s.p, v_set1(1.0f)), s.n);
}
SIMD_INLINE vf32 v_exp2(vf32 x)
{
    static const float c[] = {0x1.62e43p-1f, 0x1.ebfbep-3f, 0x1.c6b06cp-5f, 0x1.3b2a54p-7f,
                              0x1.5da9bp-10f, 0x1.44176p-13f, 0x1.d9f034p-17f};
    const vf32 t = v_limit(x, -151.0f, 129.0f), n = v_rint(t), r = v_sub(t, n);
    return v_scale(v_fma(r, v_poly(r, c, 7), v_set1(1.0f)), n);
}
SIMD_INLINE vf32 v_expm1(vf32 x)
{
    return v_select(v_eq(x, v_zero()), x, v_from_f64(vd_expm1_short(v_low_f64(x)), vd_expm1_short(v_high_f64(x))));
}

// ---- logarithms -----------------------------------------------------------------------------------------------------

SIMD_INLINE vf32 v_log(vf32 x)
{
    static const float c[] = {0x1.555554p-2f, -0x1.fffff8p-3f, 0x1.999d46p-3f, -0x1.555c8cp-3f, 0x1.23d506p-3f,
                              -0x1.fcbfc4p-4f, 0x1.de3896p-4f, -0x1.d77b1ap-4f, 0x1.20373cp-4f};
    const vm32 subnormal = v_lt(x, v_set1(0x1p-126f));
    const vi32 bits = v_bits(v_select(subnormal, v_mul(x, v_set1(0x1p23f)), x));
    const vi32 root = vi_set1(0x3f3504f3), moved = vi_add(bits, vi_set1(0x3f800000 - 0x3f3504f3));
    const vi32 exponent = vi_sub(vi_sar(moved, 23), vi_select(subnormal, vi_set1(127 + 23), vi_set1(127)));
    const vf32 k = v_from_i32(exponent);
    const vf32 f = v_sub(v_from_bits(vi_add(vi_and(moved, vi_set1(0x007fffff)), root)), v_set1(1.0f));
    const vf32 square = v_mul(f, f);
    // k ln2_high is exact; its sum with f is kept as h plus what h lost, and the small terms are added last
    const vf32 a = v_mul(k, v_set1(0x1.62e4p-1f)), h = v_add(a, f), lost = v_sub(f, v_sub(h, a));
    const vf32 cube = v_fma(v_mul(square, f), v_poly(f, c, 9), v_mul(k, v_set1(0x1.7f7d1cp-20f)));
    const vf32 small = v_fma(square, v_set1(-0.5f), v_add(cube, lost));
    vf32 r = v_add(h, small);
    r = v_select(v_eq(x, v_set1(INFINITY)), x, r);
    r = v_select(v_eq(x, v_zero()), v_set1(-INFINITY), r);
    return v_select(v_ge(x, v_zero()), r, v_set1(NAN));
}
SIMD_INLINE vf32 v_log2(vf32 x)
{
    const vf64 scale = vd_set1(VD_LOG2E);
    return v_from_f64(vd_mul(vd_log_short(v_low_f64(x)), scale), vd_mul(vd_log_short(v_high_f64(x)), scale));
}
SIMD_INLINE vf32 v_log10(vf32 x)
{
    const vf64 scale = vd_set1(0x1.bcb7b1526e50ep-2);
    return v_from_f64(vd_mul(vd_log_short(v_low_f64(x)), scale), vd_mul(vd_log_short(v_high_f64(x)), scale));
}
SIMD_INLINE vf32 v_log1p(vf32 x)
{
    return v_select(v_eq(x, v_zero()), x, v_from_f64(vd_log1p_short(v_low_f64(x)), vd_log1p_short(v_high_f64(x))));
}

// ---- sigmoid, tanh, erf ---------------------------------------------------------------------------------------------

// e^-|x|
SIMD_INLINE vf32 v_exp_down(vf32 x)
{
    const v_exp_split e = v_split_exp(v_max_fast(v_set1(-104.0f), v_neg(v_abs(x))));
    return v_scale(v_add(e.p, v_set1(1.0f)), e.n);
}
// x times sigmoid(z), from w = e^-|z|: sigmoid is 1 / (1 + w), or w / (1 + w) for negative z.
SIMD_INLINE vf32 v_times_sigmoid(vf32 x, vf32 z, vf32 w)
{
    const vf32 one = v_set1(1.0f);
    return v_div(v_mul(x, v_select(v_lt(z, v_zero()), w, one)), v_add(one, w));
}
SIMD_INLINE vf32 v_sigmoid(vf32 x) { return v_times_sigmoid(v_set1(1.0f), x, v_exp_down(x)); }

// Small: x + x^3 P(x^2). Else 1 - 2 / (e^(2x) + 1), with e^(2x) + 1 in two floats.
SIMD_INLINE vf32 v_tanh(vf32 x)
{
    static const float c[] = {-0x1.555556p-2f, 0x1.111134p-3f, -0x1.ba18a2p-5f, 0x1.65593ap-6f, -0x1.14be7cp-7f, 0x1.3841bap-9f};
    const vf32 one = v_set1(1.0f), two = v_set1(2.0f), size = v_min_fast(v_set1(10.0f), v_abs(x));
    const vf32 z = v_mul(size, size);
    const vf32 near = v_fma(v_mul(size, z), v_poly(z, c, 6), size);
    const v_exp_split e = v_split_exp(v_add(size, size));
    const vf32 s = v_power(e.n), a = v_add(s, one);  // what a loses does not matter beside 1
    const vf32 u = v_fma(e.p, s, a), u_low = v_fma(e.p, s, v_sub(a, u));
    const vf32 t = v_div(two, u), left = v_fnma(t, u_low, v_fnma(t, u, two));
    const vf32 far = v_sub(one, v_fma(v_mul(left, t), v_set1(0.5f), t));
    return v_flip_sign(v_select(v_lt(size, v_set1(0.625f)), near, far), v_sign_bit(x));
}

// Small: x + x P(x^2). Else 1 - e^(-g), g = |x| Q(|x|) fitted to -log(erfc).
SIMD_INLINE vf32 v_erf(vf32 x)
{
    static const float near_c[] = {0x1.06eba8p-3f, -0x1.812744p-2f, 0x1.ce2eap-4f, -0x1.b821c8p-6f,
                                   0x1.55d942p-8f, -0x1.b95474p-11f, 0x1.c4db5cp-14f, -0x1.177726p-17f};
    static const float far_c[] = {0x1.20e90ap0f, 0x1.4576p-1f, 0x1.ae2e56p-4f, -0x1.6b678cp-6f, 0x1.39404ap-9f,
                                  0x1.37c72p-12f, -0x1.77b316p-13f, 0x1.229f28p-15f, -0x1.c5c31ep-19f, 0x1.298b84p-23f};
    const vf32 size = v_min_fast(v_set1(4.1f), v_abs(x)), z = v_mul(size, size);
    const vf32 near = v_fma(size, v_poly(z, near_c, 8), size);
    const v_exp_split e = v_split_exp(v_neg(v_mul(size, v_poly(size, far_c, 10))));
    const vf32 s = v_power(e.n), far = v_sub(v_sub(v_set1(1.0f), s), v_mul(e.p, s));
    return v_flip_sign(v_select(v_lt(size, v_set1(0.92f)), near, far), v_sign_bit(x));
}
SIMD_INLINE vf32 v_erfc(vf32 x) { return v_from_f64(vd_erfc_short(v_low_f64(x)), vd_erfc_short(v_high_f64(x))); }

// ---- circular functions ---------------------------------------------------------------------------------------------

// x mod pi/2 for 2^28 <= |x| < 2^128 (Payne and Hanek): x is m 2^e with a 24-bit integer m. Bits of 2/pi whose product with
// x is a multiple of 4 don't matter; the 96 bits from there on leave an error of 2^-70. *quadrant gets n mod 4.
SIMD_INLINE double reduce_large(float x, unsigned *quadrant)
{
    static const uint32_t two_over_pi[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                           0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561};
    uint32_t bits;
    memcpy(&bits, &x, 4);
    const unsigned e = ((bits >> 23) & 0xff) - 150, first = e - 2, word = first / 32, shift = first % 32; // first: weight 2^1
    const uint64_t m = (bits & 0x7fffff) | 0x800000;
    uint64_t w[3];
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t pair = (uint64_t)two_over_pi[word + i] << 32 | two_over_pi[word + i + 1];
        w[i] = (pair << shift) >> 32;
    }
    const uint64_t low = m * w[2], middle = m * w[1] + (low >> 32), high = m * w[0] + (middle >> 32);
    const uint64_t top = high << 32 | (middle & 0xffffffff); // the product's bits of weight 2^1 .. 2^-62
    const unsigned n = (unsigned)(((top >> 61) + 1) >> 1);   // nearest integer to the fraction's multiple of pi/2
    const int64_t fraction = (int64_t)(top - ((uint64_t)n << 62));
    *quadrant = (bits >> 31) ? (0u - n) & 3 : n & 3;
    // 2^-62 in steps, plus the 32 bits below
    const double r = ((double)fraction + (double)(low & 0xffffffff) * 0x1p-32) * 0x1p-62 * VD_PI_2;
    return (bits >> 31) ? -r : r;
}

typedef enum { V_SIN, V_COS, V_TAN } v_circular;

// Replaces the lanes of r where 2^28 <= |x| < infinity.
SIMD_INLINE vf32 v_large_angles(vf32 x, vf32 r, v_circular which)
{
    float in[16], out[16];
    v_store(in, x);
    v_store(out, r);
    for (int i = 0; i < 16; i++) {
        if (!(fabsf(in[i]) >= 0x1p28f) || isinf(in[i])) continue;
        unsigned q;
        const vd_sincos t = vd_sincos_poly_short(vd_set1(reduce_large(in[i], &q)));
        double s[8], c[8];
        vd_store(s, t.sin);
        vd_store(c, t.cos);
        const double sine = q & 1 ? c[0] : s[0], cosine = q & 1 ? s[0] : c[0];
        const double sine_sign = q & 2 ? -1 : 1, cosine_sign = (q + 1) & 2 ? -1 : 1;
        out[i] = (float)(which == V_SIN   ? sine_sign * sine
                         : which == V_COS ? cosine_sign * cosine
                                          : sine_sign * sine / (cosine_sign * cosine));
    }
    return v_load(out);
}
SIMD_INLINE bool v_any_large_angle(vf32 x) { return vm_any(v_ge(v_abs(x), v_set1(0x1p28f))); }

SIMD_INLINE vf32 v_sin(vf32 x)
{
    vf32 r = v_from_f64(vd_sin_short(v_low_f64(x)), vd_sin_short(v_high_f64(x)));
    r = v_select(v_eq(x, v_zero()), x, r);
    return v_any_large_angle(x) ? v_large_angles(x, r, V_SIN) : r;
}
SIMD_INLINE vf32 v_cos(vf32 x)
{
    const vf32 r = v_from_f64(vd_cos_short(v_low_f64(x)), vd_cos_short(v_high_f64(x)));
    return v_any_large_angle(x) ? v_large_angles(x, r, V_COS) : r;
}
SIMD_INLINE vf32 v_tan(vf32 x)
{
    vf32 r = v_from_f64(vd_tan_short(v_low_f64(x)), vd_tan_short(v_high_f64(x)));
    r = v_select(v_eq(x, v_zero()), x, r);
    return v_any_large_angle(x) ? v_large_angles(x, r, V_TAN) : r;
}

// ---- powers ---------------------------------------------------------------------------------------------------------

SIMD_INLINE vf64 vd_pow_short(vf64 size, vf64 y) { return vd_exp_short(vd_mul(y, vd_log_short(size))); }

// C99's pow, with all its special cases.
SIMD_INLINE vf32 v_pow(vf32 x, vf32 y)
{
    const vf32 zero = v_zero(), one = v_set1(1.0f), size = v_abs(x);
    vf32 r = v_from_f64(vd_pow_short(v_low_f64(size), v_low_f64(y)), vd_pow_short(v_high_f64(size), v_high_f64(y)));
    r = v_select(vm_and(v_eq(size, one), vm_not(v_isnan(y))), one, r); // (+-1)^inf
    const vm32 integral = v_eq(v_rint(y), y), in_range = v_lt(v_abs(y), v_set1(0x1p24f)); // larger ones are even
    const vi32 parity = vi_and(v_to_i32(v_select(in_range, y, zero)), vi_set1(1));
    const vi32 odd = vi_and(vi_shl(parity, 31), vi_select(integral, vi_set1(-1), vi_set1(0)));
    r = v_flip_sign(r, vi_and(odd, v_sign_bit(x)));
    const vm32 not_real = vm_and(vm_and(v_lt(x, zero), vm_not(integral)), v_ne(size, v_set1(INFINITY)));
    r = v_select(not_real, v_set1(NAN), r);
    return v_select(vm_or(v_eq(y, zero), v_eq(x, one)), one, r);
}
// 1 / sqrt(x), both rounded, as ATen computes it: at most 1.5 ulp.
SIMD_INLINE vf32 v_rsqrt(vf32 x) { return v_div(v_set1(1.0f), v_sqrt(x)); }

// ---- activations, in ATen's formulas --------------------------------------------------------------------------------

SIMD_INLINE vf32 v_relu(vf32 x) { return v_max(x, v_zero()); }
SIMD_INLINE vf32 v_silu(vf32 x) { return v_times_sigmoid(x, x, v_exp_down(x)); }

// x Phi(x) from m = |x| Phi(-|x|): x - m, or -m for negative x. Phi(-size) = 2^-h, h a polynomial for size <= 6; beyond
// that ATen's result is -0, or NaN at infinity.
SIMD_INLINE vf32 v_gelu_of(vf32 x, vf32 size, vf32 tail)
{
    const vf32 base = v_select(v_ge(x, v_zero()), x, v_set1(-0.0f));
    return v_fnma(size, v_select(v_lt(size, v_set1(6.0f)), tail, v_zero()), base);
}
SIMD_INLINE vf32 v_gelu(vf32 x)
{
    static const float c[] = {-0x1p0f, -0x1.26aedp0f, -0x1.d63cb2p-2f, -0x1.adac62p-5f, 0x1.c775cp-8f, 0x1.0e7354p-17f,
                              -0x1.2f78cap-12f, 0x1.549fb4p-14f, -0x1.9782e6p-17f, 0x1.0db338p-20f, -0x1.353b4ap-25f};
    static const float power[] = {0x1.62e43p-1f, 0x1.ebfbep-3f, 0x1.c6aedp-5f, 0x1.3b29aep-7f, 0x1.5f47c8p-10f, 0x1.448d98p-13f};
    const vf32 size = v_abs(x), h = v_poly(v_min_fast(v_set1(6.0f), size), c, 11), n = v_rint(h), r = v_sub(h, n);
    return v_gelu_of(x, size, v_scale(v_fma(r, v_poly(r, power, 6), v_set1(1.0f)), n));
}
// x / 2 (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3)
SIMD_INLINE vf32 v_gelu_tanh_angle(vf32 x)
{
    return v_mul(v_set1(0x1.988454p0f), v_fma(v_mul(v_mul(x, x), x), v_set1(0.044715f), x));
}
SIMD_INLINE vf32 v_gelu_tanh(vf32 x)
{
    const vf32 z = v_gelu_tanh_angle(x);
    return v_times_sigmoid(x, z, v_exp_down(z));
}

// ---- for results of 16 bits: relative errors below 2^-16 ------------------------------------------------------------

// 2^t = 2^n (1 + p)
SIMD_INLINE v_exp_split v_split_exp2_short(vf32 t)
{
    static const float c[] = {0x1.62e2d2p-1f, 0x1.ebf958p-3f, 0x1.c96d78p-5f, 0x1.3d107cp-7f};
    const vf32 n = v_rint(t), r = v_sub(t, n);
    return (v_exp_split){v_mul(r, v_poly(r, c, 4)), n};
}
SIMD_INLINE vf32 v_exp_short(vf32 x)
{
    const v_exp_split e = v_split_exp2_short(v_mul(v_limit(x, -104.0f, 89.0f), v_set1(0x1.715476p+0f)));
    return v_scale(v_add(e.p, v_set1(1.0f)), e.n);
}
SIMD_INLINE vf32 v_exp_down_short(vf32 x)
{
    const v_exp_split e = v_split_exp2_short(v_max_fast(v_set1(-150.0f), v_mul(v_abs(x), v_set1(-0x1.715476p+0f))));
    return v_scale(v_add(e.p, v_set1(1.0f)), e.n);
}
SIMD_INLINE vf32 v_sigmoid_short(vf32 x) { return v_times_sigmoid(v_set1(1.0f), x, v_exp_down_short(x)); }
SIMD_INLINE vf32 v_silu_short(vf32 x) { return v_times_sigmoid(x, x, v_exp_down_short(x)); }
SIMD_INLINE vf32 v_gelu_tanh_short(vf32 x)
{
    const vf32 z = v_gelu_tanh_angle(x);
    return v_times_sigmoid(x, z, v_exp_down_short(z));
}
// tanh(t / (2 log2(e))) = (2^t - 1) / (2^t + 1)
SIMD_INLINE vf32 v_tanh_of(vf32 t)
{
    const v_exp_split e = v_split_exp2_short(v_limit(t, -30.0f, 30.0f));
    const vf32 s = v_power(e.n), top = v_fma(e.p, s, v_sub(s, v_set1(1.0f)));
    return v_div(top, v_add(top, v_set1(2.0f)));
}
SIMD_INLINE vf32 v_tanh_short(vf32 x) { return v_tanh_of(v_mul(x, v_set1(0x1.715476p+1f))); }
// erf(x) = tanh(x Q(x^2))
SIMD_INLINE vf32 v_erf_short(vf32 x)
{
    static const float c[] = {0x1.a0bdfcp1f, 0x1.2ff256p-2f, -0x1.4e09ap-10f, -0x1.4574ap-10f, 0x1.94040ep-14f};
    const vf32 t = v_limit(x, -3.2f, 3.2f);
    return v_tanh_of(v_mul(t, v_poly(v_mul(t, t), c, 5)));
}
SIMD_INLINE vf32 v_gelu_short(vf32 x)
{
    static const float c[] = {-0x1.fffffep-1f, -0x1.26b21cp0f, -0x1.d5dbfcp-2f, -0x1.b54d86p-5f, 0x1.094132p-7f, -0x1.996268p-11f, 0x1.259e86p-15f};
    const vf32 size = v_abs(x);
    const v_exp_split e = v_split_exp2_short(v_poly(v_min_fast(v_set1(6.0f), size), c, 7));
    return v_gelu_of(x, size, v_scale(v_add(e.p, v_set1(1.0f)), e.n));
}

#endif

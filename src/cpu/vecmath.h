// Elementary functions on 16 floats, with C99's answers for NaN, infinities, zeros and subnormals. The same bits on every
// instruction set. Within 1 ulp of the exact value for every input, but tanh 1.3, rsqrt 1.5, erf 1.8, sigmoid 2 (vecmath_test.c
// checks all 2^32 when asked).
//
// The functions that models spend time in (exp, log, tanh, sigmoid, erf) work in float, in as few operations as keep those bounds:
// past the caches they are to take the time of a copy. The others widen to double, use a short polynomial and round once.
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

// 2^(n + r) and e^(n ln2 + r) with an integral n. Adding 1.5 2^23 + bias rounds to n, and leaves n + bias in the low bits of the
// sum (half the operations of rounding, converting and adding).
typedef struct { vf32 r, sum; } v_exp_split;

SIMD_INLINE v_exp_split v_split_exp2(vf32 x, float bias)
{
    const vf32 magic = v_set1(0x1.8p23f + bias), sum = v_add(x, magic);
    return (v_exp_split){v_sub(x, v_sub(sum, magic)), sum};
}
SIMD_INLINE v_exp_split v_split_exp(vf32 x, float bias)
{
    const vf32 magic = v_set1(0x1.8p23f + bias), sum = v_fma(x, v_set1(0x1.715476p+0f), magic), n = v_sub(sum, magic);
    // the high part of ln2 has 15 bits, so n times it is exact
    return (v_exp_split){v_fnma(n, v_set1(0x1.7f7d1cp-20f), v_fnma(n, v_set1(0x1.62e4p-1f), x)), sum};
}
// 2^(n + bias - 127), from zero (0) to infinity (255) where 0 <= n + bias <= 255.
SIMD_INLINE vf32 v_power(vf32 sum) { return v_from_bits(vi_shl(v_bits(sum), 23)); }
// y 2^n, split with a bias of 254, for all n that give finite numbers or infinity: rounded once, as 2^(n/2) y is normal.
SIMD_INLINE vf32 v_scale(vf32 y, vf32 sum)
{
    const vi32 both = v_bits(sum), half = vi_shr(both, 1);
    return v_mul(v_mul(y, v_from_bits(vi_shl(half, 23))), v_from_bits(vi_shl(vi_sub(both, half), 23)));
}
// e^r and 2^r for |r| <= 1/2 (ln2), within 2^-28.
SIMD_INLINE vf32 v_exp_near(vf32 r)
{
    static const float c[] = {1.0f, 1.0f, 0x1p-1f, 0x1.55549p-3f, 0x1.5554bep-5f, 0x1.123afep-7f, 0x1.6d7c9ep-10f};
    return v_poly(r, c, 7);
}
// e^r - 1
SIMD_INLINE vf32 v_expm1_near(vf32 r)
{
    static const float c[] = {0x1p-1f, 0x1.55549p-3f, 0x1.5554bep-5f, 0x1.123afep-7f, 0x1.6d7c9ep-10f};
    return v_fma(v_mul(r, r), v_poly(r, c, 5), r);
}
SIMD_INLINE vf32 v_exp2_near(vf32 r)
{
    static const float c[] = {1.0f, 0x1.62e43p-1f, 0x1.ebfbep-3f, 0x1.c6af78p-5f, 0x1.3b2a26p-7f, 0x1.5f0ad6p-10f, 0x1.4449fap-13f};
    return v_poly(r, c, 7);
}
SIMD_INLINE vf32 v_exp(vf32 x)
{
    const v_exp_split s = v_split_exp(v_limit(x, -104.0f, 89.0f), 254.0f);
    return v_scale(v_exp_near(s.r), s.sum);
}
// e^x for x <= 0, to 2^-126; 0 from -87.7 on, as ATen's softmax has it.
SIMD_INLINE vf32 v_exp_below(vf32 x)
{
    const v_exp_split s = v_split_exp(v_max_fast(v_set1(-88.0f), x), 127.0f);
    return v_mul(v_exp_near(s.r), v_power(s.sum));
}
SIMD_INLINE vf32 v_exp2(vf32 x)
{
    const v_exp_split s = v_split_exp2(v_limit(x, -151.0f, 129.0f), 254.0f);
    return v_scale(v_exp2_near(s.r), s.sum);
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

// c + c e^x from e^r - 1, split with a bias of 127 + log2(c).
SIMD_INLINE vf32 v_one_and_power(vf32 rest, v_exp_split s, float c)
{
    const vf32 power = v_power(s.sum);
    return v_add(v_fma(rest, power, v_set1(c)), power);
}
// 1 / (1 + e^-x) = c / (c + c e^-x): with c = 2^-24 the power is in range for every x that matters.
SIMD_INLINE vf32 v_sigmoid(vf32 x)
{
    const v_exp_split s = v_split_exp(v_neg(v_limit(x, -104.0f, 70.0f)), 127.0f - 24.0f);
    return v_div(v_set1(0x1p-24f), v_one_and_power(v_expm1_near(s.r), s, 0x1p-24f));
}
// x / (1 + 2^-t), near being 2^r. Where the power is infinite (silu: left of -88.4) the result is -0, and NaN for -infinity, which is
// ATen's left of -88.7.
SIMD_INLINE vf32 v_times_logistic(vf32 x, v_exp_split s, vf32 near) { return v_div(x, v_fma(near, v_power(s.sum), v_set1(1.0f))); }

// Small: x + x^3 P(x^2). Else 1 - 2 / (e^(2x) + 1).
SIMD_INLINE vf32 v_tanh(vf32 x)
{
    static const float c[] = {-0x1.55553ep-2f, 0x1.1109bep-3f, -0x1.b89abp-5f, 0x1.54c3c2p-6f, -0x1.828776p-8f};
    const vf32 one = v_set1(1.0f), two = v_set1(2.0f), size = v_min_fast(v_set1(10.0f), v_abs(x));
    const vf32 z = v_mul(size, size);
    const vf32 near = v_fma(v_mul(size, z), v_poly(z, c, 5), size);
    const v_exp_split s = v_split_exp(v_add(size, size), 127.0f);
    const vf32 far = v_sub(one, v_div(two, v_one_and_power(v_expm1_near(s.r), s, 1.0f)));
    return v_flip_sign(v_select(v_lt(size, v_set1(0.6f)), near, far), v_sign_bit(x));
}

// 1 - e^(-g), g = |x| Q(|x|) fitted to -log(erfc); the first coefficient in two floats.
SIMD_INLINE vf32 v_erf(vf32 x)
{
    static const float q[] = {-0x1.f7ac92p-25f, 0x1.45f2fep-1f, 0x1.a4f95ep-4f, -0x1.39c0dcp-6f, -0x1.5b02aep-13f,
                              0x1.b6332cp-10f, -0x1.4cfa98p-11f, 0x1.efd9dep-14f, -0x1.389082p-17f};
    const vf32 size = v_min_fast(v_set1(4.1f), v_abs(x));
    const vf32 g = v_fma(size, v_set1(0x1.20dd76p+0f), v_mul(size, v_poly(size, q, 9)));
    const v_exp_split s = v_split_exp(v_neg(g), 127.0f);
    const vf32 power = v_power(s.sum);
    return v_flip_sign(v_fnma(v_expm1_near(s.r), power, v_sub(v_set1(1.0f), power)), v_sign_bit(x));
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
SIMD_INLINE vf32 v_silu(vf32 x)
{
    const v_exp_split s = v_split_exp(v_neg(v_limit(x, -89.0f, 87.0f)), 127.0f);
    return v_times_logistic(x, s, v_exp_near(s.r));
}

// x Phi(x) from m = |x| Phi(-|x|): x - m, or -m for negative x. Phi(-size) = 2^-h, h a polynomial for size <= 6; beyond
// that ATen's result is -0, or NaN at infinity.
SIMD_INLINE vf32 v_gelu_of(vf32 x, vf32 size, v_exp_split s, vf32 near)
{
    const vf32 tail = v_mul(near, v_power(s.sum));
    return v_fnma(size, v_select(v_lt(size, v_set1(6.0f)), tail, v_zero()), v_max_fast(v_set1(-0.0f), x));
}
SIMD_INLINE vf32 v_gelu(vf32 x)
{
    static const float c[] = {-0x1p0f, -0x1.26aedp0f, -0x1.d63cb2p-2f, -0x1.adac62p-5f, 0x1.c775cp-8f, 0x1.0e7354p-17f,
                              -0x1.2f78cap-12f, 0x1.549fb4p-14f, -0x1.9782e6p-17f, 0x1.0db338p-20f, -0x1.353b4ap-25f};
    const vf32 size = v_abs(x);
    const v_exp_split s = v_split_exp2(v_poly(v_min_fast(v_set1(6.0f), size), c, 11), 127.0f);
    return v_gelu_of(x, size, s, v_exp2_near(s.r));
}
// x / 2 (1 + tanh(u)) = x / (1 + 2^-t), t = 2 sqrt(2/pi) log2(e) (x + 0.044715 x^3)
SIMD_INLINE v_exp_split v_gelu_tanh_split(vf32 x)
{
    const vf32 t = v_mul(x, v_fma(v_mul(x, x), v_set1(0x1.a5a7cfp-4f), v_set1(0x1.26aec2p+1f)));
    return v_split_exp2(v_neg(v_limit(t, -128.0f, 126.0f)), 127.0f);
}
SIMD_INLINE vf32 v_gelu_tanh(vf32 x)
{
    const v_exp_split s = v_gelu_tanh_split(x);
    return v_times_logistic(x, s, v_exp2_near(s.r));
}

// ---- for results of 16 bits: relative errors below 2^-16 ------------------------------------------------------------

// (2^r - 1) / r
SIMD_INLINE vf32 v_exp2_slope_short(vf32 r)
{
    static const float c[] = {0x1.62e2d2p-1f, 0x1.ebf958p-3f, 0x1.c96d78p-5f, 0x1.3d107cp-7f};
    return v_poly(r, c, 4);
}
SIMD_INLINE vf32 v_exp2_near_short(vf32 r) { return v_fma(v_exp2_slope_short(r), r, v_set1(1.0f)); }
SIMD_INLINE vf32 v_exp_short(vf32 x)
{
    const v_exp_split s = v_split_exp2(v_mul(v_limit(x, -104.0f, 89.0f), v_set1(0x1.715476p+0f)), 254.0f);
    return v_scale(v_exp2_near_short(s.r), s.sum);
}
SIMD_INLINE vf32 v_sigmoid_short(vf32 x)
{
    const vf32 c = v_set1(0x1p-24f);
    const v_exp_split s = v_split_exp2(v_mul(v_limit(x, -104.0f, 70.0f), v_set1(-0x1.715476p+0f)), 127.0f - 24.0f);
    return v_div(c, v_fma(v_exp2_near_short(s.r), v_power(s.sum), c));
}
SIMD_INLINE vf32 v_silu_short(vf32 x)
{
    const v_exp_split s = v_split_exp2(v_mul(v_limit(x, -88.7f, 87.0f), v_set1(-0x1.715476p+0f)), 127.0f);
    return v_times_logistic(x, s, v_exp2_near_short(s.r));
}
SIMD_INLINE vf32 v_gelu_tanh_short(vf32 x)
{
    const v_exp_split s = v_gelu_tanh_split(x);
    return v_times_logistic(x, s, v_exp2_near_short(s.r));
}
// tanh(t / (2 log2(e))) = (2^t - 1) / (2^t + 1)
SIMD_INLINE vf32 v_tanh_of(vf32 t)
{
    const v_exp_split s = v_split_exp2(v_limit(t, -30.0f, 30.0f), 127.0f);
    const vf32 power = v_power(s.sum), top = v_fma(v_mul(s.r, v_exp2_slope_short(s.r)), power, v_sub(power, v_set1(1.0f)));
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
    const v_exp_split s = v_split_exp2(v_poly(v_min_fast(v_set1(6.0f), size), c, 7), 127.0f);
    return v_gelu_of(x, size, s, v_exp2_near_short(s.r));
}

#endif

// Inverse circular and hyperbolic functions on 16 floats, the hyperbolic ones, and that of erf: in double by short polynomials, rounded
// once, within 0.51 ulp (erfinv 0.53), with C99's answers for NaN, infinities and zeros. The same bits on every instruction set.
#ifndef NBX_CPU_VECMATH_INVERSE_H
#define NBX_CPU_VECMATH_INVERSE_H

#include "cpu/vecmath.h"

// atan(y / x) in the quadrant of (x, y): t P(t^2) on 0..1, relative error 5e-11, of the smaller over the larger.
SIMD_INLINE vf64 vd_atan2_short(vf64 y, vf64 x)
{
    static const double c[] = {0x1.ffffffff8c4c2p-1, -0x1.555554404c4f9p-2, 0x1.99992b9ecbae3p-3, -0x1.2489b0a63a3d0p-3,
                               0x1.c668f9bcd896bp-4, -0x1.6ff9a21b24c61p-4, 0x1.2934b8c670cc1p-4, -0x1.be3b3be848118p-5,
                               0x1.1a23ecf010210p-5, -0x1.0acd45a8e13b1p-6, 0x1.42adf8504b046p-8, -0x1.6df8ea57f8625p-11};
    const vf64 zero = vd_zero(), one = vd_set1(1.0), a = vd_abs(x), b = vd_abs(y);
    const vf64 low = vd_min_fast(a, b), high = vd_max_fast(a, b);
    const vf64 quotient = vd_select(vd_eq(low, high), one, vd_div(low, high));  // two infinities
    const vf64 t = vd_select(vd_eq(high, zero), zero, quotient);
    vf64 r = vd_mul(t, vd_poly(vd_mul(t, t), c, 12));
    r = vd_select(vd_gt(b, a), vd_sub(vd_set1(VD_PI_2), r), r);
    r = vd_select(vd_lt(vd_copysign(one, x), zero), vd_sub(vd_set1(2 * VD_PI_2), r), r);
    r = vd_select(vq_or(vd_isnan(x), vd_isnan(y)), vd_set1(NAN), r);
    return vd_copysign(r, y);
}
SIMD_INLINE vf64 vd_asin_short(vf64 x) { return vd_atan2_short(x, vd_sqrt(vd_fnma(x, x, vd_set1(1.0)))); }
SIMD_INLINE vf64 vd_acos_short(vf64 x) { return vd_atan2_short(vd_sqrt(vd_fnma(x, x, vd_set1(1.0))), x); }
SIMD_INLINE vf64 vd_sinh_short(vf64 x)
{
    const vf64 e = vd_expm1_short(vd_abs(x));
    return vd_copysign(vd_mul(vd_add(e, vd_div(e, vd_add(e, vd_set1(1.0)))), vd_set1(0.5)), x);
}
SIMD_INLINE vf64 vd_cosh_short(vf64 x)
{
    const vf64 e = vd_exp_short(vd_abs(x));
    return vd_mul(vd_add(e, vd_div(vd_set1(1.0), e)), vd_set1(0.5));
}
// log(a + sqrt(a^2 + 1)), a = |x|
SIMD_INLINE vf64 vd_asinh_short(vf64 x)
{
    const vf64 a = vd_abs(x), one = vd_set1(1.0), square = vd_mul(a, a);
    const vf64 r = vd_log1p_short(vd_add(a, vd_div(square, vd_add(one, vd_sqrt(vd_add(square, one))))));
    return vd_copysign(vd_select(vd_eq(a, vd_set1(INFINITY)), a, r), x);
}
SIMD_INLINE vf64 vd_acosh_short(vf64 x)
{
    const vf64 t = vd_sub(x, vd_set1(1.0)), r = vd_log1p_short(vd_add(t, vd_sqrt(vd_fma(t, t, vd_add(t, t)))));
    return vd_select(vd_ge(t, vd_zero()), r, vd_set1(NAN));
}
// half the log of (1 + a) / (1 - a)
SIMD_INLINE vf64 vd_atanh_short(vf64 x)
{
    const vf64 a = vd_abs(x), r = vd_log1p_short(vd_div(vd_add(a, a), vd_sub(vd_set1(1.0), a)));
    return vd_copysign(vd_select(vd_le(a, vd_set1(1.0)), vd_mul(r, vd_set1(0.5)), vd_set1(NAN)), x);
}

// x P(x^2) up to 1/2; beyond that a polynomial in sqrt(-log(1 - x^2)), relative error 1.1e-9 as far as floats go.
SIMD_INLINE vf64 vd_erfinv_short(vf64 x)
{
    static const double near_c[] = {0x1.c5bf891b4e90ap-1, 0x1.db29fb34caed7p-3, 0x1.053c2998e3088p-3, 0x1.62856fe4151abp-4,
                                    0x1.09fb1d3bb5616p-4, 0x1.aa7a0637642dbp-5, 0x1.47998bda06073p-5, 0x1.a52b79ce9b3aap-5,
                                    -0x1.c5be4ceeec94dp-7, 0x1.8d852ac0df9b7p-4};
    static const double far_c[] = {0x1.0cf6a35e6b7ffp+1, 0x1.f8537010bab93p-1, 0x1.2f4c715bc3d3dp-6, -0x1.c3648574c6905p-8,
                                   0x1.07b2982e42bafp-11, 0x1.d577cc21e129bp-11, -0x1.ab3edf173cd52p-12, -0x1.a49e3f881987ap-15,
                                   0x1.a7ce957a46590p-14, -0x1.9a73f049813fep-17, -0x1.4bb5b85a56a44p-16, 0x1.4b30f40c0aa99p-18,
                                   0x1.9d17a0353c002p-19, -0x1.b2730312bc3e4p-21, -0x1.6c4543e285b40p-22, 0x1.d80b85b77438cp-25,
                                   0x1.47d9572af8d14p-26};
    const vf64 one = vd_set1(1.0), a = vd_abs(x), near = vd_mul(a, vd_poly(vd_mul(a, a), near_c, 10));
    const vf64 w = vd_sqrt(vd_neg(vd_log_short(vd_fnma(a, a, one))));
    const vf64 r = vd_select(vd_le(a, vd_set1(0.5)), near, vd_poly(vd_sub(w, vd_set1(2.265)), far_c, 17));
    return vd_copysign(vd_select(vd_eq(a, one), vd_set1(INFINITY), r), x);
}

SIMD_INLINE vf32 v_atan2(vf32 y, vf32 x)
{
    return v_from_f64(vd_atan2_short(v_low_f64(y), v_low_f64(x)), vd_atan2_short(v_high_f64(y), v_high_f64(x)));
}
SIMD_INLINE vf32 v_atan(vf32 x) { return v_atan2(x, v_set1(1.0f)); }
#define V_BY_HALVES(NAME) \
    SIMD_INLINE vf32 v_##NAME(vf32 x) { return v_from_f64(vd_##NAME##_short(v_low_f64(x)), vd_##NAME##_short(v_high_f64(x))); }
V_BY_HALVES(asin) V_BY_HALVES(acos) V_BY_HALVES(sinh) V_BY_HALVES(cosh) V_BY_HALVES(asinh) V_BY_HALVES(acosh) V_BY_HALVES(atanh)
V_BY_HALVES(erfinv)
#undef V_BY_HALVES

#endif

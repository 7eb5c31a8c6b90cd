// Inverse circular and hyperbolic functions on 16 floats, and the hyperbolic ones: in double by short polynomials, rounded
// once, within 0.51 ulp, with C99's answers for NaN, infinities and zeros. The same bits on every instruction set.
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

SIMD_INLINE vf32 v_atan2(vf32 y, vf32 x)
{
    return v_from_f64(vd_atan2_short(v_low_f64(y), v_low_f64(x)), vd_atan2_short(v_high_f64(y), v_high_f64(x)));
}
SIMD_INLINE vf32 v_atan(vf32 x) { return v_atan2(x, v_set1(1.0f)); }
#define V_BY_HALVES(NAME) \
    SIMD_INLINE vf32 v_##NAME(vf32 x) { return v_from_f64(vd_##NAME##_short(v_low_f64(x)), vd_##NAME##_short(v_high_f64(x))); }
V_BY_HALVES(asin) V_BY_HALVES(acos) V_BY_HALVES(sinh) V_BY_HALVES(cosh) V_BY_HALVES(asinh) V_BY_HALVES(acosh) V_BY_HALVES(atanh)
#undef V_BY_HALVES

#endif

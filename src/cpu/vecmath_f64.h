// Elementary functions on 8 doubles. Included by vecmath.h.
//
// The functions called _short are accurate to about 2^-33: enough for a float result within 0.51 ulp, and half the work.
// The others are for double results (error in ulp in each comment, measured by vecmath_test.c). vd_map calls the C
// library lane by lane for functions that models rarely use in double. Polynomials are minimax fits made with Sollya's
// fpminimax on the interval given beside each.
#ifndef NBX_CPU_VECMATH_F64_H
#define NBX_CPU_VECMATH_F64_H

#include <math.h>

#include "cpu/simd.h"

// c[0] + x (c[1] + x (c[2] + ...)); count is a constant, so the loop is unrolled.
SIMD_INLINE vf64 vd_poly(vf64 x, const double *c, int count)
{
    vf64 y = vd_set1(c[count - 1]);
    for (int i = count - 2; i >= 0; i--) y = vd_fma(y, x, vd_set1(c[i]));
    return y;
}

SIMD_INLINE vf64 vd_map(vf64 x, double (*f)(double))
{
    double lanes[8];
    vd_store(lanes, x);
    for (int i = 0; i < 8; i++) lanes[i] = f(lanes[i]);
    return vd_load(lanes);
}
SIMD_INLINE vf64 vd_map2(vf64 x, vf64 y, double (*f)(double, double))
{
    double a[8], b[8];
    vd_store(a, x);
    vd_store(b, y);
    for (int i = 0; i < 8; i++) a[i] = f(a[i], b[i]);
    return vd_load(a);
}

#define VD_LOG2E 0x1.71547652b82fep+0
#define VD_LN2 0x1.62e42fefa39efp-1
#define VD_LN2_HIGH 0x1.62e42fefa3800p-1 // 42 bits: a multiple up to 2^11 is exact
#define VD_LN2_LOW 0x1.ef35793c76730p-45
#define VD_TO_INTEGER 0x1.8p52 // x + this rounds x to an integer, held in the low bits

// x = n ln2 + r. shifted holds n in its low bits.
typedef struct { vf64 r, n, shifted; } vd_exp_split;

SIMD_INLINE vd_exp_split vd_split_exp(vf64 x)
{
    const vf64 shifted = vd_fma(x, vd_set1(VD_LOG2E), vd_set1(VD_TO_INTEGER));
    const vf64 n = vd_sub(shifted, vd_set1(VD_TO_INTEGER));
    const vf64 r = vd_fnma(n, vd_set1(VD_LN2_LOW), vd_fnma(n, vd_set1(VD_LN2_HIGH), x));
    return (vd_exp_split){r, n, shifted};
}
// x 2^n, for a normal x and a normal result.
SIMD_INLINE vf64 vd_scale(vf64 x, vf64 shifted) { return vd_from_bits(vl_add(vd_bits(x), vl_shl(vd_bits(shifted), 52))); }
// x limited to low..high; NaN stays.
SIMD_INLINE vf64 vd_limit(vf64 x, double low, double high)
{
    return vd_max_fast(vd_set1(low), vd_min_fast(vd_set1(high), x));
}

// e^x - 1 for |x| <= 0.3475, relative error 5e-10: then e^x = 2^n (1 + p).
SIMD_INLINE vf64 vd_expm1_poly_short(vf64 r)
{
    static const double c[] = {0x1.0000000bada2fp-1, 0x1.5555552671932p-3, 0x1.5554e83052e7p-5,
                               0x1.11114c7f9580dp-7, 0x1.6d4465c66c189p-10, 0x1.a0733991813ccp-13};
    return vd_fma(vd_mul(r, r), vd_poly(r, c, 6), r);
}
// e^x with x limited to +-700, which is 0 or infinity for a float.
SIMD_INLINE vf64 vd_exp_short(vf64 x)
{
    const vd_exp_split s = vd_split_exp(vd_limit(x, -700.0, 700.0));
    return vd_scale(vd_add(vd_expm1_poly_short(s.r), vd_set1(1.0)), s.shifted);
}
SIMD_INLINE vf64 vd_expm1_short(vf64 x)
{
    const vd_exp_split s = vd_split_exp(vd_limit(x, -700.0, 700.0));
    const vf64 power = vd_scale(vd_set1(1.0), s.shifted);
    return vd_fma(vd_expm1_poly_short(s.r), power, vd_sub(power, vd_set1(1.0)));
}

// x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), for a normal positive x.
typedef struct { vf64 f, k; } vd_log_split;

SIMD_INLINE vd_log_split vd_split_log(vf64 x)
{
    const vi64 root = vl_set1(0x3fe6a09e667f3bcd), one = vl_set1(0x3ff0000000000000);
    const vi64 moved = vl_add(vd_bits(x), vl_sub(one, root)); // the exponent field steps at sqrt(1/2)
    const vi64 biased = vl_shr(moved, 52);
    const vf64 k = vd_sub(vd_from_bits(vl_or(biased, vl_set1(0x4330000000000000))), vd_set1(0x1p52 + 1023));
    const vi64 m = vl_add(vl_and(moved, vl_set1(0x000fffffffffffff)), root);
    return (vd_log_split){vd_sub(vd_from_bits(m), vd_set1(1.0)), k};
}
// log where x is NaN, negative, 0 or infinite; r elsewhere.
SIMD_INLINE vf64 vd_log_special(vf64 x, vf64 r)
{
    r = vd_select(vd_eq(x, vd_set1(INFINITY)), x, r);
    r = vd_select(vd_eq(x, vd_zero()), vd_set1(-INFINITY), r);
    return vd_select(vd_ge(x, vd_zero()), r, vd_set1(NAN));
}
// log(1 + f) on sqrt(1/2) .. sqrt(2), relative error 6e-12.
SIMD_INLINE vf64 vd_log1p_poly_short(vf64 f)
{
    static const double c[] = {-0x1.ffffffffc8791p-2, 0x1.5555555a79be7p-2, -0x1.0000009bbfb15p-2, 0x1.9999918221245p-3,
                               -0x1.5554c36f81948p-3, 0x1.2493cb89b23dcp-3, -0x1.0019844416827p-3, 0x1.c6fc2fee24419p-4,
                               -0x1.958e885976aabp-4, 0x1.71bdbfa7ab22ap-4, -0x1.798e9b88f9e02p-4, 0x1.75b3e2b29bd29p-4,
                               -0x1.93fac22173afep-5};
    return vd_fma(vd_mul(f, f), vd_poly(f, c, 13), f);
}
// x came from a float, so it is normal unless it is 0.
SIMD_INLINE vf64 vd_log_short(vf64 x)
{
    const vd_log_split s = vd_split_log(x);
    return vd_log_special(x, vd_fma(s.k, vd_set1(VD_LN2), vd_log1p_poly_short(s.f)));
}
SIMD_INLINE vf64 vd_log1p_short(vf64 x)
{
    const vf64 u = vd_add(x, vd_set1(1.0));
    const vd_log_split s = vd_split_log(u);
    const vf64 f = vd_select(vd_eq(s.k, vd_zero()), x, s.f); // x itself where 1 + x would have lost its end
    return vd_log_special(u, vd_fma(s.k, vd_set1(VD_LN2), vd_log1p_poly_short(f)));
}

#define VD_2_OVER_PI 0x1.45f306dc9c883p-1
#define VD_PI_2 0x1.921fb54442d18p+0
#define VD_PI_2_NEXT 0x1.1a62633145c07p-54
#define VD_PI_2_LAST -0x1.f1976b7ed8fbcp-110

// Sine and cosine of r, |r| <= pi/4, errors 2e-11 and 1e-12; which of them is wanted follows from the quadrant.
typedef struct { vf64 sin, cos; } vd_sincos;

SIMD_INLINE vd_sincos vd_sincos_poly_short(vf64 r)
{
    static const double s[] = {-0x1.555555545a74p-3, 0x1.11110de88425ap-7, -0x1.a013a03bab5c7p-13, 0x1.6dbc020fc7e4dp-19};
    static const double c[] = {0x1.555555550204bp-5, -0x1.6c16bf51ed7fbp-10, 0x1.a015c12ccfaffp-16, -0x1.252361c7a4796p-22};
    const vf64 z = vd_mul(r, r);
    const vf64 sine = vd_fma(vd_mul(r, z), vd_poly(z, s, 4), r);
    const vf64 cosine = vd_fma(vd_mul(z, z), vd_poly(z, c, 4), vd_fnma(z, vd_set1(0.5), vd_set1(1.0)));
    return (vd_sincos){sine, cosine};
}
// sin(x + quarter pi/2), from sine and cosine of the rest and n in the low bits of shifted.
SIMD_INLINE vf64 vd_pick_quadrant(vd_sincos t, vf64 shifted, int quarter)
{
    const vi64 q = vl_add(vd_bits(shifted), vl_set1(quarter));
    const vm64 odd = vl_eq(vl_and(q, vl_set1(1)), vl_set1(1));
    return vd_flip_sign(vd_select(odd, t.cos, t.sin), vl_shl(vl_and(q, vl_set1(2)), 62));
}
typedef struct { vd_sincos t; vf64 shifted; } vd_angle;

// For |x| < 2^30 that came from a float.
SIMD_INLINE vd_angle vd_reduce_short(vf64 x)
{
    const vf64 shifted = vd_fma(x, vd_set1(VD_2_OVER_PI), vd_set1(VD_TO_INTEGER));
    const vf64 n = vd_sub(shifted, vd_set1(VD_TO_INTEGER));
    const vf64 r = vd_fnma(n, vd_set1(VD_PI_2_NEXT), vd_fnma(n, vd_set1(VD_PI_2), x));
    return (vd_angle){vd_sincos_poly_short(r), shifted};
}
SIMD_INLINE vf64 vd_sin_short(vf64 x)
{
    const vd_angle a = vd_reduce_short(x);
    return vd_pick_quadrant(a.t, a.shifted, 0);
}
SIMD_INLINE vf64 vd_cos_short(vf64 x)
{
    const vd_angle a = vd_reduce_short(x);
    return vd_pick_quadrant(a.t, a.shifted, 1);
}
SIMD_INLINE vf64 vd_tan_short(vf64 x)
{
    const vd_angle a = vd_reduce_short(x);
    const vm64 odd = vl_eq(vl_and(vd_bits(a.shifted), vl_set1(1)), vl_set1(1));
    return vd_div(vd_select(odd, vd_neg(a.t.cos), a.t.sin), vd_select(odd, a.t.sin, a.t.cos));
}

// erfc(x) = e^(-x^2) P(u), u = (x - 2) / (x + 2), for 0 <= x <= 10.1; erfc(-x) = 2 - erfc(x). Relative error 2e-9.
SIMD_INLINE vf64 vd_erfc_short(vf64 x)
{
    static const double c[] = {0x1.058671b967998p-2, -0x1.b570355061c75p-2, 0x1.eeea7b3fcae29p-3, -0x1.437ed0904e1d7p-4,
                               0x1.e94fa2520afap-9, 0x1.ca6f236f05145p-8, -0x1.bcfe65d117733p-11, -0x1.fd93cefb64277p-11,
                               0x1.a2466293a793ap-15, 0x1.44151a96729cdp-13, 0x1.c694a16d3f689p-17, -0x1.8e9555cafe934p-17};
    const vf64 size = vd_min_fast(vd_set1(10.1), vd_abs(x));
    const vf64 u = vd_div(vd_sub(size, vd_set1(2.0)), vd_add(size, vd_set1(2.0)));
    const vf64 r = vd_mul(vd_exp_short(vd_neg(vd_mul(size, size))), vd_poly(u, c, 12));
    return vd_select(vd_lt(x, vd_zero()), vd_sub(vd_set1(2.0), r), r);
}

// ---- double results -------------------------------------------------------------------------------------------------

// e^r - 1 for |r| <= 0.3475
SIMD_INLINE vf64 vd_expm1_poly(vf64 r)
{
    static const double c[] = {0x1p-1, 0x1.5555555555557p-3, 0x1.5555555555551p-5, 0x1.1111111110033p-7,
                               0x1.6c16c16c1918ep-10, 0x1.a01a01ac35ba8p-13, 0x1.a01a0194e1dbfp-16, 0x1.71de0153c07f8p-19,
                               0x1.27e5072c18acdp-22, 0x1.af4f970ce06d1p-26, 0x1.1f293d5d17e67p-29};
    return vd_fma(vd_mul(r, r), vd_poly(r, c, 11), r);
}
// 1 ulp. The power is applied in two steps, so that subnormal results are rounded once.
SIMD_INLINE vf64 vd_exp(vf64 x)
{
    const vd_exp_split s = vd_split_exp(vd_limit(x, -746.0, 710.0));
    const vf64 y = vd_add(vd_expm1_poly(s.r), vd_set1(1.0));
    const vf64 half = vd_fma(s.n, vd_set1(0.5), vd_set1(VD_TO_INTEGER));
    const vf64 rest = vd_add(vd_sub(s.n, vd_sub(half, vd_set1(VD_TO_INTEGER))), vd_set1(VD_TO_INTEGER));
    return vd_mul(vd_mul(y, vd_scale(vd_set1(1.0), half)), vd_scale(vd_set1(1.0), rest));
}
// 1.8 ulp
SIMD_INLINE vf64 vd_expm1(vf64 x)
{
    const vd_exp_split s = vd_split_exp(vd_limit(x, -50.0, 709.9));
    const vf64 half_power = vd_scale(vd_set1(0.5), s.shifted);
    const vf64 y = vd_fma(vd_expm1_poly(s.r), half_power, vd_sub(half_power, vd_set1(0.5)));
    return vd_select(vd_eq(x, vd_zero()), x, vd_add(y, y));
}
// log(1 + f) - f + f^2/2 is s (f^2/2 + R), with s = f / (2 + f) (fdlibm's form). 1 ulp.
SIMD_INLINE vf64 vd_log(vf64 x)
{
    static const double c[] = {0x1.5555555555555p-1, 0x1.9999999999d59p-2, 0x1.249249242ee18p-2, 0x1.c71c725c5f797p-3,
                               0x1.745cdb74d0df2p-3, 0x1.3b21594819fcdp-3, 0x1.0f4a12e2f9271p-3, 0x1.1023d378b7412p-3};
    const vm64 subnormal = vd_lt(x, vd_set1(0x1p-1022));
    const vd_log_split a = vd_split_log(vd_select(subnormal, vd_mul(x, vd_set1(0x1p54)), x));
    const vf64 k = vd_sub(a.k, vd_select(subnormal, vd_set1(54.0), vd_zero()));
    const vf64 s = vd_div(a.f, vd_add(a.f, vd_set1(2.0))), z = vd_mul(s, s);
    const vf64 half_square = vd_mul(vd_mul(a.f, a.f), vd_set1(0.5));
    const vf64 tail = vd_fma(s, vd_fma(z, vd_poly(z, c, 8), half_square), vd_mul(k, vd_set1(VD_LN2_LOW)));
    const vf64 r = vd_fma(k, vd_set1(VD_LN2_HIGH), vd_add(vd_sub(tail, half_square), a.f));
    return vd_log_special(x, r);
}
// 2.2 ulp
SIMD_INLINE vf64 vd_sigmoid(vf64 x)
{
    const vf64 e = vd_exp(vd_neg(vd_abs(x))), one = vd_set1(1.0);
    return vd_div(vd_select(vd_lt(x, vd_zero()), e, one), vd_add(e, one));
}
// 2.2 ulp: t / (t + 2) with t = e^(2|x|) - 1
SIMD_INLINE vf64 vd_tanh(vf64 x)
{
    const vf64 size = vd_min_fast(vd_set1(25.0), vd_abs(x));
    const vf64 t = vd_expm1(vd_add(size, size));
    return vd_flip_sign(vd_div(t, vd_add(t, vd_set1(2.0))), vd_sign_bit(x));
}

// The rest of x modulo pi/2 in two doubles; right for |x| < 2^22, where x - n pi/2 (53 bits of pi/2) is exact.
SIMD_INLINE vd_angle vd_reduce(vf64 x)
{
    static const double s[] = {-0x1.5555555555555p-3, 0x1.111111111101fp-7, -0x1.a01a019fe8dfep-13, 0x1.71de3a10dc51fp-19,
                               -0x1.ae63f909cfa2ap-26, 0x1.60e68fae7ea57p-33, -0x1.8dbcc41816166p-41};
    static const double c[] = {0x1.5555555555555p-5, -0x1.6c16c16c168c9p-10, 0x1.a01a019f37fa7p-16, -0x1.27e4fa0294bd1p-22,
                               0x1.1eeb578302a43p-29, -0x1.90734d02b3f33p-37};
    const vf64 shifted = vd_fma(x, vd_set1(VD_2_OVER_PI), vd_set1(VD_TO_INTEGER));
    const vf64 n = vd_sub(shifted, vd_set1(VD_TO_INTEGER));
    const vf64 a = vd_fnma(n, vd_set1(VD_PI_2), x);
    const vf64 b = vd_mul(n, vd_set1(VD_PI_2_NEXT)), b_low = vd_fms(n, vd_set1(VD_PI_2_NEXT), b);
    const vf64 r = vd_sub(a, b), back = vd_sub(r, a);
    const vf64 lost = vd_sub(vd_sub(a, vd_sub(r, back)), vd_add(b, back));
    const vf64 low = vd_fnma(n, vd_set1(VD_PI_2_LAST), vd_sub(lost, b_low));
    const vf64 z = vd_mul(r, r), one_less = vd_mul(z, vd_set1(0.5));
    const vf64 cos_rough = vd_sub(vd_set1(1.0), one_less);
    const vf64 cos_lost = vd_sub(vd_sub(vd_set1(1.0), cos_rough), one_less);
    const vf64 sine = vd_add(r, vd_fma(vd_mul(r, z), vd_poly(z, s, 7), vd_mul(low, cos_rough)));
    const vf64 cosine = vd_add(cos_rough, vd_fma(vd_mul(z, z), vd_poly(z, c, 6), vd_fnma(r, low, cos_lost)));
    return (vd_angle){{sine, cosine}, shifted};
}
SIMD_INLINE bool vd_all_below(vf64 x, double bound) { return vq_all(vd_lt(vd_abs(x), vd_set1(bound))); }
// 1 ulp; beyond 2^22 the C library's
SIMD_INLINE vf64 vd_sin(vf64 x)
{
    if (!vd_all_below(x, 0x1p22)) return vd_map(x, sin);
    const vd_angle a = vd_reduce(x);
    return vd_select(vd_eq(x, vd_zero()), x, vd_pick_quadrant(a.t, a.shifted, 0));
}
SIMD_INLINE vf64 vd_cos(vf64 x)
{
    if (!vd_all_below(x, 0x1p22)) return vd_map(x, cos);
    const vd_angle a = vd_reduce(x);
    return vd_pick_quadrant(a.t, a.shifted, 1);
}
SIMD_INLINE vf64 vd_rsqrt(vf64 x) { return vd_div(vd_set1(1.0), vd_sqrt(x)); }

// The C library, lane by lane.
SIMD_INLINE vf64 vd_exp2(vf64 x) { return vd_map(x, exp2); }
SIMD_INLINE vf64 vd_log2(vf64 x) { return vd_map(x, log2); }
SIMD_INLINE vf64 vd_log10(vf64 x) { return vd_map(x, log10); }
SIMD_INLINE vf64 vd_log1p(vf64 x) { return vd_map(x, log1p); }
SIMD_INLINE vf64 vd_tan(vf64 x) { return vd_map(x, tan); }
SIMD_INLINE vf64 vd_erf(vf64 x) { return vd_map(x, erf); }
SIMD_INLINE vf64 vd_erfc(vf64 x) { return vd_map(x, erfc); }
SIMD_INLINE vf64 vd_pow(vf64 x, vf64 y) { return vd_map2(x, y, pow); }

#endif

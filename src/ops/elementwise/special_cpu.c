// Loops of special functions: in double, whatever the dtype, but for erfinv.
#include "ops/elementwise/loops_simd.h"

#include "core/half.h"
#include "cpu/vecmath_inverse.h"
#include "ops/elementwise/special_math.h"

#define ONE(NAME, FUNCTION)                                                                                            \
    EW_LOOP(NAME##_f64, ew_apply1_f64, FUNCTION)                                                                       \
    EW_KERNEL(ew_##NAME, .f64 = NAME##_f64)
#define TWO(NAME, FUNCTION)                                                                                            \
    EW_LOOP(NAME##_f64, ew_apply2_f64, FUNCTION)                                                                       \
    EW_KERNEL(ew_##NAME, .f64 = NAME##_f64)

static inline double d_lgamma(double x) {
    int sign;
    return lgamma_r(x, &sign);  // lgamma writes a global
}
ONE(lgamma, d_lgamma)
ONE(digamma, special_digamma)
EW_LOOP(erfinv_f32, ew_map1, v_erfinv)
EW_LOOP(erfinv_f64, ew_apply1_f64, special_erfinv)
EW_KERNEL(ew_erfinv, .f32 = erfinv_f32, .f64 = erfinv_f64)

// ATen's steps: halves are rounded after each.
EW_INLINE double as_computed(double x, nbx_dtype compute) {
    if (compute == NBX_FLOAT16) return (double)nbx_from_f16(nbx_to_f16((float)x));
    return compute == NBX_BFLOAT16 ? (double)nbx_from_bf16(nbx_to_bf16((float)x)) : x;
}

static void ndtr_f64(const ew_run *r) {
    const double *x = r->in[0];
    double *y = r->out[0];
    for (int64_t i = 0; i < r->count; i++) {
        if (r->compute == NBX_FLOAT64 || r->compute == NBX_FLOAT32) {
            y[i] = special_ndtr(x[i]);
            continue;
        }
        const double e = as_computed(erf(as_computed(x[i] * 0.70710678118654752440, r->compute)), r->compute);
        y[i] = as_computed(1 + e, r->compute) * 0.5;
    }
}
EW_KERNEL(ew_ndtr, .f64 = ndtr_f64)

ONE(log_ndtr, special_log_ndtr)
ONE(ndtri, special_ndtri)
ONE(entr, special_entr)

// Where float32 leaves the double.
#define NARROW_OR_NOT(NAME, X, CALL)                                                                                   \
    static void NAME##_f64(const ew_run *r) {                                                                          \
        const bool narrow = r->compute != NBX_FLOAT64;                                                                 \
        for (int64_t i = 0; i < r->count; i++) {                                                                       \
            const double X = ((const double *)r->in[0])[i];                                                            \
            ((double *)r->out[0])[i] = CALL;                                                                           \
        }                                                                                                              \
    }                                                                                                                  \
    EW_KERNEL(ew_##NAME, .f64 = NAME##_f64)
NARROW_OR_NOT(i0, x, special_i_of(0, x, narrow))
NARROW_OR_NOT(i1, x, special_i_of(1, x, narrow))
NARROW_OR_NOT(erfcx, x, special_erfcx_of(x, narrow))
NARROW_OR_NOT(airy, x, special_airy_of(x, narrow))
NARROW_OR_NOT(polygamma, x, special_polygamma_of(r->params->f[0], x, narrow))

ONE(i0e, special_i0e)
ONE(i1e, special_i1e)
ONE(j0, special_j0)
ONE(j1, special_j1)
ONE(y0, special_y0)
ONE(y1, special_y1)
ONE(k0, special_k0)
ONE(k1, special_k1)
ONE(k0e, special_k0e)
ONE(k1e, special_k1e)
ONE(spherical_j0, special_spherical_j0)

TWO(zeta, special_zeta)
TWO(gammainc, special_gammainc)
TWO(gammaincc, special_gammaincc)

static void mvlgamma_f64(const ew_run *r) {
    const double *x = r->in[0], start = r->params->f[0];
    double *y = r->out[0];
    for (int64_t i = 0; i < r->count; i++) {
        double sum = 0;
        for (int64_t j = 0; j < r->params->i[0]; j++)
            sum += as_computed(d_lgamma(as_computed(x[i] - (double)j / 2, r->compute)), r->compute);
        y[i] = as_computed(sum, r->compute) + start;
    }
}
EW_KERNEL(ew_mvlgamma, .f64 = mvlgamma_f64)

EW_INLINE void polynomial(const ew_run *r, special_family family) {
    const double *x = r->in[0], *n = r->in[1];
    double *y = r->out[0];
    for (int64_t i = 0; i < r->count; i++) y[i] = special_polynomial(family, x[i], n[i], r->compute != NBX_FLOAT64);
}
#define POLYNOMIAL(NAME, FAMILY)                                                                                       \
    EW_LOOP(NAME##_f64, polynomial, FAMILY)                                                                            \
    EW_KERNEL(ew_##NAME, .f64 = NAME##_f64)
POLYNOMIAL(chebyshev_t, SPECIAL_CHEBYSHEV_T)
POLYNOMIAL(chebyshev_u, SPECIAL_CHEBYSHEV_U)
POLYNOMIAL(chebyshev_v, SPECIAL_CHEBYSHEV_V)
POLYNOMIAL(chebyshev_w, SPECIAL_CHEBYSHEV_W)
POLYNOMIAL(shifted_chebyshev_t, SPECIAL_SHIFTED_T)
POLYNOMIAL(shifted_chebyshev_u, SPECIAL_SHIFTED_U)
POLYNOMIAL(shifted_chebyshev_v, SPECIAL_SHIFTED_V)
POLYNOMIAL(shifted_chebyshev_w, SPECIAL_SHIFTED_W)
POLYNOMIAL(hermite_h, SPECIAL_HERMITE_H)
POLYNOMIAL(hermite_he, SPECIAL_HERMITE_HE)
POLYNOMIAL(laguerre, SPECIAL_LAGUERRE)
POLYNOMIAL(legendre, SPECIAL_LEGENDRE)

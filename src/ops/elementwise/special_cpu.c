// Loops of special functions: in double, whatever the dtype.
#include "ops/elementwise/loops_simd.h"

#include "core/half.h"
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
ONE(erfinv, special_erfinv)

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

// e^(x^2) of a negative x is the part of the result that counts, and float32's square of x is what ATen has there.
static void erfcx_f64(const ew_run *r) {
    const double *x = r->in[0];
    double *y = r->out[0];
    for (int64_t i = 0; i < r->count; i++) {
        const bool single = r->compute != NBX_FLOAT64 && x[i] < 0 && x[i] >= -26.7;
        y[i] = single ? 2 * exp((double)(float)(x[i] * x[i])) - special_erfcx(-x[i]) : special_erfcx(x[i]);
    }
}
EW_KERNEL(ew_erfcx, .f64 = erfcx_f64)

ONE(log_ndtr, special_log_ndtr)
ONE(ndtri, special_ndtri)
ONE(entr, special_entr)

// ATen's float32 overflows where e^|x| does.
EW_INLINE void bessel_i(const ew_run *r, double (*f)(double)) {
    const double *x = r->in[0], limit = r->compute == NBX_FLOAT64 ? SPECIAL_INF : 88.72283935546875;
    double *y = r->out[0];
    for (int64_t i = 0; i < r->count; i++) y[i] = fabs(x[i]) > limit && !isinf(x[i]) ? copysign(SPECIAL_INF, f(x[i])) : f(x[i]);
}
EW_LOOP(i0_f64, bessel_i, special_i0)
EW_LOOP(i1_f64, bessel_i, special_i1)
EW_KERNEL(ew_i0, .f64 = i0_f64)
EW_KERNEL(ew_i1, .f64 = i1_f64)

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

// Where the phase is beyond float, ATen's float32 gives NaN.
static void airy_f64(const ew_run *r) {
    const double *x = r->in[0];
    double *y = r->out[0];
    for (int64_t i = 0; i < r->count; i++)
        y[i] = r->compute != NBX_FLOAT64 && x[i] < -6.3e25 ? SPECIAL_NAN : special_airy(x[i]);
}
EW_KERNEL(ew_airy, .f64 = airy_f64)

TWO(zeta, special_zeta)
TWO(gammainc, special_gammainc)
TWO(gammaincc, special_gammaincc)

static void polygamma_f64(const ew_run *r) {
    const double *x = r->in[0], n = r->params->f[0];
    double *y = r->out[0];
    for (int64_t i = 0; i < r->count; i++) {
        const bool pole = n == 1 && x[i] <= 0 && x[i] == floor(x[i]);
        if (pole && r->compute != NBX_FLOAT64) {  // ATen's: pi^2 over the square of a sine that float misses 0 by
            const double s = sin((double)((float)SPECIAL_PI * (float)x[i]));
            y[i] = s == 0 ? SPECIAL_INF : SPECIAL_PI * SPECIAL_PI / (s * s);
        } else {
            y[i] = special_polygamma(n, x[i]);
        }
    }
}
EW_KERNEL(ew_polygamma, .f64 = polygamma_f64)

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

// float32's recurrences, in double: two steps past the largest float they subtract infinities.
EW_INLINE void polynomial(const ew_run *r, double (*f)(double, double)) {
    const double *x = r->in[0], *n = r->in[1], top = 3.4028234663852886e38;
    double *y = r->out[0];
    for (int64_t i = 0; i < r->count; i++) {
        y[i] = f(x[i], n[i]);
        if (r->compute != NBX_FLOAT64 && fabs(y[i]) > top && fabs(f(x[i], n[i] - 2)) > top) y[i] = SPECIAL_NAN;
    }
}
#define POLYNOMIAL(NAME)                                                                                               \
    EW_LOOP(NAME##_f64, polynomial, NAME)                                                                              \
    EW_KERNEL(ew_##NAME, .f64 = NAME##_f64)

// The degree is cut to an integer.
static inline int64_t degree(double n) { return n >= -9e15 && n <= 9e15 ? (int64_t)n : -1; }
static inline double chebyshev_t(double x, double n) { return special_chebyshev(x, degree(n), 0); }
static inline double chebyshev_u(double x, double n) { return special_chebyshev(x, degree(n), 1); }
static inline double chebyshev_v(double x, double n) { return special_chebyshev(x, degree(n), 2); }
static inline double chebyshev_w(double x, double n) { return special_chebyshev(x, degree(n), 3); }
static inline double shifted_chebyshev_t(double x, double n) { return special_chebyshev(x + x - 1, degree(n), 0); }
static inline double shifted_chebyshev_u(double x, double n) { return special_chebyshev(x + x - 1, degree(n), 1); }
static inline double shifted_chebyshev_v(double x, double n) { return special_chebyshev(x + x - 1, degree(n), 2); }
static inline double shifted_chebyshev_w(double x, double n) { return special_chebyshev(x + x - 1, degree(n), 3); }
static inline double hermite_h(double x, double n) { return special_hermite(x, degree(n), true); }
static inline double hermite_he(double x, double n) { return special_hermite(x, degree(n), false); }
static inline double laguerre(double x, double n) { return special_laguerre(x, degree(n)); }
static inline double legendre(double x, double n) { return special_legendre(x, degree(n)); }
POLYNOMIAL(chebyshev_t)
POLYNOMIAL(chebyshev_u)
POLYNOMIAL(chebyshev_v)
POLYNOMIAL(chebyshev_w)
POLYNOMIAL(shifted_chebyshev_t)
POLYNOMIAL(shifted_chebyshev_u)
POLYNOMIAL(shifted_chebyshev_v)
POLYNOMIAL(shifted_chebyshev_w)
POLYNOMIAL(hermite_h)
POLYNOMIAL(hermite_he)
POLYNOMIAL(laguerre)
POLYNOMIAL(legendre)

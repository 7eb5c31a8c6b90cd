// Functions of a complex double on CUDA, with C99's values at infinities, zeros and NaN (libcu++, headers only).
#ifndef NBX_OPS_ELEMENTWISE_COMPLEX_CUH
#define NBX_OPS_ELEMENTWISE_COMPLEX_CUH

#include "ops/elementwise/engine.cuh"

#include <cuda/std/complex>

template <typename C> static __device__ __forceinline__ cdouble zc_wide(C z) { return {(double)z.re, (double)z.im}; }
template <typename C> static __device__ __forceinline__ C zc_narrow(cdouble z) {
    C r;
    r.re = z.re, r.im = z.im;
    return r;
}
template <typename C> static __device__ __forceinline__ bool zc_isnan(C z) { return z.re != z.re || z.im != z.im; }
static __device__ __forceinline__ cdouble zc_scale(cdouble z, double s) { return {z.re * s, z.im * s}; }

#define ZC(NAME)                                                                                                       \
    static __device__ __noinline__ cdouble zc_##NAME(cdouble z) {                                                      \
        const cuda::std::complex<double> r = cuda::std::NAME(cuda::std::complex<double>(z.re, z.im));                  \
        return {r.real(), r.imag()};                                                                                   \
    }
ZC(exp) ZC(log) ZC(sqrt) ZC(sin) ZC(cos) ZC(tan) ZC(asin) ZC(acos) ZC(atan) ZC(sinh) ZC(cosh) ZC(tanh) ZC(asinh) ZC(acosh) ZC(atanh)
#undef ZC

// e^z - 1 without cancelling: expm1(a) cos b - 2 sin^2(b/2).
static __device__ __noinline__ cdouble zc_expm1(cdouble z) {
    const double half = sin(z.im / 2);
    return {expm1(z.re) * cos(z.im) - 2 * half * half, exp(z.re) * sin(z.im)};
}
static __device__ __noinline__ cdouble zc_log1p(cdouble z) {
    const double theta = atan2(z.im, z.re + 1), size = hypot(z.re + 1, z.im);
    return {size < 0.5 ? log(size) : 0.5 * log1p(z.re * (2 + z.re) + z.im * z.im), theta};
}
// log(e^x + e^y)
static __device__ __noinline__ cdouble zc_logaddexp(cdouble x, cdouble y) {
    if (zc_isnan(x) || zc_isnan(y)) return {NAN, NAN};
    const bool swapped = x.re < y.re;
    const cdouble high = swapped ? y : x, low = swapped ? x : y;
    if (isinf(high.re) && high.re == low.re) return high.re < 0 ? low : zc_log(zc_exp(low) + zc_exp(high));
    return high + zc_log1p(zc_exp(low - high));
}
static __device__ __forceinline__ cdouble zc_pow(cdouble a, cdouble e) {
    const cuda::std::complex<double> r = cuda::std::pow(cuda::std::complex<double>(a.re, a.im), cuda::std::complex<double>(e.re, e.im));
    return {r.real(), r.imag()};
}
static __device__ __forceinline__ cfloat zc_pow(cfloat a, cfloat e) {
    const cuda::std::complex<float> r = cuda::std::pow(cuda::std::complex<float>(a.re, a.im), cuda::std::complex<float>(e.re, e.im));
    return {r.real(), r.imag()};
}

#endif

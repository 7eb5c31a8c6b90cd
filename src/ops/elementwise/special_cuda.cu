// Special functions on CUDA: the CPU's source, in double whatever the dtype.
#include "ops/elementwise/engine.cuh"

#include "ops/elementwise/special_math.h"

enum {
    LGAMMA, DIGAMMA, ERFINV, ERFCX, NDTR, LOG_NDTR, NDTRI, ENTR, I0, I0E, I1, I1E, J0, J1, Y0, Y1, K0, K1, K0E, K1E, SPHERICAL_J0, AIRY,
    POLYGAMMA, MVLGAMMA,
    ZETA, GAMMAINC, GAMMAINCC,
    POLYNOMIALS,  // and the members of special_family
};

// ATen's steps: halves are rounded after each.
static __device__ double as_computed(double x, const ewc_params &p) {
    return is_half(p) ? ewc_through<double>(p.compute, (double)(float)x) : x;
}

static __device__ __noinline__ double one_argument(int code, double x, const ewc_params &p, bool narrow) {
    switch (code) {
    case LGAMMA: return lgamma(x);
    case DIGAMMA: return special_digamma(x);
    case ERFINV: return special_erfinv(x);
    case ERFCX: return special_erfcx_of(x, narrow);
    case NDTR: return is_half(p) ? as_computed(1 + as_computed(erf(as_computed(x * 0.70710678118654752440, p)), p), p) * 0.5 : special_ndtr(x);
    case LOG_NDTR: return special_log_ndtr(x);
    case NDTRI: return special_ndtri(x);
    case ENTR: return special_entr(x);
    case I0: return special_i_of(0, x, narrow);
    case I0E: return special_i0e(x);
    case I1: return special_i_of(1, x, narrow);
    case I1E: return special_i1e(x);
    case J0: return special_j0(x);
    case J1: return special_j1(x);
    case Y0: return special_y0(x);
    case Y1: return special_y1(x);
    case K0: return special_k0(x);
    case K1: return special_k1(x);
    case K0E: return special_k0e(x);
    case K1E: return special_k1e(x);
    case SPHERICAL_J0: return special_spherical_j0(x);
    case AIRY: return special_airy_of(x, narrow);
    case POLYGAMMA: return special_polygamma_of(p.f[0], x, narrow);
    default: {
        double sum = 0;
        for (int64_t j = 0; j < p.i[0]; j++) sum += as_computed(lgamma(as_computed(x - (double)j / 2, p)), p);
        return as_computed(sum, p) + p.f[0];
    }
    }
}

static __device__ __noinline__ double two_arguments(int code, double x, double y, bool narrow) {
    switch (code) {
    case ZETA: return special_zeta(x, y);
    case GAMMAINC: return special_gammainc(x, y);
    case GAMMAINCC: return special_gammaincc(x, y);
    default: return special_polynomial((special_family)(code - POLYNOMIALS), x, y, narrow);
    }
}

struct special_group {
    enum { INPUTS = 2, OUTPUTS = 1, CLASSES = EWC_FLOATS };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[2][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
#pragma unroll 1
        for (int i = 0; i < EWC_LANES; i++)
            r[0][i] = (C)(code < ZETA ? one_argument(code, (double)x[0][i], p, sizeof(C) < 8)
                                       : two_arguments(code, (double)x[0][i], (double)x[1][i], sizeof(C) < 8));
    }
};

#define SPECIAL(CODE, NAME) EWC_OP(special_group, CODE, "aten::" NAME)
SPECIAL(LGAMMA, "lgamma")
SPECIAL(LGAMMA, "special_gammaln")
SPECIAL(DIGAMMA, "digamma")
SPECIAL(DIGAMMA, "special_psi")
SPECIAL(DIGAMMA, "special_digamma")
SPECIAL(POLYGAMMA, "polygamma")
SPECIAL(MVLGAMMA, "mvlgamma")
SPECIAL(ERFINV, "erfinv")
SPECIAL(ERFINV, "special_erfinv")
SPECIAL(ERFCX, "special_erfcx")
SPECIAL(NDTR, "special_ndtr")
SPECIAL(LOG_NDTR, "special_log_ndtr")
SPECIAL(NDTRI, "special_ndtri")
SPECIAL(ENTR, "special_entr")
SPECIAL(I0, "i0")
SPECIAL(I0, "special_i0")
SPECIAL(I0E, "special_i0e")
SPECIAL(I1, "special_i1")
SPECIAL(I1E, "special_i1e")
SPECIAL(I0, "special_modified_bessel_i0")
SPECIAL(I1, "special_modified_bessel_i1")
SPECIAL(K0, "special_modified_bessel_k0")
SPECIAL(K1, "special_modified_bessel_k1")
SPECIAL(K0E, "special_scaled_modified_bessel_k0")
SPECIAL(K1E, "special_scaled_modified_bessel_k1")
SPECIAL(J0, "special_bessel_j0")
SPECIAL(J1, "special_bessel_j1")
SPECIAL(Y0, "special_bessel_y0")
SPECIAL(Y1, "special_bessel_y1")
SPECIAL(SPHERICAL_J0, "special_spherical_bessel_j0")
SPECIAL(AIRY, "special_airy_ai")
SPECIAL(GAMMAINC, "igamma")
SPECIAL(GAMMAINCC, "igammac")
SPECIAL(GAMMAINC, "special_gammainc")
SPECIAL(GAMMAINCC, "special_gammaincc")
SPECIAL(ZETA, "special_zeta")
SPECIAL(ZETA, "special_zeta.self_scalar")
SPECIAL(ZETA, "special_zeta.other_scalar")

// Namespaces, since the names that SPECIAL makes are those of a line.
#define POLYNOMIAL(FAMILY, NAME)                                                                                       \
    namespace FAMILY##_tensors { SPECIAL(POLYNOMIALS + FAMILY, NAME) }                                                 \
    namespace FAMILY##_of_n { SPECIAL(POLYNOMIALS + FAMILY, NAME ".n_scalar") }                                        \
    namespace FAMILY##_of_x { SPECIAL(POLYNOMIALS + FAMILY, NAME ".x_scalar") }
POLYNOMIAL(SPECIAL_CHEBYSHEV_T, "special_chebyshev_polynomial_t")
POLYNOMIAL(SPECIAL_CHEBYSHEV_U, "special_chebyshev_polynomial_u")
POLYNOMIAL(SPECIAL_CHEBYSHEV_V, "special_chebyshev_polynomial_v")
POLYNOMIAL(SPECIAL_CHEBYSHEV_W, "special_chebyshev_polynomial_w")
POLYNOMIAL(SPECIAL_SHIFTED_T, "special_shifted_chebyshev_polynomial_t")
POLYNOMIAL(SPECIAL_SHIFTED_U, "special_shifted_chebyshev_polynomial_u")
POLYNOMIAL(SPECIAL_SHIFTED_V, "special_shifted_chebyshev_polynomial_v")
POLYNOMIAL(SPECIAL_SHIFTED_W, "special_shifted_chebyshev_polynomial_w")
POLYNOMIAL(SPECIAL_HERMITE_H, "special_hermite_polynomial_h")
POLYNOMIAL(SPECIAL_HERMITE_HE, "special_hermite_polynomial_he")
POLYNOMIAL(SPECIAL_LAGUERRE, "special_laguerre_polynomial_l")
POLYNOMIAL(SPECIAL_LEGENDRE, "special_legendre_polynomial_p")

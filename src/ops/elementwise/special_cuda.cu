// Special functions on CUDA: the CPU's source, in double whatever the dtype.
#include "ops/elementwise/engine.cuh"

#include "ops/elementwise/special_math.h"

enum {
    LGAMMA, DIGAMMA, ERFINV, ERFCX, NDTR, LOG_NDTR, NDTRI, ENTR, I0, I0E, I1, I1E, J0, J1, Y0, Y1, K0, K1, K0E, K1E, SPHERICAL_J0, AIRY,
    POLYGAMMA, MVLGAMMA,
    ZETA, GAMMAINC, GAMMAINCC, CHEBYSHEV_T, CHEBYSHEV_U, CHEBYSHEV_V, CHEBYSHEV_W, SHIFTED_T, SHIFTED_U, SHIFTED_V, SHIFTED_W,
    HERMITE_H, HERMITE_HE, LAGUERRE, LEGENDRE,
};

static __device__ __noinline__ double one_argument(int code, double x, const ewc_params &p) {
    switch (code) {
    case LGAMMA: return lgamma(x);
    case DIGAMMA: return special_digamma(x);
    case ERFINV: return special_erfinv(x);
    case ERFCX: return special_erfcx(x);
    case NDTR: return special_ndtr(x);
    case LOG_NDTR: return special_log_ndtr(x);
    case NDTRI: return special_ndtri(x);
    case ENTR: return special_entr(x);
    case I0: return special_i0(x);
    case I0E: return special_i0e(x);
    case I1: return special_i1(x);
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
    case AIRY: return special_airy(x);
    case POLYGAMMA: return special_polygamma(p.f[0], x);
    default: {
        double sum = p.f[0];
        for (int64_t j = 0; j < p.i[0]; j++) sum += lgamma(x - (double)j / 2);
        return sum;
    }
    }
}

static __device__ __noinline__ double two_arguments(int code, double x, double y) {
    const int64_t n = y >= -9e15 && y <= 9e15 ? (int64_t)y : -1;  // the degree is cut to an integer
    switch (code) {
    case ZETA: return special_zeta(x, y);
    case GAMMAINC: return special_gammainc(x, y);
    case GAMMAINCC: return special_gammaincc(x, y);
    case HERMITE_H: return special_hermite(x, n, true);
    case HERMITE_HE: return special_hermite(x, n, false);
    case LAGUERRE: return special_laguerre(x, n);
    case LEGENDRE: return special_legendre(x, n);
    default: break;
    }
    return code < SHIFTED_T ? special_chebyshev(x, n, code - CHEBYSHEV_T) : special_chebyshev(x + x - 1, n, code - SHIFTED_T);
}

struct special_group {
    enum { INPUTS = 2, OUTPUTS = 1, CLASSES = EWC_FLOATS };
    template <typename C> static __device__ __forceinline__ void eval(int code, const C (&x)[2][EWC_LANES], const ewc_params &p, C (&r)[1][EWC_LANES]) {
#pragma unroll 1
        for (int i = 0; i < EWC_LANES; i++)
            r[0][i] = (C)(code < ZETA ? one_argument(code, (double)x[0][i], p) : two_arguments(code, (double)x[0][i], (double)x[1][i]));
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
SPECIAL(CHEBYSHEV_T, "special_chebyshev_polynomial_t")
SPECIAL(CHEBYSHEV_T, "special_chebyshev_polynomial_t.n_scalar")
SPECIAL(CHEBYSHEV_T, "special_chebyshev_polynomial_t.x_scalar")
SPECIAL(CHEBYSHEV_U, "special_chebyshev_polynomial_u")
SPECIAL(CHEBYSHEV_U, "special_chebyshev_polynomial_u.n_scalar")
SPECIAL(CHEBYSHEV_U, "special_chebyshev_polynomial_u.x_scalar")
SPECIAL(CHEBYSHEV_V, "special_chebyshev_polynomial_v")
SPECIAL(CHEBYSHEV_V, "special_chebyshev_polynomial_v.n_scalar")
SPECIAL(CHEBYSHEV_V, "special_chebyshev_polynomial_v.x_scalar")
SPECIAL(CHEBYSHEV_W, "special_chebyshev_polynomial_w")
SPECIAL(CHEBYSHEV_W, "special_chebyshev_polynomial_w.n_scalar")
SPECIAL(CHEBYSHEV_W, "special_chebyshev_polynomial_w.x_scalar")
SPECIAL(SHIFTED_T, "special_shifted_chebyshev_polynomial_t")
SPECIAL(SHIFTED_T, "special_shifted_chebyshev_polynomial_t.n_scalar")
SPECIAL(SHIFTED_T, "special_shifted_chebyshev_polynomial_t.x_scalar")
SPECIAL(SHIFTED_U, "special_shifted_chebyshev_polynomial_u")
SPECIAL(SHIFTED_U, "special_shifted_chebyshev_polynomial_u.n_scalar")
SPECIAL(SHIFTED_U, "special_shifted_chebyshev_polynomial_u.x_scalar")
SPECIAL(SHIFTED_V, "special_shifted_chebyshev_polynomial_v")
SPECIAL(SHIFTED_V, "special_shifted_chebyshev_polynomial_v.n_scalar")
SPECIAL(SHIFTED_V, "special_shifted_chebyshev_polynomial_v.x_scalar")
SPECIAL(SHIFTED_W, "special_shifted_chebyshev_polynomial_w")
SPECIAL(SHIFTED_W, "special_shifted_chebyshev_polynomial_w.n_scalar")
SPECIAL(SHIFTED_W, "special_shifted_chebyshev_polynomial_w.x_scalar")
SPECIAL(HERMITE_H, "special_hermite_polynomial_h")
SPECIAL(HERMITE_H, "special_hermite_polynomial_h.n_scalar")
SPECIAL(HERMITE_H, "special_hermite_polynomial_h.x_scalar")
SPECIAL(HERMITE_HE, "special_hermite_polynomial_he")
SPECIAL(HERMITE_HE, "special_hermite_polynomial_he.n_scalar")
SPECIAL(HERMITE_HE, "special_hermite_polynomial_he.x_scalar")
SPECIAL(LAGUERRE, "special_laguerre_polynomial_l")
SPECIAL(LAGUERRE, "special_laguerre_polynomial_l.n_scalar")
SPECIAL(LAGUERRE, "special_laguerre_polynomial_l.x_scalar")
SPECIAL(LEGENDRE, "special_legendre_polynomial_p")
SPECIAL(LEGENDRE, "special_legendre_polynomial_p.n_scalar")
SPECIAL(LEGENDRE, "special_legendre_polynomial_p.x_scalar")

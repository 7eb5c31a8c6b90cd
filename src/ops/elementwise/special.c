// Rows of special functions.
#include "ops/elementwise/elementwise.h"

#include <math.h>

#define KERNELS(X)                                                                                                     \
    X(lgamma) X(digamma) X(polygamma) X(mvlgamma) X(erfinv) X(erfcx) X(ndtr) X(log_ndtr) X(ndtri) X(entr) X(i0) X(i0e) \
    X(i1) X(i1e) X(j0) X(j1) X(y0) X(y1) X(k0) X(k1) X(k0e) X(k1e) X(spherical_j0) X(airy) X(zeta) X(gammainc)         \
    X(gammaincc) X(chebyshev_t) X(chebyshev_u) X(chebyshev_v) X(chebyshev_w) X(shifted_chebyshev_t)                    \
    X(shifted_chebyshev_u) X(shifted_chebyshev_v) X(shifted_chebyshev_w) X(hermite_h) X(hermite_he) X(laguerre) X(legendre)
#define DECLARE(NAME) NBX_CPU_DECLARE(ew_##NAME);
KERNELS(DECLARE)

// polygamma(n, self)
static nbx_status take_order(nbx_op_call *c, ew_types *types, ew_params *p) {
    (void)types;
    p->f[0] = (double)arg_int(c, 0);
    if (p->f[0] >= 0) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the order %lld is negative", (long long)arg_int(c, 0));
}

enum { MOST_DIMENSIONS = 1 << 16 };  // each element takes so many steps; ATen's temporaries end its memory there

// mvlgamma(self, p): log of pi^(p (p-1) / 4) times the product of gamma(x - j / 2), j < p
static nbx_status take_dimension(nbx_op_call *c, ew_types *types, ew_params *p) {
    if (types->compute == NBX_BOOL || arg_tensor(c, 0)->dtype == NBX_BOOL) return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for bool");
    p->i[0] = arg_int(c, 1);
    p->f[0] = (double)p->i[0] * ((double)p->i[0] - 1) * 0.25 * 1.14472988584940017414;
    if (p->i[0] >= 1 && p->i[0] <= MOST_DIMENSIONS) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "p must lie from 1 to %d, not at %lld", MOST_DIMENSIONS, (long long)p->i[0]);
}

#define OF_INTS EW_UNARY, .rule = EW_FLOAT, .accepts = EW_FLOATS, .flags = EW_HEAVY | EW_TABLED
#define SINGLE EW_UNARY, .rule = EW_FLOAT, .accepts = EW_SINGLES, .flags = EW_HEAVY
#define POLYNOMIAL EW_BINARY, .rule = EW_FLOAT, .accepts = EW_SINGLES, .flags = EW_HEAVY
#define POLYNOMIALS(NAME, KERNEL)                                                                                      \
    EW_OP(NAME, KERNEL, POLYNOMIAL), EW_OP(NAME ".n_scalar", KERNEL, POLYNOMIAL), EW_OP(NAME ".x_scalar", KERNEL, POLYNOMIAL)

// polygamma_(self, n): the arguments of polygamma in the other order, so it is no derived form.
static nbx_status polygamma_in_place(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    return NBX_DO(c->ctx, "aten::polygamma.out", c->args[1], T(self), T(self)) ? out_tensor(c, 0, self) : c->ctx->status;
}

const nbx_op nbx_ops_special[] = {
    {.name = "aten::polygamma_", .composite = polygamma_in_place, .flags = NBX_OP_IN_PLACE | NBX_OP_EFFECT},
    EW_OP("lgamma", ew_lgamma, OF_INTS),
    EW_OP("special_gammaln", ew_lgamma, OF_INTS),
    EW_OP("digamma", ew_digamma, OF_INTS),
    EW_OP("special_psi", ew_digamma, OF_INTS),
    EW_OP("special_digamma", ew_digamma, OF_INTS),
    EW_OP("polygamma", ew_polygamma, .inputs = 1, .arg = {1}, .rule = EW_FLOAT, .accepts = EW_FLOATS, .flags = EW_HEAVY, .setup = take_order),
    EW_OP("mvlgamma", ew_mvlgamma, EW_UNARY, .rule = EW_FLOAT, .accepts = EW_FLOATS, .flags = EW_HEAVY | EW_PLAIN_OUT, .setup = take_dimension),
    EW_OP("erfinv", ew_erfinv, OF_INTS),
    EW_OP("special_erfinv", ew_erfinv, OF_INTS),
    EW_OP("special_erfcx", ew_erfcx, SINGLE),
    EW_OP("special_ndtr", ew_ndtr, OF_INTS),
    EW_OP("special_log_ndtr", ew_log_ndtr, SINGLE),
    EW_OP("special_ndtri", ew_ndtri, SINGLE),
    EW_OP("special_entr", ew_entr, OF_INTS),
    EW_OP("i0", ew_i0, OF_INTS),
    EW_OP("special_i0", ew_i0, OF_INTS),
    EW_OP("special_i0e", ew_i0e, OF_INTS),
    EW_OP("special_i1", ew_i1, OF_INTS),
    EW_OP("special_i1e", ew_i1e, OF_INTS),
    EW_OP("special_modified_bessel_i0", ew_i0, SINGLE),
    EW_OP("special_modified_bessel_i1", ew_i1, SINGLE),
    EW_OP("special_modified_bessel_k0", ew_k0, SINGLE),
    EW_OP("special_modified_bessel_k1", ew_k1, SINGLE),
    EW_OP("special_scaled_modified_bessel_k0", ew_k0e, SINGLE),
    EW_OP("special_scaled_modified_bessel_k1", ew_k1e, SINGLE),
    EW_OP("special_bessel_j0", ew_j0, SINGLE),
    EW_OP("special_bessel_j1", ew_j1, SINGLE),
    EW_OP("special_bessel_y0", ew_y0, SINGLE),
    EW_OP("special_bessel_y1", ew_y1, SINGLE),
    EW_OP("special_spherical_bessel_j0", ew_spherical_j0, SINGLE),
    EW_OP("special_airy_ai", ew_airy, SINGLE),
    EW_OP("special_zeta", ew_zeta, POLYNOMIAL),
    EW_OP("special_zeta.self_scalar", ew_zeta, POLYNOMIAL),
    EW_OP("special_zeta.other_scalar", ew_zeta, POLYNOMIAL),
    EW_OP("igamma", ew_gammainc, EW_BINARY, .accepts = EW_FLOATS, .flags = EW_HEAVY),
    EW_OP("igammac", ew_gammaincc, EW_BINARY, .accepts = EW_FLOATS, .flags = EW_HEAVY),
    EW_OP("special_gammainc", ew_gammainc, EW_BINARY, .accepts = EW_FLOATS, .flags = EW_HEAVY),
    EW_OP("special_gammaincc", ew_gammaincc, EW_BINARY, .accepts = EW_FLOATS, .flags = EW_HEAVY),
    POLYNOMIALS("special_chebyshev_polynomial_t", ew_chebyshev_t),
    POLYNOMIALS("special_chebyshev_polynomial_u", ew_chebyshev_u),
    POLYNOMIALS("special_chebyshev_polynomial_v", ew_chebyshev_v),
    POLYNOMIALS("special_chebyshev_polynomial_w", ew_chebyshev_w),
    POLYNOMIALS("special_shifted_chebyshev_polynomial_t", ew_shifted_chebyshev_t),
    POLYNOMIALS("special_shifted_chebyshev_polynomial_u", ew_shifted_chebyshev_u),
    POLYNOMIALS("special_shifted_chebyshev_polynomial_v", ew_shifted_chebyshev_v),
    POLYNOMIALS("special_shifted_chebyshev_polynomial_w", ew_shifted_chebyshev_w),
    POLYNOMIALS("special_hermite_polynomial_h", ew_hermite_h),
    POLYNOMIALS("special_hermite_polynomial_he", ew_hermite_he),
    POLYNOMIALS("special_laguerre_polynomial_l", ew_laguerre),
    POLYNOMIALS("special_legendre_polynomial_p", ew_legendre),
    NBX_OPS_END,
};

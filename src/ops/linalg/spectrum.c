// What singular values and eigenvalues tell: pinv, matrix_rank, cond. All are composites, as in ATen.
#include <math.h>

#include "ops/linalg/linalg.h"
#include "ops/shape/geometry.h"

static double epsilon(nbx_dtype dtype) { return nbx_dtype_to_real(dtype) == NBX_FLOAT32 ? 0x1p-23 : 0x1p-52; }

static nbx_tensor *number(nbx_op_call *c, nbx_dtype dtype, double x) { return do_full(c->ctx, c->device, dtype, 0, NULL, F(x)); }

static nbx_status check_tolerance(nbx_op_call *c, const nbx_tensor *t) {
    if (!t || !nbx_dtype_is_complex((nbx_dtype)t->dtype)) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "a tolerance must not be complex");
}

// max(atol, rtol * largest) with `largest` [..., 1]. Without rtol: epsilon times the longer side, or nothing where atol > 0.
static nbx_tensor *tolerance(nbx_op_call *c, const nbx_tensor *a, const nbx_tensor *atol, const nbx_tensor *rtol, const nbx_tensor *largest) {
    nbx_context *ctx = c->ctx;
    const nbx_dtype real = nbx_dtype_to_real((nbx_dtype)a->dtype);
    const int64_t side = linalg_rows(a) > linalg_cols(a) ? linalg_rows(a) : linalg_cols(a);
    if (!rtol) {
        rtol = number(c, real, epsilon(real) * (double)side);
        if (atol) rtol = NBX_DO(ctx, "aten::where.self", T(NBX_DO(ctx, "aten::gt.Scalar", T(atol), I(0))), T(number(c, real, 0)), T(rtol));
    }
    if (!atol) atol = number(c, real, 0);
    return NBX_DO(ctx, "aten::maximum", T(do_unsqueeze(ctx, atol, -1)), T(do_mul(ctx, do_unsqueeze(ctx, rtol, -1), largest)));
}

static nbx_tensor *largest_of(nbx_context *ctx, const nbx_tensor *values) {
    const int64_t last = -1;
    return NBX_DO(ctx, "aten::amax", T(values), nbx_of_ints(&last, 1), B(true));
}

// ------------------------------------------------------------------------------------------------------------------ pinv
// left diag(1 / values, 0 where values do not pass the tolerance) right^H
static nbx_status rebuild(nbx_op_call *c, const nbx_tensor *left, const nbx_tensor *values, const nbx_tensor *tested, const nbx_tensor *limit,
                          const nbx_tensor *right) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *passes = NBX_DO(ctx, "aten::gt.Tensor", T(tested), T(limit));
    const nbx_tensor *inverse = NBX_DO(ctx, "aten::where.ScalarOther", T(passes), T(do_unary(ctx, "aten::reciprocal", values)), I(0));
    if (!inverse || !left) return nbx_last_status(ctx);
    inverse = do_unsqueeze(ctx, do_cast(ctx, inverse, (nbx_dtype)left->dtype), -2);
    return out_tensor(c, 0, do_matmul(ctx, do_mul(ctx, left, inverse), right));
}

static nbx_status pinv_of(nbx_op_call *c, const nbx_tensor *atol, const nbx_tensor *rtol, bool hermitian) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0);
    nbx_value r[NBX_MAX_RESULTS];
    nbx_status status = hermitian && a->numel > 0 ? linalg_need_square(c, 0) : linalg_need_matrix(c, 0);
    if (status == NBX_OK) status = check_tolerance(c, atol);
    if (status == NBX_OK) status = check_tolerance(c, rtol);
    if (status != NBX_OK) return status;
    if (a->numel == 0) {
        int64_t shape[NBX_MAX_RANK];
        for (int d = 0; d < a->rank; d++) shape[d] = a->shape[d];
        shape[a->rank - 2] = linalg_cols(a), shape[a->rank - 1] = linalg_rows(a);
        return out_tensor(c, 0, nbx_new(ctx, c->device, (nbx_dtype)a->dtype, a->rank, shape));
    }
    if (hermitian) {
        status = nbx_do_many(ctx, "aten::linalg_eigh", 1, c->args, r, NBX_MAX_RESULTS);
        if (status != NBX_OK) return status;
        const nbx_tensor *size = do_unary(ctx, "aten::abs", r[0].as.tensor);
        const nbx_tensor *limit = tolerance(c, a, atol, rtol, largest_of(ctx, size));
        return rebuild(c, r[1].as.tensor, r[0].as.tensor, size, limit, do_adjoint(ctx, r[1].as.tensor));
    }
    const nbx_value args[] = {T(a), B(false)};
    status = nbx_do_many(ctx, "aten::linalg_svd", 2, args, r, NBX_MAX_RESULTS);
    if (status != NBX_OK) return status;
    const nbx_tensor *values = r[1].as.tensor, *limit = tolerance(c, a, atol, rtol, nbx_narrowed(ctx, values, -1, 0, 1));
    return rebuild(c, do_adjoint(ctx, r[2].as.tensor), values, values, limit, do_adjoint(ctx, r[0].as.tensor));
}

static nbx_status pinv(nbx_op_call *c) { return pinv_of(c, arg_tensor(c, 1), arg_tensor(c, 2), arg_bool(c, 3)); }

static nbx_status pinv_rcond(nbx_op_call *c) {
    const nbx_tensor *rtol = number(c, NBX_FLOAT64, arg_float(c, 1)), *atol = number(c, NBX_FLOAT64, 0);
    return rtol && atol ? pinv_of(c, atol, rtol, arg_bool(c, 2)) : nbx_last_status(c->ctx);
}

static nbx_status pinv_rcond_tensor(nbx_op_call *c) {
    const nbx_tensor *atol = number(c, NBX_FLOAT64, 0);
    return atol ? pinv_of(c, atol, arg_tensor(c, 1), arg_bool(c, 2)) : nbx_last_status(c->ctx);
}

// atol and rtol as numbers, absent or not, in arguments 1 and 2.
static nbx_status tolerances(nbx_op_call *c, const nbx_tensor **atol, const nbx_tensor **rtol) {
    *atol = arg_is_none(c, 1) ? NULL : number(c, NBX_FLOAT64, arg_float(c, 1));
    *rtol = arg_is_none(c, 2) ? NULL : number(c, NBX_FLOAT64, arg_float(c, 2));
    return (*atol || arg_is_none(c, 1)) && (*rtol || arg_is_none(c, 2)) ? NBX_OK : nbx_last_status(c->ctx);
}

static nbx_status pinv_floats(nbx_op_call *c) {
    const nbx_tensor *atol, *rtol;
    const nbx_status status = tolerances(c, &atol, &rtol);
    return status == NBX_OK ? pinv_of(c, atol, rtol, arg_bool(c, 3)) : status;
}

// ----------------------------------------------------------------------------------------------------------- matrix_rank
static nbx_status rank_of(nbx_op_call *c, const nbx_tensor *atol, const nbx_tensor *rtol, bool hermitian) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0), *values;
    const int64_t last = -1;
    nbx_status status = hermitian && a->numel > 0 ? linalg_need_square(c, 0) : linalg_need_matrix(c, 0);
    if (status == NBX_OK) status = check_tolerance(c, atol);
    if (status == NBX_OK) status = check_tolerance(c, rtol);
    if (status != NBX_OK) return status;
    if (a->numel == 0) return out_tensor(c, 0, do_full(ctx, c->device, NBX_INT64, a->rank - 2, a->shape, I(0)));
    if (hermitian) values = do_unary(ctx, "aten::abs", NBX_DO(ctx, "aten::linalg_eigvalsh", T(a)));
    else values = NBX_DO(ctx, "aten::linalg_svdvals", T(a));
    const nbx_tensor *limit = tolerance(c, a, atol, rtol, largest_of(ctx, values));
    return out_tensor(c, 0, do_sum(ctx, NBX_DO(ctx, "aten::gt.Tensor", T(values), T(limit)), 1, &last, false));
}

static nbx_status matrix_rank(nbx_op_call *c) { return rank_of(c, arg_tensor(c, 1), arg_tensor(c, 2), arg_bool(c, 3)); }

static nbx_status matrix_rank_floats(nbx_op_call *c) {
    const nbx_tensor *atol, *rtol;
    const nbx_status status = tolerances(c, &atol, &rtol);
    return status == NBX_OK ? rank_of(c, atol, rtol, arg_bool(c, 3)) : status;
}

// The older forms have one limit, an absolute one.
static nbx_status matrix_rank_within(nbx_op_call *c) {
    const nbx_tensor *atol = c->args[1].kind == NBX_KIND_TENSOR ? arg_tensor(c, 1) : number(c, NBX_FLOAT64, arg_float(c, 1)), *rtol = number(c, NBX_FLOAT64, 0);
    return atol && rtol ? rank_of(c, atol, rtol, arg_bool(c, 2)) : nbx_last_status(c->ctx);
}

// ------------------------------------------------------------------------------------------------------------------ cond
// |A| |A^-1| in a norm; infinite where A is singular.
static nbx_status cond_by_inverse(nbx_op_call *c, const char *norm, nbx_value order) {
    nbx_context *ctx = c->ctx;
    nbx_value r[NBX_MAX_RESULTS];
    nbx_status status = linalg_need_square(c, 0);
    if (status == NBX_OK) status = nbx_do_many(ctx, "aten::linalg_inv_ex", 1, c->args, r, NBX_MAX_RESULTS);
    if (status != NBX_OK) return status;
    const nbx_tensor *singular = NBX_DO(ctx, "aten::gt.Scalar", T(r[1].as.tensor), I(0));
    singular = do_unsqueeze(ctx, do_unsqueeze(ctx, singular, -1), -1);
    const nbx_tensor *inverse = NBX_DO(ctx, "aten::masked_fill.Scalar", T(r[0].as.tensor), T(singular), F((double)INFINITY));
    return out_tensor(c, 0, do_mul(ctx, NBX_DO(ctx, norm, c->args[0], order), NBX_DO(ctx, norm, T(inverse), order)));
}

static nbx_status cond_of_none(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0);
    return out_tensor(c, 0, do_full(c->ctx, c->device, nbx_dtype_to_real((nbx_dtype)a->dtype), a->rank - 2, a->shape, I(0)));
}

static nbx_status cond_named(nbx_op_call *c) {
    const nbx_status status = linalg_need_matrix(c, 0);
    if (status != NBX_OK) return status;
    return arg_tensor(c, 0)->numel == 0 ? cond_of_none(c) : cond_by_inverse(c, "aten::linalg_matrix_norm.str_ord", c->args[1]);
}

// |A| |A^-1| in the norm of order p: 1, 2 (the default: largest over smallest singular value), inf, or the negative of one.
static nbx_status cond(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0);
    const double p = arg_is_none(c, 1) ? 2 : nbx_scalar_to_double(&c->args[1]), size = fabs(p);
    if (size != 2 && size != 1 && !isinf(size)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "order %g is not supported", p);
    const nbx_status status = linalg_need_matrix(c, 0);
    if (status != NBX_OK) return status;
    if (a->numel == 0) return cond_of_none(c);
    if (size == 2) {
        const nbx_tensor *values = NBX_DO(ctx, "aten::linalg_svdvals", T(a));
        const nbx_tensor *most = do_select(ctx, values, -1, 0), *fewest = do_select(ctx, values, -1, -1);
        return out_tensor(c, 0, p > 0 ? do_div(ctx, most, fewest) : do_div(ctx, fewest, most));
    }
    return cond_by_inverse(c, "aten::linalg_matrix_norm", F(p));
}

const nbx_op nbx_ops_spectrum[] = {
    {.name = "aten::linalg_pinv", .composite = pinv_rcond},
    {.name = "aten::linalg_pinv.atol_rtol_tensor", .composite = pinv},
    {.name = "aten::linalg_matrix_rank.atol_rtol_tensor", .composite = matrix_rank},
    {.name = "aten::linalg_cond", .composite = cond},
    {.name = "aten::linalg_cond.p_str", .composite = cond_named},
    {.name = "aten::linalg_pinv.atol_rtol_float", .composite = pinv_floats},
    {.name = "aten::linalg_pinv.rcond_tensor", .composite = pinv_rcond_tensor},
    {.name = "aten::linalg_matrix_rank.atol_rtol_float", .composite = matrix_rank_floats},
    {.name = "aten::linalg_matrix_rank", .composite = matrix_rank_within},
    {.name = "aten::linalg_matrix_rank.tol_tensor", .composite = matrix_rank_within},
    NBX_OPS_END,
};

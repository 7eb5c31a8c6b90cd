// cov(x): how the rows of x [variables, observations] vary together; corrcoef(x): the same, divided by the deviations of both.
//   fweights [observations] integers: how often each was seen; aweights [observations] floats: how much each counts
//   source: aten::cov, aten::corrcoef; results of one variable are 0-dim
#include "ops/compose.h"

static nbx_tensor *flat_sum(nbx_context *ctx, const nbx_tensor *t) { return NBX_DO(ctx, "aten::sum", T(t)); }

// Fails unless the weights are a vector of the observations, and none is negative.
static nbx_status check_weights(nbx_op_call *c, const nbx_tensor *w, bool whole, int64_t observations) {
    const nbx_dtype d = (nbx_dtype)w->dtype;
    if (w->rank > 1 || w->numel != observations)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "weights must be a vector of %lld observations", (long long)observations);
    if (whole ? !nbx_dtype_is_integral(d, false) : !nbx_dtype_is_float(d))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s must be %s, found %s", whole ? "fweights" : "aweights", whole ? "integers" : "floats", nbx_dtype_name(d));
    double least = 0;
    if (observations == 0) return NBX_OK;
    const nbx_tensor *smallest = do_cast(c->ctx, do_unary(c->ctx, "aten::min", w), NBX_FLOAT64);
    if (!smallest || nbx_tensor_read(c->ctx, smallest, &least) != NBX_OK) return nbx_last_status(c->ctx);
    return least < 0 ? nbx_call_fail(c, NBX_ERROR_ARGUMENT, "weights must not be negative") : NBX_OK;
}

// The weights multiplied, NULL without any; fails when they sum to 0.
static nbx_status weights_of(nbx_op_call *c, int64_t observations, const nbx_tensor **weights) {
    const nbx_tensor *repeats = arg_tensor(c, 2), *shares = arg_tensor(c, 3);
    nbx_status status = repeats ? check_weights(c, repeats, true, observations) : NBX_OK;
    if (status == NBX_OK && shares) status = check_weights(c, shares, false, observations);
    if (status != NBX_OK) return status;
    *weights = repeats && shares ? do_mul(c->ctx, repeats, shares) : repeats ? repeats : shares;
    if (!repeats && !shares) return NBX_OK;
    double sum = 0;
    const nbx_tensor *total = do_cast(c->ctx, flat_sum(c->ctx, *weights), NBX_FLOAT64);
    if (!total || nbx_tensor_read(c->ctx, total, &sum) != NBX_OK) return nbx_last_status(c->ctx);
    return sum == 0 ? nbx_call_fail(c, NBX_ERROR_ARGUMENT, "weights sum to zero") : NBX_OK;
}

static nbx_status need_matrix(nbx_op_call *c, const nbx_tensor *x) {
    return x->rank <= 2 ? NBX_OK : nbx_call_fail(c, NBX_ERROR_SHAPE, "expected at most two dims, found %d", x->rank);
}

// (x - mean) ((x - mean) w)^H / (sum of w - correction)
static nbx_status compose_cov(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *weights = NULL;
    const int64_t correction = arg_int(c, 1), one = 1, row[2] = {1, -1};
    nbx_status status = need_matrix(c, x);
    if (status != NBX_OK) return status;
    if (x->dtype == NBX_BOOL) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for bool");
    if (x->rank < 2) x = do_view(ctx, x, 2, row);
    if (!x) return nbx_last_status(ctx);
    const int64_t observations = x->shape[1];
    status = weights_of(c, observations, &weights);
    if (status != NBX_OK) return status;
    const nbx_tensor *total = weights ? flat_sum(ctx, weights) : NBX_DO(ctx, "aten::scalar_tensor", I(observations), nbx_of_dtype(NBX_INT64));
    const nbx_tensor *mean = do_div(ctx, do_sum(ctx, weights ? do_mul(ctx, x, weights) : x, 1, &one, false), total), *freedom;
    if (weights && arg_tensor(c, 3) && correction != 0) {
        const nbx_tensor *lost = do_div(ctx, do_mul_scalar(ctx, flat_sum(ctx, do_mul(ctx, weights, arg_tensor(c, 3))), I(correction)), total);
        freedom = do_sub(ctx, total, lost);
    } else {
        freedom = NBX_DO(ctx, "aten::sub.Scalar", T(total), I(correction));
    }
    freedom = NBX_DO(ctx, "aten::clamp_min", T(freedom), I(0));
    const nbx_tensor *centred = do_sub(ctx, x, do_unsqueeze(ctx, mean, 1));
    const nbx_tensor *other = do_unary(ctx, "aten::_conj_physical", do_unary(ctx, "aten::t", weights ? do_mul(ctx, centred, weights) : centred));
    return out_tensor(c, 0, do_unary(ctx, "aten::squeeze", do_div(ctx, do_mm(ctx, centred, other), freedom)));
}

static nbx_tensor *within_one(nbx_context *ctx, const nbx_tensor *t) { return NBX_DO(ctx, "aten::clamp", T(t), I(-1), I(1)); }

static nbx_status compose_corrcoef(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const int64_t column[2] = {-1, 1}, row[2] = {1, -1};
    const nbx_status status = need_matrix(c, arg_tensor(c, 0));
    if (status != NBX_OK) return status;
    const nbx_tensor *cov = do_unary(ctx, "aten::cov", arg_tensor(c, 0));
    if (!cov) return nbx_last_status(ctx);
    if (cov->rank == 0) return out_tensor(c, 0, do_div(ctx, cov, cov));
    const bool is_complex = nbx_dtype_is_complex((nbx_dtype)cov->dtype);
    const nbx_tensor *variance = NBX_DO(ctx, "aten::diagonal", T(cov));
    const nbx_tensor *deviation = do_unary(ctx, "aten::sqrt", is_complex ? do_unary(ctx, "aten::real", variance) : variance);
    const nbx_tensor *r = do_div(ctx, cov, do_reshape(ctx, deviation, 2, column));
    r = do_div(ctx, r, do_reshape(ctx, deviation, 2, row));
    if (!is_complex) return out_tensor(c, 0, within_one(ctx, r));
    return out_tensor(c, 0, NBX_DO(ctx, "aten::complex", T(within_one(ctx, do_unary(ctx, "aten::real", r))),
                                   T(within_one(ctx, do_unary(ctx, "aten::imag", r)))));
}

const nbx_op nbx_ops_covariance[] = {
    {.name = "aten::cov", .composite = compose_cov, .flags = NBX_OP_READS_BACK},
    {.name = "aten::corrcoef", .composite = compose_corrcoef},
    NBX_OPS_END,
};

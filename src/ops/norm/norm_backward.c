// Gradients of layer_norm and group_norm, which programs of the core dialect may call: sums and products of other operators.
//   with h = (x - mean) rstd and a = grad weight:  grad_x = rstd (a - mean(a) - h mean(a h)),
//   grad_weight = sum(grad h), grad_bias = sum(grad); a result that output_mask leaves out is none
//   source: aten::native_layer_norm_backward, native_group_norm_backward
#include "ops/compose.h"
#include "ops/reduce/reduce.h"

static nbx_tensor *wide(nbx_context *ctx, const nbx_tensor *t) {
    return t && (t->dtype == NBX_FLOAT16 || t->dtype == NBX_BFLOAT16) ? do_cast(ctx, t, NBX_FLOAT32) : (nbx_tensor *)t;
}

static nbx_tensor *mean_of(nbx_context *ctx, const nbx_tensor *t, int count, const int64_t *dims) {
    return NBX_DO(ctx, "aten::mean.dim", T(t), nbx_of_ints(dims, count), B(true));
}

static bool wanted(const nbx_op_call *c, int arg, int k) { return c->args[arg].count <= k || c->args[arg].as.bools[k]; }

static nbx_status give(nbx_op_call *c, int k, bool want, const nbx_tensor *t, nbx_dtype dtype) {
    if (want) return out_tensor(c, k, t ? do_cast(c->ctx, t, dtype) : NULL);
    out_none(c, k);
    return NBX_OK;
}

// rstd (a - mean(a) - h mean(a h))
static nbx_tensor *input_gradient(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *h, const nbx_tensor *rstd, int count,
                                  const int64_t *dims) {
    const nbx_tensor *along = do_mul(ctx, h, mean_of(ctx, do_mul(ctx, a, h), count, dims));
    return do_mul(ctx, rstd, do_sub(ctx, do_sub(ctx, a, mean_of(ctx, a, count, dims)), along));
}

static nbx_status compose_layer_norm_backward(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *grad = wide(ctx, arg_tensor(c, 0)), *x = wide(ctx, arg_tensor(c, 1)), *weight = arg_tensor(c, 5);
    const nbx_tensor *mean = wide(ctx, arg_tensor(c, 3)), *rstd = wide(ctx, arg_tensor(c, 4));
    const nbx_dtype dtype = (nbx_dtype)arg_tensor(c, 1)->dtype, of_weight = weight ? (nbx_dtype)weight->dtype : dtype;
    if (!grad || !x || !mean || !rstd) return nbx_last_status(ctx);
    const int normalized = c->args[2].count, outer = x->rank - normalized;
    int64_t dims[NBX_MAX_RANK], outer_dims[NBX_MAX_RANK];
    if (outer < 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "normalized_shape has more dims than the input");
    for (int d = 0; d < outer; d++) outer_dims[d] = d;
    for (int d = 0; d < normalized; d++) dims[d] = outer + d;
    const nbx_tensor *h = do_mul(ctx, do_sub(ctx, x, mean), rstd);
    const nbx_tensor *a = weight ? do_mul(ctx, grad, wide(ctx, weight)) : grad;
    nbx_status status = give(c, 0, wanted(c, 7, 0), wanted(c, 7, 0) ? input_gradient(ctx, a, h, rstd, normalized, dims) : NULL, dtype);
    const bool want_weight = weight && wanted(c, 7, 1), want_bias = arg_tensor(c, 6) && wanted(c, 7, 2);
    const nbx_tensor *grad_h = want_weight ? do_mul(ctx, grad, h) : NULL;
    if (outer == 0) {
        if (status == NBX_OK) status = give(c, 1, want_weight, grad_h, of_weight);
        return status == NBX_OK ? give(c, 2, want_bias, grad, of_weight) : status;
    }
    if (status == NBX_OK) status = give(c, 1, want_weight, want_weight ? do_sum(ctx, grad_h, outer, outer_dims, false) : NULL, of_weight);
    return status == NBX_OK ? give(c, 2, want_bias, want_bias ? do_sum(ctx, grad, outer, outer_dims, false) : NULL, of_weight) : status;
}

static nbx_status compose_group_norm_backward(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *given = arg_tensor(c, 1), *weight = wide(ctx, arg_tensor(c, 4));
    const int64_t batch = arg_int(c, 5), channels = arg_int(c, 6), area = arg_int(c, 7), groups = arg_int(c, 8);
    const nbx_dtype dtype = (nbx_dtype)given->dtype;
    if (groups < 1 || batch < 0 || channels < 0 || area < 0 || channels % groups != 0 ||
        given->numel != nbx_shape_numel(3, (int64_t[]){batch, channels, area}))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "N, C, HxW and group do not fit the input");
    const int64_t shape[4] = {batch, groups, channels / groups, area}, stats[4] = {batch, groups, 1, 1};
    const int64_t per_channel[4] = {1, groups, channels / groups, 1}, flat[1] = {channels}, inner[2] = {2, 3}, outer[2] = {0, 3};
    const nbx_tensor *grad = do_reshape(ctx, wide(ctx, arg_tensor(c, 0)), 4, shape), *x = do_reshape(ctx, wide(ctx, given), 4, shape);
    const nbx_tensor *mean = do_reshape(ctx, wide(ctx, arg_tensor(c, 2)), 4, stats), *rstd = do_reshape(ctx, wide(ctx, arg_tensor(c, 3)), 4, stats);
    const nbx_tensor *h = do_mul(ctx, do_sub(ctx, x, mean), rstd);
    const nbx_tensor *a = weight ? do_mul(ctx, grad, do_reshape(ctx, weight, 4, per_channel)) : grad;
    const nbx_tensor *of_x = NULL, *of_weight = NULL, *of_bias = NULL;
    if (wanted(c, 9, 0)) of_x = do_reshape(ctx, input_gradient(ctx, a, h, rstd, 2, inner), given->rank, given->shape);
    if (wanted(c, 9, 1)) of_weight = do_reshape(ctx, do_sum(ctx, do_mul(ctx, grad, h), 2, outer, false), 1, flat);
    if (wanted(c, 9, 2)) of_bias = do_reshape(ctx, do_sum(ctx, grad, 2, outer, false), 1, flat);
    const nbx_dtype of_parameters = weight ? (nbx_dtype)arg_tensor(c, 4)->dtype : dtype;
    nbx_status status = give(c, 0, wanted(c, 9, 0), of_x, dtype);
    if (status == NBX_OK) status = give(c, 1, wanted(c, 9, 1), of_weight, of_parameters);
    return status == NBX_OK ? give(c, 2, wanted(c, 9, 2), of_bias, of_parameters) : status;
}

const nbx_op nbx_ops_norm_backward[] = {
    {.name = "aten::native_layer_norm_backward", .composite = compose_layer_norm_backward},
    {.name = "aten::native_group_norm_backward", .composite = compose_group_norm_backward},
    NBX_OPS_END,
};

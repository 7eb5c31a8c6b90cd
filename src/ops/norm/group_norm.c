// group_norm(x, groups, weight, bias, eps): the channels (dim 1) of a sample are cut into groups; y = (x - mean) /
// sqrt(var + eps) * weight + bias with the moments of the group and the parameters of the channel.
//   x [n, c, ...] float16 bfloat16 float32 float64; weight, bias [c], dtype of x, or float32 beside halves; y in x's format
//   mean, rstd [n, groups]; NaN for groups without elements
//   source: aten::native_group_norm
#include "ops/compose.h"
#include "ops/norm/norm.h"
#include "ops/reduce/reduce.h"

static nbx_status infer_native(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *parameters[2] = {arg_tensor(c, 1), arg_tensor(c, 2)};
    const int64_t batch = arg_int(c, 3), channels = arg_int(c, 4), area = arg_int(c, 5), groups = arg_int(c, 6);
    int64_t stride[NBX_MAX_RANK];
    nbx_dtype stats = NBX_FLOAT32;
    nbx_status status = norm_dtypes(c, x, 2, parameters, &stats);
    if (status != NBX_OK) return status;
    if (groups < 1 || channels % groups != 0)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld channels do not make %lld groups", (long long)channels, (long long)groups);
    if (batch < 0 || channels < 0 || area < 0 || x->rank < 2 || x->numel != nbx_shape_numel(3, (int64_t[]){batch, channels, area}) || x->shape[0] != batch ||
        x->shape[1] != channels)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "N, C, HxW = %lld, %lld, %lld are not those of the input", (long long)batch,
                             (long long)channels, (long long)area);
    for (int i = 0; i < 2; i++)
        if (parameters[i] && (parameters[i]->rank != 1 || parameters[i]->numel != channels))
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "a parameter should have %lld elements, found %lld", (long long)channels,
                                 (long long)parameters[i]->numel);
    status = nbx_call_need_target(c, 0, (nbx_dtype)x->dtype);
    if (status != NBX_OK) return status;
    group_norm_job *job = nbx_call_state(c, sizeof *job);
    if (!job) return nbx_last_status(c->ctx);
    *job = (group_norm_job){arg_float(c, 7), batch, channels, area, groups};
    const int64_t shape[2] = {batch, groups};
    if (nbx_shape_numel(2, shape) < 0 || nbx_shape_numel(2, shape) > INT64_MAX / 64)  // without channels any number of groups divides them
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld groups are too many", (long long)groups);
    // moments [batch, groups] twice, mean and scale [batch, channels], weight and shift [channels], and a reduction's pieces
    c->scratch_bytes = (size_t)(2 * batch * groups + 2 * batch * channels + 2 * channels) * 8 +
                       (c->device.type == NBX_CPU ? reduce_cpu_bound() : reduce_device_bound(batch * groups));
    nbx_strides_format(nbx_suggest_memory_format(x), x->rank, x->shape, stride);
    if (!out_new(c, 0, (nbx_dtype)x->dtype, x->rank, x->shape, stride) || !out_new(c, 1, stats, 2, shape, NULL) ||
        !out_new(c, 2, stats, 2, shape, NULL))
        return nbx_last_status(c->ctx);
    return NBX_OK;
}

static nbx_status compose_group_norm(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const int64_t groups = arg_int(c, 1);
    if (x->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected at least 2 dims, found %d", x->rank);
    const int64_t channels = x->shape[1];
    if (groups < 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "expected at least one group, found %lld", (long long)groups);
    int64_t area = 1;
    for (int d = 2; d < x->rank; d++) area *= x->shape[d];
    return out_tensor(c, 0, NBX_DO(c->ctx, "aten::native_group_norm", T(x), c->args[2], c->args[3], I(x->shape[0]), I(channels),
                                   I(area), I(groups), c->args[4]));
}

const nbx_op nbx_ops_group_norm[] = {
    {.name = "aten::native_group_norm", .infer = infer_native, .cpu = NBX_CPU_KERNEL(group_norm_cpu)},
    {.name = "aten::group_norm", .composite = compose_group_norm},
    NBX_OPS_END,
};

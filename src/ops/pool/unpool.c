// max_unpool2d, max_unpool3d: zeros, but where indices (flat in a plane of the result) say, there self.
#include <string.h>

#include "core/tensor.h"
#include "ops/op.h"
#include "ops/pool/pooling.h"

enum { SELF, INDICES, SIZE, STRIDE, PADDING };

static nbx_status need_numbers(nbx_op_call *c, int arg, int dims, int64_t least) {
    int count;
    const int64_t *list = arg_ints(c, arg, &count);
    if (count != dims) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s needs %d numbers, found %d", c->schema->params[arg].name, dims, count);
    for (int i = 0; i < dims; i++)
        if (list[i] < least) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s has %lld", c->schema->params[arg].name, (long long)list[i]);
    return NBX_OK;
}

static nbx_status infer(nbx_op_call *c) {
    const int dims = ((const pool_form *)c->op->data)->dims;
    const nbx_tensor *x = arg_tensor(c, SELF), *indices = arg_tensor(c, INDICES);
    const nbx_dtype d = (nbx_dtype)x->dtype;
    nbx_status status = need_numbers(c, SIZE, dims, 0);
    if (status == NBX_OK && dims == 3) status = need_numbers(c, STRIDE, dims, 1);
    if (status == NBX_OK && dims == 3) status = need_numbers(c, PADDING, dims, INT64_MIN);
    if (status != NBX_OK) return status;
    if (indices->dtype != NBX_INT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "indices must be int64, found %s", nbx_dtype_name((nbx_dtype)indices->dtype));
    if (!nbx_dtype_is_float(d) || nbx_dtype_is_float8(d)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name(d));
    if (x->rank != dims + 1 && x->rank != dims + 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "self must have %d or %d dims, found %d", dims + 1, dims + 2, x->rank);
    const nbx_tensor *target = nbx_call_target(c, 0);
    if (dims == 3 && target && !target->contiguous) return nbx_call_fail(c, NBX_ERROR_SHAPE, "out must be contiguous");
    if (!nbx_same_shape(x, indices)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "self and indices have different shapes");
    for (int i = x->rank - dims - 1; i < x->rank; i++)
        if (x->shape[i] == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "only the batch may be empty");
    int64_t shape[5], stride[5];
    memcpy(shape, x->shape, sizeof *shape * (size_t)x->rank);
    memcpy(shape + x->rank - dims, c->args[SIZE].as.ints, sizeof *shape * (size_t)dims);
    nbx_strides_contiguous(x->rank, shape, stride);
    if (dims == 2 && x->rank == 4) nbx_strides_format(nbx_suggest_memory_format(x), x->rank, shape, stride);
    c->restride_out = dims == 2 && x->rank == 4;
    if (!out_new(c, 0, d, x->rank, shape, stride)) return c->ctx->status;
    if (c->device.type != NBX_CPU) c->scratch_bytes = sizeof(int64_t) * (size_t)out_get(c, 0)->numel;
    return NBX_OK;
}

// Elements in row-major order, so that the last of equal indices wins.
static nbx_status max_unpool(nbx_op_call *c) {
    const int dims = ((const pool_form *)c->op->data)->dims;
    const nbx_tensor *x = arg_tensor(c, SELF), *indices = arg_tensor(c, INDICES), *out = out_get(c, 0);
    const size_t width = nbx_dtype_size((nbx_dtype)x->dtype);
    const int first = x->rank - dims;
    int64_t at[5] = {0}, plane = 1;
    if (out->numel == 0) return NBX_OK;
    memset(nbx_data(out), 0, nbx_tensor_nbytes(out));
    for (int d = first; d < x->rank; d++) plane *= out->shape[d];
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t from = 0, where = 0, to = 0;
        for (int d = 0; d < x->rank; d++) from += at[d] * x->stride[d], where += at[d] * indices->stride[d];
        int64_t index = ((const int64_t *)nbx_data(indices))[where];
        if (index < 0 || index >= plane)
            return nbx_call_fail(c, NBX_ERROR_INDEX, "index %lld is outside a plane of %lld", (long long)index, (long long)plane);
        for (int d = x->rank - 1; d >= first; d--) to += index % out->shape[d] * out->stride[d], index /= out->shape[d];
        for (int d = 0; d < first; d++) to += at[d] * out->stride[d];
        memcpy((char *)nbx_data(out) + (size_t)to * width, (const char *)nbx_data(x) + from * (int64_t)width, width);
        for (int d = x->rank - 1; d >= 0 && ++at[d] == x->shape[d]; d--) at[d] = 0;
    }
    return NBX_OK;
}

#define UNPOOL(NAME, DIMS)                                                                                             \
    {.name = NAME, .infer = infer, .cpu = NBX_CPU_KERNEL_ONE(max_unpool), .data = &(const pool_form){.kind = POOL_MAX, .dims = DIMS, .indices = true}, \
     .flags = NBX_OP_EXACT_DTYPE}

const nbx_op nbx_ops_unpool[] = {
    UNPOOL("aten::max_unpool2d", 2),
    UNPOOL("aten::max_unpool3d", 3),
    NBX_OPS_END,
};

// Views that choose or reorder dims: permute, transpose, select, slice, narrow, diagonal, unfold, as_strided.
#include "ops/shape/geometry.h"

#include <string.h>

static nbx_status permute(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int count;
    const int64_t *dims = arg_ints(c, 1, &count);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    if (nbx_geometry_permute(c, &g, count, dims) != NBX_OK) return c->ctx->status;
    return nbx_geometry_out(c, 0, x, &g);
}

static nbx_status transpose_dims(nbx_op_call *c, int64_t a, int64_t b) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    if (nbx_geometry_transpose(c, &g, a, b) != NBX_OK) return c->ctx->status;
    return nbx_geometry_out(c, 0, x, &g);
}

static nbx_status transpose(nbx_op_call *c) { return transpose_dims(c, arg_int(c, 1), arg_int(c, 2)); }

static nbx_status t(nbx_op_call *c) {
    const int rank = arg_tensor(c, 0)->rank;
    if (rank > 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of at most 2 dims, not %d", rank);
    return transpose_dims(c, 0, rank < 2 ? 0 : 1);
}

static nbx_status matrix_transpose(nbx_op_call *c) {
    const int rank = arg_tensor(c, 0)->rank;
    if (rank == 0) return out_tensor(c, 0, arg_tensor(c, 0));
    if (rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of at least 2 dims, not %d", rank);
    return transpose_dims(c, -2, -1);
}

static nbx_status reverse_dims(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_geometry g = {.rank = x->rank, .offset = x->offset};
    for (int d = 0; d < x->rank; d++) {
        g.shape[d] = x->shape[x->rank - 1 - d];
        g.stride[d] = x->stride[x->rank - 1 - d];
    }
    return nbx_geometry_out(c, 0, x, &g);
}

// movedim: dims source[i] go to positions destination[i]; the others keep their order.
static nbx_status move_dims(nbx_op_call *c, int count, const int64_t *source, int targets, const int64_t *destination) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (count != targets)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d source dims and %d destination dims", count, targets);
    int64_t order[NBX_MAX_RANK];
    for (int i = 0; i < x->rank; i++) order[i] = -1;
    uint64_t taken = 0;
    for (int i = 0; i < count; i++) {
        int from, to;
        if (nbx_call_dim(c, source[i], x->rank, &from) != NBX_OK || nbx_call_dim(c, destination[i], x->rank, &to) != NBX_OK)
            return c->ctx->status;
        if (taken >> from & 1 || (x->rank > 0 && order[to] >= 0))
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "dim %d is given twice", taken >> from & 1 ? from : to);
        taken |= (uint64_t)1 << from;
        if (x->rank > 0) order[to] = from;
    }
    for (int i = 0, from = 0; i < x->rank; i++) {
        if (order[i] >= 0) continue;
        while (taken >> from & 1) from++;
        order[i] = from++;
    }
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    if (nbx_geometry_permute(c, &g, x->rank, order) != NBX_OK) return c->ctx->status;
    return nbx_geometry_out(c, 0, x, &g);
}

static nbx_status movedim_int(nbx_op_call *c) {
    const int64_t source = arg_int(c, 1), destination = arg_int(c, 2);
    return move_dims(c, 1, &source, 1, &destination);
}

static nbx_status movedim_list(nbx_op_call *c) {
    int count, targets;
    const int64_t *source = arg_ints(c, 1, &count), *destination = arg_ints(c, 2, &targets);
    return move_dims(c, count, source, targets, destination);
}

static nbx_status select_int(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    if (nbx_geometry_select(c, &g, arg_int(c, 1), arg_int(c, 2)) != NBX_OK) return c->ctx->status;
    return nbx_geometry_out(c, 0, x, &g);
}

static nbx_status slice(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    if (nbx_geometry_slice(c, &g, arg_int(c, 1), arg_int_or(c, 2, 0), arg_int_or(c, 3, INT64_MAX), arg_int(c, 4)) != NBX_OK)
        return c->ctx->status;
    return nbx_geometry_out(c, 0, x, &g);
}

static nbx_status narrow_to(nbx_op_call *c, int64_t start, int64_t length) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int d;
    if (x->rank == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "a 0-dim tensor cannot be narrowed");
    if (nbx_call_dim(c, arg_int(c, 1), x->rank, &d) != NBX_OK) return c->ctx->status;
    const int64_t size = x->shape[d];
    if (length < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "length %lld is negative", (long long)length);
    if (start < -size || start > size)
        return nbx_call_fail(c, NBX_ERROR_INDEX, "start %lld is out of range [%lld, %lld]", (long long)start, (long long)-size,
                             (long long)size);
    if (start < 0) start += size;
    if (length > size - start)
        return nbx_call_fail(c, NBX_ERROR_INDEX, "start %lld and length %lld pass the size %lld of dim %d", (long long)start,
                             (long long)length, (long long)size, d);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    g.offset += start * g.stride[d];
    g.shape[d] = length;
    return nbx_geometry_out(c, 0, x, &g);
}

static nbx_status narrow(nbx_op_call *c) { return narrow_to(c, arg_int(c, 2), arg_int(c, 3)); }

// narrow.Tensor: start is a 0-dim tensor of integers.
static nbx_status narrow_tensor(nbx_op_call *c) {
    const nbx_tensor *start = arg_tensor(c, 2);
    if (start->rank != 0 || !nbx_dtype_is_integral((nbx_dtype)start->dtype, false))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "start must be a 0-dim tensor of integers");
    int64_t count;
    const int64_t *value = nbx_read_ints(c, start, &count);
    if (value == NULL) return c->ctx->status;
    return NBX_FORWARD(c, "aten::narrow", c->args[0], c->args[1], I(value[0]), c->args[3]);
}

static nbx_status diagonal(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    if (nbx_geometry_diagonal(c, &g, arg_int(c, 1), arg_int(c, 2), arg_int(c, 3)) != NBX_OK) return c->ctx->status;
    return nbx_geometry_out(c, 0, x, &g);
}

// unfold(dim, size, step): windows of size elements along dim, as a new last dim.
static nbx_status unfold(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const int64_t size = arg_int(c, 2), step = arg_int(c, 3);
    int d;
    if (nbx_call_dim(c, arg_int(c, 1), x->rank, &d) != NBX_OK) return c->ctx->status;
    const int64_t whole = x->rank == 0 ? 1 : x->shape[d];
    if (size < 0 || size > whole)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "size %lld must lie in [0, %lld]", (long long)size, (long long)whole);
    if (step <= 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "step %lld is not positive", (long long)step);
    if (x->rank == NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d dims", NBX_MAX_RANK);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    const int64_t stride = x->rank == 0 ? 1 : x->stride[d];
    if (x->rank > 0) {
        g.shape[d] = (whole - size) / step + 1;
        g.stride[d] = (int64_t)((uint64_t)stride * (uint64_t)step);  // wraps as ATen's does; there is one window then
        if (g.stride[d] < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "step %lld: the stride would be negative", (long long)step);
    }
    nbx_geometry_insert(&g, g.rank, size, stride);
    return nbx_geometry_out(c, 0, x, &g);
}

static nbx_status as_strided(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int count, strides;
    const int64_t *size = arg_ints(c, 1, &count), *stride = arg_ints(c, 2, &strides);
    nbx_geometry g = {.rank = count, .offset = arg_int_or(c, 3, x->offset)};
    if (count != strides || count > NBX_MAX_RANK)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%d sizes and %d strides", count, strides);
    for (int i = 0; i < count; i++) {
        g.shape[i] = size[i];
        g.stride[i] = stride[i];
        if (size[i] < 0 || stride[i] < 0)
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "negative size or stride at dim %d", i);
    }
    const int64_t bytes = g.offset < 0 ? -1 : nbx_extent_bytes((nbx_dtype)x->dtype, count, g.shape, g.stride, g.offset);
    if (bytes < 0 || (x->storage && (size_t)bytes > x->storage->bytes))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "sizes and strides reach past the storage of %zu bytes",
                             x->storage ? x->storage->bytes : 0);
    return nbx_geometry_out(c, 0, x, &g);
}

// prims::broadcast_in_dim(a, shape, dims): dim i of a becomes dim dims[i] of the result.
static nbx_status broadcast_in_dim(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int rank, count;
    const int64_t *shape = arg_ints(c, 1, &rank), *dims = arg_ints(c, 2, &count);
    if (count != x->rank || rank < count || rank > NBX_MAX_RANK)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%d dims are placed for a tensor of rank %d", count, x->rank);
    nbx_geometry g = {.rank = rank, .offset = x->offset};
    memcpy(g.shape, shape, sizeof(int64_t) * (size_t)rank);
    int64_t previous = -1;
    for (int i = 0; i < count; i++) {
        const int64_t d = dims[i];
        if (d <= previous || d >= rank || (x->shape[i] != 1 && x->shape[i] != shape[d]))
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "dim %d cannot become dim %lld of the result", i, (long long)d);
        g.stride[d] = x->shape[i] == shape[d] ? x->stride[i] : 0;
        previous = d;
    }
    return nbx_geometry_out(c, 0, x, &g);
}

const nbx_op nbx_ops_view_dims[] = {
    {.name = "aten::permute", .infer = permute},
    {.name = "aten::transpose.int", .infer = transpose},
    {.name = "aten::swapaxes", .infer = transpose},
    {.name = "aten::swapdims", .infer = transpose},
    {.name = "aten::t", .infer = t},
    {.name = "aten::numpy_T", .infer = reverse_dims},
    {.name = "aten::mT", .infer = matrix_transpose},
    {.name = "aten::movedim.int", .infer = movedim_int},
    {.name = "aten::movedim.intlist", .infer = movedim_list},
    {.name = "aten::moveaxis.int", .infer = movedim_int},
    {.name = "aten::moveaxis.intlist", .infer = movedim_list},
    {.name = "aten::select.int", .infer = select_int},
    {.name = "aten::slice.Tensor", .infer = slice},
    {.name = "aten::narrow", .infer = narrow},
    {.name = "aten::narrow.Tensor", .composite = narrow_tensor, .flags = NBX_OP_READS_BACK},
    {.name = "aten::diagonal", .infer = diagonal},
    {.name = "aten::unfold", .infer = unfold},
    {.name = "aten::as_strided", .infer = as_strided},
    {.name = "prims::broadcast_in_dim", .infer = broadcast_in_dim},
    NBX_OPS_END,
};

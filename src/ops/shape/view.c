// Views that reshape: view, expand, squeeze, unsqueeze, flatten and their kin. Those that ATen may answer with a copy
// (reshape, flatten) are composites: a view when the strides allow it, else a clone.
#include "ops/shape/geometry.h"

#include <string.h>

static nbx_status view(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_geometry g = {.offset = x->offset};
    int count;
    const int64_t *size = arg_ints(c, 1, &count);
    if (nbx_infer_size(c, x->numel, count, size, g.shape) != NBX_OK) return c->ctx->status;
    g.rank = count;
    if (!nbx_strides_for_view(x, g.rank, g.shape, g.stride)) {
        char a[NBX_SHAPE_TEXT], b[NBX_SHAPE_TEXT], s[NBX_SHAPE_TEXT];
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "shape %s with strides %s cannot be seen as %s without a copy; use reshape",
                             nbx_shape_text(x->rank, x->shape, a, sizeof a), nbx_shape_text(x->rank, x->stride, s, sizeof s),
                             nbx_shape_text(g.rank, g.shape, b, sizeof b));
    }
    return nbx_geometry_out(c, 0, x, &g);
}

// view.dtype: bits seen as another dtype. Sizes that differ scale the last dim, which must be dense.
static nbx_status view_dtype(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_dtype to = arg_dtype(c, 1);
    const int64_t from_bytes = (int64_t)nbx_dtype_size((nbx_dtype)x->dtype), to_bytes = (int64_t)nbx_dtype_size(to);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    const int last = g.rank - 1;
    if (from_bytes == to_bytes) return out_view(c, 0, x, to, g.rank, g.shape, g.stride, g.offset) ? NBX_OK : c->ctx->status;
    if (g.rank == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "a 0-dim tensor keeps the size of its elements");
    if (g.stride[last] != 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the last dim must have stride 1, not %lld", (long long)g.stride[last]);
    const int64_t ratio = from_bytes > to_bytes ? from_bytes / to_bytes : to_bytes / from_bytes;
    if (from_bytes > to_bytes) {
        for (int d = 0; d < last; d++) g.stride[d] *= ratio;
        g.shape[last] *= ratio;
        g.offset *= ratio;
    } else {
        bool divides = g.shape[last] % ratio == 0 && g.offset % ratio == 0;
        for (int d = 0; d < last; d++) divides = divides && g.stride[d] % ratio == 0;
        if (!divides)
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "last size, strides and offset must be multiples of %lld", (long long)ratio);
        for (int d = 0; d < last; d++) g.stride[d] /= ratio;
        g.shape[last] /= ratio;
        g.offset /= ratio;
    }
    return out_view(c, 0, x, to, g.rank, g.shape, g.stride, g.offset) ? NBX_OK : c->ctx->status;
}

// _reshape_alias: sizes and strides as given, for those who computed them.
static nbx_status reshape_alias(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_geometry g = {.offset = x->offset};
    int count, strides;
    const int64_t *size = arg_ints(c, 1, &count), *stride = arg_ints(c, 2, &strides);
    if (count != strides || count > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "%d sizes and %d strides", count, strides);
    if (nbx_infer_size(c, x->numel, count, size, g.shape) != NBX_OK) return c->ctx->status;
    g.rank = count;
    memcpy(g.stride, stride, sizeof(int64_t) * (size_t)count);
    return nbx_geometry_out(c, 0, x, &g);
}

static nbx_status expand_to(nbx_op_call *c, int count, const int64_t *size) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    if (nbx_geometry_expand(c, &g, count, size) != NBX_OK) return c->ctx->status;
    return nbx_geometry_out(c, 0, x, &g);
}

static nbx_status expand(nbx_op_call *c) {
    int count;
    const int64_t *size = arg_ints(c, 1, &count);
    return expand_to(c, count, size);
}

static nbx_status expand_as(nbx_op_call *c) { return expand_to(c, arg_tensor(c, 1)->rank, arg_tensor(c, 1)->shape); }

static nbx_status squeeze_mask(nbx_op_call *c, uint64_t mask) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    for (int d = x->rank - 1; d >= 0; d--)
        if (mask >> d & 1 && x->shape[d] == 1) nbx_geometry_remove(&g, d);
    return nbx_geometry_out(c, 0, x, &g);
}

static nbx_status squeeze(nbx_op_call *c) { return squeeze_mask(c, ~(uint64_t)0); }

static nbx_status squeeze_dim(nbx_op_call *c) {
    int d;
    if (nbx_call_dim(c, arg_int(c, 1), arg_tensor(c, 0)->rank, &d) != NBX_OK) return c->ctx->status;
    return squeeze_mask(c, (uint64_t)1 << d);
}

static nbx_status squeeze_dims(nbx_op_call *c) {
    uint64_t mask;
    if (nbx_call_dims(c, 1, arg_tensor(c, 0)->rank, false, &mask) != NBX_OK) return c->ctx->status;
    return squeeze_mask(c, mask);
}

static nbx_status unsqueeze(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    if (nbx_geometry_unsqueeze(c, &g, arg_int(c, 1)) != NBX_OK) return c->ctx->status;
    return nbx_geometry_out(c, 0, x, &g);
}

// The same tensor seen again: alias, detach, lift.
static nbx_status alias(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    return nbx_geometry_out(c, 0, x, &g);
}

// unflatten.int: dim becomes several whose product it is.
static nbx_status unflatten(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int d, count;
    const int64_t *size = arg_ints(c, 2, &count);
    int64_t inner[NBX_MAX_RANK];
    if (nbx_call_dim(c, arg_int(c, 1), x->rank, &d) != NBX_OK) return c->ctx->status;
    if (count == 0 || x->rank == 0 || count + x->rank - 1 > NBX_MAX_RANK)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%d sizes cannot stand for a dim of rank %d", count, x->rank);
    if (nbx_infer_size(c, x->shape[d], count, size, inner) != NBX_OK) return c->ctx->status;
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    int64_t stride = g.stride[d];
    nbx_geometry_remove(&g, d);
    for (int i = count - 1; i >= 0; i--) {
        nbx_geometry_insert(&g, d, inner[i], stride);
        stride *= inner[i] > 1 ? inner[i] : 1;
    }
    return nbx_geometry_out(c, 0, x, &g);
}

// ------------------------------------------------------------------------------------------------ a view, or else a copy
static nbx_status reshape_to(nbx_op_call *c, const nbx_tensor *x, int rank, const int64_t *shape) {
    nbx_geometry g = {.rank = rank, .offset = x->offset};
    memcpy(g.shape, shape, sizeof(int64_t) * (size_t)rank);
    if (!nbx_strides_for_view(x, rank, g.shape, g.stride)) {
        x = nbx_cloned(c->ctx, x);
        if (x == NULL) return c->ctx->status;
        g.offset = x->offset;
        nbx_strides_contiguous(rank, g.shape, g.stride);
    }
    return nbx_give(c, 0, nbx_geometry_view(c->ctx, x, &g));
}

static nbx_status reshape(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int count;
    const int64_t *size = arg_ints(c, 1, &count);
    int64_t shape[NBX_MAX_RANK];
    if (nbx_infer_size(c, x->numel, count, size, shape) != NBX_OK) return c->ctx->status;
    return reshape_to(c, x, count, shape);
}

// _reshape_copy: reshape that never aliases.
static nbx_status reshape_copy(nbx_op_call *c) {
    int count;
    const int64_t *size = arg_ints(c, 1, &count);
    return nbx_give(c, 0, NBX_DO(c->ctx, "aten::clone", T(NBX_DO(c->ctx, "aten::reshape", T(arg_tensor(c, 0)), nbx_of_ints(size, count))),
                                 nbx_of_memory_format(NBX_CONTIGUOUS_FORMAT)));
}

static nbx_status reshape_as(nbx_op_call *c) {
    const nbx_tensor *other = arg_tensor(c, 1);
    return NBX_FORWARD(c, "aten::reshape", T(arg_tensor(c, 0)), nbx_of_ints(other->shape, other->rank));
}

static nbx_status view_as(nbx_op_call *c) {
    const nbx_tensor *other = arg_tensor(c, 1);
    return NBX_FORWARD(c, "aten::view", T(arg_tensor(c, 0)), nbx_of_ints(other->shape, other->rank));
}

static nbx_status flatten(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int first, last;
    if (nbx_call_dim(c, arg_int(c, 1), x->rank, &first) != NBX_OK || nbx_call_dim(c, arg_int(c, 2), x->rank, &last) != NBX_OK)
        return c->ctx->status;
    if (first > last) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "start_dim %d lies behind end_dim %d", first, last);
    const int64_t one = 1;
    if (x->rank == 0) return reshape_to(c, x, 1, &one);
    if (first == last) return out_tensor(c, 0, x);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    for (int d = first; d < last; d++) {
        g.shape[first + 1] *= g.shape[first];
        nbx_geometry_remove(&g, first);
    }
    return reshape_to(c, x, g.rank, g.shape);
}

static nbx_status ravel(nbx_op_call *c) {
    const nbx_tensor *x = nbx_contiguous(c->ctx, arg_tensor(c, 0));
    return x == NULL ? c->ctx->status : reshape_to(c, x, 1, &x->numel);
}

const nbx_op nbx_ops_view[] = {
    {.name = "aten::view", .infer = view},
    {.name = "aten::_unsafe_view", .infer = view, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::view.dtype", .infer = view_dtype},
    {.name = "aten::view_as", .composite = view_as},
    {.name = "aten::_reshape_alias", .infer = reshape_alias},
    {.name = "aten::reshape", .composite = reshape},
    {.name = "aten::_reshape_copy", .composite = reshape_copy},
    {.name = "aten::reshape_as", .composite = reshape_as},
    {.name = "aten::flatten.using_ints", .composite = flatten},
    {.name = "aten::ravel", .composite = ravel},
    {.name = "aten::unflatten.int", .infer = unflatten},
    {.name = "aten::expand", .infer = expand},
    {.name = "aten::expand_as", .infer = expand_as},
    {.name = "aten::broadcast_to", .infer = expand},
    {.name = "aten::squeeze", .infer = squeeze},
    {.name = "aten::squeeze.dim", .infer = squeeze_dim},
    {.name = "aten::squeeze.dims", .infer = squeeze_dims},
    {.name = "aten::unsqueeze", .infer = unsqueeze},
    {.name = "aten::alias", .infer = alias},
    {.name = "aten::detach", .infer = alias},
    {.name = "aten::lift", .infer = alias},
    {.name = "aten::lift_fresh", .infer = alias},
    {.name = "prims::view_of", .infer = alias},
    NBX_OPS_END,
};

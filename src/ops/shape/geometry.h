// The geometry of a view while an operator computes it: rank, shape, strides and offset, free to be changed dim by dim.
#ifndef NBX_OPS_GEOMETRY_H
#define NBX_OPS_GEOMETRY_H

#include "ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nbx_geometry {
    int rank;
    int64_t offset;                   // in elements, absolute in the storage
    int64_t shape[NBX_MAX_RANK];
    int64_t stride[NBX_MAX_RANK];     // in elements
} nbx_geometry;

// The geometry that t has.
void nbx_geometry_of(const nbx_tensor *t, nbx_geometry *g);
// infer of a view: result k is base seen with this geometry.
nbx_status nbx_geometry_out(nbx_op_call *c, int k, const nbx_tensor *base, const nbx_geometry *g);
// The same in a composite: a view of base, owned by the scope. NULL: failed.
nbx_tensor *nbx_geometry_view(nbx_context *ctx, const nbx_tensor *base, const nbx_geometry *g);

// Inserts a dim before position dim; removes dim. The caller has checked dim and rank.
void nbx_geometry_insert(nbx_geometry *g, int dim, int64_t size, int64_t stride);
void nbx_geometry_remove(nbx_geometry *g, int dim);

// Changes of one dim with ATen's checks. Failing names the operator of c.
nbx_status nbx_geometry_select(nbx_op_call *c, nbx_geometry *g, int64_t dim, int64_t index);
// start and end by the rule of slices: negative ones count from the end, all are clamped.
nbx_status nbx_geometry_slice(nbx_op_call *c, nbx_geometry *g, int64_t dim, int64_t start, int64_t end, int64_t step);
nbx_status nbx_geometry_permute(nbx_op_call *c, nbx_geometry *g, int count, const int64_t *dims);
nbx_status nbx_geometry_transpose(nbx_op_call *c, nbx_geometry *g, int64_t dim0, int64_t dim1);
nbx_status nbx_geometry_diagonal(nbx_op_call *c, nbx_geometry *g, int64_t offset, int64_t dim1, int64_t dim2);
nbx_status nbx_geometry_unsqueeze(nbx_op_call *c, nbx_geometry *g, int64_t dim);
nbx_status nbx_geometry_expand(nbx_op_call *c, nbx_geometry *g, int count, const int64_t *size);

// ATen's infer_size: size with at most one -1 as the shape of numel elements.
nbx_status nbx_infer_size(nbx_op_call *c, int64_t numel, int count, const int64_t *size, int64_t *shape);
// A tensor of integers (any strides and device) as int64 in memory of the scope. NULL: failed. Reads data.
const int64_t *nbx_read_ints(nbx_op_call *c, const nbx_tensor *t, int64_t *count);

// Calls a view by name on t with one, two or three more arguments, in composites.
static inline nbx_tensor *nbx_transposed(nbx_context *ctx, const nbx_tensor *t, int64_t a, int64_t b) {
    return NBX_DO(ctx, "aten::transpose.int", T(t), I(a), I(b));
}
static inline nbx_tensor *nbx_unsqueezed(nbx_context *ctx, const nbx_tensor *t, int64_t dim) {
    return NBX_DO(ctx, "aten::unsqueeze", T(t), I(dim));
}
static inline nbx_tensor *nbx_reshaped(nbx_context *ctx, const nbx_tensor *t, int rank, const int64_t *shape) {
    return NBX_DO(ctx, "aten::reshape", T(t), nbx_of_ints(shape, rank));
}
static inline nbx_tensor *nbx_narrowed(nbx_context *ctx, const nbx_tensor *t, int64_t dim, int64_t start, int64_t length) {
    return NBX_DO(ctx, "aten::narrow", T(t), I(dim), I(start), I(length));
}
static inline nbx_tensor *nbx_permuted(nbx_context *ctx, const nbx_tensor *t, int rank, const int64_t *dims) {
    return NBX_DO(ctx, "aten::permute", T(t), nbx_of_ints(dims, rank));
}
static inline nbx_tensor *nbx_contiguous(nbx_context *ctx, const nbx_tensor *t) {
    return NBX_DO(ctx, "aten::contiguous", T(t));
}
// A contiguous copy.
static inline nbx_tensor *nbx_cloned(nbx_context *ctx, const nbx_tensor *t) {
    return NBX_DO(ctx, "aten::clone", T(t), nbx_of_memory_format(NBX_CONTIGUOUS_FORMAT));
}
static inline nbx_tensor *nbx_cast(nbx_context *ctx, const nbx_tensor *t, nbx_dtype dtype) {
    return NBX_DO(ctx, "aten::to.dtype", T(t), nbx_of_dtype(dtype));
}
// Composites: result k is t if there is one; else what the context says went wrong.
static inline nbx_status nbx_give(nbx_op_call *c, int k, const nbx_tensor *t) {
    return t != NULL ? out_tensor(c, k, t) : c->ctx->status;
}

#ifdef __cplusplus
}
#endif
#endif

// Short names for the operators that composites call most. Every one passes NULL through, keeping the first message.
#ifndef NBX_OPS_COMPOSE_H
#define NBX_OPS_COMPOSE_H

#include "ops/op.h"

static inline nbx_tensor *do_reshape(nbx_context *ctx, const nbx_tensor *t, int rank, const int64_t *shape) {
    return NBX_DO(ctx, "aten::reshape", T(t), nbx_of_ints(shape, rank));
}
static inline nbx_tensor *do_view(nbx_context *ctx, const nbx_tensor *t, int rank, const int64_t *shape) {
    return NBX_DO(ctx, "aten::view", T(t), nbx_of_ints(shape, rank));
}
static inline nbx_tensor *do_expand(nbx_context *ctx, const nbx_tensor *t, int rank, const int64_t *shape) {
    return NBX_DO(ctx, "aten::expand", T(t), nbx_of_ints(shape, rank));
}
static inline nbx_tensor *do_permute(nbx_context *ctx, const nbx_tensor *t, int rank, const int64_t *dims) {
    return NBX_DO(ctx, "aten::permute", T(t), nbx_of_ints(dims, rank));
}
static inline nbx_tensor *do_transpose(nbx_context *ctx, const nbx_tensor *t, int64_t a, int64_t b) {
    return NBX_DO(ctx, "aten::transpose.int", T(t), I(a), I(b));
}
static inline nbx_tensor *do_unsqueeze(nbx_context *ctx, const nbx_tensor *t, int64_t dim) {
    return NBX_DO(ctx, "aten::unsqueeze", T(t), I(dim));
}
static inline nbx_tensor *do_squeeze(nbx_context *ctx, const nbx_tensor *t, int64_t dim) {
    return NBX_DO(ctx, "aten::squeeze.dim", T(t), I(dim));
}
static inline nbx_tensor *do_select(nbx_context *ctx, const nbx_tensor *t, int64_t dim, int64_t index) {
    return NBX_DO(ctx, "aten::select.int", T(t), I(dim), I(index));
}
static inline nbx_tensor *do_slice(nbx_context *ctx, const nbx_tensor *t, int64_t dim, int64_t start, int64_t end) {
    return NBX_DO(ctx, "aten::slice.Tensor", T(t), I(dim), I(start), I(end), I(1));
}
static inline nbx_tensor *do_contiguous(nbx_context *ctx, const nbx_tensor *t) {
    return NBX_DO(ctx, "aten::contiguous", T(t));
}
static inline nbx_tensor *do_cast(nbx_context *ctx, const nbx_tensor *t, nbx_dtype dtype) {
    if (!t || (nbx_dtype)t->dtype == dtype) return (nbx_tensor *)t;
    return NBX_DO(ctx, "aten::to.dtype", T(t), nbx_of_dtype(dtype));
}
static inline nbx_tensor *do_unary(nbx_context *ctx, const char *name, const nbx_tensor *t) { return NBX_DO(ctx, name, T(t)); }
static inline nbx_tensor *do_add(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *b) {
    return NBX_DO(ctx, "aten::add.Tensor", T(a), T(b));
}
static inline nbx_tensor *do_sub(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *b) {
    return NBX_DO(ctx, "aten::sub.Tensor", T(a), T(b));
}
static inline nbx_tensor *do_mul(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *b) {
    return NBX_DO(ctx, "aten::mul.Tensor", T(a), T(b));
}
static inline nbx_tensor *do_mul_scalar(nbx_context *ctx, const nbx_tensor *a, nbx_value factor) {
    return NBX_DO(ctx, "aten::mul.Scalar", T(a), factor);
}
static inline nbx_tensor *do_div(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *b) {
    return NBX_DO(ctx, "aten::div.Tensor", T(a), T(b));
}
static inline nbx_tensor *do_sum(nbx_context *ctx, const nbx_tensor *t, int count, const int64_t *dims, bool keep) {
    return NBX_DO(ctx, "aten::sum.dim_IntList", T(t), nbx_of_ints(dims, count), B(keep));
}
static inline nbx_tensor *do_mm(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *b) {
    return NBX_DO(ctx, "aten::mm", T(a), T(b));
}
static inline nbx_tensor *do_bmm(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *b) {
    return NBX_DO(ctx, "aten::bmm", T(a), T(b));
}
static inline nbx_tensor *do_matmul(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *b) {
    return NBX_DO(ctx, "aten::matmul", T(a), T(b));
}
static inline nbx_tensor *do_full(nbx_context *ctx, nbx_device device, nbx_dtype dtype, int rank, const int64_t *shape,
                                  nbx_value value) {
    return NBX_DO(ctx, "aten::full", nbx_of_ints(shape, rank), value, nbx_of_dtype(dtype), NIL, nbx_of_device(device));
}

#endif

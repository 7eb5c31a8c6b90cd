// What functionalised programs write for views: X_copy is the view X and a contiguous copy of it; X_scatter is a copy of
// self whose view X was overwritten by src.
#include "ops/shape/geometry.h"

// How many arguments the view takes: an out= form has its targets behind them.
static int own_args(const nbx_op_call *c) {
    int count = c->arg_count;
    while (count > 0 && c->schema->params[count - 1].written) count--;
    return count;
}

// The view named by the row's data, copied.
static nbx_status copy_of_view(nbx_op_call *c) {
    return nbx_give(c, 0, nbx_cloned(c->ctx, nbx_do(c->ctx, c->op->data, own_args(c), c->args)));
}

static nbx_status copies_of_views(nbx_op_call *c) {
    nbx_value list;
    if (nbx_do_many(c->ctx, c->op->data, own_args(c), c->args, &list, 1) != NBX_OK) return c->ctx->status;
    if (out_list(c, list.count) != NBX_OK) return c->ctx->status;
    for (int k = 0; k < list.count; k++)
        if (nbx_give(c, k, nbx_cloned(c->ctx, list.as.tensors[k])) != NBX_OK) return c->ctx->status;
    return NBX_OK;
}

// view_copy takes any strides, as reshape does.
static nbx_status view_copy(nbx_op_call *c) {
    const nbx_tensor *seen = NBX_DO(c->ctx, "aten::reshape", c->args[0], c->args[1]);
    if (seen != NULL && !nbx_tensor_shares_storage(seen, arg_tensor(c, 0))) return out_tensor(c, 0, seen);
    return nbx_give(c, 0, nbx_cloned(c->ctx, seen));
}

// A copy with self's very strides and offset, so that any view of self is a view of it.
static const nbx_tensor *copy_of_storage(nbx_context *ctx, const nbx_tensor *self) {
    if (nbx_has_internal_overlap(self)) return NBX_DO(ctx, "aten::clone", T(self));
    if (self->dense && self->offset == 0) return NBX_DO(ctx, "aten::clone", T(self));
    const int64_t bytes = nbx_extent_bytes((nbx_dtype)self->dtype, self->rank, self->shape, self->stride, self->offset);
    const int64_t count = bytes / (int64_t)nbx_dtype_size((nbx_dtype)self->dtype), one = 1;
    const nbx_tensor *flat = nbx_tensor_view(ctx, self, (nbx_dtype)self->dtype, 1, &count, &one, 0);
    flat = flat ? nbx_cloned(ctx, flat) : NULL;
    return flat ? nbx_tensor_view(ctx, flat, (nbx_dtype)self->dtype, self->rank, self->shape, self->stride, self->offset) : NULL;
}

// X_scatter(self, src, arguments of X): the row's data names X.
static nbx_status scatter_into_view(nbx_op_call *c) {
    const nbx_tensor *src = arg_tensor(c, 1);
    const nbx_tensor *copy = copy_of_storage(c->ctx, arg_tensor(c, 0));
    nbx_value args[NBX_MAX_ARGS];
    args[0] = T(copy);
    const int count = own_args(c);
    for (int i = 2; i < count; i++) args[i - 1] = c->args[i];
    const nbx_tensor *target = nbx_do(c->ctx, c->op->data, count - 1, args);
    if (target == NULL) return c->ctx->status;
    if (!nbx_same_shape(target, src)) {
        char want[NBX_SHAPE_TEXT], got[NBX_SHAPE_TEXT];
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "src has shape %s, the place for it %s",
                             nbx_shape_text(src->rank, src->shape, got, sizeof got),
                             nbx_shape_text(target->rank, target->shape, want, sizeof want));
    }
    if (NBX_DO(c->ctx, "aten::copy_", T(target), T(src)) == NULL) return c->ctx->status;
    return out_tensor(c, 0, copy);
}

const nbx_op nbx_ops_view_copy[] = {
    {.name = "aten::view_copy", .composite = view_copy, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::view_copy.dtype", .composite = copy_of_view, .data = "aten::view.dtype", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::_reshape_alias_copy", .composite = copy_of_view, .data = "aten::_reshape_alias", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::alias_copy", .composite = copy_of_view, .data = "aten::alias", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::detach_copy", .composite = copy_of_view, .data = "aten::alias", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::lift_fresh_copy", .composite = copy_of_view, .data = "aten::alias", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::as_strided_copy", .composite = copy_of_view, .data = "aten::as_strided", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::diagonal_copy", .composite = copy_of_view, .data = "aten::diagonal", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::expand_copy", .composite = copy_of_view, .data = "aten::expand", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::permute_copy", .composite = copy_of_view, .data = "aten::permute", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::select_copy.int", .composite = copy_of_view, .data = "aten::select.int", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::slice_copy.Tensor", .composite = copy_of_view, .data = "aten::slice.Tensor", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::squeeze_copy", .composite = copy_of_view, .data = "aten::squeeze", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::squeeze_copy.dim", .composite = copy_of_view, .data = "aten::squeeze.dim", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::squeeze_copy.dims", .composite = copy_of_view, .data = "aten::squeeze.dims", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::t_copy", .composite = copy_of_view, .data = "aten::t", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::transpose_copy.int", .composite = copy_of_view, .data = "aten::transpose.int", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::unfold_copy", .composite = copy_of_view, .data = "aten::unfold", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::unsqueeze_copy", .composite = copy_of_view, .data = "aten::unsqueeze", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::view_as_complex_copy", .composite = copy_of_view, .data = "aten::view_as_complex", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::view_as_real_copy", .composite = copy_of_view, .data = "aten::view_as_real", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::_conj_copy", .composite = copy_of_view, .data = "aten::conj", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::_neg_view_copy", .composite = copy_of_view, .data = "aten::neg", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::split_copy.Tensor", .composite = copies_of_views, .data = "aten::split.Tensor", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::split_with_sizes_copy", .composite = copies_of_views, .data = "aten::split_with_sizes", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::unbind_copy.int", .composite = copies_of_views, .data = "aten::unbind.int", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::slice_scatter", .composite = scatter_into_view, .data = "aten::slice.Tensor", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::select_scatter", .composite = scatter_into_view, .data = "aten::select.int", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::diagonal_scatter", .composite = scatter_into_view, .data = "aten::diagonal", .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::as_strided_scatter", .composite = scatter_into_view, .data = "aten::as_strided", .flags = NBX_OP_EXACT_OUT},
    NBX_OPS_END,
};

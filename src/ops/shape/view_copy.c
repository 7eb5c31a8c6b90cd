// What functionalised programs write for views: X_copy is the view X and a contiguous copy of it; X_scatter is a copy of
// self whose view X was overwritten by src.
#include "ops/shape/geometry.h"

// The view named by the row's data, copied.
static nbx_status copy_of_view(nbx_op_call *c) {
    return nbx_give(c, 0, nbx_cloned(c->ctx, nbx_do(c->ctx, c->op->data, c->arg_count, c->args)));
}

static nbx_status copies_of_views(nbx_op_call *c) {
    nbx_value list;
    if (nbx_do_many(c->ctx, c->op->data, c->arg_count, c->args, &list, 1) != NBX_OK) return c->ctx->status;
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

// X_scatter(self, src, arguments of X): the row's data names X.
static nbx_status scatter_into_view(nbx_op_call *c) {
    const nbx_tensor *src = arg_tensor(c, 1);
    const nbx_tensor *copy = NBX_DO(c->ctx, "aten::clone", c->args[0]);
    nbx_value args[NBX_MAX_ARGS];
    args[0] = T(copy);
    for (int i = 2; i < c->arg_count; i++) args[i - 1] = c->args[i];
    const nbx_tensor *target = nbx_do(c->ctx, c->op->data, c->arg_count - 1, args);
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
    {.name = "aten::view_copy", .composite = view_copy},
    {.name = "aten::view_copy.dtype", .composite = copy_of_view, .data = "aten::view.dtype"},
    {.name = "aten::_reshape_alias_copy", .composite = copy_of_view, .data = "aten::_reshape_alias"},
    {.name = "aten::alias_copy", .composite = copy_of_view, .data = "aten::alias"},
    {.name = "aten::detach_copy", .composite = copy_of_view, .data = "aten::alias"},
    {.name = "aten::lift_fresh_copy", .composite = copy_of_view, .data = "aten::alias"},
    {.name = "aten::as_strided_copy", .composite = copy_of_view, .data = "aten::as_strided"},
    {.name = "aten::diagonal_copy", .composite = copy_of_view, .data = "aten::diagonal"},
    {.name = "aten::expand_copy", .composite = copy_of_view, .data = "aten::expand"},
    {.name = "aten::permute_copy", .composite = copy_of_view, .data = "aten::permute"},
    {.name = "aten::select_copy.int", .composite = copy_of_view, .data = "aten::select.int"},
    {.name = "aten::slice_copy.Tensor", .composite = copy_of_view, .data = "aten::slice.Tensor"},
    {.name = "aten::squeeze_copy", .composite = copy_of_view, .data = "aten::squeeze"},
    {.name = "aten::squeeze_copy.dim", .composite = copy_of_view, .data = "aten::squeeze.dim"},
    {.name = "aten::squeeze_copy.dims", .composite = copy_of_view, .data = "aten::squeeze.dims"},
    {.name = "aten::t_copy", .composite = copy_of_view, .data = "aten::t"},
    {.name = "aten::transpose_copy.int", .composite = copy_of_view, .data = "aten::transpose.int"},
    {.name = "aten::unfold_copy", .composite = copy_of_view, .data = "aten::unfold"},
    {.name = "aten::unsqueeze_copy", .composite = copy_of_view, .data = "aten::unsqueeze"},
    {.name = "aten::view_as_complex_copy", .composite = copy_of_view, .data = "aten::view_as_complex"},
    {.name = "aten::view_as_real_copy", .composite = copy_of_view, .data = "aten::view_as_real"},
    {.name = "aten::_conj_copy", .composite = copy_of_view, .data = "aten::conj"},
    {.name = "aten::_neg_view_copy", .composite = copy_of_view, .data = "aten::neg"},
    {.name = "aten::split_copy.Tensor", .composite = copies_of_views, .data = "aten::split.Tensor"},
    {.name = "aten::split_with_sizes_copy", .composite = copies_of_views, .data = "aten::split_with_sizes"},
    {.name = "aten::unbind_copy.int", .composite = copies_of_views, .data = "aten::unbind.int"},
    {.name = "aten::slice_scatter", .composite = scatter_into_view, .data = "aten::slice.Tensor"},
    {.name = "aten::select_scatter", .composite = scatter_into_view, .data = "aten::select.int"},
    {.name = "aten::diagonal_scatter", .composite = scatter_into_view, .data = "aten::diagonal"},
    {.name = "aten::as_strided_scatter", .composite = scatter_into_view, .data = "aten::as_strided"},
    NBX_OPS_END,
};

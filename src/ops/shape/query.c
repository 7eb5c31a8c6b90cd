// Questions about a tensor whose answer is no tensor: sizes, strides, dtypes, and the values of single elements.
#include "ops/shape/geometry.h"

#include <string.h>

static nbx_status give(nbx_op_call *c, nbx_value v) {
    out_value(c, 0, v);
    return c->ctx->status;
}

static nbx_status give_ints(nbx_op_call *c, int count, const int64_t *list) {
    int64_t *copy = nbx_scope_alloc(c->ctx, sizeof(int64_t) * (size_t)(count ? count : 1));
    if (copy == NULL) return c->ctx->status;
    memcpy(copy, list, sizeof(int64_t) * (size_t)count);
    return give(c, nbx_of_ints(copy, count));
}

static nbx_status size(nbx_op_call *c) { return give_ints(c, arg_tensor(c, 0)->rank, arg_tensor(c, 0)->shape); }
static nbx_status stride(nbx_op_call *c) { return give_ints(c, arg_tensor(c, 0)->rank, arg_tensor(c, 0)->stride); }

static nbx_status one_of(nbx_op_call *c, const int64_t *list) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int d;
    if (x->rank == 0) return nbx_call_fail(c, NBX_ERROR_INDEX, "a 0-dim tensor has no dim %lld", (long long)arg_int(c, 1));
    return nbx_call_dim(c, arg_int(c, 1), x->rank, &d) != NBX_OK ? c->ctx->status : give(c, I(list[d]));
}

static nbx_status size_dim(nbx_op_call *c) { return one_of(c, arg_tensor(c, 0)->shape); }
static nbx_status stride_dim(nbx_op_call *c) { return one_of(c, arg_tensor(c, 0)->stride); }
static nbx_status numel(nbx_op_call *c) { return give(c, I(arg_tensor(c, 0)->numel)); }
static nbx_status dim(nbx_op_call *c) { return give(c, I(arg_tensor(c, 0)->rank)); }
static nbx_status offset(nbx_op_call *c) { return give(c, I(arg_tensor(c, 0)->offset)); }

static nbx_status is_contiguous(nbx_op_call *c) { return give(c, B(arg_tensor(c, 0)->contiguous)); }
static nbx_status is_contiguous_format(nbx_op_call *c) {
    const nbx_value *format = &c->args[1];
    const nbx_memory_format f = format->kind == NBX_KIND_INT ? (nbx_memory_format)format->as.integer : format->as.memory_format;
    return give(c, B(nbx_is_contiguous_format(arg_tensor(c, 0), f)));
}
static nbx_status is_dense(nbx_op_call *c) { return give(c, B(arg_tensor(c, 0)->dense)); }
static nbx_status is_complex(nbx_op_call *c) { return give(c, B(nbx_dtype_is_complex((nbx_dtype)arg_tensor(c, 0)->dtype))); }
static nbx_status is_floating_point(nbx_op_call *c) { return give(c, B(nbx_dtype_is_float((nbx_dtype)arg_tensor(c, 0)->dtype))); }
static nbx_status is_signed(nbx_op_call *c) { return give(c, B(nbx_dtype_is_signed((nbx_dtype)arg_tensor(c, 0)->dtype))); }
static nbx_status is_pinned(nbx_op_call *c) { return give(c, B(false)); }
static nbx_status always_false(nbx_op_call *c) { return give(c, B(false)); }
static nbx_status is_same_size(nbx_op_call *c) { return give(c, B(nbx_same_shape(arg_tensor(c, 0), arg_tensor(c, 1)))); }
static nbx_status device(nbx_op_call *c) { return give(c, nbx_of_device(nbx_device_of(arg_tensor(c, 0)))); }

static nbx_status result_type(nbx_op_call *c) {
    nbx_promotion p;
    nbx_promotion_start(&p);
    for (int i = 0; i < 2; i++) {
        if (arg_tensor(c, i)) nbx_promotion_tensor(&p, arg_tensor(c, i));
        else nbx_promotion_scalar(&p, &c->args[i]);
    }
    return give(c, nbx_of_dtype(nbx_promotion_result(&p)));
}

static nbx_status promote_types(nbx_op_call *c) {
    const nbx_dtype d = nbx_promote(arg_dtype(c, 0), arg_dtype(c, 1));
    if (d == NBX_DTYPE_NONE)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s and %s have no common dtype", nbx_dtype_name(arg_dtype(c, 0)), nbx_dtype_name(arg_dtype(c, 1)));
    return give(c, nbx_of_dtype(d));
}

static nbx_status can_cast(nbx_op_call *c) { return give(c, B(nbx_can_cast(arg_dtype(c, 0), arg_dtype(c, 1)))); }

// ------------------------------------------------------------------------------------------------------------- elements
static nbx_status item_value(nbx_op_call *c, const nbx_tensor *x, nbx_value *v) {
    if (x->numel != 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes a tensor of one element, not of %lld", (long long)x->numel);
    const nbx_category category = nbx_dtype_category((nbx_dtype)x->dtype);
    double real[2] = {0, 0};
    int64_t integer = 0;
    bool boolean = false;
    const nbx_tensor *wide = nbx_cast(c->ctx, x, category == NBX_CATEGORY_BOOL      ? NBX_BOOL
                                                 : category == NBX_CATEGORY_INTEGER ? NBX_INT64
                                                 : category == NBX_CATEGORY_FLOAT   ? NBX_FLOAT64
                                                                                    : NBX_COMPLEX128);
    void *to = category == NBX_CATEGORY_BOOL ? (void *)&boolean : category == NBX_CATEGORY_INTEGER ? (void *)&integer : (void *)real;
    if (wide == NULL || nbx_tensor_read(c->ctx, wide, to) != NBX_OK) return c->ctx->status;
    *v = category == NBX_CATEGORY_BOOL      ? B(boolean)
         : category == NBX_CATEGORY_INTEGER ? I(integer)
         : category == NBX_CATEGORY_FLOAT   ? F(real[0])
                                            : nbx_of_complex(real[0], real[1]);
    return NBX_OK;
}

static nbx_status item(nbx_op_call *c) {
    nbx_value v;
    return item_value(c, arg_tensor(c, 0), &v) != NBX_OK ? c->ctx->status : give(c, v);
}

static nbx_status is_nonzero(nbx_op_call *c) {
    nbx_value v;
    if (item_value(c, arg_tensor(c, 0), &v) != NBX_OK) return c->ctx->status;
    const bool truth = v.kind == NBX_KIND_COMPLEX ? v.as.complex[0] != 0 || v.as.complex[1] != 0 : nbx_scalar_to_double(&v) != 0;
    return give(c, B(truth));
}

// equal: shapes agree and no element differs (NaN differs from itself).
static nbx_status equal(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (!nbx_same_shape(a, b)) return give(c, B(false));
    if (a->numel == 0) return give(c, B(true));
    bool same = false;
    const nbx_tensor *all = NBX_DO(c->ctx, "aten::all", T(NBX_DO(c->ctx, "aten::eq.Tensor", T(a), T(b))));
    if (all == NULL || nbx_tensor_read(c->ctx, all, &same) != NBX_OK) return c->ctx->status;
    return give(c, B(same));
}

const nbx_op nbx_ops_query[] = {
    {.name = "aten::size", .composite = size},
    {.name = "aten::size.int", .composite = size_dim},
    {.name = "aten::stride", .composite = stride},
    {.name = "aten::stride.int", .composite = stride_dim},
    {.name = "aten::sym_size", .composite = size},
    {.name = "aten::sym_size.int", .composite = size_dim},
    {.name = "aten::sym_stride", .composite = stride},
    {.name = "aten::sym_stride.int", .composite = stride_dim},
    {.name = "aten::numel", .composite = numel},
    {.name = "aten::sym_numel", .composite = numel},
    {.name = "aten::dim", .composite = dim},
    {.name = "aten::storage_offset", .composite = offset},
    {.name = "aten::sym_storage_offset", .composite = offset},
    {.name = "aten::is_contiguous", .composite = is_contiguous},
    {.name = "aten::is_contiguous.memory_format", .composite = is_contiguous_format},
    {.name = "aten::sym_is_contiguous", .composite = is_contiguous_format},
    {.name = "aten::is_non_overlapping_and_dense", .composite = is_dense},
    {.name = "aten::is_complex", .composite = is_complex},
    {.name = "aten::is_floating_point", .composite = is_floating_point},
    {.name = "aten::is_signed", .composite = is_signed},
    {.name = "aten::is_pinned", .composite = is_pinned},
    {.name = "aten::is_conj", .composite = always_false},
    {.name = "aten::is_neg", .composite = always_false},
    {.name = "aten::is_inference", .composite = always_false},
    {.name = "aten::is_same_size", .composite = is_same_size},
    {.name = "prim::device", .composite = device},
    {.name = "aten::result_type.Tensor", .composite = result_type},
    {.name = "aten::result_type.Scalar", .composite = result_type},
    {.name = "aten::result_type.Scalar_Tensor", .composite = result_type},
    {.name = "aten::result_type.Scalar_Scalar", .composite = result_type},
    {.name = "aten::promote_types", .composite = promote_types},
    {.name = "aten::can_cast", .composite = can_cast},
    {.name = "aten::item", .composite = item, .flags = NBX_OP_READS_BACK},
    {.name = "aten::_local_scalar_dense", .composite = item, .flags = NBX_OP_READS_BACK},
    {.name = "aten::is_nonzero", .composite = is_nonzero, .flags = NBX_OP_READS_BACK},
    {.name = "aten::equal", .composite = equal, .flags = NBX_OP_READS_BACK},
    NBX_OPS_END,
};

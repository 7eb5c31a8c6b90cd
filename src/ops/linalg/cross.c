// Products of vectors along a dim: cross, linalg_cross (three components), linalg_vecdot.
#include "ops/linalg/linalg.h"

// cross(a, b)[i] = a[i+1] b[i+2] - a[i+2] b[i+1], indices modulo 3, each step rounded to the dtype.
static nbx_tensor *rolled(nbx_context *ctx, const nbx_tensor *t, int64_t by, int64_t dim) {
    return NBX_DO(ctx, "aten::roll", T(t), nbx_of_ints(&by, 1), nbx_of_ints(&dim, 1));
}

static nbx_status cross_along(nbx_op_call *c, int64_t dim) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    int at;
    if (a->rank != b->rank) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the inputs have %d and %d dims", a->rank, b->rank);
    if (a->rank == 0) return nbx_call_fail(c, NBX_ERROR_INDEX, "numbers have no dim %lld", (long long)dim);
    nbx_status status = nbx_call_dim(c, dim, a->rank, &at);
    if (status == NBX_OK) status = linalg_need_same_dtype(c, 0, 1);
    if (status != NBX_OK) return status;
    if (a->dtype == NBX_BOOL || nbx_dtype_is_float8((nbx_dtype)a->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name((nbx_dtype)a->dtype));
    if (a->shape[at] != 3 || b->shape[at] != 3)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "dim %d must have size 3, found %lld and %lld", at, (long long)a->shape[at], (long long)b->shape[at]);
    const nbx_tensor *left = do_mul(ctx, rolled(ctx, a, -1, at), rolled(ctx, b, -2, at));
    const nbx_tensor *right = do_mul(ctx, rolled(ctx, a, -2, at), rolled(ctx, b, -1, at));
    return out_tensor(c, 0, do_contiguous(ctx, do_sub(ctx, left, right)));
}

static nbx_status linalg_cross(nbx_op_call *c) { return cross_along(c, arg_int(c, 2)); }

// Without a dim: the first one of size 3.
static nbx_status cross(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0);
    if (!arg_is_none(c, 2)) return cross_along(c, arg_int(c, 2));
    for (int d = 0; d < a->rank; d++)
        if (a->shape[d] == 3) return cross_along(c, d);
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "no dim has size 3");
}

// vecdot(x, y) = sum of conj(x) y along a dim.
static nbx_status vecdot(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *y = arg_tensor(c, 1);
    const int64_t dim = arg_int(c, 2);
    nbx_status status = nbx_call_need_float(c, x, true);
    if (status == NBX_OK) status = linalg_need_same_dtype(c, 0, 1);
    if (status != NBX_OK) return status;
    if (x->rank == 1 && y->rank == 1) return NBX_FORWARD(c, "aten::vdot", T(x), T(y));
    if (nbx_dtype_is_complex((nbx_dtype)x->dtype)) x = do_unary(ctx, "aten::_conj_physical", x);
    return out_tensor(c, 0, do_sum(ctx, do_mul(ctx, x, y), 1, &dim, false));
}

const nbx_op nbx_ops_cross[] = {
    {.name = "aten::linalg_cross", .composite = linalg_cross, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::cross", .composite = cross, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::linalg_vecdot", .composite = vecdot, .flags = NBX_OP_EXACT_DTYPE},
    NBX_OPS_END,
};

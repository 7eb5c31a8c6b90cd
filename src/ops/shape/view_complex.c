// Views of complex tensors. This library has no lazy conjugate or negative bit: _conj and _neg_view compute at once, and
// resolve_conj and resolve_neg have nothing left to do.
#include "ops/shape/geometry.h"

static nbx_dtype complex_of(nbx_dtype real) {
    return real == NBX_FLOAT32 ? NBX_COMPLEX64 : real == NBX_FLOAT64 ? NBX_COMPLEX128 : NBX_DTYPE_NONE;
}

// The pairs as a last dim of size 2.
static void as_pairs(const nbx_tensor *x, nbx_geometry *g) {
    nbx_geometry_of(x, g);
    for (int d = 0; d < g->rank; d++) g->stride[d] *= 2;
    g->offset *= 2;
    nbx_geometry_insert(g, g->rank, 2, 1);
}

static nbx_status view_real(nbx_op_call *c, const nbx_tensor *x, const nbx_geometry *g) {
    return out_view(c, 0, x, nbx_dtype_to_real((nbx_dtype)x->dtype), g->rank, g->shape, g->stride, g->offset) ? NBX_OK
                                                                                                              : c->ctx->status;
}

static nbx_status need_complex(nbx_op_call *c, const nbx_tensor *x) {
    if (nbx_dtype_is_complex((nbx_dtype)x->dtype)) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes complex tensors, not %s", nbx_dtype_name((nbx_dtype)x->dtype));
}

static nbx_status view_as_real(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (need_complex(c, x) != NBX_OK) return c->ctx->status;
    if (x->rank == NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d dims", NBX_MAX_RANK);
    nbx_geometry g;
    as_pairs(x, &g);
    return view_real(c, x, &g);
}

static nbx_status view_as_complex(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_dtype to = complex_of((nbx_dtype)x->dtype);
    if (to == NBX_DTYPE_NONE)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes float32 and float64, not %s", nbx_dtype_name((nbx_dtype)x->dtype));
    const int last = x->rank - 1;
    if (x->rank == 0 || x->shape[last] != 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the last dim must have size 2");
    if (x->stride[last] != 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the last dim must have stride 1");
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    nbx_geometry_remove(&g, last);
    bool even = g.offset % 2 == 0;
    for (int d = 0; d < g.rank; d++) {
        even = even && g.stride[d] % 2 == 0;
        g.stride[d] /= 2;
    }
    if (!even) return nbx_call_fail(c, NBX_ERROR_SHAPE, "strides and offset must be divisible by 2");
    g.offset /= 2;
    return out_view(c, 0, x, to, g.rank, g.shape, g.stride, g.offset) ? NBX_OK : c->ctx->status;
}

static nbx_status part(nbx_op_call *c, const nbx_tensor *x, int which) {
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    for (int d = 0; d < g.rank; d++) g.stride[d] *= 2;
    g.offset = g.offset * 2 + which;
    return view_real(c, x, &g);
}

static nbx_status real(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (nbx_dtype_is_complex((nbx_dtype)x->dtype)) return part(c, x, 0);
    nbx_geometry g;
    nbx_geometry_of(x, &g);
    return nbx_geometry_out(c, 0, x, &g);
}

static nbx_status imag(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    return need_complex(c, x) != NBX_OK ? c->ctx->status : part(c, x, 1);
}

static nbx_status conjugate(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (!nbx_dtype_is_complex((nbx_dtype)x->dtype)) return out_tensor(c, 0, x);
    return NBX_FORWARD(c, "aten::_conj_physical", T(x));
}

static nbx_status neg_view(nbx_op_call *c) { return NBX_FORWARD(c, "aten::neg", c->args[0]); }

static nbx_status same(nbx_op_call *c) { return out_tensor(c, 0, arg_tensor(c, 0)); }

// mH, adjoint: conjugate transpose of the last two dims.
static nbx_status adjoint(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (x->rank == 0) return NBX_FORWARD(c, "aten::conj", T(x));
    if (x->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of at least 2 dims, not %d", x->rank);
    return NBX_FORWARD(c, "aten::conj", T(nbx_transposed(c->ctx, x, -2, -1)));
}

static nbx_status matrix_h(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (x->rank == 0) return out_tensor(c, 0, x);
    if (x->rank != 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a matrix, not a tensor of %d dims", x->rank);
    return adjoint(c);
}

const nbx_op nbx_ops_view_complex[] = {
    {.name = "aten::view_as_real", .infer = view_as_real},
    {.name = "aten::view_as_complex", .infer = view_as_complex},
    {.name = "aten::real", .infer = real},
    {.name = "aten::imag", .infer = imag},
    {.name = "aten::conj", .composite = conjugate},
    {.name = "aten::_conj", .composite = conjugate},
    {.name = "aten::conj_physical", .composite = conjugate, .flags = NBX_OP_EXACT_DTYPE},
    {.name = "aten::_neg_view", .composite = neg_view},
    {.name = "aten::resolve_conj", .composite = same},
    {.name = "aten::resolve_neg", .composite = same},
    {.name = "aten::adjoint", .composite = adjoint},
    {.name = "aten::mH", .composite = adjoint},
    {.name = "aten::matrix_H", .composite = matrix_h},
    NBX_OPS_END,
};

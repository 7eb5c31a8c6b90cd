// Products of matrices and vectors: mm, bmm, addmm, baddbmm, addmv, mv, dot, vdot, addr, linear, matmul.
// Each is described by a product_form; one kernel (product_cpu.c) computes them all.
#include "ops/elementwise/elementwise.h"
#include <string.h>

#include "ops/compose.h"
#include "ops/matmul/product.h"

static const product_form *form_of(const nbx_op_call *c) { return (const product_form *)c->op->data; }

// ----------------------------------------------------------------------------------------------------------- checks
static nbx_status fail_rank(nbx_op_call *c, int arg, int rank) {
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "%s must have %d dims, found %d", c->schema->params[arg].name, rank,
                         arg_tensor(c, arg)->rank);
}

static nbx_status fail_shapes(nbx_op_call *c, const nbx_tensor *a, const nbx_tensor *b) {
    char left[NBX_SHAPE_TEXT], right[NBX_SHAPE_TEXT];
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "shapes %s and %s do not multiply",
                         nbx_shape_text(a->rank, a->shape, left, sizeof left),
                         nbx_shape_text(b->rank, b->shape, right, sizeof right));
}

static bool dtype_multiplies(nbx_dtype d) {
    return d != NBX_BOOL && d != NBX_UINT16 && d != NBX_UINT32 && d != NBX_UINT64 && !nbx_dtype_is_float8(d);
}

// a, b and self must share one dtype that can be multiplied.
static nbx_status check_dtypes(nbx_op_call *c, const product_form *f) {
    const nbx_tensor *a = arg_tensor(c, f->a), *b = arg_tensor(c, f->b);
    if (a->dtype != b->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s is %s but %s is %s", c->schema->params[f->a].name,
                             nbx_dtype_name((nbx_dtype)a->dtype), c->schema->params[f->b].name,
                             nbx_dtype_name((nbx_dtype)b->dtype));
    if (!dtype_multiplies((nbx_dtype)a->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name((nbx_dtype)a->dtype));
    const nbx_tensor *self = f->self >= 0 ? arg_tensor(c, f->self) : NULL;
    if (self && self->dtype != a->dtype && (f->out_dtype < 0 || (nbx_dtype)self->dtype != arg_dtype(c, f->out_dtype)))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s is %s but the matrices are %s", c->schema->params[f->self].name,
                             nbx_dtype_name((nbx_dtype)self->dtype), nbx_dtype_name((nbx_dtype)a->dtype));
    return NBX_OK;
}

// alpha and beta must fit the dtype: no imaginary part for reals, no more than integers hold, nor float16 in products with
// vectors. (Integers truncate fractions, as ATen does.)
static nbx_status check_factor(nbx_op_call *c, int arg, nbx_dtype dtype) {
    const bool vector = form_of(c)->kind == PRODUCT_VECTOR || form_of(c)->kind == PRODUCT_OUTER;
    if (arg >= 0 && (nbx_dtype_is_integral(dtype, false) || (vector && dtype == NBX_FLOAT16))) return ew_check_number(c, dtype, &c->args[arg]);
    if (arg < 0 || c->args[arg].kind != NBX_KIND_COMPLEX || c->args[arg].as.complex[1] == 0 || nbx_dtype_is_complex(dtype))
        return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s is complex, the matrices are %s", c->schema->params[arg].name,
                         nbx_dtype_name(dtype));
}

static nbx_status check_ranks(nbx_op_call *c, const product_form *f) {
    static const int8_t ranks[][2] = {[PRODUCT_MATRIX] = {2, 2}, [PRODUCT_BATCH] = {3, 3}, [PRODUCT_VECTOR] = {2, 1},
                                      [PRODUCT_DOT] = {1, 1},    [PRODUCT_VDOT] = {1, 1},  [PRODUCT_OUTER] = {1, 1}};
    if (arg_tensor(c, f->a)->rank != ranks[f->kind][0]) return fail_rank(c, f->a, ranks[f->kind][0]);
    if (arg_tensor(c, f->b)->rank != ranks[f->kind][1]) return fail_rank(c, f->b, ranks[f->kind][1]);
    return NBX_OK;
}

// self broadcasts to the result; it must not be the larger one.
static nbx_status check_self(nbx_op_call *c, const product_form *f, int rank, const int64_t *shape) {
    const nbx_tensor *self = f->self >= 0 ? arg_tensor(c, f->self) : NULL;
    if (!self) return NBX_OK;
    bool fits = self->rank <= rank;
    for (int i = 0; fits && i < self->rank; i++)
        fits = self->shape[i] == 1 || self->shape[i] == shape[rank - self->rank + i];
    if (fits) return NBX_OK;
    char have[NBX_SHAPE_TEXT], want[NBX_SHAPE_TEXT];
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "%s of shape %s does not broadcast to %s", c->schema->params[f->self].name,
                         nbx_shape_text(self->rank, self->shape, have, sizeof have),
                         nbx_shape_text(rank, shape, want, sizeof want));
}

// ------------------------------------------------------------------------------------------------------------ infer
static nbx_status describe(nbx_op_call *c, nbx_dtype dtype, int rank, const int64_t *shape) {
    nbx_product p;
    if (!out_new(c, 0, dtype, rank, shape, NULL)) return c->ctx->status;
    nbx_product_of(c, &p);
    c->scratch_bytes = nbx_product_scratch(&p, c->ctx->threads);
    return NBX_OK;
}

// Kernels read self in the dtype of the result: self is cast to it, a half one where out_dtype is float32, say.
static nbx_status self_as(nbx_op_call *c, const product_form *f, nbx_dtype dtype) {
    const nbx_tensor *self = arg_tensor(c, f->self);
    if ((nbx_dtype)self->dtype == dtype) return NBX_OK;
    c->args[f->self] = T(do_cast(c->ctx, self, dtype));
    return arg_tensor(c, f->self) ? NBX_OK : c->ctx->status;
}

static nbx_status finish(nbx_op_call *c, const product_form *f, int rank, const int64_t *shape) {
    const nbx_tensor *a = arg_tensor(c, f->a);
    const nbx_dtype asked = f->out_dtype >= 0 ? arg_dtype(c, f->out_dtype) : NBX_DTYPE_NONE;
    const nbx_dtype dtype = asked == NBX_DTYPE_NONE ? (nbx_dtype)a->dtype : asked;
    if (dtype != (nbx_dtype)a->dtype && !(dtype == NBX_FLOAT32 && (a->dtype == NBX_FLOAT16 || a->dtype == NBX_BFLOAT16)))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "out_dtype must be %s, or float32 over half matrices",
                             nbx_dtype_name((nbx_dtype)a->dtype));
    nbx_status status = check_self(c, f, rank, shape);
    if (!status && f->self >= 0 && asked != NBX_DTYPE_NONE) status = self_as(c, f, dtype);
    if (!status) status = check_factor(c, f->alpha, (nbx_dtype)a->dtype);
    if (!status) status = check_factor(c, f->beta, (nbx_dtype)a->dtype);
    return status ? status : describe(c, dtype, rank, shape);
}

// addmv's self may have any dtype: ATen copies it into the result first. An out= must have the dtype of the matrix.
static nbx_status cast_self(nbx_op_call *c, const product_form *f) {
    const nbx_dtype dtype = (nbx_dtype)arg_tensor(c, f->a)->dtype;
    const nbx_tensor *self = arg_tensor(c, f->self);
    if ((nbx_dtype)self->dtype == dtype) return NBX_OK;
    const nbx_status status = nbx_call_need_target(c, 0, dtype);
    if (status) return status;
    if (arg_tensor(c, f->a)->numel == 0 && !nbx_can_cast((nbx_dtype)self->dtype, dtype)) return NBX_OK;  // there it multiplies: check_dtypes refuses
    return self_as(c, f, dtype);
}

static nbx_status infer_fixed(nbx_op_call *c) {
    const product_form *f = form_of(c);
    nbx_status status = check_ranks(c, f);
    if (!status && f->kind == PRODUCT_VECTOR && f->self >= 0) status = cast_self(c, f);
    if (!status) status = check_dtypes(c, f);
    if (status) return status;
    const nbx_tensor *a = arg_tensor(c, f->a), *b = arg_tensor(c, f->b);
    const int64_t *as = a->shape, *bs = b->shape;
    switch (f->kind) {
    case PRODUCT_MATRIX:
        if (as[1] != bs[0]) return fail_shapes(c, a, b);
        return finish(c, f, 2, (int64_t[]){as[0], bs[1]});
    case PRODUCT_BATCH:
        if (as[0] != bs[0] || as[2] != bs[1]) return fail_shapes(c, a, b);
        return finish(c, f, 3, (int64_t[]){as[0], as[1], bs[2]});
    case PRODUCT_VECTOR:
        if (as[1] != bs[0]) return fail_shapes(c, a, b);
        return finish(c, f, 1, (int64_t[]){as[0]});
    case PRODUCT_OUTER: return finish(c, f, 2, (int64_t[]){as[0], bs[0]});
    default:
        if (as[0] != bs[0]) return fail_shapes(c, a, b);
        return finish(c, f, 0, NULL);
    }
}

// int8 matrices, int32 sums.
static nbx_status infer_int8(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    const nbx_status status = check_ranks(c, form_of(c));
    if (status) return status;
    if (a->dtype != NBX_INT8 || b->dtype != NBX_INT8) return nbx_call_fail(c, NBX_ERROR_DTYPE, "expects int8 matrices");
    if (a->shape[1] != b->shape[0]) return fail_shapes(c, a, b);
    const nbx_tensor *target = nbx_call_target(c, 0);  // the one product that resizes no out=
    if (target && !nbx_shape_equal(target->rank, target->shape, 2, (int64_t[]){a->shape[0], b->shape[1]}))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "out must have the shape of the result, %lld and %lld", (long long)a->shape[0], (long long)b->shape[1]);
    return describe(c, NBX_INT32, 2, (int64_t[]){a->shape[0], b->shape[1]});
}

static nbx_status infer_linear(nbx_op_call *c) {
    const product_form *f = form_of(c);
    nbx_status status = check_dtypes(c, f);
    if (status) return status;
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1);
    if (x->rank < 1 || w->rank < 1 || w->rank > 2 || x->shape[x->rank - 1] != w->shape[w->rank - 1]) return fail_shapes(c, x, w);
    int64_t shape[NBX_MAX_RANK];
    memcpy(shape, x->shape, (size_t)x->rank * sizeof *shape);
    if (w->rank == 1) return finish(c, f, x->rank - 1, shape);
    shape[x->rank - 1] = w->shape[0];
    return finish(c, f, x->rank, shape);
}

static nbx_status infer_matmul(nbx_op_call *c) {
    const product_form *f = form_of(c);
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    if (a->rank == 0 || b->rank == 0)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "both arguments need at least one dim, found %d and %d", a->rank, b->rank);
    nbx_status status = check_dtypes(c, f);
    if (status) return status;
    const int64_t k = a->shape[a->rank - 1];
    if (k != b->shape[b->rank == 1 ? 0 : b->rank - 2]) return fail_shapes(c, a, b);
    const int batch_a = a->rank > 2 ? a->rank - 2 : 0, batch_b = b->rank > 2 ? b->rank - 2 : 0;
    int rank = 0;
    int64_t shape[NBX_MAX_RANK];
    status = nbx_broadcast(c, &rank, shape, batch_a, a->shape);
    if (!status) status = nbx_broadcast(c, &rank, shape, batch_b, b->shape);
    if (status) return status;
    if (a->rank > 1) shape[rank++] = a->shape[a->rank - 2];
    if (b->rank > 1) shape[rank++] = b->shape[b->rank - 1];
    return finish(c, f, rank, shape);
}

static void cost_product(const nbx_op_call *c, nbx_cost *cost) {
    nbx_product p;
    nbx_product_of(c, &p);
    double count = 1;
    for (int i = 0; i < p.batch_rank; i++) count *= (double)p.batch[i];
    const double size = (double)nbx_dtype_size(p.dtype), m = (double)p.m, n = (double)p.n, k = (double)p.k;
    cost->flops = 2 * count * m * n * k;
    cost->bytes_read = count * (m * k + k * n) * size;
    cost->bytes_written = count * m * n * (double)nbx_dtype_size(p.out_dtype);
    cost->scratch_bytes = c->scratch_bytes;
}

// Steps in between the units of a product gained nothing where the result stays in the caches (197 x 768 x 3072 with relu, 56 x 56 x 384
// with gelu, one thread): only what leaves them, or is so small that a call of its own counts.
static bool carries(const nbx_op_call *c, bool plain) {
    enum { SMALL = 16 << 10, PAST_CACHES = 8 << 20 };
    const nbx_tensor *y = out_get(c, 0);
    const size_t bytes = nbx_tensor_nbytes(y);
    (void)plain;
    return (y->rank == 0 || y->stride[y->rank - 1] == 1) && (bytes <= SMALL || bytes > PAST_CACHES);
}

// ------------------------------------------------------------------------------------------------------------- rows
#define PRODUCT(NAME, INFER, ...)                                                                                      \
    {.name = NAME, .infer = INFER, .cost = cost_product, .cpu = NBX_CPU_KERNEL(product_cpu), .flags = NBX_OP_EXACT_OUT, .carries = carries, \
     .data = &(const product_form){__VA_ARGS__}, .packing = &nbx_product_packing}

const nbx_op nbx_ops_matmul[] = {
    PRODUCT("aten::mm", infer_fixed, -1, 0, 1, -1, -1, -1, PRODUCT_MATRIX),
    PRODUCT("aten::mm.dtype", infer_fixed, -1, 0, 1, -1, -1, 2, PRODUCT_MATRIX),
    PRODUCT("aten::bmm", infer_fixed, -1, 0, 1, -1, -1, -1, PRODUCT_BATCH),
    PRODUCT("aten::bmm.dtype", infer_fixed, -1, 0, 1, -1, -1, 2, PRODUCT_BATCH),
    PRODUCT("aten::addmm", infer_fixed, 0, 1, 2, 3, 4, -1, PRODUCT_MATRIX),
    PRODUCT("aten::addmm.dtype", infer_fixed, 0, 1, 2, 4, 5, 3, PRODUCT_MATRIX),
    PRODUCT("aten::baddbmm", infer_fixed, 0, 1, 2, 3, 4, -1, PRODUCT_BATCH),
    PRODUCT("aten::baddbmm.dtype", infer_fixed, 0, 1, 2, 4, 5, 3, PRODUCT_BATCH),
    PRODUCT("aten::addmv", infer_fixed, 0, 1, 2, 3, 4, -1, PRODUCT_VECTOR),
    PRODUCT("aten::mv", infer_fixed, -1, 0, 1, -1, -1, -1, PRODUCT_VECTOR),
    PRODUCT("aten::dot", infer_fixed, -1, 0, 1, -1, -1, -1, PRODUCT_DOT),
    PRODUCT("aten::vdot", infer_fixed, -1, 0, 1, -1, -1, -1, PRODUCT_VDOT),
    PRODUCT("aten::_int_mm", infer_int8, -1, 0, 1, -1, -1, -1, PRODUCT_MATRIX),
    PRODUCT("aten::linear", infer_linear, 2, 0, 1, -1, -1, -1, PRODUCT_LINEAR),
    PRODUCT("aten::matmul", infer_matmul, -1, 0, 1, -1, -1, -1, PRODUCT_MATMUL),
    NBX_OPS_END,
};

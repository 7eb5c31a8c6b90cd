// Products of matrices and vectors: mm, bmm, addmm, baddbmm, addmv, mv, dot, vdot, addr, linear, matmul.
// Each is described by a product_form; one kernel (product_cpu.c) computes them all.
#include <string.h>

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

// alpha and beta must fit the dtype: no imaginary part for reals. (Integers truncate fractions, as ATen does.)
static nbx_status check_factor(nbx_op_call *c, int arg, nbx_dtype dtype) {
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
static nbx_status finish(nbx_op_call *c, const product_form *f, int rank, const int64_t *shape) {
    const nbx_tensor *a = arg_tensor(c, f->a);
    const nbx_dtype asked = f->out_dtype >= 0 ? arg_dtype(c, f->out_dtype) : NBX_DTYPE_NONE;
    const nbx_dtype dtype = asked == NBX_DTYPE_NONE ? (nbx_dtype)a->dtype : asked;
    if (dtype != (nbx_dtype)a->dtype && !(dtype == NBX_FLOAT32 && (a->dtype == NBX_FLOAT16 || a->dtype == NBX_BFLOAT16)))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "out_dtype must be %s, or float32 over half matrices",
                             nbx_dtype_name((nbx_dtype)a->dtype));
    nbx_status status = check_self(c, f, rank, shape);
    if (!status) status = check_factor(c, f->alpha, (nbx_dtype)a->dtype);
    if (!status) status = check_factor(c, f->beta, (nbx_dtype)a->dtype);
    if (status) return status;
    if (!out_new(c, 0, dtype, rank, shape, NULL)) return c->ctx->status;
    nbx_product p;
    nbx_product_of(c, &p);
    c->scratch_bytes = nbx_product_scratch(&p, c->ctx->threads);
    return NBX_OK;
}

static nbx_status infer_fixed(nbx_op_call *c) {
    const product_form *f = form_of(c);
    nbx_status status = check_ranks(c, f);
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

// --------------------------------------------------------------------------------------------- the product of a call
// Strides of t, seen as an operand of the result's rank with `inner` dims of its own at the end.
static void batch_strides(product_side *side, const nbx_tensor *t, int inner, int batch_rank, const int64_t *batch) {
    for (int i = 0; i < batch_rank; i++) {
        const int dim = t->rank - inner - batch_rank + i;
        side->batch[i] = dim < 0 || (t->shape[dim] == 1 && batch[i] != 1) ? 0 : t->stride[dim];
    }
}

static void factor_of(const nbx_op_call *c, int arg, double absent, double *factor, int64_t *integer) {
    factor[0] = absent;
    factor[1] = 0;
    *integer = (int64_t)absent;
    if (arg < 0) return;
    const nbx_value *v = &c->args[arg];
    factor[0] = nbx_scalar_to_double(v);
    if (v->kind == NBX_KIND_COMPLEX) factor[1] = v->as.complex[1];
    *integer = nbx_scalar_to_int(v);
}

// self's strides, broadcast to the matrix dims of the result.
static void self_side(nbx_product *p, const nbx_tensor *self, int rows, int cols) {
    const int matrix = rows + cols;
    int dim = self->rank - 1;
    p->self.data = self->storage ? nbx_data(self) : NULL;
    if (cols && dim >= 0) p->self.col = self->shape[dim] == 1 ? 0 : self->stride[dim], dim--;
    if (rows && dim >= 0) p->self.row = self->shape[dim] == 1 ? 0 : self->stride[dim];
    batch_strides(&p->self, self, matrix, p->batch_rank, p->batch);
}

// Sizes and strides by kind. rows, cols: whether the result has a dim for m and for n.
static void sides_of(const nbx_op_call *call, const product_form *f, nbx_product *p, int *rows, int *cols) {
    const nbx_tensor *a = arg_tensor(call, f->a), *b = arg_tensor(call, f->b);
    p->m = p->n = p->k = 1;
    *rows = *cols = 0;
    if (f->kind == PRODUCT_OUTER) {
        p->m = a->shape[0], p->n = b->shape[0];
        p->a.row = a->stride[0], p->b.col = b->stride[0];
        *rows = *cols = 1;
        return;
    }
    p->k = a->shape[a->rank - 1], p->a.col = a->stride[a->rank - 1];
    if (a->rank > 1) p->m = a->shape[a->rank - 2], p->a.row = a->stride[a->rank - 2], *rows = 1;
    if (f->kind == PRODUCT_LINEAR) {
        p->b.row = b->stride[b->rank - 1];
        if (b->rank > 1) p->n = b->shape[0], p->b.col = b->stride[0], *cols = 1;
    } else if (b->rank == 1) {
        p->b.row = b->stride[0];
    } else {
        p->b.row = b->stride[b->rank - 2], p->b.col = b->stride[b->rank - 1];
        p->n = b->shape[b->rank - 1], *cols = 1;
    }
}

// A batch dim of rows joins m when b does not change along it and a, self and c go on evenly.
static void fold_batch(nbx_product *p) {
    while (p->batch_rank > 0) {
        const int last = p->batch_rank - 1;
        const int64_t size = p->batch[last];
        const bool reads_self = p->beta[0] != 0 || p->beta[1] != 0;
        if (p->m == 1) {
            if (p->b.batch[last] != 0) return;
            p->a.row = p->a.batch[last], p->self.row = p->self.batch[last], p->c.row = p->c.batch[last];
        } else if (p->b.batch[last] != 0 || p->a.batch[last] != p->a.row * p->m || p->c.batch[last] != p->c.row * p->m ||
                   (reads_self && p->self.batch[last] != p->self.row * p->m)) {
            return;
        }
        p->m *= size;
        p->batch_rank = last;
    }
}

void nbx_product_of(const nbx_op_call *call, nbx_product *p) {
    const product_form *f = form_of(call);
    const nbx_tensor *a = arg_tensor(call, f->a), *b = arg_tensor(call, f->b), *out = out_get(call, 0);
    const nbx_tensor *self = f->self >= 0 ? arg_tensor(call, f->self) : NULL;
    int rows, cols;
    memset(p, 0, sizeof *p);
    p->dtype = (nbx_dtype)a->dtype;
    p->out_dtype = (nbx_dtype)out->dtype;
    p->conjugate_a = f->kind == PRODUCT_VDOT;
    factor_of(call, f->alpha, 1, p->alpha, &p->alpha_int);
    factor_of(call, f->beta, self ? 1 : 0, p->beta, &p->beta_int);
    sides_of(call, f, p, &rows, &cols);
    p->batch_rank = out->rank - rows - cols;
    memcpy(p->batch, out->shape, (size_t)p->batch_rank * sizeof *p->batch);
    batch_strides(&p->a, a, f->kind == PRODUCT_OUTER ? 1 : a->rank > 1 ? 2 : 1, p->batch_rank, p->batch);
    batch_strides(&p->b, b, b->rank > 1 && f->kind != PRODUCT_OUTER ? 2 : 1, p->batch_rank, p->batch);
    batch_strides(&p->c, out, rows + cols, p->batch_rank, p->batch);
    if (cols) p->c.col = out->stride[out->rank - 1];
    if (rows) p->c.row = out->stride[out->rank - 1 - cols];
    if (self) self_side(p, self, rows, cols);
    p->a.data = a->storage && a->numel ? nbx_data(a) : NULL;
    p->b.data = b->storage && b->numel ? nbx_data(b) : NULL;
    p->c.data = out->storage && out->numel ? nbx_data(out) : NULL;
    fold_batch(p);
}

size_t nbx_product_scratch(const nbx_product *p, int threads) {
    (void)p;
    (void)threads;
    return 0;
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

// ------------------------------------------------------------------------------------------------------------- rows
#define PRODUCT(NAME, INFER, ...)                                                                                      \
    {.name = NAME, .infer = INFER, .cost = cost_product, .cpu = NBX_CPU_KERNEL(product_cpu), .flags = NBX_OP_EXACT_OUT, \
     .data = &(const product_form){__VA_ARGS__}}

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
    PRODUCT("aten::linear", infer_linear, 2, 0, 1, -1, -1, -1, PRODUCT_LINEAR),
    PRODUCT("aten::matmul", infer_matmul, -1, 0, 1, -1, -1, -1, PRODUCT_MATMUL),
    NBX_OPS_END,
};

// The product that a call asks for: sizes and strides of its operands, batch dims merged, and how the packed kernel sees it.
#include <string.h>

#include "ops/matmul/product.h"

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

// Batch dims that every operand passes evenly become one.
static void merge_batch(nbx_product *p) {
    product_side *sides[] = {&p->a, &p->b, &p->self, &p->c};
    int last = 0;
    for (int i = 1; i < p->batch_rank; i++) {
        bool even = true;
        for (int k = 0; k < 4; k++) even &= sides[k]->batch[last] == sides[k]->batch[i] * p->batch[i];
        if (!even) last++;
        p->batch[last] = even ? p->batch[last] * p->batch[i] : p->batch[i];
        for (int k = 0; k < 4; k++) sides[k]->batch[last] = sides[k]->batch[i];
    }
    if (p->batch_rank) p->batch_rank = last + 1;
}

void nbx_product_of(const nbx_op_call *call, nbx_product *p) {
    const product_form *f = (const product_form *)call->op->data;
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
    merge_batch(p);
}

bool nbx_product_is_plain(const nbx_product *p) {
    const int64_t limit = (int64_t)1 << 53;
    return (p->conjugate_a && nbx_dtype_is_complex(p->dtype)) ||
           (nbx_dtype_is_integral(p->dtype, false) &&
            (p->alpha_int > limit || p->alpha_int < -limit || p->beta_int > limit || p->beta_int < -limit));
}

void nbx_product_gemm(const nbx_product *p, nbx_gemm *g) {
    const int last = p->batch_rank - 1;
    const bool whole = nbx_dtype_is_integral(p->dtype, false);
    memset(g, 0, sizeof *g);
    g->m = p->m, g->n = p->n, g->k = p->k;
    g->batch = last < 0 ? 1 : p->batch[last];
    g->dtype = p->dtype, g->out_dtype = p->out_dtype;
    g->a = p->a.data, g->b = p->b.data, g->c = (void *)p->c.data;
    g->row_stride_a = p->a.row, g->col_stride_a = p->a.col, g->batch_stride_a = last < 0 ? 0 : p->a.batch[last];
    g->row_stride_b = p->b.row, g->col_stride_b = p->b.col, g->batch_stride_b = last < 0 ? 0 : p->b.batch[last];
    g->row_stride_c = p->c.row, g->col_stride_c = p->c.col, g->batch_stride_c = last < 0 ? 0 : p->c.batch[last];
    g->alpha = whole ? (double)p->alpha_int : p->alpha[0], g->alpha_imaginary = p->alpha[1];
    g->beta = whole ? (double)p->beta_int : p->beta[0], g->beta_imaginary = p->beta[1];
    g->d = p->self.data;
    g->row_stride_d = p->self.row, g->col_stride_d = p->self.col, g->batch_stride_d = last < 0 ? 0 : p->self.batch[last];
}

size_t nbx_product_scratch(const nbx_product *p, int threads) {
    nbx_gemm g;
    if (nbx_product_is_plain(p)) return 0;
    nbx_product_gemm(p, &g);
    return nbx_gemm_scratch_bytes(&g, threads);
}

// ------------------------------------------------------------------------------------------------------ packed weights
// Worth it for any number of rows: 4096 x 4096 takes 0.58 of the time with 1 row of float32, 0.49 with 4, 0.42 with 1 of bfloat16
// (Zen 4, one thread). Not for what the kernel would turn over, nor where columns filled up to a panel would be a third of it.
static bool describe_packed(const nbx_op_call *c, nbx_packed_form *form) {
    enum { FEWEST_COLUMNS = 9, FEWEST_WEIGHTS = 1024, PIECE_BYTES = 1 << 19 };
    nbx_product p;
    nbx_gemm g;
    nbx_product_of(c, &p);
    if (nbx_product_is_plain(&p) || p.b.data == NULL) return false;
    nbx_product_gemm(&p, &g);
    g.force_isa = 1 + c->ctx->isa;
    for (int i = 0; i < p.batch_rank; i++)
        if (p.b.batch[i] != 0 && p.batch_rank > 1) return false;
    if (g.n < FEWEST_COLUMNS || g.n * g.k < FEWEST_WEIGHTS || (g.col_stride_c != 1 && g.m > 1)) return false;
    const int64_t entries = g.batch_stride_b == 0 ? 1 : g.batch, bytes = entries * g.n * g.k * (int64_t)nbx_dtype_size(g.dtype);
    form->bytes = nbx_gemm_packed_bytes(&g);
    form->pieces = entries == 1 ? bytes / PIECE_BYTES : 1;
    form->weight = arg_tensor(c, ((const product_form *)c->op->data)->b);
    const int64_t layout[] = {g.dtype, g.n, g.k, entries, g.row_stride_b, g.col_stride_b, g.batch_stride_b, p.b.data - (const char *)form->weight->storage->data};
    memcpy(form->layout, layout, sizeof layout);
    return form->bytes > 0 && (int64_t)form->bytes <= bytes + bytes / 2;
}

// A piece is some columns, a multiple of every panel's width: those of a linear layer lie side by side.
static nbx_status make_packed(nbx_op_call *c, int64_t piece, int64_t pieces) {
    enum { PANEL = 32 };
    nbx_product p;
    nbx_gemm g;
    nbx_product_of(c, &p);
    nbx_product_gemm(&p, &g);
    g.force_isa = 1 + c->ctx->isa;
    const int64_t size = (int64_t)nbx_dtype_size(g.dtype), columns = (g.n + pieces * PANEL - 1) / (pieces * PANEL) * PANEL, first = piece * columns;
    if (first >= g.n) return NBX_OK;
    g.n = g.n - first < columns ? g.n - first : columns;
    g.b = (const char *)g.b + first * g.col_stride_b * size;
    nbx_gemm_pack_b(&g, (char *)c->packed + first * g.k * size, c->pool);
    return NBX_OK;
}

const nbx_packing nbx_product_packing = {describe_packed, NBX_CPU_KERNEL_ONE(make_packed)};

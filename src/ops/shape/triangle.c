// Triangles and diagonals: tril, triu and their indices, diag and its kin, vander.
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"

// --------------------------------------------------------------------------------------------------------- tril and triu
static nbx_status triangle_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    if (self->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of at least 2 dims, not %d", self->rank);
    return out_new(c, 0, (nbx_dtype)self->dtype, self->rank, self->shape, NULL) ? NBX_OK : c->ctx->status;
}

typedef struct triangle {
    const nbx_tensor *self, *out;
    int64_t width, diagonal;
    bool upper;
} triangle;

// Rows of all matrices, one after another: what lies outside the triangle becomes zero.
static void triangle_rows(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    static const char zero[16];
    const triangle *t = arg;
    const nbx_tensor *self = t->self, *out = t->out;
    const int last = self->rank - 1;
    const int64_t columns = self->shape[last], from_step = self->stride[last] * t->width, to_step = out->stride[last] * t->width;
    for (int64_t r = begin; r < end; r++) {
        const char *from = nbx_data(self);
        char *to = nbx_data(out);
        int64_t at = r;
        const int64_t row = r % self->shape[last - 1];
        for (int d = last - 1; d >= 0; d--) {
            from += at % self->shape[d] * self->stride[d] * t->width;
            to += at % self->shape[d] * out->stride[d] * t->width;
            at /= self->shape[d];
        }
        const int64_t edge = row + t->diagonal + (t->upper ? 0 : 1);  // columns below edge are of the lower part
        const int64_t cut = edge < 0 ? 0 : edge > columns ? columns : edge;
        const int64_t kept = t->upper ? cut : 0, kept_end = t->upper ? columns : cut, lost = t->upper ? 0 : cut, lost_end = t->upper ? cut : columns;
        if (to != from) nbx_move_run_1d((int)t->width, kept_end - kept, to + kept * to_step, to_step, from + kept * from_step, from_step);
        nbx_move_run_1d((int)t->width, lost_end - lost, to + lost * to_step, to_step, zero, 0);
    }
}

static nbx_status triangle_run(nbx_op_call *c, bool upper) {
    triangle t = {.self = arg_tensor(c, 0), .out = out_get(c, 0), .diagonal = arg_int(c, 1), .upper = upper};
    if (t.self->numel == 0) return NBX_OK;
    t.width = (int64_t)nbx_dtype_size((nbx_dtype)t.self->dtype);
    const int64_t columns = t.self->shape[t.self->rank - 1], limit = (int64_t)1 << 62;
    t.diagonal = t.diagonal > limit ? limit : t.diagonal < -limit ? -limit : t.diagonal;
    nbx_parallel_for(c->pool, t.self->numel / columns, 32768 / (columns * t.width) + 1, triangle_rows, &t);
    return NBX_OK;
}

static nbx_status tril(nbx_op_call *c) { return triangle_run(c, false); }
static nbx_status triu(nbx_op_call *c) { return triangle_run(c, true); }

// tril_indices, triu_indices (row, col, offset): coordinates of the triangle, rows in the first line, columns in the second.
static int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

// Columns of one row that belong to the triangle.
static void span(bool upper, int64_t row, int64_t columns, int64_t offset, int64_t *begin, int64_t *end) {
    *begin = upper ? clamp(row + offset, 0, columns) : 0;
    *end = upper ? columns : clamp(row + offset + 1, 0, columns);
}

// Elements of rows x columns on and below the diagonal `offset`: a staircase of k more each row, then full rows.
static __int128 count_lower(int64_t rows, int64_t columns, int64_t offset) {
    const __int128 first = clamp(-offset, 0, rows), beyond = (__int128)columns - offset - 1;
    const __int128 full = beyond < first ? first : beyond > rows ? (__int128)rows : beyond;
    const __int128 steps = full - first, height = first + offset + 1;
    return steps * height + steps * (steps - 1) / 2 + (rows - full) * columns;
}

static nbx_status indices_infer_of(nbx_op_call *c, bool upper) {
    const int64_t rows = arg_int(c, 0), columns = arg_int(c, 1), offset = clamp(arg_int(c, 2), INT32_MIN, INT32_MAX);
    if (rows < 0 || columns < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld rows and %lld columns", (long long)rows, (long long)columns);
    const __int128 count = upper ? (__int128)rows * columns - count_lower(rows, columns, offset - 1) : count_lower(rows, columns, offset);
    if (count > INT64_MAX / 2) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%lld rows and %lld columns are too many", (long long)rows, (long long)columns);
    const int64_t shape[2] = {2, (int64_t)count};
    const nbx_dtype dtype = arg_tensor(c, 3) ? (nbx_dtype)arg_tensor(c, 3)->dtype : arg_dtype(c, 3);  // of out, in the out= form
    return out_new(c, 0, dtype == NBX_DTYPE_NONE ? NBX_INT64 : dtype, 2, shape, NULL) ? NBX_OK : c->ctx->status;
}

static nbx_status indices_of(nbx_op_call *c, bool upper) {
    const nbx_tensor *out = out_get(c, 0);
    const int64_t rows = arg_int(c, 0), columns = arg_int(c, 1), offset = clamp(arg_int(c, 2), INT32_MIN, INT32_MAX);
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)out->dtype);
    int64_t begin, end, k = 0;
    for (int64_t row = upper ? 0 : clamp(-offset, 0, rows); k < out->shape[1]; row++) {
        span(upper, row, columns, offset, &begin, &end);
        for (int64_t column = begin; column < end; column++, k++) {
            char *to = (char *)nbx_data(out) + k * out->stride[1] * width;
            nbx_convert_run((nbx_dtype)out->dtype, to, 0, NBX_INT64, (const char *)&row, 0, 1);
            nbx_convert_run((nbx_dtype)out->dtype, to + out->stride[0] * width, 0, NBX_INT64, (const char *)&column, 0, 1);
        }
    }
    return NBX_OK;
}

static nbx_status tril_indices_infer(nbx_op_call *c) { return indices_infer_of(c, false); }
static nbx_status triu_indices_infer(nbx_op_call *c) { return indices_infer_of(c, true); }
static nbx_status tril_indices(nbx_op_call *c) { return indices_of(c, false); }
static nbx_status triu_indices(nbx_op_call *c) { return indices_of(c, true); }

// ------------------------------------------------------------------------------------------------------------- diagonals
// diag_embed(self, offset, dim1, dim2): the last dim of self on the diagonal of a new matrix.
static nbx_status diag_embed(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t offset = arg_int(c, 1);
    const int rank = self->rank + 1;
    int a, b;
    if (self->rank == 0 || rank > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of at least 1 dim");
    if (nbx_call_dim(c, arg_int(c, 2), rank, &a) != NBX_OK || nbx_call_dim(c, arg_int(c, 3), rank, &b) != NBX_OK) return c->ctx->status;
    if (a == b) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "dims %lld and %lld are the same", (long long)arg_int(c, 2), (long long)arg_int(c, 3));
    if (offset < -INT64_MAX / 2 || offset > INT64_MAX / 2) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "offset %lld is too large", (long long)offset);
    const int64_t size = self->shape[self->rank - 1] + (offset < 0 ? -offset : offset);
    int64_t shape[NBX_MAX_RANK];
    for (int d = 0, from = 0; d < rank; d++) shape[d] = d == a || d == b ? size : self->shape[from++];
    const nbx_tensor *out = NBX_DO(c->ctx, "aten::new_zeros", T(self), nbx_of_ints(shape, rank));
    const nbx_tensor *line = NBX_DO(c->ctx, "aten::diagonal", T(out), I(offset), I(a), I(b));
    return NBX_DO(c->ctx, "aten::copy_", T(line), T(self)) == NULL ? c->ctx->status : out_tensor(c, 0, out);
}

static nbx_status diag(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    if (self->rank == 1) return NBX_FORWARD(c, "aten::diag_embed", T(self), c->args[1]);
    if (self->rank == 2) return NBX_FORWARD(c, "aten::diagonal_copy", T(self), c->args[1]);
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a vector or a matrix, not a tensor of %d dims", self->rank);
}

static nbx_status diagflat(nbx_op_call *c) {
    const int64_t minus_one = -1;
    return NBX_FORWARD(c, "aten::diag", T(nbx_reshaped(c->ctx, arg_tensor(c, 0), 1, &minus_one)), c->args[1]);
}

// fill_diagonal_(self, value, wrap): a tall matrix's diagonal starts again below a row that is left out.
static nbx_status fill_diagonal(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    if (self->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a tensor of at least 2 dims, not %d", self->rank);
    int64_t least = self->shape[0], step = 0;
    for (int d = 0; d < self->rank; d++) {
        if (self->rank > 2 && self->shape[d] != self->shape[0]) return nbx_call_fail(c, NBX_ERROR_SHAPE, "all dims must be of one size");
        least = self->shape[d] < least ? self->shape[d] : least;
        step += self->stride[d];
    }
    const nbx_tensor *line = NBX_DO(c->ctx, "aten::as_strided", T(self), nbx_of_ints(&least, 1), nbx_of_ints(&step, 1), I(self->offset));
    if (NBX_DO(c->ctx, "aten::fill_.Scalar", T(line), c->args[1]) == NULL) return c->ctx->status;
    const int64_t below = self->rank == 2 ? self->shape[0] - self->shape[1] - 1 : 0;
    if (arg_bool(c, 2) && self->rank == 2 && below > 0) {
        const int64_t columns = self->shape[1], count = (below - 1) / (columns + 1) * columns + ((below - 1) % (columns + 1) + 1 < columns ? (below - 1) % (columns + 1) + 1 : columns);
        for (int64_t k = 0; k < count; k++) {
            const int64_t row = columns + 1 + k / columns * (columns + 1) + k % columns;
            const nbx_tensor *one = NBX_DO(c->ctx, "aten::select.int", T(NBX_DO(c->ctx, "aten::select.int", T(self), I(0), I(row))), I(0), I(k % columns));
            if (NBX_DO(c->ctx, "aten::fill_.Scalar", T(one), c->args[1]) == NULL) return c->ctx->status;
        }
    }
    return out_tensor(c, 0, self);
}

// vander(x, N, increasing): powers of x as columns.
static nbx_status vander(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (x->rank != 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "takes a vector, not a tensor of %d dims", x->rank);
    const int64_t n = arg_int_or(c, 1, x->shape[0]), minus_one = -1;
    if (n < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "N %lld is negative", (long long)n);
    const nbx_dtype dtype = nbx_dtype_is_integral((nbx_dtype)x->dtype, true) ? NBX_INT64 : (nbx_dtype)x->dtype;
    const int64_t shape[2] = {x->shape[0], n}, first[2] = {x->shape[0], n > 0}, rest[2] = {x->shape[0], n > 0 ? n - 1 : 0};
    if (n == 0) return nbx_give(c, 0, NBX_DO(c->ctx, "aten::new_empty", T(x), nbx_of_ints(shape, 2), nbx_of_dtype(dtype)));
    const nbx_tensor *ones = NBX_DO(c->ctx, "aten::new_ones", T(x), nbx_of_ints(first, 2), nbx_of_dtype(dtype));
    const nbx_tensor *wide = NBX_DO(c->ctx, "aten::expand", T(nbx_unsqueezed(c->ctx, nbx_cast(c->ctx, x, dtype), -1)), nbx_of_ints(rest, 2));
    const nbx_tensor *parts[2] = {ones, n > 1 ? NBX_DO(c->ctx, "aten::cumprod", T(wide), I(-1)) : wide};
    if (parts[0] == NULL || parts[1] == NULL) return c->ctx->status;
    const nbx_tensor *powers = NBX_DO(c->ctx, "aten::cat", nbx_of_tensors(parts, 2), I(1));
    if (arg_bool(c, 2)) return nbx_give(c, 0, powers);
    return NBX_FORWARD(c, "aten::flip", T(powers), nbx_of_ints(&minus_one, 1));
}

// linalg_vander(x, N): rising powers of the last dim of x, in a new last dim.
static nbx_status linalg_vander(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (x->dtype == NBX_BOOL || x->dtype == NBX_FLOAT16 || x->dtype == NBX_BFLOAT16)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s", nbx_dtype_name((nbx_dtype)x->dtype));
    if (x->rank == 0) x = nbx_unsqueezed(c->ctx, x, 0);
    if (x == NULL) return c->ctx->status;
    const int64_t n = arg_int_or(c, 1, x->shape[x->rank - 1]);
    if (n <= 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "N must be greater than 1, found %lld", (long long)n);
    int64_t shape[NBX_MAX_RANK];
    if (x->rank + 1 > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d dims", NBX_MAX_RANK);
    for (int d = 0; d < x->rank; d++) shape[d] = x->shape[d];
    shape[x->rank] = n - 1;
    const nbx_tensor *powers = NBX_DO(c->ctx, "aten::cumprod", T(NBX_DO(c->ctx, "aten::expand", T(nbx_unsqueezed(c->ctx, x, -1)), nbx_of_ints(shape, x->rank + 1))), I(-1));
    if (powers == NULL) return c->ctx->status;
    shape[x->rank] = 1;
    const nbx_tensor *parts[2] = {NBX_DO(c->ctx, "aten::new_ones", T(powers), nbx_of_ints(shape, x->rank + 1)), powers};
    if (parts[0] == NULL) return c->ctx->status;
    return NBX_FORWARD(c, "aten::cat", nbx_of_tensors(parts, 2), I(-1));
}

const nbx_op nbx_ops_triangle[] = {
    {.name = "aten::tril", .infer = triangle_infer, .cpu = NBX_CPU_KERNEL_ONE(tril), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::triu", .infer = triangle_infer, .cpu = NBX_CPU_KERNEL_ONE(triu), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::tril_indices", .infer = tril_indices_infer, .cpu = NBX_CPU_KERNEL_ONE(tril_indices), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::triu_indices", .infer = triu_indices_infer, .cpu = NBX_CPU_KERNEL_ONE(triu_indices), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::diag_embed", .composite = diag_embed, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::diag", .composite = diag, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::diagflat", .composite = diagflat},
    {.name = "aten::fill_diagonal_", .composite = fill_diagonal, .flags = NBX_OP_IN_PLACE | NBX_OP_EFFECT},
    {.name = "aten::vander", .composite = vander},
    {.name = "aten::linalg_vander", .composite = linalg_vander},
    NBX_OPS_END,
};

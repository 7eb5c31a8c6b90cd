// gather and the scatter family: an index for every element, along one dim.
//   gather:  out[i][j] = self[index[i][j]][j]        scatter: out[index[i][j]][j] = src[i][j]      (dim 0)
//
// Elements that meet lie in one line along dim, so lines are what threads share; a line's writes come in the order of the
// index. With few lines every thread takes a range of index values instead.
#include "ops/elementwise/elementwise.h"
#include "ops/index/combine.h"
#include "ops/shape/element.h"
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"

enum { GRAIN = 4096, BLOCK = 256 };

// ----------------------------------------------------------------------------------------------------------------- walk
// Three things walk together: the index, what is indexed along dim (table), and what lies beside the index (values).
typedef struct walk {
    const nbx_tensor *index;
    char *table, *values;
    int width;
    bool write;
    nbx_combine_fn combine;          // NULL: bytes are set
    nbx_combine_at_fn combine_at;    // the same along a line
    int64_t size, table_step;        // of the indexed dim; steps and strides in bytes
    int64_t length, index_step, values_step;  // along dim
    int64_t inner, index_inner, table_inner, values_inner;  // a dim walked inside, for locality
    int rank;                        // the other dims
    int64_t shape[NBX_MAX_RANK], index_stride[NBX_MAX_RANK], table_stride[NBX_MAX_RANK], values_stride[NBX_MAX_RANK];
    int64_t outers, blocks, parts;
    bool failed;
    int64_t bad_value;
} walk;

static int64_t bytes_along(const nbx_tensor *t, int d) {
    return t == NULL || t->rank == 0 ? 0 : t->stride[d] * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
}

// values NULL: one element for all.
static void plan(walk *w, int dim, const nbx_tensor *index, const nbx_tensor *table, const nbx_tensor *values) {
    const int rank = index->rank;
    w->index = index;
    w->width = (int)nbx_dtype_size((nbx_dtype)table->dtype);
    w->size = table->rank == 0 ? 1 : table->shape[dim];
    w->table_step = bytes_along(table, dim);
    w->length = rank == 0 ? 1 : index->shape[dim];
    w->index_step = bytes_along(index, dim);
    w->values_step = bytes_along(values, dim);
    w->inner = 1;
    w->outers = 1;
    const bool line_is_dense = rank == 0 || index->stride[dim] == 1;
    int inner = -1;
    for (int d = 0; d < rank; d++)
        if (!line_is_dense && d != dim && index->shape[d] > 1 && (inner < 0 || index->stride[d] <= index->stride[inner])) inner = d;
    for (int d = 0; d < rank; d++) {
        if (d == dim || index->shape[d] == 1) continue;
        if (d == inner) {
            w->inner = index->shape[d];
            w->index_inner = bytes_along(index, d), w->table_inner = bytes_along(table, d), w->values_inner = bytes_along(values, d);
            continue;
        }
        w->shape[w->rank] = index->shape[d];
        w->index_stride[w->rank] = bytes_along(index, d), w->table_stride[w->rank] = bytes_along(table, d);
        w->values_stride[w->rank++] = bytes_along(values, d);
        w->outers *= index->shape[d];
    }
}

static void report(walk *w, int64_t value) {
    if (!__atomic_exchange_n(&w->failed, true, __ATOMIC_RELAXED)) w->bad_value = value;
}

ELEMENT_INLINE int64_t value_of(bool wide, const char *p) { return wide ? element_get_i64(p) : element_get_i32(p); }

ELEMENT_INLINE void move_one(size_t width, bool write, char *table, char *values) {
    memcpy(write ? table : values, write ? values : table, width);
}

// One line block: for each step along dim, `inner` elements.
ELEMENT_INLINE void block_of(walk *w, size_t width, bool wide, bool write, const char *index, char *table, char *values, int64_t inner,
                             int64_t low, int64_t high) {
    for (int64_t j = 0; j < w->length; j++) {
        const char *i = index + j * w->index_step;
        char *v = values + j * w->values_step, *t = table;
        for (int64_t k = 0; k < inner; k++, i += w->index_inner, v += w->values_inner, t += w->table_inner) {
            const int64_t at = value_of(wide, i);
            if (at < low || at >= high) {
                if (at < 0 || at >= w->size) {
                    report(w, at);
                    return;
                }
                continue;
            }
            if (width) move_one(width, write, t + at * w->table_step, v);
            else w->combine(t + at * w->table_step, 0, v, 0, 1);
        }
    }
}

// A line alone, its int64 indices dense. PIECE of them are checked, while what is to be read or written beside them is asked for, and
// then followed (gather of 1024 x 1024 floats: 1.74 -> 0.72 ms on a Zen 3 core).
enum { PIECE = 256 };

static bool check_piece(walk *w, const int64_t *index, int64_t n) {
    uint64_t bad = 0;  // the sign: of an index, or of how far it is from the last one
    const uint64_t last = (uint64_t)w->size - 1;
    for (int64_t j = 0; j < n; j++) bad |= (uint64_t)index[j] | (last - (uint64_t)index[j]);
    for (int64_t j = 0; bad >> 63 && j < n; j++)
        if ((uint64_t)index[j] >= (uint64_t)w->size) {
            report(w, index[j]);
            break;
        }
    return !(bad >> 63);
}

ELEMENT_INLINE void piece_of(const walk *w, size_t width, bool write, bool dense, const int64_t *index, char *table, char *values, int64_t n) {
    const int64_t step = dense ? (int64_t)width : w->values_step, table_step = dense ? (int64_t)width : w->table_step;
    for (int64_t j = 0; j < n; j++) move_one(width, write, table + index[j] * table_step, values + j * step);
}

static void piece(const walk *w, const int64_t *index, char *table, char *values, int64_t n) {
    const bool dense = w->values_step == w->width && w->table_step == w->width;
#define PIECE_OF(width)                                                                                                      \
    (!w->write ? dense ? piece_of(w, width, false, true, index, table, values, n) : piece_of(w, width, false, false, index, table, values, n) \
     : dense   ? piece_of(w, width, true, true, index, table, values, n)                                                     \
               : piece_of(w, width, true, false, index, table, values, n))
    if (w->combine) w->combine_at(table, w->table_step, index, values, w->values_step, n);
    else if (w->width == 4) PIECE_OF(4);
    else if (w->width == 8) PIECE_OF(8);
    else if (w->width == 2) PIECE_OF(2);
    else if (w->width == 1) PIECE_OF(1);
    else PIECE_OF(16);
#undef PIECE_OF
}

// No index of a write is followed before all are checked.
static void line(walk *w, const int64_t *index, char *table, char *values) {
    const int64_t length = w->length;
    for (int64_t j = 0; j < length; j += PIECE) {
        const int64_t n = length - j < PIECE ? length - j : PIECE;
        if (w->values_step == w->width)
            for (int64_t k = 0; k < n * w->width; k += 64) __builtin_prefetch(values + j * w->width + k, 1);
        if (!check_piece(w, index + j, n)) return;
        if (!w->write) piece(w, index + j, table, values + j * w->values_step, n);
    }
    if (w->write) piece(w, index, table, values, length);
}

static void block(walk *w, const char *index, char *table, char *values, int64_t inner, int64_t low, int64_t high) {
    const bool wide = w->index->dtype == NBX_INT64;
    if (wide && inner == 1 && w->index_step == 8 && w->parts == 1) {
        line(w, (const int64_t *)(const void *)index, table, values);
        return;
    }
#define BLOCK_OF(width, write)                                                                                         \
    (wide ? block_of(w, width, true, write, index, table, values, inner, low, high)                                    \
          : block_of(w, width, false, write, index, table, values, inner, low, high))
    if (w->combine) BLOCK_OF(0, true);
    else if (w->width == 4) w->write ? BLOCK_OF(4, true) : BLOCK_OF(4, false);
    else if (w->width == 8) w->write ? BLOCK_OF(8, true) : BLOCK_OF(8, false);
    else if (w->width == 2) w->write ? BLOCK_OF(2, true) : BLOCK_OF(2, false);
    else if (w->width == 1) w->write ? BLOCK_OF(1, true) : BLOCK_OF(1, false);
    else w->write ? BLOCK_OF(16, true) : BLOCK_OF(16, false);
#undef BLOCK_OF
}

static void units(void *arg, int64_t first, int64_t last, int thread) {
    (void)thread;
    walk *w = arg;
    for (int64_t u = first; u < last && !w->failed; u++) {
        const int64_t part = u % w->parts, piece = u / w->parts % w->blocks;
        int64_t outer = u / w->parts / w->blocks;
        const int64_t begin = piece * BLOCK, inner = w->inner - begin < BLOCK ? w->inner - begin : BLOCK;
        const char *index = (const char *)nbx_data(w->index) + begin * w->index_inner;
        char *table = w->table + begin * w->table_inner, *values = w->values + begin * w->values_inner;
        for (int d = w->rank - 1; d >= 0; d--) {
            const int64_t at = outer % w->shape[d];
            outer /= w->shape[d];
            index += at * w->index_stride[d], table += at * w->table_stride[d], values += at * w->values_stride[d];
        }
        block(w, index, table, values, inner, w->size * part / w->parts, w->size * (part + 1) / w->parts);
    }
}

static nbx_status run(nbx_op_call *c, walk *w, int dim) {
    w->blocks = (w->inner + BLOCK - 1) / BLOCK;
    w->parts = 1;
    const int64_t threads = nbx_pool_threads(c->pool), lines = w->outers * w->blocks;
    if (w->write && lines < threads && w->index->numel > 8 * GRAIN && w->size > threads) w->parts = threads < 16 ? threads : 16;
    int64_t count = lines * w->parts;
    const int64_t each = w->length * (w->inner < BLOCK ? w->inner : BLOCK) / w->parts + 1;
    // A read along one long line is cut along the line itself.
    if (!w->write && lines < threads && w->length > 8 * GRAIN && w->inner == 1) {
        w->shape[w->rank] = (w->length + GRAIN - 1) / GRAIN;
        w->index_stride[w->rank] = w->index_step * GRAIN, w->values_stride[w->rank] = w->values_step * GRAIN, w->table_stride[w->rank] = 0;
        const int64_t whole = w->length / GRAIN, tail = w->length % GRAIN;
        w->shape[w->rank++] = whole;
        walk rest = *w;
        w->length = GRAIN;
        count = lines * whole;
        nbx_parallel_for(c->pool, count, 1, units, w);
        rest.rank--;
        rest.length = tail;
        for (int64_t line = 0; tail > 0 && line < lines; line++) {
            walk one = rest;
            one.values += whole * GRAIN * w->values_step;
            nbx_tensor shifted = *w->index;  // the index, from its tail on
            shifted.offset += whole * GRAIN * (w->index_step / (int64_t)nbx_dtype_size((nbx_dtype)w->index->dtype));
            one.index = &shifted;
            units(&one, line, line + 1, 0);
            if (one.failed) report(w, one.bad_value);
        }
    } else {
        nbx_parallel_for(c->pool, count, each >= GRAIN ? 1 : GRAIN / each + 1, units, w);
    }
    if (!w->failed) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_INDEX, "index %lld is out of range [0, %lld] of dim %d", (long long)w->bad_value, (long long)w->size - 1, dim);
}

// --------------------------------------------------------------------------------------------------------------- checks
static nbx_status check_index(nbx_op_call *c, const nbx_tensor *index) {
    if (index->dtype == NBX_INT64 || index->dtype == NBX_INT32 || index->numel == 0) return NBX_OK;  // [] is a float tensor in Python
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "the index must be int64 or int32, not %s", nbx_dtype_name((nbx_dtype)index->dtype));
}

static int rank_or_one(const nbx_tensor *t) { return t->rank == 0 ? 1 : t->rank; }
static int64_t size_or_one(const nbx_tensor *t, int d) { return t->rank == 0 ? 1 : t->shape[d]; }

// The index may be smaller than t, but not larger; dim itself is free if so said.
static nbx_status check_within(nbx_op_call *c, const nbx_tensor *index, const nbx_tensor *t, int free_dim, const char *what) {
    bool fits = rank_or_one(index) == rank_or_one(t);
    for (int d = 0; fits && d < rank_or_one(index); d++) fits = d == free_dim || size_or_one(index, d) <= size_or_one(t, d);
    if (fits) return NBX_OK;
    char a[NBX_SHAPE_TEXT], b[NBX_SHAPE_TEXT];
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "the index of shape %s is larger than %s of shape %s",
                         nbx_shape_text(index->rank, index->shape, a, sizeof a), what, nbx_shape_text(t->rank, t->shape, b, sizeof b));
}

// --------------------------------------------------------------------------------------------------------------- gather
static nbx_status gather_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2);
    int d;
    if (nbx_call_dim(c, arg_int(c, 1), self->rank, &d) != NBX_OK || check_index(c, index) != NBX_OK) return c->ctx->status;
    if (index->numel != 0 && check_within(c, index, self, d, "self") != NBX_OK) return c->ctx->status;
    c->args[1] = I(d);
    return out_new(c, 0, (nbx_dtype)self->dtype, index->rank, index->shape, NULL) ? NBX_OK : c->ctx->status;
}

static nbx_status gather(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2), *out = out_get(c, 0);
    const int d = (int)arg_int(c, 1);
    if (index->numel == 0) return NBX_OK;
    walk w = {.table = nbx_data(self), .values = nbx_data(out)};
    plan(&w, d, index, self, out);
    return run(c, &w, d);
}

// -------------------------------------------------------------------------------------------------------------- scatter
// scatter.src, scatter.value, .reduce, .value_reduce, scatter_add, scatter_reduce.two: how the row reads its arguments.
typedef struct form {
    int reduce_arg;   // of the name of the reduction; 0: none
    bool add;         // scatter_add
    int include_arg;  // of include_self; 0: always
} form;

static nbx_status reduction(nbx_op_call *c, nbx_combine *how, bool *mean) {
    const form *f = c->op->data;
    *how = f->add ? NBX_COMBINE_ADD : NBX_COMBINE_SET;
    *mean = false;
    if (f->reduce_arg == 0) return NBX_OK;
    const char *name = arg_string(c, f->reduce_arg);
    const bool old = strcmp(name, "add") == 0 || strcmp(name, "multiply") == 0;
    if (nbx_combine_parse(name, how, mean) && old == (f->include_arg == 0)) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "'%s' is not among its reductions", name);
}

static nbx_status scatter_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2), *src = arg_tensor(c, 3);
    nbx_combine how;
    bool mean;
    int d;
    if (nbx_call_dim(c, arg_int(c, 1), self->rank, &d) != NBX_OK || check_index(c, index) != NBX_OK || reduction(c, &how, &mean) != NBX_OK)
        return c->ctx->status;
    if (src != NULL && src->dtype != self->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "self is %s, src is %s", nbx_dtype_name((nbx_dtype)self->dtype), nbx_dtype_name((nbx_dtype)src->dtype));
    if (index->numel != 0) {
        if (check_within(c, index, self, d, "self") != NBX_OK) return c->ctx->status;
        if (src != NULL && check_within(c, index, src, -1, "src") != NBX_OK) return c->ctx->status;
    }
    if (src == NULL && c->args[3].kind == NBX_KIND_COMPLEX && !nbx_dtype_is_complex((nbx_dtype)self->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "a complex value does not fit %s", nbx_dtype_name((nbx_dtype)self->dtype));
    if (src == NULL && ew_check_number(c, (nbx_dtype)self->dtype, &c->args[3]) != NBX_OK) return c->ctx->status;
    if (how != NBX_COMBINE_SET && nbx_combine_of(how, (nbx_dtype)self->dtype) == NULL)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s has no such reduction", nbx_dtype_name((nbx_dtype)self->dtype));
    c->args[1] = I(d);
    if (mean) c->scratch_bytes = sizeof(int64_t) * (size_t)self->numel;
    const int64_t length = size_or_one(index, d);
    if (src != NULL && how == NBX_COMBINE_SET && c->device.type != NBX_CPU && length > NBX_SCATTER_SHORT)  // who writes each place last
        c->scratch_bytes = sizeof(uint32_t) * (size_t)(index->numel / length * size_or_one(self, d));
    if (how != NBX_COMBINE_SET && c->device.type != NBX_CPU && length > 0)
        c->scratch_bytes += nbx_combine_sort_bytes((nbx_dtype)self->dtype, index->numel / length, length);
    return out_new(c, 0, (nbx_dtype)self->dtype, self->rank, self->shape, NULL) ? NBX_OK : c->ctx->status;
}

static nbx_status write(nbx_op_call *c, const nbx_tensor *table, const nbx_tensor *values, char *data, nbx_combine how) {
    const int d = (int)arg_int(c, 1);
    walk w = {.table = nbx_data(table), .values = data, .write = true};
    if (how != NBX_COMBINE_SET) w.combine = nbx_combine_of(how, (nbx_dtype)table->dtype), w.combine_at = nbx_combine_at_of(how, (nbx_dtype)table->dtype);
    plan(&w, d, arg_tensor(c, 2), table, values);
    return run(c, &w, d);
}

// Divides each element of out by its count, where that is above one. counts lies contiguous in the shape of out.
static void divide_all(const nbx_tensor *out, const int64_t *counts) {
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)out->dtype);
    int64_t at[NBX_MAX_RANK] = {0};
    char *to = nbx_data(out);
    for (int64_t k = 0; k < out->numel; k++) {
        if (counts[k] > 1) nbx_divide_run((nbx_dtype)out->dtype, to, 0, counts[k], 1);
        for (int i = out->rank - 1; i >= 0; i--) {
            to += out->stride[i] * width;
            if (++at[i] < out->shape[i]) break;
            to -= out->stride[i] * width * at[i];
            at[i] = 0;
        }
    }
}

static nbx_status count_all(nbx_op_call *c, const nbx_tensor *out, bool include_self) {
    int64_t stride[NBX_MAX_RANK], one = 1, *counts = c->scratch;
    for (int64_t k = 0; k < out->numel; k++) counts[k] = include_self;
    nbx_strides_contiguous(out->rank, out->shape, stride);
    nbx_storage memory = {.data = counts};
    nbx_tensor table = {.dtype = NBX_INT64, .rank = out->rank, .numel = out->numel, .storage = &memory, .shape = out->shape, .stride = stride};
    return write(c, &table, NULL, (char *)&one, NBX_COMBINE_ADD);
}

static nbx_status scatter(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2), *src = arg_tensor(c, 3), *out = out_get(c, 0);
    const form *f = c->op->data;
    const bool include_self = f->include_arg == 0 || arg_bool(c, f->include_arg);
    nbx_combine how;
    bool mean;
    char value[16];
    if (reduction(c, &how, &mean) != NBX_OK) return c->ctx->status;
    if (nbx_data(out) != nbx_data(self) || out->storage != self->storage) nbx_move_tensor(c->pool, out, self);
    if (index->numel == 0) return NBX_OK;
    if (!include_self) {
        nbx_combine_identity(how, (nbx_dtype)out->dtype, value);
        if (write(c, out, NULL, value, NBX_COMBINE_SET) != NBX_OK) return c->ctx->status;
    }
    if (src == NULL) nbx_scalar_element(&c->args[3], (nbx_dtype)out->dtype, value);
    if (write(c, out, src, src ? nbx_data(src) : value, how) != NBX_OK || !mean) return c->ctx->status;
    if (count_all(c, out, include_self) != NBX_OK) return c->ctx->status;
    divide_all(out, c->scratch);
    return NBX_OK;
}

static const form set = {0, false, 0}, add = {0, true, 0}, reduce = {4, false, 0}, reduce_two = {4, false, 5};

// take_along_dim: gather with index and self broadcast against each other outside dim.
static nbx_status take_along_dim(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 1);
    const int64_t minus_one = -1;
    if (index->dtype != NBX_INT64)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "the index must be int64, not %s", nbx_dtype_name((nbx_dtype)index->dtype));
    if (arg_is_none(c, 2)) {
        const nbx_tensor *flat = nbx_reshaped(c->ctx, self, 1, &minus_one), *at = nbx_reshaped(c->ctx, index, 1, &minus_one);
        return NBX_FORWARD(c, "aten::gather", T(flat), I(0), T(at));
    }
    int d, rank = self->rank;
    if (self->rank != index->rank)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "self has %d dims, the index %d", self->rank, index->rank);
    if (nbx_call_dim(c, arg_int(c, 2), rank, &d) != NBX_OK) return c->ctx->status;
    if (rank == 0) return NBX_FORWARD(c, "aten::gather", T(self), I(0), T(index));
    int64_t a[NBX_MAX_RANK], b[NBX_MAX_RANK], shape[NBX_MAX_RANK];
    memcpy(a, self->shape, sizeof(int64_t) * (size_t)rank);
    memcpy(b, index->shape, sizeof(int64_t) * (size_t)rank);
    a[d] = b[d] = 1;
    memcpy(shape, a, sizeof shape);
    if (nbx_broadcast(c, &rank, shape, rank, b) != NBX_OK) return c->ctx->status;
    shape[d] = self->shape[d];
    const nbx_tensor *wide = NBX_DO(c->ctx, "aten::expand", T(self), nbx_of_ints(shape, rank));
    shape[d] = index->shape[d];
    const nbx_tensor *at = NBX_DO(c->ctx, "aten::expand", T(index), nbx_of_ints(shape, rank));
    const nbx_tensor *negative = NBX_DO(c->ctx, "aten::lt.Scalar", T(at), I(0));  // counts from the end here, not in gather
    const nbx_tensor *shifted = NBX_DO(c->ctx, "aten::add.Scalar", T(at), I(self->shape[d]));
    at = NBX_DO(c->ctx, "aten::where.self", T(negative), T(shifted), T(at));
    return NBX_FORWARD(c, "aten::gather", T(wide), I(d), T(at));
}

#define SCATTER(overload, kind)                                                                                        \
    {.name = "aten::" overload, .infer = scatter_infer, .cpu = NBX_CPU_KERNEL_ONE(scatter), .flags = NBX_OP_STRIDED_SAME, .data = &(kind)}
const nbx_op nbx_ops_scatter[] = {
    {.name = "aten::gather", .infer = gather_infer, .cpu = NBX_CPU_KERNEL_ONE(gather), .flags = NBX_OP_STRIDED_SAME},
    {.name = "aten::take_along_dim", .composite = take_along_dim, .flags = NBX_OP_EXACT_OUT},
    SCATTER("scatter.src", set),
    SCATTER("scatter.value", set),
    SCATTER("scatter.reduce", reduce),
    SCATTER("scatter.value_reduce", reduce),
    SCATTER("scatter_add", add),
    SCATTER("scatter_reduce.two", reduce_two),
    NBX_OPS_END,
};

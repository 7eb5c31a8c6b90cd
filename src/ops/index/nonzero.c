// Operators whose result's size is counted first: nonzero and its forms, masked_select; and masked_scatter.
// The elements are cut into blocks of 4096: one pass counts the true ones of each block, a second writes.
#include "ops/index/nonzero.h"

#include "ops/shape/element.h"
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"

enum { BLOCK = 4096 };

ELEMENT_INLINE void truth_u64(const char *p, int64_t count, uint64_t mask, uint8_t *truth) {
    for (int64_t i = 0; i < count; i++) truth[i] = (element_get_u64(p + 8 * i) & mask) != 0;
}
ELEMENT_INLINE void truth_u32(const char *p, int64_t count, uint32_t mask, uint8_t *truth) {
    for (int64_t i = 0; i < count; i++) truth[i] = (element_get_u32(p + 4 * i) & mask) != 0;
}
ELEMENT_INLINE void truth_u16(const char *p, int64_t count, uint16_t mask, uint8_t *truth) {
    for (int64_t i = 0; i < count; i++) truth[i] = (element_get_u16(p + 2 * i) & mask) != 0;
}
ELEMENT_INLINE void truth_u8(const char *p, int64_t count, uint8_t mask, uint8_t *truth) {
    for (int64_t i = 0; i < count; i++) truth[i] = (element_get_u8(p + i) & mask) != 0;
}

void nbx_truth_run(nbx_dtype dtype, const void *elements, int64_t count, uint8_t *truth) {
    const char *p = elements;
    switch (dtype) {
    case NBX_COMPLEX128:
        for (int64_t i = 0; i < count; i++)
            truth[i] = ((element_get_u64(p + 16 * i) | element_get_u64(p + 16 * i + 8)) & INT64_MAX) != 0;
        break;
    case NBX_COMPLEX64: truth_u64(p, count, 0x7fffffff7fffffff, truth); break;
    case NBX_FLOAT64: truth_u64(p, count, INT64_MAX, truth); break;
    case NBX_FLOAT32: truth_u32(p, count, INT32_MAX, truth); break;
    case NBX_FLOAT16:
    case NBX_BFLOAT16: truth_u16(p, count, INT16_MAX, truth); break;
    case NBX_FLOAT8_E4M3FN:
    case NBX_FLOAT8_E5M2: truth_u8(p, count, INT8_MAX, truth); break;
    default:
        switch (nbx_dtype_size(dtype)) {
        case 8: truth_u64(p, count, UINT64_MAX, truth); break;
        case 4: truth_u32(p, count, UINT32_MAX, truth); break;
        case 2: truth_u16(p, count, UINT16_MAX, truth); break;
        default: truth_u8(p, count, UINT8_MAX, truth); break;
        }
    }
}

const nbx_tensor *nbx_on_host(nbx_context *ctx, const nbx_tensor *t) {
    const nbx_tensor *here = t != NULL && nbx_device_of(t).type != NBX_CPU ? nbx_tensor_to_device(ctx, t, (nbx_device){NBX_CPU, 0}) : t;
    return here == NULL || here->contiguous ? here : nbx_contiguous(ctx, here);
}

const nbx_tensor *nbx_from_host(nbx_op_call *c, const nbx_tensor *t) {
    return t == NULL || c->device.type == NBX_CPU ? t : nbx_tensor_to_device(c->ctx, t, c->device);
}

// ---------------------------------------------------------------------------------------------------------------- count
typedef struct count {
    const nbx_tensor *mask;  // contiguous, on the host
    int64_t *starts;         // [blocks + 1]: how many true elements lie before each block
    const nbx_tensor *from;  // masked_select: what is picked
    char *to;
    int64_t limit;           // nonzero_static: rows beyond are left out
    int64_t row_step, column_step;  // of the places, in elements
} count;

static int64_t blocks_of(const nbx_tensor *t) { return (t->numel + BLOCK - 1) / BLOCK; }

static int64_t block_truth(const count *k, int64_t block, uint8_t *truth) {
    const nbx_tensor *m = k->mask;
    const int64_t begin = block * BLOCK, size = m->numel - begin < BLOCK ? m->numel - begin : BLOCK;
    nbx_truth_run((nbx_dtype)m->dtype, (const char *)nbx_data(m) + begin * (int64_t)nbx_dtype_size((nbx_dtype)m->dtype), size, truth);
    return size;
}

static void count_blocks(void *arg, int64_t first, int64_t last, int thread) {
    (void)thread;
    const count *k = arg;
    uint8_t truth[BLOCK];
    for (int64_t b = first; b < last; b++) {
        const int64_t size = block_truth(k, b, truth);
        int64_t sum = 0;
        for (int64_t i = 0; i < size; i++) sum += truth[i];
        k->starts[b + 1] = sum;
    }
}

// Counts; -1: out of memory.
static int64_t count_true(nbx_op_call *c, count *k) {
    const int64_t blocks = blocks_of(k->mask);
    k->starts = nbx_scope_alloc(c->ctx, sizeof(int64_t) * (size_t)(blocks + 1));
    if (k->starts == NULL) return -1;
    k->starts[0] = 0;
    nbx_parallel_for(c->ctx->pool, blocks, 16, count_blocks, k);
    for (int64_t b = 0; b < blocks; b++) k->starts[b + 1] += k->starts[b];
    return k->starts[blocks];
}

// -------------------------------------------------------------------------------------------------------------- nonzero
// Which of a block are true, without a branch: 6.4 ns an element of a random mask with one.
static int64_t true_places(const uint8_t *truth, int64_t size, int32_t *places) {
    int64_t n = 0;
    for (int64_t i = 0; i < size; i++) {
        places[n] = (int32_t)i;
        n += truth[i];
    }
    return n;
}

static void write_places(void *arg, int64_t first, int64_t last, int thread) {
    (void)thread;
    const count *k = arg;
    const nbx_tensor *m = k->mask;
    uint8_t truth[BLOCK];
    int32_t places[BLOCK + 1];
    int64_t at[NBX_MAX_RANK];
    for (int64_t b = first; b < last && m->rank > 0; b++) {
        const int64_t size = block_truth(k, b, truth), row = k->starts[b], inner = m->rank - 1, width = m->shape[inner];
        int64_t rest = b * BLOCK, n = true_places(truth, size, places);
        if (n > k->limit - row) n = k->limit - row;
        for (int d = m->rank - 1; d >= 0; d--) {
            at[d] = rest % m->shape[d];
            rest /= m->shape[d];
        }
        int64_t line = -at[inner];  // where in the block the line of the last dim begins
        char *to = k->to + 8 * row * k->row_step;
        for (int64_t i = 0; i < n; i++, to += 8 * k->row_step) {
            while (places[i] - line >= width) {
                line += width;
                for (int64_t d = inner - 1; d >= 0; d--) {
                    if (++at[d] < m->shape[d]) break;
                    at[d] = 0;
                }
            }
            for (int64_t d = 0; d < inner; d++) element_put_i64(to + 8 * d * k->column_step, at[d]);
            element_put_i64(to + 8 * inner * k->column_step, places[i] - line);
        }
    }
}

// [found, rank], stored by columns as ATen does: each dim's coordinates lie together.
static const nbx_tensor *places_of(nbx_op_call *c, const nbx_tensor *self) {
    count k = {.mask = nbx_on_host(c->ctx, self), .limit = INT64_MAX, .row_step = 1};
    if (k.mask == NULL) return NULL;
    const int64_t found = count_true(c, &k), shape[2] = {self->rank, found};
    if (found < 0) return NULL;
    k.column_step = found;
    const nbx_tensor *out = nbx_new(c->ctx, (nbx_device){NBX_CPU, 0}, NBX_INT64, 2, shape);
    if (out == NULL) return NULL;
    k.to = nbx_data(out);
    if (out->numel > 0) nbx_parallel_for(c->ctx->pool, blocks_of(k.mask), 16, write_places, &k);
    return nbx_from_host(c, nbx_transposed(c->ctx, out, 0, 1));
}

static nbx_status nonzero(nbx_op_call *c) { return nbx_give(c, 0, places_of(c, arg_tensor(c, 0))); }

// nonzero_numpy, where(condition): one vector for each dim; a 0-dim tensor counts as a vector.
static nbx_status nonzero_columns(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    if (self->rank == 0) self = nbx_unsqueezed(c->ctx, self, 0);
    const nbx_tensor *places = self ? places_of(c, self) : NULL;
    return places == NULL ? c->ctx->status : NBX_FORWARD(c, "aten::unbind.int", T(places), I(1));
}

// nonzero_static(self, size, fill_value): always size rows.
static nbx_status nonzero_static_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0);
    const int64_t shape[2] = {arg_int(c, 1), self->rank};
    if (shape[0] < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "size %lld is negative", (long long)shape[0]);
    c->scratch_bytes = sizeof(int64_t) * (size_t)(blocks_of(self) + 1) + (self->contiguous ? 0 : nbx_tensor_nbytes(self) + 64);
    return out_new(c, 0, NBX_INT64, 2, shape, NULL) ? NBX_OK : c->ctx->status;
}

// Dense elements of t: its own, or a copy in scratch behind the block starts.
static nbx_tensor dense_mask(nbx_op_call *c, const nbx_tensor *t, nbx_storage *memory, int64_t *stride) {
    nbx_tensor dense = *t;
    if (t->contiguous) return dense;
    nbx_strides_contiguous(t->rank, t->shape, stride);
    memory->data = (char *)c->scratch + (sizeof(int64_t) * (size_t)(blocks_of(t) + 1) + 63) / 64 * 64;
    dense.storage = memory, dense.offset = 0, dense.stride = stride;
    nbx_move_tensor(c->pool, &dense, t);
    return dense;
}

static int64_t count_in_scratch(nbx_op_call *c, count *k) {
    const int64_t blocks = blocks_of(k->mask);
    k->starts = c->scratch;
    k->starts[0] = 0;
    nbx_parallel_for(c->pool, blocks, 16, count_blocks, k);
    for (int64_t b = 0; b < blocks; b++) k->starts[b + 1] += k->starts[b];
    return k->starts[blocks];
}

static nbx_status nonzero_static(nbx_op_call *c) {
    const nbx_tensor *out = out_get(c, 0);
    nbx_storage memory = {0};
    int64_t stride[NBX_MAX_RANK], *to = nbx_data(out);
    const nbx_tensor mask = dense_mask(c, arg_tensor(c, 0), &memory, stride);
    count k = {.mask = &mask, .to = (char *)to, .limit = out->shape[0], .row_step = out->shape[1], .column_step = 1};
    const int64_t found = count_in_scratch(c, &k);
    if (out->numel == 0) return NBX_OK;
    nbx_parallel_for(c->pool, blocks_of(&mask), 16, write_places, &k);
    for (int64_t i = found * out->shape[1]; i < out->numel; i++) to[i] = arg_int(c, 2);
    return NBX_OK;
}

// -------------------------------------------------------------------------------------------------------- masked_select
ELEMENT_INLINE void pick(size_t width, const int32_t *places, int64_t found, const char *from, char *to) {
    for (int64_t i = 0; i < found; i++) memcpy(to + i * (int64_t)width, from + places[i] * (int64_t)width, width);
}

static void pick_blocks(void *arg, int64_t first, int64_t last, int thread) {
    (void)thread;
    const count *k = arg;
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)k->from->dtype);
    uint8_t truth[BLOCK];
    int32_t places[BLOCK + 1];
    for (int64_t b = first; b < last; b++) {
        const int64_t n = true_places(truth, block_truth(k, b, truth), places);
        const char *from = (const char *)nbx_data(k->from) + b * BLOCK * width;
        char *to = k->to + k->starts[b] * width;
        switch (width) {
        case 1: pick(1, places, n, from, to); break;
        case 2: pick(2, places, n, from, to); break;
        case 4: pick(4, places, n, from, to); break;
        case 8: pick(8, places, n, from, to); break;
        default: pick(16, places, n, from, to); break;
        }
    }
}

static nbx_status masked_select(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1);
    int rank = 0;
    int64_t shape[NBX_MAX_RANK];
    if (mask->dtype != NBX_BOOL)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "the mask must be bool, not %s", nbx_dtype_name((nbx_dtype)mask->dtype));
    if (nbx_broadcast(c, &rank, shape, self->rank, self->shape) != NBX_OK || nbx_broadcast(c, &rank, shape, mask->rank, mask->shape) != NBX_OK)
        return c->ctx->status;
    count k = {.mask = nbx_on_host(c->ctx, NBX_DO(c->ctx, "aten::expand", T(mask), nbx_of_ints(shape, rank)))};
    k.from = nbx_on_host(c->ctx, NBX_DO(c->ctx, "aten::expand", T(self), nbx_of_ints(shape, rank)));
    if (k.mask == NULL || k.from == NULL) return c->ctx->status;
    const int64_t found = count_true(c, &k);
    const nbx_tensor *out = found < 0 ? NULL : nbx_new(c->ctx, (nbx_device){NBX_CPU, 0}, (nbx_dtype)self->dtype, 1, &found);
    if (out == NULL) return c->ctx->status;
    k.to = nbx_data(out);
    if (found > 0) nbx_parallel_for(c->ctx->pool, blocks_of(k.mask), 16, pick_blocks, &k);
    return nbx_give(c, 0, nbx_from_host(c, out));
}

// ------------------------------------------------------------------------------------------------------- masked_scatter
// masked_scatter(self, mask, source): the true places of the mask receive the elements of source, in row-major order.
static nbx_status masked_scatter_infer(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1), *source = arg_tensor(c, 2);
    int rank = 0;
    int64_t shape[NBX_MAX_RANK];
    if (mask->dtype != NBX_BOOL)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "the mask must be bool, not %s", nbx_dtype_name((nbx_dtype)mask->dtype));
    if (self->dtype != source->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "self is %s, source is %s", nbx_dtype_name((nbx_dtype)self->dtype), nbx_dtype_name((nbx_dtype)source->dtype));
    if (nbx_broadcast(c, &rank, shape, self->rank, self->shape) != NBX_OK || nbx_broadcast(c, &rank, shape, mask->rank, mask->shape) != NBX_OK)
        return c->ctx->status;
    if (c->device.type != NBX_CPU) c->scratch_bytes = sizeof(int64_t) * (size_t)(nbx_shape_numel(rank, shape) / BLOCK + 2);
    return out_new(c, 0, (nbx_dtype)self->dtype, rank, shape, NULL) ? NBX_OK : c->ctx->status;
}

static void broadcast_strides(const nbx_tensor *t, const nbx_tensor *to, int64_t *bytes) {
    for (int d = 0; d < to->rank; d++) bytes[d] = nbx_broadcast_stride(t, to->rank, d) * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
}

// The same where mask, source and result are dense: block by block. false: the source is too short.
static bool scatter_dense(const nbx_tensor *mask, const nbx_tensor *source, const nbx_tensor *out) {
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)out->dtype);
    const count k = {.mask = mask};
    const char *from = nbx_data(source);
    uint8_t truth[BLOCK];
    int32_t places[BLOCK + 1];
    for (int64_t b = 0, used = 0; b < blocks_of(mask); b++) {
        const int64_t n = true_places(truth, block_truth(&k, b, truth), places);
        char *to = (char *)nbx_data(out) + b * BLOCK * width;
        if (n > source->numel - used) return false;
        for (int64_t i = 0; i < n; i++, from += width) memcpy(to + places[i] * width, from, (size_t)width);
        used += n;
    }
    return true;
}

static nbx_status masked_scatter(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *mask = arg_tensor(c, 1), *source = arg_tensor(c, 2), *out = out_get(c, 0);
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)out->dtype);
    int64_t self_step[NBX_MAX_RANK], mask_step[NBX_MAX_RANK], out_step[NBX_MAX_RANK], at[NBX_MAX_RANK] = {0}, source_at[NBX_MAX_RANK] = {0};
    if (out->numel == 0) return NBX_OK;
    broadcast_strides(self, out, self_step);
    broadcast_strides(mask, out, mask_step);
    broadcast_strides(out, out, out_step);
    if (nbx_data(out) != nbx_data(self) || out->storage != self->storage) {
        nbx_move m = {.to = nbx_data(out), .from = nbx_data(self), .width = (int)width, .rank = out->rank};
        memcpy(m.shape, out->shape, sizeof(int64_t) * (size_t)out->rank);
        memcpy(m.to_stride, out_step, sizeof(int64_t) * (size_t)out->rank);
        memcpy(m.from_stride, self_step, sizeof(int64_t) * (size_t)out->rank);
        nbx_move_run(c->pool, &m);
    }
    if (mask->contiguous && source->contiguous && out->contiguous && mask->numel == out->numel) {
        if (scatter_dense(mask, source, out)) return NBX_OK;
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "source has %lld elements, fewer than the mask has true ones", (long long)source->numel);
    }
    const char *truth = nbx_data(mask), *from = nbx_data(source);
    char *to = nbx_data(out);
    int64_t used = 0;
    for (int64_t i = 0; i < out->numel; i++) {
        if (*truth) {
            if (used++ == source->numel)
                return nbx_call_fail(c, NBX_ERROR_SHAPE, "source has %lld elements, fewer than the mask has true ones", (long long)source->numel);
            memcpy(to, from, (size_t)width);
            for (int d = source->rank - 1; d >= 0; d--) {
                from += source->stride[d] * width;
                if (++source_at[d] < source->shape[d]) break;
                from -= source->stride[d] * width * source_at[d];
                source_at[d] = 0;
            }
        }
        for (int d = out->rank - 1; d >= 0; d--) {
            to += out_step[d], truth += mask_step[d];
            if (++at[d] < out->shape[d]) break;
            to -= out_step[d] * at[d], truth -= mask_step[d] * at[d];
            at[d] = 0;
        }
    }
    return NBX_OK;
}

const nbx_op nbx_ops_nonzero[] = {
    {.name = "aten::nonzero", .composite = nonzero, .flags = NBX_OP_READS_DATA | NBX_OP_EXACT_OUT},
    {.name = "aten::argwhere", .composite = nonzero, .flags = NBX_OP_READS_DATA | NBX_OP_EXACT_OUT},
    {.name = "aten::nonzero_numpy", .composite = nonzero_columns, .flags = NBX_OP_READS_DATA | NBX_OP_EXACT_OUT},
    {.name = "aten::where", .composite = nonzero_columns, .flags = NBX_OP_READS_DATA | NBX_OP_EXACT_OUT},
    {.name = "aten::nonzero_static", .infer = nonzero_static_infer, .cpu = NBX_CPU_KERNEL_ONE(nonzero_static), .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::masked_select", .composite = masked_select, .flags = NBX_OP_READS_DATA | NBX_OP_EXACT_OUT},
    {.name = "aten::masked_scatter", .infer = masked_scatter_infer, .cpu = NBX_CPU_KERNEL_ONE(masked_scatter), .flags = NBX_OP_STRIDED_SAME},
    NBX_OPS_END,
};

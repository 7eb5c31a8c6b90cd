// sort and argsort: radix sort, least significant byte first, stable. An entry of a row is its key above its index:
// 8 bytes when both fit 32 bits (the key less the row's least one), else 16. Bytes in which all keys agree are passed over.
//
// Several rows: a thread sorts a row by itself. One long row: all threads share each pass; every thread counts and moves its
// own part of the entries.
#include "ops/shape/element.h"
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"
#include "ops/sort/keys.h"

enum { BLOCK = 512, SMALL = 48, LONG = 1 << 16, MAX_PARTS = 64 };

typedef struct sort_job {
    nbx_dtype dtype;
    bool falling;
    int width;
    nbx_row_walk in, values, indices;
    const char *from;
    char *values_to, *indices_to;  // either may be NULL: not wanted
    bool wide;                     // entries of 16 bytes
    int key_bytes;                 // of an entry
    uint64_t least;                // what keys are counted from
    char *scratch;
    int64_t scratch_step;          // of a thread
    // of one long row
    nbx_pool *pool;
    int parts;
    char *entries, *other;
    int64_t row, byte;
    uint64_t (*counts)[256];       // [parts]
} sort_job;

#define INLINE static inline __attribute__((always_inline))

// -------------------------------------------------------------------------------------------------------------- entries
static void make_entries(const sort_job *j, const char *row, int64_t begin, int64_t end, char *entries) {
    uint64_t keys[BLOCK];
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t count = end - at < BLOCK ? end - at : BLOCK;
        nbx_keys_run(j->dtype, j->falling, row + at * j->in.step, j->in.step, count, keys);
        if (j->wide)
            for (int64_t i = 0; i < count; i++) ((nbx_place *)(void *)entries)[at + i] = nbx_place_of(keys[i], at + i);
        else
            for (int64_t i = 0; i < count; i++) ((uint64_t *)(void *)entries)[at + i] = (keys[i] - j->least) << 32 | (uint64_t)(at + i);
    }
}

// Keys of 64 bits that lie close together make short entries.
static void narrow(sort_job *j, const char *row) {
    uint64_t keys[BLOCK], least = UINT64_MAX, most = 0;
    if (!j->wide || j->in.length > UINT32_MAX) return;
    for (int64_t at = 0; at < j->in.length && (at == 0 || most - least <= UINT32_MAX); at += BLOCK) {
        const int64_t count = j->in.length - at < BLOCK ? j->in.length - at : BLOCK;
        nbx_keys_run(j->dtype, j->falling, row + at * j->in.step, j->in.step, count, keys);
        for (int64_t i = 0; i < count; i++) {
            least = keys[i] < least ? keys[i] : least;
            most = keys[i] > most ? keys[i] : most;
        }
    }
    if (most - least > UINT32_MAX) return;
    j->wide = false, j->least = least;
    for (j->key_bytes = 1; j->key_bytes < 4 && (most - least) >> (8 * j->key_bytes);) j->key_bytes++;
}

static void write_result(const sort_job *j, int64_t row, const char *in, const char *entries, int64_t begin, int64_t end) {
    char *values = j->values_to ? j->values_to + nbx_row_offset(&j->values, row) : NULL;
    char *indices = j->indices_to ? j->indices_to + nbx_row_offset(&j->indices, row) : NULL;
    for (int64_t i = begin; i < end; i++) {
        uint64_t key;
        int64_t index;
        if (j->wide) {
            const nbx_place p = ((const nbx_place *)(const void *)entries)[i];
            key = (uint64_t)(p >> 64), index = nbx_place_index(p);
        } else {
            const uint64_t e = ((const uint64_t *)(const void *)entries)[i];
            key = (e >> 32) + j->least, index = (int64_t)(e & 0xffffffff);
        }
        if (indices) element_put_i64(indices + i * j->indices.step, index);
        if (values && !nbx_key_element(j->dtype, j->falling, key, values + i * j->values.step))
            memcpy(values + i * j->values.step, in + index * j->in.step, (size_t)j->width);
    }
}

// --------------------------------------------------------------------------------------------------------------- a row
INLINE void insertion(char *entries, int64_t count, bool wide) {
    for (int64_t i = 1; i < count; i++) {
        if (wide) {
            nbx_place *e = (nbx_place *)(void *)entries, moving = e[i];
            int64_t at = i;
            for (; at > 0 && e[at - 1] > moving; at--) e[at] = e[at - 1];
            e[at] = moving;
        } else {
            uint64_t *e = (uint64_t *)(void *)entries, moving = e[i];
            int64_t at = i;
            for (; at > 0 && e[at - 1] > moving; at--) e[at] = e[at - 1];
            e[at] = moving;
        }
    }
}

INLINE void move_entries(size_t size, const char *from, char *to, int64_t begin, int64_t end, int64_t byte, uint64_t *positions) {
    for (int64_t i = begin; i < end; i++) {
        const char *e = from + i * (int64_t)size;
        memcpy(to + positions[(uint8_t)e[byte]]++ * size, e, size);
    }
}

// Sorts entries, with room for as many at other; returns where the result lies.
INLINE char *radix_row(size_t size, char *entries, char *other, int64_t count, int key_bytes) {
    uint64_t counts[8][256];
    const int first = (int)size / 2;  // the key's lowest byte
    memset(counts, 0, sizeof counts[0] * (size_t)key_bytes);
    for (int64_t i = 0; i < count; i++)
        for (int b = 0; b < key_bytes; b++) counts[b][(uint8_t)entries[i * (int64_t)size + first + b]]++;
    for (int b = 0; b < key_bytes; b++) {
        if (counts[b][(uint8_t)entries[first + b]] == (uint64_t)count) continue;
        uint64_t sum = 0;
        for (int d = 0; d < 256; d++) {
            const uint64_t here = counts[b][d];
            counts[b][d] = sum;
            sum += here;
        }
        move_entries(size, entries, other, 0, count, first + b, counts[b]);
        char *t = entries;
        entries = other;
        other = t;
    }
    return entries;
}

static void sort_rows(void *arg, int64_t begin, int64_t end, int thread) {
    const sort_job *job = arg;
    const int64_t count = job->in.length;
    for (int64_t row = begin; row < end; row++) {
        const char *in = job->from + nbx_row_offset(&job->in, row);
        sort_job j = *job;
        if (count > SMALL) narrow(&j, in);
        char *entries = j.scratch + thread * j.scratch_step, *other = entries + count * (j.wide ? 16 : 8), *sorted = entries;
        make_entries(&j, in, 0, count, entries);
        if (count <= SMALL) j.wide ? insertion(entries, count, true) : insertion(entries, count, false);
        else if (j.wide) sorted = radix_row(16, entries, other, count, j.key_bytes);
        else sorted = radix_row(8, entries, other, count, j.key_bytes);
        write_result(&j, row, in, sorted, 0, count);
    }
}

// ---------------------------------------------------------------------------------------------------------- a long row
static void part_range(const sort_job *j, int64_t part, int64_t *begin, int64_t *end) {
    *begin = j->in.length / j->parts * part;
    *end = part + 1 == j->parts ? j->in.length : *begin + j->in.length / j->parts;
}

static void make_parts(void *arg, int64_t first, int64_t last, int thread) {
    (void)thread;
    const sort_job *j = arg;
    for (int64_t p = first; p < last; p++) {
        int64_t begin, end;
        part_range(j, p, &begin, &end);
        make_entries(j, j->from + nbx_row_offset(&j->in, j->row), begin, end, j->entries);
    }
}

static void count_parts(void *arg, int64_t first, int64_t last, int thread) {
    (void)thread;
    const sort_job *j = arg;
    const int64_t size = j->wide ? 16 : 8;
    for (int64_t p = first; p < last; p++) {
        int64_t begin, end;
        uint64_t counts[256] = {0};
        part_range(j, p, &begin, &end);
        const char *at = j->entries + j->byte;
        for (int64_t i = begin; i < end; i++) counts[(uint8_t)at[i * size]]++;
        memcpy(j->counts[p], counts, sizeof counts);
    }
}

static void move_parts(void *arg, int64_t first, int64_t last, int thread) {
    (void)thread;
    const sort_job *j = arg;
    for (int64_t p = first; p < last; p++) {
        int64_t begin, end;
        part_range(j, p, &begin, &end);
        if (j->wide) move_entries(16, j->entries, j->other, begin, end, j->byte, j->counts[p]);
        else move_entries(8, j->entries, j->other, begin, end, j->byte, j->counts[p]);
    }
}

static void write_parts(void *arg, int64_t first, int64_t last, int thread) {
    (void)thread;
    const sort_job *j = arg;
    for (int64_t p = first; p < last; p++) {
        int64_t begin, end;
        part_range(j, p, &begin, &end);
        write_result(j, j->row, j->from + nbx_row_offset(&j->in, j->row), j->entries, begin, end);
    }
}

// Where each part's entries of each digit go. False: all have one digit.
static bool place_parts(sort_job *j) {
    uint64_t sum = 0;
    for (int d = 0; d < 256; d++) {
        uint64_t here = 0;
        for (int p = 0; p < j->parts; p++) {
            const uint64_t count = j->counts[p][d];
            j->counts[p][d] = sum + here;
            here += count;
        }
        if (here == (uint64_t)j->in.length) return false;
        sum += here;
    }
    return true;
}

static void sort_long_row(const sort_job *job, int64_t row) {
    sort_job own = *job, *const j = &own;
    j->row = row;
    narrow(j, j->from + nbx_row_offset(&j->in, row));
    const int64_t size = j->wide ? 16 : 8, first = size / 2;
    j->entries = j->scratch;
    j->other = j->scratch + j->in.length * size;
    j->counts = (uint64_t(*)[256])(void *)(j->scratch + 2 * j->in.length * size);
    nbx_parallel_for(j->pool, j->parts, 1, make_parts, j);
    for (int b = 0; b < j->key_bytes; b++) {
        j->byte = first + b;
        nbx_parallel_for(j->pool, j->parts, 1, count_parts, j);
        if (!place_parts(j)) continue;
        nbx_parallel_for(j->pool, j->parts, 1, move_parts, j);
        char *t = j->entries;
        j->entries = j->other;
        j->other = t;
    }
    nbx_parallel_for(j->pool, j->parts, 1, write_parts, j);
}

// ------------------------------------------------------------------------------------------------------------ the operator
static int threads_for(const nbx_op_call *c, int64_t rows, int64_t length) {
    const int threads = nbx_pool_threads(c->ctx->pool);
    if (rows < threads && length >= LONG) return 1;
    return rows < threads ? (int)(rows > 0 ? rows : 1) : threads;
}

static bool is_wide(nbx_dtype dtype, int64_t length) { return nbx_dtype_size(dtype) > 4 || length > UINT32_MAX; }

static size_t scratch_for(const nbx_op_call *c, const nbx_tensor *self, int d) {
    const int64_t length = self->rank == 0 ? 1 : self->shape[d], rows = length > 0 ? self->numel / length : 0;
    if (c->device.type != NBX_CPU) return nbx_device_sort_bytes(rows, length);
    const size_t size = is_wide((nbx_dtype)self->dtype, length) ? 16 : 8;
    return (size_t)threads_for(c, rows, length) * 2 * size * (size_t)length + sizeof(uint64_t) * 256 * MAX_PARTS;
}

// Arguments of the two overloads: sort(self, dim, descending), sort.stable(self, *, stable, dim, descending).
typedef struct sort_args { int dim, falling; } sort_args;
static const sort_args plain_args = {1, 2}, stable_args = {2, 3};

static nbx_status sort_infer(nbx_op_call *c) {
    const sort_args *a = c->op->data;
    const nbx_tensor *self = arg_tensor(c, 0);
    int d;
    if (!nbx_keys_exist((nbx_dtype)self->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s has no order", nbx_dtype_name((nbx_dtype)self->dtype));
    if (nbx_call_dim(c, arg_int(c, a->dim), self->rank, &d) != NBX_OK) return c->ctx->status;
    c->args[a->dim] = I(d);
    c->scratch_bytes = scratch_for(c, self, d);
    return out_like(c, 0, (nbx_dtype)self->dtype, self) && out_like(c, 1, NBX_INT64, self) ? NBX_OK : c->ctx->status;
}

static nbx_status sort(nbx_op_call *c) {
    const sort_args *a = c->op->data;
    const nbx_tensor *self = arg_tensor(c, 0), *values = out_get(c, 0), *indices = out_get(c, 1);
    const int d = (int)arg_int(c, a->dim);
    if (self->numel == 0) return NBX_OK;
    sort_job j = {.dtype = (nbx_dtype)self->dtype, .falling = arg_bool(c, a->falling), .from = nbx_data(self), .values_to = nbx_data(values),
                  .indices_to = nbx_data(indices), .scratch = c->scratch, .pool = c->pool};
    j.key_bytes = j.width = (int)nbx_dtype_size(j.dtype);
    nbx_row_walk_of(self, d, &j.in);
    nbx_row_walk_of(values, d, &j.values);
    nbx_row_walk_of(indices, d, &j.indices);
    const int64_t length = j.in.length;
    j.wide = is_wide(j.dtype, length);
    j.scratch_step = 2 * (j.wide ? 16 : 8) * length;
    const int threads = nbx_pool_threads(c->pool);
    if (j.in.count < threads && length >= LONG) {
        j.parts = threads < MAX_PARTS ? threads : MAX_PARTS;
        for (int64_t row = 0; row < j.in.count; row++) sort_long_row(&j, row);
        return NBX_OK;
    }
    nbx_pool *pool = threads_for(c, j.in.count, length) > 1 ? c->pool : NULL;
    int64_t grain = 8192 / length + 1;
    const int64_t fewest = (j.in.count + nbx_pool_threads(pool) - 1) / nbx_pool_threads(pool);
    if (j.in.count < threads) grain = 1;
    else if (grain > fewest) grain = fewest;
    nbx_parallel_for(pool, j.in.count, grain, sort_rows, &j);
    return NBX_OK;
}

static nbx_status msort(nbx_op_call *c) { return nbx_give(c, 0, NBX_DO(c->ctx, "aten::sort", c->args[0], I(0), B(false))); }

static nbx_status second(nbx_op_call *c, const char *name, int count, const nbx_value *args) {
    nbx_value results[2];
    if (nbx_do_many(c->ctx, name, count, args, results, 2) != NBX_OK) return c->ctx->status;
    return out_tensor(c, 0, results[1].as.tensor);
}

static nbx_status argsort(nbx_op_call *c) { return second(c, "aten::sort", 3, c->args); }
static nbx_status argsort_stable(nbx_op_call *c) { return second(c, "aten::sort.stable", 4, c->args); }

const nbx_op nbx_ops_sort[] = {
    {.name = "aten::sort", .infer = sort_infer, .cpu = NBX_CPU_KERNEL_ONE(sort), .flags = NBX_OP_STRIDED_SAME, .data = &plain_args},
    {.name = "aten::sort.stable", .infer = sort_infer, .cpu = NBX_CPU_KERNEL_ONE(sort), .flags = NBX_OP_STRIDED_SAME, .data = &stable_args},
    {.name = "aten::msort", .composite = msort, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::argsort", .composite = argsort},
    {.name = "aten::argsort.stable", .composite = argsort_stable, .flags = NBX_OP_EXACT_OUT},
    NBX_OPS_END,
};

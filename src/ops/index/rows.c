// The row engine. Entries of the index are taken in chunks: their offsets are computed and checked first (512 fit the first
// cache), then the rows move, by memcpy where both sides are dense.
//
// Reads are spread over chunks. Writes that may meet are spread over the table instead: every thread reads the whole index and
// writes the rows of its own part, so that the order at each place is that of the index.
#include "ops/index/rows.h"

#include "cpu/cache.h"

#include <stddef.h>
#include <string.h>

#include "ops/shape/element.h"
#include "ops/shape/move.h"

enum { CHUNK = 512, LONG_CHUNK = 4096, PIECE_BYTES = 64 << 10, GRAIN_BYTES = 32 << 10, STREAM_BYTES = 256, AHEAD_BYTES = 4096 };

// ----------------------------------------------------------------------------------------------------------------- plan
static void add_dim(nbx_row_dims *dims, int64_t size, int64_t stride) {
    dims->shape[dims->rank] = size;
    dims->table[dims->rank] = stride;
    dims->rank++;
}

static nbx_status plan_index(nbx_op_call *c, nbx_rows *r) {
    r->index_rank = 0;
    for (int i = 0; i < r->count; i++) {
        const nbx_tensor *t = r->index[i];
        if (t->dtype != NBX_INT64 && t->dtype != NBX_INT32)
            return nbx_call_fail(c, NBX_ERROR_DTYPE, "indices must be int64 or int32, not %s", nbx_dtype_name((nbx_dtype)t->dtype));
        if (nbx_broadcast(c, &r->index_rank, r->index_shape, t->rank, t->shape) != NBX_OK) return c->ctx->status;
    }
    for (int i = 0; i < r->count; i++) {
        const nbx_tensor *t = r->index[i];
        const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
        for (int d = 0; d < r->index_rank; d++) r->index_stride[i][d] = nbx_broadcast_stride(t, r->index_rank, d) * width;
    }
    return NBX_OK;
}

static void append(int *rank, int64_t *shape, int count, const int64_t *more) {
    memcpy(shape + *rank, more, sizeof(int64_t) * (size_t)count);
    *rank += count;
}

nbx_status nbx_rows_plan(nbx_op_call *c, nbx_rows *r, const nbx_tensor *self, int count, const nbx_tensor *const *indices, int *rank,
                         int64_t *shape) {
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)self->dtype);
    if (count > self->rank)
        return nbx_call_fail(c, NBX_ERROR_INDEX, "%d indices are too many for a tensor of rank %d", count, self->rank);
    int first = -1, last = -1;
    memset(r, 0, offsetof(nbx_rows, index));
    r->before.rank = r->after.rank = 0;
    for (int d = 0; d < count; d++) {
        if (nbx_is_none(indices[d])) continue;
        if (r->count == NBX_ROWS_INDICES)
            return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims are indexed by tensors", NBX_ROWS_INDICES);
        r->index[r->count] = indices[d];
        r->dim[r->count] = d;
        r->size[r->count] = self->shape[d];
        r->stride[r->count++] = self->stride[d] * width;
        first = first < 0 ? d : first, last = d;
    }
    r->width = (int)width;
    r->dtype = (nbx_dtype)self->dtype;
    r->wrap = true;
    if (plan_index(c, r) != NBX_OK) return c->ctx->status;
    const bool adjacent = last - first + 1 == r->count;
    for (int d = 0; d < self->rank; d++) {
        if (d < count && !nbx_is_none(indices[d])) continue;
        add_dim(adjacent && d < first ? &r->before : &r->after, self->shape[d], self->stride[d] * width);
    }
    if (r->before.rank + r->index_rank + r->after.rank > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d dims", NBX_MAX_RANK);
    *rank = 0;
    append(rank, shape, r->before.rank, r->before.shape);
    append(rank, shape, r->index_rank, r->index_shape);
    append(rank, shape, r->after.rank, r->after.shape);
    return NBX_OK;
}

nbx_status nbx_rows_plan_dim(nbx_op_call *c, nbx_rows *r, const nbx_tensor *self, int dim, const nbx_tensor *index, int *rank, int64_t *shape) {
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)self->dtype);
    memset(r, 0, offsetof(nbx_rows, index));
    r->before.rank = r->after.rank = 0;
    r->width = (int)width;
    r->dtype = (nbx_dtype)self->dtype;
    r->count = 1;
    r->index[0] = index;
    r->dim[0] = dim;
    r->size[0] = self->rank == 0 ? 1 : self->shape[dim];
    r->stride[0] = self->rank == 0 ? 0 : self->stride[dim] * width;
    if (plan_index(c, r) != NBX_OK) return c->ctx->status;
    if (r->index_rank == 0) {  // a 0-dim index counts as one of size 1
        r->index_rank = 1;
        r->index_shape[0] = 1;
        r->index_stride[0][0] = 0;
    }
    for (int d = 0; d < self->rank; d++)
        if (d != dim) add_dim(d < dim ? &r->before : &r->after, self->shape[d], self->stride[d] * width);
    *rank = 0;
    append(rank, shape, r->before.rank, r->before.shape);
    append(rank, shape, r->index_rank, r->index_shape);
    append(rank, shape, r->after.rank, r->after.shape);
    return NBX_OK;
}

void nbx_rows_strides(nbx_rows *r, const int64_t *bytes) {
    memcpy(r->before.rows, bytes, sizeof(int64_t) * (size_t)r->before.rank);
    memcpy(r->index_rows, bytes + r->before.rank, sizeof(int64_t) * (size_t)r->index_rank);
    memcpy(r->after.rows, bytes + r->before.rank + r->index_rank, sizeof(int64_t) * (size_t)r->after.rank);
}

// Drops dims of size 1 and merges neighbours that lie one after another on both sides.
static void merge_dims(nbx_row_dims *m) {
    int rank = 0;
    for (int d = 0; d < m->rank; d++) {
        if (m->shape[d] == 1) continue;
        if (rank > 0 && m->table[rank - 1] == m->table[d] * m->shape[d] && m->rows[rank - 1] == m->rows[d] * m->shape[d]) {
            m->shape[rank - 1] *= m->shape[d];
            m->table[rank - 1] = m->table[d], m->rows[rank - 1] = m->rows[d];
        } else {
            m->shape[rank] = m->shape[d], m->table[rank] = m->table[d], m->rows[rank] = m->rows[d];
            rank++;
        }
    }
    m->rank = rank;
}

static void merge_index(nbx_rows *r) {
    int rank = 0;
    for (int d = 0; d < r->index_rank; d++) {
        if (r->index_shape[d] == 1) continue;
        bool merges = rank > 0 && r->index_rows[rank - 1] == r->index_rows[d] * r->index_shape[d];
        for (int i = 0; merges && i < r->count; i++) merges = r->index_stride[i][rank - 1] == r->index_stride[i][d] * r->index_shape[d];
        const int at = merges ? rank - 1 : rank++;
        r->index_shape[at] = merges ? r->index_shape[at] * r->index_shape[d] : r->index_shape[d];
        r->index_rows[at] = r->index_rows[d];
        for (int i = 0; i < r->count; i++) r->index_stride[i][at] = r->index_stride[i][d];
    }
    r->index_rank = rank;
}

static int64_t product(int rank, const int64_t *shape) {
    int64_t n = 1;
    for (int d = 0; d < rank; d++) n *= shape[d];
    return n;
}

// ------------------------------------------------------------------------------------------------------------------ run
typedef struct job {
    const nbx_rows *r;
    nbx_combine_fn combine;      // NULL: the bytes are set
    int64_t entries, befores;    // of the index; of the dims before
    int64_t chunk, chunks;       // entries of one of a read; how many
    int64_t parts, span;         // of a write: the table offset span is cut into parts
    int64_t pieces, step;        // of a row: its first dim is cut into pieces of step
    bool stream;                 // a read of rows that are larger than the caches
    bool failed;
    int64_t bad_value;
    int bad_index;
} job;

typedef struct chunk {
    int64_t table[LONG_CHUNK], rows[LONG_CHUNK];  // byte offsets of each entry
    int64_t count;
} chunk;

static void report(job *j, int which, int64_t value) {
    if (__atomic_exchange_n(&j->failed, true, __ATOMIC_RELAXED)) return;
    j->bad_index = which;
    j->bad_value = value;
}

static inline int64_t index_value(const nbx_tensor *t, const char *p) {
    return t->dtype == NBX_INT64 ? element_get_i64(p) : element_get_i32(p);
}

// Adds what index tensor i contributes to entries begin .. begin + count.
static bool add_offsets(job *j, int i, int64_t begin, chunk *k) {
    const nbx_rows *r = j->r;
    const nbx_tensor *t = r->index[i];
    const int64_t size = r->size[i], stride = r->stride[i], low = r->wrap ? -size : 0;
    const int last = r->index_rank - 1;
    const char *p = nbx_data(t);
    int64_t at[NBX_MAX_RANK], rest = begin;
    for (int d = last; d >= 0; d--) {
        at[d] = rest % r->index_shape[d];
        rest /= r->index_shape[d];
        p += at[d] * r->index_stride[i][d];
    }
    const int64_t step = last < 0 ? 0 : r->index_stride[i][last];
    for (int64_t e = 0; e < k->count; e++) {
        int64_t value = index_value(t, p);
        if (value < low || value >= size) {
            report(j, i, value);
            return false;
        }
        k->table[e] += (value < 0 ? value + size : value) * stride;
        p += step;
        if (last < 0 || ++at[last] < r->index_shape[last]) continue;
        p -= step * at[last];
        at[last] = 0;
        for (int d = last - 1; d >= 0; d--) {
            p += r->index_stride[i][d];
            if (++at[d] < r->index_shape[d]) break;
            p -= r->index_stride[i][d] * at[d];
            at[d] = 0;
        }
    }
    return true;
}

static void row_offsets(const nbx_rows *r, int64_t begin, chunk *k) {
    const int last = r->index_rank - 1;
    if (last <= 0) {
        for (int64_t e = 0; e < k->count; e++) k->rows[e] = last < 0 ? 0 : (begin + e) * r->index_rows[0];
        return;
    }
    for (int64_t e = 0; e < k->count; e++) {
        int64_t rest = begin + e, offset = 0;
        for (int d = last; d >= 0; d--) {
            offset += rest % r->index_shape[d] * r->index_rows[d];
            rest /= r->index_shape[d];
        }
        k->rows[e] = offset;
    }
}

static bool load_chunk(job *j, int64_t begin, chunk *k) {
    k->count = j->entries - begin < j->chunk ? j->entries - begin : j->chunk;
    memset(k->table, 0, sizeof(int64_t) * (size_t)k->count);
    for (int i = 0; i < j->r->count; i++)
        if (!add_offsets(j, i, begin, k)) return false;
    row_offsets(j->r, begin, k);
    return true;
}

// One row, of the dims after the index; the first of them between begin and end.
static void move_row(const job *j, char *table, char *rows, int64_t begin, int64_t end) {
    const nbx_rows *r = j->r;
    const nbx_row_dims *a = &r->after;
    const int last = a->rank - 1;
    const int64_t count = a->rank == 0 ? 1 : a->rank == 1 ? end - begin : a->shape[last];
    const int64_t table_step = last < 0 ? 0 : a->table[last], rows_step = last < 0 ? 0 : a->rows[last];
    int64_t at[NBX_MAX_RANK] = {0};
    if (a->rank > 0) table += begin * a->table[0], rows += begin * a->rows[0];
    for (at[0] = begin;;) {
        if (j->combine) j->combine(table, table_step, rows, rows_step, count);
        else if (r->write) nbx_move_run_1d(r->width, count, table, table_step, rows, rows_step);
        else nbx_move_run_1d(r->width, count, rows, rows_step, table, table_step);
        int d = last - 1;
        for (; d >= 0; d--) {
            table += a->table[d], rows += a->rows[d];
            if (++at[d] < (d == 0 ? end : a->shape[d])) break;
            const int64_t back = at[d] - (d == 0 ? begin : 0);
            table -= back * a->table[d], rows -= back * a->rows[d];
            at[d] = d == 0 ? begin : 0;
        }
        if (d < 0) return;
    }
}

#define INLINE static inline __attribute__((always_inline))
// Elements of one before: 16 at a time, while the lines that the next ones go to, and those of what the next before is read from
// (`next`, or NULL; all of them where that is fewer), are asked for.
INLINE void read_elements(size_t width, bool dense, const chunk *k, const char *table, char *rows, const char *next, int64_t next_bytes) {
    enum { TOGETHER = 16, AHEAD = 2048 };
    const int64_t w = (int64_t)width, each = (next_bytes / 64 * TOGETHER + k->count - 1) / (k->count + !k->count) + 1;
    int64_t e = 0, line = 0;
    for (; dense && e + TOGETHER <= k->count; e += TOGETHER) {
        char *to = rows + k->rows[0] + e * w;
        for (int64_t i = 0; i < TOGETHER * w; i += 64) __builtin_prefetch(to + AHEAD + i, 1);
        if (next && each <= TOGETHER)
            for (int64_t i = 0; i < each; i++, line += 64) __builtin_prefetch(next + line);
        else if (next)
            for (int64_t i = 0; i < TOGETHER; i++) __builtin_prefetch(next + k->table[e + i]);
        for (int64_t i = 0; i < TOGETHER; i++) memcpy(to + i * w, table + k->table[e + i], width);
    }
    for (; e < k->count; e++) memcpy(rows + k->rows[e], table + k->table[e], width);
}

// All rows of a chunk whose place lies in the given part.
static void move_chunk(const job *j, const chunk *k, char *table, char *rows, const char *next, int64_t part, int64_t begin, int64_t end) {
    const nbx_rows *r = j->r;
    if (!r->write && r->after.rank == 0) {
        const bool dense_rows = r->index_rank == 1 && r->index_rows[0] == r->width;
        const int64_t next_bytes = r->count == 1 && r->stride[0] > 0 ? r->size[0] * r->stride[0] : INT64_MAX / 64;
        switch (r->width) {
        case 1: read_elements(1, dense_rows, k, table, rows, next, next_bytes); break;
        case 2: read_elements(2, dense_rows, k, table, rows, next, next_bytes); break;
        case 4: read_elements(4, dense_rows, k, table, rows, next, next_bytes); break;
        case 8: read_elements(8, dense_rows, k, table, rows, next, next_bytes); break;
        default: read_elements(16, dense_rows, k, table, rows, next, next_bytes); break;
        }
        return;
    }
    const nbx_row_dims *a = &r->after;
    const bool dense = a->rank == 1 && a->table[0] == r->width && a->rows[0] == r->width && !j->combine;
    const size_t bytes = (size_t)((end - begin) * r->width);
    for (int64_t e = 0; e < k->count; e++) {
        if (j->parts > 1 && (int64_t)((__int128)k->table[e] * j->parts / j->span) != part) continue;
        char *in_table = table + k->table[e], *in_rows = rows + k->rows[e];
        if (dense && r->write) memcpy(in_table + begin * r->width, in_rows + begin * r->width, bytes);
        else if (dense && j->stream) {
            const char *next_row = table + k->table[e + 1 < k->count ? e + 1 : e] + begin * r->width;
            for (size_t i = 0; i < bytes && i < AHEAD_BYTES; i += 64) __builtin_prefetch(next_row + i);
            nbx_stream_bytes(in_rows + begin * r->width, in_table + begin * r->width, bytes);
        }
        else if (dense) memcpy(in_rows + begin * r->width, in_table + begin * r->width, bytes);
        else move_row(j, in_table, in_rows, begin, end);
    }
}

static void seek(const nbx_row_dims *m, int64_t at, char **table, char **rows) {
    for (int d = m->rank - 1; d >= 0; d--) {
        *table += at % m->shape[d] * m->table[d];
        *rows += at % m->shape[d] * m->rows[d];
        at /= m->shape[d];
    }
}

static void piece_range(const job *j, int64_t piece, int64_t *begin, int64_t *end) {
    const int64_t whole = j->r->after.rank == 0 ? 1 : j->r->after.shape[0];
    *begin = piece * j->step;
    *end = whole - *begin < j->step ? whole : *begin + j->step;
}

// A read: units are chunk, then dims before, then piece; those of one chunk share its offsets.
static void read_units(void *arg, int64_t first, int64_t last, int thread) {
    (void)thread;
    job *j = arg;
    chunk k;
    int64_t loaded = -1;
    for (int64_t u = first; u < last; u++) {
        int64_t begin, end;
        const int64_t piece = u % j->pieces, before = u / j->pieces % j->befores, at = u / j->pieces / j->befores;
        if (at != loaded && !load_chunk(j, at * j->chunk, &k)) return;
        loaded = at;
        char *table = j->r->table, *rows = j->r->rows;
        seek(&j->r->before, before, &table, &rows);
        piece_range(j, piece, &begin, &end);
        const char *next = NULL;
        if (j->r->after.rank == 0 && before + 1 < j->befores && u + 1 < last) {
            char *next_table = j->r->table, *next_rows = j->r->rows;
            seek(&j->r->before, before + 1, &next_table, &next_rows);
            next = next_table;
        }
        move_chunk(j, &k, table, rows, next, 0, begin, end);
    }
    if (j->stream) nbx_stream_end();
}

// A write: units are part of the table, dims before, piece; each reads the whole index.
static void write_units(void *arg, int64_t first, int64_t last, int thread) {
    (void)thread;
    job *j = arg;
    chunk k;
    for (int64_t at = 0; at < j->entries; at += j->chunk) {
        if (!load_chunk(j, at, &k)) return;
        for (int64_t u = first; u < last; u++) {
            int64_t begin, end;
            const int64_t piece = u % j->pieces, before = u / j->pieces % j->befores, part = u / j->pieces / j->befores;
            char *table = j->r->table, *rows = j->r->rows;
            seek(&j->r->before, before, &table, &rows);
            piece_range(j, piece, &begin, &end);
            move_chunk(j, &k, table, rows, NULL, part, begin, end);
        }
    }
}

static void check_chunks(void *arg, int64_t first, int64_t last, int thread) {
    (void)thread;
    job *j = arg;
    chunk k;
    for (int64_t at = first; at < last; at++)
        if (!load_chunk(j, at * j->chunk, &k)) return;
}

static nbx_status finish(nbx_op_call *c, const job *j) {
    if (!j->failed) return NBX_OK;
    const int64_t size = j->r->size[j->bad_index];
    return nbx_call_fail(c, NBX_ERROR_INDEX, "index %lld is out of range [%lld, %lld] of dim %d", (long long)j->bad_value,
                         (long long)(j->r->wrap ? -size : 0), (long long)size - 1, j->r->dim[j->bad_index]);
}

nbx_status nbx_rows_run(nbx_op_call *c, nbx_rows *r) {
    merge_dims(&r->before);
    merge_dims(&r->after);
    merge_index(r);
    job j = {.r = r, .entries = product(r->index_rank, r->index_shape), .befores = product(r->before.rank, r->before.shape),
             .parts = 1, .span = 1, .pieces = 1, .step = INT64_MAX};
    const int64_t row = product(r->after.rank, r->after.shape) * r->width;
    j.chunk = !r->write && r->after.rank == 0 && j.befores > 1 ? LONG_CHUNK : CHUNK;
    j.chunks = (j.entries + j.chunk - 1) / j.chunk;
    if (row == 0 || j.befores == 0) {  // nothing to move, but indices are checked; of a dim of size 0 none is right
        nbx_parallel_for(c->pool, j.chunks, 16, check_chunks, &j);
        return finish(c, &j);
    }
    if (r->write && r->how != NBX_COMBINE_SET) j.combine = nbx_combine_of(r->how, r->dtype);
    if (row >= 2 * PIECE_BYTES && r->after.rank > 0) {
        const int64_t pieces = row / PIECE_BYTES < r->after.shape[0] ? row / PIECE_BYTES : r->after.shape[0];
        j.step = (r->after.shape[0] + pieces - 1) / pieces;
        j.pieces = (r->after.shape[0] + j.step - 1) / j.step;
    }
    if (!r->write) {
        j.stream = row / j.pieces >= STREAM_BYTES && nbx_past_caches(j.entries * j.befores * row);
        const int64_t unit = row / j.pieces * (j.entries < j.chunk ? j.entries : j.chunk) + 1;
        nbx_parallel_for(c->pool, j.chunks * j.befores * j.pieces, unit >= GRAIN_BYTES ? 1 : GRAIN_BYTES / unit + 1, read_units, &j);
        return finish(c, &j);
    }
    // All indices are checked before the first write.
    nbx_parallel_for(c->pool, j.chunks, 16, check_chunks, &j);
    if (j.failed) return finish(c, &j);
    const int64_t threads = nbx_pool_threads(c->pool);
    for (int i = 0; i < r->count; i++) j.span += (r->size[i] > 0 ? r->size[i] - 1 : 0) * r->stride[i];
    if (j.entries * row > 4 * PIECE_BYTES && j.befores * j.pieces < threads && j.span > threads) j.parts = threads < 16 ? threads : 16;
    const int64_t units = j.parts * j.befores * j.pieces;
    const int64_t unit = j.entries * row / (j.pieces * j.parts) + 1;
    int64_t grain = unit >= GRAIN_BYTES ? 1 : GRAIN_BYTES / unit + 1;
    if (units > 4 * threads && grain < units / (4 * threads)) grain = units / (4 * threads);  // each range reads the index anew
    nbx_parallel_for(c->pool, units, grain, write_units, &j);
    return NBX_OK;
}

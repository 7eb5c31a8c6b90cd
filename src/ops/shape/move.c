// Strided copies by element width. Dims are sorted by the destination's strides and merged; what is left inside is a run of
// contiguous bytes (memcpy), a strided run, or two dims that trade places, copied in tiles of 16 by 16 elements.
#include "ops/shape/move.h"

#include <string.h>

#include "cpu/cache.h"

enum { GRAIN_BYTES = 64 << 10, TILE = 16, STREAM_LEAST = 16 << 10 };

#define INLINE static inline __attribute__((always_inline))

INLINE void strided(size_t width, int64_t count, char *to, int64_t to_stride, const char *from, int64_t from_stride) {
    for (int64_t i = 0; i < count; i++) memcpy(to + i * to_stride, from + i * from_stride, width);
}

// Backwards, 16 bytes at a time.
#define REVERSED(BITS, ...)                                                                                            \
    typedef uint##BITS##_t lanes_##BITS __attribute__((vector_size(16), aligned(1), may_alias));                       \
    static void reversed_##BITS(int64_t count, char *to, const char *from) {                                           \
        enum { WIDTH = BITS / 8, LANES = 16 / WIDTH };                                                                 \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= count; i += LANES) {                                                                       \
            const lanes_##BITS x = *(const lanes_##BITS *)(const void *)(from - (i + LANES - 1) * WIDTH);              \
            *(lanes_##BITS *)(void *)(to + i * WIDTH) = __builtin_shufflevector(x, x, __VA_ARGS__);                    \
        }                                                                                                              \
        strided(WIDTH, count - i, to + i * WIDTH, WIDTH, from - i * WIDTH, -WIDTH);                                    \
    }
REVERSED(8, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
REVERSED(16, 7, 6, 5, 4, 3, 2, 1, 0)
REVERSED(32, 3, 2, 1, 0)
REVERSED(64, 1, 0)

INLINE void reversed(size_t width, int64_t count, char *to, const char *from) {
    if (width == 1) reversed_8(count, to, from);
    else if (width == 2) reversed_16(count, to, from);
    else if (width == 4) reversed_32(count, to, from);
    else if (width == 8) reversed_64(count, to, from);
    else strided(width, count, to, (int64_t)width, from, -(int64_t)width);
}

// memcpy leaves runs of 4 KB and more to the processor (rep movs), which on a Zen 3 core takes ten times as long where source and target
// lie a little off each other in their pages (roll of 1024 x 1024 floats by 5: 1460 us, 148 so); pieces are moved by vectors.
static void copy_run(char *to, const char *from, size_t bytes) {
    enum { PIECE = 2048, LARGE = 1 << 16 };
    const size_t piece = bytes < LARGE ? PIECE : bytes;
    for (size_t i = 0; i < bytes; i += piece) memcpy(to + i, from + i, bytes - i < piece ? bytes - i : piece);
}

INLINE void run_of(size_t width, int64_t count, char *to, int64_t to_stride, const char *from, int64_t from_stride) {
    const int64_t w = (int64_t)width;
    if (to_stride == w && from_stride == w) copy_run(to, from, (size_t)count * width);
    else if (to_stride == w && from_stride == 0) strided(width, count, to, w, from, 0);
    else if (to_stride == w && from_stride == -w) reversed(width, count, to, from);
    else if (to_stride == w) strided(width, count, to, w, from, from_stride);
    else strided(width, count, to, to_stride, from, from_stride);
}

void nbx_move_run_1d(int width, int64_t count, char *to, int64_t to_stride, const char *from, int64_t from_stride) {
    switch (width) {
    case 1: run_of(1, count, to, to_stride, from, from_stride); break;
    case 2: run_of(2, count, to, to_stride, from, from_stride); break;
    case 4: run_of(4, count, to, to_stride, from, from_stride); break;
    case 8: run_of(8, count, to, to_stride, from, from_stride); break;
    default: run_of(16, count, to, to_stride, from, from_stride); break;
    }
}

// rows x columns; columns are dense in `to`, rows are dense in `from`.
INLINE void transpose_of(size_t width, int64_t rows, int64_t columns, char *to, int64_t to_row, const char *from, int64_t from_column) {
    const int64_t w = (int64_t)width;
    for (int64_t r0 = 0; r0 < rows; r0 += TILE)
        for (int64_t c0 = 0; c0 < columns; c0 += TILE) {
            const int64_t r1 = r0 + TILE < rows ? r0 + TILE : rows, c1 = c0 + TILE < columns ? c0 + TILE : columns;
            for (int64_t r = r0; r < r1; r++)
                for (int64_t c = c0; c < c1; c++) memcpy(to + r * to_row + c * w, from + c * from_column + r * w, width);
        }
}

static void transpose_run(int width, int64_t rows, int64_t columns, char *to, int64_t to_row, const char *from, int64_t from_column) {
    switch (width) {
    case 1: transpose_of(1, rows, columns, to, to_row, from, from_column); break;
    case 2: transpose_of(2, rows, columns, to, to_row, from, from_column); break;
    case 4: transpose_of(4, rows, columns, to, to_row, from, from_column); break;
    case 8: transpose_of(8, rows, columns, to, to_row, from, from_column); break;
    default: transpose_of(16, rows, columns, to, to_row, from, from_column); break;
    }
}

// ----------------------------------------------------------------------------------------------------------------- plan
static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

static void swap_dims(nbx_move *m, int a, int b) {
    const int64_t shape = m->shape[a], to = m->to_stride[a], from = m->from_stride[a];
    m->shape[a] = m->shape[b], m->to_stride[a] = m->to_stride[b], m->from_stride[a] = m->from_stride[b];
    m->shape[b] = shape, m->to_stride[b] = to, m->from_stride[b] = from;
}

static bool outer(const nbx_move *m, int a, int b) {  // does dim a belong outside dim b?
    const int64_t x = magnitude(m->to_stride[a]), y = magnitude(m->to_stride[b]);
    return x != y ? x > y : magnitude(m->from_stride[a]) > magnitude(m->from_stride[b]);
}

// Drops dims of size 1, sorts the rest by stride, outermost first, and merges dims that follow each other in memory.
static void simplify(nbx_move *m) {
    int rank = 0;
    for (int d = 0; d < m->rank; d++)
        if (m->shape[d] != 1) swap_dims(m, d, rank++);
    for (int i = 1; i < rank; i++)
        for (int j = i; j > 0 && outer(m, j, j - 1); j--) swap_dims(m, j, j - 1);
    int last = 0;
    for (int d = 1; d < rank; d++) {
        if (m->to_stride[last] == m->to_stride[d] * m->shape[d] && m->from_stride[last] == m->from_stride[d] * m->shape[d]) {
            m->shape[last] *= m->shape[d];
            m->to_stride[last] = m->to_stride[d];
            m->from_stride[last] = m->from_stride[d];
        } else if (++last != d) {
            swap_dims(m, last, d);
        }
    }
    m->rank = rank == 0 ? 0 : last + 1;
}

typedef struct job {
    const nbx_move *m;
    int outer_rank;            // dims walked one by one
    bool tiles;                // the last two dims are a transpose
    bool stream;               // runs of bytes, and more than the caches hold
    int64_t pieces, step;      // the split dim is cut into pieces of step elements
} job;

static void inner(const job *j, char *to, const char *from, int64_t begin, int64_t end) {
    const nbx_move *m = j->m;
    const int d = m->rank - 1;
    if (m->rank == 0) {
        memcpy(to, from, (size_t)m->width);
    } else if (j->tiles) {
        to += begin * m->to_stride[d - 1], from += begin * m->from_stride[d - 1];
        transpose_run(m->width, end - begin, m->shape[d], to, m->to_stride[d - 1], from, m->from_stride[d]);
    } else {
        to += begin * m->to_stride[d], from += begin * m->from_stride[d];
        if (j->stream) nbx_copy_past_caches(to, from, (size_t)((end - begin) * m->width));
        else nbx_move_run_1d(m->width, end - begin, to, m->to_stride[d], from, m->from_stride[d]);
    }
}

static void walk(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const job *j = arg;
    const nbx_move *m = j->m;
    int64_t index[NBX_MAX_RANK], at = begin / j->pieces;
    char *to = m->to;
    const char *from = m->from;
    for (int d = j->outer_rank - 1; d >= 0; d--) {
        index[d] = at % m->shape[d];
        at /= m->shape[d];
        to += index[d] * m->to_stride[d], from += index[d] * m->from_stride[d];
    }
    const int split = j->tiles ? m->rank - 2 : m->rank - 1;
    const int64_t whole = m->rank == 0 ? 1 : m->shape[split];
    for (int64_t i = begin; i < end; i++) {
        const int64_t piece = j->pieces == 1 ? 0 : i % j->pieces, first = piece * j->step, rest = whole - first;
        inner(j, to, from, first, first + (rest < j->step ? rest : j->step));
        if (piece + 1 < j->pieces) continue;
        for (int d = j->outer_rank - 1; d >= 0; d--) {
            to += m->to_stride[d], from += m->from_stride[d];
            if (++index[d] < m->shape[d]) break;
            to -= m->shape[d] * m->to_stride[d], from -= m->shape[d] * m->from_stride[d];
            index[d] = 0;
        }
    }
}

void nbx_move_run(nbx_pool *pool, nbx_move *m) {
    for (int d = 0; d < m->rank; d++)
        if (m->shape[d] == 0) return;
    simplify(m);
    job j = {.m = m, .pieces = 1, .step = INT64_MAX};
    const int last = m->rank - 1;
    if (m->rank >= 2 && m->to_stride[last] == m->width && m->from_stride[last] != m->width && m->shape[last] > 1)
        for (int d = 0; d < last && !j.tiles; d++)
            if (m->from_stride[d] == m->width && m->shape[d] >= 4) {
                for (int i = d; i < last - 1; i++) swap_dims(m, i, i + 1);
                j.tiles = true;
            }
    j.outer_rank = j.tiles ? m->rank - 2 : m->rank > 0 ? m->rank - 1 : 0;
    int64_t count = 1, bytes = m->width;
    for (int d = 0; d < j.outer_rank; d++) count *= m->shape[d];
    for (int d = j.outer_rank; d < m->rank; d++) bytes *= m->shape[d];
    // Short runs share lines with their neighbours, and wait for the end of each.
    const bool long_runs = m->rank > 0 && m->to_stride[last] == m->width && m->from_stride[last] == m->width && m->shape[last] * m->width >= STREAM_LEAST;
    j.stream = long_runs && nbx_past_caches(count * bytes);
    if (bytes > GRAIN_BYTES && m->rank > 0) {
        const int64_t whole = m->shape[j.outer_rank], each = bytes / whole;
        j.step = each >= GRAIN_BYTES ? 1 : (GRAIN_BYTES / each + TILE - 1) / TILE * TILE;
        j.pieces = (whole - 1) / j.step + 1;
    }
    const int64_t piece_bytes = bytes / j.pieces;
    nbx_parallel_for(pool, count * j.pieces, piece_bytes >= GRAIN_BYTES ? 1 : GRAIN_BYTES / (piece_bytes > 0 ? piece_bytes : 1) + 1, walk, &j);
}

static void strides_in_bytes(const nbx_tensor *t, int64_t *bytes) {
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    for (int d = 0; d < t->rank; d++) bytes[d] = t->stride[d] * width;
}

void nbx_move_tensor(nbx_pool *pool, const nbx_tensor *to, const nbx_tensor *from) {
    if (to->numel == 0) return;
    nbx_move m = {.to = nbx_data(to), .from = nbx_data(from), .width = (int)nbx_dtype_size((nbx_dtype)to->dtype), .rank = to->rank};
    memcpy(m.shape, to->shape, sizeof(int64_t) * (size_t)to->rank);
    strides_in_bytes(to, m.to_stride);
    strides_in_bytes(from, m.from_stride);
    nbx_move_run(pool, &m);
}

void nbx_fill_tensor(nbx_pool *pool, const nbx_tensor *t, const void *value) {
    if (t->numel == 0) return;
    nbx_move m = {.to = nbx_data(t), .from = value, .width = (int)nbx_dtype_size((nbx_dtype)t->dtype), .rank = t->rank};
    memcpy(m.shape, t->shape, sizeof(int64_t) * (size_t)t->rank);
    strides_in_bytes(t, m.to_stride);
    memset(m.from_stride, 0, sizeof(int64_t) * (size_t)t->rank);
    nbx_move_run(pool, &m);
}

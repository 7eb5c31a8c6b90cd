// Rows chosen by index tensors, gather and scatter on CUDA.
//   reads and plain writes   a thread per element, per 4 of dense lines, or per 16 bytes of a dense row
//   writes that may meet     of plain ones the last counts, which is looked for first; integers are combined by atomics (any
//                            order gives the same), floats in the order of the index: sorted by place, or by a thread that
//                            walks the whole index. So results are the same from run to run
// An index out of range writes the stream's fault slot and touches nothing.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"
#include "ops/index/rows.h"
#include "ops/sort/keys.cuh"

#include <string.h>

enum { ROW_DIMS = 8, ROW_INDICES = 8, ROW_THREADS = 256 };

typedef struct dims_of {
    int rank;
    int64_t count, shape[ROW_DIMS], table[ROW_DIMS], rows[ROW_DIMS];
} dims_of;

typedef struct rows_call {
    char *table, *rows;
    char number[16];       // one element for all rows: rows is NULL then
    int width, dtype, how;
    bool wrap, write;
    int count;
    const char *index[ROW_INDICES];
    bool narrow[ROW_INDICES];  // int32
    int64_t size[ROW_INDICES], step[ROW_INDICES], index_stride[ROW_INDICES][ROW_DIMS];
    dims_of entries, before, after;
    const uint8_t *loses;      // of each entry: a later one writes the same place; NULL: none does
    nbx_fault_slot *fault;
    int op;
} rows_call;

// --------------------------------------------------------------------------------------------------------- combining
static __device__ __forceinline__ int64_t combined(int how, bool is_unsigned, int64_t a, int64_t b) {
    switch (how) {
    case NBX_COMBINE_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case NBX_COMBINE_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case NBX_COMBINE_MAX: return (is_unsigned ? (uint64_t)a < (uint64_t)b : a < b) ? b : a;
    case NBX_COMBINE_MIN: return (is_unsigned ? (uint64_t)a < (uint64_t)b : a < b) ? a : b;
    default: return b;
    }
}
template <typename F> static __device__ __forceinline__ F combined(int how, F a, F b) {
    switch (how) {
    case NBX_COMBINE_ADD: return a + b;
    case NBX_COMBINE_MUL: return a * b;
    case NBX_COMBINE_MAX: return b > a || b != b ? b : a;
    case NBX_COMBINE_MIN: return b < a || b != b ? b : a;
    default: return b;
    }
}

// *to = *to op *from for one element; other threads do not touch it.
static __device__ __noinline__ void combine_one(int dtype, int how, void *to, const void *from) {
    switch (dtype) {
    case NBX_FLOAT64: *(double *)to = combined(how, *(double *)to, *(const double *)from); break;
    case NBX_FLOAT32:
    case NBX_FLOAT16:
    case NBX_BFLOAT16: ewc_store<float>(dtype, to, combined(how, ewc_load<float>(dtype, to), ewc_load<float>(dtype, from))); break;
    case NBX_COMPLEX64:
    case NBX_COMPLEX128: {
        const cdouble a = ewc_load<cdouble>(dtype, to), b = ewc_load<cdouble>(dtype, from);
        ewc_store<cdouble>(dtype, to, how == NBX_COMBINE_MUL ? a * b : a + b);
        break;
    }
    default: ewc_store<int64_t>(dtype, to, combined(how, dtype == NBX_UINT64, ewc_load<int64_t>(dtype, to), ewc_load<int64_t>(dtype, from))); break;
    }
}

// The same while other threads may, for integers: by exchanging the word it lies in.
static __device__ void combine_shared(int dtype, int how, char *to, const void *from) {
    const int width = nbx_cuda_dtype_bytes(dtype);
    if (width == 8) {
        unsigned long long seen = *(unsigned long long *)to, next;
        do {
            const unsigned long long old = seen;
            next = (unsigned long long)combined(how, dtype == NBX_UINT64, (int64_t)old, *(const int64_t *)from);
            seen = atomicCAS((unsigned long long *)to, old, next);
            if (seen == old) return;
        } while (true);
    }
    if (width == 2) {  // what lies beside it may be nobody's
        unsigned short seen = *(unsigned short *)to;
        do {
            const unsigned short old = seen;
            unsigned short next = old;
            combine_one(dtype, how, (char *)&next, from);
            seen = atomicCAS((unsigned short *)to, old, next);
            if (seen == old) return;
        } while (true);
    }
    unsigned *word = (unsigned *)((uintptr_t)to & ~(uintptr_t)3);
    const int at = (int)((uintptr_t)to & 3);
    unsigned seen = *word;
    do {
        unsigned next = seen;
        const unsigned old = seen;
        combine_one(dtype, how, (char *)&next + at, from);
        seen = atomicCAS(word, old, next);
        if (seen == old) return;
    } while (true);
}

template <int W> static __device__ __forceinline__ void move(char *to, const char *from) {
    if (W == 1) *to = *from;
    else if (W == 2) *(uint16_t *)to = *(const uint16_t *)from;
    else if (W == 4) *(uint32_t *)to = *(const uint32_t *)from;
    else if (W == 8) *(uint2 *)to = *(const uint2 *)from;
    else *(uint4 *)to = *(const uint4 *)from;
}
static __device__ __forceinline__ void move_element(int width, char *to, const char *from) {
    switch (width) {
    case 1: move<1>(to, from); break;
    case 2: move<2>(to, from); break;
    case 4: move<4>(to, from); break;
    case 8: move<8>(to, from); break;
    default: move<16>(to, from); break;
    }
}

template <int W> struct unit_of { typedef uint2 type; };
template <> struct unit_of<4> { typedef uint32_t type; };
template <> struct unit_of<2> { typedef uint16_t type; };
template <> struct unit_of<1> { typedef uint8_t type; };

template <int W> struct word_of { typedef uint4 type; };
template <> struct word_of<8> { typedef uint2 type; };
template <> struct word_of<4> { typedef uint32_t type; };

// --------------------------------------------------------------------------------------------------------------- rows
static __device__ __forceinline__ void add_place(const dims_of &d, int64_t at, int64_t *table, int64_t *rows) {
    for (int i = d.rank - 1; i >= 0; i--) {
        const int64_t rest = quotient_of(at, d.shape[i]), here = at - rest * d.shape[i];
        at = rest;
        *table += here * d.table[i];
        *rows += here * d.rows[i];
    }
}

// Where an entry lies along each dim of the indices.
static __device__ __forceinline__ void split_entry(const rows_call &p, int64_t entry, int64_t (&at)[ROW_DIMS]) {
    for (int i = p.entries.rank - 1; i >= 0; i--) {
        const int64_t rest = quotient_of(entry, p.entries.shape[i]);
        at[i] = entry - rest * p.entries.shape[i];
        entry = rest;
    }
}

// The k-th index of an entry, from the end where it is negative; -1: out of range.
static __device__ __forceinline__ int64_t index_at(const rows_call &p, int k, const int64_t (&at)[ROW_DIMS], int64_t *given) {
    const char *from = p.index[k];
    for (int i = 0; i < p.entries.rank; i++) from += at[i] * p.index_stride[k][i];
    int64_t value = *given = p.narrow[k] ? *(const int32_t *)from : *(const int64_t *)from;
    if (p.wrap && value < 0) value += p.size[k];
    return value < 0 || value >= p.size[k] ? -1 : value;
}

// Adds what the indices of an entry say to its offset in the table; false: one is out of range.
static __device__ __forceinline__ bool add_indices(const rows_call &p, const int64_t (&at)[ROW_DIMS], int64_t *table) {
    for (int k = 0; k < p.count; k++) {
        int64_t given;
        const int64_t value = index_at(p, k, at, &given);
        if (value < 0) {
            raise_fault(p.fault, p.op, NBX_FAULT_INDEX, given, p.size[k]);
            return false;
        }
        *table += value * p.step[k];
    }
    return true;
}

// Offset of an entry of the index in the table; false: out of range.
static __device__ __forceinline__ bool entry_place(const rows_call &p, int64_t entry, int64_t *table, int64_t *rows) {
    int64_t at[ROW_DIMS];
    split_entry(p, entry, at);
    for (int i = 0; i < p.entries.rank; i++) *rows += at[i] * p.entries.rows[i];
    return add_indices(p, at, table);
}

// Number of the place in the table that an entry names; -1: out of range.
static __device__ __forceinline__ int64_t entry_number(const rows_call &p, int64_t entry) {
    int64_t at[ROW_DIMS], number = 0;
    split_entry(p, entry, at);
    for (int k = 0; k < p.count; k++) {
        int64_t given;
        const int64_t value = index_at(p, k, at, &given);
        if (value < 0) return -1;
        number = number * p.size[k] + value;
    }
    return number;
}

// words: of each place, zero; the last entry of a place claims it. NULL: nothing is claimed.
static __global__ void __launch_bounds__(ROW_THREADS) number_entries(const __grid_constant__ rows_call p, int64_t *numbers, uint32_t *words) {
    const int64_t entry = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (entry >= p.entries.count) return;
    const int64_t number = entry_number(p, entry);
    numbers[entry] = number;
    if (words && number >= 0) atomicMax(&words[number], (uint32_t)entry + 1);
}

static __global__ void __launch_bounds__(ROW_THREADS) compare_entries(const int64_t *numbers, int64_t count, uint8_t *loses) {
    const int64_t entry = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (entry >= count) return;
    bool meets = false;
    for (int64_t i = entry + 1; i < count && !meets; i++) meets = numbers[i] == numbers[entry];
    loses[entry] = meets;
}

static __global__ void __launch_bounds__(ROW_THREADS) check_claims(const int64_t *numbers, int64_t count, const uint32_t *words, uint8_t *loses) {
    const int64_t entry = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (entry < count) loses[entry] = numbers[entry] >= 0 && words[numbers[entry]] != (uint32_t)entry + 1;
}

static __global__ void __launch_bounds__(ROW_THREADS) check_sorted(const sorted_rows sorted, int64_t count, uint8_t *loses) {
    const int64_t i = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (i < count) loses[sorted.places[i]] = i + 1 < count && sorted.keys[i] == sorted.keys[i + 1];
}

// Which entries lose, in scratch.
static nbx_status find_losers(nbx_op_call *c, rows_call *p) {
    int64_t places = 1;
    const int64_t entries = p->entries.count;
    for (int k = 0; k < p->count; k++) places *= p->size[k];
    const nbx_meeting how = nbx_rows_meeting(entries, places);
    if (how == NBX_MEET_NEVER) return NBX_OK;
    int64_t *numbers = (int64_t *)c->scratch;
    uint8_t *loses = (uint8_t *)(numbers + entries);
    char *rest = (char *)c->scratch + nbx_rows_meeting_heads(entries);
    const unsigned blocks = (unsigned)((entries + ROW_THREADS - 1) / ROW_THREADS);
    cudaStream_t stream = stream_of(c);
    if (how == NBX_MEET_CLAIMED) {
        const nbx_status status = nbx_cuda_set_bytes(c, rest, 0, (size_t)places * 4);
        if (status != NBX_OK) return status;
    }
    number_entries<<<blocks, ROW_THREADS, 0, stream>>>(*p, numbers, how == NBX_MEET_CLAIMED ? (uint32_t *)rest : NULL);
    if (how == NBX_MEET_FEW) {
        compare_entries<<<blocks, ROW_THREADS, 0, stream>>>(numbers, entries, loses);
    } else if (how == NBX_MEET_CLAIMED) {
        check_claims<<<blocks, ROW_THREADS, 0, stream>>>(numbers, entries, (const uint32_t *)rest, loses);
    } else {
        key_rows k = {};
        sorted_rows sorted;
        k.along.data = (char *)numbers, k.along.dtype = NBX_UINT64, k.along.width = 8, k.along.count = 1;
        k.rows = k.along;
        nbx_status status = flat_push(c, &k.along, entries, 8);
        if (status == NBX_OK) status = nbx_cuda_sort_rows(c, &k, rest, &sorted);
        if (status != NBX_OK) return status;
        check_sorted<<<blocks, ROW_THREADS, 0, stream>>>(sorted, entries, loses);
    }
    p->loses = loses;
    return launch_status(c);
}

// A thread moves one element, or `vector` bytes of a row whose last dim is dense on both sides.
static __global__ void __launch_bounds__(ROW_THREADS) move_rows(const __grid_constant__ rows_call p, int64_t after, int vector) {
    const int64_t item = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (item >= p.before.count * p.entries.count * after) return;
    int64_t table = 0, rows = 0;
    const int64_t piece = item % after, entry = item / after % p.entries.count, before = item / after / p.entries.count;
    if (p.loses && p.loses[entry]) return;
    if (!entry_place(p, entry, &table, &rows)) return;
    add_place(p.before, before, &table, &rows);
    if (vector) {
        const int64_t per_row = p.after.rank ? p.after.shape[p.after.rank - 1] * p.width / vector : 1;
        const int64_t row = piece / per_row, at = (piece - row * per_row) * vector;
        dims_of outer = p.after;
        outer.rank--;
        add_place(outer, row, &table, &rows);
        table += at, rows += at;
        move_element(vector, p.write ? p.table + table : p.rows + rows, p.write ? p.rows + rows : p.table + table);
        return;
    }
    add_place(p.after, piece, &table, &rows);
    const char *from = p.rows ? p.rows + rows : p.number;
    if (!p.write) move_element(p.width, p.rows + rows, p.table + table);
    else if (p.how == NBX_COMBINE_SET) move_element(p.width, p.table + table, from);
    else combine_shared(p.dtype, p.how, p.table + table, from);
}

// Whole dense rows by vectors of W bytes: LANES threads a row, four vectors under way in each.
template <int W> static __global__ void __launch_bounds__(ROW_THREADS) move_dense_rows(const __grid_constant__ rows_call p, int lanes, int vectors) {
    const int64_t item = (int64_t)blockIdx.x * (ROW_THREADS / lanes) + threadIdx.x / lanes;
    if (item >= p.before.count * p.entries.count) return;
    typedef typename word_of<W>::type word;
    int64_t table = 0, rows = 0, before = 0, entry = item, at[ROW_DIMS];
    if (p.before.count > 1) before = item / p.entries.count, entry = item - before * p.entries.count;
    split_entry(p, entry, at);
    for (int i = 0; i < p.entries.rank; i++) rows += at[i] * p.entries.rows[i];
    add_place(p.before, before, &table, &rows);
    word w[4];
    const char *from = p.rows + rows;
    const auto load = [&](int i) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k * lanes < vectors) w[k] = ((const word *)from)[i + k * lanes];
    };
    int i = (int)threadIdx.x % lanes;
    if (p.write) load(i);  // what is written does not wait for where
    const bool loses = p.loses && p.loses[entry];
    if (!add_indices(p, at, &table) || loses) return;
    if (!p.write) from = p.table + table, load(i);
    char *to = p.write ? p.table + table : p.rows + rows;
    for (;;) {
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (i + k * lanes < vectors) ((word *)to)[i + k * lanes] = w[k];
        i += 4 * lanes;
        if (i >= vectors) break;
        load(i);
    }
}

template <int W> static void launch_dense_rows(const rows_call &p, cudaStream_t stream) {
    const int vectors = (int)(p.after.count * p.width / W);
    int lanes = 1;
    while (lanes < 128 && lanes * 4 < vectors) lanes *= 2;
    const int64_t per_block = ROW_THREADS / lanes, count = p.before.count * p.entries.count;
    move_dense_rows<W><<<(unsigned)((count + per_block - 1) / per_block), ROW_THREADS, 0, stream>>>(p, lanes, vectors);
}

// A thread adds all rows to its element, in the order of the index.
static __global__ void __launch_bounds__(ROW_THREADS) combine_rows(const __grid_constant__ rows_call p) {
    const int64_t item = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (item >= p.before.count * p.after.count) return;
    int64_t table0 = 0, rows0 = 0;
    add_place(p.after, item % p.after.count, &table0, &rows0);
    add_place(p.before, item / p.after.count, &table0, &rows0);
    for (int64_t entry = 0; entry < p.entries.count; entry++) {
        int64_t table = table0, rows = rows0;
        if (entry_place(p, entry, &table, &rows)) combine_one(p.dtype, p.how, p.table + table, p.rows + rows);
    }
}

static __global__ void __launch_bounds__(ROW_THREADS) key_entries(const __grid_constant__ rows_call p, uint32_t *keys) {
    const int64_t entry = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (entry < p.entries.count) keys[entry] = (uint32_t)entry_number(p, entry);  // out of range: all ones
}

// The entries of one place follow one another: the thread of the first one adds them all to its element.
static __global__ void __launch_bounds__(ROW_THREADS) combine_sorted_rows(const __grid_constant__ rows_call p, const sorted_rows sorted) {
    const int64_t item = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x, entries = p.entries.count;
    if (item >= p.before.count * entries * p.after.count) return;
    const int64_t after = item % p.after.count, i = item / p.after.count % entries, before = item / p.after.count / entries;
    const uint64_t key = sorted.keys[i];
    if (i > 0 && sorted.keys[i - 1] == key) return;
    int64_t table0 = 0, rows0 = 0;
    add_place(p.after, after, &table0, &rows0);
    add_place(p.before, before, &table0, &rows0);
    for (int64_t k = i; k < entries && sorted.keys[k] == key; k++) {
        int64_t table = table0, rows = rows0;
        if (entry_place(p, sorted.places[k], &table, &rows)) combine_one(p.dtype, p.how, p.table + table, p.rows + rows);
    }
}

// Sorts 32-bit keys, rows of so many, that lie at the start of `room`; nbx_combine_sort_bytes.
static nbx_status sort_keys(nbx_op_call *c, char *room, int64_t rows, int64_t length, sorted_rows *sorted) {
    key_rows k = {};
    k.rows.data = room, k.rows.dtype = NBX_UINT32, k.rows.width = 4, k.rows.count = 1;
    k.along = k.rows;
    nbx_status status = flat_push(c, &k.rows, rows, length * 4);
    if (status == NBX_OK) status = flat_push(c, &k.along, length, 4);
    return status == NBX_OK ? nbx_cuda_sort_rows(c, &k, room + (rows * length * 4 + 255) / 256 * 256, sorted) : status;
}

// Room for sorting behind so many bytes of scratch.
static char *sort_room(nbx_op_call *c, int64_t bytes) { return (char *)c->scratch + (bytes + 255) / 256 * 256; }

static bool take_dims(dims_of *to, int rank, const int64_t *shape, const int64_t *table, const int64_t *rows) {
    to->count = 1;
    to->rank = 0;
    for (int d = 0; d < rank; d++) {
        to->count *= shape[d];
        if (shape[d] == 1) continue;
        if (to->rank > 0 && (!table || to->table[to->rank - 1] == table[d] * shape[d]) && to->rows[to->rank - 1] == rows[d] * shape[d] && table) {
            to->shape[to->rank - 1] *= shape[d];
            to->table[to->rank - 1] = table[d];
            to->rows[to->rank - 1] = rows[d];
            continue;
        }
        if (to->rank == ROW_DIMS) return false;
        to->shape[to->rank] = shape[d];
        to->table[to->rank] = table ? table[d] : 0;
        to->rows[to->rank++] = rows[d];
    }
    return true;
}

static bool dense_vectors(const rows_call *p, int *vector) {
    const dims_of *a = &p->after;
    if (!p->rows || a->rank == 0 || a->table[a->rank - 1] != p->width || a->rows[a->rank - 1] != p->width) return false;
    const int64_t bytes = a->shape[a->rank - 1] * p->width;
    for (int v = 16; v > p->width; v /= 2) {
        bool fits = bytes % v == 0 && (uintptr_t)p->table % (uintptr_t)v == 0 && (uintptr_t)p->rows % (uintptr_t)v == 0;
        for (int d = 0; d < a->rank - 1; d++) fits = fits && a->table[d] % v == 0 && a->rows[d] % v == 0;
        for (int d = 0; d < p->before.rank; d++) fits = fits && p->before.table[d] % v == 0 && p->before.rows[d] % v == 0;
        for (int d = 0; d < p->entries.rank; d++) fits = fits && p->entries.rows[d] % v == 0;
        for (int k = 0; k < p->count; k++) fits = fits && p->step[k] % v == 0;
        if (!fits) continue;
        *vector = v;
        return true;
    }
    return false;
}

// finds_losers: rows that meet differ, and there is scratch to look for them. room: for sorting, or NULL.
static nbx_status run_rows(nbx_op_call *c, const nbx_rows *r, const void *number = NULL, bool finds_losers = false, char *room = NULL) {
    rows_call p;
    memset(&p, 0, sizeof p);
    if (number) memcpy(p.number, number, sizeof p.number);
    p.table = r->table, p.rows = r->rows, p.width = r->width, p.dtype = r->dtype, p.how = r->how, p.wrap = r->wrap, p.write = r->write;
    p.count = r->count;
    p.fault = nbx_cuda_fault_slot(c, &p.op);
    bool fits = r->count <= ROW_INDICES && r->index_rank <= ROW_DIMS;
    if (fits) {
        p.entries.rank = r->index_rank, p.entries.count = 1;
        for (int d = 0; d < r->index_rank; d++) p.entries.shape[d] = r->index_shape[d], p.entries.rows[d] = r->index_rows[d], p.entries.count *= r->index_shape[d];
        for (int k = 0; k < r->count; k++) {
            p.index[k] = (const char *)nbx_data(r->index[k]);
            p.narrow[k] = r->index[k]->dtype == NBX_INT32;
            p.size[k] = r->size[k], p.step[k] = r->stride[k];
            for (int d = 0; d < r->index_rank; d++) p.index_stride[k][d] = r->index_stride[k][d];
        }
        fits = take_dims(&p.before, r->before.rank, r->before.shape, r->before.table, r->before.rows) &&
               take_dims(&p.after, r->after.rank, r->after.shape, r->after.table, r->after.rows);
    }
    if (!fits) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims or %d indices on CUDA", ROW_DIMS, ROW_INDICES);
    const bool is_float = !nbx_dtype_is_integral(r->dtype, true);
    const int64_t total = p.before.count * p.entries.count * p.after.count;
    if (total == 0) return NBX_OK;
    if (p.write && p.how != NBX_COMBINE_SET && is_float) {
        int64_t items = p.before.count * p.after.count, places = 1;
        for (int k = 0; k < p.count; k++) places *= p.size[k];
        if (room && p.rows && p.entries.count > NBX_COMBINE_SHORT && places < UINT32_MAX) {
            sorted_rows sorted;
            key_entries<<<(unsigned)((p.entries.count + ROW_THREADS - 1) / ROW_THREADS), ROW_THREADS, 0, stream_of(c)>>>(p, (uint32_t *)room);
            const nbx_status status = sort_keys(c, room, 1, p.entries.count, &sorted);
            if (status != NBX_OK) return status;
            combine_sorted_rows<<<(unsigned)((total + ROW_THREADS - 1) / ROW_THREADS), ROW_THREADS, 0, stream_of(c)>>>(p, sorted);
            return launch_status(c);
        }
        combine_rows<<<(unsigned)((items + ROW_THREADS - 1) / ROW_THREADS), ROW_THREADS, 0, stream_of(c)>>>(p);
        return launch_status(c);
    }
    if (p.write && p.how == NBX_COMBINE_SET && p.rows && !number && finds_losers) {
        const nbx_status status = find_losers(c, &p);
        if (status != NBX_OK) return status;
    }
    int vector = 0;
    int64_t after = p.after.count;
    if ((!p.write || p.how == NBX_COMBINE_SET) && dense_vectors(&p, &vector)) after = after * p.width / vector;
    else vector = 0;
    if (vector >= 4 && p.after.rank == 1) {
        if (vector == 16) launch_dense_rows<16>(p, stream_of(c));
        else if (vector == 8) launch_dense_rows<8>(p, stream_of(c));
        else launch_dense_rows<4>(p, stream_of(c));
        return launch_status(c);
    }
    const int64_t items = p.before.count * p.entries.count * after;
    move_rows<<<(unsigned)((items + ROW_THREADS - 1) / ROW_THREADS), ROW_THREADS, 0, stream_of(c)>>>(p, after, vector);
    return launch_status(c);
}

// ------------------------------------------------------------------------------------------------- what means and alpha need
static __global__ void __launch_bounds__(FLAT_THREADS) multiply_all(const __grid_constant__ flat all, double first, double second) {
    const int64_t i = flat_item();
    const double number[2] = {first, second};
    if (i < all.count) combine_one(all.dtype, NBX_COMBINE_MUL, flat_at(all, i), number);
}

static __global__ void __launch_bounds__(FLAT_THREADS) count_indices(const __grid_constant__ flat index, unsigned long long *counts, int64_t size) {
    const int64_t i = flat_item();
    if (i >= index.count) return;
    const char *from = flat_at(index, i);
    const int64_t at = index.dtype == NBX_INT32 ? *(const int32_t *)from : *(const int64_t *)from;
    if (at >= 0 && at < size) atomicAdd(&counts[at], 1ull);
}

// Every element is divided by its count (and one more, if so said) where that is above one; integers round down.
static __device__ __noinline__ void divide_one(int dtype, char *at, int64_t n) {
    switch (dtype) {
    case NBX_FLOAT64: *(double *)at /= (double)n; break;
    case NBX_FLOAT32:
    case NBX_FLOAT16:
    case NBX_BFLOAT16: ewc_store<float>(dtype, at, ewc_load<float>(dtype, at) / (float)n); break;
    case NBX_COMPLEX64:
    case NBX_COMPLEX128: {
        const cdouble x = ewc_load<cdouble>(dtype, at);
        ewc_store<cdouble>(dtype, at, {x.re / (double)n, x.im / (double)n});
        break;
    }
    case NBX_UINT64: *(uint64_t *)at /= (uint64_t)n; break;
    default: {
        const int64_t x = ewc_load<int64_t>(dtype, at);
        ewc_store<int64_t>(dtype, at, x / n - (x % n < 0));
    }
    }
}

static __global__ void __launch_bounds__(FLAT_THREADS) divide_all(const __grid_constant__ flat all, const __grid_constant__ flat counts, int more) {
    const int64_t i = flat_item();
    if (i >= all.count) return;
    const int64_t n = *(const int64_t *)flat_at(counts, i) + more;
    if (n > 1) divide_one(all.dtype, flat_at(all, i), n);
}

static void byte_strides(const nbx_tensor *t, int64_t *bytes) {
    for (int d = 0; d < t->rank; d++) bytes[d] = t->stride[d] * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
}

// self indexed by the list of tensors that is argument 1.
static nbx_status plan_list(nbx_op_call *c, nbx_rows *r, const nbx_tensor *self, int *rank) {
    int count;
    const nbx_tensor *const *list = arg_tensors(c, 1, &count);
    int64_t shape[NBX_MAX_RANK];
    const nbx_status status = nbx_rows_plan(c, r, self, count, list, rank, shape);
    if (status != NBX_OK) return status;
    r->table = (char *)nbx_data(self);
    r->wrap = true;
    return NBX_OK;
}

static nbx_status index_cuda(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *out = out_get(c, 0);
    int rank;
    int64_t bytes[NBX_MAX_RANK];
    nbx_rows r;
    const nbx_status status = plan_list(c, &r, self, &rank);
    if (status != NBX_OK) return status;
    r.rows = (char *)nbx_data(out);
    byte_strides(out, bytes);
    nbx_rows_strides(&r, bytes);
    return run_rows(c, &r);
}

static nbx_status index_put_cuda(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *values = arg_tensor(c, 2);
    int rank;
    int64_t bytes[NBX_MAX_RANK];
    nbx_rows r;
    const nbx_status status = plan_list(c, &r, self, &rank);
    if (status != NBX_OK) return status;
    r.rows = (char *)nbx_data(values);
    r.write = true;
    r.how = arg_bool(c, 3) ? NBX_COMBINE_ADD : NBX_COMBINE_SET;
    for (int d = 0; d < rank; d++) bytes[d] = nbx_broadcast_stride(values, rank, d) * r.width;
    nbx_rows_strides(&r, bytes);
    return run_rows(c, &r, NULL, values->numel > 1, r.how == NBX_COMBINE_ADD ? sort_room(c, 0) : NULL);
}

static nbx_status select_rows(nbx_op_call *c, const nbx_tensor *self, int dim, const nbx_tensor *index, const int64_t *bytes) {
    nbx_rows r;
    int rank;
    int64_t shape[NBX_MAX_RANK];
    const nbx_status status = nbx_rows_plan_dim(c, &r, self, dim, index, &rank, shape);
    if (status != NBX_OK) return status;
    r.table = (char *)nbx_data(self);
    r.rows = (char *)nbx_data(out_get(c, 0));
    nbx_rows_strides(&r, bytes);
    return run_rows(c, &r);
}

static nbx_status index_select_cuda(nbx_op_call *c) {
    int64_t bytes[NBX_MAX_RANK] = {0};
    byte_strides(out_get(c, 0), bytes);
    return select_rows(c, arg_tensor(c, 0), (int)arg_int(c, 1), arg_tensor(c, 2), bytes);
}

static nbx_status embedding_cuda(nbx_op_call *c) {
    const nbx_tensor *indices = arg_tensor(c, 1), *out = out_get(c, 0);
    int64_t bytes[NBX_MAX_RANK] = {0};
    byte_strides(out, bytes);
    if (indices->rank == 0) bytes[1] = bytes[0], bytes[0] = 0;
    return select_rows(c, arg_tensor(c, 0), 0, indices, bytes);
}

// The result starts as a copy of self, unless it is self.
static nbx_status start_from_self(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *out = out_get(c, 0);
    return out->storage == self->storage && nbx_data(out) == nbx_data(self) ? NBX_OK : nbx_cuda_copy(c, out, self);
}

// source NULL: number is written to all rows; or, with neither, the element at rows.
static nbx_status write_rows(nbx_op_call *c, char *rows, const nbx_tensor *source, nbx_combine how, bool wrap, const void *number = NULL, bool finds_losers = false,
                             char *room = NULL) {
    nbx_rows r;
    int rank;
    int64_t shape[NBX_MAX_RANK], bytes[NBX_MAX_RANK] = {0};
    const nbx_tensor *out = out_get(c, 0);
    const nbx_status status = nbx_rows_plan_dim(c, &r, out, (int)arg_int(c, 1), arg_tensor(c, 2), &rank, shape);
    if (status != NBX_OK) return status;
    if (source) byte_strides(source, bytes);
    r.table = (char *)nbx_data(out);
    r.rows = rows;
    r.write = true;
    r.wrap = wrap;
    r.how = how;
    nbx_rows_strides(&r, bytes);
    return run_rows(c, &r, number, finds_losers, room);
}

static nbx_status index_copy_cuda(nbx_op_call *c) {
    const nbx_tensor *source = arg_tensor(c, 3);
    const nbx_status status = start_from_self(c);
    return status != NBX_OK || source->numel == 0 ? status : write_rows(c, (char *)nbx_data(source), source, NBX_COMBINE_SET, false, NULL, true);
}

static nbx_status index_add_cuda(nbx_op_call *c) {
    const nbx_tensor *source = arg_tensor(c, 3);
    const nbx_status status = start_from_self(c);
    if (status != NBX_OK || source->numel == 0) return status;
    if (c->args[4].kind != NBX_KIND_COMPLEX && nbx_scalar_to_double(&c->args[4]) == 1)
        return write_rows(c, (char *)nbx_data(source), source, NBX_COMBINE_ADD, false, NULL, false, sort_room(c, 0));
    device_view v;  // source times alpha, in scratch
    int64_t stride = 1;
    for (int d = source->rank - 1; d >= 0; d--) v.shape[d] = source->shape[d], v.stride[d] = stride, stride *= source->shape[d];
    const nbx_tensor *scaled = view_of(&v, c->scratch, (nbx_dtype)source->dtype, source->rank);
    double alpha[2] = {0, 0};
    ew_store_number((nbx_dtype)source->dtype, alpha, &c->args[4]);
    const nbx_status copied = nbx_cuda_copy(c, scaled, source);
    if (copied != NBX_OK) return copied;
    flat all;
    const nbx_status planned = flat_of(c, scaled, &all);
    if (planned != NBX_OK) return planned;
    multiply_all<<<flat_blocks(all.count), FLAT_THREADS, 0, stream_of(c)>>>(all, alpha[0], alpha[1]);
    return write_rows(c, (char *)c->scratch, scaled, NBX_COMBINE_ADD, false, NULL, false, sort_room(c, all.count * all.width));
}

static nbx_status index_fill_cuda(nbx_op_call *c) {
    const nbx_tensor *value = arg_tensor(c, 3), *out = out_get(c, 0);
    double number[2] = {0, 0};
    nbx_status status = start_from_self(c);
    if (status != NBX_OK || arg_tensor(c, 2)->numel == 0 || out->numel == 0) return status;
    if (!value) {
        ew_store_number((nbx_dtype)out->dtype, number, &c->args[3]);
        return write_rows(c, NULL, NULL, NBX_COMBINE_SET, true, number);
    }
    device_view v;  // the value in the dtype of out, in scratch
    status = nbx_cuda_copy(c, view_of(&v, c->scratch, (nbx_dtype)out->dtype, 0), value);
    return status == NBX_OK ? write_rows(c, (char *)c->scratch, NULL, NBX_COMBINE_SET, true) : status;
}

// index_reduce(self, dim, index, source, reduce, include_self): scratch holds how many values each row has.
static nbx_status index_reduce_cuda(nbx_op_call *c) {
    const nbx_tensor *source = arg_tensor(c, 3), *index = arg_tensor(c, 2), *out = out_get(c, 0);
    const int dim = (int)arg_int(c, 1);
    const bool include_self = arg_bool(c, 5);
    nbx_combine how = NBX_COMBINE_MUL;
    bool mean = false;
    double identity[2] = {0, 0};
    nbx_combine_parse(arg_string(c, 4), &how, &mean);
    nbx_status status = start_from_self(c);
    if (status != NBX_OK || source->numel == 0 || out->numel == 0) return status;
    nbx_combine_identity(how, (nbx_dtype)out->dtype, identity);
    if (!include_self) status = write_rows(c, NULL, NULL, NBX_COMBINE_SET, false, identity);
    if (status == NBX_OK) status = write_rows(c, (char *)nbx_data(source), source, how, false);
    if (status != NBX_OK || !mean) return status;
    const int64_t size = out->rank == 0 ? 1 : out->shape[dim];
    flat all, indices, counts = {};
    status = flat_of(c, out, &all);
    if (status == NBX_OK) status = flat_of(c, index, &indices);
    counts.data = (char *)c->scratch, counts.count = 1;
    for (int d = 0; d < out->rank && status == NBX_OK; d++) status = flat_push(c, &counts, out->shape[d], d == dim ? 8 : 0);
    if (status == NBX_OK) status = nbx_cuda_set_bytes(c, c->scratch, 0, (size_t)size * 8);
    if (status != NBX_OK) return status;
    count_indices<<<flat_blocks(indices.count), FLAT_THREADS, 0, stream_of(c)>>>(indices, (unsigned long long *)c->scratch, size);
    divide_all<<<flat_blocks(all.count), FLAT_THREADS, 0, stream_of(c)>>>(all, counts, include_self);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::_unsafe_index.Tensor", index_cuda)
NBX_CUDA_KERNEL("aten::_index_put_impl_", index_put_cuda)
NBX_CUDA_KERNEL("aten::index_select", index_select_cuda)
NBX_CUDA_KERNEL("aten::embedding", embedding_cuda)
NBX_CUDA_KERNEL("aten::index_copy", index_copy_cuda)
NBX_CUDA_KERNEL("aten::index_add", index_add_cuda)
NBX_CUDA_KERNEL("aten::index_fill.int_Scalar", index_fill_cuda)
NBX_CUDA_KERNEL("aten::index_fill.int_Tensor", index_fill_cuda)
NBX_CUDA_KERNEL("aten::index_reduce", index_reduce_cuda)

// ------------------------------------------------------------------------------------------------------ gather, scatter
enum { LINE_DIMS = 10 };

typedef struct lines_call {
    const char *index;
    bool narrow;
    char *table, *values;
    char number[16];           // the value of scatter.value; values is NULL then
    int width, dtype, how;
    bool write;
    int64_t size, table_step;  // of the indexed dim
    int64_t length, index_step, values_step, lines;
    uint32_t *last;            // of each place of a line: who writes it last, counted from 1; NULL: lines are looked through
    int rank;
    int64_t shape[LINE_DIMS], index_stride[LINE_DIMS], table_stride[LINE_DIMS], values_stride[LINE_DIMS];
    bool wide;                 // 2^31 elements and more: divide in 64 bits
    ewc_divisor by_length, by_lines, by_shape[LINE_DIMS];
    nbx_fault_slot *fault;
    int op;
} lines_call;

static __device__ __forceinline__ int64_t quotient_of(const lines_call &p, int64_t n, int64_t size, const ewc_divisor &by) {
    return p.wide ? n / size : (int64_t)ewc_quotient((uint32_t)n, by);
}

static __device__ __forceinline__ void line_place(const lines_call &p, int64_t line, int64_t *index, int64_t *table, int64_t *values) {
    *index = *table = *values = 0;
    for (int d = p.rank - 1; d >= 0; d--) {
        const int64_t rest = d ? quotient_of(p, line, p.shape[d], p.by_shape[d]) : 0, at = line - rest * p.shape[d];
        line = rest;
        *index += at * p.index_stride[d];
        *table += at * p.table_stride[d];
        *values += at * p.values_stride[d];
    }
}

static __device__ __forceinline__ bool read_index(const lines_call &p, const char *at, int64_t *value) {
    *value = p.narrow ? *(const int32_t *)at : *(const int64_t *)at;
    if (*value >= 0 && *value < p.size) return true;
    raise_fault(p.fault, p.op, NBX_FAULT_INDEX, *value, p.size);
    return false;
}

// Of several for one place the last one counts; one value for all needs no order.
static __device__ __forceinline__ bool writes_last(const lines_call &p, int64_t line, int64_t index, int64_t i, int64_t value) {
    if (!p.values) return true;
    if (p.last) return p.last[line * p.size + value] == (uint32_t)i + 1;
    for (int64_t k = i + 1; k < p.length; k++) {
        const char *at = p.index + index + k * p.index_step;
        if ((p.narrow ? *(const int32_t *)at : *(const int64_t *)at) == value) return false;
    }
    return true;
}

static __global__ void __launch_bounds__(ROW_THREADS) claim_elements(const __grid_constant__ lines_call p) {
    const int64_t item = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (item >= p.lines * p.length) return;
    int64_t index, table, values;
    const int64_t line = item / p.length, i = item % p.length;
    line_place(p, line, &index, &table, &values);
    const char *at = p.index + index + i * p.index_step;
    const int64_t value = p.narrow ? *(const int32_t *)at : *(const int64_t *)at;
    if (value >= 0 && value < p.size) atomicMax(&p.last[line * p.size + value], (uint32_t)i + 1);
}

static __global__ void __launch_bounds__(ROW_THREADS) move_elements(const __grid_constant__ lines_call p) {
    const int64_t item = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (item >= p.lines * p.length) return;
    int64_t index, table, values, value;
    // neighbouring threads along the dense dim: along the line when that is dense, else across lines
    const bool along = p.index_step <= (p.narrow ? 4 : 8);
    const int64_t whole = along ? quotient_of(p, item, p.length, p.by_length) : quotient_of(p, item, p.lines, p.by_lines);
    const int64_t line = along ? whole : item - whole * p.lines, i = along ? item - whole * p.length : whole;
    line_place(p, line, &index, &table, &values);
    if (!read_index(p, p.index + index + i * p.index_step, &value)) return;
    char *in_table = p.table + table + value * p.table_step;
    char *beside = p.values ? p.values + values + i * p.values_step : (char *)p.number;
    if (!p.write) move_element(p.width, beside, in_table);
    else if (p.how != NBX_COMBINE_SET) combine_shared(p.dtype, p.how, in_table, beside);
    else if (writes_last(p, line, index, i, value)) move_element(p.width, in_table, beside);
}

// Lines dense in index and values: 4 neighbours for a thread. by_length: of a quarter of it. I: of the index.
template <int W, typename I> static __global__ void __launch_bounds__(ROW_THREADS) move_quads(const __grid_constant__ lines_call p) {
    struct alignas(4 * W > 16 ? 16 : 4 * W) quad { typename unit_of<W>::type at[4]; };
    struct alignas(16) four { I at[4]; };
    const int64_t item = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x, quads = p.length / 4;
    if (item >= p.lines * quads) return;
    int64_t index, table, values;
    const int64_t line = quotient_of(p, item, quads, p.by_length), i = (item - line * quads) * 4;
    line_place(p, line, &index, &table, &values);
    const four chosen = *(const four *)(p.index + index + i * (int64_t)sizeof(I));
    quad *beside = (quad *)(p.values + values + i * W), q = {};
    if (p.write) q = *beside;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int64_t value = chosen.at[k];
        if (value < 0 || value >= p.size) {
            raise_fault(p.fault, p.op, NBX_FAULT_INDEX, value, p.size);
            continue;
        }
        typename unit_of<W>::type *in_table = (typename unit_of<W>::type *)(p.table + table + value * p.table_step);
        if (!p.write) q.at[k] = *in_table;
        else if (writes_last(p, line, index, i + k, value)) *in_table = q.at[k];
    }
    if (!p.write) *beside = q;
}

// Gathers from dense lines that fit shared memory: a block reads the table's line once and takes elements from there, where
// 32 places cost 3 or 4 cycles and not, as in L1, one for each 128 bytes. PIECES blocks share a long line of indices.
enum { HELD_LINE = 49152, HELD_QUADS = 2 };

template <int W, typename I> static __global__ void __launch_bounds__(ROW_THREADS) gather_held(const __grid_constant__ lines_call p, int pieces, int piece) {
    typedef typename unit_of<W>::type unit;
    struct alignas(4 * W > 16 ? 16 : 4 * W) quad { unit at[4]; };
    struct alignas(16) four { I at[4]; };
    extern __shared__ uint4 held[];
    const uint32_t line = blockIdx.x / (uint32_t)pieces, first = (blockIdx.x - line * (uint32_t)pieces) * (uint32_t)piece, tid = threadIdx.x;
    const uint32_t quads = (uint32_t)(p.length / 4), end = first + (uint32_t)piece < quads ? first + (uint32_t)piece : quads, bytes = (uint32_t)p.size * W;
    int64_t index, table, values;
    line_place(p, line, &index, &table, &values);
    const four *chosen = (const four *)(p.index + index);
    quad *to = (quad *)(p.values + values);
    const char *from = p.table + table;
    four next[HELD_QUADS];
    const auto fetch = [&](uint32_t at) {
#pragma unroll
        for (int k = 0; k < HELD_QUADS; k++)
            if (at + k * ROW_THREADS < end) next[k] = chosen[at + k * ROW_THREADS];
    };
    fetch(first + tid);
    if (((uintptr_t)from | bytes) % 16 == 0) {
#pragma unroll 4
        for (uint32_t i = tid; i < bytes / 16; i += ROW_THREADS) held[i] = ((const uint4 *)from)[i];
    } else {
        for (uint32_t i = tid; i < (uint32_t)p.size; i += ROW_THREADS) ((unit *)held)[i] = ((const unit *)from)[i];
    }
    __syncthreads();
    for (uint32_t at = first + tid; at < end; at += HELD_QUADS * ROW_THREADS) {
        quad q[HELD_QUADS];
#pragma unroll
        for (int k = 0; k < HELD_QUADS; k++) {
            if (at + k * ROW_THREADS >= end) continue;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int64_t value = next[k].at[j];
                const bool fits = (uint64_t)value < (uint64_t)p.size;
                if (!fits) raise_fault(p.fault, p.op, NBX_FAULT_INDEX, value, p.size);
                q[k].at[j] = ((const unit *)held)[fits ? (uint32_t)value : 0];
            }
        }
        fetch(at + HELD_QUADS * ROW_THREADS);
#pragma unroll
        for (int k = 0; k < HELD_QUADS; k++)
            if (at + k * ROW_THREADS < end) to[at + k * ROW_THREADS] = q[k];
    }
}

// true: launched. The indices of a line are to be worth reading all of the table's.
template <int W, typename I> static bool launch_held(const lines_call &p, cudaStream_t stream) {
    const int64_t quads = p.length / 4;
    if (p.write || p.table_step != W || p.size * W > HELD_LINE || p.length < 1024 || p.length * 2 < p.size) return false;
    int64_t pieces = p.length / 16384 > 0 && p.lines < 2048 ? p.length / 16384 : 1;
    const int64_t piece = (quads + pieces - 1) / pieces;
    pieces = (quads + piece - 1) / piece;
    if (p.lines * pieces > 0x7fffffff || quads > 0x7fffffff) return false;
    gather_held<W, I><<<(unsigned)(p.lines * pieces), ROW_THREADS, (size_t)(p.size * W), stream>>>(p, (int)pieces, (int)piece);
    return true;
}

// true: launched.
template <typename I> static bool launch_quads(lines_call p, cudaStream_t stream) {
    const int64_t vector = p.width >= 4 ? 16 : 4 * p.width;
    bool fits = p.values && p.how == NBX_COMBINE_SET && p.index_step == (int64_t)sizeof(I) && p.values_step == p.width && p.length % 4 == 0 && p.width <= 8 &&
                (uintptr_t)p.index % 16 == 0 && (uintptr_t)p.values % (uintptr_t)vector == 0 && p.lines * p.length < (int64_t)1 << 38;
    for (int d = 0; d < p.rank; d++) fits = fits && p.index_stride[d] % 16 == 0 && p.values_stride[d] % vector == 0;
    if (!fits) return false;
    const unsigned blocks = (unsigned)((p.lines * (p.length / 4) + ROW_THREADS - 1) / ROW_THREADS);
    p.by_length = ewc_divisor_of(p.length / 4);
    switch (p.width) {
    case 1:
        if (!launch_held<1, I>(p, stream)) move_quads<1, I><<<blocks, ROW_THREADS, 0, stream>>>(p);
        break;
    case 2:
        if (!launch_held<2, I>(p, stream)) move_quads<2, I><<<blocks, ROW_THREADS, 0, stream>>>(p);
        break;
    case 4:
        if (!launch_held<4, I>(p, stream)) move_quads<4, I><<<blocks, ROW_THREADS, 0, stream>>>(p);
        break;
    default:
        if (!launch_held<8, I>(p, stream)) move_quads<8, I><<<blocks, ROW_THREADS, 0, stream>>>(p);
        break;
    }
    return true;
}

static __global__ void __launch_bounds__(ROW_THREADS) combine_lines(const __grid_constant__ lines_call p) {
    const int64_t line = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (line >= p.lines) return;
    int64_t index, table, values, value;
    line_place(p, line, &index, &table, &values);
    for (int64_t i = 0; i < p.length; i++) {
        if (!read_index(p, p.index + index + i * p.index_step, &value)) continue;
        combine_one(p.dtype, p.how, p.table + table + value * p.table_step, p.values ? p.values + values + i * p.values_step : p.number);
    }
}

static __global__ void __launch_bounds__(ROW_THREADS) key_elements(const __grid_constant__ lines_call p, uint32_t *keys) {
    const int64_t item = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (item >= p.lines * p.length) return;
    int64_t index, table, values, value;
    const int64_t line = item / p.length, i = item % p.length;
    line_place(p, line, &index, &table, &values);
    keys[item] = read_index(p, p.index + index + i * p.index_step, &value) ? (uint32_t)value : 0xffffffffu;
}

static __global__ void __launch_bounds__(ROW_THREADS) combine_sorted_lines(const __grid_constant__ lines_call p, const sorted_rows sorted) {
    const int64_t item = (int64_t)blockIdx.x * ROW_THREADS + threadIdx.x;
    if (item >= p.lines * p.length) return;
    const int64_t line = item / p.length, i = item % p.length;
    const uint64_t *keys = sorted.keys + line * p.length, key = keys[i];
    if (key == 0xffffffffu || (i > 0 && keys[i - 1] == key)) return;
    int64_t index, table, values;
    line_place(p, line, &index, &table, &values);
    for (int64_t k = i; k < p.length && keys[k] == key; k++)
        combine_one(p.dtype, p.how, p.table + table + (int64_t)key * p.table_step,
                    p.values ? p.values + values + (int64_t)sorted.places[line * p.length + k] * p.values_step : p.number);
}

static int64_t bytes_along(const nbx_tensor *t, int d) { return !t || t->rank == 0 ? 0 : t->stride[d] * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype); }

static nbx_status run_lines(nbx_op_call *c, int dim, const nbx_tensor *index, const nbx_tensor *table, const nbx_tensor *values, bool write, nbx_combine how,
                            const void *number, char *room = NULL) {
    lines_call p;
    memset(&p, 0, sizeof p);
    p.index = (const char *)nbx_data(index), p.narrow = index->dtype == NBX_INT32;
    p.table = (char *)nbx_data(table), p.values = values ? (char *)nbx_data(values) : NULL;
    if (number) memcpy(p.number, number, 16);
    p.width = (int)nbx_dtype_size((nbx_dtype)table->dtype), p.dtype = table->dtype, p.how = how, p.write = write;
    p.size = table->rank == 0 ? 1 : table->shape[dim], p.table_step = bytes_along(table, dim);
    p.length = index->rank == 0 ? 1 : index->shape[dim], p.index_step = bytes_along(index, dim), p.values_step = bytes_along(values, dim);
    p.lines = 1;
    p.fault = nbx_cuda_fault_slot(c, &p.op);
    for (int d = 0; d < index->rank; d++) {
        if (d == dim || index->shape[d] == 1) continue;
        if (p.rank == LINE_DIMS) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims on CUDA", LINE_DIMS);
        p.shape[p.rank] = index->shape[d], p.index_stride[p.rank] = bytes_along(index, d);
        p.table_stride[p.rank] = bytes_along(table, d), p.values_stride[p.rank++] = bytes_along(values, d);
        p.lines *= index->shape[d];
    }
    if (p.lines * p.length == 0) return NBX_OK;
    p.wide = p.lines * p.length >= (int64_t)1 << 31;
    p.by_length = ewc_divisor_of(p.length), p.by_lines = ewc_divisor_of(p.lines);
    for (int d = 0; d < p.rank; d++) p.by_shape[d] = ewc_divisor_of(p.shape[d]);
    const bool ordered = write && how != NBX_COMBINE_SET && !nbx_dtype_is_integral((nbx_dtype)table->dtype, true);
    const int64_t items = ordered ? p.lines : p.lines * p.length;
    const unsigned blocks = (unsigned)((items + ROW_THREADS - 1) / ROW_THREADS);
    if (write && how == NBX_COMBINE_SET && values && p.length > NBX_SCATTER_SHORT) {
        p.last = (uint32_t *)c->scratch;
        const nbx_status status = nbx_cuda_set_bytes(c, p.last, 0, sizeof(uint32_t) * (size_t)(p.lines * p.size));
        if (status != NBX_OK) return status;
        claim_elements<<<blocks, ROW_THREADS, 0, stream_of(c)>>>(p);
    }
    if (p.narrow ? launch_quads<int32_t>(p, stream_of(c)) : launch_quads<int64_t>(p, stream_of(c))) return launch_status(c);
    if (ordered && room && p.length > NBX_COMBINE_SHORT && p.size < UINT32_MAX) {
        sorted_rows sorted;
        const unsigned all = (unsigned)((p.lines * p.length + ROW_THREADS - 1) / ROW_THREADS);
        key_elements<<<all, ROW_THREADS, 0, stream_of(c)>>>(p, (uint32_t *)room);
        const nbx_status status = sort_keys(c, room, p.lines, p.length, &sorted);
        if (status != NBX_OK) return status;
        combine_sorted_lines<<<all, ROW_THREADS, 0, stream_of(c)>>>(p, sorted);
        return launch_status(c);
    }
    if (ordered) combine_lines<<<blocks, ROW_THREADS, 0, stream_of(c)>>>(p);
    else move_elements<<<blocks, ROW_THREADS, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

static nbx_status gather_cuda(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 2), *out = out_get(c, 0);
    if (out->numel == 0) return NBX_OK;
    int dim;
    const nbx_status status = nbx_call_dim(c, arg_int(c, 1), self->rank, &dim);
    return status != NBX_OK ? status : run_lines(c, dim, index, self, out, false, NBX_COMBINE_SET, NULL);
}

// scatter(self, dim, index, src | value), scatter_add
static nbx_status scatter_how(nbx_op_call *c, nbx_combine how) {
    const nbx_tensor *index = arg_tensor(c, 2), *src = arg_tensor(c, 3), *out = out_get(c, 0);
    nbx_status status = start_from_self(c);
    if (status != NBX_OK || index->numel == 0) return status;
    double number[2] = {0, 0};
    if (!src) ew_store_number((nbx_dtype)out->dtype, number, &c->args[3]);
    return run_lines(c, (int)arg_int(c, 1), index, out, src, true, how, number, how == NBX_COMBINE_SET ? NULL : sort_room(c, 0));
}
static nbx_status scatter_cuda(nbx_op_call *c) { return scatter_how(c, NBX_COMBINE_SET); }
static nbx_status scatter_add_cuda(nbx_op_call *c) { return scatter_how(c, NBX_COMBINE_ADD); }

// With a reduction named by argument 4. Means count per element, in scratch.
static nbx_status scatter_reduce_cuda(nbx_op_call *c) {
    const nbx_tensor *index = arg_tensor(c, 2), *src = arg_tensor(c, 3), *out = out_get(c, 0);
    const int dim = (int)arg_int(c, 1);
    const bool include_self = c->arg_count <= 5 || c->args[5].kind != NBX_KIND_BOOL || arg_bool(c, 5);
    nbx_combine how;
    bool mean;
    double number[2] = {0, 0}, one[2] = {0, 0};
    if (!nbx_combine_parse(arg_string(c, 4), &how, &mean)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "unknown reduction");
    nbx_status status = start_from_self(c);
    if (status != NBX_OK || index->numel == 0) return status;
    nbx_combine_identity(how, (nbx_dtype)out->dtype, number);
    if (!include_self) status = run_lines(c, dim, index, out, NULL, true, NBX_COMBINE_SET, number);
    if (!src) ew_store_number((nbx_dtype)out->dtype, number, &c->args[3]);
    if (status == NBX_OK) status = run_lines(c, dim, index, out, src, true, how, number, sort_room(c, mean ? out->numel * 8 : 0));
    if (status != NBX_OK || !mean) return status;
    device_view v;
    int64_t stride = 1;
    for (int d = out->rank - 1; d >= 0; d--) v.shape[d] = out->shape[d], v.stride[d] = stride, stride *= out->shape[d];
    const nbx_tensor *table = view_of(&v, c->scratch, NBX_INT64, out->rank);
    flat all, counts;
    status = flat_of(c, out, &all);
    if (status == NBX_OK) status = flat_of(c, table, &counts);
    if (status == NBX_OK) status = nbx_cuda_set_bytes(c, c->scratch, 0, (size_t)out->numel * 8);
    const int64_t unit = 1;
    memcpy(one, &unit, sizeof unit);
    if (status == NBX_OK) status = run_lines(c, dim, index, table, NULL, true, NBX_COMBINE_ADD, one);
    if (status != NBX_OK) return status;
    divide_all<<<flat_blocks(all.count), FLAT_THREADS, 0, stream_of(c)>>>(all, counts, include_self);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::gather", gather_cuda)
NBX_CUDA_KERNEL("aten::scatter.src", scatter_cuda)
NBX_CUDA_KERNEL("aten::scatter.value", scatter_cuda)
NBX_CUDA_KERNEL("aten::scatter_add", scatter_add_cuda)
NBX_CUDA_KERNEL("aten::scatter.reduce", scatter_reduce_cuda)
NBX_CUDA_KERNEL("aten::scatter.value_reduce", scatter_reduce_cuda)
NBX_CUDA_KERNEL("aten::scatter_reduce.two", scatter_reduce_cuda)

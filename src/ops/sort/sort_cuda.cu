// sort, topk and kthvalue on CUDA.
//   rows up to 2048     sorted in shared memory (bitonic over key and place, so it is stable); short rows share a block
//   longer rows         least significant byte first: every tile of 4096 counts its digits, the counts are added up over tiles,
//                       and every tile moves its entries to their places; a warp ranks 32 neighbours at once by matching
//   topk, kthvalue      a block for each row finds the key of the wanted rank byte by byte, then collects in order
#include "ops/sort/keys.cuh"

enum { SORT_THREADS = 256, SORT_WARPS = SORT_THREADS / 32, SORT_ROUNDS = NBX_SORT_TILE / SORT_THREADS };

// What becomes of sorted entries: values and places, or the arrays in scratch. The first `limit` of each row.
typedef struct sort_sink {
    flat values, places;       // over the rows
    int64_t values_step, places_step;
    uint64_t *keys;            // not NULL: these, [row][length]
    uint32_t *where;
    int64_t limit;
} sort_sink;

static __device__ __forceinline__ void emit(const key_rows &k, const sort_sink &s, int64_t row, int64_t rank, uint64_t key, uint32_t place) {
    if (s.keys) {
        s.keys[row * k.along.count + rank] = key;
        s.where[row * k.along.count + rank] = place;
        return;
    }
    copy_element(k.rows.width, flat_at(s.values, row) + rank * s.values_step, flat_at(k.rows, row) + flat_offset(k.along, place));
    *(int64_t *)(flat_at(s.places, row) + rank * s.places_step) = place;
}

// ------------------------------------------------------------------------------------------------------------ short rows
// `size` is the power of two that holds a row; a block sorts `together` rows.
static __global__ void __launch_bounds__(512) sort_short(const __grid_constant__ key_rows k, const __grid_constant__ sort_sink s, int size, int together) {
    __shared__ uint64_t keys[SORT_SMALL];
    __shared__ uint32_t places[SORT_SMALL];
    const int per_row = (int)blockDim.x / together, mine = (int)threadIdx.x / per_row, thread = (int)threadIdx.x % per_row;
    const int64_t row = (int64_t)blockIdx.x * together + mine, length = k.along.count;
    const bool exists = row < k.rows.count;
    const char *from = exists ? flat_at(k.rows, row) : NULL;
    uint64_t *own_keys = keys + mine * size;
    uint32_t *own_places = places + mine * size;
    for (int i = thread; i < size; i += per_row) {
        own_keys[i] = exists && i < length ? row_key(k, from, i) : ~(uint64_t)0;
        own_places[i] = i < length ? (uint32_t)i : 0xffffffffu;  // the padding stays behind
    }
    __syncthreads();
    sort_shared(own_keys, own_places, size, thread, per_row);
    for (int i = thread; exists && i < s.limit; i += per_row) emit(k, s, row, i, own_keys[i], own_places[i]);
}

// ------------------------------------------------------------------------------------------------------------- long rows
typedef struct radix {
    uint64_t *keys, *other_keys;
    uint32_t *places, *other_places;
    uint32_t *counts, *totals;  // [row][digit][tile], [row][digit]
    int64_t length, tiles;
    int shift;
} radix;

static __global__ void __launch_bounds__(FLAT_THREADS) make_entries(const __grid_constant__ key_rows k, uint64_t *keys, uint32_t *places) {
    const int64_t item = flat_item(), length = k.along.count;
    if (item >= k.rows.count * length) return;
    const int64_t row = item / length, i = item - row * length;
    keys[item] = row_key(k, flat_at(k.rows, row), i);
    places[item] = (uint32_t)i;
}

static __global__ void __launch_bounds__(SORT_THREADS) count_digits(const radix r) {
    __shared__ unsigned counts[256];
    const int64_t row = blockIdx.x / r.tiles, tile = blockIdx.x % r.tiles, begin = tile * NBX_SORT_TILE;
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t i = begin + threadIdx.x; i < begin + NBX_SORT_TILE && i < r.length; i += SORT_THREADS)
        atomicAdd(&counts[r.keys[row * r.length + i] >> r.shift & 255], 1u);
    __syncthreads();
    r.counts[(row * 256 + threadIdx.x) * r.tiles + tile] = counts[threadIdx.x];
}

// A block for each digit of each row: its counts become sums over the tiles before.
static __global__ void __launch_bounds__(SORT_THREADS) add_up_tiles(const radix r) {
    __shared__ unsigned room[33];
    uint32_t *counts = r.counts + (int64_t)blockIdx.x * r.tiles;
    unsigned carry = 0, total;
    for (int64_t begin = 0; begin < r.tiles; begin += SORT_THREADS) {
        const int64_t i = begin + threadIdx.x;
        const unsigned before = block_before(i < r.tiles ? counts[i] : 0u, room, &total);
        if (i < r.tiles) counts[i] = carry + before;
        carry += total;
    }
    if (threadIdx.x == 0) r.totals[blockIdx.x] = carry;
}

static __global__ void __launch_bounds__(SORT_THREADS) move_entries(const radix r) {
    __shared__ unsigned counts[SORT_WARPS][256], room[33];
    const int tid = (int)threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int64_t row = blockIdx.x / r.tiles, tile = blockIdx.x % r.tiles, base = row * r.length;
    const int64_t begin = tile * NBX_SORT_TILE + warp * (NBX_SORT_TILE / SORT_WARPS) + lane;
    unsigned total;
    const unsigned below = block_before(r.totals[row * 256 + tid], room, &total);  // entries of lower digits in the row
#pragma unroll
    for (int w = 0; w < SORT_WARPS; w++) counts[w][tid] = 0;
    __syncthreads();
    uint64_t keys[SORT_ROUNDS];
    unsigned ranks[SORT_ROUNDS];
#pragma unroll
    for (int j = 0; j < SORT_ROUNDS; j++) {  // 32 neighbours at a time; ranks rise with the place
        const int64_t i = begin + j * 32;
        const bool here = i < r.length;
        keys[j] = here ? r.keys[base + i] : 0;
        const unsigned digit = here ? (unsigned)(keys[j] >> r.shift & 255) : 256u;
        const unsigned peers = __match_any_sync(~0u, digit);
        const unsigned before = here ? counts[warp][digit & 255] : 0;
        ranks[j] = before + (unsigned)__popc(peers & ((1u << lane) - 1));
        __syncwarp();
        if (here && lane == __ffs((int)peers) - 1) counts[warp][digit] = before + (unsigned)__popc(peers);
        __syncwarp();
    }
    __syncthreads();
    unsigned at = below + r.counts[(row * 256 + tid) * r.tiles + tile];
#pragma unroll
    for (int w = 0; w < SORT_WARPS; w++) {
        const unsigned here = counts[w][tid];
        counts[w][tid] = at;
        at += here;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < SORT_ROUNDS; j++) {
        const int64_t i = begin + j * 32;
        if (i >= r.length) continue;
        const int64_t to = base + counts[warp][keys[j] >> r.shift & 255] + ranks[j];
        r.other_keys[to] = keys[j];
        r.other_places[to] = r.places[base + i];
    }
}

static __global__ void __launch_bounds__(FLAT_THREADS) write_sorted(const __grid_constant__ key_rows k, const __grid_constant__ sort_sink s, const uint64_t *keys,
                                                                    const uint32_t *places) {
    const int64_t item = flat_item();
    if (item >= k.rows.count * s.limit) return;
    const int64_t row = item / s.limit, rank = item - row * s.limit, from = row * k.along.count + rank;
    emit(k, s, row, rank, keys[from], places[from]);
}

static int power_of_two(int64_t n) {
    int size = 2;
    while (size < n) size *= 2;
    return size;
}

static void sort_short_rows(const key_rows &k, const sort_sink &s, cudaStream_t stream) {
    const int size = power_of_two(k.along.count);
    const int threads = size > 1024 ? 512 : 256, together = size >= 512 ? 1 : 512 / size;
    const int64_t blocks = (k.rows.count + together - 1) / together;
    sort_short<<<(unsigned)blocks, threads, 0, stream>>>(k, s, size, together);
}

static radix radix_of(const key_rows &k, void *scratch) {
    radix r;
    const int64_t count = k.rows.count * k.along.count;
    r.length = k.along.count;
    r.tiles = (r.length + NBX_SORT_TILE - 1) / NBX_SORT_TILE;
    r.keys = (uint64_t *)scratch;
    r.other_keys = r.keys + count;
    r.places = (uint32_t *)(r.other_keys + count);
    r.other_places = r.places + count;
    r.counts = r.other_places + count;
    r.totals = r.counts + k.rows.count * 256 * r.tiles;
    r.shift = 0;
    return r;
}

static void sort_long_rows(const key_rows &k, radix *r, cudaStream_t stream) {
    const int64_t count = k.rows.count * r->length;
    const unsigned tiles = (unsigned)(k.rows.count * r->tiles);
    make_entries<<<flat_blocks(count), FLAT_THREADS, 0, stream>>>(k, r->keys, r->places);
    for (int byte = 0; byte < k.rows.width; byte++) {
        r->shift = 8 * byte;
        count_digits<<<tiles, SORT_THREADS, 0, stream>>>(*r);
        add_up_tiles<<<(unsigned)(k.rows.count * 256), SORT_THREADS, 0, stream>>>(*r);
        move_entries<<<tiles, SORT_THREADS, 0, stream>>>(*r);
        uint64_t *keys = r->keys;
        uint32_t *places = r->places;
        r->keys = r->other_keys, r->other_keys = keys;
        r->places = r->other_places, r->other_places = places;
    }
}

static nbx_status check_length(nbx_op_call *c, const key_rows &k) {
    if (k.along.count < (int64_t)1 << 31 && k.rows.count * k.along.count < (int64_t)1 << 38) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "rows of 2^31 elements and more on CUDA");
}

nbx_status nbx_cuda_sort_rows(nbx_op_call *c, const key_rows *k, void *scratch, sorted_rows *sorted) {
    const nbx_status status = check_length(c, *k);
    radix r = radix_of(*k, scratch);
    sorted->keys = r.keys, sorted->places = r.places;
    if (status != NBX_OK || k->rows.count * k->along.count == 0) return status;
    if (k->along.count <= SORT_SMALL) {
        sort_sink s = {};
        s.keys = r.keys, s.where = r.places, s.limit = k->along.count;
        sort_short_rows(*k, s, stream_of(c));
    } else {
        sort_long_rows(*k, &r, stream_of(c));
        sorted->keys = r.keys, sorted->places = r.places;
    }
    return launch_status(c);
}

// ------------------------------------------------------------------------------------------------------------- operators
static uint64_t others_than(int dim) { return ~((uint64_t)1 << dim); }

// The rows of t along a dim that a result may have lost.
static nbx_status rows_along(nbx_op_call *c, const nbx_tensor *t, bool has_dim, int dim, flat *rows, int64_t *step) {
    *step = has_dim && t->rank ? t->stride[dim] * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype) : 0;
    return flat_of_dims(c, t, has_dim && t->rank ? others_than(dim) : ~(uint64_t)0, rows);
}

static nbx_status plan(nbx_op_call *c, int dim, bool falling, key_rows *k, sort_sink *s) {
    const nbx_tensor *self = arg_tensor(c, 0), *values = out_get(c, 0), *places = out_get(c, 1);
    const bool has_dim = values->rank == self->rank;
    k->falling = falling;
    s->keys = NULL, s->where = NULL;
    nbx_status status = flat_of_dims(c, self, self->rank ? others_than(dim) : 0, &k->rows);
    if (status == NBX_OK) status = flat_of_dims(c, self, self->rank ? ~others_than(dim) : 0, &k->along);
    if (status == NBX_OK) status = rows_along(c, values, has_dim, dim, &s->values, &s->values_step);
    if (status == NBX_OK) status = rows_along(c, places, has_dim, dim, &s->places, &s->places_step);
    return status == NBX_OK ? check_length(c, *k) : status;
}

static nbx_status sort_all(nbx_op_call *c, const key_rows &k, const sort_sink &s) {
    if (k.along.count <= SORT_SMALL) {
        sort_short_rows(k, s, stream_of(c));
        return launch_status(c);
    }
    radix r = radix_of(k, c->scratch);
    sort_long_rows(k, &r, stream_of(c));
    write_sorted<<<flat_blocks(k.rows.count * s.limit), FLAT_THREADS, 0, stream_of(c)>>>(k, s, r.keys, r.places);
    return launch_status(c);
}

template <int DIM, int FALLING> static nbx_status sort_cuda(nbx_op_call *c) {
    key_rows k;
    sort_sink s;
    if (arg_tensor(c, 0)->numel == 0) return NBX_OK;
    const nbx_status status = plan(c, (int)arg_int(c, DIM), arg_bool(c, FALLING), &k, &s);
    s.limit = k.along.count;
    return status == NBX_OK ? sort_all(c, k, s) : status;
}

// The k first of a row: those before the key of rank k - 1, and of those that share it the first ones.
static __global__ void __launch_bounds__(512) select_first(const __grid_constant__ key_rows k, const __grid_constant__ sort_sink s, int size) {
    __shared__ uint64_t keys[NBX_DEVICE_TOPK];
    __shared__ uint32_t places[NBX_DEVICE_TOPK];
    __shared__ unsigned long long hist[256];
    __shared__ int64_t room[33];
    const int64_t row = blockIdx.x, length = k.along.count;
    const char *from = flat_at(k.rows, row);
    int64_t rank = s.limit - 1, below = 0, equal = 0, total;
    const uint64_t last = select_key(k, from, length, &rank, hist);
    const int64_t ties = rank + 1, lower = s.limit - ties;  // lower ones come first here, then the ties
    for (int i = (int)threadIdx.x; i < size; i += (int)blockDim.x) keys[i] = ~(uint64_t)0, places[i] = 0xffffffffu;
    __syncthreads();
    for (int64_t begin = 0; begin < length; begin += blockDim.x) {
        const int64_t i = begin + threadIdx.x;
        const uint64_t key = i < length ? row_key(k, from, i) : 0;
        const bool is_below = i < length && key < last, is_equal = i < length && key == last;
        // both counts in one sum
        const int64_t before = block_before((int64_t)is_below + ((int64_t)is_equal << 32), room, &total);
        const int64_t at = is_below ? below + (before & 0xffffffff) : lower + equal + (before >> 32);
        if (is_below || (is_equal && equal + (before >> 32) < ties)) keys[at] = key, places[at] = (uint32_t)i;
        below += total & 0xffffffff;
        equal += total >> 32;
    }
    __syncthreads();
    sort_shared(keys, places, size, (int)threadIdx.x, (int)blockDim.x);
    for (int i = (int)threadIdx.x; i < s.limit; i += (int)blockDim.x) emit(k, s, row, i, keys[i], places[i]);
}

static nbx_status topk_cuda(nbx_op_call *c) {
    key_rows k;
    sort_sink s;
    if (out_get(c, 0)->numel == 0) return NBX_OK;
    const nbx_status status = plan(c, (int)arg_int(c, 2), arg_bool(c, 3), &k, &s);
    s.limit = arg_int(c, 1);
    if (status != NBX_OK) return status;
    if (k.along.count <= SORT_SMALL || s.limit > NBX_DEVICE_TOPK) return sort_all(c, k, s);
    select_first<<<(unsigned)k.rows.count, 512, 0, stream_of(c)>>>(k, s, power_of_two(s.limit));
    return launch_status(c);
}

static __global__ void __launch_bounds__(256) select_one(const __grid_constant__ key_rows k, const __grid_constant__ sort_sink s, int64_t wanted) {
    __shared__ unsigned long long hist[256];
    __shared__ int64_t room[33];
    const char *from = flat_at(k.rows, blockIdx.x);
    int64_t rank = wanted, seen = 0, total;
    const uint64_t key = select_key(k, from, k.along.count, &rank, hist);
    for (int64_t begin = 0; begin < k.along.count && seen <= rank; begin += blockDim.x) {
        const int64_t i = begin + threadIdx.x;
        const bool same = i < k.along.count && row_key(k, from, i) == key;
        const int64_t before = block_before((int64_t)same, room, &total);
        if (same && seen + before == rank) emit(k, s, blockIdx.x, 0, key, (uint32_t)i);
        seen += total;
    }
}

static nbx_status kthvalue_cuda(nbx_op_call *c) {
    key_rows k;
    sort_sink s;
    if (out_get(c, 0)->numel == 0) return NBX_OK;
    const nbx_status status = plan(c, (int)arg_int(c, 2), false, &k, &s);
    if (status != NBX_OK) return status;
    select_one<<<(unsigned)k.rows.count, 256, 0, stream_of(c)>>>(k, s, arg_int(c, 1) - 1);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::sort", sort_cuda<1, 2>)
NBX_CUDA_KERNEL("aten::sort.stable", sort_cuda<2, 3>)
NBX_CUDA_KERNEL("aten::topk", topk_cuda)
NBX_CUDA_KERNEL("aten::kthvalue", kthvalue_cuda)

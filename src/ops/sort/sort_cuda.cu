// sort, topk and kthvalue on CUDA.
//   rows up to 2048     sorted in shared memory (bitonic over key and place, so it is stable); short rows share a block
//   longer rows         least significant byte first: every tile of 8192 (4096 of 8-byte elements) counts its digits, the counts
//                       are added up over tiles, and every tile moves its entries to their places; a warp ranks 32 neighbours at
//                       once by voting on the bits of their digits
//   kthvalue, and topk  of 8-byte elements: a block for each row finds the key of the wanted rank byte by byte, then collects in
//                       order; other topk: topk_cuda.cu
#include "ops/sort/keys.cuh"

enum { SORT_THREADS = 512, SORT_WARPS = SORT_THREADS / 32 };

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
// K: uint32_t for elements of at most 4 bytes. SOURCE: the first pass, which reads the elements; SINK: the last, which writes
// the results. A tile is put in order in shared memory before it is written, so that neighbours of a digit go out together.
typedef struct radix {
    const void *keys;
    const uint32_t *places;
    void *keys_to;
    uint32_t *places_to;
    uint32_t *counts, *totals;  // [row][digit][tile], [row][digit]
    int64_t length, tiles;
    int shift;
} radix;

// DTYPE: of dense rows, known when compiling; -1: any. Only NBX_FLOAT32 has kernels of its own.
template <typename K, int DTYPE> static __device__ __forceinline__ K source_key(const key_rows &k, const char *from, int64_t i) {
    if (DTYPE < 0) return (K)row_key(k, from, i);
    const uint32_t key = (uint32_t)key_of(DTYPE, from + i * 4);
    return (K)(k.falling ? ~key : key);
}

template <typename K> struct sort_tile { enum { EACH = sizeof(K) == 4 ? 16 : 8, COUNT = SORT_THREADS * EACH }; };

template <typename K, int DTYPE, bool SOURCE> static __global__ void __launch_bounds__(SORT_THREADS) count_digits(const __grid_constant__ key_rows k, const radix r) {
    enum { COPIES = 8, TILE = sort_tile<K>::COUNT };  // of each count: bits of an exponent are few numbers
    __shared__ unsigned counts[256 * COPIES];
    const int64_t row = blockIdx.x / r.tiles, tile = blockIdx.x % r.tiles, begin = tile * TILE;
    const char *from = SOURCE ? flat_at(k.rows, row) : NULL;
    for (int i = (int)threadIdx.x; i < 256 * COPIES; i += SORT_THREADS) counts[i] = 0;
    __syncthreads();
#pragma unroll 8
    for (int j = 0; j < sort_tile<K>::EACH; j++) {
        const int64_t i = begin + j * SORT_THREADS + threadIdx.x;
        if (i >= r.length) continue;
        const K key = SOURCE ? source_key<K, DTYPE>(k, from, i) : ((const K *)r.keys)[row * r.length + i];
        atomicAdd(&counts[(unsigned)(key >> r.shift & 255) * COPIES + threadIdx.x % COPIES], 1u);
    }
    __syncthreads();
    if (threadIdx.x >= 256) return;
    unsigned sum = 0;
#pragma unroll
    for (int i = 0; i < COPIES; i++) sum += counts[threadIdx.x * COPIES + (i + threadIdx.x) % COPIES];
    r.counts[(row * 256 + threadIdx.x) * r.tiles + tile] = sum;
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

template <typename K, int DTYPE, bool SOURCE, bool SINK>
static __global__ void __launch_bounds__(SORT_THREADS, 2) move_entries(const __grid_constant__ key_rows k, const __grid_constant__ sort_sink s, const radix r) {
    enum { EACH = sort_tile<K>::EACH, TILE = sort_tile<K>::COUNT };
    __shared__ union {
        unsigned counts[SORT_WARPS][256];
        K keys[TILE];
        uint32_t places[TILE];
    } shared;
    __shared__ unsigned base[256];
    __shared__ uint64_t room[33];
    const int tid = (int)threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int64_t row = blockIdx.x / r.tiles, tile = blockIdx.x % r.tiles, begin = tile * TILE;
    const int count = r.length - begin < TILE ? (int)(r.length - begin) : TILE, mine = warp * 32 * EACH + lane;
    const char *from = SOURCE || SINK ? flat_at(k.rows, row) : NULL;
    const K *keys_from = (const K *)r.keys + row * r.length + begin;
    const uint32_t *places_from = r.places + row * r.length + begin;
    K keys[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int i = mine + j * 32;
        keys[j] = i >= count ? (K)~(K)0 : SOURCE ? source_key<K, DTYPE>(k, from, begin + i) : keys_from[i];  // what is not there comes last
    }
    const unsigned in_row = tid < 256 ? r.totals[row * 256 + tid] : 0, ahead = tid < 256 ? r.counts[(row * 256 + tid) * r.tiles + tile] : 0;
    for (int w = tid / 256; w < SORT_WARPS; w += SORT_THREADS / 256) shared.counts[w][tid % 256] = 0;
    __syncthreads();
    unsigned at[EACH / 2];  // in the tile: 16 bits of each
#pragma unroll
    for (int j = 0; j < EACH; j++) {  // 32 neighbours at a time; ranks rise with the place
        const unsigned digit = (unsigned)(keys[j] >> r.shift & 255);
        unsigned peers = ~0u;
#pragma unroll
        for (int bit = 0; bit < 8; bit++) {
            const bool set = digit >> bit & 1;
            const unsigned votes = __ballot_sync(~0u, set);
            peers &= set ? votes : ~votes;
        }
        const unsigned before = shared.counts[warp][digit];
        const unsigned rank = before + (unsigned)__popc(peers & ((1u << lane) - 1));
        at[j / 2] = j % 2 ? at[j / 2] | rank << 16 : rank;
        __syncwarp();
        if (lane == __ffs((int)peers) - 1) shared.counts[warp][digit] = before + (unsigned)__popc(peers);
        __syncwarp();
    }
    __syncthreads();
    unsigned here = 0;
    if (tid < 256)
#pragma unroll
        for (int w = 0; w < SORT_WARPS; w++) here += shared.counts[w][tid];
    uint64_t total;
    const uint64_t below = block_before((uint64_t)in_row << 32 | here, room, &total);  // entries of lower digits: in the row, in the tile
    unsigned first = (unsigned)below;
    if (tid < 256) {
        base[tid] = (unsigned)(below >> 32) + ahead - first;
#pragma unroll
        for (int w = 0; w < SORT_WARPS; w++) {
            const unsigned own = shared.counts[w][tid];
            shared.counts[w][tid] = first;
            first += own;
        }
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < EACH; j++) at[j / 2] += shared.counts[warp][keys[j] >> r.shift & 255] << (j % 2 * 16);
    __syncthreads();
#pragma unroll
    for (int j = 0; j < EACH; j++) shared.keys[at[j / 2] >> (j % 2 * 16) & 0xffff] = keys[j];
    uint32_t places[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int i = mine + j * 32;
        places[j] = SOURCE ? (uint32_t)(begin + i) : i < count ? places_from[i] : 0;
    }
    __syncthreads();
    K *keys_to = (K *)r.keys_to + row * r.length;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int i = j * SORT_THREADS + tid;
        keys[j] = shared.keys[i];
        if (!SINK && i < count) keys_to[base[keys[j] >> r.shift & 255] + (unsigned)i] = keys[j];
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < EACH; j++) shared.places[at[j / 2] >> (j % 2 * 16) & 0xffff] = places[j];
    __syncthreads();
    uint32_t *places_on = r.places_to + row * r.length;
    const bool arrays = !SINK || s.keys;
    char *values_to = arrays ? NULL : flat_at(s.values, row), *places_to = arrays ? NULL : flat_at(s.places, row);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int i = j * SORT_THREADS + tid;
        if (i >= count) continue;
        const unsigned rank = base[keys[j] >> r.shift & 255] + (unsigned)i;
        const uint32_t place = shared.places[i];
        if (!SINK) {
            places_on[rank] = place;
        } else if (arrays) {
            s.keys[row * r.length + rank] = keys[j];
            s.where[row * r.length + rank] = place;
        } else if (rank < s.limit) {
            uint64_t bits;
            const int dtype = DTYPE < 0 ? k.rows.dtype : DTYPE, width = DTYPE < 0 ? k.rows.width : 4;
            const bool known = element_of_key(dtype, k.falling ? keys[j] ^ key_mask(width) : keys[j], &bits);
            if (DTYPE >= 0) *(uint32_t *)(values_to + rank * s.values_step) = known ? (uint32_t)bits : *(const uint32_t *)(from + place * 4ll);
            else copy_element(width, values_to + rank * s.values_step, known ? (const char *)&bits : from + flat_offset(k.along, place));
            *(int64_t *)(places_to + rank * s.places_step) = place;
        }
    }
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

// Arrays in scratch: two of keys, two of places. The two of narrow keys lie in the second one of keys.
typedef struct sort_arrays {
    uint64_t *keys;      // of sorted rows
    void *passing[2];    // pass p writes [p & 1]
    uint32_t *places[2];
    uint32_t *counts;
} sort_arrays;

static sort_arrays arrays_of(const key_rows &k, void *scratch) {
    const int64_t count = k.rows.count * k.along.count;
    sort_arrays a;
    a.keys = (uint64_t *)scratch;
    a.passing[0] = a.keys + count;
    a.passing[1] = k.rows.width == 8 ? (void *)a.keys : (uint32_t *)a.passing[0] + count;
    a.places[0] = (uint32_t *)(a.keys + 2 * count);
    a.places[1] = a.places[0] + count;
    a.counts = a.places[1] + count;
    return a;
}

static uint32_t *sorted_places(const key_rows &k, const sort_arrays &a) { return a.places[k.along.count <= SORT_SMALL ? 0 : (k.rows.width - 1) & 1]; }

template <typename K, int DTYPE> static void sort_long_rows(const key_rows &k, const sort_sink &s, const sort_arrays &a, cudaStream_t stream) {
    radix r;
    r.length = k.along.count;
    r.tiles = (r.length + sort_tile<K>::COUNT - 1) / sort_tile<K>::COUNT;
    r.counts = a.counts, r.totals = a.counts + k.rows.count * 256 * r.tiles;
    const unsigned tiles = (unsigned)(k.rows.count * r.tiles);
    for (int byte = 0; byte < k.rows.width; byte++) {
        const bool source = byte == 0, sink = byte == k.rows.width - 1;
        r.shift = 8 * byte;
        r.keys = a.passing[(byte + 1) & 1], r.keys_to = a.passing[byte & 1];
        r.places = a.places[(byte + 1) & 1], r.places_to = a.places[byte & 1];
        if (source) count_digits<K, DTYPE, true><<<tiles, SORT_THREADS, 0, stream>>>(k, r);
        else count_digits<K, -1, false><<<tiles, SORT_THREADS, 0, stream>>>(k, r);
        add_up_tiles<<<(unsigned)(k.rows.count * 256), SORT_THREADS, 0, stream>>>(r);
        if (source && sink) move_entries<K, -1, true, true><<<tiles, SORT_THREADS, 0, stream>>>(k, s, r);
        else if (source) move_entries<K, DTYPE, true, false><<<tiles, SORT_THREADS, 0, stream>>>(k, s, r);
        else if (sink) move_entries<K, DTYPE, false, true><<<tiles, SORT_THREADS, 0, stream>>>(k, s, r);
        else move_entries<K, -1, false, false><<<tiles, SORT_THREADS, 0, stream>>>(k, s, r);
    }
}

static void sort_rows(const key_rows &k, const sort_sink &s, void *scratch, cudaStream_t stream) {
    if (k.along.count <= SORT_SMALL) sort_short_rows(k, s, stream);
    else if (k.rows.width == 8) sort_long_rows<uint64_t, -1>(k, s, arrays_of(k, scratch), stream);
    else if (k.rows.dtype == NBX_FLOAT32 && k.along.rank == 1 && k.along.stride[0] == 4) sort_long_rows<uint32_t, NBX_FLOAT32>(k, s, arrays_of(k, scratch), stream);
    else sort_long_rows<uint32_t, -1>(k, s, arrays_of(k, scratch), stream);
}

static nbx_status check_length(nbx_op_call *c, const key_rows &k) {
    if (k.along.count < (int64_t)1 << 31 && k.rows.count * k.along.count < (int64_t)1 << 38) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "rows of 2^31 elements and more on CUDA");
}

nbx_status nbx_cuda_sort_rows(nbx_op_call *c, const key_rows *k, void *scratch, sorted_rows *sorted) {
    const nbx_status status = check_length(c, *k);
    const sort_arrays a = arrays_of(*k, scratch);
    sort_sink s = {};
    s.keys = a.keys, s.where = sorted_places(*k, a), s.limit = k->along.count;
    sorted->keys = s.keys, sorted->places = s.where;
    if (status != NBX_OK || k->rows.count * k->along.count == 0) return status;
    sort_rows(*k, s, scratch, stream_of(c));
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
    sort_rows(k, s, c->scratch, stream_of(c));
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
static __global__ void __launch_bounds__(512) select_wide(const __grid_constant__ key_rows k, const __grid_constant__ sort_sink s, int size) {
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
    if (k.rows.width <= 4) return nbx_cuda_select_rows(c, &k, &s);
    select_wide<<<(unsigned)k.rows.count, 512, 0, stream_of(c)>>>(k, s, power_of_two(s.limit));
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

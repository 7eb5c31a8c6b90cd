// sort, topk and kthvalue on CUDA.
//   rows up to 2048     sorted in shared memory (bitonic over key and place, so it is stable); short rows share a block
//   longer rows         least significant byte first: the digits of all bytes are counted in one read; then a pass for each byte
//                       moves tiles of 8192 entries (4096 of 8-byte elements) to their places. How many of a digit come in tiles
//                       before is looked up behind: every tile says what it has, and then what it and all before it have. A warp
//                       ranks 32 neighbours at once by voting on the bits of their digits
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
    uint32_t *totals;           // of the byte: [row][digit]
    uint32_t *said, *clear;     // [row][tile][digit]: what tiles say; of the next byte, to be cleared. NULL: there is none
    uint32_t *ticket;           // tiles are taken in order, so that all before one are under way
    int64_t length, tiles;
    int shift;
} radix;

// What a tile says of a digit: 0 nothing yet; its own count, and one; with SAID_ALL: the count of all tiles up to it.
enum : uint32_t { SAID_ALL = 0x80000000u };
static __device__ __forceinline__ void say(uint32_t *at, uint32_t what) { *(volatile uint32_t *)at = what; }

// DTYPE: of dense rows, known when compiling; -1: any. Only NBX_FLOAT32 has kernels of its own.
template <typename K, int DTYPE> static __device__ __forceinline__ K source_key(const key_rows &k, const char *from, int64_t i) {
    if (DTYPE < 0) return (K)row_key(k, from, i);
    const uint32_t key = (uint32_t)key_of(DTYPE, from + i * 4);
    return (K)(k.falling ? ~key : key);
}

template <typename K> struct sort_tile { enum { EACH = sizeof(K) == 4 ? 16 : 8, COUNT = SORT_THREADS * EACH }; };

// Elements of a thread as keys; all are under way before the first is used.
template <typename K, int DTYPE, bool SOURCE, int EACH, int STEP>
static __device__ __forceinline__ void load_keys(const key_rows &k, const char *from, const K *keys_from, int64_t begin, int first, int count, K (&keys)[EACH]) {
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int i = first + j * STEP;
        if (i >= count) keys[j] = 0;
        else if (!SOURCE) keys[j] = keys_from[i];
        else if (DTYPE < 0) keys[j] = (K)row_key(k, from, begin + i);
        else keys[j] = (K)((const uint32_t *)from)[begin + i];
    }
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        if (SOURCE && DTYPE >= 0) keys[j] = source_key<K, DTYPE>(k, (const char *)&keys[j], 0);
        if (first + j * STEP >= count) keys[j] = (K)~(K)0;  // what is not there comes last
    }
}

// The lanes whose numbers agree in the 8 low bits, by 4 instructions a bit.
static __device__ __forceinline__ unsigned lanes_that_share(unsigned digit) {
    unsigned peers = ~0u;
#pragma unroll
    for (int bit = 0; bit < 8; bit++) {
        unsigned votes;
#ifdef __CUDA_ARCH__
        asm volatile("{\n.reg .pred set;\n.reg .b32 own;\nand.b32 own, %1, %2;\nsetp.ne.u32 set, own, 0;\nvote.sync.ballot.b32 %0, set, 0xffffffff;\n@!set not.b32 %0, %0;\n}"
                     : "=r"(votes) : "r"(digit), "r"(1u << bit));
#else
        votes = digit >> bit & 1;
#endif
        peers &= votes;
    }
    return peers;
}

// Counts the digits of all bytes, of one of `parts` parts of a row. COPIES of each count, 32 where there is room: then no two
// lanes meet in a bank (4: 216 us for 64 Mi float32 on an H200, three times what reading takes).
template <typename K> struct digit_counts { enum { THREADS = 1024, MANY = 128 / (int)sizeof(K), FEW = 16 / (int)sizeof(K) }; };
template <typename K, int DTYPE, int COPIES>
static __global__ void __launch_bounds__(1024, 1) count_digits(const __grid_constant__ key_rows k, uint32_t *totals, uint32_t *clear, int64_t rows, int64_t length, int64_t tiles, int64_t parts) {
    enum { BYTES = sizeof(K), THREADS = digit_counts<K>::THREADS, TILE = sort_tile<K>::COUNT, EACH = TILE / THREADS };
    extern __shared__ unsigned counts[];  // [byte][digit][copy]
    const int64_t row = blockIdx.x / parts, part = blockIdx.x % parts;
    const char *from = flat_at(k.rows, row);
    const int tid = (int)threadIdx.x, bytes = k.rows.width;
    for (int i = tid; i < bytes * 256 * COPIES; i += THREADS) counts[i] = 0;
    __syncthreads();
    K keys[EACH], next[EACH];
    const auto size_of = [&](int64_t tile) { return length - tile * TILE < TILE ? (int)(length - tile * TILE) : (int)TILE; };
    if (part < tiles) load_keys<K, DTYPE, true, EACH, THREADS>(k, from, NULL, part * TILE, tid, size_of(part), next);
    for (int64_t tile = part; tile < tiles; tile += parts) {
        const int count = size_of(tile);
#pragma unroll
        for (int j = 0; j < EACH; j++) keys[j] = next[j];
        if (tile + parts < tiles) load_keys<K, DTYPE, true, EACH, THREADS>(k, from, NULL, (tile + parts) * TILE, tid, size_of(tile + parts), next);
        if (tid < 256) clear[(row * tiles + tile) * 256 + tid] = 0;
#pragma unroll
        for (int j = 0; j < EACH; j++) {
            if (tid + j * THREADS >= count) continue;
#pragma unroll
            for (int byte = 0; byte < BYTES; byte++)
                if (byte < bytes) atomicAdd(&counts[(byte * 256 + (unsigned)(keys[j] >> (8 * byte) & 255)) * COPIES + tid % COPIES], 1u);
        }
    }
    __syncthreads();
    for (int i = tid; i < bytes * 256; i += THREADS) {
        unsigned sum = 0;
#pragma unroll
        for (int copy = 0; copy < COPIES; copy++) sum += counts[i * COPIES + (copy + tid) % COPIES];
        if (sum) atomicAdd(&totals[(i / 256 * rows + row) * 256 + i % 256], sum);
    }
}

// How many of a digit the tiles before `tile` have: as far back as one that says it of all.
static __device__ __forceinline__ unsigned look_behind(const uint32_t *said, int64_t tile) {
    enum { AT_ONCE = 4 };
    unsigned sum = 0;
    for (int64_t t = tile - 1; t >= 0; t -= AT_ONCE) {
        uint32_t what[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) what[i] = t - i >= 0 ? *(const volatile uint32_t *)&said[(t - i) * 256] : SAID_ALL;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            while (what[i] == 0) what[i] = *(const volatile uint32_t *)&said[(t - i) * 256];
            if (what[i] & SAID_ALL) return sum + (what[i] & ~SAID_ALL);
            sum += what[i] - 1;
        }
    }
    return sum;
}

template <typename K, int DTYPE, bool SOURCE, bool SINK>
static __global__ void __launch_bounds__(SORT_THREADS, 2) move_entries(const __grid_constant__ key_rows k, const __grid_constant__ sort_sink s, const radix r) {
    enum { EACH = sort_tile<K>::EACH, TILE = sort_tile<K>::COUNT };
    __shared__ union {
        unsigned counts[SORT_WARPS][256];
        K keys[TILE];
        uint32_t places[TILE];
    } shared;
    __shared__ unsigned base[256], ticket;
    __shared__ uint64_t room[33];
    const int tid = (int)threadIdx.x, lane = tid & 31, warp = tid >> 5;
    if (tid == 0) ticket = atomicAdd(r.ticket, 1u);
    for (int w = tid / 256; w < SORT_WARPS; w += SORT_THREADS / 256) shared.counts[w][tid % 256] = 0;
    __syncthreads();
    const int64_t row = ticket / (uint32_t)r.tiles, tile = ticket - row * r.tiles, begin = tile * TILE;
    const int count = r.length - begin < TILE ? (int)(r.length - begin) : TILE, mine = warp * 32 * EACH + lane;
    const char *from = SOURCE || SINK ? flat_at(k.rows, row) : NULL;
    const K *keys_from = (const K *)r.keys + row * r.length + begin;
    const uint32_t *places_from = r.places + row * r.length + begin;
    K keys[EACH];
    load_keys<K, DTYPE, SOURCE, EACH, 32>(k, from, keys_from, begin, mine, count, keys);
    uint32_t *said = r.said + row * r.tiles * 256 + tid;  // tid < 256: of this digit
    if (r.clear && tid < 256) r.clear[(row * r.tiles + tile) * 256 + tid] = 0;
    if (!SOURCE && tid < TILE / 32 && tid * 32 < count) asm volatile("prefetch.global.L2 [%0];" ::"l"(places_from + tid * 32));
    const unsigned in_row = tid < 256 ? r.totals[row * 256 + tid] : 0;
    unsigned at[EACH / 2];  // in the tile: 16 bits of each
    const unsigned below_me = (1u << lane) - 1;
#pragma unroll
    for (int j = 0; j < EACH; j++) {  // 32 neighbours at a time; ranks rise with the place
        const unsigned digit = (unsigned)(keys[j] >> r.shift & 255);
        const unsigned peers = lanes_that_share(digit), before = shared.counts[warp][digit], lower = (unsigned)__popc(peers & below_me);
        at[j / 2] = j % 2 ? at[j / 2] | (before + lower) << 16 : before + lower;
        __syncwarp();
        if (lower == 0) shared.counts[warp][digit] = before + (unsigned)__popc(peers);
        __syncwarp();
    }
    __syncthreads();
    unsigned here = 0;
    if (tid < 256)
#pragma unroll
        for (int w = 0; w < SORT_WARPS; w++) here += shared.counts[w][tid];
    if (tid < 256) say(&said[tile * 256], tile ? here + 1 : SAID_ALL | here);
    uint64_t total;
    const uint64_t below = block_before((uint64_t)in_row << 32 | here, room, &total);  // entries of lower digits: in the row, in the tile
    unsigned first = (unsigned)below;
    if (tid < 256) {
        base[tid] = (unsigned)(below >> 32) - first;
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
    if (tid < 256 && tile) {
        const unsigned before = look_behind(said, tile);
        say(&said[tile * 256], SAID_ALL | (before + here));
        base[tid] += before;
    }
    __syncthreads();
    K *keys_to = (K *)r.keys_to + row * r.length;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int i = j * SORT_THREADS + tid;
        keys[j] = shared.keys[i];
        const unsigned rank = base[keys[j] >> r.shift & 255] + (unsigned)i;
        if (!SINK && i < count) keys_to[rank] = keys[j];
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
        const unsigned rank = base[keys[j] >> r.shift & 255] + (unsigned)i;
        const uint32_t place = shared.places[i];
        if (!SINK) {
            if (i < count) places_on[rank] = place;
        } else if (i >= count) {
            continue;
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

static __global__ void __launch_bounds__(256) clear_words(uint32_t *to) { to[(int64_t)blockIdx.x * 256 + threadIdx.x] = 0; }

template <typename K, int DTYPE> static void sort_long_rows(const key_rows &k, const sort_sink &s, const sort_arrays &a, const nbx_cuda_facts *facts, cudaStream_t stream) {
    radix r;
    const int64_t rows = k.rows.count, length = k.along.count;
    r.length = length;
    r.tiles = (length + sort_tile<K>::COUNT - 1) / sort_tile<K>::COUNT;
    const int64_t blocks = facts->sm_count, parts = r.tiles * rows <= blocks ? r.tiles : blocks / rows > 0 ? blocks / rows : 1;
    const unsigned tiles = (unsigned)(rows * r.tiles);
    uint32_t *totals = a.counts + 2 * rows * r.tiles * 256, *tickets = totals + rows * 256 * k.rows.width;
    clear_words<<<(unsigned)(rows * k.rows.width + 1), 256, 0, stream>>>(totals);
    enum { MANY = digit_counts<K>::MANY, FEW = digit_counts<K>::FEW, COUNTERS = 256 * 4 };  // of a copy, in bytes, and a byte of the key
    if (facts->shared_bytes >= sizeof(K) * COUNTERS * MANY) {
        shared_limit<&count_digits<K, DTYPE, MANY>>(sizeof(K) * COUNTERS * MANY);
        count_digits<K, DTYPE, MANY><<<(unsigned)(rows * parts), 1024, k.rows.width * COUNTERS * MANY, stream>>>(k, totals, a.counts, rows, length, r.tiles, parts);
    } else {
        count_digits<K, DTYPE, FEW><<<(unsigned)(rows * parts), 1024, k.rows.width * COUNTERS * FEW, stream>>>(k, totals, a.counts, rows, length, r.tiles, parts);
    }
    for (int byte = 0; byte < k.rows.width; byte++) {
        const bool source = byte == 0, sink = byte == k.rows.width - 1;
        r.shift = 8 * byte;
        r.keys = a.passing[(byte + 1) & 1], r.keys_to = a.passing[byte & 1];
        r.places = a.places[(byte + 1) & 1], r.places_to = a.places[byte & 1];
        r.totals = totals + byte * rows * 256, r.ticket = tickets + byte;
        r.said = a.counts + (byte & 1) * rows * r.tiles * 256;
        r.clear = sink ? NULL : a.counts + (~byte & 1) * rows * r.tiles * 256;
        if (source && sink) move_entries<K, -1, true, true><<<tiles, SORT_THREADS, 0, stream>>>(k, s, r);
        else if (source) move_entries<K, DTYPE, true, false><<<tiles, SORT_THREADS, 0, stream>>>(k, s, r);
        else if (sink) move_entries<K, DTYPE, false, true><<<tiles, SORT_THREADS, 0, stream>>>(k, s, r);
        else move_entries<K, -1, false, false><<<tiles, SORT_THREADS, 0, stream>>>(k, s, r);
    }
}

static void sort_rows(const key_rows &k, const sort_sink &s, void *scratch, const nbx_cuda_facts *facts, cudaStream_t stream) {
    if (k.along.count <= SORT_SMALL) sort_short_rows(k, s, stream);
    else if (k.rows.width == 8) sort_long_rows<uint64_t, -1>(k, s, arrays_of(k, scratch), facts, stream);
    else if (k.rows.dtype == NBX_FLOAT32 && k.along.rank == 1 && k.along.stride[0] == 4) sort_long_rows<uint32_t, NBX_FLOAT32>(k, s, arrays_of(k, scratch), facts, stream);
    else sort_long_rows<uint32_t, -1>(k, s, arrays_of(k, scratch), facts, stream);
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
    sort_rows(*k, s, scratch, nbx_cuda_device_facts(c->device.index), stream_of(c));
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
    sort_rows(k, s, c->scratch, nbx_cuda_device_facts(c->device.index), stream_of(c));
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

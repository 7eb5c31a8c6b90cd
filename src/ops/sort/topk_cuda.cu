// topk on CUDA, of elements of at most 4 bytes: each row is read once.
//
// An entry is an element's key above its place, so no two are equal. A block collects the entries below a threshold in shared
// memory; when they are many it sorts them, keeps the k first and lowers the threshold to the last of these. The first threshold
// is a key that k / 4 threads of every warp reach in the first round: few of 128 Ki random elements are entered after it.
// The k first do not depend on the order of entering. Few long rows are cut into parts, whose firsts are then selected from.
#include "ops/elementwise/engine.cuh"
#include "ops/sort/keys.cuh"

#include <type_traits>

enum { TOP_THREADS = 128, TOP_BEST = TOP_THREADS };  // up to so many the first round gives a threshold; several rows an SM

enum { OF_ENTRIES = -2, OF_ANY = -1 };  // beside dtypes of dense, aligned rows: entries, and elements of any dtype and strides

typedef struct top_call {
    key_rows k;
    sort_sink s;
    uint64_t *entries;  // [row][part][s.limit]
    int parts, room;    // room: entries that a block holds, a power of two
    int64_t piece;      // elements of a part
} top_call;

// By the threads that have a pair of entries each; the others wait.
static __device__ __forceinline__ void sort_entries(uint64_t *entries, int count) {
#ifdef __CUDA_ARCH__
    const int threads = count / 2 < TOP_THREADS ? count / 2 : TOP_THREADS;
    const auto meet = [&] { asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory"); };
#else
    const int threads = TOP_THREADS;
    const auto meet = [] { __syncthreads(); };
#endif
    if ((int)threadIdx.x < threads)
        for (int size = 2; size <= count; size <<= 1)
            for (int step = size >> 1; step > 0; step >>= 1) {
                for (int i = (int)threadIdx.x; i < count / 2; i += TOP_THREADS) {
                    const int a = 2 * i - (i & (step - 1)), b = a + step;
                    const uint64_t ea = entries[a], eb = entries[b];
                    if ((ea > eb) == ((a & size) == 0)) entries[a] = eb, entries[b] = ea;
                }
                if (step > 32 || (step == 1 && size > 32)) meet();  // else a warp keeps to its 64 entries
                else __syncwarp();
            }
    __syncthreads();
}

// Sorts the first `count` entries, and gives how many of them are among the `limit` first; absent ones are made.
static __device__ __noinline__ int sort_collected(uint64_t *entries, int count, int limit) {
    int size = 64;
    while (size < count || size < limit) size <<= 1;
    for (int i = count + (int)threadIdx.x; i < size; i += TOP_THREADS) entries[i] = ~(uint64_t)0;
    __syncthreads();
    sort_entries(entries, size);
    return count < limit ? count : limit;
}

template <int DTYPE> static __device__ __forceinline__ uint64_t entry_at(const top_call &p, const char *from, int64_t i) {
    if (DTYPE == OF_ENTRIES) return ((const uint64_t *)from)[i];
    if (DTYPE == OF_ANY) return row_key(p.k, from, i) << 32 | (uint64_t)i;
    const uint64_t key = key_of(DTYPE, from + i * (DTYPE == NBX_FLOAT32 ? 4 : 2));
    return (p.k.falling ? key ^ key_mask(DTYPE == NBX_FLOAT32 ? 4 : 2) : key) << 32 | (uint64_t)i;
}

// The number such that an element comes before the key's one where !(x <= number), or rising !(x >= number), or is a NaN.
template <int DTYPE> static __device__ __forceinline__ float number_of_key(uint32_t key, bool falling) {
    constexpr int WIDTH = DTYPE == NBX_FLOAT32 ? 32 : 16;
    constexpr uint32_t SIGN = 1u << (WIDTH - 1), ALL = SIGN | (SIGN - 1);
    if (falling) key ^= ALL;
    if (key == ALL) return falling ? INFINITY : NAN;
    const uint32_t bits = key & SIGN ? key ^ SIGN : ~key & ALL;
    return DTYPE == NBX_FLOAT32 ? __uint_as_float(bits) : DTYPE == NBX_BFLOAT16 ? ewc_bf16_bits((uint16_t)bits) : ewc_half_bits((uint16_t)bits);
}

// A number that is an element of the dtype, twice in a word.
template <int DTYPE> static __device__ __forceinline__ uint32_t pair_of_number(float x) {
    const uint32_t bits = DTYPE == NBX_BFLOAT16 ? __float_as_uint(x) >> 16 : (uint32_t)__half_as_ushort(__float2half_rn(x));
    return bits << 16 | bits;
}

template <int DTYPE> static __device__ __forceinline__ float element_of(const uint4 &w, int j) {
    const uint32_t word = DTYPE == NBX_FLOAT32 ? (j == 0 ? w.x : j == 1 ? w.y : j == 2 ? w.z : w.w) : (j < 2 ? w.x : j < 4 ? w.y : j < 6 ? w.z : w.w);
    if (DTYPE == NBX_FLOAT32) return __uint_as_float(word);
    if (DTYPE == NBX_BFLOAT16) return __uint_as_float(j % 2 ? word & 0xffff0000u : word << 16);
    return ewc_half_bits((uint16_t)(word >> (j % 2 * 16)));
}

// The largest of a vector, or the smallest; NaN if there is one.
template <int DTYPE, bool LARGEST> static __device__ __forceinline__ float extreme_of(const uint4 &w) {
    if constexpr (DTYPE == NBX_FLOAT32) {
        return nan_extreme<LARGEST>(nan_extreme<LARGEST>(element_of<DTYPE>(w, 0), element_of<DTYPE>(w, 1)),
                                    nan_extreme<LARGEST>(element_of<DTYPE>(w, 2), element_of<DTYPE>(w, 3)));
    } else {
        typedef std::conditional_t<DTYPE == NBX_BFLOAT16, __nv_bfloat162, __half2> pair;
        pair p[4];
        memcpy(p, &w, sizeof p);
        const pair r = LARGEST ? __hmax2_nan(__hmax2_nan(p[0], p[1]), __hmax2_nan(p[2], p[3])) : __hmin2_nan(__hmin2_nan(p[0], p[1]), __hmin2_nan(p[2], p[3]));
        return nan_extreme<LARGEST>(__low2float(r), __high2float(r));
    }
}

// Bits of the elements of a vector that may come before `number`.
template <int DTYPE, bool FALLING> static __device__ __forceinline__ uint32_t candidates(const uint4 &w, float number) {
    constexpr int LANES = DTYPE == NBX_FLOAT32 ? 4 : 8;
    const auto before = [&](float x) { return FALLING ? !(x <= number) : !(x >= number); };
    uint32_t bits = 0;
    if (before(extreme_of<DTYPE, FALLING>(w)))
#pragma unroll
        for (int j = 0; j < LANES; j++) bits |= (uint32_t)before(element_of<DTYPE>(w, j)) << j;
    return bits;
}

// The same of 16-bit elements and a number that is one of them, given twice: two comparisons at a time.
template <int DTYPE, bool FALLING> static __device__ __forceinline__ uint32_t candidates_of_pairs(const uint4 &w, uint32_t number) {
    typedef std::conditional_t<DTYPE == NBX_BFLOAT16, __nv_bfloat162, __half2> pair;
    const uint32_t words[4] = {w.x, w.y, w.z, w.w};
    pair than;
    memcpy(&than, &number, sizeof than);
    uint32_t masks[4], bits = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        pair p;
        memcpy(&p, &words[i], sizeof p);
        masks[i] = FALLING ? __hgtu2_mask(p, than) : __hltu2_mask(p, than);
    }
    if (masks[0] | masks[1] | masks[2] | masks[3]) {
#pragma unroll
        for (int i = 0; i < 4; i++) bits |= masks[i] & (0x00020001u << (2 * i));
        bits = (bits | bits >> 16) & 0xff;
    }
    return bits;
}

template <int DTYPE> static __device__ __forceinline__ uint32_t key_of_number(float x, bool falling) {
    constexpr int SIZE = DTYPE == NBX_FLOAT32 ? 4 : 2;
    const uint32_t bits = DTYPE == NBX_FLOAT32 ? __float_as_uint(x) : DTYPE == NBX_BFLOAT16 ? __float_as_uint(x) >> 16 : __half_as_ushort(__float2half_rn(x));
    const uint64_t key = float_key(bits, 8 * SIZE, DTYPE == NBX_FLOAT32 ? 0x7f800000 : DTYPE == NBX_BFLOAT16 ? 0x7f80 : 0x7c00);
    return (uint32_t)(falling ? key ^ key_mask(SIZE) : key);
}

// A key that at least `wanted` threads of each warp reach; ~0: there is none.
static __device__ __forceinline__ uint32_t common_key(uint32_t key, int wanted, uint32_t *room) {
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
    uint32_t least = 0;
    for (int n = 0; n < wanted; n++) {
        least = key;
#pragma unroll
        for (int step = 16; step; step >>= 1) {
            const uint32_t other = __shfl_xor_sync(~0u, least, step);
            least = other < least ? other : least;
        }
        const unsigned holders = __ballot_sync(~0u, key == least);
        if (lane == __ffs((int)holders) - 1) key = ~0u;
    }
    if (lane == 0) room[warp] = least;
    __syncthreads();
    for (int w = 0; w < TOP_THREADS / 32; w++) least = room[w] > least ? room[w] : least;
    return least;
}

template <int DTYPE> static __global__ void __launch_bounds__(TOP_THREADS, 8) select_first(const __grid_constant__ top_call p) {
    constexpr bool VECTORS = DTYPE >= 0;
    constexpr int LANES = DTYPE == NBX_FLOAT32 ? 4 : 8, TIMES = 4, EACH = VECTORS ? TIMES * LANES : 16, ROUND = TOP_THREADS * EACH, KNOWN = VECTORS ? DTYPE : (int)NBX_FLOAT32;
    extern __shared__ uint64_t entries[];
    __shared__ int count;
    __shared__ uint32_t room[TOP_THREADS / 32];
    const int tid = (int)threadIdx.x, limit = (int)p.s.limit;
    const bool falling = p.k.falling;
    const int64_t row = blockIdx.x / p.parts, start = blockIdx.x % p.parts * p.piece, length = DTYPE == OF_ENTRIES ? p.piece : p.k.along.count;
    const int64_t end = start + p.piece < length ? start + p.piece : length;
    const char *from = DTYPE == OF_ENTRIES ? (const char *)(p.entries + row * p.piece) : flat_at(p.k.rows, row);
    const auto place = [&](int64_t begin, int j) { return begin + (VECTORS ? (j / LANES * TOP_THREADS + tid) * LANES + j % LANES : j * TOP_THREADS + tid); };
    uint64_t last = ~(uint64_t)0;
    float number = NAN;
    uint4 raw[TIMES];
    const auto fetch = [&](int64_t begin) {
#pragma unroll
        for (int u = 0; u < TIMES; u++)
            if (place(begin, u * LANES) < end) raw[u] = *(const uint4 *)(from + place(begin, u * LANES) * (16 / LANES));
    };
    if (tid == 0) count = 0;
    if (VECTORS) fetch(start);
    if (limit <= TOP_BEST) {
        uint32_t best = ~0u;
        if (VECTORS) {
#pragma unroll
            for (int u = 0; u < TIMES; u++) {
                if (place(start, u * LANES) >= end) continue;
                const float x = falling ? extreme_of<KNOWN, true>(raw[u]) : extreme_of<KNOWN, false>(raw[u]);
                const uint32_t key = key_of_number<KNOWN>(x, falling);
                best = key < best ? key : best;
            }
        } else {
            for (int j = 0; j < EACH; j++) {
                const int64_t i = place(start, j);
                const uint32_t key = i < end ? (uint32_t)(entry_at<DTYPE>(p, from, i) >> 32) : ~0u;
                best = key < best ? key : best;
            }
        }
        const uint32_t key = common_key(best, (limit + TOP_THREADS / 32 - 1) / (TOP_THREADS / 32), room);
        if (key != ~0u) {
            last = ((uint64_t)key + 1) << 32;
            if (VECTORS) number = number_of_key<KNOWN>(key, falling);
        }
    }
    __syncthreads();
    for (int64_t begin = start; begin < end; begin += ROUND) {
        uint32_t pending = 0;
        if (VECTORS) {
            // the first round holds those that equal the number, which come before later ones
            const float margin = fabsf(number) * 1e-3f + 1e-30f, loose = isinf(number) ? NAN : falling ? number - margin : number + margin;
            const float bound = begin == start ? loose : number;
            // The next vector is under way as soon as this one has been looked at.
            constexpr bool PAIRS = DTYPE == NBX_BFLOAT16 || DTYPE == NBX_FLOAT16;
            const bool pairs = PAIRS && begin > start;
            const uint32_t twice = PAIRS ? pair_of_number<KNOWN>(number) : 0;
#pragma unroll
            for (int u = 0; u < TIMES; u++) {
                uint32_t found = 0;
                if (place(begin, u * LANES) < end) {
                    if constexpr (PAIRS)
                        if (pairs) found = falling ? candidates_of_pairs<KNOWN, true>(raw[u], twice) : candidates_of_pairs<KNOWN, false>(raw[u], twice);
                    if (!pairs) found = falling ? candidates<KNOWN, true>(raw[u], bound) : candidates<KNOWN, false>(raw[u], bound);
                }
                pending |= found << (u * LANES);
                if (place(begin + ROUND, u * LANES) < end) raw[u] = *(const uint4 *)(from + place(begin + ROUND, u * LANES) * (16 / LANES));
            }
        } else {
            for (int j = 0; j < EACH; j++)
                if (place(begin, j) < end) pending |= 1u << j;
        }
        for (;;) {
            while (pending) {
                const uint64_t e = entry_at<DTYPE>(p, from, place(begin, __ffs((int)pending) - 1));
                if (e < last) {
                    const int at = atomicAdd(&count, 1);
                    if (at >= p.room) break;
                    entries[at] = e;
                }
                pending &= pending - 1;
            }
            if (!__syncthreads_or(pending != 0 || (tid == 0 && count > 2 * limit + 128))) break;
            const int kept = sort_collected(entries, count < p.room ? count : p.room, limit);
            if (kept == limit) {
                last = entries[limit - 1];
                if (VECTORS) number = number_of_key<VECTORS ? DTYPE : NBX_FLOAT32>((uint32_t)(last >> 32), p.k.falling);
            }
            if (tid == 0) count = kept;
            __syncthreads();
        }
    }
    __syncthreads();
    sort_collected(entries, count < p.room ? count : p.room, limit);
    for (int i = tid; i < limit; i += TOP_THREADS) {
        if (DTYPE != OF_ENTRIES && p.parts > 1) p.entries[(int64_t)blockIdx.x * limit + i] = entries[i];
        else emit(p.k, p.s, row, i, entries[i] >> 32, (uint32_t)entries[i]);
    }
}

template <int DTYPE> static void launch_select(const top_call &p, cudaStream_t stream) {
    select_first<DTYPE><<<(unsigned)(p.k.rows.count * p.parts), TOP_THREADS, (size_t)p.room * sizeof(uint64_t), stream>>>(p);
}

static bool has_vectors(const key_rows &k) {
    bool good = k.along.rank == 1 && k.along.stride[0] == k.rows.width && k.along.count % (16 / k.rows.width) == 0 && (uintptr_t)k.rows.data % 16 == 0;
    for (int d = 0; d < k.rows.rank; d++) good = good && k.rows.stride[d] % 16 == 0;
    return good;
}

nbx_status nbx_cuda_select_rows(nbx_op_call *c, const key_rows *k, const sort_sink *s) {
    top_call p;
    p.k = *k, p.s = *s;
    p.entries = (uint64_t *)c->scratch;
    p.parts = nbx_device_topk_parts(k->rows.count, k->along.count);
    p.piece = (k->along.count + p.parts - 1) / p.parts;
    p.piece = (p.piece + NBX_TOPK_PIECE - 1) / NBX_TOPK_PIECE * NBX_TOPK_PIECE;
    p.room = s->limit <= 512 ? 1024 : s->limit <= 1024 ? 2048 : 4096;
    const bool vectors = has_vectors(*k);
    cudaStream_t stream = stream_of(c);
    if (vectors && k->rows.dtype == NBX_FLOAT32) launch_select<NBX_FLOAT32>(p, stream);
    else if (vectors && k->rows.dtype == NBX_BFLOAT16) launch_select<NBX_BFLOAT16>(p, stream);
    else if (vectors && k->rows.dtype == NBX_FLOAT16) launch_select<NBX_FLOAT16>(p, stream);
    else launch_select<OF_ANY>(p, stream);
    if (p.parts > 1) {
        p.piece = p.parts * s->limit, p.parts = 1;
        launch_select<OF_ENTRIES>(p, stream);
    }
    return launch_status(c);
}

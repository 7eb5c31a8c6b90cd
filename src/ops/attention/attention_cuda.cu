// Attention on CUDA in one pass over the keys: the score matrix is never in memory.
//   float16, bfloat16   4 warps of 32 queries (16 for few queries and head dims past 128), 64 keys a step, mma.sync m16n8k16;
//                       the output stays in registers. Head dims to 256, any strides; aligned rows are read by 16 bytes.
//   float32             64 queries a block, 64 keys a step, in shared memory; head dims to 128
//   float64, few queries   a block per query: 128 keys a step, a thread each, then a thread per column of the values
// Rows whose every key is masked give 0, as ATen's. Same bits from run to run.
#include "cuda/mma.cuh"
#include "ops/attention/attention.h"
#include "ops/elementwise/engine.cuh"

#include <math.h>

// Additive mask of a (query, key) pair; -inf where a bool mask is false or causality forbids.
static __device__ __forceinline__ float mask_of(const nbx_attention &p, const char *mask, int64_t i, int64_t j) {
    if (p.causal && j > i + p.causal_shift) return -INFINITY;
    if (!mask) return 0.f;
    const char *at = mask + (i * p.mask.row + j * p.mask.col) * nbx_cuda_dtype_bytes(p.mask_dtype);
    if (p.mask_dtype == NBX_BOOL) return *at ? 0.f : -INFINITY;
    return ewc_load<float>(p.mask_dtype, at);
}

struct place {
    const char *q, *k, *v, *mask;
    char *out, *lse;
};

static __device__ __forceinline__ place place_of(const nbx_attention &p, int64_t batch_head) {
    const int64_t b = batch_head / p.heads, h = batch_head % p.heads, kv = h / (p.heads / p.kv_heads);
    const int size = nbx_cuda_dtype_bytes(p.dtype);
    place at;
    at.q = p.q.data + (b * p.q.batch + h * p.q.head) * size;
    at.k = p.k.data + (b * p.k.batch + kv * p.k.head) * size;
    at.v = p.v.data + (b * p.v.batch + kv * p.v.head) * size;
    at.mask = p.mask.data ? p.mask.data + (b * p.mask.batch + h * p.mask.head) * nbx_cuda_dtype_bytes(p.mask_dtype) : NULL;
    at.out = (char *)p.out.data + (b * p.out.batch + h * p.out.head) * size;
    at.lse = p.lse.data ? (char *)p.lse.data : NULL;
    return at;
}

// ----------------------------------------------------------------------------------------------------------- tensor cores
enum { KEYS = 64, MMA_THREADS = 128 };

// Rows of a tile of D columns: a row has D / 8 chunks of 16 bytes, swizzled within groups of 8 (4 for D 32).
template <int D> static __device__ __forceinline__ uint32_t tile_at(int row, int chunk) {
    constexpr int CHUNKS = D / 8, MASK = CHUNKS >= 8 ? 7 : 3, SHIFT = CHUNKS >= 8 ? 0 : 1;
    return (uint32_t)(row * D * 2 + ((chunk ^ ((row >> SHIFT) & MASK)) << 4));
}

// Fills tiles of ROWS rows, one after the other; rows past the limit and columns past `columns` are zeros.
template <int D, int ROWS> struct row_source {
    static constexpr int CHUNKS = D / 8, LINES = MMA_THREADS / CHUNKS, COUNT = ROWS / LINES;  // lines filled at once; of a thread
    const attention_side &side;
    const uint16_t *from;
    int columns, rows_left;  // from this thread's first chunk on
    __device__ __forceinline__ row_source(const char *data, const attention_side &s, int64_t first, int64_t limit, int64_t wide) : side(s) {
        const int row = (int)threadIdx.x / CHUNKS, chunk = (int)threadIdx.x % CHUNKS;
        from = (const uint16_t *)data + (first + row) * s.row + chunk * 8 * s.col;
        columns = (int)wide - chunk * 8;
        rows_left = (int)(limit - first < INT32_MAX ? limit - first : INT32_MAX) - row;
    }
    __device__ __forceinline__ void fill(uint32_t tile, bool vectors) {
        const uint32_t to = tile + tile_at<D>((int)threadIdx.x / CHUNKS, (int)threadIdx.x % CHUNKS);  // LINES is a multiple of the swizzle's period
        if (vectors) {
            const int bytes = columns >= 8 ? 16 : columns > 0 ? columns * 2 : 0;
#pragma unroll
            for (int i = 0; i < COUNT; i++) copy_async(to + i * LINES * D * 2, from + i * LINES * side.row, i * LINES < rows_left ? bytes : 0);
        } else {
#pragma unroll 1
            for (int i = 0; i < COUNT; i++) {
                const uint16_t *line = from + i * LINES * side.row;
                uint32_t v[4] = {0, 0, 0, 0};
                if (i * LINES < rows_left)
#pragma unroll
                    for (int e = 0; e < 8; e++)
                        if (e < columns) v[e / 2] |= (uint32_t)line[e * side.col] << e % 2 * 16;
                store_shared(to + i * LINES * D * 2, v);
            }
        }
        from += ROWS * side.row;
        rows_left -= ROWS;
    }
};

// 2^t, t <= 0, as ATen's kernel for halves on CPUs: see attention_cpu.c.
static __device__ __forceinline__ float exp2_coarse(float t) {
    const float f = t - floorf(t);
    float y = fmaf(f, -0.079204240219773236f, -0.22433836478672356f);
    y = fmaf(f, fmaf(f, y, 0.30354260500649682f), 0.00010703434948458272f);
    return t < -126.f ? 0.f : t != t ? t : __int_as_float((int)fmaf(0x1p+23f, t - y, 127 * 0x1p+23f));
}

template <typename T> static __device__ __forceinline__ uint32_t pair_of(float lo, float hi);
template <> __device__ __forceinline__ uint32_t pair_of<__half>(float lo, float hi) {
    const __half2 h = __floats2half2_rn(lo, hi);
    return *(const uint32_t *)&h;
}
template <> __device__ __forceinline__ uint32_t pair_of<__nv_bfloat16>(float lo, float hi) {
    const __nv_bfloat162 h = __floats2bfloat162_rn(lo, hi);
    return *(const uint32_t *)&h;
}

// R fragments of 16 queries a warp; two need rows of whole vectors and the exact exponential.
template <typename T, int D, int R> static __global__ void __launch_bounds__(MMA_THREADS) attention_mma(const __grid_constant__ nbx_attention p, bool aligned) {
    extern __shared__ __align__(128) char shared[];
    constexpr int QUERIES = 64 * R, TILE_BYTES = KEYS * D * 2;
    const bool vectors = R == 2 || aligned;
    constexpr bool KEEP = D * R <= 128;  // fragments of the queries stay in registers
    const uint32_t q_tile = shared_address(shared), k_tiles = q_tile + QUERIES * D * 2, v_tiles = k_tiles + 2 * TILE_BYTES;
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5, i8 = lane >> 3, r8 = lane & 7;
    // long rows of a causal mask start first, of all heads; else the blocks of a head run together, its keys in L2
    const int64_t first_query = (int64_t)(p.causal ? gridDim.y - 1 - blockIdx.y : blockIdx.x) * QUERIES;
    const int64_t head_index = p.causal ? blockIdx.x : blockIdx.y;
    const place at = place_of(p, head_index);
    int64_t keys = p.k_len;
    if (p.causal && first_query + QUERIES + p.causal_shift < keys) keys = first_query + QUERIES + p.causal_shift;
    const int steps = keys > 0 ? (int)((keys + KEYS - 1) / KEYS) : 0;

    row_source<D, KEYS> from_k(at.k, p.k, 0, p.k_len, p.head_dim), from_v(at.v, p.v, 0, p.k_len, p.v_dim);
    row_source<D, QUERIES>(at.q, p.q, first_query, p.q_len, p.head_dim).fill(q_tile, vectors);
    if (steps > 0) from_k.fill(k_tiles, vectors), from_v.fill(v_tiles, vectors);
    commit_async();
    wait_async<0>();
    __syncthreads();

    const auto load_queries = [&](uint32_t (&q)[R][4], int d) {
#pragma unroll
        for (int r = 0; r < R; r++) load_matrix(q[r], q_tile + tile_at<D>((warp * R + r) * 16 + r8 + (i8 & 1) * 8, (2 * d) ^ (i8 >> 1)));
    };
    uint32_t q_kept[KEEP ? D / 16 : 1][R][4];
    if constexpr (KEEP)
#pragma unroll
        for (int d = 0; d < D / 16; d++) load_queries(q_kept[d], d);

    float out[R][D / 8][4], top[R][2], sum[R][2];
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
        for (int h = 0; h < 2; h++) top[r][h] = -INFINITY, sum[r][h] = 0.f;
#pragma unroll
        for (int d = 0; d < D / 8; d++)
#pragma unroll
            for (int j = 0; j < 4; j++) out[r][d][j] = 0.f;
    }
    const int64_t query = first_query + warp * R * 16 + (lane >> 2);
    const float scale = p.scale * 1.44269504088896341f;  // exponentials to base 2

    for (int step = 0; step < steps; step++) {
        const int slot = step & 1;
        if (step > 0) {
            wait_async<0>();
            __syncthreads();
        }
        if (step + 1 < steps) from_k.fill(k_tiles + (slot ^ 1) * TILE_BYTES, vectors), from_v.fill(v_tiles + (slot ^ 1) * TILE_BYTES, vectors);
        commit_async();
        const uint32_t k_tile = k_tiles + slot * TILE_BYTES, v_tile = v_tiles + slot * TILE_BYTES;
        float s[R][KEYS / 8][4];
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int j = 0; j < 4; j++) s[r][n][j] = 0.f;
#pragma unroll
        for (int d = 0; d < D / 16; d++) {
            uint32_t fresh[R][4];
            if constexpr (!KEEP) load_queries(fresh, d);
            const uint32_t(&q)[R][4] = KEEP ? q_kept[KEEP ? d : 0] : fresh;
#pragma unroll
            for (int n = 0; n < KEYS / 16; n++) {
                uint32_t b[4];
                load_matrix(b, k_tile + tile_at<D>(n * 16 + r8 + (i8 >> 1) * 8, (2 * d) ^ (i8 & 1)));
#pragma unroll
                for (int r = 0; r < R; r++) multiply<T>(s[r][2 * n], q[r], b[0], b[1]), multiply<T>(s[r][2 * n + 1], q[r], b[2], b[3]);
            }
        }
        // running maximum and sum; scores are multiplied by the scale before the mask is added, else within the exponential
        const int64_t first_key = (int64_t)step * KEYS;
        const bool edge = at.mask || first_key + KEYS > p.k_len || first_query + QUERIES > p.q_len || !(scale > 0.f) ||
                          (p.causal && first_key + KEYS - 1 > first_query + warp * R * 16 + p.causal_shift);
        const float factor = edge ? 1.f : scale;
#pragma unroll
        for (int r = 0; r < R; r++) {
            if (edge)
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        const int64_t key = first_key + n * 8 + (lane & 3) * 2 + (j & 1), i = query + r * 16 + (j >> 1) * 8;
                        if (key >= p.k_len || i >= p.q_len) s[r][n][j] = -INFINITY;
                        else s[r][n][j] = fmaf(mask_of(p, at.mask, i, key), 1.44269504088896341f, s[r][n][j] * scale);
                    }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float best = s[r][0][2 * h];
#pragma unroll
                for (int n = 0; n < KEYS / 8; n++) best = fmaxf(best, fmaxf(s[r][n][2 * h], s[r][n][2 * h + 1]));  // a NaN reaches the sum
                best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
                best = fmaxf(fmaxf(best, __shfl_xor_sync(~0u, best, 2)) * factor, top[r][h]);
                const float base = best == -INFINITY ? 0.f : best, shrink = quick_exp2(top[r][h] - base);
                top[r][h] = best;
                if (__any_sync(~0u, shrink != 1.f)) {  // a new maximum: rare after the first steps
                    sum[r][h] *= shrink;
#pragma unroll
                    for (int d = 0; d < D / 8; d++) out[r][d][2 * h] *= shrink, out[r][d][2 * h + 1] *= shrink;
                }
                if (R == 1 && p.coarse_exp) {
#pragma unroll
                    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                        for (int j = 2 * h; j < 2 * h + 2; j++) {
                            const float t = fmaf(s[r][n][j], factor, -base);
                            const bool coarse = first_key + n * 8 + (lane & 3) * 2 + (j & 1) < (p.k_len & ~(int64_t)15);
                            sum[r][h] += s[r][n][j] = coarse ? exp2_coarse(t) : quick_exp2(t);
                        }
                } else
#pragma unroll
                    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                        for (int j = 2 * h; j < 2 * h + 2; j++) sum[r][h] += s[r][n][j] = quick_exp2(fmaf(s[r][n][j], factor, -base));
            }
        }
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++) {
            uint32_t w[R][4];
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int j = 0; j < 4; j++) w[r][j] = pair_of<T>(s[r][2 * n + (j >> 1)][(j & 1) * 2], s[r][2 * n + (j >> 1)][(j & 1) * 2 + 1]);
#pragma unroll
            for (int d = 0; d < D / 16; d++) {
                uint32_t b[4];
                load_matrix_transposed(b, v_tile + tile_at<D>(n * 16 + r8 + (i8 & 1) * 8, (2 * d) ^ (i8 >> 1)));
#pragma unroll
                for (int r = 0; r < R; r++) multiply<T>(out[r][2 * d], w[r], b[0], b[1]), multiply<T>(out[r][2 * d + 1], w[r], b[2], b[3]);
            }
        }
    }
    wait_async<0>();
    const bool pairs = p.out.col == 1 && p.v_dim % 2 == 0 && (((uintptr_t)at.out | (uintptr_t)(p.out.row * 2)) & 3) == 0;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float all = sum[r][h];
            for (int x = 1; x < 4; x <<= 1) all += __shfl_xor_sync(~0u, all, x);
            const int64_t i = query + r * 16 + h * 8;
            if (i >= p.q_len) continue;
            const float factor = all == 0.f ? 0.f : 1.f / all;
            T *to = (T *)at.out + i * p.out.row;
#pragma unroll
            for (int d = 0; d < D / 8; d++) {
                const int column = d * 8 + (lane & 3) * 2;
                const uint32_t pair = pair_of<T>(out[r][d][2 * h] * factor, out[r][d][2 * h + 1] * factor);
                if (column >= p.v_dim) continue;
                if (pairs) *(uint32_t *)(to + column) = pair;
                else {
                    ((uint16_t *)to)[column * p.out.col] = (uint16_t)pair;
                    if (column + 1 < p.v_dim) ((uint16_t *)to)[(column + 1) * p.out.col] = (uint16_t)(pair >> 16);
                }
            }
            if (at.lse && (lane & 3) == 0) {
                const int64_t b = head_index / p.heads, head = head_index % p.heads;
                ((float *)at.lse)[b * p.lse.batch + head * p.lse.head + i * p.lse.row] = all == 0.f ? -INFINITY : top[r][h] * 0.693147180559945309f + logf(all);
            }
        }
}

// ------------------------------------------------------------------------------------------------------- float32 by tiles
// 64 queries a block, 64 keys a step; a thread of 16 x 16 has 4 x 4 scores, then 4 queries x D / 16 columns of the result.
enum { TILE_QUERIES = 64, TILE_KEYS = 64, TILE_THREADS = 256, TILE_PITCH = TILE_QUERIES + 4 };

template <int D> static __global__ void __launch_bounds__(TILE_THREADS) attention_tiles(const __grid_constant__ nbx_attention p) {
    extern __shared__ __align__(16) float tiles[];
    float *qs = tiles, *ks = qs + D * TILE_PITCH, *vs = ks + D * TILE_PITCH, *ws = vs + TILE_KEYS * D;  // q and k: [D][row]
    const int tid = (int)threadIdx.x, tx = tid & 15, ty = tid >> 4;
    const int64_t first_query = (int64_t)(gridDim.x - 1 - blockIdx.x) * TILE_QUERIES;
    const place at = place_of(p, blockIdx.y);
    const auto fetch = [&](const char *from, const attention_side &s, int64_t first, int64_t limit, int64_t columns, int row, int d) {
        return first + row < limit && d < columns ? ((const float *)from)[(first + row) * s.row + d * s.col] : 0.f;
    };
    for (int i = tid; i < TILE_QUERIES * D; i += TILE_THREADS) qs[i % D * TILE_PITCH + i / D] = fetch(at.q, p.q, first_query, p.q_len, p.head_dim, i / D, i % D) * p.scale;
    float out[4][D / 16], top[4], sum[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        top[i] = -INFINITY, sum[i] = 0.f;
#pragma unroll
        for (int c = 0; c < D / 16; c++) out[i][c] = 0.f;
    }
    int64_t keys = p.k_len;
    if (p.causal && first_query + TILE_QUERIES + p.causal_shift < keys) keys = first_query + TILE_QUERIES + p.causal_shift;
    for (int64_t first = 0; first < keys; first += TILE_KEYS) {
        __syncthreads();
        for (int i = tid; i < TILE_KEYS * D; i += TILE_THREADS) {
            ks[i % D * TILE_PITCH + i / D] = fetch(at.k, p.k, first, p.k_len, p.head_dim, i / D, i % D);
            vs[i] = fetch(at.v, p.v, first, p.k_len, p.v_dim, i / D, i % D);
        }
        __syncthreads();
        float s[4][4];
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) s[i][j] = 0.f;
#pragma unroll 8
        for (int d = 0; d < D; d++) {
            const float4 a = *(const float4 *)&qs[d * TILE_PITCH + ty * 4], b = *(const float4 *)&ks[d * TILE_PITCH + tx * 4];
            const float u[4] = {a.x, a.y, a.z, a.w}, w[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) s[i][j] = fmaf(u[i], w[j], s[i][j]);
        }
        const bool edge = at.mask || p.causal || first + TILE_KEYS > p.k_len;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int64_t query = first_query + ty * 4 + i;
            float best = top[i];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int64_t key = first + tx * 4 + j;
                if (edge) s[i][j] = key >= p.k_len || query >= p.q_len ? -INFINITY : s[i][j] + mask_of(p, at.mask, query, key);
                best = best > s[i][j] || best != best ? best : s[i][j];
            }
            for (int x = 8; x; x >>= 1) {
                const float other = __shfl_xor_sync(~0u, best, x);
                best = other > best || other != other ? other : best;
            }
            const float base = best == -INFINITY ? 0.f : best, shrink = expf(top[i] - base);
            top[i] = best;
            float part = 0.f;
#pragma unroll
            for (int j = 0; j < 4; j++) part += s[i][j] = expf(s[i][j] - base);
            for (int x = 8; x; x >>= 1) part += __shfl_xor_sync(~0u, part, x);
            sum[i] = sum[i] * shrink + part;
#pragma unroll
            for (int c = 0; c < D / 16; c++) out[i][c] *= shrink;
#pragma unroll
            for (int j = 0; j < 4; j++) ws[(tx * 4 + j) * TILE_PITCH + ty * 4 + i] = s[i][j];  // [key][query]
        }
        __syncwarp();  // a warp reads the weights of its own queries only
#pragma unroll 4
        for (int key = 0; key < TILE_KEYS; key++) {
            const float4 w = *(const float4 *)&ws[key * TILE_PITCH + ty * 4];
#pragma unroll
            for (int c = 0; c < D / 16; c++) {
                const float v = vs[key * D + c * 16 + tx];
                out[0][c] = fmaf(w.x, v, out[0][c]), out[1][c] = fmaf(w.y, v, out[1][c]);
                out[2][c] = fmaf(w.z, v, out[2][c]), out[3][c] = fmaf(w.w, v, out[3][c]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int64_t query = first_query + ty * 4 + i;
        if (query >= p.q_len) continue;
        const float factor = sum[i] == 0.f ? 0.f : 1.f / sum[i];
        float *to = (float *)at.out + query * p.out.row;
#pragma unroll
        for (int c = 0; c < D / 16; c++)
            if (c * 16 + tx < p.v_dim) to[(c * 16 + tx) * p.out.col] = out[i][c] * factor;
        if (at.lse && tx == 0) {
            const int64_t b = blockIdx.y / p.heads, head = blockIdx.y % p.heads;
            ((float *)at.lse)[b * p.lse.batch + head * p.lse.head + query * p.lse.row] = sum[i] == 0.f ? -INFINITY : top[i] + logf(sum[i]);
        }
    }
}

template <int D> static void launch_tiles(const nbx_attention &p, cudaStream_t stream) {
    const int bytes = (int)sizeof(float) * (2 * D * TILE_PITCH + TILE_KEYS * D + TILE_KEYS * TILE_PITCH);
    shared_limit<attention_tiles<D>>(bytes);
    const dim3 grid((unsigned)((p.q_len + TILE_QUERIES - 1) / TILE_QUERIES), (unsigned)(p.batch * p.heads));
    attention_tiles<D><<<grid, TILE_THREADS, bytes, stream>>>(p);
}

// ------------------------------------------------------------------------------------------------------------- one query
enum { PLAIN_THREADS = 128 };

template <typename C> static __global__ void __launch_bounds__(PLAIN_THREADS) attention_plain(const __grid_constant__ nbx_attention p) {
    extern __shared__ __align__(16) char memory[];
    C *query = (C *)memory, *weights = query + p.head_dim;  // [head_dim], [PLAIN_THREADS]
    __shared__ C part[PLAIN_THREADS / 32];
    const int tid = (int)threadIdx.x, size = nbx_cuda_dtype_bytes(p.dtype);
    const int64_t i = blockIdx.x;
    const place at = place_of(p, blockIdx.y);
    const C scale = sizeof(C) == 8 ? (C)p.scale64 : (C)p.scale;
    for (int64_t d = tid; d < p.head_dim; d += PLAIN_THREADS) query[d] = ewc_load<C>(p.dtype, at.q + (i * p.q.row + d * p.q.col) * size) * scale;
    enum { COLUMNS = 8 };  // columns of the values a thread keeps: v_dim <= 1024
    C out[COLUMNS], top = -(C)INFINITY, sum = 0;
    for (int k = 0; k < COLUMNS; k++) out[k] = 0;
    int64_t keys = p.k_len;
    const int64_t coarse = p.coarse_exp ? p.k_len / 16 * 16 : 0;
    if (p.causal && i + p.causal_shift + 1 < keys) keys = i + p.causal_shift + 1;
    __syncthreads();
    for (int64_t first = 0; first < keys; first += PLAIN_THREADS) {
        const int64_t j = first + tid;
        C s = -(C)INFINITY;
        if (j < keys) {
            C dot = 0;
            const char *k = at.k + j * p.k.row * size;
            for (int64_t d = 0; d < p.head_dim; d++) dot = fma(query[d], ewc_load<C>(p.dtype, k + d * p.k.col * size), dot);
            s = dot + (C)mask_of(p, at.mask, i, j);
        }
        C best = s;
        for (int x = 16; x; x >>= 1) {
            const C other = __shfl_xor_sync(~0u, best, x);
            best = other > best || other != other ? other : best;
        }
        if (tid % 32 == 0) part[tid / 32] = best;
        __syncthreads();
        best = top;
        for (int w = 0; w < PLAIN_THREADS / 32; w++) best = part[w] > best || part[w] != part[w] ? part[w] : best;
        const C base = best == -(C)INFINITY ? (C)0 : best, shrink = exp(top - base);
        top = best;
        weights[tid] = j < coarse ? (C)exp2_coarse(__fmul_rn((float)(s - base), 0x1.715476p+0f)) : exp(s - base);
        __syncthreads();
        const int count = (int)(keys - first < PLAIN_THREADS ? keys - first : PLAIN_THREADS);
        sum *= shrink;
        for (int n = 0; n < count; n++) sum += weights[n];
        for (int k = 0; k < COLUMNS; k++) {
            const int64_t column = tid + k * PLAIN_THREADS;
            if (column >= p.v_dim) break;
            C v = out[k] * shrink;
            for (int n = 0; n < count; n++) v = fma(weights[n], ewc_load<C>(p.dtype, at.v + ((first + n) * p.v.row + column * p.v.col) * size), v);
            out[k] = v;
        }
        __syncthreads();
    }
    const C factor = sum == 0 ? (C)0 : (C)1 / sum;
    for (int k = 0; k < COLUMNS; k++) {
        const int64_t column = tid + k * PLAIN_THREADS;
        if (column < p.v_dim) ewc_store<C>(p.dtype, at.out + (i * p.out.row + column * p.out.col) * size, out[k] * factor);
    }
    if (at.lse && tid == 0) {
        const int64_t b = blockIdx.y / p.heads, head = blockIdx.y % p.heads, to = b * p.lse.batch + head * p.lse.head + i * p.lse.row;
        const C lse = sum == 0 ? -(C)INFINITY : top + log(sum);
        if (p.dtype == NBX_FLOAT64) ((double *)at.lse)[to] = (double)lse;
        else ((float *)at.lse)[to] = (float)lse;
    }
}

static bool vectors_fit(const attention_side &s) {
    return s.col == 1 && s.row % 8 == 0 && s.head % 8 == 0 && s.batch % 8 == 0 && (uintptr_t)s.data % 16 == 0;
}

template <typename T, int D, int R> static void launch_mma(const nbx_attention &p, bool vectors, cudaStream_t stream) {
    constexpr int QUERIES = 64 * R, BYTES = (QUERIES + 4 * KEYS) * D * 2;
    shared_limit<attention_mma<T, D, R>>(BYTES);
    const unsigned blocks = (unsigned)((p.q_len + QUERIES - 1) / QUERIES), heads = (unsigned)(p.batch * p.heads);
    const dim3 grid(p.causal ? heads : blocks, p.causal ? blocks : heads);
    attention_mma<T, D, R><<<grid, MMA_THREADS, BYTES, stream>>>(p, vectors);
}

template <typename T> static void launch_dims(const nbx_attention &p, const nbx_cuda_facts *facts, cudaStream_t stream) {
    const int64_t d = p.head_dim > p.v_dim ? p.head_dim : p.v_dim;
    const bool vectors = vectors_fit(p.q) && vectors_fit(p.k) && vectors_fit(p.v);
    const bool many = vectors && !p.coarse_exp && p.q_len > 64 && (p.q_len + 127) / 128 * p.batch * p.heads >= facts->sm_count;
    if (d > 128) launch_mma<T, 256, 1>(p, vectors, stream);
    else if (d > 64) many ? launch_mma<T, 128, 2>(p, vectors, stream) : launch_mma<T, 128, 1>(p, vectors, stream);
    else if (d > 32) many ? launch_mma<T, 64, 2>(p, vectors, stream) : launch_mma<T, 64, 1>(p, vectors, stream);
    else many ? launch_mma<T, 32, 2>(p, vectors, stream) : launch_mma<T, 32, 1>(p, vectors, stream);
}

static nbx_status attention_cuda(nbx_op_call *c) {
    nbx_attention p;
    nbx_attention_of(c, &p);
    if (p.batch * p.heads == 0 || p.q_len == 0) return NBX_OK;
    if (p.batch * p.heads > 65535 || p.q_len > 65535 * 64 || p.v_dim > 1024 || p.head_dim > 4096)
        return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than 65535 heads in all, 4194240 queries, or head dims above 1024, on CUDA");
    const int64_t d = p.head_dim > p.v_dim ? p.head_dim : p.v_dim;
    const nbx_cuda_facts *facts = nbx_cuda_device_facts(c->device.index);
    if (p.dtype == NBX_FLOAT16 && d <= 256) launch_dims<__half>(p, facts, stream_of(c));
    else if (p.dtype == NBX_BFLOAT16 && d <= 256) launch_dims<__nv_bfloat16>(p, facts, stream_of(c));
    else if (p.dtype == NBX_FLOAT32 && d <= 64 && p.q_len >= 16) launch_tiles<64>(p, stream_of(c));
    else if (p.dtype == NBX_FLOAT32 && d <= 128 && p.q_len >= 16) launch_tiles<128>(p, stream_of(c));
    else {
        const dim3 grid((unsigned)p.q_len, (unsigned)(p.batch * p.heads));
        const size_t values = (size_t)p.head_dim + PLAIN_THREADS;
        if (p.dtype == NBX_FLOAT64) attention_plain<double><<<grid, PLAIN_THREADS, values * 8, stream_of(c)>>>(p);
        else attention_plain<float><<<grid, PLAIN_THREADS, values * 4, stream_of(c)>>>(p);
    }
    return launch_status(c);
}

NBX_CUDA_KERNEL("nbx::attention", attention_cuda)

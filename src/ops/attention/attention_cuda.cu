// Attention on CUDA in one pass over the keys: the score matrix is never in memory.
//   float16, bfloat16   4 warps of 16 queries, 64 keys a step, mma.sync m16n8k16; the output stays in registers. Head dims to
//                       256, any strides; rows are read by 16 bytes where they are aligned.
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
enum { QUERIES = 64, KEYS = 64, MMA_THREADS = 128 };

// Rows of a tile [KEYS or QUERIES][D]: a row has D / 8 chunks of 16 bytes, swizzled within groups of 8 (4 for D 32, 2 for D 16).
template <int D> static __device__ __forceinline__ uint32_t tile_at(int row, int chunk) {
    constexpr int CHUNKS = D / 8, MASK = CHUNKS >= 8 ? 7 : CHUNKS >= 4 ? 3 : 1;
    constexpr int SHIFT = CHUNKS >= 8 ? 0 : CHUNKS >= 4 ? 1 : 2;
    return (uint32_t)(row * D * 2 + ((chunk ^ ((row >> SHIFT) & MASK)) << 4));
}

// Fills `rows` rows of a tile from `first`; rows past `limit` and columns past `columns` are zeros.
template <typename T, int D> static __device__ __forceinline__ void fill(uint32_t tile, const char *from, const attention_side &s, int64_t first, int64_t limit, int columns, bool vectors) {
    for (int at = (int)threadIdx.x; at < KEYS * D / 8; at += MMA_THREADS) {
        const int row = at / (D / 8), chunk = at % (D / 8);
        const int64_t i = first + row;
        const uint32_t to = tile + tile_at<D>(row, chunk);
        const int left = i < limit ? columns - chunk * 8 : 0;
        const uint16_t *x = (const uint16_t *)from + (i < limit ? i : 0) * s.row + (int64_t)chunk * 8 * s.col;
        if (vectors) {
            copy_async(to, left > 0 ? (const void *)x : (const void *)from, left <= 0 ? 0 : left < 8 ? left * 2 : 16);
            continue;
        }
        uint32_t v[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint32_t lo = 2 * j < left ? x[2 * j * s.col] : 0, hi = 2 * j + 1 < left ? x[(2 * j + 1) * s.col] : 0;
            v[j] = lo | hi << 16;
        }
        asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]));
    }
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

template <typename T, int D> static __global__ void __launch_bounds__(MMA_THREADS) attention_mma(const __grid_constant__ nbx_attention p, bool vectors) {
    extern __shared__ __align__(128) char shared[];
    const uint32_t k_tiles = shared_address(shared), v_tiles = k_tiles + 2 * KEYS * D * 2;
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
    const int64_t first_query = (int64_t)(gridDim.x - 1 - blockIdx.x) * QUERIES;  // long rows of a causal mask start first
    const place at = place_of(p, blockIdx.y);

    // queries: through the space of a key tile into registers
    uint32_t q[D / 16][4];
    fill<T, D>(k_tiles, at.q, p.q, first_query, p.q_len, (int)p.head_dim, vectors);
    commit_async();
    wait_async<0>();
    __syncthreads();
    const int i8 = lane >> 3, r8 = lane & 7;
#pragma unroll
    for (int d = 0; d < D / 16; d++) load_matrix(q[d], k_tiles + tile_at<D>(warp * 16 + r8 + (i8 & 1) * 8, 2 * d + (i8 >> 1)));
    __syncthreads();

    float out[D / 8][4], top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};
#pragma unroll
    for (int d = 0; d < D / 8; d++)
#pragma unroll
        for (int j = 0; j < 4; j++) out[d][j] = 0.f;
    int64_t keys = p.k_len;
    if (p.causal && first_query + QUERIES + p.causal_shift < keys) keys = first_query + QUERIES + p.causal_shift;
    const int steps = keys > 0 ? (int)((keys + KEYS - 1) / KEYS) : 0;
    const int64_t query = first_query + warp * 16 + (lane >> 2);
    const float scale = p.scale * 1.44269504088896341f;  // exponentials to base 2

    if (steps > 0) {
        fill<T, D>(k_tiles, at.k, p.k, 0, p.k_len, (int)p.head_dim, vectors);
        fill<T, D>(v_tiles, at.v, p.v, 0, p.k_len, (int)p.v_dim, vectors);
    }
    commit_async();
    for (int step = 0; step < steps; step++) {
        const int slot = step & 1;
        if (step + 1 < steps) {
            fill<T, D>(k_tiles + (slot ^ 1) * KEYS * D * 2, at.k, p.k, (int64_t)(step + 1) * KEYS, p.k_len, (int)p.head_dim, vectors);
            fill<T, D>(v_tiles + (slot ^ 1) * KEYS * D * 2, at.v, p.v, (int64_t)(step + 1) * KEYS, p.k_len, (int)p.v_dim, vectors);
        }
        commit_async();
        wait_async<1>();
        __syncthreads();
        const uint32_t k_tile = k_tiles + slot * KEYS * D * 2, v_tile = v_tiles + slot * KEYS * D * 2;
        float s[KEYS / 8][4];
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int j = 0; j < 4; j++) s[n][j] = 0.f;
#pragma unroll
        for (int d = 0; d < D / 16; d++)
#pragma unroll
            for (int n = 0; n < KEYS / 16; n++) {
                uint32_t b[4];
                load_matrix(b, k_tile + tile_at<D>(n * 16 + r8 + (i8 >> 1) * 8, 2 * d + (i8 & 1)));
                multiply<T>(s[2 * n], q[d], b[0], b[1]);
                multiply<T>(s[2 * n + 1], q[d], b[2], b[3]);
            }
        // mask, scale, running maximum
        const int64_t first_key = (int64_t)step * KEYS;
        const bool edge = at.mask || first_key + KEYS > p.k_len || (p.causal && first_key + KEYS - 1 > first_query + warp * 16 + p.causal_shift);
        float best[2] = {top[0], top[1]};
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                float v = s[n][j] * scale;
                if (edge) {
                    const int64_t key = first_key + n * 8 + (lane & 3) * 2 + (j & 1), i = query + (j >> 1) * 8;
                    if (key >= p.k_len || i >= p.q_len) v = -INFINITY;
                    else v += mask_of(p, at.mask, i, key) * 1.44269504088896341f;
                }
                s[n][j] = v;
                best[j >> 1] = best[j >> 1] > v || v != v ? (v != v ? v : best[j >> 1]) : v;
            }
#pragma unroll
        for (int h = 0; h < 2; h++) {
            for (int x = 1; x < 4; x <<= 1) {
                const float other = __shfl_xor_sync(~0u, best[h], x);
                best[h] = other > best[h] || other != other ? other : best[h];
            }
            const float base = best[h] == -INFINITY ? 0.f : best[h], shrink = exp2f(top[h] - base);
            sum[h] *= shrink;
#pragma unroll
            for (int d = 0; d < D / 8; d++) out[d][2 * h] *= shrink, out[d][2 * h + 1] *= shrink;
            top[h] = best[h];
        }
        uint32_t w[KEYS / 16][4];
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float base = top[j >> 1] == -INFINITY ? 0.f : top[j >> 1];
                s[n][j] = exp2f(s[n][j] - base);
                sum[j >> 1] += s[n][j];
            }
            w[n / 2][(n & 1) * 2] = pair_of<T>(s[n][0], s[n][1]);
            w[n / 2][(n & 1) * 2 + 1] = pair_of<T>(s[n][2], s[n][3]);
        }
#pragma unroll
        for (int n = 0; n < KEYS / 16; n++)
#pragma unroll
            for (int d = 0; d < D / 16; d++) {
                uint32_t b[4];
                load_matrix_transposed(b, v_tile + tile_at<D>(n * 16 + r8 + (i8 & 1) * 8, 2 * d + (i8 >> 1)));
                multiply<T>(out[2 * d], w[n], b[0], b[1]);
                multiply<T>(out[2 * d + 1], w[n], b[2], b[3]);
            }
        __syncthreads();
    }
    wait_async<0>();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        for (int x = 1; x < 4; x <<= 1) sum[h] += __shfl_xor_sync(~0u, sum[h], x);
        const int64_t i = query + h * 8;
        if (i >= p.q_len) continue;
        const float factor = sum[h] == 0.f ? 0.f : 1.f / sum[h];
        T *to = (T *)at.out + i * p.out.row;
#pragma unroll
        for (int d = 0; d < D / 8; d++) {
            const int column = d * 8 + (lane & 3) * 2;
            if (column < p.v_dim) to[column * p.out.col] = (T)(out[d][2 * h] * factor);
            if (column + 1 < p.v_dim) to[(column + 1) * p.out.col] = (T)(out[d][2 * h + 1] * factor);
        }
        if (at.lse && (lane & 3) == 0) {
            const int64_t b = blockIdx.y / p.heads, head = blockIdx.y % p.heads;
            ((float *)at.lse)[b * p.lse.batch + head * p.lse.head + i * p.lse.row] = sum[h] == 0.f ? -INFINITY : top[h] * 0.693147180559945309f + logf(sum[h]);
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
    cudaFuncSetAttribute(attention_tiles<D>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    const dim3 grid((unsigned)((p.q_len + TILE_QUERIES - 1) / TILE_QUERIES), (unsigned)(p.batch * p.heads));
    attention_tiles<D><<<grid, TILE_THREADS, bytes, stream>>>(p);
}

// ------------------------------------------------------------------------------------------------------------- one query
enum { PLAIN_THREADS = 128 };

// e^x, x <= 0, as ATen's kernel for halves on CPUs: see attention_cpu.c.
static __device__ __forceinline__ float exp_of_halves(float x) {
    const float t = __fmul_rn(x, 0x1.715476p+0f), f = t - floorf(t);
    float y = fmaf(f, -0.079204240219773236f, -0.22433836478672356f);
    y = fmaf(f, fmaf(f, y, 0.30354260500649682f), 0.00010703434948458272f);
    return x < -87.33654f ? 0.f : x != x ? x : __int_as_float((int)fmaf(0x1p+23f, t - y, 127 * 0x1p+23f));
}

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
        weights[tid] = j < coarse ? (C)exp_of_halves((float)(s - base)) : exp(s - base);
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

template <typename T, int D> static void launch_mma(const nbx_attention &p, cudaStream_t stream) {
    const bool vectors = vectors_fit(p.q) && vectors_fit(p.k) && vectors_fit(p.v);
    constexpr int BYTES = 4 * KEYS * D * 2;
    cudaFuncSetAttribute(attention_mma<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    const dim3 grid((unsigned)((p.q_len + QUERIES - 1) / QUERIES), (unsigned)(p.batch * p.heads));
    attention_mma<T, D><<<grid, MMA_THREADS, BYTES, stream>>>(p, vectors);
}

template <typename T> static void launch_dims(const nbx_attention &p, cudaStream_t stream) {
    const int64_t d = p.head_dim > p.v_dim ? p.head_dim : p.v_dim;
    if (d <= 32) launch_mma<T, 32>(p, stream);
    else if (d <= 64) launch_mma<T, 64>(p, stream);
    else if (d <= 128) launch_mma<T, 128>(p, stream);
    else launch_mma<T, 256>(p, stream);
}

static nbx_status attention_cuda(nbx_op_call *c) {
    nbx_attention p;
    nbx_attention_of(c, &p);
    if (p.batch * p.heads == 0 || p.q_len == 0) return NBX_OK;
    if (p.batch * p.heads > 65535 || p.v_dim > 1024 || p.head_dim > 4096)
        return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than 65535 heads in all, or head dims above 1024, on CUDA");
    const int64_t d = p.head_dim > p.v_dim ? p.head_dim : p.v_dim;
    if (p.dtype == NBX_FLOAT16 && d <= 256 && !p.coarse_exp) launch_dims<__half>(p, stream_of(c));
    else if (p.dtype == NBX_BFLOAT16 && d <= 256 && !p.coarse_exp) launch_dims<__nv_bfloat16>(p, stream_of(c));
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

// Products with weights in 8 and 4 bits on CUDA, and their packing. Few rows (a step of a language model): a warp for each
// column reads its weights once. Otherwise tiles of 64 by 64, whose weights are widened on the way into shared memory.
// Sums in float32, in an order that depends on the shape alone.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"
#include "ops/matmul/quantized.h"

enum { Q_TILE = 64, Q_STEP = 16, Q_THREADS = 256, Q_FEW = 8 };

static __device__ __forceinline__ int quantum(const quantized_weights &w, int64_t n, int64_t k) {
    int shift;
    switch (w.format) {
    case QUANTIZED_INT8: return ((const int8_t *)w.data)[n * w.k + k];
    case QUANTIZED_FLOATS: return ((int)((const float *)w.data)[n * (w.k / 2) + k / 2] >> 4 * (k % 2) & 15) - 8;
    case QUANTIZED_BLOCKS: {
        const int byte = ((const uint8_t *)w.data)[quantized_block(n, k, w.n, w.k, &shift)];
        return (byte >> shift & 15) - 8;
    }
    default: {
        const uint32_t word = ((const uint32_t *)w.data)[quantized_tile(n, k, w.k, w.tiles, &shift)];
        return (int)(word >> shift & 15) - 8;
    }
    }
}

static __device__ __forceinline__ float weight_of(const quantized_weights &w, int64_t n, int64_t k) {
    const int64_t at = (k / w.group * w.scale_stride_group + n * w.scale_stride_n) * nbx_cuda_dtype_bytes(w.scale_dtype);
    const float zero = w.zero ? ewc_load<float>(w.scale_dtype, w.zero + at) : 0.f;
    return fmaf((float)quantum(w, n, k), ewc_load<float>(w.scale_dtype, w.scale + at), zero);
}

typedef struct q_call {
    quantized_product p;
    const char *x;  // or its rounded rows
    int x_dtype;
    int64_t row_stride, col_stride;
    char *y;
    bool cuts;      // a bfloat16 result loses the lower 16 bits, without rounding
} q_call;

static __device__ __forceinline__ float input_of(const q_call &c, int64_t m, int64_t k) {
    return ewc_load<float>(c.x_dtype, c.x + (m * c.row_stride + k * c.col_stride) * nbx_cuda_dtype_bytes(c.x_dtype));
}

static __device__ __forceinline__ void put(const q_call &c, int64_t m, int64_t n, float sum) {
    if (c.p.bias) sum += c.p.bias[n];
    char *to = c.y + (m * c.p.w.n + n) * nbx_cuda_dtype_bytes(c.p.dtype);
    if (c.cuts) *(uint16_t *)to = (uint16_t)(__float_as_uint(sum) >> 16);
    else ewc_store<float>(c.p.dtype, to, sum);
}

static __global__ void __launch_bounds__(Q_THREADS) multiply_few(const __grid_constant__ q_call c) {
    const int64_t n = (int64_t)blockIdx.x * (Q_THREADS / 32) + threadIdx.x / 32;
    const int lane = (int)threadIdx.x & 31;
    if (n >= c.p.w.n) return;
    float sum[Q_FEW];
#pragma unroll
    for (int m = 0; m < Q_FEW; m++) sum[m] = 0;
    for (int64_t k = lane; k < c.p.w.k; k += 32) {
        const float w = weight_of(c.p.w, n, k);
#pragma unroll
        for (int m = 0; m < Q_FEW; m++)
            if (m < c.p.m) sum[m] = fmaf(input_of(c, m, k), w, sum[m]);
    }
#pragma unroll
    for (int m = 0; m < Q_FEW; m++) {
        for (int step = 16; step > 0; step /= 2) sum[m] += __shfl_xor_sync(~0u, sum[m], step);
        if (lane == 0 && m < c.p.m) put(c, m, n, sum[m]);
    }
}

static __global__ void __launch_bounds__(Q_THREADS) multiply_tiles(const __grid_constant__ q_call c) {
    __shared__ float xs[Q_STEP][Q_TILE + 1], ws[Q_STEP][Q_TILE + 1];
    const int64_t m0 = (int64_t)blockIdx.y * Q_TILE, n0 = (int64_t)blockIdx.x * Q_TILE;
    const int tid = (int)threadIdx.x, tx = tid % 16, ty = tid / 16;
    float sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[i][j] = 0;
    for (int64_t k0 = 0; k0 < c.p.w.k; k0 += Q_STEP) {
        for (int i = tid; i < Q_STEP * Q_TILE; i += Q_THREADS) {
            const int k = i % Q_STEP, at = i / Q_STEP;
            xs[k][at] = k0 + k < c.p.w.k && m0 + at < c.p.m ? input_of(c, m0 + at, k0 + k) : 0.f;
            ws[k][at] = k0 + k < c.p.w.k && n0 + at < c.p.w.n ? weight_of(c.p.w, n0 + at, k0 + k) : 0.f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < Q_STEP; k++) {
            float x[4], w[4];
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] = xs[k][ty + 16 * i], w[i] = ws[k][tx + 16 * i];
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) sum[i][j] = fmaf(x[i], w[j], sum[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            if (m0 + ty + 16 * i < c.p.m && n0 + tx + 16 * j < c.p.w.n) put(c, m0 + ty + 16 * i, n0 + tx + 16 * j, sum[i][j]);
}

// Rows in 8 bits, a block for each: see quantized_cpu.c.
static __global__ void __launch_bounds__(Q_THREADS) round_rows(const __grid_constant__ q_call c, float *rows) {
    __shared__ float lows[Q_THREADS], highs[Q_THREADS];
    const int64_t m = blockIdx.x;
    const int tid = (int)threadIdx.x;
    float least = 0, most = 0;
    for (int64_t k = tid; k < c.p.w.k; k += Q_THREADS) {
        const float x = input_of(c, m, k);
        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    lows[tid] = least, highs[tid] = most;
    __syncthreads();
    for (int step = Q_THREADS / 2; step > 0; step /= 2) {
        if (tid < step) lows[tid] = fminf(lows[tid], lows[tid + step]), highs[tid] = fmaxf(highs[tid], highs[tid + step]);
        __syncthreads();
    }
    const quantized_scale s = quantized_scale_of(lows[0], highs[0]);
    for (int64_t k = tid; k < c.p.w.k; k += Q_THREADS) rows[m * c.p.w.k + k] = quantized_rounded(&s, input_of(c, m, k));
}

static nbx_status quantized_cuda(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0);
    q_call q = {};
    if (y->numel == 0) return NBX_OK;
    nbx_quantized_product(c, &q.p);
    q.x = x->numel ? (const char *)nbx_data(x) : NULL, q.x_dtype = q.p.dtype, q.y = (char *)nbx_data(y);
    q.row_stride = q.p.row_stride, q.col_stride = q.p.col_stride;
    if (q.p.rounds_input) {
        float *rows = (float *)c->scratch;
        if (q.p.w.k) round_rows<<<(unsigned)q.p.m, Q_THREADS, 0, stream_of(c)>>>(q, rows);
        q.x = (const char *)rows, q.x_dtype = NBX_FLOAT32, q.row_stride = q.p.w.k, q.col_stride = 1;
        q.cuts = q.p.dtype == NBX_BFLOAT16;
    }
    if (q.p.m <= Q_FEW) {
        multiply_few<<<(unsigned)((q.p.w.n + Q_THREADS / 32 - 1) / (Q_THREADS / 32)), Q_THREADS, 0, stream_of(c)>>>(q);
    } else {
        const int64_t tiles = (q.p.m + Q_TILE - 1) / Q_TILE;
        if (tiles > 65535) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d rows on CUDA", 65535 * Q_TILE);
        multiply_tiles<<<dim3((unsigned)((q.p.w.n + Q_TILE - 1) / Q_TILE), (unsigned)tiles), Q_THREADS, 0, stream_of(c)>>>(q);
    }
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::_weight_int8pack_mm", quantized_cuda)
NBX_CUDA_KERNEL("aten::_weight_int4pack_mm", quantized_cuda)
NBX_CUDA_KERNEL("aten::_weight_int4pack_mm_for_cpu", quantized_cuda)
NBX_CUDA_KERNEL("aten::_dyn_quant_matmul_4bit", quantized_cuda)

// ------------------------------------------------------------------------------------------------------------ packing
// A thread makes a byte, or a word: it asks which [n, k] lie there.
static __global__ void __launch_bounds__(FLAT_THREADS) pack_blocks(const int32_t *q, int64_t row, int64_t col, int64_t n, int64_t k, uint8_t *to) {
    const int64_t item = flat_item();
    if (item >= n * k / 2) return;
    const int64_t block = item / (32 * k) * 64, wide = n - block < 64 ? n - block : 64, half = wide / 2, at = item - block * (k / 2);
    const int64_t i = at / half, j = at % half, low = block + (wide == 64 ? j : 2 * j), high = low + (wide == 64 ? 32 : 1);
    to[item] = (uint8_t)((uint32_t)q[low * row + i * col] | (uint32_t)q[high * row + i * col] << 4);
}

static __global__ void __launch_bounds__(FLAT_THREADS) pack_tiles(const uint8_t *q, int64_t n, int64_t k, int64_t tiles, int64_t words, uint32_t *to) {
    const int64_t item = flat_item();
    if (item >= words) return;
    const int64_t per_lane = tiles / 2, word = item % per_lane, lane = item / per_lane % 32, across = k / (16 * tiles);
    const int64_t row = item / per_lane / 32 / across * 8 + lane / 4, first = item / per_lane / 32 % across * 16 * tiles + word * 32;
    uint32_t packed = 0;
    for (int64_t i = 0; i < 32 && row < n; i++) {
        int shift;
        if (quantized_tile(row, first + i, k, tiles, &shift) != item) continue;
        const uint32_t byte = q[row * (k / 2) + (first + i) / 2];
        packed |= (i % 2 ? byte & 15 : byte >> 4) << shift;
    }
    to[item] = packed;
}

static nbx_status pack_blocks_cuda(nbx_op_call *c) {
    const nbx_tensor *q = arg_tensor(c, 0), *y = out_get(c, 0);
    if (y->numel)
        pack_blocks<<<flat_blocks(y->numel), FLAT_THREADS, 0, stream_of(c)>>>((const int32_t *)nbx_data(q), q->stride[0], q->stride[1], q->shape[0], q->shape[1], (uint8_t *)nbx_data(y));
    return launch_status(c);
}

static nbx_status pack_tiles_cuda(nbx_op_call *c) {
    const nbx_tensor *q = arg_tensor(c, 0), *y = out_get(c, 0);
    if (y->numel)
        pack_tiles<<<flat_blocks(y->numel), FLAT_THREADS, 0, stream_of(c)>>>((const uint8_t *)nbx_data(q), q->shape[0], q->shape[1] * 2, arg_int(c, 1), y->numel, (uint32_t *)nbx_data(y));
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::_convert_weight_to_int4pack", pack_tiles_cuda)
NBX_CUDA_KERNEL("aten::_convert_weight_to_int4pack_for_cpu", pack_blocks_cuda)

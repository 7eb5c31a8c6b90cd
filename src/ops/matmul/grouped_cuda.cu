// Products of groups on CUDA: tiles of 64 by 64, sums in float32 (float64: in double). The ends of groups are read on the device,
// so that nothing waits; blocks beyond the end of their group have nothing to do.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"

enum { G_TILE = 64, G_STEP = 16, G_THREADS = 256 };
typedef enum along_kind { ALONG_M, ALONG_N, ALONG_K, ALONG_BATCH } along_kind;

typedef struct grouped_call {
    along_kind along;
    int dtype, width;
    bool wide;                    // ends are int64
    const char *a, *b, *ends;
    char *c;
    int64_t m, n, k, groups, end_step;  // end_step in bytes, the other strides in elements
    int64_t a_row, a_col, a_batch, b_row, b_col, b_batch, c_row, c_batch;
} grouped_call;

static __device__ __forceinline__ int64_t end_of(const grouped_call &p, int64_t i, int64_t size) {
    const char *at = p.ends + i * p.end_step;
    const int64_t end = p.wide ? *(const int64_t *)at : *(const int32_t *)at;
    return end < 0 ? 0 : end < size ? end : size;
}

template <typename C> static __global__ void __launch_bounds__(G_THREADS) multiply_groups(const __grid_constant__ grouped_call p) {
    __shared__ C as[G_STEP][G_TILE + 1], bs[G_STEP][G_TILE + 1];
    const int64_t group = blockIdx.z, size = p.along == ALONG_M ? p.m : p.along == ALONG_N ? p.n : p.k;
    int64_t start = 0, count = size, at_a = group * p.a_batch, at_b = group * p.b_batch, at_c = group * p.c_batch;
    if (p.along != ALONG_BATCH) {
        start = group ? end_of(p, group - 1, size) : 0;
        count = end_of(p, group, size) - start;
    }
    int64_t m = p.m, n = p.n, k = p.k;
    if (p.along == ALONG_M) m = count, at_a += start * p.a_row, at_c += start * p.c_row;
    if (p.along == ALONG_N) n = count, at_b += start * p.b_col, at_c += start;
    if (p.along == ALONG_K) k = count, at_a += start * p.a_col, at_b += start * p.b_row;
    const int64_t m0 = (int64_t)blockIdx.y * G_TILE, n0 = (int64_t)blockIdx.x * G_TILE;
    if (m0 >= m || n0 >= n || k <= 0) return;  // the same for all threads
    const int tid = (int)threadIdx.x, tx = tid % 16, ty = tid / 16;
    C sum[4][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[i][j] = 0;
    for (int64_t k0 = 0; k0 < k; k0 += G_STEP) {
        for (int i = tid; i < G_STEP * G_TILE; i += G_THREADS) {
            const int ka = i % G_STEP, ma = i / G_STEP, nb = i % G_TILE, kb = i / G_TILE;
            as[ka][ma] = k0 + ka < k && m0 + ma < m ? ewc_load<C>(p.dtype, p.a + (at_a + (m0 + ma) * p.a_row + (k0 + ka) * p.a_col) * p.width) : (C)0;
            bs[kb][nb] = k0 + kb < k && n0 + nb < n ? ewc_load<C>(p.dtype, p.b + (at_b + (k0 + kb) * p.b_row + (n0 + nb) * p.b_col) * p.width) : (C)0;
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < G_STEP; step++) {
            C x[4], y[4];
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] = as[step][ty + 16 * i], y[i] = bs[step][tx + 16 * i];
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) sum[i][j] = fma(x[i], y[j], sum[i][j]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int64_t row = m0 + ty + 16 * i, col = n0 + tx + 16 * j;
            if (row < m && col < n) ewc_store<C>(p.dtype, p.c + (at_c + row * p.c_row + col) * p.width, sum[i][j]);
        }
}

static nbx_status grouped_cuda(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1), *offs = arg_tensor(c, 2), *y = out_get(c, 0);
    if (y->numel == 0) return NBX_OK;
    const int64_t *as = a->stride + a->rank - 2, *bs = b->stride + b->rank - 2, *ys = y->stride + y->rank - 2;
    grouped_call p = {};
    p.along = a->rank == 2 ? (b->rank == 2 ? ALONG_K : ALONG_M) : b->rank == 2 ? ALONG_N : ALONG_BATCH;
    p.dtype = a->dtype, p.width = (int)nbx_dtype_size((nbx_dtype)a->dtype);
    p.a = a->numel ? (const char *)nbx_data(a) : NULL, p.b = b->numel ? (const char *)nbx_data(b) : NULL, p.c = (char *)nbx_data(y);
    p.m = a->shape[a->rank - 2], p.k = a->shape[a->rank - 1], p.n = b->shape[b->rank - 1];
    p.groups = p.along == ALONG_BATCH ? a->shape[0] : offs->shape[0];
    if (offs) p.ends = (const char *)nbx_data(offs), p.wide = offs->dtype == NBX_INT64, p.end_step = offs->stride[0] * (p.wide ? 8 : 4);
    p.a_row = as[0], p.a_col = as[1], p.b_row = bs[0], p.b_col = bs[1], p.c_row = ys[0];
    p.a_batch = a->rank == 3 ? a->stride[0] : 0, p.b_batch = b->rank == 3 ? b->stride[0] : 0, p.c_batch = y->rank == 3 ? y->stride[0] : 0;
    const int64_t rows = y->numel / p.n, across = (p.n + G_TILE - 1) / G_TILE, down = (p.m + G_TILE - 1) / G_TILE;
    if (p.groups > 65535 || down > 65535) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than 65535 groups, or %d rows, on CUDA", 65535 * G_TILE);
    nbx_status status = nbx_cuda_set_bytes(c, p.c, 0, (size_t)(((rows - 1) * p.c_row + p.n) * p.width));  // what no group covers
    if (status != NBX_OK || p.groups == 0) return status;
    const dim3 grid((unsigned)across, (unsigned)down, (unsigned)p.groups);
    if (p.dtype == NBX_FLOAT64) multiply_groups<double><<<grid, G_THREADS, 0, stream_of(c)>>>(p);
    else multiply_groups<float><<<grid, G_THREADS, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::_grouped_mm", grouped_cuda)
NBX_CUDA_KERNEL("transformers::grouped_mm_fallback", grouped_cuda)

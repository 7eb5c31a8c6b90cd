// Pooling on CUDA: a thread per result walks its window; neighbouring threads along the dim in which the result is dense.
#include "ops/elementwise/engine.cuh"
#include "ops/pool/pooling.h"

enum { POOL_THREADS = 256 };

template <typename C> static __device__ __forceinline__ C lowest(int) { return -(C)INFINITY; }
template <> __device__ __forceinline__ int64_t lowest<int64_t>(int dtype) {
    return dtype == NBX_UINT8 ? 0 : -((int64_t)1 << (8 * nbx_cuda_dtype_bytes(dtype) - 1));
}

template <typename C> static __global__ void __launch_bounds__(POOL_THREADS) pool_windows(const __grid_constant__ nbx_pooling p, int64_t count, bool channels_first) {
    int64_t item = (int64_t)blockIdx.x * POOL_THREADS + threadIdx.x;
    if (item >= count) return;
    int64_t at[5];  // batch, channel, depth, height, width
    const auto take = [&](int64_t size) {
        const int64_t rest = quotient_of(item, size), here = item - rest * size;
        item = rest;
        return here;
    };
    if (!channels_first) at[1] = take(p.channels);
    for (int d = 2; d >= 0; d--) at[2 + d] = p.out[d] == 1 ? 0 : take(p.out[d]);
    if (channels_first) at[1] = take(p.channels);
    at[0] = item;
    const int size = nbx_cuda_dtype_bytes(p.dtype);
    const char *x = p.input + (at[0] * p.in_stride[0] + at[1] * p.in_stride[1]) * size;
    pool_window w[3];
    for (int d = 0; d < 3; d++) w[d] = nbx_pooling_window(&p, d, at[2 + d]);
    const bool is_max = p.kind == POOL_MAX || p.kind == POOL_ADAPTIVE_MAX;
    const int64_t step0 = p.kind == POOL_MAX ? p.step[0] : 1, step1 = p.kind == POOL_MAX ? p.step[1] : 1, step2 = p.kind == POOL_MAX ? p.step[2] : 1;
    C best = 0;
    int64_t place = -1;
    for (int64_t i = w[0].start; i < w[0].end; i += step0)
        for (int64_t j = w[1].start; j < w[1].end; j += step1)
            for (int64_t k = w[2].start; k < w[2].end; k += step2) {
                const C v = ewc_load<C>(p.dtype, x + (i * p.in_stride[2] + j * p.in_stride[3] + k * p.in_stride[4]) * size);
                if (!is_max) best += v;
                else if (place < 0 || v > best || v != v) best = v, place = (i * p.in[1] + j) * p.in[2] + k;
            }
    if (is_max) {
        if (place < 0) best = lowest<C>(p.dtype), place = 0;
    } else {
        const int64_t inside = (w[0].end - w[0].start) * (w[1].end - w[1].start) * (w[2].end - w[2].start);
        const int64_t divisor = p.divisor ? p.divisor : p.count_padding ? w[0].padded * w[1].padded * w[2].padded : inside;
        best = best / (C)divisor;
    }
    int64_t to = 0, to_index = 0;
    for (int d = 0; d < 5; d++) to += at[d] * p.out_stride[d], to_index += at[d] * p.index_stride[d];
    ewc_store<C>(p.dtype, p.output + to * size, best);
    if (p.indices) p.indices[to_index] = place;
}

static nbx_status pooling_cuda(nbx_op_call *c) {
    nbx_pooling p;
    nbx_pooling_of(c, &p);
    const int64_t count = p.batch * p.channels * p.out[0] * p.out[1] * p.out[2];
    if (count == 0) return NBX_OK;
    const bool channels_first = p.out_stride[1] != 1 || p.channels == 1;
    const unsigned blocks = (unsigned)((count + POOL_THREADS - 1) / POOL_THREADS);
    if (p.dtype == NBX_FLOAT64) pool_windows<double><<<blocks, POOL_THREADS, 0, stream_of(c)>>>(p, count, channels_first);
    else if (nbx_dtype_is_float(p.dtype)) pool_windows<float><<<blocks, POOL_THREADS, 0, stream_of(c)>>>(p, count, channels_first);
    else pool_windows<int64_t><<<blocks, POOL_THREADS, 0, stream_of(c)>>>(p, count, channels_first);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::_adaptive_avg_pool2d", pooling_cuda)
NBX_CUDA_KERNEL("aten::_adaptive_avg_pool3d", pooling_cuda)
NBX_CUDA_KERNEL("aten::adaptive_avg_pool1d", pooling_cuda)
NBX_CUDA_KERNEL("aten::adaptive_avg_pool2d", pooling_cuda)
NBX_CUDA_KERNEL("aten::adaptive_avg_pool3d", pooling_cuda)
NBX_CUDA_KERNEL("aten::adaptive_max_pool1d", pooling_cuda)
NBX_CUDA_KERNEL("aten::adaptive_max_pool2d", pooling_cuda)
NBX_CUDA_KERNEL("aten::adaptive_max_pool3d", pooling_cuda)
NBX_CUDA_KERNEL("aten::avg_pool1d", pooling_cuda)
NBX_CUDA_KERNEL("aten::avg_pool2d", pooling_cuda)
NBX_CUDA_KERNEL("aten::avg_pool3d", pooling_cuda)
NBX_CUDA_KERNEL("aten::max_pool1d", pooling_cuda)
NBX_CUDA_KERNEL("aten::max_pool1d_with_indices", pooling_cuda)
NBX_CUDA_KERNEL("aten::max_pool2d", pooling_cuda)
NBX_CUDA_KERNEL("aten::max_pool2d_with_indices", pooling_cuda)
NBX_CUDA_KERNEL("aten::max_pool3d", pooling_cuda)
NBX_CUDA_KERNEL("aten::max_pool3d_with_indices", pooling_cuda)

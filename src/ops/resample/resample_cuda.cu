// upsample_* on CUDA. The inputs and weights of every position of each dim are computed first, then a thread sums for one
// element of the result, in the order of the CPU's kernels. uint8 rounds between its two passes, as ATen does.
#include "ops/resample/resample_table.h"
#include "ops/elementwise/engine.cuh"

enum { RESAMPLE_THREADS = 256 };

typedef struct resample_call {
    nbx_resample p;
    int32_t *index[RESAMPLE_DIMS];
    double *weight[RESAMPLE_DIMS];
    double *most;      // the largest weight of height and width (bytes)
    int64_t count;
    bool channels_first;  // a thread's neighbour has the next channel
} resample_call;

static __global__ void __launch_bounds__(RESAMPLE_THREADS) resample_tables(const __grid_constant__ resample_call r, int d) {
    const int64_t o = (int64_t)blockIdx.x * RESAMPLE_THREADS + threadIdx.x;
    const int taps = r.p.axis[d].taps;
    if (o < r.p.axis[d].out) resample_position(&r.p, d, o, r.index[d] + o * taps, r.weight[d] + o * taps);
}

static __global__ void __launch_bounds__(RESAMPLE_THREADS) largest_weights(const __grid_constant__ resample_call r) {
    __shared__ double room[RESAMPLE_THREADS];
    const int d = 1 + (int)blockIdx.x;
    double most = 0;
    for (int64_t i = threadIdx.x; i < r.p.axis[d].out * r.p.axis[d].taps; i += RESAMPLE_THREADS) most = fmax(most, r.weight[d][i]);
    room[threadIdx.x] = most;
    __syncthreads();
    for (int step = RESAMPLE_THREADS / 2; step > 0; step /= 2) {
        if ((int)threadIdx.x < step) room[threadIdx.x] = fmax(room[threadIdx.x], room[threadIdx.x + step]);
        __syncthreads();
    }
    if (threadIdx.x == 0) r.most[blockIdx.x] = room[0];
}

typedef struct place { int64_t n, c, o[RESAMPLE_DIMS]; } place;

static __device__ __forceinline__ bool place_of(const resample_call &r, place *at) {
    int64_t i = (int64_t)blockIdx.x * RESAMPLE_THREADS + threadIdx.x;
    if (i >= r.count) return false;
    const auto take = [&](int64_t size) {
        const int64_t rest = quotient_of(i, size), here = i - rest * size;
        i = rest;
        return here;
    };
    if (r.channels_first) at->c = take(r.p.channels);
    for (int d = RESAMPLE_DIMS - 1; d >= 0; d--) at->o[d] = r.p.axis[d].out == 1 ? 0 : take(r.p.axis[d].out);
    if (!r.channels_first) at->c = take(r.p.channels);
    at->n = i;
    return true;
}

static __device__ __forceinline__ int64_t input_of(const resample_call &r, const place &at) { return at.n * r.p.in_stride[0] + at.c * r.p.in_stride[1]; }

static __device__ __forceinline__ int64_t output_of(const resample_call &r, const place &at) {
    return at.n * r.p.out_stride[0] + at.c * r.p.out_stride[1] + at.o[0] * r.p.out_stride[2] + at.o[1] * r.p.out_stride[3] + at.o[2] * r.p.out_stride[4];
}

template <typename E> static __global__ void __launch_bounds__(RESAMPLE_THREADS) resample_nearest(const __grid_constant__ resample_call r) {
    place at;
    if (!place_of(r, &at)) return;
    int64_t from = input_of(r, at);
    for (int d = 0; d < RESAMPLE_DIMS; d++) from += r.index[d][at.o[d]] * r.p.in_stride[2 + d];
    ((E *)r.p.output)[output_of(r, at)] = ((const E *)r.p.input)[from];
}

// C float: the rows that a position needs are summed for each of its columns, then the columns. double: rows inside.
template <typename C> static __global__ void __launch_bounds__(RESAMPLE_THREADS) resample_sums(const __grid_constant__ resample_call r) {
    place at;
    if (!place_of(r, &at)) return;
    const int size = nbx_cuda_dtype_bytes(r.p.dtype);
    const int tz = r.p.axis[0].taps, ty = r.p.axis[1].taps, tx = r.p.axis[2].taps;
    const int32_t *z = r.index[0] + at.o[0] * tz, *y = r.index[1] + at.o[1] * ty, *x = r.index[2] + at.o[2] * tx;
    const double *wz = r.weight[0] + at.o[0] * tz, *wy = r.weight[1] + at.o[1] * ty, *wx = r.weight[2] + at.o[2] * tx;
    const char *from = r.p.input + input_of(r, at) * size;
    const int64_t sz = r.p.in_stride[2] * size, sy = r.p.in_stride[3] * size, sx = r.p.in_stride[4] * size;
    C sum = 0;
    if (sizeof(C) == 4) {
        for (int j = 0; j < tx && x[j] >= 0; j++) {
            C column = 0;
            bool first = true;
            for (int i = 0; i < tz; i++)
                for (int k = 0; k < ty && y[k] >= 0; k++) {
                    const C term = (C)(wz[i] * wy[k]) * ewc_load<C>(r.p.dtype, from + z[i] * sz + y[k] * sy + x[j] * sx);
                    column = first ? term : column + term;
                    first = false;
                }
            sum = j == 0 ? column * (C)wx[j] : sum + column * (C)wx[j];
        }
    } else {
        for (int i = 0; i < tz; i++)
            for (int k = 0; k < ty && y[k] >= 0; k++) {
                C row = 0;
                for (int j = 0; j < tx && x[j] >= 0; j++) row += (C)wx[j] * ewc_load<C>(r.p.dtype, from + z[i] * sz + y[k] * sy + x[j] * sx);
                sum += (C)(wz[i] * wy[k]) * row;
            }
    }
    ewc_store<C>(r.p.dtype, r.p.output + output_of(r, at) * size, sum);
}

// Bits of fraction with which the largest weight of a pass fits 16 bits.
static __device__ __forceinline__ int precision_of(double most) {
    int bits = 0;
    while (bits < 22 && (int)(0.5 + most * (double)(1 << (bits + 1))) < 1 << 15) bits++;
    return bits;
}
static __device__ __forceinline__ int fixed_weight(double weight, int bits) {
    const double x = weight * (double)(1 << bits);
    return (int)(x < 0 ? x - 0.5 : x + 0.5);
}
static __device__ __forceinline__ int byte_of(int sum, int bits) {
    sum >>= bits;
    return sum < 0 ? 0 : sum > 255 ? 255 : sum;
}

static __global__ void __launch_bounds__(RESAMPLE_THREADS) resample_bytes(const __grid_constant__ resample_call r) {
    place at;
    if (!place_of(r, &at)) return;
    const int ty = r.p.axis[1].taps, tx = r.p.axis[2].taps, bits_y = precision_of(r.most[0]), bits_x = precision_of(r.most[1]);
    const int32_t *y = r.index[1] + at.o[1] * ty, *x = r.index[2] + at.o[2] * tx;
    const double *wy = r.weight[1] + at.o[1] * ty, *wx = r.weight[2] + at.o[2] * tx;
    const uint8_t *from = (const uint8_t *)r.p.input + input_of(r, at);
    int sum = bits_y ? 1 << (bits_y - 1) : 0;
    for (int k = 0; k < ty && y[k] >= 0; k++) {
        int row = bits_x ? 1 << (bits_x - 1) : 0;
        for (int j = 0; j < tx && x[j] >= 0; j++) row += fixed_weight(wx[j], bits_x) * from[y[k] * r.p.in_stride[3] + x[j] * r.p.in_stride[4]];
        sum += fixed_weight(wy[k], bits_y) * byte_of(row, bits_x);
    }
    ((uint8_t *)r.p.output)[output_of(r, at)] = (uint8_t)byte_of(sum, bits_y);
}

static nbx_status resample_cuda(nbx_op_call *c) {
    resample_call r;
    resample_places places;
    const nbx_tensor *out = out_get(c, 0);
    if (out->numel == 0) return NBX_OK;
    nbx_resample_of(c, &r.p);
    nbx_resample_places(&r.p, 1, &places);
    char *base = (char *)c->scratch;
    cudaStream_t stream = stream_of(c);
    r.most = (double *)(base + places.threads);
    r.count = out->numel;
    r.channels_first = r.p.channels > 1 && r.p.out_stride[1] == 1;
    for (int d = 0; d < RESAMPLE_DIMS; d++) {
        r.index[d] = (int32_t *)(base + places.index[d]);
        r.weight[d] = (double *)(base + places.weight[d]);
    }
    for (int d = 0; d < RESAMPLE_DIMS; d++)
        resample_tables<<<(unsigned)((r.p.axis[d].out + RESAMPLE_THREADS - 1) / RESAMPLE_THREADS), RESAMPLE_THREADS, 0, stream>>>(r, d);
    const unsigned blocks = (unsigned)((r.count + RESAMPLE_THREADS - 1) / RESAMPLE_THREADS);
    if (r.p.kind < RESAMPLE_LINEAR) {
        switch (nbx_dtype_size(r.p.dtype)) {
        case 1: resample_nearest<uint8_t><<<blocks, RESAMPLE_THREADS, 0, stream>>>(r); break;
        case 2: resample_nearest<uint16_t><<<blocks, RESAMPLE_THREADS, 0, stream>>>(r); break;
        case 4: resample_nearest<uint32_t><<<blocks, RESAMPLE_THREADS, 0, stream>>>(r); break;
        default: resample_nearest<uint64_t><<<blocks, RESAMPLE_THREADS, 0, stream>>>(r); break;
        }
    } else if (r.p.dtype == NBX_UINT8) {
        largest_weights<<<2, RESAMPLE_THREADS, 0, stream>>>(r);
        resample_bytes<<<blocks, RESAMPLE_THREADS, 0, stream>>>(r);
    } else if (r.p.dtype == NBX_FLOAT64) resample_sums<double><<<blocks, RESAMPLE_THREADS, 0, stream>>>(r);
    else resample_sums<float><<<blocks, RESAMPLE_THREADS, 0, stream>>>(r);
    return launch_status(c);
}

#define RESAMPLE(NAME) NBX_CUDA_KERNEL(NAME, resample_cuda)
RESAMPLE("aten::upsample_nearest1d")
RESAMPLE("aten::upsample_nearest1d.vec")
RESAMPLE("aten::upsample_nearest2d")
RESAMPLE("aten::upsample_nearest2d.vec")
RESAMPLE("aten::upsample_nearest3d")
RESAMPLE("aten::upsample_nearest3d.vec")
RESAMPLE("aten::_upsample_nearest_exact1d")
RESAMPLE("aten::_upsample_nearest_exact1d.vec")
RESAMPLE("aten::_upsample_nearest_exact2d")
RESAMPLE("aten::_upsample_nearest_exact2d.vec")
RESAMPLE("aten::_upsample_nearest_exact3d")
RESAMPLE("aten::_upsample_nearest_exact3d.vec")
RESAMPLE("aten::upsample_linear1d")
RESAMPLE("aten::upsample_linear1d.vec")
RESAMPLE("aten::upsample_bilinear2d")
RESAMPLE("aten::upsample_bilinear2d.vec")
RESAMPLE("aten::upsample_trilinear3d")
RESAMPLE("aten::upsample_trilinear3d.vec")
RESAMPLE("aten::upsample_bicubic2d")
RESAMPLE("aten::upsample_bicubic2d.vec")
RESAMPLE("aten::_upsample_bilinear2d_aa")
RESAMPLE("aten::_upsample_bilinear2d_aa.vec")
RESAMPLE("aten::_upsample_bicubic2d_aa")
RESAMPLE("aten::_upsample_bicubic2d_aa.vec")

// Convolutions on CUDA, as implicit matrix products: pixels x (taps x channels) x filters, nothing is expanded in memory.
//   float16, bfloat16   tensor cores (cuda/mma.cuh). Inputs whose channels are not dense are first laid out channels last in
//                       scratch, filters are packed [filter][tap][channel]: every chunk of 8 channels is one 16-byte copy.
//                       Channels that are no multiple of 8 (the first layer) are gathered element by element.
//   float32, others     64 x 64 tiles of FMA, inputs gathered
//   one channel a group (depthwise)   depthwise_cuda.cuh; few channels, other dtypes: a thread per result
// A transposed convolution runs as its phases: the outputs whose inputs the same taps reach (conv.h).
#include "ops/elementwise/engine.cuh"
#include "cuda/mma.cuh"
#include "ops/conv/conv.h"

#include <string.h>

// Along one dim: outputs first + q * step, q < count; input position q * stride + shift + j * shift_step through tap
// k0 + j * k_step, j < taps.
typedef struct axis {
    int64_t first, step, stride, shift, shift_step, k0, k_step;
    int count, taps;
} axis;

typedef struct conv_call {
    const char *input, *bias;
    const char *weight;                  // packed
    char *output;
    bool transposed;
    int dtype, channels, filters, pixels, inner;  // of a group; pixels of the phase in all; inner = taps x channels
    axis a[3];
    int64_t in[3], in_stride[5], out_stride[5], weight_stride[5], bias_stride;
    ewc_divisor by_channels, by_taps1, by_taps2, by_count0, by_count1, by_count2;
} conv_call;

struct pixel {
    int64_t base;  // offset of the batch (and group) in the input, in elements
    int64_t at[3];
    int64_t out;
};

static __device__ __forceinline__ pixel pixel_of(const conv_call &p, uint32_t m) {
    pixel x;
    const uint32_t r2 = ewc_quotient(m, p.by_count2), q2 = m - r2 * (uint32_t)p.a[2].count;
    const uint32_t r1 = ewc_quotient(r2, p.by_count1), q1 = r2 - r1 * (uint32_t)p.a[1].count;
    const uint32_t b = ewc_quotient(r1, p.by_count0), q0 = r1 - b * (uint32_t)p.a[0].count;
    x.base = b * p.in_stride[0];
    x.at[0] = q0 * p.a[0].stride + p.a[0].shift, x.at[1] = q1 * p.a[1].stride + p.a[1].shift, x.at[2] = q2 * p.a[2].stride + p.a[2].shift;
    x.out = b * p.out_stride[0] + (p.a[0].first + q0 * p.a[0].step) * p.out_stride[2] + (p.a[1].first + q1 * p.a[1].step) * p.out_stride[3] +
            (p.a[2].first + q2 * p.a[2].step) * p.out_stride[4];
    return x;
}

// Offset of the input of a pixel through tap t, channel c; -1: in the padding.
static __device__ __forceinline__ int64_t input_of(const conv_call &p, const pixel &x, uint32_t t, uint32_t c) {
    const uint32_t r = ewc_quotient(t, p.by_taps2), j2 = t - r * (uint32_t)p.a[2].taps;
    const uint32_t j0 = ewc_quotient(r, p.by_taps1), j1 = r - j0 * (uint32_t)p.a[1].taps;
    const int64_t i0 = x.at[0] + j0 * p.a[0].shift_step, i1 = x.at[1] + j1 * p.a[1].shift_step, i2 = x.at[2] + j2 * p.a[2].shift_step;
    if ((uint64_t)i0 >= (uint64_t)p.in[0] || (uint64_t)i1 >= (uint64_t)p.in[1] || (uint64_t)i2 >= (uint64_t)p.in[2]) return -1;
    return x.base + c * p.in_stride[1] + i0 * p.in_stride[2] + i1 * p.in_stride[3] + i2 * p.in_stride[4];
}

// --------------------------------------------------------------------------------------------------------------- filters
// Packs the taps of a phase: [filter][tap][channel], or [tap][channel][filter] for the scalar kernel.
template <typename E> static __global__ void pack_filters(const __grid_constant__ conv_call p, const E *weight, E *packed, bool filter_last) {
    const int64_t item = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, group = blockIdx.y;
    if (item >= (int64_t)p.filters * p.inner) return;
    const int64_t n = filter_last ? item % p.filters : item / p.inner, k = filter_last ? item / p.filters : item % p.inner;
    const int64_t t = k / p.channels, c = k % p.channels;
    const int64_t j2 = t % p.a[2].taps, j1 = t / p.a[2].taps % p.a[1].taps, j0 = t / p.a[2].taps / p.a[1].taps;
    const int64_t filter = p.transposed ? n : group * p.filters + n, channel = p.transposed ? group * p.channels + c : c;
    packed[group * p.filters * p.inner + item] =
        weight[filter * p.weight_stride[0] + channel * p.weight_stride[1] + (p.a[0].k0 + j0 * p.a[0].k_step) * p.weight_stride[2] +
               (p.a[1].k0 + j1 * p.a[1].k_step) * p.weight_stride[3] + (p.a[2].k0 + j2 * p.a[2].k_step) * p.weight_stride[4]];
}

// ---------------------------------------------------------------------------------------------------------- tensor
// cores
template <typename T, typename Tile, bool DENSE> struct image_loader {
    const conv_call &p;
    const T *input;  // of the group
    pixel pixels[Tile::BM * Tile::BK / 8 / Tile::THREADS];  // of this thread's chunks, which are the same at every step
    __device__ __forceinline__ image_loader(const conv_call &call, const T *from, int m0) : p(call), input(from) {
#pragma unroll
        for (int i = 0; i < Tile::BM * Tile::BK / 8 / Tile::THREADS; i++) {
            const int m = m0 + (i * Tile::THREADS + (int)threadIdx.x) / (Tile::BK / 8);
            pixels[i] = pixel_of(p, (uint32_t)(m < p.pixels ? m : 0));
        }
    }
    __device__ __forceinline__ void chunk(int i, uint32_t to, int m, int k) const {
        const pixel &x = pixels[i];
        if constexpr (DENSE) {
            const uint32_t t = ewc_quotient((uint32_t)k, p.by_channels), c = (uint32_t)k - t * (uint32_t)p.channels;
            const int64_t at = m < p.pixels && k < p.inner ? input_of(p, x, t, c) : -1;
            copy_async(to, at >= 0 ? input + at : input, at >= 0 ? 16 : 0);
        } else {
            uint32_t v[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                uint32_t half[2];
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    const uint32_t kk = (uint32_t)(k + 2 * e + j), t = ewc_quotient(kk, p.by_channels),
                                   c = kk - t * (uint32_t)p.channels;
                    const int64_t at = m < p.pixels && kk < (uint32_t)p.inner ? input_of(p, x, t, c) : -1;
                    half[j] = at >= 0 ? ((const uint16_t *)input)[at] : 0;
                }
                v[e] = half[0] | half[1] << 16;
            }
            asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]));
        }
    }
};

// Rows of packed filters; inner is a multiple of 8 when DENSE.
template <typename T, bool DENSE> struct filter_loader {
    const T *packed;
    int filters, inner;
    __device__ __forceinline__ void chunk(int, uint32_t to, int n, int k) const {
        const T *from = packed + (int64_t)n * inner + k;
        const bool inside = n < filters && k < inner;
        if constexpr (DENSE) {
            copy_async(to, inside ? from : packed, inside ? 16 : 0);
        } else {
            uint32_t v[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t lo = inside && k + 2 * i < inner ? ((const uint16_t *)from)[2 * i] : 0;
                const uint32_t hi = inside && k + 2 * i + 1 < inner ? ((const uint16_t *)from)[2 * i + 1] : 0;
                v[i] = lo | hi << 16;
            }
            asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]));
        }
    }
};

template <typename T> static __device__ __forceinline__ float wide(T x) { return (float)x; }

template <typename T> struct image_store {
    const conv_call &p;
    int group;
    __device__ __forceinline__ void one(int64_t at, int n, float v) const {
        const int filter = group * p.filters + n;
        if (p.bias) v += wide(((const T *)p.bias)[filter * p.bias_stride]);
        ((T *)p.output)[at + filter * p.out_stride[1]] = (T)v;
    }
    __device__ __forceinline__ void operator()(int m, int n, float v0, float v1) const {
        if (m >= p.pixels || n >= p.filters) return;
        const int64_t at = pixel_of(p, (uint32_t)m).out;
        one(at, n, v0);
        if (n + 1 < p.filters) one(at, n + 1, v1);
    }
};

template <typename T, typename Tile, bool DENSE>
static __global__ void __launch_bounds__(Tile::THREADS) conv_tensor(const __grid_constant__ conv_call p, int tiles_m, int tiles_n) {
    int tm, tn;
    tile_of_block((int)blockIdx.x, tiles_m, tiles_n, &tm, &tn);
    const int group = (int)blockIdx.y;
    const image_loader<T, Tile, DENSE> image(p, (const T *)p.input + (int64_t)group * p.channels * p.in_stride[1], tm * Tile::BM);
    const filter_loader<T, DENSE> filters = {(const T *)p.weight + (int64_t)group * p.filters * p.inner, p.filters, p.inner};
    const image_store<T> store = {p, group};
    mma_block<T, Tile, true, true>(image, filters, tm * Tile::BM, tn * Tile::BN, p.inner, store);
}

template <typename T, typename Tile, bool DENSE> static void launch_tensor(const conv_call &p, int groups, cudaStream_t stream) {
    const int tiles_m = (p.pixels + Tile::BM - 1) / Tile::BM, tiles_n = (p.filters + Tile::BN - 1) / Tile::BN;
    const auto kernel = conv_tensor<T, Tile, DENSE>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::SHARED_BYTES);
    kernel<<<dim3((unsigned)(tiles_m * tiles_n), (unsigned)groups), Tile::THREADS, Tile::SHARED_BYTES, stream>>>(p, tiles_m, tiles_n);
}

template <typename T> static void launch_halves(const conv_call &p, int groups, bool dense, const nbx_cuda_facts *facts, cudaStream_t stream) {
    typedef mma_tile<128, 128, 32, 4, 2, 4> wide;
    typedef mma_tile<128, 64, 32, 4, 4, 2> narrow;
    const int64_t tall = (p.pixels + 127) / 128;
    if (!dense) launch_tensor<T, narrow, false>(p, groups, stream);
    else if (p.filters > 64 && tall * ((p.filters + 127) / 128) * groups >= facts->sm_count) launch_tensor<T, wide, true>(p, groups, stream);
    else launch_tensor<T, narrow, true>(p, groups, stream);
}

// ----------------------------------------------------------------------------------------------------------- scalar tiles
template <typename C, int DTYPE> static __device__ __forceinline__ C get(const void *at, int dtype, int64_t i) {
    const int d = DTYPE >= 0 ? DTYPE : dtype;
    return ewc_load<C>(d, (const char *)at + i * nbx_cuda_dtype_bytes(d));
}
template <typename C> static __device__ __forceinline__ C fused(C a, C b, C c) { return a * b + c; }
template <> __device__ __forceinline__ float fused<float>(float a, float b, float c) { return fmaf(a, b, c); }
template <> __device__ __forceinline__ double fused<double>(double a, double b, double c) { return fma(a, b, c); }
template <typename C> static __device__ __forceinline__ C nothing() { return (C)0; }
template <> __device__ __forceinline__ cdouble nothing<cdouble>() { return {0., 0.}; }

template <typename C, int DTYPE> static __global__ void __launch_bounds__(256) conv_scalar(const __grid_constant__ conv_call p, int tiles_m, int tiles_n) {
    constexpr int BT = 64, BK = 16, R = 4;
    __shared__ C as[BK][BT + 1], bs[BK][BT + 1];
    int tm, tn;
    tile_of_block((int)blockIdx.x, tiles_m, tiles_n, &tm, &tn);
    const int group = (int)blockIdx.y, tid = (int)threadIdx.x, tx = tid & 15, ty = tid >> 4;
    const int64_t first_channel = (int64_t)group * p.channels * p.in_stride[1];
    const int size = nbx_cuda_dtype_bytes(DTYPE >= 0 ? DTYPE : p.dtype);
    const char *weight = p.weight + (int64_t)group * p.filters * p.inner * size;
    const int m = tm * BT + tid % BT;
    const pixel x = pixel_of(p, (uint32_t)(m < p.pixels ? m : 0));
    C acc[R][R];
    for (int i = 0; i < R; i++)
        for (int j = 0; j < R; j++) acc[i][j] = nothing<C>();
    for (int k0 = 0; k0 < p.inner; k0 += BK) {
#pragma unroll
        for (int i = 0; i < R; i++) {
            const int kk = i * 4 + tid / BT, k = k0 + kk, n = tn * BT + tid % BT;
            int64_t at = -1;
            if (m < p.pixels && k < p.inner) {
                const uint32_t t = ewc_quotient((uint32_t)k, p.by_channels);
                at = input_of(p, x, t, (uint32_t)k - t * (uint32_t)p.channels);
            }
            as[kk][tid % BT] = at >= 0 ? get<C, DTYPE>(p.input, p.dtype, first_channel + at) : nothing<C>();
            bs[kk][tid % BT] = n < p.filters && k < p.inner ? get<C, DTYPE>(weight, p.dtype, (int64_t)k * p.filters + n) : nothing<C>();
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k++) {
            C a[R], b[R];
#pragma unroll
            for (int i = 0; i < R; i++) a[i] = as[k][ty * R + i], b[i] = bs[k][tx * R + i];
#pragma unroll
            for (int i = 0; i < R; i++)
#pragma unroll
                for (int j = 0; j < R; j++) acc[i][j] = fused<C>(a[i], b[j], acc[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < R; i++) {
        const int row = tm * BT + ty * R + i;
        if (row >= p.pixels) continue;
        const int64_t at = pixel_of(p, (uint32_t)row).out;
        for (int j = 0; j < R; j++) {
            const int n = tn * BT + tx * R + j;
            if (n >= p.filters) continue;
            const int64_t filter = (int64_t)group * p.filters + n;
            C v = acc[i][j];
            if (p.bias) v = v + get<C, DTYPE>(p.bias, p.dtype, filter * p.bias_stride);
            ewc_store<C>(DTYPE >= 0 ? DTYPE : p.dtype, p.output + (at + filter * p.out_stride[1]) * size, v);
        }
    }
}

// ------------------------------------------------------------------------------------------------- few channels a group
template <typename C, int DTYPE> static __global__ void __launch_bounds__(256) conv_direct(const __grid_constant__ conv_call p, int64_t channels_in_all, bool channels_last) {
    const int64_t item = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (item >= (int64_t)p.pixels * channels_in_all) return;
    const int64_t filter = channels_last ? item % channels_in_all : item / p.pixels % channels_in_all;
    const int64_t m = channels_last ? item / channels_in_all : item % p.pixels;
    const int64_t group = filter / p.filters, n = filter % p.filters;
    const int size = nbx_cuda_dtype_bytes(DTYPE >= 0 ? DTYPE : p.dtype);
    const pixel x = pixel_of(p, (uint32_t)m);
    const int64_t first_channel = group * p.channels * p.in_stride[1];
    const char *weight = p.weight + (group * p.filters + n) * p.inner * size;
    C v = nothing<C>();
    for (int k = 0; k < p.inner; k++) {
        const uint32_t t = ewc_quotient((uint32_t)k, p.by_channels);
        const int64_t at = input_of(p, x, t, (uint32_t)k - t * (uint32_t)p.channels);
        if (at >= 0) v = fused<C>(get<C, DTYPE>(p.input, p.dtype, first_channel + at), get<C, DTYPE>(weight, p.dtype, k), v);
    }
    if (p.bias) v = v + get<C, DTYPE>(p.bias, p.dtype, filter * p.bias_stride);
    ewc_store<C>(DTYPE >= 0 ? DTYPE : p.dtype, p.output + (x.out + filter * p.out_stride[1]) * size, v);
}

#include "ops/conv/depthwise_cuda.cuh"

static bool depthwise(const conv_call &p, int groups, cudaStream_t stream) {
    switch (p.dtype) {
    case NBX_FLOAT32: return launch_depthwise<float>(p, groups, stream);
    case NBX_FLOAT16: return launch_depthwise<__half>(p, groups, stream);
    case NBX_BFLOAT16: return launch_depthwise<__nv_bfloat16>(p, groups, stream);
    default: return false;
    }
}

template <typename C, int DTYPE> static void launch_plain(const conv_call &p, int groups, bool direct, cudaStream_t stream) {
    if (direct) {
        const int64_t filters = (int64_t)p.filters * groups, items = filters * p.pixels;
        conv_direct<C, DTYPE><<<(unsigned)((items + 255) / 256), 256, 0, stream>>>(p, filters, p.out_stride[1] == 1 && filters > 1);
    } else {
        const int tiles_m = (p.pixels + 63) / 64, tiles_n = (p.filters + 63) / 64;
        conv_scalar<C, DTYPE><<<dim3((unsigned)(tiles_m * tiles_n), (unsigned)groups), 256, 0, stream>>>(p, tiles_m, tiles_n);
    }
}

// --------------------------------------------------------------------------------------------------------------- phases
static bool plan_axis(const nbx_conv *p, int d, int64_t phase, axis *a) {
    const conv_axis whole = conv_axis_of(p, d, phase);
    memset(a, 0, sizeof *a);
    a->first = whole.first, a->step = whole.step, a->count = (int)whole.count, a->stride = whole.stride;
    a->k_step = 1;
    for (int64_t k = 0; k < p->kernel[d]; k++) {
        int64_t shift;
        if (!conv_tap_shift(p, d, phase, k, &shift)) continue;
        if (a->taps == 0) a->k0 = k, a->shift = shift;
        else if (a->taps == 1) a->k_step = k - a->k0, a->shift_step = shift - a->shift;
        a->taps++;
    }
    return whole.count > 0;
}

static ewc_divisor divisor(int64_t size) { return ewc_divisor_of(size > 0 ? size : 1); }

template <typename E> static void pack(const conv_call &p, const void *weight, void *packed, int groups, bool filter_last, cudaStream_t stream) {
    const int64_t items = (int64_t)p.filters * p.inner;
    if (items) pack_filters<E><<<dim3((unsigned)((items + 255) / 256), (unsigned)groups), 256, 0, stream>>>(p, (const E *)weight, (E *)packed, filter_last);
}

static void pack_any(const conv_call &p, const void *weight, void *packed, int groups, bool filter_last, cudaStream_t stream) {
    switch (nbx_dtype_size((nbx_dtype)p.dtype)) {
    case 1: pack<uint8_t>(p, weight, packed, groups, filter_last, stream); break;
    case 2: pack<uint16_t>(p, weight, packed, groups, filter_last, stream); break;
    case 4: pack<uint32_t>(p, weight, packed, groups, filter_last, stream); break;
    case 8: pack<uint2>(p, weight, packed, groups, filter_last, stream); break;
    default: pack<uint4>(p, weight, packed, groups, filter_last, stream); break;
    }
}

static bool vectors_fit(const conv_call *p, int64_t channels) {  // 8 channels of a pixel are one aligned 16-byte word
    bool fits = p->in_stride[1] == 1 && channels % 8 == 0 && (uintptr_t)p->input % 16 == 0 && p->in_stride[0] % 8 == 0;
    for (int d = 2; d < 5; d++) fits = fits && (p->in_stride[d] % 8 == 0 || p->in[d - 2] == 1);
    return fits;
}

static nbx_status run_phase(nbx_op_call *c, const nbx_conv *v, conv_call *p, int64_t phase0, int64_t phase1, int64_t phase2, char *packed) {
    if (!plan_axis(v, 0, phase0, &p->a[0]) || !plan_axis(v, 1, phase1, &p->a[1]) || !plan_axis(v, 2, phase2, &p->a[2])) return NBX_OK;
    const int64_t pixels = v->batch * p->a[0].count * p->a[1].count * p->a[2].count;
    const int64_t taps = (int64_t)p->a[0].taps * p->a[1].taps * p->a[2].taps, inner = taps * v->in_channels;
    if (pixels >= (int64_t)1 << 31 || inner >= (int64_t)1 << 31) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than 2^31 pixels or taps on CUDA");
    p->pixels = (int)pixels, p->inner = (int)inner;
    p->by_channels = divisor(v->in_channels), p->by_taps1 = divisor(p->a[1].taps), p->by_taps2 = divisor(p->a[2].taps);
    p->by_count0 = divisor(p->a[0].count), p->by_count1 = divisor(p->a[1].count), p->by_count2 = divisor(p->a[2].count);
    p->weight = packed;
    const bool half = v->dtype == NBX_FLOAT16 || v->dtype == NBX_BFLOAT16, direct = v->in_channels <= 2 || v->out_channels == 1;
    const int groups = (int)v->groups;
    cudaStream_t stream = stream_of(c);
    pack_any(*p, v->weight, packed, groups, !half && !direct, stream);
    if (direct && depthwise(*p, groups, stream)) return launch_status(c);
    if (half && !direct) {
        const bool dense = vectors_fit(p, v->in_channels);
        const nbx_cuda_facts *facts = nbx_cuda_device_facts(c->device.index);
        if (v->dtype == NBX_FLOAT16) launch_halves<__half>(*p, groups, dense, facts, stream);
        else launch_halves<__nv_bfloat16>(*p, groups, dense, facts, stream);
    } else if (v->dtype == NBX_FLOAT32) launch_plain<float, NBX_FLOAT32>(*p, groups, direct, stream);
    else if (half) launch_plain<float, -1>(*p, groups, direct, stream);
    else if (v->dtype == NBX_FLOAT64) launch_plain<double, NBX_FLOAT64>(*p, groups, direct, stream);
    else if (nbx_dtype_is_complex(v->dtype)) launch_plain<cdouble, -1>(*p, groups, direct, stream);
    else launch_plain<int64_t, -1>(*p, groups, direct, stream);
    return launch_status(c);
}

// Lays the input [batch, channels, ...] out channels last in scratch.
static nbx_status channels_last(nbx_op_call *c, const nbx_conv *v, conv_call *p, char *to) {
    const nbx_tensor *x = arg_tensor(c, 0);
    device_view view;
    int64_t step = x->shape[1];
    for (int d = 0; d < x->rank; d++) view.shape[d] = x->shape[d];
    view.stride[1] = 1;
    for (int d = x->rank - 1; d > 1; d--) view.stride[d] = step, step *= x->shape[d];
    view.stride[0] = step;
    const nbx_status status = nbx_cuda_copy(c, view_of(&view, to, (nbx_dtype)x->dtype, x->rank), x);
    p->input = to;
    p->in_stride[1] = 1;
    step = x->shape[1];
    for (int d = 2; d >= 0; d--) p->in_stride[2 + d] = step, step *= v->in[d];
    p->in_stride[0] = step;
    return status;
}

static nbx_status convolution_cuda(nbx_op_call *c) {
    nbx_conv v;
    conv_call p;
    nbx_conv_of(c, &v);
    if (out_get(c, 0)->numel == 0) return NBX_OK;
    memset(&p, 0, sizeof p);
    p.input = v.input, p.output = v.output, p.bias = v.bias;
    p.dtype = v.dtype, p.channels = (int)v.in_channels, p.filters = (int)v.out_channels;
    p.bias_stride = v.bias_stride;
    p.transposed = v.transposed;
    for (int d = 0; d < 5; d++) p.in_stride[d] = v.in_stride[d], p.out_stride[d] = v.out_stride[d], p.weight_stride[d] = v.weight_stride[d];
    for (int d = 0; d < 3; d++) p.in[d] = v.in[d];
    const nbx_tensor *weight = arg_tensor(c, 1), *x = arg_tensor(c, 0);
    const size_t packed_bytes = ((size_t)weight->numel * nbx_dtype_size(v.dtype) + 255) & ~(size_t)255;
    const bool half = v.dtype == NBX_FLOAT16 || v.dtype == NBX_BFLOAT16;
    if (half && v.in_channels > 2 && v.in_channels % 8 == 0 && v.out_channels > 1 && !vectors_fit(&p, v.in_channels) && x->numel) {
        const nbx_status status = channels_last(c, &v, &p, (char *)c->scratch + packed_bytes);
        if (status != NBX_OK) return status;
    }
    char *packed = (char *)c->scratch;
    const int64_t phases[3] = {v.transposed ? v.stride[0] : 1, v.transposed ? v.stride[1] : 1, v.transposed ? v.stride[2] : 1};
    for (int64_t i = 0; i < phases[0]; i++)
        for (int64_t j = 0; j < phases[1]; j++)
            for (int64_t k = 0; k < phases[2]; k++) {
                const nbx_status status = run_phase(c, &v, &p, i, j, k, packed);
                if (status != NBX_OK) return status;
                int64_t taps = 1;
                for (int d = 0; d < 3; d++) taps *= p.a[d].taps;
                packed += (taps * v.in_channels * v.out_channels * v.groups * (int64_t)nbx_dtype_size(v.dtype) + 255) & ~(int64_t)255;
            }
    return NBX_OK;
}

NBX_CUDA_KERNEL("aten::convolution", convolution_cuda)

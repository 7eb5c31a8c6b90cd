// Convolutions on CUDA, as implicit matrix products: pixels x (taps x channels) x filters, nothing is expanded in memory.
//   float16, bfloat16   tensor cores (cuda/mma.cuh); channels are padded to a multiple of 8: every chunk of 8 is one 16-byte copy
//   float32             FFMA (cuda/fma.cuh); tensor cores where the context allows tf32, channels padded to a multiple of 4
//                       Inputs whose channels are not dense are first laid out channels last in scratch, filters are packed
//                       [filter][tap][channel]. Of few channels (the first layer) a whole row of taps is one run.
//   others              64 x 64 tiles of FMA, inputs gathered
//   one channel a group (depthwise)   depthwise_cuda.cuh; few channels, other dtypes: a thread per result
// A transposed convolution runs as its phases: the outputs whose inputs the same taps reach (conv.h).
#include "ops/elementwise/engine.cuh"
#include "cuda/fma.cuh"
#include "ops/conv/conv.h"

#include <limits.h>
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
    int run, pixel_channels, real_channels;       // of the channels: read, of a pixel (taps of a row after another), not zeros
    axis a[3];
    int64_t in[3], in_stride[5], out_stride[5], weight_stride[5], bias_stride;
    ewc_divisor by_channels, by_pixel_channels, by_taps1, by_taps2, by_count0, by_count1, by_count2;
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
// Packs the taps of a phase: [filter][tap][channel], or [tap][channel][filter] for the scalar kernel. A thread per channel, which
// reads its taps one after the other.
template <typename E> static __global__ void __launch_bounds__(256) pack_filters(const __grid_constant__ conv_call p, const E *weight, E *packed, bool filter_last) {
    const uint32_t place = blockIdx.x * 256 + threadIdx.x;
    if (place >= (uint32_t)p.channels) return;
    const int64_t group = blockIdx.z;
    const uint32_t along = ewc_quotient(place, p.by_pixel_channels), c = place - along * (uint32_t)p.pixel_channels;
    const int64_t channel = p.transposed ? group * p.real_channels + c : c;
    const bool zero = place >= (uint32_t)p.run || c >= (uint32_t)p.real_channels;
    for (int64_t n = blockIdx.y; n < p.filters; n += gridDim.y) {
        const E *from = weight + (p.transposed ? n : group * p.filters + n) * p.weight_stride[0] + channel * p.weight_stride[1];
        E *to = packed + group * p.filters * p.inner + (filter_last ? place * (int64_t)p.filters + n : n * p.inner + place);
        const int64_t next = filter_last ? p.channels * (int64_t)p.filters : p.channels;
        for (int j0 = 0; j0 < p.a[0].taps; j0++)
            for (int j1 = 0; j1 < p.a[1].taps; j1++)
                for (int j2 = 0; j2 < p.a[2].taps; j2++, to += next) {
                    if (zero) memset(to, 0, sizeof *to);
                    else
                        *to = from[(p.a[0].k0 + j0 * p.a[0].k_step) * p.weight_stride[2] + (p.a[1].k0 + j1 * p.a[1].k_step) * p.weight_stride[3] +
                                   (p.a[2].k0 + (j2 + (int64_t)along) * p.a[2].k_step) * p.weight_stride[4]];
                }
    }
}

// Lays out an input as conv_image says: a thread writes PART channels of a pixel, blockIdx.y counts parts of groups.
struct image_shape {
    uint32_t pixels;
    ewc_divisor by_width, by_in1, by_in0;
};
template <typename E, int PART> static __global__ void __launch_bounds__(256) pad_image(const __grid_constant__ nbx_conv v, const __grid_constant__ conv_image image, const __grid_constant__ image_shape shape, E *to) {
    const uint32_t pixel = blockIdx.x * 256 + threadIdx.x, parts = (uint32_t)((image.channels + PART - 1) / PART), group = blockIdx.y / parts, part = blockIdx.y % parts;
    if (pixel >= shape.pixels) return;
    const uint32_t line = ewc_quotient(pixel, shape.by_width), plane = ewc_quotient(line, shape.by_in1), b = ewc_quotient(plane, shape.by_in0);
    const int64_t x = (int64_t)(pixel - line * (uint32_t)image.width) - (image.by_rows ? v.padding[2] : 0);
    const int64_t y = line - plane * (uint32_t)v.in[1], z = plane - b * (uint32_t)v.in[0];
    const E *from = (const E *)v.input + b * v.in_stride[0] + z * v.in_stride[2] + y * v.in_stride[3] + x * v.in_stride[4];
    alignas(16) E e[PART];
#pragma unroll
    for (int i = 0; i < PART; i++) {
        const int64_t c = (int64_t)part * PART + i;
        e[i] = x >= 0 && x < v.in[2] && c < v.in_channels ? from[(group * v.in_channels + c) * v.in_stride[1]] : 0;
    }
    E *at = to + ((int64_t)pixel * v.groups + group) * image.channels + part * PART;
    if (sizeof e == 8) *(uint2 *)at = *(const uint2 *)e;
    else if (sizeof(E) == 2) *(uint4 *)at = *(const uint4 *)e;
    else
#pragma unroll
        for (int i = 0; i < PART; i++)
            if (part * PART + i < image.channels) at[i] = e[i];
}

// ----------------------------------------------------------------------------------------------------------- tensor cores
// What a tile of ROWS pixels knows of its input, in shared memory after the tiles of the pipeline: of a pixel the offset of its
// window from that of the first pixel, and a bit for each tap that lies in the input; of a tap its offset in a window. The last
// tap is none: what lies past the end of k reads it.
enum { MAX_TAPS = 1024, MAX_WINDOWS = 128 * 12 + (MAX_TAPS + 1) * 4 + (MAX_TAPS / 32 + 1) * 128 * 4 };
template <int ROWS> struct windows_of {
    int64_t *out;  // of the pixels in the output; -1: past the last
    int *from, *shift;
    uint32_t *inside;  // [tap / 32][pixel]
    int taps;
    int64_t base;      // of the first pixel's window
    static __host__ __device__ int taps_of(const conv_call &p) { return p.a[0].taps * p.a[1].taps * p.a[2].taps; }
    static int bytes(const conv_call &p) { return ROWS * 12 + (taps_of(p) + 1) * 4 + (taps_of(p) / 32 + 1) * ROWS * 4; }

    __device__ __forceinline__ windows_of(const conv_call &p, char *memory, int m0) {  // the block calls it, then synchronises
        out = (int64_t *)memory, from = (int *)(out + ROWS), inside = (uint32_t *)(from + ROWS);
        taps = taps_of(p);
        shift = (int *)(inside + (taps / 32 + 1) * ROWS);
        const auto start = [&](const pixel &x) { return x.base + x.at[0] * p.in_stride[2] + x.at[1] * p.in_stride[3] + x.at[2] * p.in_stride[4]; };
        base = start(pixel_of(p, (uint32_t)m0));
        for (int i = (int)threadIdx.x; i < ROWS; i += (int)blockDim.x) {
            const bool real = m0 + i < p.pixels;
            const pixel x = pixel_of(p, (uint32_t)(real ? m0 + i : m0));
            out[i] = real ? x.out : -1;
            from[i] = (int)(start(x) - base);
            uint32_t bits = 0, *word = inside + i;
            int t = 0;
            for (int64_t j0 = 0, i0 = x.at[0]; j0 < p.a[0].taps; j0++, i0 += p.a[0].shift_step)
                for (int64_t j1 = 0, i1 = x.at[1]; j1 < p.a[1].taps; j1++, i1 += p.a[1].shift_step) {
                    const bool row = real && (uint64_t)i0 < (uint64_t)p.in[0] && (uint64_t)i1 < (uint64_t)p.in[1];
                    for (int64_t j2 = 0, i2 = x.at[2]; j2 < p.a[2].taps; j2++, i2 += p.a[2].shift_step) {
                        bits |= (uint32_t)(row && (uint64_t)i2 < (uint64_t)p.in[2]) << (t & 31);
                        if ((++t & 31) == 0) *word = bits, word += ROWS, bits = 0;
                    }
                }
            *word = bits;
        }
        for (int t = (int)threadIdx.x; t <= taps; t += (int)blockDim.x) {
            const uint32_t r = ewc_quotient((uint32_t)t, p.by_taps2), j0 = ewc_quotient(r, p.by_taps1);
            const int64_t j1 = r - j0 * (uint32_t)p.a[1].taps, j2 = t - r * (uint32_t)p.a[2].taps;
            shift[t] = (int)(j0 * p.a[0].shift_step * p.in_stride[2] + j1 * p.a[1].shift_step * p.in_stride[3] + j2 * p.a[2].shift_step * p.in_stride[4]);
        }
    }
};

// Where a thread reads channel k % channels through tap k / channels of COUNT pixels, STEP apart.
template <int ROWS, int COUNT, int STEP> struct image_walk {
    const conv_call &p;
    const windows_of<ROWS> &windows;
    const int row;
    int k, channel, at[COUNT];  // offset from the base
    bool inside[COUNT];
    __device__ __forceinline__ image_walk(const conv_call &call, const windows_of<ROWS> &tile, int first_row, int first_k) : p(call), windows(tile), row(first_row), k(first_k) {}
    __device__ __forceinline__ void locate() {
        const int t = min((int)ewc_quotient((uint32_t)k, p.by_channels), windows.taps);
        channel = k - t * p.channels;
        const int shift = windows.shift[t] + channel;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            inside[i] = windows.inside[t / 32 * ROWS + row + i * STEP] >> (t & 31) & 1;
            at[i] = windows.from[row + i * STEP] + shift;
        }
    }
};

template <typename T, typename Tile> struct image_source {  // chunks of 16 bytes of channels
    typedef tile_part<Tile, Tile::BM, true> part;
    const T *input;
    image_walk<Tile::BM, part::COUNT, part::ROWS> walk;
    __device__ __forceinline__ image_source(const conv_call &p, const T *group, const windows_of<Tile::BM> &windows)
        : input(group + windows.base), walk(p, windows, part::row(), part::chunk() * in_chunk<T>) {}
    __device__ __forceinline__ void fill(uint32_t tile) {
        walk.locate();
        const int left = walk.p.run - walk.channel, bytes = left < in_chunk<T> ? left * (int)sizeof(T) : 16;
#pragma unroll
        for (int i = 0; i < part::COUNT; i++) copy_async(tile + part::place(i), input + walk.at[i], walk.inside[i] ? bytes : 0);
        walk.k += in_tile<T, Tile>;
    }
};

template <typename Tile> struct float_image_source {
    typedef fma_part<Tile, true> part;
    const float *input;
    image_walk<Tile::BT, Tile::R, part::MN_STEP> walk;
    __device__ __forceinline__ float_image_source(const conv_call &p, const float *group, const windows_of<Tile::BT> &windows)
        : input(group + windows.base), walk(p, windows, part::mn(), part::k()) {}
    __device__ __forceinline__ void fill(uint32_t tile) {
        walk.locate();
#pragma unroll
        for (int i = 0; i < Tile::R; i++) copy_element_async(tile + part::place(i), input + walk.at[i], walk.inside[i]);
        walk.k += Tile::BK;
    }
};

template <typename T> static __device__ __forceinline__ float wide(T x) { return (float)x; }
template <int BYTES> struct unit {
    typedef uint32_t type;
};
template <> struct unit<8> {
    typedef uint2 type;
};

// Results go where the pixels are: two channels at once where channels are dense, else through shared memory as [filter][pixel].
template <typename T, typename Tile> struct image_store {
    static constexpr int PITCH = Tile::BM + 8;
    static_assert(Tile::BN * PITCH * sizeof(T) <= Tile::SHARED_BYTES, "the staged tile fits");
    typedef typename unit<2 * sizeof(T)>::type pair_bits;
    const conv_call &p;
    const int64_t *outs;
    T *staged;
    int first_filter, m0, n0;  // of the group; of the tile
    __device__ __forceinline__ T biased(int n, float v) const {
        return (T)(p.bias && n < p.filters ? v + wide(((const T *)p.bias)[(first_filter + n) * p.bias_stride]) : v);
    }
    __device__ __forceinline__ void operator()(int m, int n, float v0, float v1) const {
        alignas(2 * sizeof(T)) const T pair[2] = {biased(n, v0), biased(n + 1, v1)};
        if (p.out_stride[1] != 1) {
            staged[(n - n0) * PITCH + m - m0] = pair[0];
            staged[(n + 1 - n0) * PITCH + m - m0] = pair[1];
            return;
        }
        const int64_t out = outs[m - m0];
        if (out < 0 || n >= p.filters) return;
        T *at = (T *)p.output + out + first_filter + n;
        if (n + 1 < p.filters && (uintptr_t)at % sizeof pair == 0) *(pair_bits *)at = *(const pair_bits *)pair;
        else {
            at[0] = pair[0];
            if (n + 1 < p.filters) at[1] = pair[1];
        }
    }
    __device__ __forceinline__ void unstage() const {
        if (p.out_stride[1] == 1) return;
        __syncthreads();
        for (int i = (int)threadIdx.x; i < Tile::BN * Tile::BM / 2; i += Tile::THREADS) {
            const int n = i / (Tile::BM / 2), m = i % (Tile::BM / 2) * 2;
            if (n0 + n >= p.filters) return;
            const int64_t out = outs[m], next = outs[m + 1];
            if (out < 0) continue;
            T *at = (T *)p.output + (first_filter + n0 + n) * p.out_stride[1];
            const T *from = staged + n * PITCH + m;
            if (next == out + 1 && (uintptr_t)(at + out) % sizeof(pair_bits) == 0) *(pair_bits *)(at + out) = *(const pair_bits *)from;
            else {
                at[out] = from[0];
                if (next >= 0) at[next] = from[1];
            }
        }
    }
};

template <typename T, typename Out, typename Tile>
static __global__ void __launch_bounds__(Tile::THREADS, Tile::BLOCKS) conv_tensor(const __grid_constant__ conv_call p, int tiles_m, int tiles_n) {
    extern __shared__ __align__(128) char shared[];
    int tm, tn;
    tile_of_block((int)blockIdx.x, tiles_m, tiles_n, &tm, &tn);
    const int group = (int)blockIdx.y, m0 = tm * Tile::BM, n0 = tn * Tile::BN;
    const windows_of<Tile::BM> windows(p, shared + Tile::SHARED_BYTES, m0);
    __syncthreads();
    image_source<T, Tile> image(p, (const T *)p.input + (int64_t)group * p.pixel_channels * p.in_stride[1], windows);
    dense_source<T, Tile, Tile::BN, true> filters((const T *)p.weight + (int64_t)group * p.filters * p.inner, p.inner, p.filters, p.inner, n0);
    const image_store<Out, Tile> store = {p, windows.out, (Out *)shared, group * p.filters, m0, n0};
    mma_block<T, Tile, true, true>(image, filters, m0, n0, p.inner, store);
    store.unstage();
}

template <typename T, typename Out, typename Tile> static void launch_tensor(const conv_call &p, int groups, cudaStream_t stream) {
    const int tiles_m = (p.pixels + Tile::BM - 1) / Tile::BM, tiles_n = (p.filters + Tile::BN - 1) / Tile::BN;
    const int bytes = Tile::SHARED_BYTES + windows_of<Tile::BM>::bytes(p);
    shared_limit<conv_tensor<T, Out, Tile>>(Tile::SHARED_BYTES + MAX_WINDOWS);
    conv_tensor<T, Out, Tile><<<dim3((unsigned)(tiles_m * tiles_n), (unsigned)groups), Tile::THREADS, bytes, stream>>>(p, tiles_m, tiles_n);
}

template <typename T> static void launch_halves(const conv_call &p, int groups, const nbx_cuda_facts *facts, cudaStream_t stream) {
    switch (mma_choose(facts, p.pixels, p.filters, groups)) {
    case MMA_SMALL: launch_tensor<T, T, mma_small>(p, groups, stream); break;
    case MMA_NARROW:
        if (p.inner < 1024) launch_tensor<T, T, mma_tile<128, 64, 32, 4, 2, 2, 3>>(p, groups, stream);
        else launch_tensor<T, T, mma_narrow>(p, groups, stream);
        break;
    case MMA_MEDIUM: launch_tensor<T, T, mma_medium>(p, groups, stream); break;
    default: launch_tensor<T, T, mma_large>(p, groups, stream); break;
    }
}

static void launch_tf32(const conv_call &p, int groups, const nbx_cuda_facts *facts, cudaStream_t stream) {
    if (mma_choose(facts, p.pixels, p.filters, groups) >= MMA_NARROW) launch_tensor<tf32, float, mma_small>(p, groups, stream);
    else launch_tensor<tf32, float, mma_large>(p, groups, stream);
}

// ------------------------------------------------------------------------------------------------------------- float32
struct float_image_store {
    const conv_call &p;
    const int64_t *outs;
    int group, m0;
    bool vectors;
    __device__ __forceinline__ void operator()(int m, int n, const float (&v)[4]) const {
        const int64_t out = outs[m - m0];
        if (out < 0) return;
        const int filter = group * p.filters + n;
        const float *bias = p.bias ? (const float *)p.bias + filter * p.bias_stride : NULL;
        float *at = (float *)p.output + out + filter * p.out_stride[1];
        float y[4];
#pragma unroll
        for (int j = 0; j < 4; j++) y[j] = bias && n + j < p.filters ? v[j] + bias[j * p.bias_stride] : v[j];
        if (vectors && n + 3 < p.filters) *(float4 *)at = *(const float4 *)y;
        else
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (n + j < p.filters) at[j * p.out_stride[1]] = y[j];
    }
};

template <typename Tile> static __global__ void __launch_bounds__(Tile::THREADS, 2) conv_floats(const __grid_constant__ conv_call p, int tiles_m, int tiles_n, bool vectors) {
    extern __shared__ __align__(128) char shared[];
    int tm, tn;
    tile_of_block((int)blockIdx.x, tiles_m, tiles_n, &tm, &tn);
    const int group = (int)blockIdx.y, m0 = tm * Tile::BT, n0 = tn * Tile::BT;
    const windows_of<Tile::BT> windows(p, shared + Tile::SHARED_BYTES, m0);
    __syncthreads();
    float_image_source<Tile> image(p, (const float *)p.input + (int64_t)group * p.pixel_channels * p.in_stride[1], windows);
    fma_source<Tile, true> filters((const float *)p.weight + (int64_t)group * p.filters * p.inner, p.inner, 1, p.filters, p.inner, n0);
    const float_image_store store = {p, windows.out, group, m0, vectors};
    fma_block<Tile>(image, filters, m0, n0, p.inner, store);
}

template <typename Tile> static void launch_float_tiles(const conv_call &p, int groups, cudaStream_t stream) {
    const int tiles_m = (p.pixels + Tile::BT - 1) / Tile::BT, tiles_n = (p.filters + Tile::BT - 1) / Tile::BT;
    bool vectors = p.out_stride[1] == 1 && p.filters % 4 == 0 && (uintptr_t)p.output % 16 == 0 && p.out_stride[0] % 4 == 0;
    for (int d = 2; d < 5; d++) vectors = vectors && p.out_stride[d] % 4 == 0;
    const int bytes = Tile::SHARED_BYTES + windows_of<Tile::BT>::bytes(p);
    shared_limit<conv_floats<Tile>>(Tile::SHARED_BYTES + MAX_WINDOWS);
    conv_floats<Tile><<<dim3((unsigned)(tiles_m * tiles_n), (unsigned)groups), Tile::THREADS, bytes, stream>>>(p, tiles_m, tiles_n, vectors);
}

static void launch_floats(const conv_call &p, int groups, const nbx_cuda_facts *facts, cudaStream_t stream) {
    const int64_t large = (int64_t)((p.pixels + 127) / 128) * ((p.filters + 127) / 128) * groups;
    if (p.filters > 64 && large >= facts->sm_count) launch_float_tiles<fma_tile<8>>(p, groups, stream);
    else launch_float_tiles<fma_tile<4>>(p, groups, stream);
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

static bool is_half(const nbx_conv *v) { return v->dtype == NBX_FLOAT16 || v->dtype == NBX_BFLOAT16; }

static ewc_divisor divisor(int64_t size) { return ewc_divisor_of(size > 0 ? size : 1); }

template <typename E> static void pack(const conv_call &p, const void *weight, void *packed, int groups, bool filter_last, cudaStream_t stream) {
    const dim3 grid((unsigned)((p.channels + 255) / 256), (unsigned)(p.filters < 65535 ? p.filters : 65535), (unsigned)groups);
    if (p.inner > 0 && p.filters > 0) pack_filters<E><<<grid, 256, 0, stream>>>(p, (const E *)weight, (E *)packed, filter_last);
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

static bool lies_so(const conv_call *p, const nbx_conv *v, const conv_image *image) {  // the input, as conv_image says
    if (p->in_stride[1] != 1 || image->by_rows || image->channels != v->in_channels) return false;
    if (!is_half(v) && !v->tf32) return true;
    const int vector = v->tf32 ? 4 : 8;
    bool fits = (uintptr_t)p->input % 16 == 0 && p->in_stride[0] % vector == 0;
    for (int d = 2; d < 5; d++) fits = fits && (p->in_stride[d] % vector == 0 || p->in[d - 2] == 1);
    return fits;
}

// Do the taps and the offsets within a tile fit windows_of? A tile of 128 pixels reads this many planes at most.
static bool windows_fit(const nbx_conv *v, const conv_image *image) {
    const int64_t phases = conv_phases(v, 1) * conv_phases(v, 2), plane = v->out[1] * v->out[2] / phases;
    const int64_t most = v->batch * v->in[0], planes = 128 / (plane ? plane : 1) + 2 < most ? 128 / (plane ? plane : 1) + 2 : most;
    const double copy = (double)v->in[1] * (double)image->width * (double)(v->groups * image->channels);
    const double step = (double)(v->in_stride[0] > v->in_stride[2] ? v->in_stride[0] : v->in_stride[2]) + (double)v->in[1] * (double)v->in_stride[3] + (double)v->in[2] * (double)v->in_stride[4];
    const int64_t taps = v->kernel[0] * v->kernel[1] * (image->by_rows ? 1 : v->kernel[2]);
    return taps <= MAX_TAPS && (double)(planes + v->kernel[0]) * (copy > step ? copy : step) < 2147483647.;
}

// Are the filters channels last, [filter][tap][channel] of one phase, already?
static bool lies_packed(const conv_call &p, const nbx_conv *v, const conv_image *image) {
    if (!image || v->transposed || p.channels != v->in_channels || p.channels != p.run || image->by_rows || (uintptr_t)v->weight % 16) return false;
    int64_t step = p.channels;
    for (int d = 4; d > 1; d--) {
        if (v->kernel[d - 2] > 1 && v->weight_stride[d] != step) return false;
        step *= v->kernel[d - 2];
    }
    return (v->in_channels == 1 || v->weight_stride[1] == 1) && v->weight_stride[0] == step;
}

static nbx_status run_phase(nbx_op_call *c, const nbx_conv *v, const conv_image *image, conv_call *p, const int64_t phase[3], char *packed) {
    for (int d = 0; d < 3; d++)
        if (!plan_axis(v, d, phase[d], &p->a[d])) return NBX_OK;
    const bool direct = v->in_channels <= 2 || v->out_channels == 1;
    if (image && image->by_rows) p->a[2].taps = 1, p->a[2].shift = 0;
    const int64_t pixels = v->batch * p->a[0].count * p->a[1].count * p->a[2].count;
    const int64_t taps = (int64_t)p->a[0].taps * p->a[1].taps * p->a[2].taps, inner = taps * p->channels;
    if (pixels > INT32_MAX || inner > INT32_MAX) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than 2^31 pixels or taps on CUDA");
    p->pixels = (int)pixels, p->inner = (int)inner;
    p->by_channels = divisor(p->channels), p->by_pixel_channels = divisor(p->pixel_channels), p->by_taps1 = divisor(p->a[1].taps), p->by_taps2 = divisor(p->a[2].taps);
    p->by_count0 = divisor(p->a[0].count), p->by_count1 = divisor(p->a[1].count), p->by_count2 = divisor(p->a[2].count);
    p->weight = packed;
    const int groups = (int)v->groups;
    cudaStream_t stream = stream_of(c);
    if (lies_packed(*p, v, image)) p->weight = v->weight;
    else pack_any(*p, v->weight, packed, groups, !image && !direct, stream);
    if (direct && depthwise(*p, groups, stream)) return launch_status(c);
    if (image) {
        const nbx_cuda_facts *facts = nbx_cuda_device_facts(c->device.index);
        if (v->tf32) launch_tf32(*p, groups, facts, stream);
        else if (v->dtype == NBX_FLOAT32) launch_floats(*p, groups, facts, stream);
        else if (v->dtype == NBX_FLOAT16) launch_halves<__half>(*p, groups, facts, stream);
        else launch_halves<__nv_bfloat16>(*p, groups, facts, stream);
    } else if (v->dtype == NBX_FLOAT32) launch_plain<float, NBX_FLOAT32>(*p, groups, direct, stream);
    else if (is_half(v)) launch_plain<float, -1>(*p, groups, direct, stream);
    else if (v->dtype == NBX_FLOAT64) launch_plain<double, NBX_FLOAT64>(*p, groups, direct, stream);
    else if (nbx_dtype_is_complex(v->dtype)) launch_plain<cdouble, -1>(*p, groups, direct, stream);
    else launch_plain<int64_t, -1>(*p, groups, direct, stream);
    return launch_status(c);
}

// Lays the input [batch, channels, ...] out in scratch: the transposition of copies where nothing is padded.
static nbx_status lay_out(nbx_op_call *c, const nbx_conv *v, const conv_image *image, conv_call *p, char *to) {
    int64_t step = image->channels * v->groups;
    p->input = to;
    p->in_stride[1] = 1;
    p->in[2] = image->width;
    for (int d = 2; d >= 0; d--) p->in_stride[2 + d] = step, step *= p->in[d];
    p->in_stride[0] = step;
    if (image->channels != v->in_channels || image->by_rows) {
        const int64_t pixels = v->batch * v->in[0] * v->in[1] * image->width, part = image->channels == 4 && is_half(v) ? 4 : 8;
        const int64_t parts = (image->channels + part - 1) / part * v->groups;
        if (pixels > INT32_MAX || parts > 65535) return nbx_call_fail(c, NBX_ERROR_SHAPE, "an input of more than 2^31 pixels or 65535 groups on CUDA");
        const image_shape shape = {(uint32_t)pixels, divisor(image->width), divisor(v->in[1]), divisor(v->in[0])};
        const dim3 grid((unsigned)((pixels + 255) / 256), (unsigned)parts);
        if (v->dtype == NBX_FLOAT32) pad_image<float, 8><<<grid, 256, 0, stream_of(c)>>>(*v, *image, shape, (float *)to);
        else if (part == 4) pad_image<uint16_t, 4><<<grid, 256, 0, stream_of(c)>>>(*v, *image, shape, (uint16_t *)to);
        else pad_image<uint16_t, 8><<<grid, 256, 0, stream_of(c)>>>(*v, *image, shape, (uint16_t *)to);
        return launch_status(c);
    }
    const nbx_tensor *x = arg_tensor(c, 0);
    device_view view;
    step = x->shape[1];
    for (int d = 0; d < x->rank; d++) view.shape[d] = x->shape[d];
    view.stride[1] = 1;
    for (int d = x->rank - 1; d > 1; d--) view.stride[d] = step, step *= x->shape[d];
    view.stride[0] = step;
    return nbx_cuda_copy(c, view_of(&view, to, (nbx_dtype)x->dtype, x->rank), x);
}

static nbx_status convolution_cuda(nbx_op_call *c) {
    nbx_conv v;
    conv_call p;
    nbx_conv_of(c, &v);
    if (out_get(c, 0)->numel == 0) return NBX_OK;
    memset(&p, 0, sizeof p);
    p.input = v.input, p.output = v.output, p.bias = v.bias;
    p.dtype = v.dtype, p.channels = p.run = p.pixel_channels = p.real_channels = (int)v.in_channels, p.filters = (int)v.out_channels;
    p.bias_stride = v.bias_stride;
    p.transposed = v.transposed;
    for (int d = 0; d < 5; d++) p.in_stride[d] = v.in_stride[d], p.out_stride[d] = v.out_stride[d], p.weight_stride[d] = v.weight_stride[d];
    for (int d = 0; d < 3; d++) p.in[d] = v.in[d];
    const conv_image image = conv_image_of(&v);
    const bool by_tiles = (is_half(&v) || v.dtype == NBX_FLOAT32) && v.in_channels > 2 && v.out_channels > 1 && v.input && windows_fit(&v, &image);
    if (by_tiles) {
        p.channels = (int)image.inner, p.run = (int)image.run, p.pixel_channels = (int)image.channels;
        if (!lies_so(&p, &v, &image)) {
            const size_t filters = (conv_filter_bytes(&v, &image) - 255) & ~(size_t)255;
            const nbx_status status = lay_out(c, &v, &image, &p, (char *)c->scratch + filters);
            if (status != NBX_OK) return status;
        }
    }
    char *packed = (char *)c->scratch;
    int64_t phase[3];
    for (phase[0] = 0; phase[0] < conv_phases(&v, 0); phase[0]++)
        for (phase[1] = 0; phase[1] < conv_phases(&v, 1); phase[1]++)
            for (phase[2] = 0; phase[2] < conv_phases(&v, 2); phase[2]++) {
                const nbx_status status = run_phase(c, &v, by_tiles ? &image : NULL, &p, phase, packed);
                if (status != NBX_OK) return status;
                int64_t taps = 1;
                for (int d = 0; d < 3; d++) taps *= p.a[d].taps;
                packed += conv_rounded(taps * p.channels * v.out_channels * v.groups * (int64_t)nbx_dtype_size(v.dtype), 256);
            }
    return NBX_OK;
}

NBX_CUDA_KERNEL("aten::convolution", convolution_cuda)

// grid_sampler on CUDA: a thread for every point and channel. Each step is rounded to the dtype, halves too, as ATen does.
#include "ops/elementwise/engine.cuh"

#include <math.h>

enum { GRID_BILINEAR, GRID_NEAREST, GRID_BICUBIC };
enum { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };
enum { GRID_THREADS = 256 };

typedef struct grid_call {
    const char *input, *grid;
    char *out;
    int dtype, dims, mode, padding;
    bool align;
    int64_t channels, points, count, size[3], extent[3];  // of the input; of the result
    int64_t in_stride[5], grid_stride[5], out_stride[5];  // in bytes
} grid_call;

static __device__ __forceinline__ double narrowed(const grid_call &g, double x) {
    switch (g.dtype) {
    case NBX_FLOAT64: return x;
    case NBX_FLOAT16: return (double)ewc_half_bits(ewc_to_half<float>((float)x));
    case NBX_BFLOAT16: return (double)ewc_bf16_bits(ewc_to_bf16<float>((float)x));
    default: return (double)(float)x;
    }
}

// From [-1, 1] to elements. Two and three dims differ in the order of the steps.
static __device__ __forceinline__ double to_elements(const grid_call &g, double x, int64_t size) {
    const double y = narrowed(g, x + 1);
    if (g.dims == 2) {
        const double t = narrowed(g, y * narrowed(g, (double)(g.align ? size - 1 : size) / 2));
        return g.align ? t : narrowed(g, t - 0.5);
    }
    if (g.align) return narrowed(g, narrowed(g, y / 2) * (double)(size - 1));
    return narrowed(g, narrowed(g, narrowed(g, y * (double)size) - 1) / 2);
}

static __device__ __forceinline__ double reflected(double x, int64_t low, int64_t high) {
    if (low == high) return 0;
    const double least = (double)low / 2, span = (double)(high - low) / 2;
    x = fabs(x - least);
    const double extra = fmod(x, span), flips = floor(x / span);
    return fmod(flips, 2.0) == 0 ? extra + least : span - extra + least;
}

static __device__ __forceinline__ double clipped(double x, int64_t size) { return x > 0 ? (x < (double)(size - 1) ? x : (double)(size - 1)) : 0; }

static __device__ __noinline__ double padded(const grid_call &g, double x, int64_t size) {
    if (g.padding == GRID_BORDER) return clipped(x, size);
    if (g.padding != GRID_REFLECTION) return x;
    return clipped(g.align ? reflected(x, 0, 2 * (size - 1)) : reflected(x, -1, 2 * size - 1), size);
}

// The element at whole positions; false: outside.
static __device__ __forceinline__ bool element_at(const grid_call &g, const char *from, const double *at, double *value) {
    for (int d = 0; d < g.dims; d++) {
        if (!(at[d] >= 0 && at[d] < (double)g.size[d])) return false;
        from += (int64_t)at[d] * g.in_stride[2 + d];
    }
    *value = ewc_load<double>(g.dtype, from);
    return true;
}

static __device__ __forceinline__ double add(const grid_call &g, double sum, double weight, double value) {
    return narrowed(g, sum + narrowed(g, __dmul_rn(weight, value)));
}

static __device__ double linear(const grid_call &g, const char *from, const double *x) {
    double sum = 0, value;
    for (int corner = 0; corner < 1 << g.dims; corner++) {
        double at[3], part[3], weight = 1;
        for (int d = 0; d < g.dims; d++) {
            const double low = floor(x[d]), t = narrowed(g, x[d] - low);
            const bool high = corner >> (g.dims - 1 - d) & 1;
            at[d] = low + high;
            part[d] = high ? t : narrowed(g, 1 - t);
        }
        for (int d = g.dims - 1; d >= 0; d--) weight = narrowed(g, weight * part[d]);
        if (element_at(g, from, at, &value)) sum = add(g, sum, weight, value);
    }
    return sum;
}

static __device__ void cubic_weights(const grid_call &g, double t, double *w) {
    const double a = -0.75;
    double x[4] = {narrowed(g, t + 1), t, narrowed(g, 1 - t), 0};
    x[3] = narrowed(g, x[2] + 1);
    for (int k = 0; k < 4; k++) {
        const bool near = k == 1 || k == 2;
        double y = near ? narrowed(g, narrowed(g, (a + 2) * x[k]) - (a + 3)) : narrowed(g, narrowed(g, a * x[k]) - 5 * a);
        y = near ? narrowed(g, y * x[k]) : narrowed(g, narrowed(g, y * x[k]) + 8 * a);
        w[k] = narrowed(g, narrowed(g, y * x[k]) + (near ? 1 : -4 * a));
    }
}

static __device__ double bicubic(const grid_call &g, const char *from, const double *x) {
    const double y0 = floor(x[0]), x0 = floor(x[1]);
    double rows[4], columns[4], sum = 0, value;
    cubic_weights(g, narrowed(g, x[0] - y0), rows);
    cubic_weights(g, narrowed(g, x[1] - x0), columns);
    for (int i = 0; i < 4; i++) {
        double row = 0;
        for (int k = 0; k < 4; k++) {
            const double at[3] = {trunc(padded(g, y0 - 1 + i, g.size[0])), trunc(padded(g, x0 - 1 + k, g.size[1])), 0};
            if (element_at(g, from, at, &value)) row = add(g, row, columns[k], value);
        }
        sum = add(g, sum, rows[i], row);
    }
    return sum;
}

static __global__ void __launch_bounds__(GRID_THREADS) sample_points(const __grid_constant__ grid_call g) {
    int64_t rest = (int64_t)blockIdx.x * GRID_THREADS + threadIdx.x;
    if (rest >= g.count) return;
    const char *grid = g.grid;
    char *out = g.out;
    for (int d = g.dims - 1; d >= 0; d--) {
        const int64_t at = rest % g.extent[d];
        rest /= g.extent[d];
        grid += at * g.grid_stride[1 + d], out += at * g.out_stride[2 + d];
    }
    const int64_t channel = rest % g.channels, n = rest / g.channels;
    grid += n * g.grid_stride[0];
    out += n * g.out_stride[0] + channel * g.out_stride[1];
    const char *from = g.input + n * g.in_stride[0] + channel * g.in_stride[1];
    double x[3], sum = 0;
    bool undefined = false;
    for (int d = 0; d < g.dims; d++) {
        x[d] = to_elements(g, ewc_load<double>(g.dtype, grid + (g.dims - 1 - d) * g.grid_stride[1 + g.dims]), g.size[d]);
        if (g.mode != GRID_BICUBIC) x[d] = padded(g, x[d], g.size[d]);
        undefined |= !isfinite(x[d]) && g.dims == 2 && g.mode != GRID_NEAREST;
        if (!(fabs(x[d]) < 1e15)) x[d] = copysign(1e15, x[d]);  // lies outside
        if (g.mode == GRID_NEAREST) x[d] = rint(x[d]);
    }
    double value;
    if (g.mode == GRID_BICUBIC) sum = bicubic(g, from, x);
    else if (g.mode != GRID_NEAREST) sum = linear(g, from, x);
    else if (element_at(g, from, x, &value)) sum = value;
    ewc_store<double>(g.dtype, out, undefined ? NAN : sum);
}

static nbx_status grid_sampler_cuda(nbx_op_call *c) {
    const nbx_tensor *input = arg_tensor(c, 0), *grid = arg_tensor(c, 1), *out = out_get(c, 0);
    grid_call g = {};
    if (out->numel == 0) return NBX_OK;
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)input->dtype);
    g.input = (const char *)nbx_data(input), g.grid = (const char *)nbx_data(grid), g.out = (char *)nbx_data(out);
    g.dtype = input->dtype, g.dims = input->rank - 2;
    g.mode = (int)arg_int(c, 2), g.padding = (int)arg_int(c, 3), g.align = arg_bool(c, 4);
    g.channels = input->shape[1], g.count = out->numel;
    for (int d = 0; d < g.dims; d++) g.size[d] = input->shape[2 + d], g.extent[d] = out->shape[2 + d];
    for (int d = 0; d < input->rank; d++) g.in_stride[d] = input->stride[d] * width, g.grid_stride[d] = grid->stride[d] * width, g.out_stride[d] = out->stride[d] * width;
    sample_points<<<(unsigned)((g.count + GRID_THREADS - 1) / GRID_THREADS), GRID_THREADS, 0, stream_of(c)>>>(g);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::grid_sampler_2d", grid_sampler_cuda)
NBX_CUDA_KERNEL("aten::grid_sampler_3d", grid_sampler_cuda)

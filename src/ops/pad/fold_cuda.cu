// im2col and col2im on CUDA: a thread for every element of the result. col2im adds the patches that cover an element in the
// order of the kernel's elements, as the CPU does.
#include "ops/elementwise/engine.cuh"

enum { FOLD_THREADS = 256 };

typedef struct fold_call {
    nbx_patches p;
    const char *from;
    char *to;
    int dtype, width;
    int64_t count, image[4], columns[3];  // strides in bytes: n, c, y, x; n, row, position
} fold_call;

static __device__ __forceinline__ void move_or_zero(int width, char *to, const char *from) {
    switch (width) {
    case 1: *to = from ? *from : 0; break;
    case 2: *(uint16_t *)to = from ? *(const uint16_t *)from : 0; break;
    case 4: *(uint32_t *)to = from ? *(const uint32_t *)from : 0; break;
    case 8: *(uint64_t *)to = from ? *(const uint64_t *)from : 0; break;
    default:
        ((uint64_t *)to)[0] = from ? ((const uint64_t *)from)[0] : 0;
        ((uint64_t *)to)[1] = from ? ((const uint64_t *)from)[1] : 0;
    }
}

static __global__ void __launch_bounds__(FOLD_THREADS) image_to_columns(const __grid_constant__ fold_call f) {
    int64_t i = (int64_t)blockIdx.x * FOLD_THREADS + threadIdx.x;
    if (i >= f.count) return;
    const nbx_patches &p = f.p;
    const int64_t positions = p.count[0] * p.count[1], rows = p.channels * p.kernel[0] * p.kernel[1];
    const int64_t at = i % positions, row = i / positions % rows, n = i / positions / rows;
    const int64_t kx = row % p.kernel[1], ky = row / p.kernel[1] % p.kernel[0], channel = row / p.kernel[1] / p.kernel[0];
    const int64_t y = at / p.count[1] * p.step[0] + ky * p.dilation[0] - p.padding[0], x = at % p.count[1] * p.step[1] + kx * p.dilation[1] - p.padding[1];
    const bool inside = y >= 0 && y < p.size[0] && x >= 0 && x < p.size[1];
    move_or_zero(f.width, f.to + n * f.columns[0] + row * f.columns[1] + at * f.columns[2],
                 inside ? f.from + n * f.image[0] + channel * f.image[1] + y * f.image[2] + x * f.image[3] : NULL);
}

// C: the class of computing. Each addition is rounded to the dtype.
template <typename C> static __global__ void __launch_bounds__(FOLD_THREADS) columns_to_image(const __grid_constant__ fold_call f) {
    int64_t i = (int64_t)blockIdx.x * FOLD_THREADS + threadIdx.x;
    if (i >= f.count) return;
    const nbx_patches &p = f.p;
    const int64_t x = i % p.size[1], y = i / p.size[1] % p.size[0], channel = i / p.size[1] / p.size[0] % p.channels, n = i / p.size[1] / p.size[0] / p.channels;
    char *to = f.to + n * f.image[0] + channel * f.image[1] + y * f.image[2] + x * f.image[3];
    const char *from = f.from + n * f.columns[0] + channel * p.kernel[0] * p.kernel[1] * f.columns[1];
    double room[2] = {0, 0};
    ewc_store<C>(f.dtype, room, C{});
    for (int64_t ky = 0; ky < p.kernel[0]; ky++) {
        const int64_t sy = y + p.padding[0] - ky * p.dilation[0], py = sy / p.step[0];
        if (sy < 0 || sy % p.step[0] || py >= p.count[0]) continue;
        for (int64_t kx = 0; kx < p.kernel[1]; kx++) {
            const int64_t sx = x + p.padding[1] - kx * p.dilation[1], px = sx / p.step[1];
            if (sx < 0 || sx % p.step[1] || px >= p.count[1]) continue;
            const C term = ewc_load<C>(f.dtype, from + (ky * p.kernel[1] + kx) * f.columns[1] + (py * p.count[1] + px) * f.columns[2]);
            ewc_store<C>(f.dtype, room, ewc_load<C>(f.dtype, room) + term);
        }
    }
    move_or_zero(f.width, to, (const char *)room);
}

static void strides_of(const nbx_tensor *t, int count, int64_t width, int64_t *strides) {  // the batch's is 0 without one
    for (int i = 0; i < count; i++) strides[i] = t->rank < count ? (i == 0 ? 0 : t->stride[i - 1] * width) : t->stride[i] * width;
}

static nbx_status run(nbx_op_call *c, bool to_columns) {
    fold_call f = {};
    const nbx_tensor *self = arg_tensor(c, 0), *out = out_get(c, 0), *image = to_columns ? self : out, *columns = to_columns ? out : self;
    if (out->numel == 0) return NBX_OK;
    const nbx_status status = to_columns ? nbx_im2col_plan(c, &f.p) : nbx_col2im_plan(c, &f.p);
    if (status != NBX_OK) return status;
    f.from = (const char *)nbx_data(self), f.to = (char *)nbx_data(out);
    f.dtype = out->dtype, f.width = (int)nbx_dtype_size((nbx_dtype)out->dtype), f.count = out->numel;
    strides_of(image, 4, f.width, f.image);
    strides_of(columns, 3, f.width, f.columns);
    const unsigned blocks = (unsigned)((f.count + FOLD_THREADS - 1) / FOLD_THREADS);
    cudaStream_t stream = stream_of(c);
    const nbx_dtype d = (nbx_dtype)out->dtype;
    if (to_columns) image_to_columns<<<blocks, FOLD_THREADS, 0, stream>>>(f);
    else if (nbx_dtype_is_complex(d)) columns_to_image<cdouble><<<blocks, FOLD_THREADS, 0, stream>>>(f);
    else if (nbx_dtype_is_integral(d, true)) columns_to_image<int64_t><<<blocks, FOLD_THREADS, 0, stream>>>(f);
    else if (d == NBX_FLOAT64) columns_to_image<double><<<blocks, FOLD_THREADS, 0, stream>>>(f);
    else columns_to_image<float><<<blocks, FOLD_THREADS, 0, stream>>>(f);
    return launch_status(c);
}

static nbx_status im2col_cuda(nbx_op_call *c) { return run(c, true); }
static nbx_status col2im_cuda(nbx_op_call *c) { return run(c, false); }

NBX_CUDA_KERNEL("aten::im2col", im2col_cuda)
NBX_CUDA_KERNEL("aten::col2im", col2im_cuda)

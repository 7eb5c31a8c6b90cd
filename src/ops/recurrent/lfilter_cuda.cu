// The feedback of an IIR filter on CUDA: a thread for each batch and channel, as lfilter.c sums.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"

typedef struct filter_call {
    const char *x, *a;
    char *y;
    int dtype;
    int64_t lines, channels, n, order;
    int64_t x_stride[3], a_stride[2], y_stride[3];  // in bytes
} filter_call;

static __global__ void __launch_bounds__(FLAT_THREADS) filter_lines(const __grid_constant__ filter_call p) {
    const int64_t line = flat_item();
    if (line >= p.lines) return;
    const int64_t b = line / p.channels, c = line % p.channels;
    const char *x = p.x + b * p.x_stride[0] + c * p.x_stride[1], *a = p.a + c * p.a_stride[0];
    char *y = p.y + b * p.y_stride[0] + c * p.y_stride[1];
    for (int64_t i = 0; i < p.n; i++) {
        double sum = ewc_load<double>(p.dtype, x + i * p.x_stride[2]);
        for (int64_t k = 0; k < p.order; k++) sum -= ewc_load<double>(p.dtype, a + k * p.a_stride[1]) * ewc_load<double>(p.dtype, y + (i + k) * p.y_stride[2]);
        ewc_store<double>(p.dtype, y + (i + p.order - 1) * p.y_stride[2], sum);
    }
}

static nbx_status lfilter_cuda(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *a = arg_tensor(c, 1), *y = arg_tensor(c, 2);
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)x->dtype);
    if (x->numel == 0) return NBX_OK;
    filter_call p = {(const char *)nbx_data(x), (const char *)nbx_data(a), (char *)nbx_data(y), x->dtype, x->shape[0] * x->shape[1], x->shape[1], x->shape[2], a->shape[1],
                     {}, {}, {}};
    for (int i = 0; i < 3; i++) p.x_stride[i] = x->stride[i] * width, p.y_stride[i] = y->stride[i] * width;
    for (int i = 0; i < 2; i++) p.a_stride[i] = a->stride[i] * width;
    filter_lines<<<flat_blocks(p.lines), FLAT_THREADS, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

NBX_CUDA_KERNEL("torchaudio::_lfilter_core_loop", lfilter_cuda)

// fractional_max_pool2d, fractional_max_pool3d: the largest element of windows whose starts random_samples [n, c, dims] spread
// over the input (of two dims, the width's first); and its place, flat in the plane. A NaN is larger than everything.
//   start of window i: int((i + sample) alpha) - int(sample alpha), alpha = (in - kernel) / (out - 1); the last one ends
//   with the input. In the arithmetic of the dtype.
#include <string.h>

#include "core/tensor.h"
#include "cpu/pool.h"
#include "ops/pool/pool_planes.h"

enum { SELF, KERNEL, SIZE, SAMPLES };

static int dims_of(const nbx_op_call *c) { return ((const pool_form *)c->op->data)->dims; }

static nbx_status infer(nbx_op_call *c) {
    const int dims = dims_of(c);
    const nbx_tensor *x = arg_tensor(c, SELF), *samples = arg_tensor(c, SAMPLES);
    const nbx_dtype d = (nbx_dtype)x->dtype;
    int64_t shape[5];
    if (c->args[KERNEL].count != dims || c->args[SIZE].count != dims)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "kernel_size and output_size need %d numbers", dims);
    if (!nbx_dtype_is_float(d) || nbx_dtype_is_float8(d)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name(d));
    if (samples->dtype != x->dtype) return nbx_call_fail(c, NBX_ERROR_DTYPE, "random_samples must have the dtype of self");
    if (x->rank != dims + 1 && x->rank != dims + 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "self must have %d or %d dims, found %d", dims + 1, dims + 2, x->rank);
    const int first = x->rank - dims;
    const int64_t batch = x->rank == dims + 2 ? x->shape[0] : 1;
    if (samples->rank != 3 || samples->shape[0] < batch || samples->shape[1] != x->shape[first - 1] || samples->shape[2] != dims)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "random_samples must be [batch, channels, %d]", dims);
    memcpy(shape, x->shape, sizeof *shape * (size_t)x->rank);
    for (int i = first - 1; i < x->rank; i++)
        if (x->shape[i] == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "only the batch may be empty");
    for (int i = 0; i < dims; i++) {
        const int64_t kernel = c->args[KERNEL].as.ints[i], size = c->args[SIZE].as.ints[i];
        if (kernel < 0 || size < 0 || kernel > INT32_MAX || size > INT32_MAX || size + kernel - 1 > x->shape[first + i] - (dims == 3))  // ATen wants one more in three dims
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld windows of %lld do not fit into %lld", (long long)size, (long long)kernel, (long long)x->shape[first + i]);
        shape[first + i] = size;
    }
    return out_new(c, 0, d, x->rank, shape, NULL) && out_new(c, 1, NBX_INT64, x->rank, shape, NULL) ? NBX_OK : c->ctx->status;
}

void nbx_fractional_of(const nbx_op_call *c, nbx_fractional *f) {
    const nbx_tensor *x = arg_tensor(c, SELF), *samples = arg_tensor(c, SAMPLES), *y = out_get(c, 0);
    *f = (nbx_fractional){.dtype = (nbx_dtype)x->dtype, .dims = dims_of(c), .in = {1, 1, 1}, .out = {1, 1, 1}, .kernel = {1, 1, 1}, .out_plane = 1};
    for (int i = 0; i < f->dims; i++) {
        const int to = POOL_DIMS - f->dims + i, from = x->rank - f->dims + i;
        f->in[to] = x->shape[from], f->out[to] = y->shape[from], f->kernel[to] = c->args[KERNEL].as.ints[i];
        f->out_plane *= f->out[to];
    }
    nbx_pool_strides(x, f->dims, f->stride);
    memcpy(f->sample_stride, samples->stride, sizeof f->sample_stride);
    f->channels = x->shape[x->rank - f->dims - 1];
    if (y->numel == 0) return;
    f->planes = y->numel / f->out_plane;
    f->input = nbx_data(x), f->samples = nbx_data(samples), f->output = nbx_data(y), f->places = nbx_data(out_get(c, 1));
}

INLINE void one_plane(const nbx_fractional *f, int64_t plane, nbx_dtype d) {
    for (int64_t o = 0; o < f->out_plane; o++) fractional_position(f, plane, o, d);
}

static void walk(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const nbx_fractional *f = arg;
    for (int64_t plane = begin; plane < end; plane++) {
        switch (f->dtype) {
        case NBX_FLOAT64: one_plane(f, plane, NBX_FLOAT64); break;
        case NBX_FLOAT16: one_plane(f, plane, NBX_FLOAT16); break;
        case NBX_BFLOAT16: one_plane(f, plane, NBX_BFLOAT16); break;
        default: one_plane(f, plane, NBX_FLOAT32);
        }
    }
}

static nbx_status fractional_max_pool(nbx_op_call *c) {
    nbx_fractional f;
    nbx_fractional_of(c, &f);
    if (f.planes > 0) nbx_parallel_for(c->pool, f.planes, 1 + 512 / f.out_plane, walk, &f);
    return NBX_OK;
}

static void cost(const nbx_op_call *c, nbx_cost *cost) {
    const nbx_tensor *x = arg_tensor(c, SELF), *y = out_get(c, 0);
    const double size = (double)nbx_dtype_size((nbx_dtype)x->dtype);
    cost->flops = (double)y->numel;
    for (int i = 0; i < dims_of(c); i++) cost->flops *= (double)c->args[KERNEL].as.ints[i];
    cost->bytes_read = (double)x->numel * size;
    cost->bytes_written = (double)y->numel * (size + 8);
    cost->scratch_bytes = 0;
}

#define FRACTIONAL(NAME, DIMS)                                                                                         \
    {.name = NAME, .infer = infer, .cost = cost, .cpu = NBX_CPU_KERNEL_ONE(fractional_max_pool),                       \
     .flags = NBX_OP_EXACT_DTYPE, .data = &(const pool_form){.kind = POOL_MAX, .dims = DIMS, .indices = true}}

const nbx_op nbx_ops_fractional[] = {
    FRACTIONAL("aten::fractional_max_pool2d", 2),
    FRACTIONAL("aten::fractional_max_pool3d", 3),
    NBX_OPS_END,
};

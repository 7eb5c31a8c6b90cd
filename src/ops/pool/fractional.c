// fractional_max_pool2d, fractional_max_pool3d: the largest element of windows whose starts random_samples [n, c, dims] spread
// over the input (of two dims, the width's first); and its place, flat in the plane. A NaN is larger than everything.
//   start of window i: int((i + sample) alpha) - int(sample alpha), alpha = (in - kernel) / (out - 1); the last one ends
//   with the input. In the arithmetic of the dtype.
#include <math.h>
#include <string.h>

#include "core/tensor.h"
#include "cpu/pool.h"
#include "ops/matmul/plain_numbers.h"
#include "ops/pool/pooling.h"

enum { SELF, KERNEL, SIZE, SAMPLES };

typedef struct fractional {
    const nbx_tensor *x, *samples, *y, *places;
    int dims;
    int64_t channels, in[POOL_DIMS], out[POOL_DIMS], kernel[POOL_DIMS], stride[POOL_DIMS];  // depth, height, width
    int64_t out_plane;
} fractional;

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

INLINE int64_t window_start(const fractional *f, int64_t n, int64_t channel, int dim, int64_t i, nbx_dtype d) {
    const int64_t most = f->in[dim] - f->kernel[dim], last = f->out[dim] - 1, *s = f->samples->stride;
    if (i == last) return most;
    const double sample = load_real(nbx_data(f->samples), n * s[0] + channel * s[1] + (f->dims == 2 ? 2 - dim : dim) * s[2], d);
    const double alpha = in_dtype(in_dtype((double)most, d) / in_dtype((double)last, d), d);
    const double start = trunc(in_dtype(in_dtype(in_dtype((double)i, d) + sample, d) * alpha, d)) - trunc(in_dtype(sample * alpha, d));
    return !(start > 0) ? 0 : start < (double)most ? (int64_t)start : most;
}

INLINE void one_plane(const fractional *f, int64_t plane, nbx_dtype d) {
    const int64_t n = plane / f->channels, channel = plane % f->channels, *s = f->x->stride;
    const int r = f->x->rank;
    const char *from = (const char *)nbx_data(f->x) + ((r == f->dims + 2 ? n * s[0] : 0) + channel * s[r - f->dims - 1]) * (int64_t)nbx_dtype_size(d);
    for (int64_t o = 0; o < f->out_plane; o++) {
        const int64_t at[POOL_DIMS] = {o / f->out[2] / f->out[1], o / f->out[2] % f->out[1], o % f->out[2]};
        int64_t start[POOL_DIMS];
        for (int i = 0; i < POOL_DIMS; i++) start[i] = i < POOL_DIMS - f->dims ? 0 : window_start(f, n, channel, i, at[i], d);
        int64_t place = (start[0] * f->in[1] + start[1]) * f->in[2] + start[2];
        double most = -(double)INFINITY;
        for (int64_t z = start[0]; z < start[0] + f->kernel[0]; z++)
            for (int64_t y = start[1]; y < start[1] + f->kernel[1]; y++)
                for (int64_t x = start[2]; x < start[2] + f->kernel[2]; x++) {
                    const double value = load_real(from, z * f->stride[0] + y * f->stride[1] + x * f->stride[2], d);
                    if (value > most || isnan(value)) most = value, place = (z * f->in[1] + y) * f->in[2] + x;
                }
        store_real(nbx_data(f->y), plane * f->out_plane + o, d, most);
        ((int64_t *)nbx_data(f->places))[plane * f->out_plane + o] = place;
    }
}

static void walk(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const fractional *f = arg;
    for (int64_t plane = begin; plane < end; plane++) {
        switch (f->x->dtype) {
        case NBX_FLOAT64: one_plane(f, plane, NBX_FLOAT64); break;
        case NBX_FLOAT16: one_plane(f, plane, NBX_FLOAT16); break;
        case NBX_BFLOAT16: one_plane(f, plane, NBX_BFLOAT16); break;
        default: one_plane(f, plane, NBX_FLOAT32);
        }
    }
}

static nbx_status fractional_max_pool(nbx_op_call *c) {
    fractional f = {.x = arg_tensor(c, SELF), .samples = arg_tensor(c, SAMPLES), .y = out_get(c, 0), .places = out_get(c, 1), .dims = dims_of(c),
                    .in = {1, 1, 1}, .out = {1, 1, 1}, .kernel = {1, 1, 1}, .out_plane = 1};
    if (f.y->numel == 0) return NBX_OK;
    for (int i = 0; i < f.dims; i++) {
        const int to = POOL_DIMS - f.dims + i, from = f.x->rank - f.dims + i;
        f.in[to] = f.x->shape[from], f.out[to] = f.y->shape[from], f.kernel[to] = c->args[KERNEL].as.ints[i], f.stride[to] = f.x->stride[from];
        f.out_plane *= f.out[to];
    }
    f.channels = f.x->shape[f.x->rank - f.dims - 1];
    nbx_parallel_for(c->pool, f.y->numel / f.out_plane, 1 + 512 / f.out_plane, walk, &f);
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
     .flags = NBX_OP_EXACT_DTYPE | NBX_OP_ON_HOST, .data = &(const pool_form){.kind = POOL_MAX, .dims = DIMS, .indices = true}}

const nbx_op nbx_ops_fractional[] = {
    FRACTIONAL("aten::fractional_max_pool2d", 2),
    FRACTIONAL("aten::fractional_max_pool3d", 3),
    NBX_OPS_END,
};

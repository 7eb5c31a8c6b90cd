// Gradients of two-dimensional pooling: every position of the result adds its gradient, or its share of it, to the inputs
// that its window looked at, position by position, in the dtype.
#include <string.h>

#include "core/tensor.h"
#include "cpu/pool.h"
#include "ops/pool/pool_planes.h"

enum { GRAD, SELF, KERNEL, STRIDE, PADDING, INDICES = 7 };

static pool_kind kind_of(const nbx_op_call *c) { return (pool_kind)((const pool_form *)c->op->data)->kind; }

static nbx_status fail(nbx_op_call *c, int arg, const char *why) {
    char shape[NBX_SHAPE_TEXT];
    const nbx_tensor *t = arg_tensor(c, arg);
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "%s %s: %s", c->schema->params[arg].name, nbx_shape_text(t->rank, t->shape, shape, sizeof shape), why);
}

// Windows into p; *fits: whether a tensor of the result's shape has so many positions.
static nbx_status windows_of(nbx_op_call *c, nbx_pooling *p) {
    const nbx_tensor *x = arg_tensor(c, SELF), *g = arg_tensor(c, GRAD);
    const bool max = kind_of(c) == POOL_MAX;
    memset(p, 0, sizeof *p);
    p->kind = kind_of(c);
    for (int d = 0; d < POOL_DIMS; d++) p->in[d] = p->out[d] = p->kernel[d] = p->stride[d] = p->step[d] = 1;
    for (int i = 0; i < 2; i++) p->in[1 + i] = x->shape[x->rank - 2 + i], p->out[1 + i] = g->shape[g->rank - 2 + i];
    if (p->kind == POOL_ADAPTIVE_AVG) return NBX_OK;
    nbx_status status = nbx_pool_list(c, KERNEL, 2, NULL, 1, p->kernel + 1);
    if (!status) status = nbx_pool_list(c, STRIDE, 2, p->kernel + 1, 1, p->stride + 1);
    if (!status) status = nbx_pool_list(c, PADDING, 2, NULL, 0, p->padding + 1);
    if (!status && max) status = nbx_pool_list(c, PADDING + 1, 2, NULL, 1, p->step + 1);
    if (status) return status;
    p->ceil_mode = arg_bool(c, max ? 6 : 5);
    p->count_padding = !max && arg_bool(c, 6);
    p->divisor = max ? 0 : arg_int_or(c, 7, 0);
    if (!max && !arg_is_none(c, 7) && p->divisor == 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "divisor must be not zero");
    for (int d = 1; d < POOL_DIMS; d++) {
        if (p->kernel[d] > INT32_MAX || p->stride[d] > INT32_MAX || p->padding[d] > p->kernel[d] / 2 || p->step[d] > INT32_MAX)
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the window is too large, or padding more than half of it");
        if (nbx_pool_positions(p->in[d], p->kernel[d], p->padding[d], p->stride[d], p->step[d], p->ceil_mode) != p->out[d])
            return fail(c, GRAD, "its size is not that of the pooling's result");
    }
    return NBX_OK;
}

static nbx_status infer(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, SELF), *g = arg_tensor(c, GRAD);
    const nbx_dtype d = (nbx_dtype)x->dtype;
    nbx_pooling p;
    if (x->rank != 3 && x->rank != 4) return fail(c, SELF, "must have 3 or 4 dims");
    if (g->rank != x->rank || memcmp(g->shape, x->shape, sizeof *x->shape * (size_t)(x->rank - 2)) != 0)
        return fail(c, GRAD, "must have the batch and channels of self");
    if (g->dtype != x->dtype) return nbx_call_fail(c, NBX_ERROR_DTYPE, "the gradient is %s, self is %s", nbx_dtype_name((nbx_dtype)g->dtype), nbx_dtype_name(d));
    if ((!nbx_dtype_is_float(d) || nbx_dtype_is_float8(d)) && !(d == NBX_INT64 && kind_of(c) == POOL_AVG))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name(d));
    for (int i = x->rank - 3; i < x->rank; i++) {
        if (x->shape[i] == 0) return fail(c, SELF, "only the batch may be empty");
        if (g->shape[i] == 0) return fail(c, GRAD, "only the batch may be empty");
    }
    const nbx_status status = windows_of(c, &p);
    if (status != NBX_OK) return status;
    if (kind_of(c) == POOL_MAX) {
        const nbx_tensor *indices = arg_tensor(c, 7);
        if (indices->dtype != NBX_INT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "indices must be int64");
        if (!nbx_same_shape(indices, g)) return fail(c, 7, "must have the shape of the gradient");
    }
    int64_t stride[4];
    nbx_strides_contiguous(x->rank, x->shape, stride);
    if (x->rank == 4) nbx_strides_format(nbx_suggest_memory_format(x), x->rank, x->shape, stride);
    if (c->device.type != NBX_CPU && kind_of(c) == POOL_MAX) c->scratch_bytes = sizeof(int) * (size_t)(x->numel / (p.in[1] * p.in[2]));
    return out_new(c, 0, d, x->rank, x->shape, stride) ? NBX_OK : c->ctx->status;
}

nbx_status nbx_pool_gradient_of(nbx_op_call *c, nbx_pooling *p) {
    const nbx_tensor *grad = arg_tensor(c, GRAD), *result = out_get(c, 0), *indices = kind_of(c) == POOL_MAX ? arg_tensor(c, INDICES) : NULL;
    const nbx_status status = windows_of(c, p);
    p->dtype = (nbx_dtype)result->dtype;
    p->batch = result->rank == 4 ? result->shape[0] : 1, p->channels = result->shape[result->rank - 3];
    nbx_pool_strides(result, 2, p->in_stride);
    nbx_pool_strides(grad, 2, p->out_stride);
    if (indices) nbx_pool_strides(indices, 2, p->index_stride);
    if (result->numel == 0) return status;
    p->input = nbx_data(grad), p->output = nbx_data(result), p->indices = indices ? nbx_data(indices) : NULL;
    return status;
}

INLINE void add(char *plane, int64_t place, double x, nbx_dtype d) {
    if (d == NBX_INT64) ((int64_t *)plane)[place] += (int64_t)x;
    else store_real(plane, place, d, load_real(plane, place, d) + x);
}

INLINE void one_plane(const nbx_pooling *p, int64_t plane, nbx_dtype d) {
    const int64_t *to = p->in_stride, *from = p->out_stride, *is = p->index_stride, n = plane / p->channels, c = plane % p->channels;
    const int64_t size = (int64_t)nbx_dtype_size(d), width = p->in[2];
    char *out = p->output + (n * to[0] + c * to[1]) * size;
    const char *grad = p->input + (n * from[0] + c * from[1]) * size;
    for (int64_t i = 0; i < p->in[1] * width; i++) {
        if (d == NBX_INT64) ((int64_t *)out)[i / width * to[3] + i % width * to[4]] = 0;
        else store_real(out, i / width * to[3] + i % width * to[4], d, 0);
    }
    for (int64_t oy = 0; oy < p->out[1]; oy++) {
        const pool_window y = nbx_pooling_window(p, 1, oy);
        for (int64_t ox = 0; ox < p->out[2]; ox++) {
            const int64_t at = oy * from[3] + ox * from[4];
            const double g = d == NBX_INT64 ? (double)((const int64_t *)grad)[at] : load_real(grad, at, d);
            if (p->indices) {
                const int64_t place = p->indices[n * is[0] + c * is[1] + oy * is[3] + ox * is[4]];
                if (place >= 0) add(out, place / width * to[3] + place % width * to[4], g, d);
                continue;
            }
            const pool_window x = nbx_pooling_window(p, 2, ox);
            if (y.end <= y.start || x.end <= x.start) continue;
            const double delta = pool_share(p, g, y, x, d);
            for (int64_t i = y.start; i < y.end; i++)
                for (int64_t k = x.start; k < x.end; k++) add(out, i * to[3] + k * to[4], delta, d);
        }
    }
}

static void walk(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const nbx_pooling *p = arg;
    for (int64_t plane = begin; plane < end; plane++) {
        switch (p->dtype) {
        case NBX_FLOAT64: one_plane(p, plane, NBX_FLOAT64); break;
        case NBX_FLOAT16: one_plane(p, plane, NBX_FLOAT16); break;
        case NBX_BFLOAT16: one_plane(p, plane, NBX_BFLOAT16); break;
        case NBX_INT64: one_plane(p, plane, NBX_INT64); break;
        default: one_plane(p, plane, NBX_FLOAT32);
        }
    }
}

static nbx_status check_indices(nbx_op_call *c, const nbx_pooling *p) {
    int64_t at[4] = {0};
    const nbx_tensor *t = arg_tensor(c, INDICES);
    for (int64_t i = 0; i < t->numel; i++) {
        int64_t place = 0;
        for (int d = 0; d < t->rank; d++) place += at[d] * t->stride[d];
        const int64_t index = ((const int64_t *)nbx_data(t))[place];
        if (index < -1 || index >= p->in[1] * p->in[2])
            return nbx_call_fail(c, NBX_ERROR_INDEX, "index %lld is outside a plane of %lld", (long long)index, (long long)(p->in[1] * p->in[2]));
        for (int d = t->rank - 1; d >= 0 && ++at[d] == t->shape[d]; d--) at[d] = 0;
    }
    return NBX_OK;
}

static nbx_status pool_backward(nbx_op_call *c) {
    nbx_pooling p;
    nbx_status status = nbx_pool_gradient_of(c, &p);
    if (status == NBX_OK && p.kind == POOL_MAX) status = check_indices(c, &p);
    if (status != NBX_OK || out_get(c, 0)->numel == 0) return status;
    const int64_t plane = p.in[1] * p.in[2];
    nbx_parallel_for(c->pool, p.batch * p.channels, 1 + 4096 / plane, walk, &p);
    return NBX_OK;
}

#define BACKWARD(NAME, KIND, FLAG)                                                                                     \
    {.name = NAME, .infer = infer, .cpu = NBX_CPU_KERNEL_ONE(pool_backward), .flags = FLAG,         \
     .data = &(const pool_form){.kind = KIND, .dims = 2}}

const nbx_op nbx_ops_pool_backward[] = {
    BACKWARD("aten::_adaptive_avg_pool2d_backward", POOL_ADAPTIVE_AVG, NBX_OP_EXACT_OUT),
    BACKWARD("aten::avg_pool2d_backward", POOL_AVG, NBX_OP_EXACT_DTYPE),
    BACKWARD("aten::max_pool2d_with_indices_backward", POOL_MAX, NBX_OP_EXACT_DTYPE),
    NBX_OPS_END,
};

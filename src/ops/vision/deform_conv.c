// torchvision::deform_conv2d: a convolution that reads its input where offsets say, between pixels, times an optional mask.
//   input [n, c, h, w]; weight [out, c / groups, kh, kw]; offset [n, 2 kh kw offset_groups, oh, ow] (y, x for each place);
//   mask [n, kh kw offset_groups, oh, ow] where use_mask; bias [out]. An image at a time: what the kernel reads is written
//   out as columns [c kh kw, oh ow], and the weight is multiplied with them, group by group.
#include <string.h>

#include "cpu/gemm.h"
#include "cpu/pool.h"
#include "ops/op.h"
#include "ops/vision/deform.h"

enum { INPUT, WEIGHT, OFFSET, MASK, BIAS, STRIDE, PADDING = 7, DILATION = 9, GROUPS = 11, OFFSET_GROUPS, USE_MASK };

static nbx_status bad(nbx_op_call *c, int arg, const char *why) {
    char shape[NBX_SHAPE_TEXT];
    const nbx_tensor *t = arg_tensor(c, arg);
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "%s %s: %s", c->schema->params[arg].name, nbx_shape_text(t->rank, t->shape, shape, sizeof shape), why);
}

static bool is_grid(const nbx_tensor *t, const deform_job *j, int64_t channels) {
    return t->rank == 4 && t->shape[0] == j->batch && t->shape[1] == channels && t->shape[2] == j->out[0] && t->shape[3] == j->out[1];
}

static nbx_status read_sizes(nbx_op_call *c, deform_job *j) {
    const nbx_tensor *x = arg_tensor(c, INPUT), *w = arg_tensor(c, WEIGHT);
    if (x->rank != 4) return bad(c, INPUT, "must have 4 dims");
    if (w->rank != 4) return bad(c, WEIGHT, "must have 4 dims");
    j->batch = x->shape[0], j->channels = x->shape[1], j->out_channels = w->shape[0];
    j->groups = arg_int(c, GROUPS), j->offset_groups = arg_int(c, OFFSET_GROUPS);
    for (int i = 0; i < 2; i++) {
        j->in[i] = x->shape[2 + i], j->kernel[i] = w->shape[2 + i];
        j->step[i] = arg_int(c, STRIDE + i), j->padding[i] = arg_int(c, PADDING + i), j->dilation[i] = arg_int(c, DILATION + i);
        if (j->kernel[i] < 1 || j->step[i] < 1 || j->padding[i] < 0 || j->dilation[i] < 1 || j->step[i] > INT32_MAX ||
            j->padding[i] > INT32_MAX || j->dilation[i] > INT32_MAX)
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "kernel, stride, dilation must be positive, padding not negative");
        const int64_t span = j->in[i] + 2 * j->padding[i] - (j->dilation[i] * (j->kernel[i] - 1) + 1);
        j->out[i] = span < 0 ? 0 : span / j->step[i] + 1;
        if (j->out[i] < 1) return bad(c, INPUT, "it is smaller than the kernel");
    }
    j->taps = j->kernel[0] * j->kernel[1], j->positions = j->out[0] * j->out[1];
    return NBX_OK;
}

static nbx_status check_shapes(nbx_op_call *c, const deform_job *j) {
    const nbx_tensor *w = arg_tensor(c, WEIGHT), *offset = arg_tensor(c, OFFSET), *bias = arg_tensor(c, BIAS);
    if (j->groups < 1 || j->offset_groups < 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "groups and offset_groups must be positive");
    if (j->out_channels % j->groups || w->shape[1] * j->groups != j->channels) return bad(c, WEIGHT, "does not fit the groups");
    if (j->channels % j->offset_groups) return bad(c, INPUT, "channels are no multiple of offset_groups");
    if (!is_grid(offset, j, 2 * j->taps * j->offset_groups)) return bad(c, OFFSET, "must be [batch, 2 taps offset_groups, out height, out width]");
    if (arg_bool(c, USE_MASK) && !is_grid(arg_tensor(c, MASK), j, j->taps * j->offset_groups))
        return bad(c, MASK, "must be [batch, taps offset_groups, out height, out width]");
    return bias->rank == 1 && bias->shape[0] == j->out_channels ? NBX_OK : bad(c, BIAS, "must have one number for each output channel");
}

static nbx_gemm product_of(const nbx_op_call *c, const deform_job *j) {
    const nbx_tensor *x = arg_tensor(c, INPUT), *w = arg_tensor(c, WEIGHT);
    const nbx_dtype d = (nbx_dtype)x->dtype;
    const int64_t k = w->shape[1] * j->taps;
    return (nbx_gemm){.m = j->out_channels / j->groups, .n = j->positions, .k = k, .batch = 1, .dtype = d, .out_dtype = d, .row_stride_a = k,
                      .col_stride_a = 1, .row_stride_b = j->positions, .col_stride_b = 1, .row_stride_c = j->positions, .col_stride_c = 1,
                      .alpha = 1, .bias_per_row = true, .bias_stride = 1};
}

static nbx_status infer(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, INPUT);
    const nbx_dtype d = (nbx_dtype)x->dtype;
    deform_job *j = nbx_call_state(c, sizeof *j);
    if (!j) return c->ctx->status;
    if (d != NBX_FLOAT32 && d != NBX_FLOAT64 && d != NBX_FLOAT16) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name(d));
    for (int i = WEIGHT; i <= BIAS; i++)
        if (arg_tensor(c, i)->dtype != x->dtype && (i != MASK || arg_bool(c, USE_MASK)))
            return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s is not of the input's dtype", c->schema->params[i].name);
    nbx_status status = read_sizes(c, j);
    if (status == NBX_OK) status = check_shapes(c, j);
    if (status != NBX_OK) return status;
    const int64_t shape[4] = {j->batch, j->out_channels, j->out[0], j->out[1]}, columns[3] = {j->channels, j->taps, j->positions};
    const int64_t elements = nbx_shape_numel(3, columns);
    if (elements < 0 || elements > ((int64_t)1 << 50)) return bad(c, INPUT, "too large");
    if (!out_new(c, 0, d, 4, shape, NULL)) return c->ctx->status;
    const int64_t weights = arg_tensor(c, WEIGHT)->numel;
    const nbx_gemm g = product_of(c, j);
    j->columns_bytes = ((size_t)(elements + weights + j->out_channels) * nbx_dtype_size(d) + 191) & ~(size_t)63;
    c->scratch_bytes = j->columns_bytes + nbx_gemm_scratch_bytes(&g, c->ctx->threads);
    return NBX_OK;
}

void nbx_deform_pointers(const nbx_op_call *c, deform_job *j) {
    const nbx_tensor *x = arg_tensor(c, INPUT), *offset = arg_tensor(c, OFFSET), *mask = arg_bool(c, USE_MASK) ? arg_tensor(c, MASK) : NULL;
    j->dtype = (nbx_dtype)x->dtype;
    memcpy(j->x_stride, x->stride, sizeof j->x_stride);
    memcpy(j->offset_stride, offset->stride, sizeof j->offset_stride);
    if (mask) memcpy(j->mask_stride, mask->stride, sizeof j->mask_stride);
    j->x = nbx_data(x), j->offset = nbx_data(offset), j->mask = mask ? nbx_data(mask) : NULL;
}

typedef struct expansion {
    const deform_job *j;
    int64_t image;
    char *columns;
} expansion;

INLINE void expand_rows(const expansion *e, int64_t begin, int64_t end, nbx_dtype d) {
    for (int64_t row = begin; row < end; row++)
        for (int64_t at = 0; at < e->j->positions; at++)
            store_real(e->columns, row * e->j->positions + at, d, deform_column(e->j, e->image, row, at, d));
}

static void expand(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const expansion *e = arg;
    const nbx_dtype d = e->j->dtype;
    if (d == NBX_FLOAT16) expand_rows(e, begin, end, NBX_FLOAT16);
    else if (d == NBX_FLOAT64) expand_rows(e, begin, end, NBX_FLOAT64);
    else expand_rows(e, begin, end, NBX_FLOAT32);
}

// A dense copy, row by row.
static void pack(char *to, const nbx_tensor *t) {
    const int64_t size = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    for (int64_t i = 0; i < t->numel; i++, to += size) {
        int64_t rest = i, place = 0;
        for (int d = t->rank - 1; d >= 0; d--) place += rest % t->shape[d] * t->stride[d], rest /= t->shape[d];
        memcpy(to, (const char *)nbx_data(t) + place * size, (size_t)size);
    }
}

static nbx_status deform_conv2d(nbx_op_call *c) {
    deform_job *j = c->state;
    const nbx_tensor *y = out_get(c, 0), *w = arg_tensor(c, WEIGHT);
    const int64_t size = (int64_t)nbx_dtype_size((nbx_dtype)y->dtype);
    if (y->numel == 0) return NBX_OK;
    nbx_deform_pointers(c, j);
    nbx_gemm g = product_of(c, j);
    char *columns = c->scratch, *weight = columns + j->channels * j->taps * j->positions * size, *bias = weight + w->numel * size;
    pack(weight, w);
    pack(bias, arg_tensor(c, BIAS));
    for (int64_t n = 0; n < j->batch; n++) {
        expansion e = {j, n, columns};
        nbx_parallel_for(c->pool, j->channels * j->taps, 1 + 2048 / j->positions, expand, &e);
        for (int64_t i = 0; i < j->groups; i++) {
            g.a = weight + i * g.m * g.k * size, g.b = columns + i * g.k * g.n * size, g.bias = bias + i * g.m * size;
            g.c = (char *)nbx_data(y) + (n * j->groups + i) * g.m * g.n * size;
            nbx_gemm_run(&g, c->pool, (char *)c->scratch + j->columns_bytes);
        }
    }
    return NBX_OK;
}

static void cost(const nbx_op_call *c, nbx_cost *cost) {
    const deform_job *j = c->state;
    const double size = (double)nbx_dtype_size((nbx_dtype)arg_tensor(c, INPUT)->dtype);
    const double columns = (double)j->batch * (double)(j->channels * j->taps) * (double)j->positions;
    cost->flops = columns * (8 + 2 * (double)j->out_channels / (double)j->groups);
    cost->bytes_read = size * (columns + (double)arg_tensor(c, INPUT)->numel + (double)arg_tensor(c, WEIGHT)->numel + (double)arg_tensor(c, OFFSET)->numel);
    cost->bytes_written = size * (columns + (double)out_get(c, 0)->numel);
    cost->scratch_bytes = c->scratch_bytes;
}

const nbx_op nbx_ops_deform_conv[] = {
    {.name = "torchvision::deform_conv2d", .infer = infer, .cost = cost, .cpu = NBX_CPU_KERNEL_ONE(deform_conv2d)},
    NBX_OPS_END,
};

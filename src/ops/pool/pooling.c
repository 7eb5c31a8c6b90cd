// Maximum and average pooling, fixed and adaptive windows, one to three dims.
#include <string.h>

#include "ops/pool/pooling.h"

static const pool_form *form_of(const nbx_op_call *c) { return (const pool_form *)c->op->data; }
static bool is_adaptive(const pool_form *f) { return f->kind >= POOL_ADAPTIVE_MAX; }

// ------------------------------------------------------------------------------------------------------------- checks
nbx_status nbx_pool_list(nbx_op_call *c, int arg, int dims, const int64_t *absent, int64_t least, int64_t *list) {
    int count;
    const int64_t *given = arg_ints(c, arg, &count);
    if (count != dims && count != 1 && !(count == 0 && absent))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s needs 1 or %d numbers, found %d", c->schema->params[arg].name, dims, count);
    for (int i = 0; i < dims; i++) {
        list[i] = count == 0 ? absent[i] : given[count == 1 ? 0 : i];
        if (list[i] < least)
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s must be at least %lld, found %lld", c->schema->params[arg].name,
                                 (long long)least, (long long)list[i]);
    }
    return NBX_OK;
}

static nbx_status fail_input(nbx_op_call *c, const char *why) {
    char shape[NBX_SHAPE_TEXT];
    const nbx_tensor *x = arg_tensor(c, 0);
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "input %s: %s", nbx_shape_text(x->rank, x->shape, shape, sizeof shape), why);
}

// One dim or two before the windows. Only the batch may be empty; for adaptive windows the first dim, whatever it is, and
// for averages over one or two dims the channels.
static nbx_status check_input(nbx_op_call *c, const pool_form *f) {
    const nbx_tensor *x = arg_tensor(c, 0);
    if (x->rank != f->dims + 1 && x->rank != f->dims + 2) return fail_input(c, "wrong number of dims");
    int first = x->rank == f->dims + 2;
    if (is_adaptive(f)) first = f->kind == POOL_ADAPTIVE_AVG && f->dims < 3 ? x->rank - f->dims : 1;
    for (int i = first; i < x->rank; i++)
        if (x->shape[i] == 0) return fail_input(c, "only the batch may be empty");
    return NBX_OK;
}

static nbx_status check_dtype(nbx_op_call *c, const pool_form *f) {
    const nbx_dtype d = (nbx_dtype)arg_tensor(c, 0)->dtype;
    const bool narrow = d == NBX_FLOAT16 || d == NBX_BFLOAT16, whole = nbx_dtype_is_integral(d, false) && d <= NBX_INT64;
    bool fits = nbx_dtype_is_float(d) && !nbx_dtype_is_float8(d);
    if (f->kind == POOL_AVG) fits = (fits && !(narrow && f->dims == 3)) || d == NBX_INT64;
    if (f->kind == POOL_MAX) fits |= whole && (f->dims > 1 || f->indices);
    return fits ? NBX_OK : nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name(d));
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

int64_t nbx_pool_positions(int64_t in, int64_t kernel, int64_t padding, int64_t stride, int64_t dilation, bool ceil_mode) {
    int64_t count = floor_div(in + 2 * padding - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0), stride) + 1;
    if (ceil_mode && (count - 1) * stride >= in + padding) count--;
    return count;
}

// ------------------------------------------------------------------------------------------------------------ numbers
static void read_list(const nbx_op_call *c, int arg, int dims, int64_t *list) {
    const nbx_value *v = &c->args[arg];
    for (int i = 0; v->count && i < dims; i++) list[POOL_DIMS - dims + i] = v->as.ints[v->count == 1 ? 0 : i];
}

void nbx_pool_strides(const nbx_tensor *t, int dims, int64_t *strides) {
    const bool batched = t->rank == dims + 2;
    strides[0] = batched ? t->stride[0] : 0;
    strides[1] = t->stride[batched];
    for (int i = 0; i < dims; i++) strides[5 - dims + i] = t->stride[t->rank - dims + i];
}

static void *data_of(const nbx_tensor *t) { return t && t->storage && t->numel ? nbx_data(t) : NULL; }

void nbx_pooling_of(const nbx_op_call *c, nbx_pooling *p) {
    const pool_form *f = form_of(c);
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0), *index = f->indices ? out_get(c, 1) : NULL;
    memset(p, 0, sizeof *p);
    p->dtype = (nbx_dtype)x->dtype;
    p->kind = (pool_kind)f->kind;
    p->batch = x->rank == f->dims + 2 ? x->shape[0] : 1;
    p->channels = x->shape[x->rank - f->dims - 1];
    for (int d = 0; d < POOL_DIMS; d++) p->in[d] = p->out[d] = p->kernel[d] = p->stride[d] = p->step[d] = 1;
    for (int i = 0; i < f->dims; i++) {
        p->in[POOL_DIMS - f->dims + i] = x->shape[x->rank - f->dims + i];
        p->out[POOL_DIMS - f->dims + i] = y->shape[y->rank - f->dims + i];
    }
    if (!is_adaptive(f)) {
        read_list(c, 1, f->dims, p->kernel);
        memcpy(p->stride, p->kernel, sizeof p->stride);
        read_list(c, 2, f->dims, p->stride);
        read_list(c, 3, f->dims, p->padding);
        p->ceil_mode = arg_bool(c, f->kind == POOL_MAX ? 5 : 4);
    }
    for (int d = 0; is_adaptive(f) && d < POOL_DIMS; d++)
        if (p->out[d]) p->kernel[d] = p->in[d] ? (p->in[d] - 1) / p->out[d] + 1 : 0, p->stride[d] = p->in[d] % p->out[d] ? 0 : p->in[d] / p->out[d];
    if (f->kind == POOL_MAX) read_list(c, 4, f->dims, p->step);
    if (f->kind == POOL_AVG) {
        p->count_padding = arg_bool(c, 5);
        p->divisor = f->dims > 1 ? arg_int_or(c, 6, 0) : 0;
    }
    nbx_pool_strides(x, f->dims, p->in_stride);
    nbx_pool_strides(y, f->dims, p->out_stride);
    if (index) nbx_pool_strides(index, f->dims, p->index_stride);
    p->input = data_of(x);
    p->output = data_of(y);
    p->indices = data_of(index);
}

bool nbx_pooling_is_even(const nbx_pooling *p) {
    return p->stride[2] >= 1 && p->stride[2] <= (p->out[2] < 8 ? 2 : 8) && p->kernel[2] * p->step[2] <= 1024 && p->kernel[0] * p->kernel[1] <= 16384;
}

int64_t nbx_pooling_row_floats(const nbx_pooling *p) {
    int64_t floats = p->padding[2] + p->in[2];
    const int64_t reach = (p->out[2] + 15) * p->stride[2] + (p->kernel[2] + 1) * p->step[2];
    if (nbx_pooling_is_even(p) && floats < reach) floats = reach;
    return (floats + 31) / 16 * 16;
}

// -------------------------------------------------------------------------------------------------------------- infer
// Results keep channels last, except those of three dims that ATen computes contiguous.
static nbx_status describe(nbx_op_call *c, const pool_form *f, int64_t *shape) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int64_t strides[5];
    nbx_memory_format format = nbx_suggest_memory_format(x);
    if (f->dims == 3 && f->kind != POOL_MAX) format = NBX_CONTIGUOUS_FORMAT;
    if (x->rank != f->dims + 2 || f->dims == 1) format = NBX_CONTIGUOUS_FORMAT;
    if (format == NBX_CONTIGUOUS_FORMAT) nbx_strides_contiguous(x->rank, shape, strides);
    else nbx_strides_format(format, x->rank, shape, strides);
    if (!out_new(c, 0, (nbx_dtype)x->dtype, x->rank, shape, strides)) return c->ctx->status;
    if (f->indices && !out_new(c, 1, NBX_INT64, x->rank, shape, strides)) return c->ctx->status;
    c->restride_out = f->restride && x->rank == f->dims + 2;
    // Per thread: a row of sums or maxima, and a row of their indices.
    nbx_pooling p;
    nbx_pooling_of(c, &p);
    c->scratch_bytes = (size_t)nbx_pooling_row_floats(&p) * sizeof(float) * 2 * (size_t)c->ctx->threads;
    return NBX_OK;
}

static nbx_status infer_fixed(nbx_op_call *c) {
    const pool_form *f = form_of(c);
    const nbx_tensor *x = arg_tensor(c, 0);
    int64_t kernel[POOL_DIMS], stride[POOL_DIMS], padding[POOL_DIMS], dilation[POOL_DIMS] = {1, 1, 1}, shape[5];
    nbx_status status = check_input(c, f);
    if (!status) status = check_dtype(c, f);
    if (!status) status = nbx_pool_list(c, 1, f->dims, NULL, 1, kernel);
    if (!status) status = nbx_pool_list(c, 2, f->dims, kernel, 1, stride);
    if (!status) status = nbx_pool_list(c, 3, f->dims, NULL, 0, padding);
    if (!status && f->kind == POOL_MAX) status = nbx_pool_list(c, 4, f->dims, NULL, 1, dilation);
    if (status) return status;
    if (f->kind == POOL_AVG && f->dims > 1 && !arg_is_none(c, 6) && arg_int(c, 6) == 0)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "divisor_override must not be zero");
    memcpy(shape, x->shape, (size_t)x->rank * sizeof *shape);
    for (int i = 0; i < f->dims; i++) {
        const int d = x->rank - f->dims + i;
        if (kernel[i] > INT32_MAX || stride[i] > INT32_MAX || padding[i] > INT32_MAX || dilation[i] > INT32_MAX)
            return fail_input(c, "the window is too large");
        const int64_t reach = f->kind == POOL_MAX ? (kernel[i] - 1) * dilation[i] + 1 : kernel[i];
        if (padding[i] > reach / 2) return fail_input(c, "padding must be at most half of the kernel");
        shape[d] = nbx_pool_positions(x->shape[d], kernel[i], padding[i], stride[i], dilation[i], arg_bool(c, f->kind == POOL_MAX ? 5 : 4));
        if (shape[d] < 1) return fail_input(c, "it is smaller than the window");
    }
    return describe(c, f, shape);
}

static nbx_status infer_adaptive(nbx_op_call *c) {
    const pool_form *f = form_of(c);
    const nbx_tensor *x = arg_tensor(c, 0);
    int64_t size[POOL_DIMS], shape[5];
    bool whole = f->is_mean;
    if (c->args[1].count != f->dims) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "output_size needs %d numbers, found %d", f->dims, c->args[1].count);
    nbx_status status = nbx_pool_list(c, 1, f->dims, NULL, 0, size);
    for (int i = 0; !status && i < f->dims; i++) whole &= size[i] == 1;
    if (!status && !(whole && (x->rank == f->dims + 1 || x->rank == f->dims + 2))) status = check_input(c, f);
    if (!status) status = check_dtype(c, f);
    if (status) return status;
    memcpy(shape, x->shape, (size_t)x->rank * sizeof *shape);
    memcpy(shape + x->rank - f->dims, size, (size_t)f->dims * sizeof *shape);
    return describe(c, f, shape);
}

static void cost(const nbx_op_call *c, nbx_cost *cost) {
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0);
    const double size = (double)nbx_dtype_size((nbx_dtype)x->dtype);
    nbx_pooling p;
    nbx_pooling_of(c, &p);
    double window = 1;
    for (int d = 0; d < POOL_DIMS; d++) {
        const double mean = p.out[d] ? (double)p.in[d] / (double)p.out[d] : 1;
        window *= is_adaptive(form_of(c)) ? mean : (double)p.kernel[d];
    }
    cost->flops = window * (double)y->numel;
    cost->bytes_read = (double)x->numel * size;
    cost->bytes_written = (double)y->numel * (size + (p.indices ? 8 : 0));
    cost->scratch_bytes = c->scratch_bytes;
}

#define POOLING_AS(NAME, INFER, KIND, DIMS, INDICES, RESTRIDE, MEAN, FLAG)                                             \
    {.name = NAME, .infer = INFER, .cost = cost, .cpu = NBX_CPU_KERNEL(pooling_cpu), .flags = FLAG,                    \
     .data = &(const pool_form){KIND, DIMS, INDICES, RESTRIDE, MEAN}}
#define POOLING(NAME, INFER, KIND, DIMS, INDICES) POOLING_AS(NAME, INFER, KIND, DIMS, INDICES, false, false, NBX_OP_EXACT_DTYPE)
#define AVERAGE(NAME, DIMS, RESTRIDE) POOLING_AS(NAME, infer_adaptive, POOL_ADAPTIVE_AVG, DIMS, false, RESTRIDE, true, NBX_OP_EXACT_DTYPE)
#define AVERAGE_OF(NAME, DIMS) POOLING_AS(NAME, infer_adaptive, POOL_ADAPTIVE_AVG, DIMS, false, false, false, NBX_OP_EXACT_OUT)

const nbx_op nbx_ops_pooling[] = {
    POOLING("aten::max_pool1d", infer_fixed, POOL_MAX, 1, false),
    POOLING("aten::max_pool2d", infer_fixed, POOL_MAX, 2, false),
    POOLING("aten::max_pool3d", infer_fixed, POOL_MAX, 3, false),
    POOLING("aten::max_pool1d_with_indices", infer_fixed, POOL_MAX, 1, true),
    POOLING("aten::max_pool2d_with_indices", infer_fixed, POOL_MAX, 2, true),
    POOLING_AS("aten::max_pool3d_with_indices", infer_fixed, POOL_MAX, 3, true, true, false, NBX_OP_EXACT_DTYPE),
    POOLING("aten::avg_pool1d", infer_fixed, POOL_AVG, 1, false),
    POOLING("aten::avg_pool2d", infer_fixed, POOL_AVG, 2, false),
    POOLING("aten::avg_pool3d", infer_fixed, POOL_AVG, 3, false),
    POOLING("aten::adaptive_max_pool1d", infer_adaptive, POOL_ADAPTIVE_MAX, 1, true),
    POOLING("aten::adaptive_max_pool2d", infer_adaptive, POOL_ADAPTIVE_MAX, 2, true),
    POOLING("aten::adaptive_max_pool3d", infer_adaptive, POOL_ADAPTIVE_MAX, 3, true),
    AVERAGE("aten::adaptive_avg_pool1d", 1, false),
    AVERAGE("aten::adaptive_avg_pool2d", 2, true),
    AVERAGE_OF("aten::_adaptive_avg_pool2d", 2),
    AVERAGE("aten::adaptive_avg_pool3d", 3, false),
    AVERAGE_OF("aten::_adaptive_avg_pool3d", 3),
    NBX_OPS_END,
};

// Convolutions of one to three dims: the general operator, and every other name as a way to call it.
#include <string.h>

#include "ops/compose.h"
#include "ops/conv/conv.h"

// ------------------------------------------------------------------------------------------------------------- checks
// An int list argument for `dims` spatial dims: one number stands for all.
static nbx_status spatial_list(nbx_op_call *c, int arg, int dims, int64_t least, int64_t *list) {
    int count;
    const int64_t *given = arg_ints(c, arg, &count);
    if (count != dims && count != 1)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s needs 1 or %d numbers, found %d", c->schema->params[arg].name, dims, count);
    for (int i = 0; i < dims; i++) {
        list[i] = given[count == 1 ? 0 : i];
        if (list[i] < least)
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s must be at least %lld, found %lld", c->schema->params[arg].name,
                                 (long long)least, (long long)list[i]);
    }
    return NBX_OK;
}

static bool dtype_convolves(nbx_dtype d) {
    return d != NBX_BOOL && d != NBX_UINT16 && d != NBX_UINT32 && d != NBX_UINT64 && !nbx_dtype_is_float8(d);
}

// A bias of another dtype is converted, as ATen's kernels do, but for conv_transpose3d's; conv1d, conv2d and conv3d refuse it.
static bool bias_converts(const nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    return !arg_bool(c, 6) || (x->rank < 5 && nbx_can_cast((nbx_dtype)arg_tensor(c, 2)->dtype, (nbx_dtype)x->dtype));
}

static nbx_status fail_dtypes(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "input is %s, weight %s, bias %s", nbx_dtype_name((nbx_dtype)x->dtype),
                         nbx_dtype_name((nbx_dtype)w->dtype), b ? nbx_dtype_name((nbx_dtype)b->dtype) : "absent");
}

static nbx_status check_dtypes(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    if (x->dtype != w->dtype || (b && b->dtype != x->dtype && !bias_converts(c)))
        return fail_dtypes(c);
    if (!dtype_convolves((nbx_dtype)x->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name((nbx_dtype)x->dtype));
    return NBX_OK;
}

static nbx_status fail_shapes(nbx_op_call *c, const char *why) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1);
    char input[NBX_SHAPE_TEXT], weight[NBX_SHAPE_TEXT];
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "input %s, weight %s, groups %lld: %s",
                         nbx_shape_text(x->rank, x->shape, input, sizeof input),
                         nbx_shape_text(w->rank, w->shape, weight, sizeof weight), (long long)arg_int(c, 8), why);
}

static nbx_status check_channels(nbx_op_call *c, bool transposed) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *b = arg_tensor(c, 2);
    const int64_t groups = arg_int(c, 8);
    if (x->rank != w->rank) return fail_shapes(c, "ranks differ");
    if (x->rank < 3 || x->rank > 5) return fail_shapes(c, "expects 1 to 3 spatial dims after batch and channel");
    if (groups < 1) return fail_shapes(c, "groups must be positive");
    if (w->shape[0] % groups || w->shape[0] < groups) return fail_shapes(c, "groups do not divide the weight's channels");
    if (transposed ? x->shape[1] != w->shape[0] : x->shape[1] != w->shape[1] * groups) return fail_shapes(c, "channels differ");
    const int64_t out = transposed ? w->shape[1] * groups : w->shape[0];
    if (b && (b->rank != 1 || b->shape[0] != out)) return fail_shapes(c, "bias must have one element per channel of the result");
    for (int i = 2; i < x->rank; i++)
        if (x->shape[i] == 0 && x->shape[0] && x->shape[1]) return fail_shapes(c, "only the batch or the channels may be empty");
    for (int i = 2; i < w->rank; i++)
        if (w->shape[i] < 1) return fail_shapes(c, "empty kernel");
    return NBX_OK;
}

// ------------------------------------------------------------------------------------------------------------ numbers
// In three spatial dims only oneDNN keeps channels last, and ATen calls it for float32 under these conditions.
static bool keeps_channels_last_3d(const nbx_tensor *x, const nbx_tensor *w, int64_t groups) {
    if (x->dtype == NBX_BFLOAT16) return true;
    if (x->dtype != NBX_FLOAT32) return false;
    return groups > 1 || (w->shape[3] > 3 && w->shape[4] > 3) || x->shape[0] > 1 ||
           x->shape[0] * x->shape[1] * x->shape[2] * x->shape[3] > 20480;
}

// channels last when the input or the weight is laid out so; as ATen's CPU backends.
static nbx_memory_format result_format(const nbx_tensor *x, const nbx_tensor *w, int64_t groups) {
    if (x->rank == 3) return NBX_CONTIGUOUS_FORMAT;
    const nbx_memory_format input = nbx_suggest_memory_format(x), weight = nbx_suggest_memory_format(w);
    const nbx_memory_format format = input != NBX_CONTIGUOUS_FORMAT ? input : weight;
    return x->rank == 5 && !keeps_channels_last_3d(x, w, groups) ? NBX_CONTIGUOUS_FORMAT : format;
}

// Packed filters, and the copy of the input that conv_image describes.
static size_t gpu_scratch(const nbx_conv *p) {
    const conv_image image = conv_image_of(p);
    const int64_t input = p->batch * p->in[0] * p->in[1] * image.width * p->groups * image.channels;
    return conv_filter_bytes(p, &image) + (size_t)input * nbx_dtype_size(p->dtype);
}

static nbx_status infer(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1);
    const bool transposed = arg_bool(c, 6);
    int64_t stride[CONV_DIMS], padding[CONV_DIMS], dilation[CONV_DIMS], more[CONV_DIMS], shape[5], strides[5];
    nbx_status status = check_channels(c, transposed);
    const int dims = x->rank - 2;
    if (!status) status = check_dtypes(c);
    if (!status && arg_tensor(c, 2) && arg_tensor(c, 2)->dtype != x->dtype) {
        c->args[2] = T(do_cast(c->ctx, arg_tensor(c, 2), (nbx_dtype)x->dtype));
        if (!arg_tensor(c, 2)) return c->ctx->status;
    }
    if (!status) status = spatial_list(c, 3, dims, 1, stride);
    if (!status) status = spatial_list(c, 4, dims, 0, padding);
    if (!status) status = spatial_list(c, 5, dims, 1, dilation);
    if (!status) status = spatial_list(c, 7, dims, 0, more);
    if (status) return status;
    shape[0] = x->shape[0];
    shape[1] = transposed ? w->shape[1] * arg_int(c, 8) : w->shape[0];
    for (int i = 0; i < dims; i++) {
        int64_t reach;
        if (__builtin_mul_overflow(dilation[i], w->shape[2 + i] - 1, &reach) || reach > INT64_MAX / 4 || padding[i] > INT64_MAX / 4 ||
            (transposed && stride[i] > INT64_MAX / 4 / (x->shape[2 + i] + 1)))
            return fail_shapes(c, "sizes overflow");
        if (transposed) {
            if (more[i] >= stride[i] && more[i] >= dilation[i])
                return fail_shapes(c, "output_padding must be smaller than stride or dilation");
            shape[2 + i] = (x->shape[2 + i] - 1) * stride[i] - 2 * padding[i] + reach + more[i] + 1;
        } else {
            const int64_t room = x->shape[2 + i] + 2 * padding[i] - reach - 1;
            if (room < 0) return fail_shapes(c, "the kernel is larger than the padded input");
            shape[2 + i] = room / stride[i] + 1;
        }
        const int64_t least = transposed && nbx_dtype_size((nbx_dtype)x->dtype) == 8 ? 1 : 0;  // as ATen: oneDNN allows 0
        if (shape[2 + i] < least) return fail_shapes(c, "the result would have no size");
    }
    const nbx_memory_format format = result_format(x, w, arg_int(c, 8));
    if (format == NBX_CONTIGUOUS_FORMAT) nbx_strides_contiguous(x->rank, shape, strides);
    else nbx_strides_format(format, x->rank, shape, strides);
    if (!out_new(c, 0, (nbx_dtype)x->dtype, x->rank, shape, strides)) return c->ctx->status;
    nbx_conv p;
    nbx_conv_of(c, &p);
    c->scratch_bytes = c->device.type == NBX_CPU ? nbx_conv_scratch(&p, c->ctx->threads) : gpu_scratch(&p);
    return NBX_OK;
}

static void spread_strides(const nbx_tensor *t, int dims, int64_t *strides) {
    strides[0] = t->stride[0], strides[1] = t->stride[1];
    for (int i = 0; i < dims; i++) strides[5 - dims + i] = t->stride[2 + i];
}

// A free depth dim takes the batch, so that small images share a block; rows of a 1 x 1 kernel join.
static void fold(nbx_conv *p) {
    if (p->in[0] == 1 && p->out[0] == 1 && p->kernel[0] == 1 && p->padding[0] == 0) {
        p->in[0] = p->out[0] = p->batch;
        p->in_stride[2] = p->in_stride[0], p->out_stride[2] = p->out_stride[0];
        p->stride[0] = p->batch = 1;
    }
    const bool point = p->kernel[1] == 1 && p->kernel[2] == 1 && p->stride[1] == 1 && p->stride[2] == 1 && p->padding[1] == 0 &&
                       p->padding[2] == 0 && p->in[1] == p->out[1] && p->in[2] == p->out[2];
    if (point && p->in_stride[3] == p->in_stride[4] * p->in[2] && p->out_stride[3] == p->out_stride[4] * p->out[2]) {
        p->in[2] *= p->in[1], p->out[2] *= p->out[1];
        p->in[1] = p->out[1] = 1;
    }
}

void nbx_conv_of(const nbx_op_call *c, nbx_conv *p) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *b = arg_tensor(c, 2), *y = out_get(c, 0);
    const int dims = x->rank - 2;
    memset(p, 0, sizeof *p);
    p->dtype = (nbx_dtype)x->dtype;
    p->batch = x->shape[0];
    p->groups = arg_int(c, 8);
    p->in_channels = x->shape[1] / p->groups;
    p->out_channels = y->shape[1] / p->groups;
    p->transposed = arg_bool(c, 6);
    p->tf32 = p->dtype == NBX_FLOAT32 && c->ctx->allow_tf32;
    for (int d = 0; d < CONV_DIMS; d++)
        p->in[d] = p->out[d] = p->kernel[d] = p->stride[d] = p->dilation[d] = 1;
    for (int i = 0; i < dims; i++) {
        const int d = CONV_DIMS - dims + i;
        const nbx_value *v = c->args;
        p->in[d] = x->shape[2 + i], p->out[d] = y->shape[2 + i], p->kernel[d] = w->shape[2 + i];
        p->stride[d] = v[3].as.ints[v[3].count == 1 ? 0 : i];
        if (!p->transposed && p->out[d] == 1) p->stride[d] = 1;  // not used, and may be as large as it likes
        p->padding[d] = v[4].as.ints[v[4].count == 1 ? 0 : i];
        p->dilation[d] = v[5].as.ints[v[5].count == 1 ? 0 : i];
    }
    spread_strides(x, dims, p->in_stride);
    spread_strides(y, dims, p->out_stride);
    spread_strides(w, dims, p->weight_stride);
    if (p->transposed) {  // weight is [in, out / groups, ...]
        const int64_t t = p->weight_stride[0];
        p->weight_stride[0] = p->weight_stride[1], p->weight_stride[1] = t;
    }
    p->input = x->storage && x->numel ? nbx_data(x) : NULL;
    p->weight = w->storage && w->numel ? nbx_data(w) : NULL;
    p->bias_stride = b ? b->stride[0] : 0;
    p->bias = b && b->storage && b->numel ? nbx_data(b) : NULL;
    p->output = y->storage && y->numel ? nbx_data(y) : NULL;
    p->packed = c->packed;
    p->epilogue = c->epilogue;
    fold(p);
}

static void cost(const nbx_op_call *c, nbx_cost *cost) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1), *y = out_get(c, 0);
    const double size = (double)nbx_dtype_size((nbx_dtype)x->dtype), per = (double)w->numel / (double)(w->shape[0] ? w->shape[0] : 1);
    cost->flops = 2 * per * (double)(arg_bool(c, 6) ? x->numel : y->numel);
    cost->bytes_read = ((double)x->numel + (double)w->numel) * size;
    cost->bytes_written = (double)y->numel * size;
    cost->scratch_bytes = c->scratch_bytes;
}

// -------------------------------------------------------------------------------------------------------- other names
static const int64_t zero = 0;

// ------------------------------------------------------------------------------------------------------ packed weights
static bool describe_packed(const nbx_op_call *c, nbx_packed_form *form) {
    nbx_conv p;
    nbx_conv_of(c, &p);
    form->weight = arg_tensor(c, 1);
    form->bytes = nbx_conv_packed_bytes(&p);
    form->pieces = (int64_t)(form->bytes >> 20);
    if (!p.weight || form->bytes == 0) return false;
    int64_t *at = form->layout;
    *at++ = p.dtype, *at++ = p.groups, *at++ = p.in_channels, *at++ = p.out_channels, *at++ = p.transposed;
    *at++ = p.weight - (const char *)form->weight->storage->data;
    for (int i = 0; i < 5; i++) *at++ = p.weight_stride[i];
    for (int d = 0; d < CONV_DIMS; d++) {
        *at++ = p.kernel[d];
        if (p.transposed) *at++ = p.stride[d], *at++ = p.padding[d], *at++ = p.dilation[d];  // which taps reach which phase
    }
    return true;
}

const nbx_packing nbx_conv_packing = {describe_packed, NBX_CPU_KERNEL(conv_pack)};

// Additions and clampings happen in registers. Other steps take time for themselves, and a pass of their own only costs more where
// the result leaves the caches meanwhile; unless a kernel has its sums in a tile anyway.
static bool carries(const nbx_op_call *c, bool plain) {
    enum { PAST_CACHES = 8 << 20 };
    nbx_conv p;
    nbx_conv_of(c, &p);
    return (plain && p.dtype == NBX_FLOAT32) || nbx_conv_channels_suit(&p) || (int64_t)nbx_tensor_nbytes(out_get(c, 0)) > PAST_CACHES;
}

static nbx_status call_convolution(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *w, nbx_value bias, nbx_value stride,
                                   nbx_value padding, nbx_value dilation, nbx_value groups) {
    return NBX_FORWARD(c, "aten::convolution", T(x), T(w), bias, stride, padding, dilation, B(false), nbx_of_ints(&zero, 1), groups);
}

// _convolution: the same with flags of backends, which mean nothing here.
static nbx_status with_flags(nbx_op_call *c) { return nbx_forward(c, "aten::convolution", 9, c->args); }

// Names whose spatial rank is known take inputs without a batch dim: it is added and removed again.
static nbx_status batched(nbx_op_call *c, int dims, nbx_value stride, nbx_value padding, nbx_value dilation, bool transposed,
                          nbx_value more, nbx_value groups) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1);
    const bool single = x->rank == dims + 1;
    if ((!single && x->rank != dims + 2) || w->rank != dims + 2)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects input of %d or %d dims and weight of %d, found %d and %d", dims + 1,
                             dims + 2, dims + 2, x->rank, w->rank);
    if (single) x = do_unsqueeze(c->ctx, x, 0);
    nbx_tensor *y = NBX_DO(c->ctx, "aten::convolution", T(x), T(w), c->args[2], stride, padding, dilation, B(transposed), more, groups);
    return out_tensor(c, 0, single ? do_squeeze(c->ctx, y, 0) : y);
}

static int dims_of(const nbx_op_call *c) { return *(const int8_t *)c->op->data; }

static nbx_status conv(nbx_op_call *c) {
    if (arg_tensor(c, 2) && arg_tensor(c, 2)->dtype != arg_tensor(c, 0)->dtype) return fail_dtypes(c);
    return batched(c, dims_of(c), c->args[3], c->args[4], c->args[5], false, nbx_of_ints(&zero, 1), c->args[6]);
}

static nbx_status conv_transpose(nbx_op_call *c) {
    return batched(c, dims_of(c), c->args[3], c->args[4], c->args[7], true, c->args[5], c->args[6]);
}

// Padding by name. "same" keeps the size; an odd element goes to the end, which needs a padded copy of the input.
static nbx_status conv_padding(nbx_op_call *c) {
    const int dims = dims_of(c);
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1);
    const char *name = arg_string(c, 4);
    int64_t padding[CONV_DIMS] = {0}, pads[2 * CONV_DIMS] = {0}, stride[CONV_DIMS], dilation[CONV_DIMS];
    if (!strcmp(name, "valid"))
        return batched(c, dims, c->args[3], nbx_of_ints(padding, dims), c->args[5], false, nbx_of_ints(&zero, 1), c->args[6]);
    if (strcmp(name, "same")) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "padding '%s' is neither same nor valid", name);
    nbx_status status = spatial_list(c, 3, dims, 1, stride);
    if (!status) status = spatial_list(c, 5, dims, 1, dilation);
    if (status) return status;
    if (w->rank != dims + 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects weight of %d dims, found %d", dims + 2, w->rank);
    bool uneven = false;
    for (int i = 0; i < dims; i++) {
        if (stride[i] != 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "padding 'same' needs stride 1");
        const int64_t total = dilation[i] * (w->shape[2 + i] - 1);
        padding[i] = total / 2;
        pads[2 * (dims - 1 - i) + 1] = total % 2;
        uneven |= total % 2 != 0;
    }
    if (uneven) {
        x = NBX_DO(c->ctx, "aten::constant_pad_nd", T(x), nbx_of_ints(pads, 2 * dims), I(0));
        if (!x) return c->ctx->status;
        c->args[0] = T(x);
    }
    return batched(c, dims, c->args[3], nbx_of_ints(padding, dims), c->args[5], false, nbx_of_ints(&zero, 1), c->args[6]);
}

// Depthwise names: as many groups as channels. The list kernel_size only repeats the weight's shape.
static nbx_status conv_depthwise(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1);
    const int dims = dims_of(c);
    const bool single = x->rank == dims + 1;
    if (!single && x->rank != dims + 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects %d dims, found %d", dims + 2, x->rank);
    if (single) x = do_unsqueeze(c->ctx, x, 0);
    if (!x) return c->ctx->status;
    nbx_tensor *y = NBX_DO(c->ctx, "aten::convolution", T(x), T(w), c->args[3], c->args[4], c->args[5], c->args[6], B(false),
                           nbx_of_ints(&zero, 1), I(x->shape[1]));
    return out_tensor(c, 0, single ? do_squeeze(c->ctx, y, 0) : y);
}

static nbx_status depthwise_conv2d(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const int64_t channels = x->rank >= 3 ? x->shape[x->rank - 3] : 1;
    return batched(c, 2, c->args[3], c->args[4], c->args[5], false, nbx_of_ints(&zero, 1), I(channels));
}

// Names of vendor backends.
static nbx_status cudnn_convolution(nbx_op_call *c) {
    return call_convolution(c, arg_tensor(c, 0), arg_tensor(c, 1), NIL, c->args[3], c->args[2], c->args[4], c->args[5]);
}

static nbx_status mkldnn_convolution(nbx_op_call *c) {
    return call_convolution(c, arg_tensor(c, 0), arg_tensor(c, 1), c->args[2], c->args[4], c->args[3], c->args[5], c->args[6]);
}

// thnn_ and slow_ names: (input, weight, kernel_size, bias, stride, padding, ...), kernel_size only repeats the weight's shape.
static nbx_status slow(nbx_op_call *c, nbx_value dilation, bool transposed, nbx_value more, bool single_too) {
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1);
    const int dims = dims_of(c);
    int64_t kernel[CONV_DIMS];
    const nbx_status status = spatial_list(c, 2, dims, 1, kernel);
    if (status) return status;
    if (w->rank != dims + 2 || !nbx_shape_equal(dims, kernel, dims, w->shape + 2))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "kernel_size and weight do not fit");
    if (!single_too && x->rank != dims + 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects %d dims, found %d", dims + 2, x->rank);
    const nbx_value bias = c->args[3], stride = c->args[4], padding = c->args[5];
    c->args[2] = bias;
    return batched(c, dims, stride, padding, dilation, transposed, more, I(1));
}
static nbx_status slow_conv(nbx_op_call *c) { return slow(c, nbx_of_ints((const int64_t[]){1}, 1), false, nbx_of_ints(&zero, 1), false); }
static nbx_status slow_conv_dilated(nbx_op_call *c) { return slow(c, c->args[6], false, nbx_of_ints(&zero, 1), true); }
static nbx_status slow_conv_transpose(nbx_op_call *c) { return slow(c, c->args[7], true, c->args[6], true); }

// _convolution_mode(input, weight, bias, stride, padding's name, dilation, groups)
static nbx_status convolution_mode(nbx_op_call *c) {
    static const char *const names[] = {"aten::conv1d.padding", "aten::conv2d.padding", "aten::conv3d.padding"};
    const int dims = arg_tensor(c, 1)->rank - 2;
    if (dims < 1 || dims > CONV_DIMS) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects weight of 3 to 5 dims, found %d", dims + 2);
    return nbx_forward(c, names[dims - 1], 7, c->args);
}

// conv_tbc(input [time, batch, channels], weight [kernel, channels, out], bias, pad): conv1d with its dims in another order.
static nbx_status conv_tbc(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *w = arg_tensor(c, 1);
    if (x->rank != 3 || w->rank != 3) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects input and weight of 3 dims, found %d and %d", x->rank, w->rank);
    if (arg_tensor(c, 2)->rank != 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expects bias of 1 dim, found %d", arg_tensor(c, 2)->rank);
    const nbx_tensor *y = NBX_DO(ctx, "aten::conv1d", T(do_permute(ctx, x, 3, (const int64_t[]){1, 2, 0})),
                                 T(do_permute(ctx, w, 3, (const int64_t[]){2, 1, 0})), c->args[2], I(1), c->args[3]);
    return out_tensor(c, 0, do_contiguous(ctx, do_permute(ctx, y, 3, (const int64_t[]){2, 0, 1})));
}

static const int8_t one = 1, two = 2, three = 3;

const nbx_op nbx_ops_convolution[] = {
    {.name = "aten::convolution", .infer = infer, .cost = cost, .cpu = NBX_CPU_KERNEL(convolution_cpu), .flags = NBX_OP_EXACT_OUT,
     .packing = &nbx_conv_packing, .carries = carries},
    {.name = "aten::_convolution", .composite = with_flags, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::conv1d", .composite = conv, .data = &one, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::conv2d", .composite = conv, .data = &two, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::conv3d", .composite = conv, .data = &three, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::conv1d.padding", .composite = conv_padding, .data = &one, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::conv2d.padding", .composite = conv_padding, .data = &two, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::conv3d.padding", .composite = conv_padding, .data = &three, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::conv_transpose1d", .composite = conv_transpose, .data = &one, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::conv_transpose2d.input", .composite = conv_transpose, .data = &two, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::conv_transpose3d.input", .composite = conv_transpose, .data = &three, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::_conv_depthwise2d", .composite = conv_depthwise, .data = &two, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::conv_depthwise3d", .composite = conv_depthwise, .data = &three, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::thnn_conv2d", .composite = slow_conv, .data = &two, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::_slow_conv2d_forward", .composite = slow_conv, .data = &two, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::slow_conv3d", .composite = slow_conv, .data = &three, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::slow_conv3d_forward", .composite = slow_conv, .data = &three, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::slow_conv_dilated2d", .composite = slow_conv_dilated, .data = &two, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::slow_conv_dilated3d", .composite = slow_conv_dilated, .data = &three, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::slow_conv_transpose2d", .composite = slow_conv_transpose, .data = &two, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::slow_conv_transpose3d", .composite = slow_conv_transpose, .data = &three, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::_convolution_mode", .composite = convolution_mode},
    {.name = "aten::conv_tbc", .composite = conv_tbc, .flags = NBX_OP_EXACT_OUT},
    {.name = "nbx::depthwise_conv2d", .composite = depthwise_conv2d},
    {.name = "aten::cudnn_convolution", .composite = cudnn_convolution, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::mkldnn_convolution", .composite = mkldnn_convolution, .flags = NBX_OP_EXACT_OUT},
    NBX_OPS_END,
};

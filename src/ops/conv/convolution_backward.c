// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
// output_mask) -> gradients of input, weight and bias, those of the mask.
// All are convolutions again. Of the input: the convolution of the other direction with the same weight. Of the weight: the
// input, batch and channels exchanged, convolved with grad_output for a weight, stride and dilation exchanged; a transposed
// convolution exchanges the two tensors as well. Of the bias: a sum.
//   source: aten::convolution_backward
#include <string.h>

#include "ops/compose.h"
#include "ops/conv/conv.h"

typedef struct backward {
    const nbx_tensor *grad, *input, *weight;
    int dims;
    int64_t stride[CONV_DIMS], padding[CONV_DIMS], dilation[CONV_DIMS], groups;
    bool transposed;
} backward;

static nbx_status read_list(nbx_op_call *c, int arg, int dims, int64_t least, int64_t *list) {
    int count;
    const int64_t *given = arg_ints(c, arg, &count);
    for (int i = 0; i < dims && (count == 1 || count == dims); i++) list[i] = given[count == 1 ? 0 : i];
    bool good = count == 1 || count == dims;
    for (int i = 0; i < dims && good; i++) good = list[i] >= least && list[i] < INT32_MAX;
    return good ? NBX_OK : nbx_call_fail(c, NBX_ERROR_ARGUMENT, "%s does not suit %d dims", c->schema->params[arg].name, dims);
}

static nbx_status read(nbx_op_call *c, backward *b) {
    *b = (backward){.grad = arg_tensor(c, 0), .input = arg_tensor(c, 1), .weight = arg_tensor(c, 2), .transposed = arg_bool(c, 7), .groups = arg_int(c, 9)};
    b->dims = b->weight->rank - 2;
    if (b->dims < 1 || b->dims > CONV_DIMS || b->input->rank != b->weight->rank || b->grad->rank != b->weight->rank)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "grad_output, input and weight need 3 to 5 dims each, all the same");
    nbx_status status = read_list(c, 4, b->dims, 1, b->stride);
    if (!status) status = read_list(c, 5, b->dims, 0, b->padding);
    if (!status) status = read_list(c, 6, b->dims, 1, b->dilation);
    if (status) return status;
    const int64_t out = b->transposed ? b->weight->shape[1] * b->groups : b->weight->shape[0], in = b->transposed ? b->weight->shape[0] : b->weight->shape[1] * b->groups;
    if (b->groups < 1 || b->weight->shape[0] % b->groups || b->input->shape[1] != in || b->grad->shape[1] != out || b->input->shape[0] != b->grad->shape[0])
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "the channels of grad_output, input and weight do not fit together");
    return NBX_OK;
}

static nbx_tensor *convolve(nbx_context *ctx, const backward *b, const nbx_tensor *x, const nbx_tensor *w, const int64_t *stride, const int64_t *dilation,
                            bool transposed, const int64_t *more) {
    return NBX_DO(ctx, "aten::convolution", T(x), T(w), NIL, nbx_of_ints(stride, b->dims), nbx_of_ints(b->padding, b->dims), nbx_of_ints(dilation, b->dims),
                  B(transposed), nbx_of_ints(more, b->dims), I(b->groups));
}

static nbx_tensor *of_input(nbx_op_call *c, const backward *b) {
    int64_t more[CONV_DIMS] = {0};
    for (int i = 0; i < b->dims && !b->transposed; i++)
        more[i] = b->input->shape[2 + i] - ((b->grad->shape[2 + i] - 1) * b->stride[i] - 2 * b->padding[i] + b->dilation[i] * (b->weight->shape[2 + i] - 1) + 1);
    for (int i = 0; i < b->dims; i++)
        if (more[i] < 0) more[i] = 0;
    nbx_tensor *y = convolve(c->ctx, b, b->grad, b->weight, b->stride, b->dilation, !b->transposed, more);
    if (!y || nbx_same_shape(y, b->input)) return y;
    nbx_call_fail(c, NBX_ERROR_SHAPE, "grad_output is not of the shape of the convolution's result");
    return NULL;
}

static nbx_tensor *of_weight(nbx_op_call *c, const backward *b) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = b->transposed ? b->grad : b->input, *w = b->transposed ? b->input : b->grad;
    const int64_t batch = x->shape[0], channels = x->shape[1] / b->groups;
    int64_t shape[3 + CONV_DIMS] = {batch, b->groups, channels}, order[3 + CONV_DIMS] = {2, 1, 0};
    for (int i = 0; i < b->dims; i++) shape[3 + i] = x->shape[2 + i], order[3 + i] = 3 + i;
    x = do_permute(ctx, do_reshape(ctx, x, 3 + b->dims, shape), 3 + b->dims, order);  // [channels, groups, batch, ...]
    shape[1] = channels, shape[2] = b->groups * batch;
    x = do_reshape(ctx, x, 2 + b->dims, shape + 1);
    const int64_t none[CONV_DIMS] = {0};
    nbx_tensor *y = convolve(ctx, b, x, do_transpose(ctx, w, 0, 1), b->dilation, b->stride, false, none);
    for (int i = 0; i < b->dims; i++) y = do_slice(ctx, y, 2 + i, 0, b->weight->shape[2 + i]);
    y = do_transpose(ctx, y, 0, 1);
    if (y && !nbx_same_shape(y, b->weight)) {
        nbx_call_fail(c, NBX_ERROR_SHAPE, "grad_output is not of the shape of the convolution's result");
        return NULL;
    }
    return NBX_DO(ctx, "aten::clone", T(y), nbx_of_memory_format(nbx_suggest_memory_format(b->weight)));
}

static nbx_tensor *of_bias(nbx_context *ctx, const backward *b) {
    const int64_t dims[4] = {0, 2, 3, 4};
    return do_sum(ctx, b->grad, 1 + b->dims, dims, false);
}

static nbx_status convolution_backward(nbx_op_call *c) {
    backward b;
    nbx_status status = read(c, &b);
    const nbx_value *mask = &c->args[10];
    for (int k = 0; k < 3 && !status; k++) {
        if (k < mask->count && mask->as.bools[k]) status = out_tensor(c, k, k == 0 ? of_input(c, &b) : k == 1 ? of_weight(c, &b) : of_bias(c->ctx, &b));
        else out_none(c, k);
    }
    return status;
}

const nbx_op nbx_ops_convolution_backward[] = {
    {.name = "aten::convolution_backward", .composite = convolution_backward, .flags = NBX_OP_EXACT_OUT},
    NBX_OPS_END,
};

// torchvision's pooling of regions: roi_align, roi_pool, and the position-sensitive ps_roi_align and ps_roi_pool, where each
// bin reads a channel of its own: c = c_out * height * width of the result.
//   results [k, channels, height, width]; all but roi_align also give int32 places: the largest element's, or the channel's
#include "ops/vision/roi.h"

#include <string.h>

#include "core/tensor.h"
#include "ops/matmul/plain_numbers.h"

static roi_kind kind_of(const nbx_op_call *c) { return (roi_kind)((const roi_form *)c->op->data)->kind; }

void nbx_roi_of(const nbx_op_call *c, nbx_roi *j) {
    const nbx_tensor *x = arg_tensor(c, ROI_INPUT), *rois = arg_tensor(c, ROI_ROIS), *y = out_get(c, 0);
    *j = (nbx_roi){.kind = kind_of(c), .dtype = (nbx_dtype)y->dtype, .images = x->shape[0], .height = x->shape[2], .width = x->shape[3],
                   .regions = rois->shape[0], .channels = y->shape[1], .bins_h = y->shape[2], .bins_w = y->shape[3], .bins = y->shape[2] * y->shape[3]};
    j->scale = in_dtype(arg_float(c, ROI_SCALE), j->dtype);
    if (j->kind == ROI_ALIGN) j->aligned = arg_bool(c, ROI_ALIGNED);
    if (j->kind == ROI_ALIGN || j->kind == ROI_PS_ALIGN) j->ratio = arg_int(c, ROI_RATIO);
    memcpy(j->stride, x->stride, sizeof j->stride);
    memcpy(j->roi_stride, rois->stride, sizeof j->roi_stride);
    if (y->numel == 0) return;
    j->rois = nbx_data(rois), j->output = nbx_data(y);
    if (x->numel) j->input = nbx_data(x);
    if (j->kind != ROI_ALIGN) j->places = nbx_data(out_get(c, 1));
}

static nbx_status infer(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, ROI_INPUT), *rois = arg_tensor(c, ROI_ROIS);
    const int64_t height = arg_int(c, ROI_HEIGHT), width = arg_int(c, ROI_WIDTH);
    const nbx_dtype d = (nbx_dtype)x->dtype;
    const bool sensitive = kind_of(c) >= ROI_PS_ALIGN;
    if (rois->dtype != x->dtype) return nbx_call_fail(c, NBX_ERROR_DTYPE, "input is %s, rois are %s", nbx_dtype_name(d), nbx_dtype_name((nbx_dtype)rois->dtype));
    if (x->rank != 4) return nbx_call_fail(c, NBX_ERROR_SHAPE, "input must have 4 dims, found %d", x->rank);
    if (rois->rank != 2 || rois->shape[1] != 5) return nbx_call_fail(c, NBX_ERROR_SHAPE, "rois must be [k, 5]");
    if (height < 0 || width < 0 || height > INT32_MAX || width > INT32_MAX || (sensitive && (height == 0 || width == 0)))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "bins of %lld by %lld", (long long)height, (long long)width);
    const int64_t bins = height * width;
    if (sensitive && x->shape[1] % bins != 0)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "%lld channels are no multiple of %lld bins", (long long)x->shape[1], (long long)bins);
    const int64_t shape[4] = {rois->shape[0], sensitive ? x->shape[1] / bins : x->shape[1], height, width};
    nbx_tensor *out = out_new(c, 0, d, 4, shape, NULL);
    if (!out) return c->ctx->status;
    if (out->numel && d != NBX_FLOAT32 && d != NBX_FLOAT64 && d != NBX_FLOAT16)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name(d));
    if (kind_of(c) != ROI_ALIGN && !out_new(c, 1, NBX_INT32, 4, shape, NULL)) return c->ctx->status;
    if (kind_of(c) == ROI_ALIGN && c->device.type == NBX_CPU) c->scratch_bytes = (size_t)x->shape[1] * sizeof(double) * (size_t)c->ctx->threads;
    return NBX_OK;
}

static void cost(const nbx_op_call *c, nbx_cost *cost) {
    const nbx_tensor *x = arg_tensor(c, ROI_INPUT), *y = out_get(c, 0);
    const double size = (double)nbx_dtype_size((nbx_dtype)x->dtype), bins = (double)y->shape[2] * (double)y->shape[3];
    const bool align = kind_of(c) == ROI_ALIGN || kind_of(c) == ROI_PS_ALIGN;
    const double ratio = align && arg_int(c, ROI_RATIO) > 0 ? (double)arg_int(c, ROI_RATIO) : 2;
    cost->flops = (double)y->numel * (align ? 8 * ratio * ratio : bins > 0 ? (double)x->shape[2] * (double)x->shape[3] / bins : 0);
    cost->bytes_read = ((double)x->numel + (double)arg_tensor(c, ROI_ROIS)->numel) * size;
    cost->bytes_written = (double)y->numel * (size + (kind_of(c) == ROI_ALIGN ? 0 : 4));
    cost->scratch_bytes = c->scratch_bytes;
}

#define ROI(NAME, KIND)                                                                                                \
    {.name = "torchvision::" NAME, .infer = infer, .cost = cost, .cpu = NBX_CPU_KERNEL_ONE(roi_cpu),                   \
     .data = &(const roi_form){KIND}}

const nbx_op nbx_ops_roi[] = {
    ROI("roi_align", ROI_ALIGN),
    ROI("roi_pool", ROI_POOL),
    ROI("ps_roi_align", ROI_PS_ALIGN),
    ROI("ps_roi_pool", ROI_PS_POOL),
    NBX_OPS_END,
};

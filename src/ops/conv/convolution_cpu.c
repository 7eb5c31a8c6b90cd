// The kernel of all convolutions: chooses among depthwise, channels in lanes, blocked and plain.
#include "cpu/simd.h"
#include "ops/conv/conv_kernels.h"

nbx_status NBX_KERNEL(convolution_cpu)(nbx_op_call *call) {
    nbx_conv p;
    if (out_get(call, 0)->numel == 0) return NBX_OK;
    nbx_conv_of(call, &p);
    const bool lanes = nbx_conv_is_lanes(&p), depthwise = nbx_conv_is_depthwise(&p), channels = !lanes && !depthwise && nbx_conv_is_channels(&p);
    const bool blocked = !channels && !depthwise && nbx_conv_is_blocked(&p);
    const bool reports = channels ? nbx_conv_is_flat(&p) : blocked && p.dtype == NBX_FLOAT32 ? true : (depthwise || blocked) && nbx_conv_reports(&p);
    if (lanes) NBX_KERNEL(conv_depthwise_lanes)(call->pool, &p, call->scratch);
    else if (depthwise) NBX_KERNEL(conv_depthwise)(call->pool, &p, call->scratch);
    else if (channels) NBX_KERNEL(conv_channels)(call->pool, &p, call->scratch, call->ctx->threads);
    else if (blocked) NBX_KERNEL(conv_blocked)(call->pool, &p, call->scratch, call->ctx->threads);
    else NBX_KERNEL(conv_plain)(call->pool, &p);
    if (!lanes && !reports) nbx_epilogue_run_all(p.epilogue, call->pool);
    return NBX_OK;
}

// The kernel of all convolutions: chooses among depthwise, blocked and plain.
#include "cpu/simd.h"
#include "ops/conv/conv_kernels.h"

nbx_status NBX_KERNEL(convolution_cpu)(nbx_op_call *call) {
    nbx_conv p;
    if (out_get(call, 0)->numel == 0) return NBX_OK;
    nbx_conv_of(call, &p);
    if (nbx_conv_is_lanes(&p)) NBX_KERNEL(conv_depthwise_lanes)(call->pool, &p, call->scratch);
    else if (nbx_conv_is_depthwise(&p)) NBX_KERNEL(conv_depthwise)(call->pool, &p, call->scratch);
    else if (nbx_conv_is_blocked(&p)) NBX_KERNEL(conv_blocked)(call->pool, &p, call->scratch, call->ctx->threads);
    else NBX_KERNEL(conv_plain)(call->pool, &p);
    return NBX_OK;
}

// Which elements are not zero: shared by nonzero, masked_select, masked_scatter, where.
#ifndef NBX_OPS_NONZERO_H
#define NBX_OPS_NONZERO_H

#include "cpu/pool.h"
#include "ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

// truth[i] = element i of dense elements is not zero (NaN is not, -0 is). Serial.
void nbx_truth_run(nbx_dtype dtype, const void *elements, int64_t count, uint8_t *truth);
// t on the host and contiguous (t itself if it is so already). NULL: failed.
const nbx_tensor *nbx_on_host(nbx_context *ctx, const nbx_tensor *t);
// Brings a host tensor to where results of c belong.
const nbx_tensor *nbx_from_host(nbx_op_call *c, const nbx_tensor *t);

#ifdef __cplusplus
}
#endif
#endif

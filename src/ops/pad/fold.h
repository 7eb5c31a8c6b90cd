// Patches of images as numbers, for the kernels of both devices.
#ifndef NBX_OPS_FOLD_H
#define NBX_OPS_FOLD_H

#include "ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nbx_patches {
    int64_t kernel[2], dilation[2], padding[2], step[2];
    int64_t channels, size[2], count[2];  // of the image; positions along each dim
} nbx_patches;

nbx_status nbx_im2col_plan(nbx_op_call *c, nbx_patches *p);
nbx_status nbx_col2im_plan(nbx_op_call *c, nbx_patches *p);

#ifdef __cplusplus
}
#endif
#endif

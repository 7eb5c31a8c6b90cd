// Pooling of regions of interest as numbers: what infer checks and the kernels walk.
#ifndef NBX_OPS_ROI_H
#define NBX_OPS_ROI_H

#include "ops/op.h"

typedef enum roi_kind { ROI_ALIGN, ROI_POOL, ROI_PS_ALIGN, ROI_PS_POOL } roi_kind;

typedef struct roi_form {
    int8_t kind;
} roi_form;

// Arguments of all four: input [n, c, h, w], rois [k, 5] (index of the image, x0, y0, x1, y1), the scale of rois to input.
enum { ROI_INPUT, ROI_ROIS, ROI_SCALE, ROI_HEIGHT, ROI_WIDTH, ROI_RATIO, ROI_ALIGNED };

nbx_status roi_cpu(nbx_op_call *c);

#endif

// Pooling of regions of interest as numbers: what infer checks and the kernels of both devices walk.
#ifndef NBX_OPS_ROI_H
#define NBX_OPS_ROI_H

#include "ops/op.h"

typedef enum roi_kind { ROI_ALIGN, ROI_POOL, ROI_PS_ALIGN, ROI_PS_POOL } roi_kind;

typedef struct roi_form {
    int8_t kind;
} roi_form;

// Arguments of all four: input [n, c, h, w], rois [k, 5] (index of the image, x0, y0, x1, y1), the scale of rois to input.
enum { ROI_INPUT, ROI_ROIS, ROI_SCALE, ROI_HEIGHT, ROI_WIDTH, ROI_RATIO, ROI_ALIGNED };

typedef struct nbx_roi {
    roi_kind kind;
    nbx_dtype dtype;
    const char *input, *rois;
    char *output;
    int32_t *places;                   // of all but roi_align
    double scale;
    bool aligned;                      // roi_align: pixels count by their centers
    int64_t ratio;                     // samples of a bin along a dim; not positive: one a pixel
    int64_t images, height, width, stride[4], regions, roi_stride[2];
    int64_t bins_h, bins_w, bins;      // bins of a region
    int64_t channels;                  // of the result
} nbx_roi;

void nbx_roi_of(const nbx_op_call *c, nbx_roi *j);

nbx_status roi_cpu(nbx_op_call *c);

#endif

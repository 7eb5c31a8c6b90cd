// Which of two boxes goes, one source for both devices. Areas and overlaps are rounded to the dtype.
#ifndef NBX_OPS_NMS_H
#define NBX_OPS_NMS_H

#include "ops/op.h"
#include "ops/vision/bilinear.h"

typedef struct nms_box {
    double at[4], area;
} nms_box;

INLINE nms_box nms_box_at(const char *boxes, int64_t i, nbx_dtype d) {
    nms_box b;
    for (int k = 0; k < 4; k++) b.at[k] = load_real(boxes, 4 * i + k, d);
    b.area = in_dtype(in_dtype(b.at[2] - b.at[0], d) * in_dtype(b.at[3] - b.at[1], d), d);
    return b;
}

INLINE double nms_side(double low_a, double low_b, double high_a, double high_b, nbx_dtype d) {
    const double low = low_a < low_b ? low_b : low_a, high = high_b < high_a ? high_b : high_a, x = in_dtype(high - low, d);
    return 0 < x ? x : 0;
}

INLINE bool nms_overlap(const nms_box *a, const nms_box *b, double threshold, nbx_dtype d) {
    const double w = nms_side(a->at[0], b->at[0], a->at[2], b->at[2], d), h = nms_side(a->at[1], b->at[1], a->at[3], b->at[3], d);
    const double both = in_dtype(w * h, d), either = in_dtype(in_dtype(a->area + b->area, d) - both, d);
    return in_dtype(both / either, d) > threshold;
}

// Checks the arguments of a call; *order: indices of the boxes by falling score, *boxes contiguous.
nbx_status nbx_nms_prepare(nbx_op_call *c, const nbx_tensor **boxes, const nbx_tensor **order);

#endif

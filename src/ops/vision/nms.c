// torchvision::nms(dets [n, 4], scores [n], iou_threshold): the boxes that no box of higher score overlaps by more than the
// threshold, by falling score; equal scores keep their order. Areas and overlaps are rounded to the dtype.
#include <string.h>

#include "cpu/pool.h"
#include "ops/compose.h"
#include "ops/vision/bilinear.h"

typedef struct nms_run {
    nbx_dtype dtype;
    double threshold;
    int64_t count;
    const int64_t *order;
    const char *boxes;   // [n, 4]
    double *areas;
    uint8_t *gone;
    int64_t at;          // in order: whose rivals are looked for
} nms_run;

INLINE double side(double low, double high, nbx_dtype d) {
    const double x = in_dtype(high - low, d);
    return 0 < x ? x : 0;
}

INLINE double larger(double a, double b) { return a < b ? b : a; }
INLINE double smaller(double a, double b) { return b < a ? b : a; }

INLINE void suppress(const nms_run *r, int64_t begin, int64_t end, nbx_dtype d) {
    const int64_t i = r->order[r->at];
    double box[4];
    for (int k = 0; k < 4; k++) box[k] = load_real(r->boxes, 4 * i + k, d);
    for (int64_t at = r->at + 1 + begin; at < r->at + 1 + end; at++) {
        const int64_t j = r->order[at];
        if (r->gone[j]) continue;
        const double w = side(larger(box[0], load_real(r->boxes, 4 * j, d)), smaller(box[2], load_real(r->boxes, 4 * j + 2, d)), d);
        const double h = side(larger(box[1], load_real(r->boxes, 4 * j + 1, d)), smaller(box[3], load_real(r->boxes, 4 * j + 3, d)), d);
        const double both = in_dtype(w * h, d), either = in_dtype(in_dtype(r->areas[i] + r->areas[j], d) - both, d);
        if (in_dtype(both / either, d) > r->threshold) r->gone[j] = 1;
    }
}

static void walk(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const nms_run *r = arg;
    if (r->dtype == NBX_FLOAT32) suppress(r, begin, end, NBX_FLOAT32);
    else suppress(r, begin, end, NBX_FLOAT64);
}

static nbx_status check(nbx_op_call *c) {
    const nbx_tensor *boxes = arg_tensor(c, 0), *scores = arg_tensor(c, 1);
    if (boxes->rank != 2 || boxes->shape[1] != 4) return nbx_call_fail(c, NBX_ERROR_SHAPE, "dets must be [n, 4]");
    if (scores->rank != 1 || scores->shape[0] != boxes->shape[0]) return nbx_call_fail(c, NBX_ERROR_SHAPE, "scores must be [n] for dets [n, 4]");
    if (boxes->dtype != scores->dtype) return nbx_call_fail(c, NBX_ERROR_DTYPE, "dets and scores have different dtypes");
    if (boxes->numel == 0 || boxes->dtype == NBX_FLOAT32 || boxes->dtype == NBX_FLOAT64) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name((nbx_dtype)boxes->dtype));
}

static nbx_status nms(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    nbx_status status = check(c);
    if (status != NBX_OK) return status;
    const nbx_tensor *boxes = do_contiguous(ctx, arg_tensor(c, 0)), *scores = arg_tensor(c, 1);
    const int64_t count = scores->numel;
    nms_run r = {.dtype = (nbx_dtype)scores->dtype, .threshold = arg_float(c, 2), .count = count};
    nbx_value sorted[2];
    const nbx_value args[] = {T(scores), B(true), I(0), B(true)};
    status = nbx_do_many(ctx, "aten::sort.stable", 4, args, sorted, 2);
    int64_t kept = 0, *keep = nbx_scope_alloc(ctx, sizeof *keep * (size_t)(count + 1));
    r.areas = nbx_scope_alloc(ctx, sizeof *r.areas * (size_t)(count + 1));
    r.gone = nbx_scope_alloc(ctx, (size_t)count + 1);
    if (status != NBX_OK || !boxes || !keep || !r.areas || !r.gone) return nbx_last_status(ctx);
    if (count) r.order = nbx_data(sorted[1].as.tensor), r.boxes = nbx_data(boxes), memset(r.gone, 0, (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        double box[4];
        for (int k = 0; k < 4; k++) box[k] = load_real(r.boxes, 4 * i + k, r.dtype);
        r.areas[i] = in_dtype(in_dtype(box[2] - box[0], r.dtype) * in_dtype(box[3] - box[1], r.dtype), r.dtype);
    }
    for (r.at = 0; r.at < count; r.at++) {
        if (r.gone[r.order[r.at]]) continue;
        keep[kept++] = r.order[r.at];
        nbx_parallel_for(ctx->pool, count - r.at - 1, 2048, walk, &r);
    }
    nbx_tensor *out = nbx_new(ctx, c->device, NBX_INT64, 1, &kept);
    if (out && kept) memcpy(nbx_data(out), keep, sizeof *keep * (size_t)kept);
    return out_tensor(c, 0, out);
}

const nbx_op nbx_ops_nms[] = {
    {.name = "torchvision::nms", .composite = nms, .flags = NBX_OP_READS_DATA | NBX_OP_ON_HOST},
    NBX_OPS_END,
};

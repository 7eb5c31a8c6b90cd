// torchvision::nms(dets [n, 4], scores [n], iou_threshold): the boxes that no box of higher score overlaps by more than the
// threshold, by falling score; equal scores keep their order.
#include <string.h>

#include "cpu/pool.h"
#include "ops/compose.h"
#include "ops/vision/nms.h"

typedef struct nms_run {
    nbx_dtype dtype;
    double threshold;
    const int64_t *order;
    const char *boxes;  // [n, 4]
    uint8_t *gone;
    int64_t at;         // in order: whose rivals are looked for
} nms_run;

INLINE void suppress(const nms_run *r, int64_t begin, int64_t end, nbx_dtype d) {
    const nms_box box = nms_box_at(r->boxes, r->order[r->at], d);
    for (int64_t at = r->at + 1 + begin; at < r->at + 1 + end; at++) {
        const int64_t j = r->order[at];
        if (r->gone[j]) continue;
        const nms_box rival = nms_box_at(r->boxes, j, d);
        if (nms_overlap(&box, &rival, r->threshold, d)) r->gone[j] = 1;
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

nbx_status nbx_nms_prepare(nbx_op_call *c, const nbx_tensor **boxes, const nbx_tensor **order) {
    nbx_value sorted[2];
    const nbx_value args[] = {c->args[1], B(true), I(0), B(true)};
    nbx_status status = check(c);
    if (status == NBX_OK) status = nbx_do_many(c->ctx, "aten::sort.stable", 4, args, sorted, 2);
    *boxes = status == NBX_OK ? do_contiguous(c->ctx, arg_tensor(c, 0)) : NULL;
    if (*boxes) *order = sorted[1].as.tensor;
    return *boxes ? NBX_OK : c->ctx->status;
}

static nbx_status nms(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *boxes, *order;
    if (nbx_nms_prepare(c, &boxes, &order) != NBX_OK) return ctx->status;
    const int64_t count = order->numel;
    nms_run r = {.dtype = (nbx_dtype)boxes->dtype, .threshold = arg_float(c, 2)};
    int64_t kept = 0, *keep = nbx_scope_alloc(ctx, sizeof *keep * (size_t)(count + 1));
    r.gone = nbx_scope_alloc(ctx, (size_t)count + 1);
    if (!keep || !r.gone) return ctx->status;
    if (count) r.order = nbx_data(order), r.boxes = nbx_data(boxes), memset(r.gone, 0, (size_t)count);
    for (r.at = 0; r.at < count; r.at++) {
        if (r.gone[r.order[r.at]]) continue;
        keep[kept++] = r.order[r.at];
        nbx_parallel_for(ctx->pool, count - r.at - 1, 2048, walk, &r);
    }
    nbx_tensor *out = nbx_new(ctx, c->device, NBX_INT64, 1, &kept);
    if (out && kept) memcpy(nbx_data(out), keep, sizeof *keep * (size_t)kept);
    return out_tensor(c, 0, out);
}

// torchvision::_cuda_version(): what its import asks once more in an exported program; -1 is its answer without CUDA.
static nbx_status cuda_version(nbx_op_call *c) {
    out_value(c, 0, nbx_of_int(-1));
    return NBX_OK;
}

const nbx_op nbx_ops_nms[] = {
    {.name = "torchvision::nms", .composite = nms, .flags = NBX_OP_READS_DATA},
    {.name = "torchvision::_cuda_version", .composite = cuda_version},
    NBX_OPS_END,
};

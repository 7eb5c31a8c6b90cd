// nll_loss on the CPU: one load per item. Sums go by pieces of 4096 items in double, joined in order.
#include <math.h>

#include "cpu/pool.h"
#include "ops/loss/loss.h"

enum { PIECE = 4096 };

typedef struct task {
    const nbx_tensor *x, *target, *weight;
    nbx_tensor *out;
    int64_t classes, class_stride, ignore;
    bool per_item;
    double *sums;        // [pieces][2]: loss, weight
    int bad;             // a target was no class: written by any thread, read at the end
    int64_t bad_target;
} task;

// Offsets of item i in x and target: the item counts through the target's dims, which are x's without the classes.
static void place(const task *t, int64_t i, int64_t *x, int64_t *target) {
    *x = *target = 0;
    for (int d = t->target->rank - 1; d >= 0; d--) {
        const int64_t at = i % t->target->shape[d];
        i /= t->target->shape[d];
        *target += at * t->target->stride[d];
        if (t->x->rank > 1) *x += at * t->x->stride[d == 0 ? 0 : d + 1];
    }
}

static void body(void *arg, int64_t begin, int64_t end, int thread) {
    task *t = arg;
    const nbx_dtype dtype = (nbx_dtype)t->x->dtype;
    const int64_t bytes = (int64_t)nbx_dtype_size(dtype), index_bytes = (int64_t)nbx_dtype_size((nbx_dtype)t->target->dtype);
    (void)thread;
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t last = (piece + 1) * PIECE < t->target->numel ? (piece + 1) * PIECE : t->target->numel;
        double sum = 0.0, weights = 0.0;
        for (int64_t i = piece * PIECE; i < last; i++) {
            int64_t x, target;
            double loss = 0.0;
            place(t, i, &x, &target);
            const int64_t y = loss_index((const char *)nbx_data(t->target) + target * index_bytes, (nbx_dtype)t->target->dtype);
            if (y != t->ignore && (y < 0 || y >= t->classes)) {
                __atomic_store_n(&t->bad_target, y, __ATOMIC_RELAXED);
                __atomic_store_n(&t->bad, 1, __ATOMIC_RELAXED);
            } else if (y != t->ignore) {
                const double w = t->weight ? loss_load((const char *)nbx_data(t->weight) +
                                                           (t->weight->rank ? y * t->weight->stride[0] : 0) * bytes, dtype) : 1.0;
                loss = -loss_load((const char *)nbx_data(t->x) + (x + y * t->class_stride) * bytes, dtype) * w;
                sum += loss, weights += w;
            }
            if (t->per_item) loss_store((char *)nbx_data(t->out) + i * bytes, dtype, loss);
        }
        t->sums[2 * piece] = sum, t->sums[2 * piece + 1] = weights;
    }
}

nbx_status nll_loss_cpu(nbx_op_call *c) {
    task t = {.x = arg_tensor(c, 0), .target = arg_tensor(c, 1), .weight = arg_tensor(c, 2), .out = out_get(c, 0), .sums = c->scratch};
    const int64_t reduction = arg_int(c, 3), pieces = (t.target->numel + PIECE - 1) / PIECE;
    const int class_dim = t.x->rank > 1 ? 1 : 0;
    const nbx_dtype dtype = (nbx_dtype)t.x->dtype;
    t.ignore = arg_int(c, 4);
    t.classes = t.x->shape[class_dim];
    t.class_stride = t.x->stride[class_dim];
    t.per_item = reduction == LOSS_NONE;
    nbx_parallel_for(c->pool, pieces, 1, body, &t);
    if (t.bad) return nbx_call_fail(c, NBX_ERROR_INDEX, "target %lld is out of bounds", (long long)t.bad_target);
    double sum = 0.0, weights = 0.0;
    for (int64_t i = 0; i < pieces; i++) sum += t.sums[2 * i], weights += t.sums[2 * i + 1];
    if (!t.per_item) loss_store(nbx_data(t.out), dtype, reduction == LOSS_MEAN ? sum / weights : sum);
    loss_store(nbx_data(out_get(c, 1)), dtype, t.per_item && t.x->rank > 1 ? 0.0 : weights);
    return NBX_OK;
}

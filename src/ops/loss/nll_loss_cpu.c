// nll_loss on the CPU: one load per item. Sums go by pieces of 4096 items in double, joined in order; those of halves in halves,
// as ATen keeps them: in a cascade of eight levels, each of which takes up what the one below has after so many items.
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

// The class of item i: -1 for one that is ignored, or for no class, which is noted.
static int64_t class_of(task *t, int64_t target) {
    const nbx_dtype d = (nbx_dtype)t->target->dtype;
    const int64_t y = loss_index((const char *)nbx_data(t->target) + target * (int64_t)nbx_dtype_size(d), d);
    if (y == t->ignore) return -1;
    if (y >= 0 && y < t->classes) return y;
    __atomic_store_n(&t->bad_target, y, __ATOMIC_RELAXED);
    __atomic_store_n(&t->bad, 1, __ATOMIC_RELAXED);
    return -1;
}

static double weight_of(const task *t, int64_t y) {
    const nbx_dtype d = (nbx_dtype)t->x->dtype;
    if (!t->weight) return 1.0;
    return loss_load((const char *)nbx_data(t->weight) + (t->weight->rank ? y * t->weight->stride[0] : 0) * (int64_t)nbx_dtype_size(d), d);
}

static double score_of(const task *t, int64_t x, int64_t y) {
    const nbx_dtype d = (nbx_dtype)t->x->dtype;
    return loss_load((const char *)nbx_data(t->x) + (x + y * t->class_stride) * (int64_t)nbx_dtype_size(d), d);
}

static void body(void *arg, int64_t begin, int64_t end, int thread) {
    task *t = arg;
    const nbx_dtype dtype = (nbx_dtype)t->x->dtype;
    const int64_t bytes = (int64_t)nbx_dtype_size(dtype);
    (void)thread;
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t last = (piece + 1) * PIECE < t->target->numel ? (piece + 1) * PIECE : t->target->numel;
        double sum = 0.0, weights = 0.0;
        for (int64_t i = piece * PIECE; i < last; i++) {
            int64_t x, target;
            double loss = 0.0;
            place(t, i, &x, &target);
            const int64_t y = class_of(t, target);
            if (y >= 0) {
                const double w = weight_of(t, y);
                loss = -score_of(t, x, y) * w;
                sum += loss, weights += w;
            }
            if (t->per_item) loss_store((char *)nbx_data(t->out) + i * bytes, dtype, loss);
        }
        t->sums[2 * piece] = sum, t->sums[2 * piece + 1] = weights;
    }
}

enum { LEVELS = 8 };

static double rounded(nbx_dtype d, double x) {
    _Alignas(8) char element[8];
    loss_store(element, d, x);
    return loss_load(element, d);
}

static double add_up(nbx_dtype d, const double *levels) {
    double sum = 0.0;
    for (int i = 0; i < LEVELS; i++) sum = rounded(d, sum + levels[i]);
    return sum;
}

// The sums of halves: loss and weights.
static void cascade(task *t, double *loss, double *weights) {
    const nbx_dtype d = (nbx_dtype)t->x->dtype;
    double losses[LEVELS] = {0}, used[LEVELS] = {0};
    int64_t items = 0;
    int log2 = 1;
    while (log2 < 62 && (int64_t)1 << log2 < t->target->numel) log2++;
    const int power = log2 / LEVELS > 4 ? log2 / LEVELS : 4;
    for (int64_t i = 0; i < t->target->numel; i++) {
        int64_t x, target;
        place(t, i, &x, &target);
        const int64_t y = class_of(t, target);
        if (y < 0) continue;
        const double w = weight_of(t, y);
        losses[0] = rounded(d, losses[0] - rounded(d, score_of(t, x, y) * w));
        used[0] = rounded(d, used[0] + w);
        items++;
        for (int level = 0; level + 1 < LEVELS; level++) {
            if ((uint64_t)i & (((uint64_t)1 << power) - 1) << (level * power)) break;
            losses[level + 1] = rounded(d, losses[level + 1] + losses[level]);
            used[level + 1] = rounded(d, used[level + 1] + used[level]);
            losses[level] = used[level] = 0.0;
        }
    }
    *loss = add_up(d, losses);
    *weights = t->weight ? add_up(d, used) : rounded(d, (double)items);
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
    const bool half = dtype == NBX_FLOAT16 || dtype == NBX_BFLOAT16;
    double sum = 0.0, weights = 0.0;
    if (half && !t.per_item) cascade(&t, &sum, &weights);
    else nbx_parallel_for(c->pool, pieces, 1, body, &t);
    if (t.bad) return nbx_call_fail(c, NBX_ERROR_INDEX, "target %lld is out of bounds", (long long)t.bad_target);
    for (int64_t i = 0; !(half && !t.per_item) && i < pieces; i++) sum += t.sums[2 * i], weights += t.sums[2 * i + 1];
    if (!t.per_item) loss_store(nbx_data(t.out), dtype, reduction == LOSS_MEAN ? sum / weights : sum);
    loss_store(nbx_data(out_get(c, 1)), dtype, t.per_item && t.x->rank > 1 ? 0.0 : weights);
    return NBX_OK;
}

// Margin losses and ctc_loss on the CPU, in double; items in order.
#include <math.h>

#include "cpu/pool.h"
#include "ops/loss/loss.h"

// ------------------------------------------------------------------------------------------------------- margin losses
typedef struct scores {
    const nbx_tensor *x, *target;
    int64_t items, classes, item_stride, class_stride;
} scores;

static scores scores_of(const nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    scores s = {x, arg_tensor(c, 1), 1, 1, 0, 0};
    if (x->rank == 2) s.items = x->shape[0], s.item_stride = x->stride[0];
    if (x->rank >= 1) s.classes = x->shape[x->rank - 1], s.class_stride = x->stride[x->rank - 1];
    return s;
}

static double score(const scores *s, int64_t item, int64_t class) {
    const nbx_dtype dtype = (nbx_dtype)s->x->dtype;
    const int64_t at = item * s->item_stride + class * s->class_stride;
    return loss_load((const char *)nbx_data(s->x) + at * (int64_t)nbx_dtype_size(dtype), dtype);
}

// Label k of an item; with one label per item, k is 0.
static int64_t label(const scores *s, int64_t item, int64_t k) {
    const nbx_tensor *t = s->target;
    const int64_t at = t->rank == 2 ? item * t->stride[0] + k * t->stride[1] : t->rank == 1 ? (item + k) * t->stride[0] : 0;
    return ((const int64_t *)nbx_data(t))[at];
}

static nbx_status give(nbx_op_call *c, const double *losses, int64_t items, int64_t reduction) {
    const nbx_tensor *out = out_get(c, 0);
    const nbx_dtype dtype = (nbx_dtype)out->dtype;
    double sum = 0.0;
    for (int64_t i = 0; i < items; i++) {
        sum += losses[i];
        if (reduction == LOSS_NONE) loss_store((char *)nbx_data(out) + i * (int64_t)nbx_dtype_size(dtype), dtype, losses[i]);
    }
    if (reduction != LOSS_NONE) loss_store(nbx_data(out), dtype, reduction == LOSS_MEAN ? sum / (double)items : sum);
    return NBX_OK;
}

nbx_status multi_margin_loss_cpu(nbx_op_call *c) {
    const scores s = scores_of(c);
    const nbx_tensor *weight = arg_tensor(c, 4);
    const double p = nbx_scalar_to_double(&c->args[2]), margin = nbx_scalar_to_double(&c->args[3]);
    double *losses = c->scratch;
    for (int64_t i = 0; i < s.items; i++) {
        const int64_t y = label(&s, i, 0);
        if (y < 0 || y >= s.classes) return nbx_call_fail(c, NBX_ERROR_INDEX, "target %lld is out of bounds", (long long)y);
        const double own = score(&s, i, y);
        const nbx_dtype dtype = (nbx_dtype)s.x->dtype;
        const double w = weight ? loss_load((const char *)nbx_data(weight) + (weight->rank ? y * weight->stride[0] : 0) *
                                                                              (int64_t)nbx_dtype_size(dtype), dtype) : 1.0;
        double sum = 0.0;
        for (int64_t k = 0; k < s.classes; k++) {
            const double z = margin - own + score(&s, i, k);
            if (k == y || !(z > 0.0)) continue;
            sum += (p == 1.0 ? z : z * z) * w;
        }
        losses[i] = sum / (double)s.classes;
    }
    return give(c, losses, s.items, arg_int(c, 5));
}

static bool is_label(const scores *s, int64_t item, int64_t class, int64_t labels) {
    for (int64_t k = 0; k < labels; k++)
        if (label(s, item, k) == class) return true;
    return false;
}

nbx_status multilabel_margin_loss_cpu(nbx_op_call *c) {
    const scores s = scores_of(c);
    double *losses = c->scratch;
    for (int64_t i = 0; i < s.items; i++) {
        int64_t labels = 0;
        for (int64_t k = 0; k < s.classes; k++) {
            const int64_t y = label(&s, i, k);
            if (y < -1 || y >= s.classes) return nbx_call_fail(c, NBX_ERROR_INDEX, "target %lld is out of range", (long long)y);
        }
        while (labels < s.classes && label(&s, i, labels) >= 0) labels++;
        double sum = 0.0;
        for (int64_t k = 0; k < s.classes; k++) {
            if (is_label(&s, i, k, labels)) continue;
            const double other = score(&s, i, k);
            for (int64_t j = 0; j < labels; j++) {
                const double z = 1.0 - score(&s, i, label(&s, i, j)) + other;
                if (z > 0.0) sum += z;
            }
        }
        losses[i] = sum / (double)s.classes;
    }
    return give(c, losses, s.items, arg_int(c, 2));
}

// ------------------------------------------------------------------------------------------------------------------ ctc
typedef struct sequence {
    const nbx_tensor *log_probs, *targets;
    int64_t item, first;  // number of the sequence, place of its first target
    int64_t input_length, target_length, blank;
    char *alpha;          // NULL, or where the forward variables of time 0 go, dense
    int64_t alpha_width;  // of a time
} sequence;

static double log_prob(const sequence *s, int64_t time, int64_t class) {
    const nbx_tensor *x = s->log_probs;
    const int64_t at = time * x->stride[0] + (x->rank == 3 ? s->item * x->stride[1] : 0) + class * x->stride[x->rank - 1];
    return loss_load((const char *)nbx_data(x) + at * (int64_t)nbx_dtype_size((nbx_dtype)x->dtype), (nbx_dtype)x->dtype);
}

// Symbol k of the targets with a blank before, between and after them.
static int64_t symbol(const sequence *s, int64_t k) {
    if (k % 2 == 0) return s->blank;
    const nbx_tensor *t = s->targets;
    const int64_t at = t->rank == 2 ? s->item * t->stride[0] + k / 2 * t->stride[1] : (s->first + k / 2) * t->stride[0];
    return loss_index((const char *)nbx_data(t) + at * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype), (nbx_dtype)t->dtype);
}

static double log_sum(double a, double b, double c) {
    const double most = fmax(fmax(a, b), c);
    if (most == -(double)INFINITY) return a + b + c;  // NaN if one is
    return log(exp(a - most) + exp(b - most) + exp(c - most)) + most;
}

static void keep_alpha(const sequence *s, int64_t time, const double *alpha, int64_t symbols) {
    const nbx_dtype d = (nbx_dtype)s->log_probs->dtype;
    char *to = s->alpha + time * s->alpha_width * (int64_t)nbx_dtype_size(d);
    for (int64_t k = 0; k < s->alpha_width; k++)
        loss_store(to + k * (int64_t)nbx_dtype_size(d), d, k < symbols ? alpha[k] : -(double)INFINITY);
}

// Forward variables of the last two times: before and after alternate.
static double sequence_loss(const sequence *s, double *alpha) {
    const int64_t symbols = 2 * s->target_length + 1;
    for (int64_t time = 0; s->alpha && time < s->log_probs->shape[0]; time++) keep_alpha(s, time, NULL, 0);
    double *before = alpha, *after = alpha + symbols;
    if (s->input_length == 0) return s->target_length == 0 ? 0.0 : (double)INFINITY;
    for (int64_t k = 0; k < symbols; k++) before[k] = k < 2 ? log_prob(s, 0, symbol(s, k)) : -(double)INFINITY;
    if (s->alpha) keep_alpha(s, 0, before, symbols);
    for (int64_t time = 1; time < s->input_length; time++) {
        for (int64_t k = 0; k < symbols; k++) {
            const bool skips = k >= 2 && symbol(s, k) != symbol(s, k - 2);
            after[k] = log_sum(before[k], k >= 1 ? before[k - 1] : -(double)INFINITY, skips ? before[k - 2] : -(double)INFINITY) +
                       log_prob(s, time, symbol(s, k));
        }
        if (s->alpha) keep_alpha(s, time, after, symbols);
        double *swap = before;
        before = after, after = swap;
    }
    return -log_sum(before[symbols - 1], symbols > 1 ? before[symbols - 2] : -(double)INFINITY, -(double)INFINITY);
}

nbx_status ctc_loss_cpu(nbx_op_call *c) {
    int batch;
    const int64_t *input_lengths = arg_ints(c, 2, &batch), *target_lengths = arg_ints(c, 3, &batch);
    const bool forward = c->out_count > 1;  // _ctc_loss: the sequences' losses as they are, and the forward variables
    const int64_t reduction = forward ? LOSS_NONE : arg_int(c, 5), classes = arg_tensor(c, 0)->shape[arg_tensor(c, 0)->rank - 1];
    sequence s = {.log_probs = arg_tensor(c, 0), .targets = arg_tensor(c, 1), .blank = arg_int(c, 4)};
    double *losses = c->scratch, *alpha = losses + batch;
    for (int i = 0; i < batch; i++) {
        s.item = i, s.input_length = input_lengths[i], s.target_length = target_lengths[i];
        for (int64_t k = 1; k < 2 * s.target_length; k += 2) {
            const int64_t y = symbol(&s, k);
            if (y < 0 || y >= classes) return nbx_call_fail(c, NBX_ERROR_INDEX, "target %lld is no label", (long long)y);
        }
        if (forward) {
            const nbx_tensor *kept = out_get(c, 1);
            s.alpha_width = kept->shape[kept->rank - 1];
            s.alpha = (char *)nbx_data(kept) + i * s.log_probs->shape[0] * s.alpha_width * (int64_t)nbx_dtype_size((nbx_dtype)kept->dtype);
        }
        losses[i] = sequence_loss(&s, alpha);
        if (!forward && arg_bool(c, 6) && isinf(losses[i])) losses[i] = 0.0;
        s.first += s.target_length;
        if (reduction == LOSS_MEAN) losses[i] /= (double)(s.target_length > 1 ? s.target_length : 1);
    }
    return give(c, losses, batch, reduction);
}

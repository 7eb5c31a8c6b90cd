// Losses of class scores: nll_loss picks -x[target] weight[target] per item, cross_entropy_loss does so after log_softmax.
//   x [c], [n, c] or [n, c, ...] floating point; target class numbers [n, ...], or probabilities of x's shape
//   weight [c]; the mean divides by the sum of the weights that were used; items whose target is ignore_index count nothing
//   source: aten::nll_loss_forward, nll_loss2d_forward, nll_loss_nd, cross_entropy_loss
#include "ops/compose.h"
#include "ops/loss/loss.h"
#include "ops/reduce/reduce.h"

static nbx_status fail_shapes(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *target) {
    char want[NBX_SHAPE_TEXT], found[NBX_SHAPE_TEXT];
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "input %s and target %s do not fit", nbx_shape_text(x->rank, x->shape, want, sizeof want),
                         nbx_shape_text(target->rank, target->shape, found, sizeof found));
}

static nbx_status check(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *target, const nbx_tensor *weight, int class_dim) {
    const nbx_dtype d = (nbx_dtype)x->dtype;
    if (!nbx_dtype_is_float(d) || nbx_dtype_is_float8(d)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name(d));
    if (target->dtype != NBX_INT64 && target->dtype != NBX_UINT8)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "expected an int64 target, found %s", nbx_dtype_name((nbx_dtype)target->dtype));
    if (weight && (weight->rank > 1 || weight->numel != x->shape[class_dim]))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "weight should be defined for all %lld classes", (long long)x->shape[class_dim]);
    if (weight && weight->dtype != x->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "expected weights of dtype %s, found %s", nbx_dtype_name(d),
                             nbx_dtype_name((nbx_dtype)weight->dtype));
    return NBX_OK;
}

// Results: the loss (of every item when not reduced), and the sum of the weights. Pieces of 4096 items have sums of their own.
static nbx_status describe(nbx_op_call *c, bool per_item) {
    const nbx_tensor *x = arg_tensor(c, 0), *target = arg_tensor(c, 1);
    nbx_status status = nbx_call_need_target(c, 0, (nbx_dtype)x->dtype);
    if (status == NBX_OK) status = nbx_call_need_target(c, 1, (nbx_dtype)x->dtype);
    if (status != NBX_OK) return status;
    c->scratch_bytes = (size_t)(target->numel / 4096 + 1) * 16;
    if (!out_new(c, 0, (nbx_dtype)x->dtype, per_item ? target->rank : 0, target->shape, NULL)) return nbx_last_status(c->ctx);
    return out_new(c, 1, (nbx_dtype)x->dtype, 0, NULL, NULL) ? NBX_OK : nbx_last_status(c->ctx);
}

static nbx_status infer_forward(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *target = arg_tensor(c, 1);
    if (x->rank < 1 || x->rank > 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected an input of 1 or 2 dims, found %d", x->rank);
    if (target->rank > 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected a target of 0 or 1 dims, found %d", target->rank);
    if (x->rank == 1 ? target->numel != 1 : target->rank != 1 || target->shape[0] != x->shape[0]) return fail_shapes(c, x, target);
    const nbx_status status = check(c, x, target, arg_tensor(c, 2), x->rank - 1);
    return status == NBX_OK ? describe(c, arg_int(c, 3) == LOSS_NONE && x->rank == 2) : status;
}

static nbx_status infer_forward_2d(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *target = arg_tensor(c, 1);
    if (target->rank != 3 || x->rank != 4) return fail_shapes(c, x, target);
    if (x->shape[0] != target->shape[0] || x->shape[2] != target->shape[1] || x->shape[3] != target->shape[2])
        return fail_shapes(c, x, target);
    const nbx_status status = check(c, x, target, arg_tensor(c, 2), 1);
    return status == NBX_OK ? describe(c, arg_int(c, 3) == LOSS_NONE) : status;
}

static nbx_status compose_nll(nbx_op_call *c) {
    return out_tensor(c, 0, NBX_DO(c->ctx, "aten::nll_loss_forward", c->args[0], c->args[1], c->args[2], c->args[3], c->args[4]));
}
static nbx_status compose_nll_2d(nbx_op_call *c) {
    return out_tensor(c, 0, NBX_DO(c->ctx, "aten::nll_loss2d_forward", c->args[0], c->args[1], c->args[2], c->args[3], c->args[4]));
}

// [n, c, ...] as [n, c, 1, rest], so that the image form does it.
static nbx_tensor *nll_of_any_rank(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *target, nbx_value weight, nbx_value reduction,
                                   nbx_value ignore) {
    nbx_context *ctx = c->ctx;
    if (!x || !target) return NULL;
    if (x->rank < 1) {
        nbx_call_fail(c, NBX_ERROR_SHAPE, "expected at least one dim");
        return NULL;
    }
    if (x->rank != 1 && (target->rank < 1 || target->shape[0] != x->shape[0])) {
        fail_shapes(c, x, target);
        return NULL;
    }
    if (x->rank <= 2) return NBX_DO(ctx, "aten::nll_loss_forward", T(x), T(target), weight, reduction, ignore);
    if (x->rank == 4) return NBX_DO(ctx, "aten::nll_loss2d_forward", T(x), T(target), weight, reduction, ignore);
    if (target->rank != x->rank - 1 || !nbx_shape_equal(x->rank - 2, x->shape + 2, target->rank - 1, target->shape + 1)) {
        fail_shapes(c, x, target);
        return NULL;
    }
    int64_t rest = 1;
    for (int d = 2; d < x->rank; d++) rest *= x->shape[d];
    const int64_t images[4] = {x->shape[0], x->shape[1], 1, rest}, targets[3] = {x->shape[0], 1, rest};
    const nbx_tensor *loss = NBX_DO(ctx, "aten::nll_loss2d_forward", T(do_reshape(ctx, x, 4, images)),
                                    T(do_reshape(ctx, target, 3, targets)), weight, reduction, ignore);
    return reduction.as.integer == LOSS_NONE ? do_reshape(ctx, loss, target->rank, target->shape) : (nbx_tensor *)loss;
}

static nbx_status compose_nll_nd(nbx_op_call *c) {
    return out_tensor(c, 0, nll_of_any_rank(c, arg_tensor(c, 0), arg_tensor(c, 1), c->args[2], c->args[3], c->args[4]));
}

// --------------------------------------------------------------------------------------------------------- cross entropy
// Weights shaped to meet the classes of a tensor of some rank.
static nbx_tensor *broadcast_weight(nbx_context *ctx, const nbx_tensor *weight, int rank) {
    int64_t shape[NBX_MAX_RANK];
    if (rank <= 1) return (nbx_tensor *)weight;
    for (int d = 0; d < rank; d++) shape[d] = 1;
    shape[1] = weight->numel;
    return do_reshape(ctx, weight, rank, shape);
}

static nbx_tensor *negative(nbx_context *ctx, const nbx_tensor *t) { return do_unary(ctx, "aten::neg", t); }
static nbx_tensor *sum_all(nbx_context *ctx, const nbx_tensor *t) { return NBX_DO(ctx, "aten::sum", T(t)); }

// -sum(x target weight) over the classes, or over all and divided by the number of items.
static nbx_tensor *of_probabilities(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *target, const nbx_tensor *weight,
                                    int64_t class_dim, double smoothing) {
    nbx_context *ctx = c->ctx;
    const int64_t reduction = arg_int(c, 3), classes = x->shape[class_dim];
    if (!nbx_dtype_is_float((nbx_dtype)target->dtype)) {
        nbx_call_fail(c, NBX_ERROR_DTYPE, "class probabilities need a floating point dtype, found %s", nbx_dtype_name((nbx_dtype)target->dtype));
        return NULL;
    }
    if (arg_int(c, 4) >= 0) {
        nbx_call_fail(c, NBX_ERROR_ARGUMENT, "ignore_index is not supported for class probabilities");
        return NULL;
    }
    if (smoothing > 0)
        target = NBX_DO(ctx, "aten::add.Scalar", T(NBX_DO(ctx, "aten::mul.Scalar", T(target), F(1.0 - smoothing))),
                        F(smoothing / (double)classes));
    const nbx_tensor *product = do_mul(ctx, x, target);
    if (weight) product = do_mul(ctx, product, broadcast_weight(ctx, weight, x->rank));
    if (reduction == LOSS_NONE) return negative(ctx, do_sum(ctx, product, 1, &class_dim, false));
    const nbx_tensor *sum = negative(ctx, sum_all(ctx, product));
    if (reduction == LOSS_SUM) return (nbx_tensor *)sum;
    const double items = (double)(classes ? x->numel / classes : 0);
    return NBX_DO(ctx, "aten::div.Scalar", T(sum), F(items));
}

// The part of label smoothing: -sum over all classes, of the items that count.
static nbx_tensor *smooth_part(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *target, const nbx_tensor *weight, int64_t class_dim) {
    nbx_context *ctx = c->ctx;
    const int64_t reduction = arg_int(c, 3);
    const nbx_tensor *weighted = weight ? do_mul(ctx, x, broadcast_weight(ctx, weight, x->rank)) : x;
    const nbx_tensor *loss = negative(ctx, do_sum(ctx, weighted, 1, &class_dim, false));
    const nbx_tensor *ignored = NBX_DO(ctx, "aten::eq.Scalar", T(target), c->args[4]);
    loss = NBX_DO(ctx, "aten::masked_fill.Scalar", T(loss), T(ignored), I(0));
    if (reduction == LOSS_NONE) return (nbx_tensor *)loss;
    const nbx_tensor *sum = sum_all(ctx, loss), *count;
    if (reduction == LOSS_SUM) return (nbx_tensor *)sum;
    if (weight) {
        const int64_t flat = -1;
        const nbx_tensor *safe = NBX_DO(ctx, "aten::masked_fill.Scalar", T(target), T(ignored), I(0));
        const nbx_tensor *used = NBX_DO(ctx, "aten::index_select", T(weight), I(0), T(do_reshape(ctx, safe, 1, &flat)));
        count = sum_all(ctx, NBX_DO(ctx, "aten::masked_fill.Scalar", T(used), T(do_reshape(ctx, ignored, 1, &flat)), I(0)));
    } else {
        count = sum_all(ctx, do_unary(ctx, "aten::logical_not", ignored));
    }
    return do_div(ctx, sum, count);
}

static nbx_status compose_cross_entropy(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *target = arg_tensor(c, 1), *weight = arg_tensor(c, 2);
    const nbx_dtype dtype = (nbx_dtype)x->dtype;
    const double smoothing = arg_float(c, 5);
    const int64_t class_dim = x->rank == 1 ? 0 : 1;
    if (x->rank < 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected at least one dim");
    if (!nbx_dtype_is_float(dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name(dtype));
    if (weight && (weight->rank != 1 || weight->numel != x->shape[class_dim]))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "weight should be defined for all %lld classes", (long long)x->shape[class_dim]);
    const bool probabilities = nbx_same_shape(x, target);
    if ((probabilities || smoothing > 0) && (arg_int(c, 3) < LOSS_NONE || arg_int(c, 3) > LOSS_SUM))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "reduction %lld is not 0, 1 or 2", (long long)arg_int(c, 3));
    if (!probabilities && smoothing > 1.0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "label_smoothing is above 1: %g", smoothing);
    const nbx_tensor *logs = NBX_DO(ctx, "aten::log_softmax.int", T(x), I(class_dim), nbx_of_dtype(dtype)), *loss;
    if (!logs) return nbx_last_status(ctx);
    if (probabilities) {
        loss = of_probabilities(c, logs, target, weight, class_dim, smoothing);
    } else {
        loss = nll_of_any_rank(c, logs, target, T_OR_NONE(weight), c->args[3], c->args[4]);
        if (smoothing > 0 && loss) {
            const double share = smoothing / (double)x->shape[class_dim];
            const nbx_tensor *smooth = NBX_DO(ctx, "aten::mul.Scalar", T(smooth_part(c, logs, target, weight, class_dim)), F(share));
            loss = do_add(ctx, NBX_DO(ctx, "aten::mul.Scalar", T(loss), F(1.0 - smoothing)), smooth);
        }
    }
    return out_tensor(c, 0, loss);
}

const nbx_op nbx_ops_cross_entropy[] = {
    {.name = "aten::nll_loss_forward", .infer = infer_forward, .cpu = NBX_CPU_KERNEL_ONE(nll_loss_cpu), .flags = NBX_OP_EXACT_DTYPE},
    {.name = "aten::nll_loss2d_forward", .infer = infer_forward_2d, .cpu = NBX_CPU_KERNEL_ONE(nll_loss_cpu), .flags = NBX_OP_EXACT_DTYPE},
    {.name = "aten::nll_loss", .composite = compose_nll, .flags = NBX_OP_EXACT_DTYPE},
    {.name = "aten::nll_loss2d", .composite = compose_nll_2d, .flags = NBX_OP_EXACT_DTYPE},
    {.name = "aten::nll_loss_nd", .composite = compose_nll_nd},
    {.name = "aten::cross_entropy_loss", .composite = compose_cross_entropy},
    NBX_OPS_END,
};

// Losses made of elementwise operators and a reduction, in ATen's formulas: as there, float16 and bfloat16 are rounded by
// every operator of the formula, and before the reduction.
//   reduction: 0 the loss of every element, 1 their mean, 2 their sum
#include "ops/loss/loss.h"

#include <math.h>

#include "ops/compose.h"

static nbx_tensor *wide(nbx_context *ctx, const nbx_tensor *t) {
    return t && (t->dtype == NBX_FLOAT16 || t->dtype == NBX_BFLOAT16) ? do_cast(ctx, t, NBX_FLOAT32) : (nbx_tensor *)t;
}

// A wider out= is what the mean and the sum are computed in.
static const nbx_tensor *for_target(nbx_op_call *c, const nbx_tensor *losses, int64_t reduction) {
    const nbx_tensor *target = nbx_call_target(c, 0);
    const bool wider = target && losses && reduction != LOSS_NONE && nbx_dtype_is_float((nbx_dtype)target->dtype) &&
                       nbx_dtype_is_float((nbx_dtype)losses->dtype) && nbx_dtype_size((nbx_dtype)target->dtype) > nbx_dtype_size((nbx_dtype)losses->dtype);
    return wider ? do_cast(c->ctx, losses, (nbx_dtype)target->dtype) : losses;
}

static nbx_tensor *reduce_losses(nbx_op_call *c, const nbx_tensor *losses, int64_t reduction) {
    if (reduction == LOSS_MEAN) return NBX_DO(c->ctx, "aten::mean", T(losses));
    if (reduction == LOSS_SUM) return NBX_DO(c->ctx, "aten::sum", T(losses));
    return (nbx_tensor *)losses;
}

static nbx_status finish(nbx_op_call *c, const nbx_tensor *losses, int64_t reduction, nbx_dtype dtype) {
    return out_tensor(c, 0, reduce_losses(c, for_target(c, do_cast(c->ctx, losses, dtype), reduction), reduction));
}

// dtype of the result of two arguments, by promotion.
static nbx_dtype common_dtype(const nbx_tensor *a, const nbx_tensor *b) {
    nbx_promotion p;
    nbx_promotion_start(&p);
    nbx_promotion_tensor(&p, a);
    nbx_promotion_tensor(&p, b);
    return nbx_promotion_result(&p);
}

// ---- small names for the formulas below
static nbx_tensor *add_number(nbx_context *ctx, const nbx_tensor *t, double x) { return NBX_DO(ctx, "aten::add.Scalar", T(t), F(x)); }
static nbx_tensor *times(nbx_context *ctx, const nbx_tensor *t, double x) { return NBX_DO(ctx, "aten::mul.Scalar", T(t), F(x)); }
static nbx_tensor *minus_from(nbx_context *ctx, nbx_value x, const nbx_tensor *t) { return NBX_DO(ctx, "aten::rsub.Scalar", T(t), x); }
static nbx_tensor *at_least(nbx_context *ctx, const nbx_tensor *t, nbx_value low) { return NBX_DO(ctx, "aten::clamp_min", T(t), low); }
static nbx_tensor *either(nbx_context *ctx, const nbx_tensor *condition, const nbx_tensor *a, const nbx_tensor *b) {
    return NBX_DO(ctx, "aten::where.self", T(condition), T(a), T(b));
}
static nbx_tensor *within(nbx_context *ctx, const char *name, const nbx_tensor *a, const nbx_tensor *b) { return NBX_DO(ctx, name, T(a), T(b)); }
static nbx_tensor *zeros_like(nbx_context *ctx, const nbx_tensor *t) { return NBX_DO(ctx, "aten::zeros_like", T(t)); }

static nbx_status need_floats(nbx_op_call *c, nbx_dtype dtype) {
    if (nbx_dtype_is_float(dtype) && !nbx_dtype_is_float8(dtype)) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name(dtype));
}

// ------------------------------------------------------------------------------------------------------- of differences
// |self - target|, in float32 for halves: these are one kernel each; NULL after a failure.
static nbx_tensor *distance(nbx_op_call *c, nbx_dtype *dtype) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    *dtype = common_dtype(a, b);
    if (need_floats(c, *dtype) != NBX_OK) return NULL;
    return do_unary(c->ctx, "aten::abs", do_sub(c->ctx, wide(c->ctx, a), wide(c->ctx, b)));
}

static nbx_status compose_mse(nbx_op_call *c) {
    const nbx_dtype dtype = common_dtype(arg_tensor(c, 0), arg_tensor(c, 1));
    const nbx_status status = need_floats(c, dtype);
    if (status != NBX_OK) return status;
    const nbx_tensor *d = do_sub(c->ctx, arg_tensor(c, 0), arg_tensor(c, 1));
    return finish(c, do_mul(c->ctx, d, d), arg_int(c, 2), dtype);
}

static nbx_status compose_l1(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    return out_tensor(c, 0, reduce_losses(c, do_unary(c->ctx, "aten::abs", do_sub(c->ctx, a, b)), arg_int(c, 2)));
}

// d < edge: d^2 / (2 beta), else slope (d - edge / 2)
static nbx_status piecewise(nbx_op_call *c, const nbx_tensor *d, double edge, double curve, double slope, nbx_dtype dtype) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *square = times(ctx, do_mul(ctx, d, d), curve);
    const nbx_tensor *line = times(ctx, add_number(ctx, d, -0.5 * edge), slope);
    const nbx_tensor *near = NBX_DO(ctx, "aten::lt.Scalar", T(d), F(edge));
    return finish(c, either(ctx, near, square, line), arg_int(c, 2), dtype);
}

static nbx_status compose_smooth_l1(nbx_op_call *c) {
    nbx_dtype dtype;
    const double beta = arg_float(c, 3);
    if (beta < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "beta must not be negative, found %g", beta);
    if (beta == 0) return compose_l1(c);
    const nbx_tensor *d = distance(c, &dtype);
    return piecewise(c, d, beta, 0.5 / beta, 1.0, dtype);
}

static nbx_status compose_huber(nbx_op_call *c) {
    nbx_dtype dtype;
    const double delta = arg_float(c, 3);
    if (!(delta > 0)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "delta must be positive, found %g", delta);
    const nbx_tensor *d = distance(c, &dtype), *self = arg_tensor(c, 0);
    if (d && !nbx_can_cast(dtype, (nbx_dtype)self->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "losses of %s can't be cast to the %s of the input", nbx_dtype_name(dtype), nbx_dtype_name((nbx_dtype)self->dtype));
    return piecewise(c, d, delta, 0.5, delta, (nbx_dtype)self->dtype);
}

// ------------------------------------------------------------------------------------------------------ of probabilities
// -(target log(self) + (1 - target) log(1 - self)) weight, logarithms not below -100
static nbx_status compose_bce(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_dtype dtype = (nbx_dtype)arg_tensor(c, 0)->dtype;
    const nbx_tensor *x = arg_tensor(c, 0), *y = arg_tensor(c, 1), *weight = arg_tensor(c, 2);
    const nbx_status status = need_floats(c, dtype);
    if (status != NBX_OK) return status;
    if (y->dtype != x->dtype || (weight && weight->dtype != x->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "target and weight must be %s as the input is", nbx_dtype_name(dtype));
    const nbx_tensor *no = at_least(ctx, do_unary(ctx, "aten::log1p", do_unary(ctx, "aten::neg", x)), I(-100));
    const nbx_tensor *yes = at_least(ctx, do_unary(ctx, "aten::log", x), I(-100));
    const nbx_tensor *loss = do_sub(ctx, do_mul(ctx, NBX_DO(ctx, "aten::sub.Scalar", T(y), I(1)), no), do_mul(ctx, y, yes));
    if (weight) loss = do_mul(ctx, loss, weight);
    return finish(c, loss, arg_int(c, 3), dtype);
}

// (1 - target) x - (1 + (pos_weight - 1) target) log_sigmoid(x)
static nbx_status compose_bce_with_logits(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *y = arg_tensor(c, 1);
    const nbx_tensor *weight = arg_tensor(c, 2), *pos_weight = arg_tensor(c, 3);
    const nbx_tensor *log_sigmoid = do_unary(ctx, "aten::log_sigmoid", x);
    if (pos_weight) {
        const nbx_tensor *more = NBX_DO(ctx, "aten::sub.Scalar", T(pos_weight), I(1));
        log_sigmoid = within(ctx, "aten::mul_.Tensor", log_sigmoid, NBX_DO(ctx, "aten::add.Scalar", T(do_mul(ctx, more, y)), I(1)));
    }
    const nbx_tensor *loss = within(ctx, "aten::mul_.Tensor", minus_from(ctx, I(1), y), x);  // of the shape and dtype of target
    loss = within(ctx, "aten::sub_.Tensor", loss, log_sigmoid);
    if (weight) loss = within(ctx, "aten::mul_.Tensor", loss, weight);
    return out_tensor(c, 0, reduce_losses(c, loss, arg_int(c, 4)));
}

// target (log(target) - x), with target a logarithm if log_target
static nbx_status compose_kl_div(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *y = arg_tensor(c, 1), *loss;
    if (!nbx_dtype_is_float((nbx_dtype)x->dtype) || !nbx_dtype_is_float((nbx_dtype)y->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes floating point tensors only");
    if (arg_bool(c, 3)) loss = do_mul(ctx, do_unary(ctx, "aten::exp", y), do_sub(ctx, y, x));
    else loss = do_sub(ctx, NBX_DO(ctx, "aten::xlogy.Tensor", T(y), T(y)), do_mul(ctx, y, x));
    return out_tensor(c, 0, reduce_losses(c, loss, arg_int(c, 2)));
}

// exp(x) - target x, or x - target log(x + eps); `full` adds Stirling's term where target > 1
static nbx_status compose_poisson_nll(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *y = arg_tensor(c, 1), *loss;
    if (arg_bool(c, 2)) loss = do_sub(ctx, do_unary(ctx, "aten::exp", x), do_mul(ctx, y, x));
    else loss = do_sub(ctx, x, do_mul(ctx, y, do_unary(ctx, "aten::log", add_number(ctx, x, arg_float(c, 4)))));
    if (arg_bool(c, 3)) {
        const nbx_tensor *log_y = do_unary(ctx, "aten::log", y);
        const nbx_tensor *half_log = times(ctx, do_unary(ctx, "aten::log", times(ctx, y, 6.283185307179586)), 0.5);
        const nbx_tensor *term = do_add(ctx, do_sub(ctx, do_mul(ctx, y, log_y), y), half_log);
        const nbx_tensor *small = NBX_DO(ctx, "aten::le.Scalar", T(y), I(1));
        loss = within(ctx, "aten::add_.Tensor", loss, NBX_DO(ctx, "aten::masked_fill.Scalar", T(term), T(small), I(0)));
    }
    return out_tensor(c, 0, reduce_losses(c, loss, arg_int(c, 5)));
}

// ------------------------------------------------------------------------------------------------------------ of margins
// log(1 + exp(-target x)), step by step in the place of -x
static nbx_status compose_soft_margin(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = do_unary(ctx, "aten::neg", arg_tensor(c, 0));
    x = do_unary(ctx, "aten::exp_", within(ctx, "aten::mul_.Tensor", x, arg_tensor(c, 1)));
    return out_tensor(c, 0, reduce_losses(c, do_unary(ctx, "aten::log1p_", x), arg_int(c, 2)));
}

// x where target is 1, max(0, margin - x) where it is -1; both elsewhere
static nbx_status compose_hinge_embedding(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *y = arg_tensor(c, 1), *zeros = zeros_like(ctx, x);
    const nbx_tensor *margin = NBX_DO(ctx, "aten::full_like", T(x), c->args[2]);  // of the dtype of self, also where it is an integer
    const nbx_tensor *clamped = at_least(ctx, do_sub(ctx, margin, x), I(0));
    const nbx_tensor *apart = either(ctx, NBX_DO(ctx, "aten::ne.Scalar", T(y), I(1)), clamped, zeros);
    const nbx_tensor *own = either(ctx, NBX_DO(ctx, "aten::ne.Scalar", T(y), I(-1)), x, zeros);
    return out_tensor(c, 0, reduce_losses(c, do_add(ctx, apart, own), arg_int(c, 3)));
}

// max(0, -target (a - b) + margin)
static nbx_status compose_margin_ranking(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1), *y = arg_tensor(c, 2);
    const nbx_tensor *d = do_sub(ctx, a, b);
    const nbx_tensor *raised = add_number(ctx, do_mul(ctx, do_unary(ctx, "aten::neg", y), d), arg_float(c, 3));
    const nbx_tensor *loss = at_least(ctx, raised, I(0));
    return out_tensor(c, 0, reduce_losses(c, loss, arg_int(c, 4)));
}

// 1 - cos(a, b) where target is 1, max(0, cos - margin) where it is -1
static nbx_status compose_cosine_embedding(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1), *y = arg_tensor(c, 2);
    const int64_t dim = y->rank;
    if (dim > 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected a target of at most one dim, found %d", y->rank);
    if (a->rank != dim + 1 || b->rank != dim + 1)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "a target of rank %d needs inputs of rank %d", y->rank, y->rank + 1);
    const nbx_tensor *product = do_sum(ctx, do_mul(ctx, a, b), 1, &dim, false);
    const nbx_tensor *size_a = add_number(ctx, do_sum(ctx, do_mul(ctx, a, a), 1, &dim, false), 1e-12);
    const nbx_tensor *size_b = add_number(ctx, do_sum(ctx, do_mul(ctx, b, b), 1, &dim, false), 1e-12);
    const nbx_tensor *cosine = do_div(ctx, product, do_unary(ctx, "aten::sqrt", do_mul(ctx, size_a, size_b)));
    const nbx_tensor *zeros = zeros_like(ctx, cosine);
    const nbx_tensor *apart = at_least(ctx, add_number(ctx, cosine, -arg_float(c, 3)), I(0));
    const nbx_tensor *alike = either(ctx, NBX_DO(ctx, "aten::eq.Scalar", T(y), I(1)), minus_from(ctx, I(1), cosine), zeros);
    const nbx_tensor *other = either(ctx, NBX_DO(ctx, "aten::eq.Scalar", T(y), I(-1)), apart, zeros);
    const nbx_tensor *loss = do_add(ctx, alike, other);
    return out_tensor(c, 0, reduce_losses(c, loss, arg_int(c, 4)));
}

// max(0, d(a, p) - d(a, n) + margin), d(x, y) = |x - y + eps|_p; swap: d(p, n) if that is smaller
static nbx_status compose_triplet_margin(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0), *p = arg_tensor(c, 1), *n = arg_tensor(c, 2);
    if (a->rank != p->rank || p->rank != n->rank)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "anchor, positive and negative have %d, %d and %d dims", a->rank, p->rank, n->rank);
    const nbx_tensor *same = NBX_DO(ctx, "aten::pairwise_distance", T(a), T(p), c->args[4], c->args[5]);
    const nbx_tensor *other = NBX_DO(ctx, "aten::pairwise_distance", T(a), T(n), c->args[4], c->args[5]);
    if (arg_bool(c, 6))
        other = NBX_DO(ctx, "aten::minimum", T(other), T(NBX_DO(ctx, "aten::pairwise_distance", T(p), T(n), c->args[4], c->args[5])));
    const nbx_tensor *loss = at_least(ctx, do_sub(ctx, add_number(ctx, same, arg_float(c, 3)), other), I(0));
    return out_tensor(c, 0, reduce_losses(c, loss, arg_int(c, 7)));
}

#define LOSS(NAME, FUNCTION) {.name = NAME, .composite = FUNCTION}

const nbx_op nbx_ops_loss[] = {
    LOSS("aten::mse_loss", compose_mse),
    LOSS("aten::l1_loss", compose_l1),
    LOSS("aten::smooth_l1_loss", compose_smooth_l1),
    LOSS("aten::huber_loss", compose_huber),
    {.name = "aten::binary_cross_entropy", .composite = compose_bce, .flags = NBX_OP_EXACT_DTYPE},
    LOSS("aten::binary_cross_entropy_with_logits", compose_bce_with_logits),
    LOSS("aten::kl_div", compose_kl_div),
    LOSS("aten::poisson_nll_loss", compose_poisson_nll),
    {.name = "aten::soft_margin_loss", .composite = compose_soft_margin, .flags = NBX_OP_EXACT_DTYPE},
    LOSS("aten::hinge_embedding_loss", compose_hinge_embedding),
    LOSS("aten::margin_ranking_loss", compose_margin_ranking),
    LOSS("aten::cosine_embedding_loss", compose_cosine_embedding),
    LOSS("aten::triplet_margin_loss", compose_triplet_margin),
    NBX_OPS_END,
};

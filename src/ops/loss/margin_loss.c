// Losses of class scores against the score of the right class, and connectionist temporal classification.
//   multi_margin_loss(x, target, p, margin, weight): weight[y] max(0, margin - x[y] + x[i])^p over i != y, summed and / c
//   multilabel_margin_loss(x, target): max(0, 1 - x[y] + x[i]) over labels y before the first -1 and non-labels i, summed and / c
//   ctc_loss(log_probs [t, n, c], targets, lengths): -log of the probability of the targets over all alignments with blanks
//   source: aten::multi_margin_loss, multilabel_margin_loss, ctc_loss.IntList; float32 and float64
#include "ops/compose.h"
#include "ops/loss/loss.h"
#include "ops/shape/geometry.h"
#include "ops/reduce/reduce.h"

static nbx_status check_scores(nbx_op_call *c, const nbx_tensor *x) {
    const nbx_dtype d = (nbx_dtype)x->dtype;
    if (d != NBX_FLOAT32 && d != NBX_FLOAT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name(d));
    char text[NBX_SHAPE_TEXT];
    const bool fits = x->rank == 2 ? x->shape[1] != 0 : x->rank == 1 ? x->shape[0] != 0 : x->rank == 0;
    if (fits) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected a vector or a matrix of scores, found shape %s",
                         nbx_shape_text(x->rank, x->shape, text, sizeof text));
}

static nbx_status describe(nbx_op_call *c, int64_t reduction, bool one_label) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const int64_t items = x->rank == 2 ? x->shape[0] : 1;
    c->scratch_bytes = (size_t)(items + 1) * 8;
    const nbx_status status = nbx_call_need_target(c, 0, (nbx_dtype)x->dtype);
    if (status != NBX_OK) return status;
    const bool per_item = reduction == LOSS_NONE && (x->rank == 2 || (one_label && arg_tensor(c, 1)->rank == 1));
    return out_new(c, 0, (nbx_dtype)x->dtype, per_item ? 1 : 0, &items, NULL) ? NBX_OK : nbx_last_status(c->ctx);
}

static nbx_status infer_multi_margin(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *target = arg_tensor(c, 1), *weight = arg_tensor(c, 4);
    const nbx_status status = check_scores(c, x);
    if (status != NBX_OK) return status;
    const double p = nbx_scalar_to_double(&c->args[2]);
    const int64_t items = x->rank == 2 ? x->shape[0] : 1, classes = x->rank == 0 ? 1 : x->shape[x->rank - 1];
    if (p != 1.0 && p != 2.0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "p must be 1 or 2, found %g", p);
    if (target->dtype != NBX_INT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "expected an int64 target");
    if (target->rank > 1 || target->numel != items) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected %lld targets, found %lld", (long long)items, (long long)target->numel);
    if (weight && (weight->rank > 1 || weight->numel != classes))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected %lld weights, found %lld", (long long)classes, (long long)weight->numel);
    if (weight && weight->dtype != x->dtype) return nbx_call_fail(c, NBX_ERROR_DTYPE, "weight has another dtype than the input");
    return describe(c, arg_int(c, 5), true);
}

static nbx_status infer_multilabel_margin(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *target = arg_tensor(c, 1);
    const nbx_status status = check_scores(c, x);
    if (status != NBX_OK) return status;
    if (target->dtype != NBX_INT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "expected an int64 target");
    const bool same = nbx_same_shape(x, target) || (x->rank <= 1 && target->rank <= 1 && x->numel == target->numel);
    if (!same) return nbx_call_fail(c, NBX_ERROR_SHAPE, "input and target have different shapes");
    return describe(c, arg_int(c, 2), false);
}

// ------------------------------------------------------------------------------------------------------------------ ctc
static nbx_status infer_ctc(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *targets = arg_tensor(c, 1);
    const nbx_dtype d = (nbx_dtype)x->dtype;
    int inputs, lengths;
    const int64_t *input_lengths = arg_ints(c, 2, &inputs), *target_lengths = arg_ints(c, 3, &lengths);
    if (d != NBX_FLOAT32 && d != NBX_FLOAT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name(d));
    if (targets->dtype != NBX_INT64 && targets->dtype != NBX_INT32) return nbx_call_fail(c, NBX_ERROR_DTYPE, "targets must be integers");
    if (x->rank != 2 && x->rank != 3) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected log_probs of 2 or 3 dims, found %d", x->rank);
    if (targets->rank != 1 && targets->rank != 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected targets of 1 or 2 dims, found %d", targets->rank);
    const int64_t batch = x->rank == 3 ? x->shape[1] : 1, classes = x->shape[x->rank - 1], blank = arg_int(c, 4);
    if (blank < 0 || blank >= classes) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "blank %lld is no label", (long long)blank);
    if (inputs != batch || lengths != batch) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected one length for each of %lld sequences", (long long)batch);
    int64_t longest = 0, total = 0;
    for (int i = 0; i < inputs; i++) {
        if (target_lengths[i] < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "a target length is negative");
        if (input_lengths[i] < 0 || input_lengths[i] > x->shape[0])
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "input length %lld is above %lld", (long long)input_lengths[i], (long long)x->shape[0]);
        if (target_lengths[i] > longest) longest = target_lengths[i];
        total += target_lengths[i];
    }
    if (targets->rank == 1 ? targets->shape[0] != total : targets->shape[0] != batch || targets->shape[1] < longest)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "targets do not fit their lengths");
    c->scratch_bytes = (size_t)batch * (size_t)(2 * (2 * longest + 1) + 1) * 8;
    const bool forward = c->schema->result_count > 1, per_item = (forward || arg_int(c, 5) == LOSS_NONE) && x->rank == 3;
    const int64_t kept[3] = {batch, x->shape[0], 2 * longest + 1};
    if (forward && !out_new(c, 1, d, x->rank, kept + (x->rank != 3), NULL)) return nbx_last_status(c->ctx);
    return out_new(c, 0, d, per_item ? 1 : 0, &batch, NULL) ? NBX_OK : nbx_last_status(c->ctx);
}

// The same with lengths in tensors: the row's data is the operator that takes lists.
static nbx_status ctc_of_tensors(nbx_op_call *c) {
    nbx_value args[7];
    const int given = c->schema->result_count > 1 ? 6 : 7;
    for (int i = 0; i < given; i++) args[i] = c->args[i];
    for (int i = 2; i < 4; i++) {
        int64_t count;
        const nbx_tensor *lengths = arg_tensor(c, i);
        if (!nbx_dtype_is_integral((nbx_dtype)lengths->dtype, false)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "lengths must be integers");
        const int64_t *read = nbx_read_ints(c, lengths, &count);
        if (!read) return nbx_last_status(c->ctx);
        args[i] = nbx_of_ints(read, (int)count);
    }
    return nbx_forward(c, c->op->data, given, args);
}

const nbx_op nbx_ops_margin_loss[] = {
    {.name = "aten::multi_margin_loss", .infer = infer_multi_margin, .cpu = NBX_CPU_KERNEL_ONE(multi_margin_loss_cpu)},
    {.name = "aten::multilabel_margin_loss", .infer = infer_multilabel_margin, .cpu = NBX_CPU_KERNEL_ONE(multilabel_margin_loss_cpu)},
    {.name = "aten::ctc_loss.Tensor", .composite = ctc_of_tensors, .flags = NBX_OP_READS_BACK, .data = "aten::ctc_loss.IntList"},
    {.name = "aten::_ctc_loss.Tensor", .composite = ctc_of_tensors, .flags = NBX_OP_READS_BACK | NBX_OP_EXACT_OUT, .data = "aten::_ctc_loss"},
    {.name = "aten::_ctc_loss", .infer = infer_ctc, .cpu = NBX_CPU_KERNEL_ONE(ctc_loss_cpu), .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::ctc_loss.IntList", .infer = infer_ctc, .cpu = NBX_CPU_KERNEL_ONE(ctc_loss_cpu)},
    NBX_OPS_END,
};

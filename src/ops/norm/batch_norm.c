// batch_norm in all its forms: y = (x - mean) / sqrt(var + eps) * weight + bias with statistics for every channel (dim 1),
// of the batch when training (biased variance), the running ones else. Training updates the running statistics:
// running = (1 - momentum) running + momentum new, with the unbiased variance.
//   x [n, c, ...] float16 bfloat16 float32 float64; parameters [c], dtype of x, or float32 beside halves; y in x's format
//   errors: SHAPE when a parameter has not c elements, ARGUMENT when statistics are missing in evaluation
//   source: aten::native_batch_norm and its relatives
#include "ops/compose.h"
#include "ops/norm/norm.h"
#include "ops/reduce/reduce.h"

// Where a form keeps its arguments and results.
typedef struct form {
    int8_t weight, bias, running_mean, running_var, training, momentum, eps;  // argument numbers; -1: none
    int8_t trains;     // when there is no such argument: 1 always, 0 never
    int8_t mean, rstd, reserve, code, new_mean, new_var;  // result numbers; -1: none
    bool empty_too;    // inputs without elements pass unchecked
} form;

//                                            w  b  rm rv tr mo ep  t  m  r  re co nm nv
static const form plain_form =              {1, 2, 3, 4, 5, 6, 7, 0, -1, -1, -1, -1, -1, -1, true};
static const form native_form =             {1, 2, 3, 4, 5, 6, 7, 0, 1, 2, -1, -1, -1, -1, false};
static const form no_training_form =        {1, 2, 3, 4, -1, 5, 6, 0, 1, 2, -1, -1, -1, -1, false};
static const form no_stats_form =           {1, 2, -1, -1, 3, 4, 5, 0, 1, 2, -1, -1, -1, -1, false};
static const form functional_form =         {1, 2, 3, 4, 5, 6, 7, 0, 1, 2, -1, -1, 3, 4, false};
static const form with_update_form =        {1, 2, 3, 4, -1, 5, 6, 1, 1, 2, 3, -1, -1, -1, false};
static const form update_functional_form =  {1, 2, 3, 4, -1, 5, 6, 1, 1, 2, 3, -1, 4, 5, false};
static const form no_update_form =          {1, 2, 3, 4, -1, 5, 6, 0, 1, 2, 3, -1, -1, -1, false};
static const form index_form =              {1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, -1, -1, true};
static const form cudnn_form =              {1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, -1, -1, -1, false};

static nbx_status check_parameters(nbx_op_call *c, const form *f, const nbx_tensor *x, const nbx_tensor **parameters, bool training) {
    const int8_t numbers[4] = {f->weight, f->bias, f->running_mean, f->running_var};
    for (int i = 0; i < 4; i++) parameters[i] = numbers[i] < 0 ? NULL : arg_tensor(c, numbers[i]);
    if (x->numel == 0 && training && !f->empty_too) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected at least one element");
    if (x->numel == 0 && f->new_mean < 0) return NBX_OK;  // the functional form hands its statistics on
    if (x->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected at least 2 dims, found %d", x->rank);
    for (int i = 0; i < 4; i++) {
        if (parameters[i] && (parameters[i]->numel != x->shape[1] || (i > 1 && parameters[i]->rank != 1)))
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "%s should have %lld elements, found %lld", c->schema->params[numbers[i]].name,
                                 (long long)x->shape[1], (long long)parameters[i]->numel);
    }
    if (!parameters[2] != !parameters[3])
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "running_mean and running_var go together, or are both absent");
    if (!training && !parameters[2]) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "evaluation needs running_mean and running_var");
    return NBX_OK;
}

static nbx_status infer(nbx_op_call *c) {
    const form *f = c->op->data;
    const nbx_tensor *x = arg_tensor(c, 0), *parameters[4];
    const bool training = f->training < 0 ? f->trains : arg_bool(c, f->training);
    int64_t stride[NBX_MAX_RANK];
    nbx_dtype stats = NBX_FLOAT32;
    nbx_status status = check_parameters(c, f, x, parameters, training);
    if (status == NBX_OK && !(x->numel == 0 && f->mean < 0)) status = norm_dtypes(c, x, 4, parameters, &stats);
    if (status != NBX_OK) return status;
    const int64_t channels = x->rank > 1 ? x->shape[1] : 0, saved = training || (f->empty_too && x->numel == 0) ? channels : 0;
    nbx_strides_format(nbx_suggest_memory_format(x), x->rank, x->shape, stride);
    // The first arguments that an out= form writes are its results; other forms write the running statistics only.
    const nbx_tensor *target = nbx_call_target(c, 0);
    if (target && target != parameters[2] && target->dtype != x->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "expected an out tensor of dtype %s", nbx_dtype_name((nbx_dtype)x->dtype));
    batch_norm_job *job = nbx_call_state(c, sizeof *job);
    if (!job) return nbx_last_status(c->ctx);
    *job = (batch_norm_job){arg_float(c, f->eps), arg_float(c, f->momentum), training, f->weight, f->bias, f->running_mean,
                            f->running_var, f->new_mean, f->new_var, f->mean, f->rstd};
    // mean, scale, shift, variance in double, then what the reduction wants (at most 64 pieces of 64 lanes, see reduce_plan.c)
    c->scratch_bytes = (size_t)channels * 32 + (c->device.type == NBX_CPU ? reduce_cpu_bound() : reduce_device_bound(channels));
    if (!out_new(c, 0, (nbx_dtype)x->dtype, x->rank, x->shape, stride)) return nbx_last_status(c->ctx);
    const int8_t per_channel[4] = {f->mean, f->rstd, f->new_mean, f->new_var};
    for (int i = 0; i < 4; i++) {
        const int64_t size = i < 2 ? saved : channels;
        const nbx_dtype dtype = i < 2 || !parameters[2] ? stats : (nbx_dtype)parameters[2]->dtype;
        if (per_channel[i] >= 0 && !out_new(c, per_channel[i], dtype, 1, &size, NULL)) return nbx_last_status(c->ctx);
    }
    const int64_t none = 0;
    if (f->reserve >= 0 && !out_new(c, f->reserve, NBX_UINT8, 1, &none, NULL)) return nbx_last_status(c->ctx);
    if (f->code >= 0) out_value(c, f->code, nbx_of_int(0));
    return NBX_OK;
}

// Every sample is a batch of its own: x as [1, n c, ...], parameters repeated. Statistics are averaged over the samples.
static nbx_status compose_instance_norm(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *x = arg_tensor(c, 0), *parameters[4];
    const bool own = arg_bool(c, 5);
    for (int i = 0; i < 4; i++) parameters[i] = arg_tensor(c, 1 + i);
    if (x->rank < 2) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected at least 2 dims, found %d", x->rank);
    if (!own && !(parameters[2] && parameters[3]))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "expected running_mean and running_var when use_input_stats is false");
    const int64_t samples = x->shape[0], channels = x->shape[1];
    if (samples == 0 && (parameters[0] || parameters[1])) return nbx_call_fail(c, NBX_ERROR_INDEX, "a batch without samples has no parameters");
    int64_t shape[NBX_MAX_RANK];
    nbx_value values[4];
    const nbx_tensor *repeated[4];
    for (int d = 0; d < x->rank; d++) shape[d] = x->shape[d];
    shape[0] = 1, shape[1] = samples * channels;
    for (int i = 0; i < 4; i++) {
        repeated[i] = NULL;
        values[i] = nbx_of_none();
        if (!parameters[i]) continue;
        repeated[i] = NBX_DO(ctx, "aten::repeat", T(parameters[i]), nbx_of_ints(&samples, 1));
        values[i] = T(repeated[i]);
    }
    const nbx_tensor *flat = do_view(ctx, do_contiguous(ctx, x), x->rank, shape);
    const nbx_tensor *y = NBX_DO(ctx, "aten::batch_norm", T(flat), values[0], values[1], values[2], values[3], B(own), c->args[6],
                                 c->args[7], c->args[8]);
    const int64_t matrix[2] = {samples, channels}, first = 0;
    for (int i = 2; i < 4 && own && y; i++) {
        if (!parameters[i]) continue;
        const nbx_tensor *mean = NBX_DO(ctx, "aten::mean.dim", T(do_view(ctx, repeated[i], 2, matrix)), nbx_of_ints(&first, 1), B(false));
        if (!NBX_DO(ctx, "aten::copy_", T(parameters[i]), T(mean))) return nbx_last_status(ctx);
    }
    return out_tensor(c, 0, do_view(ctx, y, x->rank, x->shape));
}

#define BATCH_NORM(NAME, FORM, FLAGS)                                                                                  \
    {.name = NAME, .infer = infer, .cpu = NBX_CPU_KERNEL(batch_norm_cpu), .flags = FLAGS, .data = &FORM}

const nbx_op nbx_ops_batch_norm[] = {
    BATCH_NORM("aten::batch_norm", plain_form, 0),
    BATCH_NORM("aten::native_batch_norm", native_form, 0),
    BATCH_NORM("aten::_native_batch_norm_legit", native_form, NBX_OP_EFFECT),
    BATCH_NORM("aten::_native_batch_norm_legit.no_stats", no_stats_form, 0),
    BATCH_NORM("aten::_native_batch_norm_legit_no_training", no_training_form, 0),
    BATCH_NORM("aten::_native_batch_norm_legit_functional", functional_form, 0),
    BATCH_NORM("aten::_batch_norm_with_update", with_update_form, NBX_OP_EFFECT),
    BATCH_NORM("aten::_batch_norm_with_update_functional", update_functional_form, 0),
    BATCH_NORM("aten::_batch_norm_no_update", no_update_form, 0),
    BATCH_NORM("aten::_batch_norm_impl_index", index_form, 0),
    BATCH_NORM("aten::cudnn_batch_norm", cudnn_form, 0),
    BATCH_NORM("aten::miopen_batch_norm", native_form, 0),
    {.name = "aten::instance_norm", .composite = compose_instance_norm},
    NBX_OPS_END,
};

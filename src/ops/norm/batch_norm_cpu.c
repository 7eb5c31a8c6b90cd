// batch_norm on the CPU: moments by the reduction engine (training), then one affine map of every channel.
#include "cpu/simd.h"

#include "ops/norm/channel_affine_simd.h"
#include "ops/norm/norm.h"
#include "ops/norm/norm_simd.h"

static const nbx_tensor *argument(const nbx_op_call *c, int number) { return number < 0 ? NULL : arg_tensor(c, number); }

static void moments_of_channels(nbx_op_call *c, const nbx_tensor *x, double *mean, double *var, void *scratch) {
    const reduce_job job = {.op = REDUCE_MOMENTS, .finish = REDUCE_VAR, .in = x->dtype, .cast = x->dtype,
                            .domain = x->dtype == NBX_FLOAT64 ? REDUCE_F64 : REDUCE_F32,
                            .mask = reduce_all_dims(x->rank) & ~(uint64_t)2};
    reduce_plan plan;
    reduce_plan_make(&plan, &job, x->rank, x->shape, x->stride);
    const reduce_run run = {&job, &plan, nbx_data(x), {var, mean}, {NBX_FLOAT64, NBX_FLOAT64}, scratch, c->pool};
    NBX_KERNEL(reduce_execute)(&run);
    // A mean of infinities is one here, though the variance is NaN.
    bool wild = false;
    for (int64_t i = 0; i < x->shape[1]; i++) wild |= mean[i] != mean[i];
    if (!wild) return;
    reduce_job plain = job;
    plain.op = REDUCE_SUM, plain.finish = REDUCE_MEAN;
    const reduce_run again = {&plain, &plan, nbx_data(x), {mean, NULL}, {NBX_FLOAT64, NBX_FLOAT64}, scratch, c->pool};
    NBX_KERNEL(reduce_execute)(&again);
}

static void store_channels(const nbx_tensor *t, const double *values, int64_t n) {
    if (!t) return;
    const int64_t bytes = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    store_f64(nbx_data(t), t->stride[0] * bytes, values, n, (nbx_dtype)t->dtype);
}

// running = (1 - momentum) running + momentum new, into `to`.
static void update(const nbx_tensor *running, const nbx_tensor *to, const double *values, int64_t n, double factor, double momentum) {
    if (!running) return;
    for (int64_t i = 0; i < n; i += AFFINE_PART) {
        double old[AFFINE_PART];
        const int64_t count = n - i < AFFINE_PART ? n - i : AFFINE_PART;
        const int64_t bytes = (int64_t)nbx_dtype_size((nbx_dtype)running->dtype), step = running->stride[0] * bytes;
        stage_f64(old, (const char *)nbx_data(running) + i * step, step, count, (nbx_dtype)running->dtype);
        if (values)
            for (int64_t k = 0; k < count; k++) old[k] = (1.0 - momentum) * old[k] + momentum * (values[i + k] * factor);
        const int64_t to_step = to->stride[0] * bytes;
        store_f64((char *)nbx_data(to) + i * to_step, to_step, old, count, (nbx_dtype)to->dtype);
    }
}

nbx_status NBX_KERNEL(batch_norm_cpu)(nbx_op_call *c) {
    const batch_norm_job *job = c->state;
    const nbx_tensor *x = arg_tensor(c, 0);
    const int64_t channels = x->rank > 1 ? x->shape[1] : 0, n = channels ? x->numel / channels : 0;
    if (x->numel == 0 && job->new_mean < 0) return NBX_OK;
    const nbx_tensor *running_mean = argument(c, job->running_mean), *running_var = argument(c, job->running_var);
    const nbx_tensor *new_mean = job->new_mean < 0 ? running_mean : out_get(c, job->new_mean);
    const nbx_tensor *new_var = job->new_var < 0 ? running_var : out_get(c, job->new_var);
    double *mean = c->scratch, *scale = mean + channels, *shift = scale + channels, *var = shift + channels;
    if (job->training && x->numel > 0) {
        moments_of_channels(c, x, mean, var, var + channels);
        update(running_mean, new_mean, mean, channels, 1.0, job->momentum);
        update(running_var, new_var, var, channels, (double)n / (double)(n - 1), job->momentum);
    } else {
        parameter_f64(mean, running_mean, channels, 0.0);
        parameter_f64(var, running_var, channels, 1.0);
        if (job->new_mean >= 0) update(running_mean, new_mean, NULL, channels, 1.0, 0.0);
        if (job->new_var >= 0) update(running_var, new_var, NULL, channels, 1.0, 0.0);
    }
    parameter_f64(scale, argument(c, job->weight), channels, 1.0);
    parameter_f64(shift, argument(c, job->bias), channels, 0.0);
    for (int64_t i = 0; i < channels; i++) var[i] = 1.0 / sqrt(var[i] + job->eps);
    if (job->training) {
        if (job->mean >= 0) store_channels(out_get(c, job->mean), mean, channels);
        if (job->rstd >= 0) store_channels(out_get(c, job->rstd), var, channels);
    }
    for (int64_t i = 0; i < channels; i++) scale[i] *= var[i];
    channel_affine a = {.x = x, .y = out_get(c, 0), .mean = mean, .scale = scale, .shift = shift};
    affine_apply(&a, c->pool);
    return NBX_OK;
}

// group_norm on the CPU. A group that lies in one dense stretch is normalised right after its moments, while it is in
// cache; else the moments of all groups come first.
#include "cpu/simd.h"

#include "ops/norm/channel_affine_simd.h"
#include "ops/norm/norm.h"
#include "ops/norm/norm_simd.h"

typedef struct task {
    const group_norm_job *job;
    nbx_dtype dtype;
    const char *x;
    char *y;
    double *mean, *rstd;           // [batch, groups]
    const double *weight, *shift;  // [channels]
    bool stream;                   // the result is larger than the caches
} task;

static void dense_row_moments(const task *t, const part *p, const char *x, int64_t n) {
    if (t->dtype == NBX_FLOAT64) row_moments_f64(p, 0, (const double *)(const void *)x, n);
    else if (t->dtype == NBX_FLOAT32) row_moments_f32(p, 0, x, n, NBX_FLOAT32);
    else if (t->dtype == NBX_BFLOAT16) row_moments_f32(p, 0, x, n, NBX_BFLOAT16);
    else row_moments_f32(p, 0, x, n, NBX_FLOAT16);
}

static void dense_run(const task *t, char *y, const char *x, int64_t n, double mean, double scale, double shift) {
    if (t->dtype != NBX_FLOAT64) {
        affine_dense(y, x, n, (float)mean, (float)scale, (float)shift, t->dtype, t->stream);
        return;
    }
    const double *from = (const double *)(const void *)x;
    double *to = (double *)(void *)y;
    for (int64_t i = 0; i < n; i++) to[i] = (from[i] - mean) * scale + shift;
}

static void dense_groups(void *arg, int64_t begin, int64_t end, int thread) {
    const task *t = arg;
    const int64_t channels = t->job->channels / t->job->groups, area = t->job->area, bytes = (int64_t)nbx_dtype_size(t->dtype);
    const reduce_job none = {.op = REDUCE_MOMENTS};
    tile sums;
    (void)thread;
    for (int64_t g = begin; g < end; g++) {
        const part p = {&none, &sums, 0, 0};
        const int64_t first = g % t->job->groups * channels;
        sums.s[0].d[0] = sums.s[1].d[0] = 0.0;
        dense_row_moments(t, &p, t->x + g * channels * area * bytes, channels * area);
        t->mean[g] = sums.s[0].d[0];
        t->rstd[g] = 1.0 / sqrt(sums.s[1].d[0] / (double)(channels * area) + t->job->eps);
        for (int64_t c = 0; c < channels; c++) {
            const int64_t at = (g * channels + c) * area * bytes;
            dense_run(t, t->y + at, t->x + at, area, t->mean[g], t->rstd[g] * t->weight[first + c], t->shift[first + c]);
        }
    }
    if (t->stream) v_stream_end();
}

// The moments of every channel of x as a reduction over [batch, channels | positions], and of every group from those of its channels.
static void all_moments(nbx_op_call *c, const task *t, const nbx_tensor *x, double *group_mean, double *group_rstd, double *mean, double *variance, void *scratch) {
    const group_norm_job *job = t->job;
    const int64_t channels = job->channels / job->groups;
    const reduce_job moments = {.op = REDUCE_MOMENTS, .finish = REDUCE_VAR, .in = x->dtype, .cast = x->dtype,
                                .domain = x->dtype == NBX_FLOAT64 ? REDUCE_F64 : REDUCE_F32,
                                .mask = reduce_all_dims(x->rank) & ~(uint64_t)3};
    reduce_plan plan;
    reduce_plan_make(&plan, &moments, x->rank, x->shape, x->stride);
    const reduce_run run = {&moments, &plan, nbx_data(x), {variance, mean}, {NBX_FLOAT64, NBX_FLOAT64}, scratch, c->pool};
    NBX_KERNEL(reduce_execute)(&run);
    for (int64_t g = 0; g < x->shape[0] * job->groups; g++, mean += channels, variance += channels) {
        double sum = 0, spread = 0;
        for (int64_t i = 0; i < channels; i++) sum += mean[i];
        group_mean[g] = sum / (double)channels;
        for (int64_t i = 0; i < channels; i++) spread += variance[i] + (mean[i] - group_mean[g]) * (mean[i] - group_mean[g]);
        group_rstd[g] = 1.0 / sqrt(spread / (double)channels + job->eps);
    }
}

// Samples first, first + 1 ... of any layout: moments, then the affine map.
static void whole_samples(nbx_op_call *c, const task *t, const nbx_tensor *all_x, const nbx_tensor *all_y, int64_t first, int64_t samples, double *scratch) {
    const group_norm_job *job = t->job;
    const int64_t size = job->channels / job->groups;
    double *group_mean = t->mean + first * job->groups, *group_rstd = t->rstd + first * job->groups;
    double *mean = scratch, *scale = mean + job->batch * job->channels;
    int64_t x_shape[NBX_MAX_RANK];
    memcpy(x_shape, all_x->shape, sizeof *x_shape * (size_t)all_x->rank);
    x_shape[0] = samples;
    nbx_tensor x = *all_x, y = *all_y;
    x.shape = y.shape = x_shape;
    x.offset += first * x.stride[0], y.offset += first * y.stride[0];
    x.numel = y.numel = all_x->numel / all_x->shape[0] * samples;
    all_moments(c, t, &x, group_mean, group_rstd, mean, scale, scale + job->batch * job->channels);
    for (int64_t i = 0; i < samples * job->channels; i++) {
        const int64_t channel = i % job->channels, g = i / job->channels * job->groups + channel / size;
        mean[i] = group_mean[g];
        scale[i] = group_rstd[g] * t->weight[channel];
    }
    channel_affine a = {.x = &x, .y = &y, .mean = mean, .scale = scale, .shift = t->shift, .per_sample = true, .stream = t->stream};
    affine_apply(&a, c->pool);
}

static void store_stats(const nbx_tensor *t, const double *values) {
    const int64_t bytes = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    store_f64(nbx_data(t), bytes, values, t->numel, (nbx_dtype)t->dtype);
}

nbx_status NBX_KERNEL(group_norm_cpu)(nbx_op_call *c) {
    const group_norm_job *job = c->state;
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0);
    const int64_t groups = job->batch * job->groups, size = job->channels / job->groups;
    double *mean = c->scratch, *rstd = mean + groups, *weight = rstd + groups, *shift = weight + job->channels;
    parameter_f64(weight, arg_tensor(c, 1), job->channels, 1.0);
    parameter_f64(shift, arg_tensor(c, 2), job->channels, 0.0);
    task t = {job, (nbx_dtype)x->dtype, nbx_data(x), nbx_data(y), mean, rstd, weight, shift,
              nbx_past_caches(y->numel * (int64_t)nbx_dtype_size((nbx_dtype)y->dtype))};
    if (x->numel == 0) {
        for (int64_t g = 0; g < groups; g++) mean[g] = rstd[g] = (double)NAN;
    } else if (x->contiguous && y->contiguous && (groups >= 16 || size * job->area < 32768)) {
        nbx_parallel_for(c->pool, groups, 8192 / (size * job->area) + 1, dense_groups, &t);
    } else {
        // sample by sample, where those are large: the second reading is from the last cache
        const int64_t bytes = x->numel / job->batch * (int64_t)nbx_dtype_size(t.dtype), together = bytes >= 1 << 18 ? 1 : job->batch;
        for (int64_t i = 0; i < job->batch; i += together) whole_samples(c, &t, x, y, i, together, shift + job->channels);
    }
    store_stats(out_get(c, 1), mean);
    store_stats(out_get(c, 2), rstd);
    return NBX_OK;
}

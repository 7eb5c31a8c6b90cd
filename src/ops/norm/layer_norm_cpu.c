// layer_norm and rms_norm on the CPU: a row of up to SHORT elements is read once, into a buffer of the first-level cache
// unless it is dense float already; longer rows are read twice.
#include "cpu/simd.h"

#include "cpu/pool.h"
#include "cpu/stream_simd.h"
#include "ops/norm/norm.h"
#include "ops/norm/norm_simd.h"

enum { SHORT = 8192, PIECE = 2048 };

typedef struct task {
    const layer_norm_job *job;
    reduce_plan plan;  // kept: the rows; reduced: a row's elements in logical order
    nbx_dtype in;
    bool direct;       // rows are dense
    bool stream;       // the result is larger than the caches
    const char *x;
    char *y;
    const nbx_tensor *mean, *rstd;
    const void *weight, *bias;  // [n] float (double for float64); NULL: none
} task;

// Elements [first, first + n) of a row as floats: in place, or in the buffer.
static const float *row_part(const task *t, const char *row, int64_t first, int64_t n, float *buffer) {
    if (t->direct && t->in == NBX_FLOAT32) return (const float *)(const void *)row + first;
    const int64_t step = t->plan.reduced ? t->plan.reduced_step[0] : 0;
    for (int64_t at = first; at < first + n;) {
        const stretch s = stretch_at(&t->plan, at, first + n);
        stage_f32(buffer + (at - first), row + s.offset, step, s.n, t->in);
        at += s.n;
    }
    return buffer;
}

static void store_stat(const nbx_tensor *t, int64_t row, double value) {
    if (!t) return;
    const int64_t bytes = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    store_f64((char *)nbx_data(t) + row * bytes, 0, &value, 1, (nbx_dtype)t->dtype);
}

static void normalize_run(const task *t, char *y, const float *x, int64_t first, int64_t n, float mean, float rstd) {
    const float *weight = t->weight ? (const float *)t->weight + first : NULL;
    const float *bias = t->bias ? (const float *)t->bias + first : NULL;
    if (t->in == NBX_FLOAT32) affine_lanes(y, x, n, mean, rstd, weight, bias, NBX_FLOAT32, NBX_FLOAT32);
    else if (t->in == NBX_BFLOAT16) affine_lanes(y, x, n, mean, rstd, weight, bias, NBX_FLOAT32, NBX_BFLOAT16);
    else affine_lanes(y, x, n, mean, rstd, weight, bias, NBX_FLOAT32, NBX_FLOAT16);
}

static void normalize(const task *t, char *y, const float *x, int64_t first, int64_t n, float mean, float rstd) {
    const int64_t bytes = (int64_t)nbx_dtype_size(t->in), most = NBX_STREAM_TILE / bytes;
    if (!t->stream) {
        normalize_run(t, y, x, first, n, mean, rstd);
        return;
    }
    for (int64_t i = 0; i < n; i += most) {
        _Alignas(64) char results[NBX_STREAM_TILE];
        const int64_t count = n - i < most ? n - i : most;
        normalize_run(t, results, x + i, first + i, count, mean, rstd);
        stream_bytes(y + i * bytes, results, (size_t)(count * bytes));
    }
}

static void one_row(const task *t, const char *row, int64_t number) {
    _Alignas(64) float buffer[SHORT];
    const reduce_job none = {.op = REDUCE_MOMENTS};
    const int64_t n = t->plan.reduced_count, piece = n <= SHORT ? n : PIECE, bytes = (int64_t)nbx_dtype_size(t->in);
    char *y = t->y + number * n * bytes;
    tile sums;
    part p = {&none, &sums, 0, 0};
    const float *x = NULL;
    double squares = 0.0;
    sums.s[0].d[0] = sums.s[1].d[0] = 0.0;
    for (int64_t first = 0; first < n; first += piece) {
        const int64_t count = n - first < piece ? n - first : piece;
        x = row_part(t, row, first, count, buffer);
        p.seen = first;
        if (t->job->rms) squares += row_sum_f32(x, count, NBX_FLOAT32, REDUCE_SQUARE);
        else row_moments_f32(&p, 0, x, count, NBX_FLOAT32);
    }
    const double spread = t->job->rms ? squares : sums.s[1].d[0], mean = t->job->rms ? 0.0 : sums.s[0].d[0];
    const double rstd = 1.0 / sqrt(spread / (double)n + t->job->eps);
    store_stat(t->mean, number, mean);
    store_stat(t->rstd, number, rstd);
    for (int64_t first = 0; first < n; first += piece) {
        const int64_t count = n - first < piece ? n - first : piece;
        if (piece < n) x = row_part(t, row, first, count, buffer);
        normalize(t, y + first * bytes, x, first, count, (float)mean, (float)rstd);
    }
}

static void one_row_f64(const task *t, const char *row, int64_t number) {
    double buffer[CHUNK];
    const reduce_job none = {.op = REDUCE_MOMENTS};
    const int64_t n = t->plan.reduced_count, step = t->plan.reduced ? t->plan.reduced_step[0] : 0;
    double *y = (double *)(void *)t->y + number * n, high = 0.0, low = 0.0;
    const double *weight = t->weight, *bias = t->bias;
    tile sums;
    part p = {&none, &sums, 0, 0};
    sums.s[0].d[0] = sums.s[1].d[0] = 0.0;
    double mean = 0.0, rstd = 0.0;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t at = 0; at < n;) {
            const stretch s = stretch_at(&t->plan, at, at + CHUNK < n ? at + CHUNK : n);
            stage_f64(buffer, row + s.offset, step, s.n, NBX_FLOAT64);
            p.seen = at;
            if (pass == 1) {
                for (int64_t i = 0; i < s.n; i++) {
                    const double v = (buffer[i] - mean) * rstd;
                    y[at + i] = weight ? v * weight[at + i] + bias[at + i] : v;
                }
            } else if (t->job->rms) row_sum_f64(&high, &low, buffer, s.n, REDUCE_SQUARE);
            else row_moments_f64(&p, 0, buffer, s.n);
            at += s.n;
        }
        if (pass == 1) return;
        const double spread = !t->job->rms ? sums.s[1].d[0] : isfinite(low) ? high + low : high;
        mean = t->job->rms ? 0.0 : sums.s[0].d[0];
        rstd = 1.0 / sqrt(spread / (double)n + t->job->eps);
        store_stat(t->mean, number, mean);
        store_stat(t->rstd, number, rstd);
    }
}

static void rows(void *arg, int64_t begin, int64_t end, int thread) {
    const task *t = arg;
    const reduce_plan *plan = &t->plan;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t rest = i, offset = 0, number = 0;
        for (int d = 0; d < plan->kept; d++) {
            const int64_t at = rest % plan->kept_shape[d];
            offset += at * plan->kept_step[d], number += at * plan->kept_to[d];
            rest /= plan->kept_shape[d];
        }
        if (t->in == NBX_FLOAT64) one_row_f64(t, t->x + offset, number);
        else one_row(t, t->x + offset, number);
    }
    if (t->stream) v_stream_end();
}

// Weight and bias as dense arrays in scratch, unless they lie in memory like that.
static void prepare_parameters(nbx_op_call *c, task *t) {
    const layer_norm_job *job = t->job;
    const nbx_tensor *weight = job->weight < 0 ? NULL : arg_tensor(c, job->weight);
    const nbx_tensor *bias = job->bias < 0 ? NULL : arg_tensor(c, job->bias);
    const int64_t n = t->plan.reduced_count;
    if (!weight && !bias) return;
    if (t->in == NBX_FLOAT64) {
        double *values = c->scratch;
        parameter_f64(values, weight, n, 1.0);
        parameter_f64(values + n, bias, n, 0.0);
        t->weight = values, t->bias = values + n;
        return;
    }
    float *values = c->scratch;
    if (weight && weight->contiguous && weight->dtype == NBX_FLOAT32) t->weight = nbx_data(weight);
    else parameter_f32(values, weight, n, 1.0f), t->weight = values;
    if (bias && bias->contiguous && bias->dtype == NBX_FLOAT32) t->bias = nbx_data(bias);
    else parameter_f32(values + n, bias, n, 0.0f), t->bias = values + n;
}

nbx_status NBX_KERNEL(layer_norm_cpu)(nbx_op_call *c) {
    const layer_norm_job *job = c->state;
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0);
    const uint64_t all = reduce_all_dims(x->rank), kept = reduce_all_dims(x->rank - job->normalized);
    const reduce_job walk = {.in = x->dtype, .mask = all & ~kept, .ordered = true};
    task t = {.job = job, .in = (nbx_dtype)x->dtype, .x = nbx_data(x), .y = nbx_data(y)};
    if (job->mean >= 0) t.mean = out_get(c, job->mean);
    if (job->rstd >= 0) t.rstd = out_get(c, job->rstd);
    reduce_plan_make(&t.plan, &walk, x->rank, x->shape, x->stride);
    if (t.plan.kept_count == 0) return NBX_OK;
    t.direct = t.plan.reduced == 0 || (t.plan.reduced == 1 && t.plan.reduced_step[0] == (int64_t)nbx_dtype_size(t.in));
    t.stream = nbx_past_caches(y->numel * (int64_t)nbx_dtype_size(t.in));
    prepare_parameters(c, &t);
    nbx_parallel_for(c->pool, t.plan.kept_count, 4096 / (t.plan.reduced_count + 1) + 1, rows, &t);
    return NBX_OK;
}

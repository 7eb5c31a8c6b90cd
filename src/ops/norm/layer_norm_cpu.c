// layer_norm and rms_norm on the CPU: a dense row of up to SHORT elements stays in the first-level cache while it is summed and
// normalised, and the next row is asked for meanwhile; halves are widened in registers. Other rows of up to SHORT elements are read
// once, into a buffer, longer ones twice.
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
    bool numbers;      // weight and bias are finite
    bool paired;       // rows go 32 elements at a time, and so do weight and bias, in the order of lanes_load_two
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

// --------------------------------------------------------------------------------- dense rows of a multiple of 32 elements
// The sum of x, or of (x - about)^2, in chunks as row_sum_f32 has them.
NBX_INLINE double pairs_sum(const char *x, int64_t n, float about, bool square, nbx_dtype dtype) {
    const vf32 centre = v_set1(about);
    vf64 total = vd_zero();
    for (int64_t i = 0; i < n;) {
        vf32 a = v_zero(), b = v_zero(), c = v_zero(), d = v_zero();
        const int64_t end = n - i < CHUNK ? n : i + CHUNK;
        for (; i < end; i += 64) {
            vf32 p, q, r = v_zero(), s = v_zero();
            lanes_load_two(x, i, &p, &q, dtype);
            if (i + 64 <= end) lanes_load_two(x, i + 32, &r, &s, dtype);
            else if (square) r = centre, s = centre;
            if (square) {
                p = v_sub(p, centre), q = v_sub(q, centre), r = v_sub(r, centre), s = v_sub(s, centre);
                a = v_fma(p, p, a), b = v_fma(q, q, b), c = v_fma(r, r, c), d = v_fma(s, s, d);
            } else {
                a = v_add(a, p), b = v_add(b, q), c = v_add(c, r), d = v_add(d, s);
            }
        }
        total = vd_add(total, vd_add(vd_add(wide_sum(a), wide_sum(b)), vd_add(wide_sum(c), wide_sum(d))));
    }
    return vd_reduce_add(total);
}

// Lines of the next row are asked for here (while the row is summed they come too late for some: 0.58 of a copy, here 1.0).
NBX_INLINE void pairs_normalize(const task *t, char *y, const char *x, int64_t n, float mean, float rstd, const char *next, bool numbers, nbx_dtype dtype) {
    const int64_t bytes = dtype == NBX_FLOAT32 ? 4 : 2, most = t->stream ? NBX_STREAM_TILE / bytes : n;
    const float *weight = t->weight, *bias = t->bias;
    const vf32 m = v_set1(mean), s = v_set1(rstd);
    _Alignas(64) char results[NBX_STREAM_TILE];
    for (int64_t first = 0; first < n; first += most) {
        const int64_t end = n - first < most ? n : first + most;
        char *to = t->stream ? results : y;
        for (int64_t i = first; i < end; i += 32) {
            vf32 a, b;
            lanes_load_two(x, i, &a, &b, dtype);
            for (int64_t k = 0; k < 32 * bytes; k += 64) v_prefetch(next + i * bytes + k);
            a = v_mul(v_sub(a, m), s), b = v_mul(v_sub(b, m), s);
            if (weight) {
                a = v_fma(a, v_load(weight + i), v_load(bias + i));
                b = v_fma(b, v_load(weight + i + 16), v_load(bias + i + 16));
            }
            if (numbers) lanes_store_two_numbers(to, i - first, a, b, dtype);
            else lanes_store_two(to, i - first, a, b, dtype);
        }
        if (t->stream) stream_bytes(y + first * bytes, results, (size_t)((end - first) * bytes));
    }
}

// false: with an infinity or NaN in it, how the mean comes out depends on the order (moments_step).
NBX_INLINE bool paired_row_of(const task *t, const char *x, int64_t number, const char *next, nbx_dtype dtype) {
    const int64_t n = t->plan.reduced_count;
    double mean = 0.0, spread;
    if (t->job->rms) {
        spread = pairs_sum(x, n, 0.0f, true, dtype);
    } else {
        mean = pairs_sum(x, n, 0.0f, false, dtype) / (double)n;
        if (!isfinite((float)mean)) return false;
        const double off = mean - (double)(float)mean;
        spread = pairs_sum(x, n, (float)mean, true, dtype) - (double)n * off * off;
        if (spread < 0.0) spread = 0.0;
    }
    const double rstd = 1.0 / sqrt(spread / (double)n + t->job->eps);
    store_stat(t->mean, number, mean);
    store_stat(t->rstd, number, rstd);
    char *y = t->y + number * n * (dtype == NBX_FLOAT32 ? 4 : 2);
    if (t->numbers && isfinite((float)rstd)) pairs_normalize(t, y, x, n, (float)mean, (float)rstd, next, true, dtype);
    else pairs_normalize(t, y, x, n, (float)mean, (float)rstd, next, false, dtype);
    return true;
}

static bool paired_row(const task *t, const char *x, int64_t number, const char *next) {
    if (t->in == NBX_FLOAT32) return paired_row_of(t, x, number, next, NBX_FLOAT32);
    if (t->in == NBX_BFLOAT16) return paired_row_of(t, x, number, next, NBX_BFLOAT16);
    return paired_row_of(t, x, number, next, NBX_FLOAT16);
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

typedef struct place {
    int64_t offset, number;
} place;

static place row_place(const reduce_plan *plan, int64_t i) {
    place p = {0, 0};
    for (int d = 0; d < plan->kept; d++) {
        const int64_t at = i % plan->kept_shape[d];
        p.offset += at * plan->kept_step[d], p.number += at * plan->kept_to[d];
        i /= plan->kept_shape[d];
    }
    return p;
}

static void rows(void *arg, int64_t begin, int64_t end, int thread) {
    const task *t = arg;
    (void)thread;
    place at = row_place(&t->plan, begin);
    for (int64_t i = begin; i < end; i++) {
        const place next = i + 1 < end ? row_place(&t->plan, i + 1) : at;
        if (t->in == NBX_FLOAT64) one_row_f64(t, t->x + at.offset, at.number);
        else if (!t->paired || !paired_row(t, t->x + at.offset, at.number, t->x + next.offset)) one_row(t, t->x + at.offset, at.number);
        at = next;
    }
    if (t->stream) v_stream_end();
}

// bfloat16 in the order of lanes_load_two: of each 32 the even ones, then the odd ones.
static const float *pair_up(float *values, const float *from, int64_t n, nbx_dtype dtype) {
    for (int64_t i = 0; dtype == NBX_BFLOAT16 && i < n; i += 32) {
        float odd[16];
        for (int k = 0; k < 16; k++) odd[k] = from[i + 2 * k + 1];
        for (int k = 0; k < 16; k++) values[i + k] = from[i + 2 * k];
        memcpy(values + i + 16, odd, sizeof odd);
    }
    return dtype == NBX_BFLOAT16 ? values : from;
}

// Weight and bias as dense arrays in scratch, unless they lie in memory like that.
static void prepare_parameters(nbx_op_call *c, task *t) {
    const layer_norm_job *job = t->job;
    const nbx_tensor *weight = job->weight < 0 ? NULL : arg_tensor(c, job->weight);
    const nbx_tensor *bias = job->bias < 0 ? NULL : arg_tensor(c, job->bias);
    const int64_t n = t->plan.reduced_count;
    t->numbers = true;
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
    if (t->paired) {
        t->weight = pair_up(values, t->weight, n, t->in);
        t->bias = pair_up(values + n, t->bias, n, t->in);
        const double size = row_sum_f32(t->weight, n, NBX_FLOAT32, REDUCE_ABS) + row_sum_f32(t->bias, n, NBX_FLOAT32, REDUCE_ABS);
        t->numbers = isfinite((float)size);
    }
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
    t.paired = t.direct && t.in != NBX_FLOAT64 && t.plan.reduced_count % 32 == 0 && t.plan.reduced_count <= SHORT;
    prepare_parameters(c, &t);
    nbx_parallel_for(c->pool, t.plan.kept_count, 4096 / (t.plan.reduced_count + 1) + 1, rows, &t);
    return NBX_OK;
}

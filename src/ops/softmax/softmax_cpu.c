// softmax on the CPU. Lines of up to SHORT elements are read once into a buffer of the first-level cache. Longer ones are
// read twice: for maximum and sum, rescaled as the maximum grows, then for the result. A dim that is not the last goes in
// blocks of columns small enough to stay in cache between the two readings.
#include "cpu/simd.h"

#include "core/half.h"
#include "cpu/pool.h"
#include "cpu/stream_simd.h"
#include "cpu/vecmath.h"
#include "ops/reduce/lines.h"
#include "ops/reduce/reduce_columns_simd.h"
#include "ops/softmax/softmax.h"

enum { SHORT = 8192, BLOCK = 256 };

typedef struct task {
    const softmax_job *job;
    lines l;  // operand 0: the result, 1: x
    const char *x;
    char *y;
    nbx_dtype in, out;
    nbx_dtype sums;  // ATen keeps the sum and its logarithm in the dtype of x where log_softmax is of the last dim
    int64_t width;   // columns of a block
    bool stream;     // the result is larger than the caches
} task;

// ------------------------------------------------------------------------------------------------------------- in float
NBX_INLINE float largest(const float *x, int64_t n) { return row_extreme_f32(x, n, NBX_FLOAT32, REDUCE_MAX); }

// x becomes exp(x - about) if `keep`; the sum is returned either way.
NBX_INLINE double exp_and_sum(float *x, const float *from, int64_t n, float about, bool keep) {
    const vf32 shift = v_set1(about);
    vf64 total = vd_zero();
    for (int64_t i = 0; i < n;) {
        vf32 a = v_zero(), b = v_zero();
        const int64_t end = n - i < 512 ? n : i + 512;
        for (; i + 32 <= end; i += 32) {
            const vf32 e = v_exp(v_sub(v_load(from + i), shift)), f = v_exp(v_sub(v_load(from + i + 16), shift));
            if (keep) v_store(x + i, e), v_store(x + i + 16, f);
            a = v_add(a, e), b = v_add(b, f);
        }
        for (; i < end; i += 16) {
            const int left = end - i < 16 ? (int)(end - i) : 16;
            const vf32 e = v_select(vm_first(left), v_exp(v_sub(v_load_n(from + i, left), shift)), v_zero());
            if (keep) v_store_n(x + i, e, left);
            a = v_add(a, e);
        }
        i = end;
        total = vd_add(total, vd_add(wide_sum(a), wide_sum(b)));
    }
    return vd_reduce_add(total);
}

// y = x / divisor (kept exponentials), or x - about - divisor (log). The quotient is that of v_div but for rare last bits: a
// product with the inverse, and a step of Newton's, in a quarter of the time.
NBX_INLINE vf32 scaled(vf32 x, vf32 divisor, vf32 inverse, vf32 about, bool log) {
    const vf32 q = v_mul(x, inverse);
    return log ? v_sub(v_sub(x, about), divisor) : v_fma(v_fnma(q, divisor, x), inverse, q);
}
NBX_INLINE void scale_row(char *y, const float *x, int64_t n, vf32 divisor, vf32 about, bool log, nbx_dtype out) {
    const vf32 inverse = v_div(v_set1(1.0f), divisor);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) lanes_store(y, i, scaled(v_load(x + i), divisor, inverse, about, log), out);
    const int left = (int)(n - i);
    if (left) lanes_store_n(y, i, scaled(v_load_n(x + i, left), divisor, inverse, about, log), left, out);
}

static void scale_dense(char *y, const float *x, int64_t n, float divisor, float about, bool log, nbx_dtype out) {
    if (out == NBX_FLOAT32) scale_row(y, x, n, v_set1(divisor), v_set1(about), log, NBX_FLOAT32);
    else if (out == NBX_BFLOAT16) scale_row(y, x, n, v_set1(divisor), v_set1(about), log, NBX_BFLOAT16);
    else scale_row(y, x, n, v_set1(divisor), v_set1(about), log, NBX_FLOAT16);
}

static void scale_and_store(const task *t, char *y, const float *x, int64_t n, float divisor, float about) {
    const int64_t step = t->l.along[0], bytes = (int64_t)nbx_dtype_size(t->out);
    const bool dense = step == bytes, log_form = t->job->log;
    if (dense && !t->stream) {
        scale_dense(y, x, n, divisor, about, log_form, t->out);
        return;
    }
    for (int64_t i = 0; i < n; i += BLOCK) {
        _Alignas(64) float results[BLOCK];
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        scale_dense((char *)results, x + i, count, divisor, about, log_form, dense ? t->out : NBX_FLOAT32);
        if (dense) stream_bytes(y + i * step, results, (size_t)(count * bytes));
        else store_f32(y + i * step, step, results, count, t->out);
    }
}

static void fill_zero(const task *t, char *y) {
    const float zeros[BLOCK] = {0};
    for (int64_t i = 0; i < t->l.length; i += BLOCK) {
        const int64_t n = t->l.length - i < BLOCK ? t->l.length - i : BLOCK;
        store_f32(y + i * t->l.along[0], t->l.along[0], zeros, n, t->out);
    }
}

static float log_of_sum(const task *t, double sum) {
    if (t->sums == NBX_FLOAT16) return nbx_from_f16(nbx_to_f16(logf(nbx_from_f16(nbx_to_f16((float)sum)))));
    if (t->sums == NBX_BFLOAT16) return nbx_from_bf16(nbx_to_bf16(logf(nbx_from_bf16(nbx_to_bf16((float)sum)))));
    return (float)log(sum);
}

static void short_line(const task *t, const char *x, char *y) {
    _Alignas(64) float buffer[SHORT];
    const int64_t n = t->l.length;
    const float *from = buffer;
    if (t->in == NBX_FLOAT32 && t->out == NBX_FLOAT32 && t->l.along[1] == 4) from = (const float *)(const void *)x;
    else stage_cast_f32(buffer, x, t->l.along[1], n, t->in, t->out);
    const float most = largest(from, n);
    if (t->job->safe && most == -INFINITY) {
        fill_zero(t, y);
        return;
    }
    const bool log_form = t->job->log;
    const double sum = exp_and_sum(buffer, from, n, most, !log_form);
    const float divisor = log_form ? log_of_sum(t, sum) : (float)sum;
    scale_and_store(t, y, log_form ? from : buffer, n, divisor, most);
}

static void long_line(const task *t, const char *x, char *y) {
    _Alignas(64) float buffer[2048], kept[2048];
    const int64_t n = t->l.length, step = t->l.along[1];
    const bool direct = t->in == NBX_FLOAT32 && t->out == NBX_FLOAT32 && step == 4;
    float most = -INFINITY;
    double sum = 0.0;
    for (int64_t i = 0; i < n; i += 2048) {
        const int64_t count = n - i < 2048 ? n - i : 2048;
        const float *from = direct ? (const float *)(const void *)(x + i * 4) : buffer;
        if (!direct) stage_cast_f32(buffer, x + i * step, step, count, t->in, t->out);
        const float more = largest(from, count), was = most;
        if (!(more <= most)) most = more;
        if (was != most && sum != 0.0) sum *= exp((double)was - (double)most);
        if (most != -INFINITY) sum += exp_and_sum(kept, from, count, most, false);
    }
    if (most == -INFINITY) {
        if (t->job->safe) {
            fill_zero(t, y);
            return;
        }
        sum = NAN;
    }
    for (int64_t i = 0; i < n; i += 2048) {
        const int64_t count = n - i < 2048 ? n - i : 2048;
        const float *from = direct ? (const float *)(const void *)(x + i * 4) : buffer;
        if (!direct) stage_cast_f32(buffer, x + i * step, step, count, t->in, t->out);
        if (!t->job->log) exp_and_sum(kept, from, count, most, true);
        scale_and_store(t, y + i * t->l.along[0], t->job->log ? from : kept, count,
                        t->job->log ? log_of_sum(t, sum) : (float)sum, most);
    }
}

// ------------------------------------------------------------------------------------------------------------ in double
static void double_line(const task *t, const char *x, char *y) {
    double buffer[BLOCK], most = -(double)INFINITY, sum = 0.0, rest = 0.0;
    const int64_t n = t->l.length, step = t->l.along[1];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        stage_cast_f64(buffer, x + i * step, step, count, t->in, t->out);
        most = extreme_double(most, row_extreme_f64(buffer, count, REDUCE_MAX), REDUCE_MAX);
    }
    if (t->job->safe && most == -(double)INFINITY) {
        fill_zero(t, y);
        return;
    }
    for (int pass = 0; pass < 2; pass++) {
        const double total = sum + rest, log_sum = log(total);
        for (int64_t i = 0; i < n; i += BLOCK) {
            const int64_t count = n - i < BLOCK ? n - i : BLOCK;
            stage_cast_f64(buffer, x + i * step, step, count, t->in, t->out);
            for (int64_t k = count; k < ((count + 7) & ~(int64_t)7); k++) buffer[k] = -(double)INFINITY;
            if (pass == 1 && t->job->log) {
                for (int64_t k = 0; k < count; k++) buffer[k] = (buffer[k] - most) - log_sum;
            } else {
                for (int64_t k = 0; k < count; k += 8) vd_store(buffer + k, vd_exp(vd_sub(vd_load(buffer + k), vd_set1(most))));
                if (pass == 0) row_sum_f64(&sum, &rest, buffer, count, REDUCE_SUM);
                else
                    for (int64_t k = 0; k < count; k++) buffer[k] /= total;
            }
            if (pass == 1) store_f64(y + i * t->l.along[0], t->l.along[0], buffer, count, t->out);
        }
        if (pass == 0 && !isfinite(rest)) rest = 0.0;
    }
}

static void by_lines(void *arg, int64_t begin, int64_t end, int thread) {
    const task *t = arg;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t offset[2];
        lines_place(&t->l, i, offset);
        const char *x = t->x + offset[1];
        char *y = t->y + offset[0];
        if (t->out == NBX_FLOAT64) double_line(t, x, y);
        else if (t->l.length <= SHORT) short_line(t, x, y);
        else long_line(t, x, y);
    }
    if (t->stream) v_stream_end();
}

// ----------------------------------------------------------------------------------------------------------- by columns
NBX_INLINE void column_results(const task *t, const char *x, char *y, int lanes, const tile *sums, nbx_dtype dtype) {
    _Alignas(64) float about[TILE], divisor[TILE];
    for (int l = 0; l < lanes; l++) {
        const double most = sums->s[0].d[l], sum = isfinite(most) ? sums->s[1].d[l] : (double)NAN;
        about[l] = (float)most;
        divisor[l] = (float)(t->job->log ? log(sum) : sum);
    }
    for (int64_t r = 0; r < t->l.length; r++, x += t->l.along[1], y += t->l.along[0]) {
        for (int l = 0; l < lanes; l += 16) {
            const int left = lanes - l < 16 ? lanes - l : 16;
            const vf32 d = v_sub(column_load(x, l, left, dtype), v_load(about + l)), s = v_load(divisor + l);
            const vf32 v = t->job->log ? v_sub(d, s) : v_div(v_exp(d), s);
            if (left == 16) lanes_store(y, l, v, dtype);
            else lanes_store_n(y, l, v, left, dtype);
        }
    }
}

static void zero_safe_columns(const task *t, char *y, int lanes, const tile *sums) {
    const int64_t bytes = (int64_t)nbx_dtype_size(t->out);
    for (int l = 0; l < lanes; l++) {
        if (sums->s[0].d[l] == -(double)INFINITY) fill_zero(t, y + l * bytes);
    }
}

NBX_INLINE void column_block(const task *t, const char *x, char *y, int lanes, nbx_dtype dtype) {
    const reduce_job none = {.op = REDUCE_LOGSUMEXP};
    tile sums;
    const part p = {&none, &sums, 0, 0};
    for (int l = 0; l < ((lanes + 15) & ~15); l++) sums.s[0].d[l] = -(double)INFINITY, sums.s[1].d[l] = 0.0;
    column_logsumexp_f32(&p, lanes, x, t->l.along[1], t->l.length, dtype);
    column_results(t, x, y, lanes, &sums, dtype);
    if (t->job->safe) zero_safe_columns(t, y, lanes, &sums);
}

static void by_columns(void *arg, int64_t begin, int64_t end, int thread) {
    const task *t = arg;
    const int64_t per_line = (t->l.shape[0] + t->width - 1) / t->width, bytes = (int64_t)nbx_dtype_size(t->out);
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % per_line * t->width, left = t->l.shape[0] - first;
        int64_t offset[2];
        lines_place(&t->l, i / per_line * t->l.shape[0], offset);
        const char *x = t->x + offset[1] + first * bytes;
        char *y = t->y + offset[0] + first * bytes;
        const int lanes = (int)(left < t->width ? left : t->width);
        if (t->out == NBX_FLOAT32) column_block(t, x, y, lanes, NBX_FLOAT32);
        else if (t->out == NBX_BFLOAT16) column_block(t, x, y, lanes, NBX_BFLOAT16);
        else column_block(t, x, y, lanes, NBX_FLOAT16);
    }
}

nbx_status NBX_KERNEL(softmax_cpu)(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0);
    if (x->numel == 0) return NBX_OK;
    task t = {.job = c->state, .x = nbx_data(x), .y = nbx_data(y), .in = (nbx_dtype)x->dtype, .out = (nbx_dtype)y->dtype};
    t.sums = t.in == t.out && t.job->dim == x->rank - 1 ? t.out : NBX_FLOAT32;
    t.stream = x != y && nbx_past_caches(y->numel * (int64_t)nbx_dtype_size(t.out));
    lines_plan(&t.l, t.job->dim, 2, (const nbx_tensor *[]){y, x});
    const int64_t bytes = (int64_t)nbx_dtype_size(t.out), grain = 4096 / t.l.length + 1;
    const bool columns = t.in == t.out && t.out != NBX_FLOAT64 && t.l.rank > 0 && t.l.step[0][0] == bytes &&
                         t.l.step[1][0] == bytes && t.l.shape[0] >= 8;
    if (!columns) {
        nbx_parallel_for(c->pool, t.l.count, grain, by_lines, &t);
        return NBX_OK;
    }
    t.width = 65536 / (t.l.length * bytes) / 16 * 16;  // two readings from the second-level cache at worst
    if (t.width < 32) t.width = t.l.length * bytes * 32 > 1 << 20 ? 128 : 32;  // both from memory: long runs
    if (t.width > TILE) t.width = TILE;
    const int64_t blocks = (t.l.shape[0] + t.width - 1) / t.width * (t.l.count / t.l.shape[0]);
    nbx_parallel_for(c->pool, blocks, 4096 / (t.l.length * t.width) + 1, by_columns, &t);
    return NBX_OK;
}

// softmax on the CPU. Dense lines of up to SHORT elements go through the caches once: maximum; exponentials into a buffer, and their
// sum, while the next line is asked for (22 to 14 ms for 32768 x 1024 floats on a Zen 3 core, where a copy takes 8); result. Longer
// ones are read twice: for maximum and sum, rescaled as the maximum grows, then for the result. For a dim that is not the last see
// softmax_columns_simd.h.
#include "cpu/simd.h"

#include "core/half.h"
#include "cpu/pool.h"
#include "cpu/stream_simd.h"
#include "cpu/vecmath.h"
#include "ops/reduce/lines.h"
#include "ops/softmax/softmax.h"
#include "ops/softmax/softmax_columns_simd.h"

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
            const vf32 e = v_exp_below(v_sub(v_load(from + i), shift)), f = v_exp_below(v_sub(v_load(from + i + 16), shift));
            if (keep) v_store(x + i, e), v_store(x + i + 16, f);
            a = v_add(a, e), b = v_add(b, f);
        }
        for (; i < end; i += 16) {
            const int left = end - i < 16 ? (int)(end - i) : 16;
            const vf32 e = v_select(vm_first(left), v_exp_below(v_sub(v_load_n(from + i, left), shift)), v_zero());
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

// Any layout, through a buffer.
static void short_line(const task *t, const char *x, char *y) {
    _Alignas(64) float buffer[SHORT];
    const int64_t n = t->l.length;
    stage_cast_f32(buffer, x, t->l.along[1], n, t->in, t->out);
    const float most = largest(buffer, n);
    if (t->job->safe && most == -INFINITY) {
        fill_zero(t, y);
        return;
    }
    const bool log_form = t->job->log;
    const double sum = exp_and_sum(buffer, buffer, n, most, !log_form);
    scale_and_store(t, y, buffer, n, log_form ? log_of_sum(t, sum) : (float)sum, most);
}

// ---------------------------------------------------------------------------------- dense lines of one dtype, 32 at a time
// The last n elements of a line, filled up with -inf, which is no maximum and adds nothing.
NBX_INLINE void last_two(const char *x, int64_t i, int n, vf32 *a, vf32 *b, nbx_dtype dtype) {
    union { float f[32]; uint16_t h[32]; } last;
    for (int k = 0; k < 32; k++) {
        if (dtype == NBX_FLOAT32) last.f[k] = -INFINITY;
        else last.h[k] = dtype == NBX_FLOAT16 ? 0xfc00 : 0xff80;
    }
    const size_t bytes = dtype == NBX_FLOAT32 ? 4 : 2;
    memcpy(&last, x + (size_t)i * bytes, (size_t)n * bytes);
    lanes_load_two(&last, 0, a, b, dtype);
}

NBX_INLINE void line_two(const char *x, int64_t i, int64_t n, vf32 *a, vf32 *b, nbx_dtype dtype) {
    if (n - i >= 32) lanes_load_two(x, i, a, b, dtype);
    else last_two(x, i, (int)(n - i), a, b, dtype);
}

// The largest of a line's numbers; a NaN shows in the sum.
NBX_INLINE float line_largest(const char *x, int64_t n, nbx_dtype dtype) {
    vf32 a = v_set1(-INFINITY), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        vf32 p, q, r, s;
        lanes_load_two(x, i, &p, &q, dtype);
        lanes_load_two(x, i + 32, &r, &s, dtype);
        a = v_max_fast(p, a), b = v_max_fast(q, b), c = v_max_fast(r, c), d = v_max_fast(s, d);
    }
    for (; i < n; i += 32) {
        vf32 p, q;
        line_two(x, i, n, &p, &q, dtype);
        a = v_max_fast(p, a), b = v_max_fast(q, b);
    }
    return v_reduce_max(v_max_fast(v_max_fast(a, b), v_max_fast(c, d)));
}

// e^x for x <= 0, for results of 16 bits: a relative error of 2^-16.
NBX_INLINE vf32 exp_below_short(vf32 x) {
    const v_exp_split s = v_split_exp2(v_max_fast(v_set1(-127.0f), v_mul(x, v_set1(0x1.715476p+0f))), 127.0f);
    return v_mul(v_exp2_near_short(s.r), v_power(s.sum));
}

// The sum of exp(x - about), which stays in the buffer if `keep`. Lines are asked for at `next` meanwhile.
NBX_INLINE double line_exp(float *buffer, const char *x, int64_t n, float about, bool keep, const char *next, nbx_dtype dtype) {
    const vf32 shift = v_set1(about);
    vf64 total = vd_zero();
    for (int64_t i = 0; i < n;) {
        vf32 a = v_zero(), b = v_zero();
        const int64_t end = n - i < 512 ? n : i + 512;
        for (; i < end; i += 32) {
            vf32 e, f;
            line_two(x, i, n, &e, &f, dtype);
            v_prefetch(next + i * (dtype == NBX_FLOAT32 ? 4 : 2));
            if (dtype == NBX_FLOAT32) v_prefetch(next + i * 4 + 64);
            e = v_sub(e, shift), f = v_sub(f, shift);
            if (dtype == NBX_FLOAT32 || !keep) e = v_exp_below(e), f = v_exp_below(f);
            else e = exp_below_short(e), f = exp_below_short(f);
            if (keep) v_store(buffer + i, e), v_store(buffer + i + 16, f);
            a = v_add(a, e), b = v_add(b, f);
        }
        total = vd_add(total, vd_add(wide_sum(a), wide_sum(b)));
    }
    return vd_reduce_add(total);
}

// numbers: none of the results is NaN.
NBX_INLINE void line_results(char *y, const float *buffer, const char *x, int64_t n, float divisor, float about, bool log, bool stream, bool numbers, nbx_dtype dtype) {
    enum { TILE_BYTES = NBX_STREAM_TILE };
    const int64_t bytes = dtype == NBX_FLOAT32 ? 4 : 2, most = TILE_BYTES / bytes;
    const vf32 by = v_set1(divisor), inverse = v_div(v_set1(1.0f), by), shift = v_set1(about);
    for (int64_t first = 0; first < n; first += most) {
        _Alignas(64) char results[TILE_BYTES + 128];
        const int64_t end = n - first < most ? n : first + most;
        char *to = stream || n - first < most ? results : y + first * bytes;
        for (int64_t i = first; i < end; i += 32) {
            vf32 a, b;
            if (log) line_two(x, i, n, &a, &b, dtype);
            else a = v_load(buffer + i), b = v_load(buffer + i + 16);
            if (dtype == NBX_FLOAT32 || log) a = scaled(a, by, inverse, shift, log), b = scaled(b, by, inverse, shift, log);
            else a = v_mul(a, inverse), b = v_mul(b, inverse);
            if (numbers) lanes_store_two_numbers(to, i - first, a, b, dtype);
            else lanes_store_two(to, i - first, a, b, dtype);
        }
        if (stream) stream_bytes(y + first * bytes, results, (size_t)((end - first) * bytes));
        else if (to == results) memcpy(y + first * bytes, results, (size_t)((end - first) * bytes));
    }
}

NBX_INLINE void dense_line_of(const task *t, const char *x, char *y, const char *next, nbx_dtype dtype) {
    _Alignas(64) float buffer[SHORT];
    const int64_t n = t->l.length;
    const float most = line_largest(x, n, dtype);
    if (t->job->safe && most == -INFINITY && row_extreme_f32(x, n, dtype, REDUCE_MAX) == most) {
        fill_zero(t, y);
        return;
    }
    const bool log_form = t->job->log;
    const double sum = log_form ? line_exp(buffer, x, n, most, false, next, dtype) : line_exp(buffer, x, n, most, true, next, dtype);
    const float divisor = log_form ? log_of_sum(t, sum) : (float)sum;
    const bool numbers = isfinite(divisor) && isfinite(most);
    if (log_form) line_results(y, buffer, x, n, divisor, most, true, t->stream, false, dtype);
    else if (numbers) line_results(y, buffer, x, n, divisor, most, false, t->stream, true, dtype);
    else line_results(y, buffer, x, n, divisor, most, false, t->stream, false, dtype);
}

static void dense_line(const task *t, const char *x, char *y, const char *next) {
    if (t->out == NBX_FLOAT32) dense_line_of(t, x, y, next, NBX_FLOAT32);
    else if (t->out == NBX_BFLOAT16) dense_line_of(t, x, y, next, NBX_BFLOAT16);
    else dense_line_of(t, x, y, next, NBX_FLOAT16);
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
    const int64_t bytes = (int64_t)nbx_dtype_size(t->out);
    const bool dense = t->in == t->out && t->l.along[0] == bytes && t->l.along[1] == bytes;
    int64_t offset[2], next[2];
    (void)thread;
    lines_place(&t->l, begin, next);
    for (int64_t i = begin; i < end; i++) {
        memcpy(offset, next, sizeof offset);
        if (i + 1 < end) lines_place(&t->l, i + 1, next);
        const char *x = t->x + offset[1];
        char *y = t->y + offset[0];
        if (t->out == NBX_FLOAT64) double_line(t, x, y);
        else if (t->l.length > SHORT) long_line(t, x, y);
        else if (dense) dense_line(t, x, y, t->x + next[1]);
        else short_line(t, x, y);
    }
    if (t->stream) v_stream_end();
}

// ----------------------------------------------------------------------------------------------------------- by columns
static void start_columns(column_work *w, const task *t) {
    w->length = t->l.length, w->x_step = t->l.along[1], w->y_step = t->l.along[0];
    w->log = t->job->log, w->safe = t->job->safe, w->stream = t->stream;
}

typedef struct block {
    const char *x;
    char *y;
    int lanes;
} block;

static block block_at(const task *t, int64_t i) {
    const int64_t per_line = (t->l.shape[0] + t->width - 1) / t->width, bytes = (int64_t)nbx_dtype_size(t->out);
    const int64_t first = i % per_line * t->width, left = t->l.shape[0] - first;
    int64_t offset[2];
    lines_place(&t->l, i / per_line * t->l.shape[0], offset);
    return (block){t->x + offset[1] + first * bytes, t->y + offset[0] + first * bytes, (int)(left < t->width ? left : t->width)};
}

NBX_INLINE void short_columns(const task *t, int64_t begin, int64_t end, nbx_dtype dtype) {
    _Alignas(64) float buffer[2][COLUMN_BUFFER];
    column_work work[2];
    const int64_t length = t->l.length;
    block now = block_at(t, begin);
    for (int k = 0; k < 2; k++) start_columns(&work[k], t);
    column_start(&work[0], now.lanes);
    short_load(&work[0], buffer[0], now.x, 0, length, now.lanes, dtype);
    for (int64_t i = begin; i < end; i++) {
        column_work *w = &work[(i - begin) & 1], *other = &work[(i - begin + 1) & 1];
        float *mine = buffer[(i - begin) & 1], *others = buffer[(i - begin + 1) & 1];
        const bool more = i + 1 < end;
        const block next = more ? block_at(t, i + 1) : now;
        column_settle(w, now.lanes);
        if (more) column_start(other, next.lanes);
        for (int64_t row = 0; row < length; row += ROWS_AT_ONCE) {
            const int64_t rows = length - row < ROWS_AT_ONCE ? length - row : ROWS_AT_ONCE;
            short_exp(w, mine, row, rows, now.lanes, more ? next.x : NULL, dtype == NBX_FLOAT32 ? 4 : 2);
            if (more) short_load(other, others, next.x, row, rows, next.lanes, dtype);
        }
        column_finish(w, now.lanes);
        short_results(w, mine, now.y, now.lanes, dtype);
        now = next;
    }
}

NBX_INLINE void long_columns(const task *t, int64_t begin, int64_t end, nbx_dtype dtype) {
    column_work w;
    start_columns(&w, t);
    for (int64_t i = begin; i < end; i++) {
        const block b = block_at(t, i);
        column_start(&w, b.lanes);
        long_sums(&w, b.x, b.lanes, dtype);
        column_settle(&w, b.lanes);
        column_finish(&w, b.lanes);
        long_results(&w, b.x, b.y, b.lanes, dtype);
    }
}

static void by_columns(void *arg, int64_t begin, int64_t end, int thread) {
    const task *t = arg;
    const bool is_short = t->l.length <= COLUMN_SHORT;
    (void)thread;
    if (t->out == NBX_FLOAT32) (is_short ? short_columns(t, begin, end, NBX_FLOAT32) : long_columns(t, begin, end, NBX_FLOAT32));
    else if (t->out == NBX_BFLOAT16) (is_short ? short_columns(t, begin, end, NBX_BFLOAT16) : long_columns(t, begin, end, NBX_BFLOAT16));
    else (is_short ? short_columns(t, begin, end, NBX_FLOAT16) : long_columns(t, begin, end, NBX_FLOAT16));
    if (t->stream) v_stream_end();
}

// Lanes of a block: no result depends on it.
static int64_t block_width(const task *t, int threads) {
    const int64_t lanes = t->l.shape[0];
    int64_t width;
    if (t->l.length <= COLUMN_SHORT) {
        width = COLUMN_BUFFER / t->l.length / 16 * 16;
        if (width > 128) width = 128;
    } else {
        width = t->l.count / threads / 16 * 16;
        if (width < 64) width = 64;
        if (width > COLUMNS) width = COLUMNS;
    }
    return width < lanes ? width : lanes;
}

nbx_status NBX_KERNEL(softmax_cpu)(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0);
    if (x->numel == 0) return NBX_OK;
    task t = {.job = c->state, .x = nbx_data(x), .y = nbx_data(y), .in = (nbx_dtype)x->dtype, .out = (nbx_dtype)y->dtype};
    t.sums = t.in == t.out && t.job->dim == x->rank - 1 ? t.out : NBX_FLOAT32;
    t.stream = t.x != t.y && nbx_past_caches(y->numel * (int64_t)nbx_dtype_size(t.out));
    lines_plan(&t.l, t.job->dim, 2, (const nbx_tensor *[]){y, x});
    const int64_t bytes = (int64_t)nbx_dtype_size(t.out), grain = 4096 / t.l.length + 1;
    const bool columns = t.in == t.out && t.out != NBX_FLOAT64 && t.l.rank > 0 && t.l.step[0][0] == bytes &&
                         t.l.step[1][0] == bytes && t.l.shape[0] >= 8;
    if (!columns) {
        nbx_parallel_for(c->pool, t.l.count, grain, by_lines, &t);
        return NBX_OK;
    }
    t.width = block_width(&t, nbx_pool_threads(c->pool));
    const int64_t blocks = (t.l.shape[0] + t.width - 1) / t.width * (t.l.count / t.l.shape[0]);
    nbx_parallel_for(c->pool, blocks, 4096 / (t.l.length * t.width) + 1, by_columns, &t);
    return NBX_OK;
}

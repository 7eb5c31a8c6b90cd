// Runs reductions on the CPU: walks the plan, feeds dense runs to the loops of reduce_rows_simd.h and
// reduce_columns_simd.h, joins the pieces in order, and finishes the results.
#include "cpu/simd.h"

#include "cpu/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/reduce_columns_simd.h"
#include "ops/reduce/stage_simd.h"

enum { STAGED_ROWS = 8 };

// The loops for one dtype of float.
#define FLOAT_LOOPS(NAME, DTYPE)                                                                                       \
    static void row_##NAME(const part *p, int lane, const void *x, int64_t n) {                                        \
        double *a = &p->t->s[0].d[lane], *b = &p->t->s[1].d[lane];                                                     \
        switch (p->job->op) {                                                                                          \
        case REDUCE_SUM: *a += row_sum_f32(x, n, DTYPE, REDUCE_SUM); break;                                            \
        case REDUCE_NANSUM: *a += row_sum_f32(x, n, DTYPE, REDUCE_NANSUM); break;                                      \
        case REDUCE_ABS: *a += row_sum_f32(x, n, DTYPE, REDUCE_ABS); break;                                            \
        case REDUCE_SQUARE: *a += row_sum_f32(x, n, DTYPE, REDUCE_SQUARE); break;                                      \
        case REDUCE_MAX: *a = extreme_double(*a, (double)row_extreme_f32(x, n, DTYPE, REDUCE_MAX), REDUCE_MAX); break; \
        case REDUCE_MIN: *a = extreme_double(*a, (double)row_extreme_f32(x, n, DTYPE, REDUCE_MIN), REDUCE_MIN); break; \
        case REDUCE_MAX_ABS:                                                                                           \
            *a = extreme_double(*a, (double)row_extreme_f32(x, n, DTYPE, REDUCE_MAX_ABS), REDUCE_MAX);                 \
            break;                                                                                                     \
        case REDUCE_MIN_ABS:                                                                                           \
            *a = extreme_double(*a, (double)row_extreme_f32(x, n, DTYPE, REDUCE_MIN_ABS), REDUCE_MIN);                 \
            break;                                                                                                     \
        case REDUCE_MINMAX:                                                                                            \
            *a = extreme_double(*a, (double)row_extreme_f32(x, n, DTYPE, REDUCE_MIN), REDUCE_MIN);                     \
            *b = extreme_double(*b, (double)row_extreme_f32(x, n, DTYPE, REDUCE_MAX), REDUCE_MAX);                     \
            break;                                                                                                     \
        case REDUCE_ARGMAX: row_arg_f32(p, lane, x, n, DTYPE, REDUCE_ARGMAX); break;                                   \
        case REDUCE_ARGMIN: row_arg_f32(p, lane, x, n, DTYPE, REDUCE_ARGMIN); break;                                   \
        case REDUCE_MOMENTS: row_moments_f32(p, lane, x, n, DTYPE); break;                                             \
        case REDUCE_LOGSUMEXP: row_logsumexp_f32(p, lane, x, n, DTYPE); break;                                         \
        default: break;                                                                                                \
        }                                                                                                              \
    }                                                                                                                  \
    static void column_##NAME(const part *p, int lanes, const char *x, int64_t step, int64_t rows) {                   \
        switch (p->job->op) {                                                                                          \
        case REDUCE_SUM: column_sum_f32(p, lanes, x, step, rows, DTYPE, REDUCE_SUM); break;                            \
        case REDUCE_NANSUM: column_sum_f32(p, lanes, x, step, rows, DTYPE, REDUCE_NANSUM); break;                      \
        case REDUCE_ABS: column_sum_f32(p, lanes, x, step, rows, DTYPE, REDUCE_ABS); break;                            \
        case REDUCE_SQUARE: column_sum_f32(p, lanes, x, step, rows, DTYPE, REDUCE_SQUARE); break;                      \
        case REDUCE_MAX: column_extreme_f32(p, 0, lanes, x, step, rows, DTYPE, REDUCE_MAX); break;                     \
        case REDUCE_MIN: column_extreme_f32(p, 0, lanes, x, step, rows, DTYPE, REDUCE_MIN); break;                     \
        case REDUCE_MAX_ABS: column_extreme_f32(p, 0, lanes, x, step, rows, DTYPE, REDUCE_MAX_ABS); break;             \
        case REDUCE_MIN_ABS: column_extreme_f32(p, 0, lanes, x, step, rows, DTYPE, REDUCE_MIN_ABS); break;             \
        case REDUCE_MINMAX:                                                                                            \
            column_extreme_f32(p, 0, lanes, x, step, rows, DTYPE, REDUCE_MIN);                                         \
            column_extreme_f32(p, 1, lanes, x, step, rows, DTYPE, REDUCE_MAX);                                         \
            break;                                                                                                     \
        case REDUCE_ARGMAX: column_arg_f32(p, lanes, x, step, rows, DTYPE, REDUCE_ARGMAX); break;                      \
        case REDUCE_ARGMIN: column_arg_f32(p, lanes, x, step, rows, DTYPE, REDUCE_ARGMIN); break;                      \
        case REDUCE_MOMENTS: column_moments_f32(p, lanes, x, step, rows, DTYPE); break;                                \
        case REDUCE_LOGSUMEXP: column_logsumexp_f32(p, lanes, x, step, rows, DTYPE); break;                            \
        default: break;                                                                                                \
        }                                                                                                              \
    }
FLOAT_LOOPS(f32, NBX_FLOAT32)
FLOAT_LOOPS(f16, NBX_FLOAT16)
FLOAT_LOOPS(bf16, NBX_BFLOAT16)
#undef FLOAT_LOOPS

static void row_f64(const part *p, int lane, const void *elements, int64_t n) {
    const double *x = elements;
    double *a = &p->t->s[0].d[lane], *b = &p->t->s[1].d[lane];
    switch (p->job->op) {
    case REDUCE_SUM: row_sum_f64(a, b, x, n, REDUCE_SUM); break;
    case REDUCE_NANSUM: row_sum_f64(a, b, x, n, REDUCE_NANSUM); break;
    case REDUCE_ABS: row_sum_f64(a, b, x, n, REDUCE_ABS); break;
    case REDUCE_SQUARE: row_sum_f64(a, b, x, n, REDUCE_SQUARE); break;
    case REDUCE_POWER:
        for (int64_t i = 0; i < n; i++) *a += power_of(x[i], p->job->p);
        break;
    case REDUCE_PROD: row_prod_f64(a, x, n); break;
    case REDUCE_MAX: *a = extreme_double(*a, row_extreme_f64(x, n, REDUCE_MAX), REDUCE_MAX); break;
    case REDUCE_MIN: *a = extreme_double(*a, row_extreme_f64(x, n, REDUCE_MIN), REDUCE_MIN); break;
    case REDUCE_MAX_ABS: *a = extreme_double(*a, row_extreme_f64(x, n, REDUCE_MAX_ABS), REDUCE_MAX); break;
    case REDUCE_MIN_ABS: *a = extreme_double(*a, row_extreme_f64(x, n, REDUCE_MIN_ABS), REDUCE_MIN); break;
    case REDUCE_MINMAX:
        *a = extreme_double(*a, row_extreme_f64(x, n, REDUCE_MIN), REDUCE_MIN);
        *b = extreme_double(*b, row_extreme_f64(x, n, REDUCE_MAX), REDUCE_MAX);
        break;
    case REDUCE_ARGMAX: row_arg_f64(p, lane, x, n, REDUCE_ARGMAX); break;
    case REDUCE_ARGMIN: row_arg_f64(p, lane, x, n, REDUCE_ARGMIN); break;
    case REDUCE_MOMENTS: row_moments_f64(p, lane, x, n); break;
    case REDUCE_LOGSUMEXP: row_logsumexp_f64(p, lane, x, n); break;
    default: break;
    }
}

static void column_f64(const part *p, int lanes, const char *x, int64_t step, int64_t rows) {
    switch (p->job->op) {
    case REDUCE_SUM: column_sum_f64(p, lanes, x, step, rows, REDUCE_SUM); break;
    case REDUCE_NANSUM: column_sum_f64(p, lanes, x, step, rows, REDUCE_NANSUM); break;
    case REDUCE_ABS: column_sum_f64(p, lanes, x, step, rows, REDUCE_ABS); break;
    case REDUCE_SQUARE: column_sum_f64(p, lanes, x, step, rows, REDUCE_SQUARE); break;
    case REDUCE_POWER: column_power_f64(p, lanes, x, step, rows); break;
    case REDUCE_PROD: column_prod_f64(p, lanes, x, step, rows); break;
    case REDUCE_MAX: column_extreme_f64(p, 0, lanes, x, step, rows, REDUCE_MAX); break;
    case REDUCE_MIN: column_extreme_f64(p, 0, lanes, x, step, rows, REDUCE_MIN); break;
    case REDUCE_MAX_ABS: column_extreme_f64(p, 0, lanes, x, step, rows, REDUCE_MAX_ABS); break;
    case REDUCE_MIN_ABS: column_extreme_f64(p, 0, lanes, x, step, rows, REDUCE_MIN_ABS); break;
    case REDUCE_MINMAX:
        column_extreme_f64(p, 0, lanes, x, step, rows, REDUCE_MIN);
        column_extreme_f64(p, 1, lanes, x, step, rows, REDUCE_MAX);
        break;
    case REDUCE_ARGMAX: column_arg_f64(p, lanes, x, step, rows, REDUCE_ARGMAX); break;
    case REDUCE_ARGMIN: column_arg_f64(p, lanes, x, step, rows, REDUCE_ARGMIN); break;
    case REDUCE_MOMENTS: column_moments_f64(p, lanes, x, step, rows); break;
    case REDUCE_LOGSUMEXP: column_logsumexp_f64(p, lanes, x, step, rows); break;
    default: break;
    }
}

static void row_prod_of_f32(const part *p, int lane, const void *x, int64_t n) { row_prod_f32(&p->t->s[0].d[lane], x, n, NBX_FLOAT32); }
static void row_prod_of_f16(const part *p, int lane, const void *x, int64_t n) { row_prod_f32(&p->t->s[0].d[lane], x, n, NBX_FLOAT16); }
static void row_prod_of_bf16(const part *p, int lane, const void *x, int64_t n) { row_prod_f32(&p->t->s[0].d[lane], x, n, NBX_BFLOAT16); }

static void row_int(const part *p, int lane, const void *x, int64_t n) {
    switch (p->job->op) {
    case REDUCE_PROD: row_i64(p, lane, x, n, REDUCE_PROD); break;
    case REDUCE_MAX: row_i64(p, lane, x, n, REDUCE_MAX); break;
    case REDUCE_MIN: row_i64(p, lane, x, n, REDUCE_MIN); break;
    case REDUCE_MINMAX: row_i64(p, lane, x, n, REDUCE_MINMAX); break;
    case REDUCE_ARGMAX: row_i64(p, lane, x, n, REDUCE_ARGMAX); break;
    case REDUCE_ARGMIN: row_i64(p, lane, x, n, REDUCE_ARGMIN); break;
    default: row_i64(p, lane, x, n, REDUCE_SUM); break;
    }
}

static void column_int(const part *p, int lanes, const char *x, int64_t step, int64_t rows) {
    switch (p->job->op) {
    case REDUCE_PROD: column_i64(p, lanes, x, step, rows, REDUCE_PROD); break;
    case REDUCE_MAX: column_i64(p, lanes, x, step, rows, REDUCE_MAX); break;
    case REDUCE_MIN: column_i64(p, lanes, x, step, rows, REDUCE_MIN); break;
    case REDUCE_MINMAX: column_i64(p, lanes, x, step, rows, REDUCE_MINMAX); break;
    case REDUCE_ARGMAX: column_i64(p, lanes, x, step, rows, REDUCE_ARGMAX); break;
    case REDUCE_ARGMIN: column_i64(p, lanes, x, step, rows, REDUCE_ARGMIN); break;
    default: column_i64(p, lanes, x, step, rows, REDUCE_SUM); break;
    }
}

static void row_pairs(const part *p, int lane, const void *x, int64_t n) {
    switch (p->job->op) {
    case REDUCE_SUM: row_complex(p, lane, x, n, REDUCE_SUM); break;
    case REDUCE_PROD: row_complex(p, lane, x, n, REDUCE_PROD); break;
    case REDUCE_SQUARE: row_complex(p, lane, x, n, REDUCE_SQUARE); break;
    case REDUCE_MOMENTS: row_complex(p, lane, x, n, REDUCE_MOMENTS); break;
    case REDUCE_LOGSUMEXP: row_complex(p, lane, x, n, REDUCE_LOGSUMEXP); break;
    case REDUCE_ABS: row_complex(p, lane, x, n, REDUCE_ABS); break;
    case REDUCE_POWER: row_complex(p, lane, x, n, REDUCE_POWER); break;
    case REDUCE_MIN_ABS: row_complex(p, lane, x, n, REDUCE_MIN); break;
    default: row_complex(p, lane, x, n, REDUCE_MAX); break;
    }
}

// -------------------------------------------------------------------------------------------------- how to read elements
typedef struct reader {
    row_fn row;
    column_fn column;
    int64_t bytes;  // of an element in its domain
    bool direct;    // memory is read as it is when it is dense
} reader;

static reader reader_of(const reduce_job *job) {
    const bool same = job->in == job->cast;
    switch (job->domain) {
    case REDUCE_F32:
        if (job->in == NBX_FLOAT16 && (same || job->cast == NBX_FLOAT32)) return (reader){row_f16, column_f16, 2, true};
        if (job->in == NBX_BFLOAT16 && (same || job->cast == NBX_FLOAT32)) return (reader){row_bf16, column_bf16, 2, true};
        return (reader){row_f32, column_f32, 4, same};
    case REDUCE_F64: return (reader){row_f64, column_f64, 8, job->in == NBX_FLOAT64 && same};
    case REDUCE_I64: return (reader){row_int, column_int, 8, job->in == NBX_INT64 && same && job->op != REDUCE_COUNT};
    default: return (reader){row_pairs, NULL, 16, job->in == NBX_COMPLEX128 && same};
    }
}

// n elements, step bytes apart, converted to the cast dtype and from there to the domain.
static void stage(const reduce_job *job, void *to, const char *from, int64_t step, int64_t n) {
    const nbx_dtype in = (nbx_dtype)job->in, cast = (nbx_dtype)job->cast;
    if (job->op == REDUCE_COUNT) {
        stage_truth(to, from, step, n, in);
        return;
    }
    if (job->domain == REDUCE_I64) {
        int64_t *x = to;
        if (cast == NBX_BOOL) stage_truth(x, from, step, n, in);
        else stage_i64(x, from, step, n, in);
        if (in != cast)
            for (int64_t i = 0; i < n; i++) x[i] = stage_wrap_int(x[i], cast);
    } else if (job->domain == REDUCE_F32) {
        stage_cast_f32(to, from, step, n, in, cast);
    } else if (job->domain == REDUCE_F64) {
        stage_cast_f64(to, from, step, n, in, cast);
    } else {
        double *x = to;
        stage_complex(x, from, step, n, in);
        if (cast == NBX_COMPLEX64 && in != cast)
            for (int64_t i = 0; i < 2 * n; i++) x[i] = (double)(float)x[i];
    }
}

// Halves are read directly only where they are dense: elsewhere they are staged as floats.
static reader staged_reader(const reduce_job *job, reader r) {
    if (job->domain == REDUCE_F32) return (reader){row_f32, column_f32, 4, false};
    return r;
}

// Dense bytes that are counted where they are not 0: up to 255 of them in every lane of bytes.
static void row_bytes(const part *p, int lane, const void *elements, int64_t n) {
    enum { LANES = 64 };
    const uint8_t *x = elements;
    int64_t total = 0, i = 0;
    while (n - i >= LANES) {
        uint8_t lanes[LANES] = {0};
        const int64_t rounds = (n - i) / LANES < 255 ? (n - i) / LANES : 255;
        for (int64_t r = 0; r < rounds; r++, i += LANES)
            for (int k = 0; k < LANES; k++) lanes[k] = (uint8_t)(lanes[k] + (x[i + k] != 0));
        for (int k = 0; k < LANES; k++) total += lanes[k];
    }
    for (; i < n; i++) total += x[i] != 0;
    p->t->s[0].i[lane] += total;
}

static reader row_reader(const reduce_job *job) {
    if (job->op == REDUCE_PROD && job->domain == REDUCE_F64 && job->in == job->cast) {  // floats as they lie
        if (job->in == NBX_FLOAT32) return (reader){row_prod_of_f32, NULL, 4, true};
        if (job->in == NBX_FLOAT16) return (reader){row_prod_of_f16, NULL, 2, true};
        if (job->in == NBX_BFLOAT16) return (reader){row_prod_of_bf16, NULL, 2, true};
    }
    if (job->op == REDUCE_COUNT && (job->in == NBX_BOOL || job->in == NBX_UINT8 || job->in == NBX_INT8)) return (reader){row_bytes, NULL, 1, true};
    return reader_of(job);
}

// Sums of short rows, without a call for each.
enum { SHORT_SUM = 64 };
NBX_INLINE void short_sums_of(const part *p, int lanes, const char *x, int64_t lane_step, int64_t n, nbx_dtype dtype) {
    double *sum = p->t->s[0].d;
    if (n == 16)
        for (int lane = 0; lane < lanes; lane++) sum[lane] += row_sum_f32(x + lane * lane_step, 16, dtype, REDUCE_SUM);
    else
        for (int lane = 0; lane < lanes; lane++) sum[lane] += row_sum_f32(x + lane * lane_step, n, dtype, REDUCE_SUM);
}

static void short_sums(const part *p, nbx_dtype in, int lanes, const char *x, int64_t lane_step, int64_t n) {
    if (in == NBX_FLOAT16) short_sums_of(p, lanes, x, lane_step, n, NBX_FLOAT16);
    else if (in == NBX_BFLOAT16) short_sums_of(p, lanes, x, lane_step, n, NBX_BFLOAT16);
    else short_sums_of(p, lanes, x, lane_step, n, NBX_FLOAT32);
}

// ---------------------------------------------------------------------------------------------------------- the walk
static void walk_rows(const reduce_run *run, part *p, int lanes, const char *x, int64_t lane_step, int64_t begin, int64_t end) {
    const reduce_plan *plan = run->plan;
    const reduce_job *job = run->job;
    const int64_t step = plan->reduced ? plan->reduced_step[0] : 0;
    const reader wide = row_reader(job);
    const bool direct = wide.direct && (step == (int64_t)nbx_dtype_size((nbx_dtype)job->in) || plan->reduced_count == 1);
    const reader r = direct ? wide : staged_reader(job, reader_of(job));
    _Alignas(64) char buffer[CHUNK * 16];
    if (direct && plan->reduced <= 1) {
        p->index = begin, p->seen = 0;
        if (job->op == REDUCE_SUM && job->domain == REDUCE_F32 && end - begin <= SHORT_SUM) {
            short_sums(p, (nbx_dtype)job->in, lanes, x + begin * step, lane_step, end - begin);
            return;
        }
        for (int lane = 0; lane < lanes; lane++) r.row(p, lane, x + lane * lane_step + begin * step, end - begin);
        return;
    }
    for (int lane = 0; lane < lanes; lane++) {
        for (int64_t at = begin; at < end;) {
            const stretch s = stretch_at(plan, at, end);
            const char *from = x + lane * lane_step + s.offset;
            if (direct) {
                p->index = at, p->seen = at - begin;
                r.row(p, lane, from, s.n);
            } else {
                for (int64_t i = 0; i < s.n; i += CHUNK) {
                    const int64_t n = s.n - i < CHUNK ? s.n - i : CHUNK;
                    stage(job, buffer, from + i * step, step, n);
                    p->index = at + i, p->seen = at + i - begin;
                    r.row(p, lane, buffer, n);
                }
            }
            at += s.n;
        }
    }
}

static void walk_columns(const reduce_run *run, part *p, int lanes, const char *x, int64_t lane_step, int64_t begin, int64_t end) {
    const reduce_plan *plan = run->plan;
    const reduce_job *job = run->job;
    const int64_t step = plan->reduced ? plan->reduced_step[0] : 0;
    const reader wide = reader_of(job);
    const bool direct = wide.direct && lane_step == (int64_t)nbx_dtype_size((nbx_dtype)job->in);
    const reader r = direct ? wide : staged_reader(job, wide);
    _Alignas(64) char buffer[STAGED_ROWS * TILE * 8];
    for (int64_t at = begin; at < end;) {
        const stretch s = stretch_at(plan, at, end);
        if (direct) {
            p->index = at, p->seen = at - begin;
            r.column(p, lanes, x + s.offset, step, s.n);
        } else {
            for (int64_t row = 0; row < s.n; row += STAGED_ROWS) {
                const int64_t rows = s.n - row < STAGED_ROWS ? s.n - row : STAGED_ROWS;
                for (int64_t k = 0; k < rows; k++) {
                    stage(job, buffer + k * TILE * r.bytes, x + s.offset + (row + k) * step, lane_step, lanes);
                }
                p->index = at + row, p->seen = at + row - begin;
                r.column(p, lanes, buffer, TILE * r.bytes, rows);
            }
        }
        at += s.n;
    }
}

// ------------------------------------------------------------------------------------------- starting values, joining
static void tile_start(const reduce_job *job, tile *t, int lanes, int64_t index) {
    const bool integer = job->domain == REDUCE_I64;
    double a = 0.0, b = 0.0;
    int64_t i = 0, k = 0;
    switch (job->op) {
    case REDUCE_PROD: a = 1.0, i = 1; break;
    case REDUCE_MAX:
    case REDUCE_LOGSUMEXP: a = -(double)INFINITY, i = INT64_MIN; break;
    case REDUCE_MAX_ABS: a = -1.0; break;
    case REDUCE_MIN:
    case REDUCE_MIN_ABS: a = (double)INFINITY, i = INT64_MAX; break;
    case REDUCE_MINMAX: a = (double)INFINITY, b = -(double)INFINITY, i = INT64_MAX, k = INT64_MIN; break;
    case REDUCE_ARGMAX: a = -(double)INFINITY, i = INT64_MIN; break;
    case REDUCE_ARGMIN: a = (double)INFINITY, i = INT64_MAX; break;
    default: break;
    }
    lanes = (lanes + 15) & ~15;
    for (int l = 0; l < lanes; l++) {
        if (integer) t->s[0].i[l] = i, t->s[1].i[l] = k;
        else t->s[0].d[l] = a, t->s[1].d[l] = b;
        t->s[2].d[l] = 0.0;
    }
    if (job->op == REDUCE_ARGMAX || job->op == REDUCE_ARGMIN)
        for (int l = 0; l < lanes; l++) t->s[1].i[l] = index;
}

// Adds a later piece y of `more` elements to x of n elements; both are single lanes of three slots.
typedef union cell {
    double d;
    int64_t i;
} cell;

static void join(const reduce_job *job, cell x[SLOTS], const cell y[SLOTS], int64_t n, int64_t more) {
    const bool integer = job->domain == REDUCE_I64, pair = job->domain == REDUCE_COMPLEX;
    switch (job->op) {
    case REDUCE_PROD:
        if (integer) x[0].i = wrap_mul(x[0].i, y[0].i);
        else if (pair) {
            const double re = x[0].d * y[0].d - x[1].d * y[1].d, im = x[0].d * y[1].d + x[1].d * y[0].d;
            x[0].d = re, x[1].d = im;
        } else x[0].d *= y[0].d;
        break;
    case REDUCE_MAX:
    case REDUCE_MIN:
    case REDUCE_MAX_ABS:
    case REDUCE_MIN_ABS:
        if (integer) x[0].i = extreme_int(x[0].i, y[0].i, job->op);
        else x[0].d = extreme_double(x[0].d, y[0].d, job->op);
        break;
    case REDUCE_MINMAX:
        if (integer) {
            x[0].i = extreme_int(x[0].i, y[0].i, REDUCE_MIN);
            x[1].i = extreme_int(x[1].i, y[1].i, REDUCE_MAX);
        } else {
            x[0].d = extreme_double(x[0].d, y[0].d, REDUCE_MIN);
            x[1].d = extreme_double(x[1].d, y[1].d, REDUCE_MAX);
        }
        break;
    case REDUCE_ARGMAX:
    case REDUCE_ARGMIN:
        if (integer ? (job->op == REDUCE_ARGMIN ? y[0].i < x[0].i : y[0].i > x[0].i) : takes_over(x[0].d, y[0].d, job->op))
            x[0] = y[0], x[1] = y[1];
        break;
    case REDUCE_MOMENTS:
        if (pair) {
            const double share = (double)more / (double)(n + more), re = y[0].d - x[0].d, im = y[1].d - x[1].d;
            x[0].d += re * share, x[1].d += im * share;
            x[2].d += y[2].d + (re * re + im * im) * ((double)n * share);
        } else {
            join_moments(&x[0].d, &x[1].d, n, y[0].d, y[1].d, more);
        }
        break;
    case REDUCE_LOGSUMEXP: {
        const double most = extreme_double(x[0].d, y[0].d, REDUCE_MAX);
        const double about = isfinite(most) ? most : 0.0;
        const double sx = x[0].d == most ? 1.0 : exp(x[0].d - about), sy = y[0].d == most ? 1.0 : exp(y[0].d - about);
        x[1].d = x[1].d * sx + y[1].d * sy;
        x[2].d = x[2].d * sx + y[2].d * sy;
        x[0].d = most;
        break;
    }
    default:
        if (integer) x[0].i = wrap_add(x[0].i, y[0].i);
        else if (pair) x[0].d += y[0].d, x[1].d += y[1].d;
        else {
            add_exact(&x[0].d, &x[1].d, y[0].d);
            x[1].d += y[1].d;
        }
    }
}

// ------------------------------------------------------------------------------------------------------------- the end
// One result from its accumulators; doubles unless the domain is integer. Complex results fill value[0..1].
static void finish_lane(const reduce_job *job, const tile *t, int l, int64_t n, double *value, double *second) {
    const double a = t->s[0].d[l], b = t->s[1].d[l], c = t->s[2].d[l];
    const bool pair = job->domain == REDUCE_COMPLEX;
    const bool summed = job->op <= REDUCE_SQUARE && job->domain != REDUCE_COMPLEX;
    const double sum = summed && isfinite(a) && isfinite(b) ? a + b : a;
    switch (job->finish) {
    case REDUCE_MEAN:  // complex: divided by n + 0i
        value[0] = (pair ? a + b * 0.0 : sum) / (double)n;
        value[1] = (b - a * 0.0) / (double)n;
        break;
    case REDUCE_ROOT: value[0] = sqrt(sum); break;
    case REDUCE_P_ROOT: value[0] = pow(sum, 1.0 / job->p); break;
    case REDUCE_VAR:
    case REDUCE_STD: {
        const double divisor = (double)n - job->p, m2 = pair ? c : b, var = n ? m2 / (divisor > 0.0 ? divisor : 0.0) : NAN;
        value[0] = job->finish == REDUCE_STD ? sqrt(var) : var;
        second[0] = n ? a : NAN, second[1] = n ? b : NAN;
        break;
    }
    case REDUCE_LOG:
        if (pair) {
            const double size = log(hypot(b, c));
            value[0] = isfinite(a) ? a + size : a;
            value[1] = a == -(double)INFINITY ? 0.0 : atan2(c, b);
        } else {
            value[0] = isfinite(a) ? a + log(b) : a;
        }
        break;
    default: value[0] = sum, value[1] = b; break;
    }
    if (job->op == REDUCE_MINMAX) second[0] = b;
}

static void finish(const reduce_run *run, const tile *t, int lanes, int64_t to, int64_t to_step) {
    const reduce_job *job = run->job;
    const int64_t n = run->plan->reduced_count;
    char *out[2];
    int64_t step[2];
    for (int k = 0; k < 2; k++) {
        const int64_t bytes = run->out[k] ? (int64_t)nbx_dtype_size(run->out_dtype[k]) : 0;
        out[k] = run->out[k] ? (char *)run->out[k] + to * bytes : NULL;
        step[k] = to_step * bytes;
    }
    if (job->finish == REDUCE_VALUE_INDEX || job->finish == REDUCE_INDEX) {
        const int index = job->finish == REDUCE_INDEX ? 0 : 1;
        if (index == 1) {
            if (job->domain == REDUCE_I64) store_i64(out[0], step[0], t->s[0].i, lanes, run->out_dtype[0]);
            else store_f64(out[0], step[0], t->s[0].d, lanes, run->out_dtype[0]);
        }
        store_i64(out[index], step[index], t->s[1].i, lanes, run->out_dtype[index]);
        return;
    }
    if (job->domain == REDUCE_I64) {
        int64_t results[TILE];
        if (job->finish == REDUCE_ANY || job->finish == REDUCE_ALL) {
            const int64_t least = job->finish == REDUCE_ANY ? 1 : n;
            for (int l = 0; l < lanes; l++) results[l] = t->s[0].i[l] >= least;
            store_i64(out[0], step[0], results, lanes, run->out_dtype[0]);
        } else if (nbx_dtype_is_integral(run->out_dtype[0], true)) {
            store_i64(out[0], step[0], t->s[0].i, lanes, run->out_dtype[0]);
            if (out[1]) store_i64(out[1], step[1], t->s[1].i, lanes, run->out_dtype[1]);
        } else {
            double counts[TILE];
            for (int l = 0; l < lanes; l++) counts[l] = (double)t->s[0].i[l];
            store_f64(out[0], step[0], counts, lanes, run->out_dtype[0]);
        }
        return;
    }
    double first[2 * TILE], second[2 * TILE];
    if (job->domain == REDUCE_F32 && job->op == REDUCE_SUM && (job->finish == REDUCE_PLAIN || job->finish == REDUCE_MEAN) && !out[1]) {
        const double divisor = job->finish == REDUCE_MEAN ? (double)n : 1.0;
        for (int l = 0; l < lanes; l++) {  // finish_lane, of sums only
            const double a = t->s[0].d[l], b = t->s[1].d[l];
            first[l] = (b == 0.0 || !isfinite(a) || !isfinite(b) ? a : a + b) / divisor;
        }
        store_f64(out[0], step[0], first, lanes, run->out_dtype[0]);
        return;
    }
    if (job->domain == REDUCE_COMPLEX) {
        for (int l = 0; l < lanes; l++) {
            first[2 * l + 1] = second[2 * l + 1] = second[2 * l] = 0.0;
            finish_lane(job, t, l, n, first + 2 * l, second + 2 * l);
        }
        store_complex(out[0], step[0], first, lanes, run->out_dtype[0]);
        if (out[1]) store_complex(out[1], step[1], second, lanes, run->out_dtype[1]);
        return;
    }
    for (int l = 0; l < lanes; l++) {
        double pair[2], more[2] = {0.0, 0.0};
        finish_lane(job, t, l, n, pair, more);
        first[l] = pair[0], second[l] = more[0];
    }
    store_f64(out[0], step[0], first, lanes, run->out_dtype[0]);
    if (out[1]) store_f64(out[1], step[1], second, lanes, run->out_dtype[1]);
}

// ------------------------------------------------------------------------------------------------------------ the tasks
typedef struct tasks {
    const reduce_run *run;
    int64_t width;     // results of a tile, all along kept dim 0
    int64_t per_line;  // tiles of that dim
    int64_t tiles;
} tasks;

// Results of tile `index`: how many, where x starts, where the results go.
static int tile_place(const tasks *w, int64_t index, int64_t *x, int64_t *to) {
    const reduce_plan *p = w->run->plan;
    *x = *to = 0;
    if (p->kept == 0) return 1;
    const int64_t first = index % w->per_line * w->width, line = p->kept_shape[0];
    int64_t rest = index / w->per_line;
    *x = first * p->kept_step[0];
    *to = first * p->kept_to[0];
    for (int d = 1; d < p->kept; d++) {
        *x += rest % p->kept_shape[d] * p->kept_step[d];
        *to += rest % p->kept_shape[d] * p->kept_to[d];
        rest /= p->kept_shape[d];
    }
    return (int)(line - first < w->width ? line - first : w->width);
}

static cell *piece_cells(const reduce_run *run, int64_t piece, int64_t to) {
    return (cell *)run->scratch + (piece * run->plan->kept_count + to) * 4;
}

static void body(void *arg, int64_t begin, int64_t end, int thread) {
    const tasks *w = arg;
    const reduce_run *run = w->run;
    const reduce_plan *plan = run->plan;
    const int64_t lane_step = plan->kept ? plan->kept_step[0] : 0, to_step = plan->kept ? plan->kept_to[0] : 0;
    tile t;
    part p = {run->job, &t, 0, 0};
    (void)thread;
    for (int64_t task = begin; task < end; task++) {
        const int64_t piece = task / w->tiles;
        int64_t x, to, first = piece * plan->piece, last = first + plan->piece;
        const int lanes = tile_place(w, task % w->tiles, &x, &to);
        if (last > plan->reduced_count) last = plan->reduced_count;
        tile_start(run->job, &t, lanes, first);
        if (plan->columns) walk_columns(run, &p, lanes, (const char *)run->x + x, lane_step, first, last);
        else walk_rows(run, &p, lanes, (const char *)run->x + x, lane_step, first, last);
        if (plan->pieces == 1) {
            finish(run, &t, lanes, to, to_step);
            continue;
        }
        for (int l = 0; l < lanes; l++) {
            cell *c = piece_cells(run, piece, to + l * to_step);
            for (int k = 0; k < SLOTS; k++) c[k].i = t.s[k].i[l];
        }
    }
}

static void join_pieces(const tasks *w) {
    const reduce_run *run = w->run;
    const reduce_plan *plan = run->plan;
    const int64_t to_step = plan->kept ? plan->kept_to[0] : 0;
    tile t;
    for (int64_t index = 0; index < w->tiles; index++) {
        int64_t x, to;
        const int lanes = tile_place(w, index, &x, &to);
        for (int l = 0; l < lanes; l++) {
            cell *total = piece_cells(run, 0, to + l * to_step);
            for (int64_t piece = 1; piece < plan->pieces; piece++) {
                const int64_t n = piece * plan->piece, rest = plan->reduced_count - n;
                join(run->job, total, piece_cells(run, piece, to + l * to_step), n, rest < plan->piece ? rest : plan->piece);
            }
            for (int k = 0; k < SLOTS; k++) t.s[k].i[l] = total[k].i;
        }
        finish(run, &t, lanes, to, to_step);
    }
}

void NBX_KERNEL(reduce_execute)(const reduce_run *run) {
    const reduce_plan *plan = run->plan;
    if (plan->kept_count == 0) return;
    const int64_t line = plan->kept ? plan->kept_shape[0] : 1, threads = nbx_pool_threads(run->pool);
    int64_t width = plan->columns ? TILE : 65536 / (plan->reduced_count + 1) + 1;
    if (width > TILE) width = TILE;
    while (plan->columns && width > 64 && plan->kept_count / width * plan->pieces < 4 * threads) width /= 2;
    if (width > line) width = line;
    tasks w = {run, width, (line + width - 1) / width, 0};
    w.tiles = plan->kept_count / line * w.per_line;
    const int64_t work = width * plan->piece + 1;
    nbx_parallel_for(run->pool, w.tiles * plan->pieces, 32768 / work + 1, body, &w);
    if (plan->pieces > 1) join_pieces(&w);
}

nbx_status NBX_KERNEL(reduce_cpu)(nbx_op_call *c) {
    const reduce_job *job = c->state;
    const nbx_tensor *x = arg_tensor(c, 0);
    reduce_plan plan;
    reduce_plan_make(&plan, job, x->rank, x->shape, x->stride);
    reduce_run run = {job, &plan, nbx_data(x), {NULL, NULL}, {NBX_FLOAT32, NBX_FLOAT32}, c->scratch, c->pool};
    for (int k = 0; k < 2 && k < c->out_count; k++) {
        const nbx_tensor *out = out_get(c, k);
        if (!out) continue;
        run.out[k] = nbx_data(out);
        run.out_dtype[k] = (nbx_dtype)out->dtype;
    }
    NBX_KERNEL(reduce_execute)(&run);
    return NBX_OK;
}

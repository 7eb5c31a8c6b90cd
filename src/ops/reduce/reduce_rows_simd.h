// Reductions of dense runs into one lane of a tile: the accumulators of up to TILE results, three slots of 8 bytes each.
//
// Sums of floats: 4 vectors of 16 lanes take 8 elements each in float, then flush into double, so an element takes part
// in about 8 roundings to float whatever the length. Sums of doubles do the same and flush with a compensated addition.
#ifndef NBX_OPS_REDUCE_ROWS_SIMD_H
#define NBX_OPS_REDUCE_ROWS_SIMD_H

#include "cpu/vecmath.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/stage_simd.h"

enum { TILE = 2048, SLOTS = 3, CHUNK = 512 };

typedef union slot {
    double d[TILE];
    int64_t i[TILE];
} slot;

typedef struct tile {
    slot s[SLOTS];
} tile;

// What a kernel adds to a tile, and where in the reduced elements it stands.
typedef struct part {
    const reduce_job *job;
    tile *t;
    int64_t index;  // of the first element, among all reduced elements
    int64_t seen;   // elements that the lanes hold already
} part;

typedef void (*row_fn)(const part *p, int lane, const void *x, int64_t n);

// high + low += x, exactly as far as low can hold the error (Knuth's two-sum).
NBX_INLINE void add_exact(double *high, double *low, double x) {
    const double sum = *high + x, back = sum - *high;
    *low += (*high - (sum - back)) + (x - back);
    *high = sum;
}
NBX_INLINE void vd_add_exact(vf64 *high, vf64 *low, vf64 x) {
    const vf64 sum = vd_add(*high, x), back = vd_sub(sum, *high);
    *low = vd_add(*low, vd_add(vd_sub(*high, vd_sub(sum, back)), vd_sub(x, back)));
    *high = sum;
}

// The next stretch along the fastest reduced dim, from flat element `at` on and below `end`.
typedef struct stretch {
    int64_t offset, n;  // bytes, elements
} stretch;

static inline stretch stretch_at(const reduce_plan *p, int64_t at, int64_t end) {
    stretch s = {0, end - at};
    if (p->reduced == 0) return s;
    const int64_t length = p->reduced_shape[0], first = at % length;
    if (s.n > length - first) s.n = length - first;
    s.offset = first * p->reduced_step[0];
    at /= length;
    for (int d = 1; d < p->reduced; d++) {
        s.offset += at % p->reduced_shape[d] * p->reduced_step[d];
        at /= p->reduced_shape[d];
    }
    return s;
}

// ------------------------------------------------------------------------------------------------------ sums of float
NBX_INLINE vf32 sum_step(vf32 sum, vf32 x, int op) {
    if (op == REDUCE_SQUARE) return v_fma(x, x, sum);
    if (op == REDUCE_ABS) return v_add(sum, v_abs(x));
    if (op == REDUCE_NANSUM) return v_add(sum, v_select(v_isnan(x), v_zero(), x));
    if (op == REDUCE_COUNT) return v_add(sum, v_select(v_ne(x, v_zero()), v_set1(1.0f), v_zero()));
    return v_add(sum, x);
}

NBX_INLINE vf64 wide_sum(vf32 x) { return vd_add(v_low_f64(x), v_high_f64(x)); }

NBX_INLINE double row_sum_f32(const void *x, int64_t n, nbx_dtype dtype, int op) {
    vf64 total = vd_zero();
    int64_t i = 0;
    if (n <= 16) {  // the sum below without its empty vectors
        const vf32 x16 = n == 16 ? lanes_load(x, 0, dtype) : lanes_load_n(x, 0, (int)n, dtype);
        return n ? vd_reduce_add(vd_add(total, wide_sum(sum_step(v_zero(), x16, op)))) : 0.0;
    }
    while (i < n) {
        vf32 a = v_zero(), b = v_zero(), c = v_zero(), d = v_zero();
        const int64_t end = n - i < CHUNK ? n : i + CHUNK;
        for (; i + 64 <= end; i += 64) {
            a = sum_step(a, lanes_load(x, i, dtype), op);
            b = sum_step(b, lanes_load(x, i + 16, dtype), op);
            c = sum_step(c, lanes_load(x, i + 32, dtype), op);
            d = sum_step(d, lanes_load(x, i + 48, dtype), op);
        }
        if (i + 16 <= end) a = sum_step(a, lanes_load(x, i, dtype), op), i += 16;
        if (i + 16 <= end) b = sum_step(b, lanes_load(x, i, dtype), op), i += 16;
        if (i + 16 <= end) c = sum_step(c, lanes_load(x, i, dtype), op), i += 16;
        if (i < end) d = sum_step(d, lanes_load_n(x, i, (int)(end - i), dtype), op), i = end;
        total = vd_add(total, vd_add(vd_add(wide_sum(a), wide_sum(b)), vd_add(wide_sum(c), wide_sum(d))));
    }
    return vd_reduce_add(total);
}

// --------------------------------------------------------------------------------------------------- extremes of float
NBX_INLINE vf32 extreme_of(vf32 x, vf32 y, int op) {
    return op == REDUCE_MIN || op == REDUCE_MIN_ABS || op == REDUCE_ARGMIN ? v_min(x, y) : v_max(x, y);
}
NBX_INLINE bool is_least(int op) { return op == REDUCE_MIN || op == REDUCE_MIN_ABS || op == REDUCE_ARGMIN; }
NBX_INLINE vf32 extreme_in(vf32 x, int op) { return op == REDUCE_MAX_ABS || op == REDUCE_MIN_ABS ? v_abs(x) : x; }

// y, unless x is NaN or y does not beat it.
NBX_INLINE double extreme_double(double x, double y, int op) {
    if (x != x) return x;
    return y != y || (is_least(op) ? y < x : y > x) ? y : x;
}
NBX_INLINE int64_t extreme_int(int64_t x, int64_t y, int op) { return is_least(op) ? (y < x ? y : x) : (y > x ? y : x); }

NBX_INLINE float row_extreme_f32(const void *x, int64_t n, nbx_dtype dtype, int op) {
    const float worst = is_least(op) ? INFINITY : -INFINITY;
    vf32 a = v_set1(worst), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        a = extreme_of(a, extreme_in(lanes_load(x, i, dtype), op), op);
        b = extreme_of(b, extreme_in(lanes_load(x, i + 16, dtype), op), op);
        c = extreme_of(c, extreme_in(lanes_load(x, i + 32, dtype), op), op);
        d = extreme_of(d, extreme_in(lanes_load(x, i + 48, dtype), op), op);
    }
    for (; i + 16 <= n; i += 16) a = extreme_of(a, extreme_in(lanes_load(x, i, dtype), op), op);
    if (i < n) {
        const int left = (int)(n - i);
        const vf32 last = extreme_in(lanes_load_n(x, i, left, dtype), op);
        b = extreme_of(b, v_select(vm_first(left), last, v_set1(worst)), op);
    }
    a = extreme_of(extreme_of(a, b, op), extreme_of(c, d, op), op);
    return is_least(op) ? v_reduce_min(a) : v_reduce_max(a);
}

// First place of a value (of NaN, when it is NaN) in a run that holds it.
NBX_INLINE int64_t row_find_f32(const void *x, int64_t n, nbx_dtype dtype, float value) {
    const vf32 wanted = v_set1(value);
    const bool nan = value != value;
    for (int64_t i = 0; i < n; i += 16) {
        const int left = n - i < 16 ? (int)(n - i) : 16;
        const vf32 y = left == 16 ? lanes_load(x, i, dtype) : lanes_load_n(x, i, left, dtype);
        const uint32_t hits = vm_bits(nan ? v_isnan(y) : v_eq(y, wanted)) & (0xffffu >> (16 - left));
        if (hits) return i + __builtin_ctz(hits);
    }
    return 0;
}

// Does y take the place of x? NaN beats everything but NaN; equal ones do not.
NBX_INLINE bool takes_over(double x, double y, int op) {
    if (x != x) return false;
    return y != y || (is_least(op) ? y < x : y > x);
}

NBX_INLINE void row_arg_f32(const part *p, int lane, const void *x, int64_t n, nbx_dtype dtype, int op) {
    const size_t bytes = dtype == NBX_FLOAT32 ? 4 : 2;
    tile *t = p->t;
    for (int64_t i = 0; i < n; i += 1024) {
        const void *chunk = (const char *)x + (size_t)i * bytes;
        const int64_t count = n - i < 1024 ? n - i : 1024;
        const float best = row_extreme_f32(chunk, count, dtype, op);
        const bool first = p->seen + i == 0;
        if (!first && !takes_over(t->s[0].d[lane], (double)best, op)) continue;
        t->s[0].d[lane] = (double)best;
        t->s[1].i[lane] = p->index + i + row_find_f32(chunk, count, dtype, best);
    }
}

// ----------------------------------------------------------------------------------------------------------- moments
// Joins (mean, m2) of n elements with those of more elements (Chan).
NBX_INLINE void join_moments(double *mean, double *m2, int64_t n, double more_mean, double more_m2, int64_t more) {
    if (n == 0) {
        *mean = more_mean, *m2 = more_m2;
        return;
    }
    const double delta = more_mean - *mean, share = (double)more / (double)(n + more);
    *mean += delta * share;
    *m2 += more_m2 + delta * delta * ((double)n * share);
}

// One element more (Welford). Chunks with infinities go this way: their mean is the infinity only when it comes last, and
// NaN else, as in ATen.
static inline void moments_step(double *mean, double *m2, int64_t n, double x) {
    const double delta = x - *mean;
    *mean += delta / (double)(n + 1);
    *m2 += delta * (x - *mean);
}

// Two passes over a chunk in the first-level cache: about the chunk's rounded mean, then corrected.
NBX_INLINE void row_moments_f32(const part *p, int lane, const void *x, int64_t n, nbx_dtype dtype) {
    const size_t bytes = dtype == NBX_FLOAT32 ? 4 : 2;
    for (int64_t start = 0; start < n; start += CHUNK) {
        const void *chunk = (const char *)x + (size_t)start * bytes;
        const int64_t count = n - start < CHUNK ? n - start : CHUNK;
        const float centre = (float)(row_sum_f32(chunk, count, dtype, REDUCE_SUM) / (double)count);
        if (!isfinite(centre)) {
            for (int64_t i = 0; i < count; i++) {
                float x0[16];
                v_store(x0, lanes_load_n(chunk, i, 1, dtype));
                moments_step(&p->t->s[0].d[lane], &p->t->s[1].d[lane], p->seen + start + i, (double)x0[0]);
            }
            continue;
        }
        const vf32 about = v_set1(centre);
        vf32 s0 = v_zero(), s1 = v_zero(), q0 = v_zero(), q1 = v_zero();
        int64_t i = 0;
        for (; i + 32 <= count; i += 32) {
            const vf32 d0 = v_sub(lanes_load(chunk, i, dtype), about), d1 = v_sub(lanes_load(chunk, i + 16, dtype), about);
            s0 = v_add(s0, d0), s1 = v_add(s1, d1);
            q0 = v_fma(d0, d0, q0), q1 = v_fma(d1, d1, q1);
        }
        if (i + 16 <= count) {
            const vf32 d0 = v_sub(lanes_load(chunk, i, dtype), about);
            s0 = v_add(s0, d0), q0 = v_fma(d0, d0, q0), i += 16;
        }
        if (i < count) {
            const int left = (int)(count - i);
            const vf32 d1 = v_select(vm_first(left), v_sub(lanes_load_n(chunk, i, left, dtype), about), v_zero());
            s1 = v_add(s1, d1), q1 = v_fma(d1, d1, q1);
        }
        const double sum = vd_reduce_add(vd_add(wide_sum(s0), wide_sum(s1)));
        const double squares = vd_reduce_add(vd_add(wide_sum(q0), wide_sum(q1)));
        const double off = sum / (double)count;
        double m2 = squares - off * sum;
        if (m2 < 0.0) m2 = 0.0;
        join_moments(&p->t->s[0].d[lane], &p->t->s[1].d[lane], p->seen + start, (double)centre + off, m2, count);
    }
}

// --------------------------------------------------------------------------------------------------------- logsumexp
// The largest number; NaN is passed over.
NBX_INLINE float row_largest_number(const void *x, int64_t n, nbx_dtype dtype) {
    vf32 a = v_set1(-INFINITY), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        a = v_max_fast(lanes_load(x, i, dtype), a), b = v_max_fast(lanes_load(x, i + 16, dtype), b);
        c = v_max_fast(lanes_load(x, i + 32, dtype), c), d = v_max_fast(lanes_load(x, i + 48, dtype), d);
    }
    for (; i < n; i += 16) {
        const int left = n - i < 16 ? (int)(n - i) : 16;
        a = v_max_fast(v_select(vm_first(left), lanes_load_n(x, i, left, dtype), v_set1(-INFINITY)), a);
    }
    return v_reduce_max(v_max_fast(v_max_fast(a, b), v_max_fast(c, d)));
}

NBX_INLINE void row_logsumexp_f32(const part *p, int lane, const void *x, int64_t n, nbx_dtype dtype) {
    const size_t bytes = dtype == NBX_FLOAT32 ? 4 : 2;
    tile *t = p->t;
    for (int64_t start = 0; start < n; start += CHUNK) {
        const void *chunk = (const char *)x + (size_t)start * bytes;
        const int64_t count = n - start < CHUNK ? n - start : CHUNK;
        const double was = t->s[0].d[lane];
        float more = row_largest_number(chunk, count, dtype);  // beside a finite one, NaN shows in the sum
        if (!isfinite(more)) more = row_extreme_f32(chunk, count, dtype, REDUCE_MAX);
        const double most = extreme_double(was, (double)more, REDUCE_MAX);
        t->s[0].d[lane] = most;
        if (!isfinite(most)) continue;  // the end decides: -inf, inf or NaN
        const vf32 about = v_set1((float)most);
        vf32 s0 = v_zero(), s1 = v_zero();
        int64_t i = 0;
        for (; i + 32 <= count; i += 32) {
            s0 = v_add(s0, v_exp_below(v_sub(lanes_load(chunk, i, dtype), about)));
            s1 = v_add(s1, v_exp_below(v_sub(lanes_load(chunk, i + 16, dtype), about)));
        }
        for (; i < count; i += 16) {
            const int left = count - i < 16 ? (int)(count - i) : 16;
            const vf32 e = v_exp_below(v_sub(lanes_load_n(chunk, i, left, dtype), about));
            s1 = v_add(s1, v_select(vm_first(left), e, v_zero()));
        }
        const double scale = was == most || was == -(double)INFINITY ? 1.0 : exp(was - most);
        t->s[1].d[lane] = t->s[1].d[lane] * scale + vd_reduce_add(vd_add(wide_sum(s0), wide_sum(s1)));
    }
}

// ------------------------------------------------------------------------------------------------------------ doubles
NBX_INLINE vf64 sum_step_f64(vf64 sum, vf64 x, int op) {
    if (op == REDUCE_SQUARE) return vd_fma(x, x, sum);
    if (op == REDUCE_ABS) return vd_add(sum, vd_abs(x));
    if (op == REDUCE_NANSUM) return vd_add(sum, vd_select(vd_isnan(x), vd_zero(), x));
    if (op == REDUCE_COUNT) return vd_add(sum, vd_select(vd_ne(x, vd_zero()), vd_set1(1.0), vd_zero()));
    return vd_add(sum, x);
}

NBX_INLINE void row_sum_f64(double *high, double *low, const double *x, int64_t n, int op) {
    vf64 total = vd_zero(), rest = vd_zero();
    int64_t i = 0;
    while (i < n) {
        vf64 a = vd_zero(), b = vd_zero(), c = vd_zero(), d = vd_zero();
        const int64_t end = n - i < CHUNK / 2 ? n : i + CHUNK / 2;
        for (; i + 32 <= end; i += 32) {
            a = sum_step_f64(a, vd_load(x + i), op);
            b = sum_step_f64(b, vd_load(x + i + 8), op);
            c = sum_step_f64(c, vd_load(x + i + 16), op);
            d = sum_step_f64(d, vd_load(x + i + 24), op);
        }
        if (i + 8 <= end) a = sum_step_f64(a, vd_load(x + i), op), i += 8;
        if (i + 8 <= end) b = sum_step_f64(b, vd_load(x + i), op), i += 8;
        if (i + 8 <= end) c = sum_step_f64(c, vd_load(x + i), op), i += 8;
        if (i < end) d = sum_step_f64(d, vd_load_n(x + i, (int)(end - i)), op), i = end;
        vd_add_exact(&total, &rest, vd_add(vd_add(a, b), vd_add(c, d)));
    }
    double lanes[8], errors[8];
    vd_store(lanes, total);
    vd_store(errors, rest);
    for (int k = 0; k < 8; k++) {
        add_exact(high, low, lanes[k]);
        *low += errors[k];
    }
}

NBX_INLINE double row_extreme_f64(const double *x, int64_t n, int op) {
    const double worst = is_least(op) ? (double)INFINITY : -(double)INFINITY;
    const bool absolute = op == REDUCE_MAX_ABS || op == REDUCE_MIN_ABS;
    vf64 a = vd_set1(worst), b = a;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        vf64 x0 = vd_load(x + i), x1 = vd_load(x + i + 8);
        if (absolute) x0 = vd_abs(x0), x1 = vd_abs(x1);
        a = is_least(op) ? vd_min(a, x0) : vd_max(a, x0);
        b = is_least(op) ? vd_min(b, x1) : vd_max(b, x1);
    }
    a = is_least(op) ? vd_min(a, b) : vd_max(a, b);
    double best = is_least(op) ? vd_reduce_min(a) : vd_reduce_max(a);
    for (; i < n; i++) best = extreme_double(best, absolute ? fabs(x[i]) : x[i], op);
    return best;
}

NBX_INLINE void row_arg_f64(const part *p, int lane, const double *x, int64_t n, int op) {
    tile *t = p->t;
    for (int64_t start = 0; start < n; start += CHUNK) {
        const int64_t count = n - start < CHUNK ? n - start : CHUNK;
        const double best = row_extreme_f64(x + start, count, op);
        int64_t at = 0;
        if (p->seen + start != 0 && !takes_over(t->s[0].d[lane], best, op)) continue;
        while (at + 1 < count && !(best != best ? x[start + at] != x[start + at] : x[start + at] == best)) at++;
        t->s[0].d[lane] = best;
        t->s[1].i[lane] = p->index + start + at;
    }
}

NBX_INLINE void row_moments_f64(const part *p, int lane, const double *x, int64_t n) {
    for (int64_t start = 0; start < n; start += CHUNK) {
        const int64_t count = n - start < CHUNK ? n - start : CHUNK;
        double high = 0.0, low = 0.0, sums[8] = {0}, squares[8] = {0};
        row_sum_f64(&high, &low, x + start, count, REDUCE_SUM);
        const double centre = (high + low) / (double)count;
        if (!isfinite(centre)) {
            for (int64_t i = 0; i < count; i++)
                moments_step(&p->t->s[0].d[lane], &p->t->s[1].d[lane], p->seen + start + i, x[start + i]);
            continue;
        }
        for (int64_t i = 0; i < count; i++) {
            const double d = x[start + i] - centre;
            sums[i & 7] += d, squares[i & 7] += d * d;
        }
        const double sum = ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
        const double square = ((squares[0] + squares[4]) + (squares[2] + squares[6])) +
                              ((squares[1] + squares[5]) + (squares[3] + squares[7]));
        const double off = sum / (double)count;
        double m2 = square - off * sum;
        if (m2 < 0.0) m2 = 0.0;
        join_moments(&p->t->s[0].d[lane], &p->t->s[1].d[lane], p->seen + start, centre + off, m2, count);
    }
}

NBX_INLINE void row_logsumexp_f64(const part *p, int lane, const double *x, int64_t n) {
    tile *t = p->t;
    const double was = t->s[0].d[lane], most = extreme_double(was, row_extreme_f64(x, n, REDUCE_MAX), REDUCE_MAX);
    t->s[0].d[lane] = most;
    if (!isfinite(most)) return;
    double sum = t->s[1].d[lane] * (was == -(double)INFINITY ? 1.0 : exp(was - most));
    for (int64_t i = 0; i < n; i++) sum += exp(x[i] - most);
    t->s[1].d[lane] = sum;
}

// x^p of a norm; 0 and 1 come up as exact cases of pow.
NBX_INLINE double power_of(double x, double p) { return pow(fabs(x), p); }

NBX_INLINE void row_prod_f64(double *into, const double *x, int64_t n) {
    double lanes[8];
    vf64 product = vd_set1(1.0);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) product = vd_mul(product, vd_load(x + i));
    vd_store(lanes, product);
    for (; i < n; i++) lanes[i & 7] *= x[i];
    *into *= ((lanes[0] * lanes[4]) * (lanes[2] * lanes[6])) * ((lanes[1] * lanes[5]) * (lanes[3] * lanes[7]));
}

// Floats multiplied in double, four vectors at a time.
NBX_INLINE void row_prod_f32(double *into, const void *x, int64_t n, nbx_dtype dtype) {
    vf64 a = vd_set1(1.0), b = a, c = a, d = a;
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        const vf32 p = lanes_load(x, i, dtype), q = lanes_load(x, i + 16, dtype);
        a = vd_mul(a, v_low_f64(p)), b = vd_mul(b, v_high_f64(p));
        c = vd_mul(c, v_low_f64(q)), d = vd_mul(d, v_high_f64(q));
    }
    for (; i < n; i += 16) {
        const int left = n - i < 16 ? (int)(n - i) : 16;
        const vf32 p = v_select(vm_first(left), lanes_load_n(x, i, left, dtype), v_set1(1.0f));
        a = vd_mul(a, v_low_f64(p)), b = vd_mul(b, v_high_f64(p));
    }
    double lanes[8];
    vd_store(lanes, vd_mul(vd_mul(a, c), vd_mul(b, d)));
    *into *= ((lanes[0] * lanes[4]) * (lanes[2] * lanes[6])) * ((lanes[1] * lanes[5]) * (lanes[3] * lanes[7]));
}

#endif

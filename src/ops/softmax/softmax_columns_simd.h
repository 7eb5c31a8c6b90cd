// softmax along a dim that is not the last: blocks of neighbouring lines, whose elements lie side by side.
//   short lines  a block of x is read once, into a dense buffer (lines a power of two apart would throw each other out of the caches):
//                its maxima on the way in, exponentials and sums there, then the result. While exponentials of one block are
//                taken, the next one is asked for.
//   long lines   x is read twice: for maxima and sums, rescaled as a maximum grows, then for the result. Blocks are as wide as
//                leaves every thread some, since their rows are read in full.
#ifndef NBX_OPS_SOFTMAX_COLUMNS_SIMD_H
#define NBX_OPS_SOFTMAX_COLUMNS_SIMD_H

#include "cpu/simd.h"

#include "cpu/stream_simd.h"
#include "cpu/vecmath.h"
#include "ops/reduce/reduce_columns_simd.h"

enum { COLUMNS = 1024, COLUMN_SHORT = 512, COLUMN_BUFFER = 8192, ROWS_AT_ONCE = 8 };

typedef struct column_work {
    int64_t length, x_step, y_step;  // of a line; bytes from one of its elements to the next
    bool log, safe, stream;
    _Alignas(64) float most[COLUMNS], sum[COLUMNS], inverse[COLUMNS];
    double total[COLUMNS];           // of long lines
} column_work;

NBX_INLINE int padded(int lanes) { return (lanes + 15) & ~15; }

static inline void column_start(column_work *w, int lanes) {
    for (int l = 0; l < padded(lanes); l += 16) v_store(w->most + l, v_set1(-INFINITY)), v_store(w->sum + l, v_zero());
}

// Lines of nothing but -inf have a sum of 0 from here on: column_finish makes NaN of it, or 0 when safe.
static inline void column_settle(column_work *w, int lanes) {
    for (int l = 0; l < padded(lanes); l += 16) {
        const vf32 most = v_load(w->most + l);
        v_store(w->most + l, v_select(v_eq(most, v_set1(-INFINITY)), v_zero(), most));
    }
}

// Sums become what results are divided by, or their logarithms.
static inline void column_finish(column_work *w, int lanes) {
    for (int l = 0; l < padded(lanes); l += 16) {
        const vf32 sum = v_load(w->sum + l), one = v_set1(1.0f);
        const vm32 nothing = v_eq(sum, v_zero());
        const vf32 by = v_select(nothing, w->safe ? one : v_set1(NAN), sum);
        v_store(w->inverse + l, v_div(one, by));
        v_store(w->sum + l, w->log ? v_log(by) : by);
    }
}

NBX_INLINE void column_store(char *y, const float *results, int lanes, bool stream, nbx_dtype dtype) {
    _Alignas(64) uint16_t halves[COLUMNS];
    const void *from = results;
    if (dtype != NBX_FLOAT32) {
        for (int l = 0; l < lanes; l += 16) lanes_store(halves, l, v_load(results + l), dtype);
        from = halves;
    }
    const size_t bytes = (size_t)lanes * (dtype == NBX_FLOAT32 ? 4 : 2);
    if (stream) stream_bytes(y, from, bytes);
    else memcpy(y, from, bytes);
}

// e is exp(x - most), or x where a logarithm is wanted.
NBX_INLINE vf32 column_result(const column_work *w, int l, vf32 e) {
    if (w->log) return v_sub(v_sub(e, v_load(w->most + l)), v_load(w->sum + l));
    const vf32 inverse = v_load(w->inverse + l), q = v_mul(e, inverse);  // the quotient, as in scaled()
    return v_fma(v_fnma(q, v_load(w->sum + l), e), inverse, q);
}

// ---------------------------------------------------------------------------------------------------------- short lines
NBX_INLINE void short_load(column_work *w, float *buffer, const char *x, int64_t row, int64_t rows, int lanes, nbx_dtype dtype) {
    for (int l = 0; l < lanes; l += 16) {
        vf32 most = v_load(w->most + l);
        for (int64_t r = row; r < row + rows; r++) {
            const vf32 v = column_load(x + r * w->x_step, l, lanes - l, dtype);
            v_store(buffer + r * padded(lanes) + l, v);
            most = v_max(most, v);
        }
        v_store(w->most + l, most);
    }
}

// `next`: the rows of another block as wide, asked for meanwhile; or NULL.
NBX_INLINE void short_exp(column_work *w, float *buffer, int64_t row, int64_t rows, int lanes, const char *next, int lanes_bytes) {
    const int width = padded(lanes);
    for (int l = 0; l < lanes; l += 16) {
        const vf32 most = v_load(w->most + l);
        vf32 sum = v_zero();
        for (int64_t r = row; r < row + rows; r++) {
            const vf32 e = v_exp_below(v_sub(v_load(buffer + r * width + l), most));
            if (next) v_prefetch(next + r * w->x_step + l * lanes_bytes);
            if (!w->log) v_store(buffer + r * width + l, e);
            sum = v_add(sum, e);
        }
        v_store(w->sum + l, v_add(v_load(w->sum + l), sum));
    }
}

NBX_INLINE void short_results(const column_work *w, const float *buffer, char *y, int lanes, nbx_dtype dtype) {
    _Alignas(64) float results[COLUMNS];
    for (int64_t r = 0; r < w->length; r++) {
        for (int l = 0; l < lanes; l += 16) v_store(results + l, column_result(w, l, v_load(buffer + r * padded(lanes) + l)));
        column_store(y + r * w->y_step, results, lanes, w->stream, dtype);
    }
}

// ----------------------------------------------------------------------------------------------------------- long lines
NBX_INLINE void long_sums(column_work *w, const char *x, int lanes, nbx_dtype dtype) {
    for (int l = 0; l < padded(lanes); l++) w->total[l] = 0.0;
    for (int64_t row = 0; row < w->length; row += ROWS_AT_ONCE, x += ROWS_AT_ONCE * w->x_step) {
        const int64_t rows = w->length - row < ROWS_AT_ONCE ? w->length - row : ROWS_AT_ONCE;
        for (int l = 0; l < lanes; l += 16) {
            const vf32 was = v_load(w->most + l);
            vf32 most = was, sum = v_zero();
            for (int64_t r = 0; r < rows; r++) most = v_max(most, column_load(x + r * w->x_step, l, lanes - l, dtype));
            // Of an infinite maximum the end makes the result; until then it must only not disturb.
            const vf32 about = v_select(v_lt(v_abs(most), v_set1(INFINITY)), most, v_zero());
            for (int64_t r = 0; r < rows; r++) sum = v_add(sum, v_exp_below(v_sub(column_load(x + r * w->x_step, l, lanes - l, dtype), about)));
            const vf32 scale = v_exp_below(v_sub(was, about));
            v_store(w->most + l, most);
            vd_store(w->total + l, vd_fma(vd_load(w->total + l), v_low_f64(scale), v_low_f64(sum)));
            vd_store(w->total + l + 8, vd_fma(vd_load(w->total + l + 8), v_high_f64(scale), v_high_f64(sum)));
        }
    }
    for (int l = 0; l < lanes; l += 16) v_store(w->sum + l, v_from_f64(vd_load(w->total + l), vd_load(w->total + l + 8)));
}

NBX_INLINE void long_results(const column_work *w, const char *x, char *y, int lanes, nbx_dtype dtype) {
    _Alignas(64) float results[COLUMNS];
    for (int64_t r = 0; r < w->length; r++, x += w->x_step, y += w->y_step) {
        for (int l = 0; l < lanes; l += 16) {
            const vf32 v = column_load(x, l, lanes - l, dtype);
            v_store(results + l, column_result(w, l, w->log ? v : v_exp_below(v_sub(v, v_load(w->most + l)))));
        }
        column_store(y, results, lanes, w->stream, dtype);
    }
}

#endif

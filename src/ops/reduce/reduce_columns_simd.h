// Reductions of rows of a matrix into the lanes of a tile: lane l of every row goes to result l. Floats take 8 or 16 rows
// at a time in registers before they touch the accumulators (rows of a tile are long enough for the prefetcher, which loses
// to none of those written here: 4096 columns on a Zen 4 core 10.8 ms, of 512 at a time 14.4, asked for ahead 18); the loops over doubles and integers are plain, and
// compilers vectorise them without changing the order in any lane.
#ifndef NBX_OPS_REDUCE_COLUMNS_SIMD_H
#define NBX_OPS_REDUCE_COLUMNS_SIMD_H

#include "ops/reduce/reduce_rows_simd.h"

// x: rows of `lanes` dense elements, `step` bytes apart.
typedef void (*column_fn)(const part *p, int lanes, const char *x, int64_t step, int64_t rows);

NBX_INLINE vf32 column_load(const char *x, int lane, int left, nbx_dtype dtype) {
    return left >= 16 ? lanes_load(x, lane, dtype) : lanes_load_n(x, lane, left, dtype);
}

NBX_INLINE vf32 sum_term(vf32 x, int op) {
    if (op == REDUCE_SQUARE) return v_mul(x, x);
    if (op == REDUCE_ABS) return v_abs(x);
    if (op == REDUCE_NANSUM) return v_select(v_isnan(x), v_zero(), x);
    return x;
}

NBX_INLINE void column_sum_f32(const part *p, int lanes, const char *x, int64_t step, int64_t rows, nbx_dtype dtype,
                               int op) {
    double *sum = p->t->s[0].d;
    for (int64_t row = 0; row < rows; row += 8, x += 8 * step) {
        const int64_t count = rows - row < 8 ? rows - row : 8;
        for (int l = 0; l < lanes; l += 16) {
            const int left = lanes - l;
            vf32 s;
            if (count == 8) {
                const vf32 a = v_add(sum_term(column_load(x, l, left, dtype), op),
                                     sum_term(column_load(x + step, l, left, dtype), op));
                const vf32 b = v_add(sum_term(column_load(x + 2 * step, l, left, dtype), op),
                                     sum_term(column_load(x + 3 * step, l, left, dtype), op));
                const vf32 c = v_add(sum_term(column_load(x + 4 * step, l, left, dtype), op),
                                     sum_term(column_load(x + 5 * step, l, left, dtype), op));
                const vf32 d = v_add(sum_term(column_load(x + 6 * step, l, left, dtype), op),
                                     sum_term(column_load(x + 7 * step, l, left, dtype), op));
                s = v_add(v_add(a, b), v_add(c, d));
            } else {
                s = sum_term(column_load(x, l, left, dtype), op);
                for (int64_t r = 1; r < count; r++) s = v_add(s, sum_term(column_load(x + r * step, l, left, dtype), op));
            }
            vd_store(sum + l, vd_add(vd_load(sum + l), v_low_f64(s)));
            vd_store(sum + l + 8, vd_add(vd_load(sum + l + 8), v_high_f64(s)));
        }
    }
}

NBX_INLINE void column_extreme_f32(const part *p, int slot_index, int lanes, const char *x, int64_t step, int64_t rows,
                                   nbx_dtype dtype, int op) {
    double *best = p->t->s[slot_index].d;
    for (int64_t row = 0; row < rows; row += 8, x += 8 * step) {
        const int64_t count = rows - row < 8 ? rows - row : 8;
        for (int l = 0; l < lanes; l += 16) {
            vf32 m = v_from_f64(vd_load(best + l), vd_load(best + l + 8));
            for (int64_t r = 0; r < count; r++) {
                m = extreme_of(m, extreme_in(column_load(x + r * step, l, lanes - l, dtype), op), op);
            }
            vd_store(best + l, v_low_f64(m));
            vd_store(best + l + 8, v_high_f64(m));
        }
    }
}

NBX_INLINE void column_arg_f32(const part *p, int lanes, const char *x, int64_t step, int64_t rows, nbx_dtype dtype, int op) {
    double *best = p->t->s[0].d;
    int64_t *index = p->t->s[1].i;
    for (int64_t row = 0; row < rows; row += 8, x += 8 * step) {
        const int64_t count = rows - row < 8 ? rows - row : 8;
        for (int l = 0; l < lanes; l += 16) {
            vf32 m = v_from_f64(vd_load(best + l), vd_load(best + l + 8));
            vi32 which = vi_set1(-1);
            for (int64_t r = 0; r < count; r++) {
                const vf32 y = column_load(x + r * step, l, lanes - l, dtype);
                const vm32 beats = vm_or(is_least(op) ? v_lt(y, m) : v_gt(y, m), v_isnan(y));
                const vm32 takes = vm_and(beats, vm_not(v_isnan(m)));
                m = v_select(takes, y, m);
                which = vi_select(takes, vi_set1((int32_t)r), which);
            }
            if (!vm_any(vi_gt(which, vi_set1(-1)))) continue;
            int32_t rows_taken[16];
            vi_store(rows_taken, which);
            vd_store(best + l, v_low_f64(m));
            vd_store(best + l + 8, v_high_f64(m));
            for (int k = 0; k < 16; k++)
                if (rows_taken[k] >= 0) index[l + k] = p->index + row + rows_taken[k];
        }
    }
}

// mean, m2 of 8 lanes joined with those of more elements, the counts being the same in all lanes.
NBX_INLINE void join_moments_lanes(double *mean, double *m2, vf64 more_mean, vf64 more_m2, double n, double more) {
    const vf64 old = vd_load(mean), delta = vd_sub(more_mean, old);
    const double share = more / (n + more);
    const vf64 joined = vd_add(old, vd_mul(delta, vd_set1(share)));
    const vf64 spread = vd_mul(vd_mul(delta, delta), vd_set1(n * share));
    vd_store(mean, n == 0.0 ? more_mean : joined);
    vd_store(m2, n == 0.0 ? more_m2 : vd_add(vd_load(m2), vd_add(more_m2, spread)));
}

// 32 rows at a time, about the column's mean so far (its rounding and distance from theirs cost no more digits than joining them
// does: the square of that distance is part of the sum). The first ones are about their own mean.
NBX_INLINE void column_moments_f32(const part *p, int lanes, const char *x, int64_t step, int64_t rows, nbx_dtype dtype) {
    enum { TOGETHER = 32 };
    double *mean = p->t->s[0].d, *m2 = p->t->s[1].d;
    const bool ahead = step > 0 && step <= 1024;  // the prefetcher follows long rows, but not blocks of short ones
    for (int64_t row = 0; row < rows; row += TOGETHER, x += TOGETHER * step) {
        const int64_t count = rows - row < TOGETHER ? rows - row : TOGETHER;
        const double n = (double)(p->seen + row), more = (double)count;
        const vf64 inverse = vd_set1(1.0 / more);
        for (int l = 0; l < lanes; l += 16) {
            vf32 about, s = v_zero(), q = v_zero(), t = v_zero(), u = v_zero();
            if (p->seen + row == 0) {
                for (int64_t r = 0; r < count; r++) s = v_add(s, column_load(x + r * step, l, lanes - l, dtype));
                about = v_mul(s, v_set1((float)(1.0 / more)));
                s = v_zero();
            } else {
                about = v_from_f64(vd_load(mean + l), vd_load(mean + l + 8));
            }
            int64_t r = 0;
            for (; r + 4 <= count; r += 4) {
                const vf32 a = v_sub(column_load(x + r * step, l, lanes - l, dtype), about);
                const vf32 b = v_sub(column_load(x + (r + 1) * step, l, lanes - l, dtype), about);
                const vf32 c = v_sub(column_load(x + (r + 2) * step, l, lanes - l, dtype), about);
                const vf32 d = v_sub(column_load(x + (r + 3) * step, l, lanes - l, dtype), about);
                if (ahead)
                    for (int k = 0; k < 4; k++) v_prefetch(x + (TOGETHER + r + k) * step + l * (dtype == NBX_FLOAT32 ? 4 : 2));
                s = v_add(s, v_add(a, c)), t = v_add(t, v_add(b, d));
                q = v_fma(a, a, q), u = v_fma(b, b, u), q = v_fma(c, c, q), u = v_fma(d, d, u);
            }
            for (; r < count; r++) {
                const vf32 d = v_sub(column_load(x + r * step, l, lanes - l, dtype), about);
                s = v_add(s, d), q = v_fma(d, d, q);
            }
            s = v_add(s, t), q = v_add(q, u);
            const vf64 s0 = v_low_f64(s), s1 = v_high_f64(s), off0 = vd_mul(s0, inverse), off1 = vd_mul(s1, inverse);
            const vf64 q0 = vd_max(vd_fnma(off0, s0, v_low_f64(q)), vd_zero());
            const vf64 q1 = vd_max(vd_fnma(off1, s1, v_high_f64(q)), vd_zero());
            const uint32_t wild = vm_bits(vm_not(v_lt(v_add(v_abs(about), v_abs(s)), v_set1(INFINITY))));
            double old_mean[16], old_m2[16];
            if (wild) memcpy(old_mean, mean + l, sizeof old_mean), memcpy(old_m2, m2 + l, sizeof old_m2);
            join_moments_lanes(mean + l, m2 + l, vd_add(v_low_f64(about), off0), q0, n, more);
            join_moments_lanes(mean + l + 8, m2 + l + 8, vd_add(v_high_f64(about), off1), q1, n, more);
            for (int k = 0; wild && k < 16 && l + k < lanes; k++) {
                if (!(wild >> k & 1)) continue;
                mean[l + k] = old_mean[k], m2[l + k] = old_m2[k];
                for (int64_t i = 0; i < count; i++) {
                    float x0[16];
                    v_store(x0, lanes_load_n(x + i * step, l + k, 1, dtype));
                    moments_step(&mean[l + k], &m2[l + k], p->seen + row + i, (double)x0[0]);
                }
            }
        }
    }
}

NBX_INLINE void column_logsumexp_f32(const part *p, int lanes, const char *x, int64_t step, int64_t rows, nbx_dtype dtype) {
    double *most = p->t->s[0].d, *sum = p->t->s[1].d;
    for (int64_t row = 0; row < rows; row += 8, x += 8 * step) {
        const int64_t count = rows - row < 8 ? rows - row : 8;
        for (int l = 0; l < lanes; l += 16) {
            const vf32 was = v_from_f64(vd_load(most + l), vd_load(most + l + 8));
            vf32 m = was;
            for (int64_t r = 0; r < count; r++) m = v_max(m, column_load(x + r * step, l, lanes - l, dtype));
            // Of an infinite maximum the end makes the result; until then it must only not disturb.
            const vf32 about = v_select(v_lt(v_abs(m), v_set1(INFINITY)), m, v_zero());
            const vf32 scale = v_exp_below(v_sub(was, about));
            vf32 s = v_zero();
            for (int64_t r = 0; r < count; r++) {
                s = v_add(s, v_exp_below(v_sub(column_load(x + r * step, l, lanes - l, dtype), about)));
            }
            vd_store(most + l, v_low_f64(m));
            vd_store(most + l + 8, v_high_f64(m));
            vd_store(sum + l, vd_fma(vd_load(sum + l), v_low_f64(scale), v_low_f64(s)));
            vd_store(sum + l + 8, vd_fma(vd_load(sum + l + 8), v_high_f64(scale), v_high_f64(s)));
        }
    }
}

// ------------------------------------------------------------------------------------------------------------ doubles
NBX_INLINE double sum_term_f64(double x, int op) {
    if (op == REDUCE_SQUARE) return x * x;
    if (op == REDUCE_ABS) return fabs(x);
    if (op == REDUCE_NANSUM) return x != x ? 0.0 : x;
    return x;
}

NBX_INLINE void column_sum_f64(const part *p, int lanes, const char *x, int64_t step, int64_t rows, int op) {
    double *restrict high = p->t->s[0].d, *restrict low = p->t->s[1].d;
    for (int64_t row = 0; row < rows; row += 4, x += 4 * step) {
        const int64_t count = rows - row < 4 ? rows - row : 4;
        const double *restrict a = (const double *)(const void *)x;
        const double *restrict b = (const double *)(const void *)(x + (count > 1 ? step : 0));
        const double *restrict c = (const double *)(const void *)(x + (count > 2 ? 2 * step : 0));
        const double *restrict d = (const double *)(const void *)(x + (count > 3 ? 3 * step : 0));
        const double with_b = count > 1, with_c = count > 2, with_d = count > 3;
        if (count == 4) {
            for (int l = 0; l < lanes; l++) {
                const double s = (sum_term_f64(a[l], op) + sum_term_f64(b[l], op)) +
                                 (sum_term_f64(c[l], op) + sum_term_f64(d[l], op));
                const double total = high[l] + s, back = total - high[l];
                low[l] += (high[l] - (total - back)) + (s - back);
                high[l] = total;
            }
        } else {
            for (int l = 0; l < lanes; l++) {
                double s = sum_term_f64(a[l], op);
                if (with_b != 0.0) s += sum_term_f64(b[l], op);
                if (with_c != 0.0) s += sum_term_f64(c[l], op);
                if (with_d != 0.0) s += sum_term_f64(d[l], op);
                add_exact(&high[l], &low[l], s);
            }
        }
    }
}

NBX_INLINE void column_extreme_f64(const part *p, int slot_index, int lanes, const char *x, int64_t step, int64_t rows,
                                   int op) {
    double *restrict best = p->t->s[slot_index].d;
    const bool absolute = op == REDUCE_MAX_ABS || op == REDUCE_MIN_ABS;
    for (int64_t row = 0; row < rows; row++, x += step) {
        const double *restrict y = (const double *)(const void *)x;
        for (int l = 0; l < lanes; l++) best[l] = extreme_double(best[l], absolute ? fabs(y[l]) : y[l], op);
    }
}

NBX_INLINE void column_arg_f64(const part *p, int lanes, const char *x, int64_t step, int64_t rows, int op) {
    double *restrict best = p->t->s[0].d;
    int64_t *restrict index = p->t->s[1].i;
    for (int64_t row = 0; row < rows; row++, x += step) {
        const double *restrict y = (const double *)(const void *)x;
        for (int l = 0; l < lanes; l++)
            if (takes_over(best[l], y[l], op)) best[l] = y[l], index[l] = p->index + row;
    }
}

NBX_INLINE void column_moments_f64(const part *p, int lanes, const char *x, int64_t step, int64_t rows) {
    double *restrict mean = p->t->s[0].d, *restrict m2 = p->t->s[1].d;
    for (int64_t row = 0; row < rows; row++, x += step) {
        const double *restrict y = (const double *)(const void *)x;
        const double n = (double)(p->seen + row + 1);
        for (int l = 0; l < lanes; l++) {
            const double delta = y[l] - mean[l];
            mean[l] += delta / n;
            m2[l] += delta * (y[l] - mean[l]);
        }
    }
}

NBX_INLINE void column_prod_f64(const part *p, int lanes, const char *x, int64_t step, int64_t rows) {
    double *restrict into = p->t->s[0].d;
    for (int64_t row = 0; row < rows; row++, x += step) {
        const double *restrict y = (const double *)(const void *)x;
        for (int l = 0; l < lanes; l++) into[l] *= y[l];
    }
}

NBX_INLINE void column_power_f64(const part *p, int lanes, const char *x, int64_t step, int64_t rows) {
    double *into = p->t->s[0].d;
    for (int64_t row = 0; row < rows; row++, x += step) {
        const double *y = (const double *)(const void *)x;
        for (int l = 0; l < lanes; l++) into[l] += power_of(y[l], p->job->p);
    }
}

NBX_INLINE void column_logsumexp_f64(const part *p, int lanes, const char *x, int64_t step, int64_t rows) {
    for (int64_t row = 0; row < rows; row++, x += step) {
        const double *y = (const double *)(const void *)x;
        for (int l = 0; l < lanes; l++) row_logsumexp_f64(p, l, y + l, 1);
    }
}

// ----------------------------------------------------------------------------------------------------------- integers
NBX_INLINE int64_t wrap_add(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }
NBX_INLINE int64_t wrap_mul(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }

NBX_INLINE void column_i64(const part *p, int lanes, const char *x, int64_t step, int64_t rows, int op) {
    int64_t *restrict a = p->t->s[0].i, *restrict b = p->t->s[1].i;
    for (int64_t row = 0; row < rows; row++, x += step) {
        const int64_t *restrict y = (const int64_t *)(const void *)x;
        const int64_t index = p->index + row;
        if (op == REDUCE_SUM) {
            for (int l = 0; l < lanes; l++) a[l] = wrap_add(a[l], y[l]);
        } else if (op == REDUCE_PROD) {
            for (int l = 0; l < lanes; l++) a[l] = wrap_mul(a[l], y[l]);
        } else if (op == REDUCE_MAX || op == REDUCE_MIN) {
            for (int l = 0; l < lanes; l++) a[l] = extreme_int(a[l], y[l], op);
        } else if (op == REDUCE_MINMAX) {
            for (int l = 0; l < lanes; l++) {
                a[l] = extreme_int(a[l], y[l], REDUCE_MIN);
                b[l] = extreme_int(b[l], y[l], REDUCE_MAX);
            }
        } else {
            for (int l = 0; l < lanes; l++)
                if (op == REDUCE_ARGMIN ? y[l] < a[l] : y[l] > a[l]) a[l] = y[l], b[l] = index;
        }
    }
}

NBX_INLINE void row_i64(const part *p, int lane, const int64_t *x, int64_t n, int op) {
    int64_t *a = &p->t->s[0].i[lane], *b = &p->t->s[1].i[lane];
    if (op == REDUCE_SUM) {
        uint64_t sum = 0;
        for (int64_t i = 0; i < n; i++) sum += (uint64_t)x[i];
        *a = wrap_add(*a, (int64_t)sum);
    } else if (op == REDUCE_PROD) {
        for (int64_t i = 0; i < n; i++) *a = wrap_mul(*a, x[i]);
    } else if (op == REDUCE_MAX || op == REDUCE_MIN) {
        int64_t best = *a;
        for (int64_t i = 0; i < n; i++) best = extreme_int(best, x[i], op);
        *a = best;
    } else if (op == REDUCE_MINMAX) {
        int64_t least = *a, most = *b;
        for (int64_t i = 0; i < n; i++) {
            least = extreme_int(least, x[i], REDUCE_MIN);
            most = extreme_int(most, x[i], REDUCE_MAX);
        }
        *a = least, *b = most;
    } else {
        int64_t best = x[0], at = 0;
        for (int64_t i = 1; i < n; i++) best = extreme_int(best, x[i], op);
        if (op == REDUCE_ARGMIN ? best >= *a : best <= *a) return;
        while (x[at] != best) at++;
        *a = best, *b = p->index + at;
    }
}

// ------------------------------------------------------------------------------------------------------------ complex
NBX_INLINE void row_complex(const part *p, int lane, const double *x, int64_t n, int op) {
    double *a = &p->t->s[0].d[lane], *b = &p->t->s[1].d[lane], *c = &p->t->s[2].d[lane];
    if (op == REDUCE_SUM) {
        double re[4] = {0}, im[4] = {0};
        for (int64_t i = 0; i < n; i++) re[i & 3] += x[2 * i], im[i & 3] += x[2 * i + 1];
        *a += (re[0] + re[2]) + (re[1] + re[3]);
        *b += (im[0] + im[2]) + (im[1] + im[3]);
    } else if (op == REDUCE_PROD) {
        for (int64_t i = 0; i < n; i++) {
            const double re = *a * x[2 * i] - *b * x[2 * i + 1], im = *a * x[2 * i + 1] + *b * x[2 * i];
            *a = re, *b = im;
        }
    } else if (op == REDUCE_SQUARE) {
        double sum = 0.0;
        for (int64_t i = 0; i < n; i++) sum += x[2 * i] * x[2 * i] + x[2 * i + 1] * x[2 * i + 1];
        if (sum != sum) {  // the size of an infinity and a NaN is infinite
            sum = 0.0;
            for (int64_t i = 0; i < n; i++) sum += hypot(x[2 * i], x[2 * i + 1]);
        }
        *a += sum;
    } else if (op == REDUCE_MOMENTS) {
        for (int64_t i = 0; i < n; i++) {
            const double k = (double)(p->seen + i + 1), re = x[2 * i] - *a, im = x[2 * i + 1] - *b;
            *a += re / k, *b += im / k;
            *c += re * (x[2 * i] - *a) + im * (x[2 * i + 1] - *b);
        }
    } else if (op == REDUCE_LOGSUMEXP) {
        for (int64_t i = 0; i < n; i++) {
            const double was = *a, most = extreme_double(was, x[2 * i], REDUCE_MAX);
            *a = most;
            const double about = isfinite(most) ? most : 0.0, scale = was == most || was == -(double)INFINITY ? 1.0 : exp(was - about);
            const double size = exp(x[2 * i] - about);
            *b = *b * scale + size * cos(x[2 * i + 1]);
            *c = *c * scale + (x[2 * i + 1] == 0.0 ? 0.0 : size * sin(x[2 * i + 1]));
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            const double size = hypot(x[2 * i], x[2 * i + 1]);
            if (op == REDUCE_ABS) *a += size;
            else if (op == REDUCE_POWER) *a += power_of(size, p->job->p);
            else *a = extreme_double(*a, size, op);
        }
    }
}

#endif

// Distances between rows on the CPU: rows in pieces of 512 elements, staged only where they are not dense.
#include "cpu/simd.h"

#include "cpu/pool.h"
#include "ops/norm/distance.h"
#include "ops/reduce/reduce_rows_simd.h"
#include "ops/reduce/stage_simd.h"

typedef struct row {
    const char *p;
    int64_t step;  // bytes
} row;

// One piece of |a - b|: a sum of powers, a maximum, or a count, into total.
NBX_INLINE void piece_f32(const float *a, const float *b, int64_t n, double p, double *total) {
    vf32 s = v_zero();
    double sum = 0.0;
    for (int64_t i = 0; i < n; i += 16) {
        const int left = n - i < 16 ? (int)(n - i) : 16;
        const vf32 d = left == 16 ? v_sub(v_load(a + i), v_load(b + i)) : v_sub(v_load_n(a + i, left), v_load_n(b + i, left));
        if (p == 2.0) s = v_fma(d, d, s);
        else if (p == 1.0) s = v_add(s, v_abs(d));
        else if (p == 0.0) s = v_add(s, v_select(v_ne(d, v_zero()), v_set1(1.0f), v_zero()));
        else if (p == (double)INFINITY) s = v_max(s, v_abs(d));
        else {
            float lanes[16];
            v_store(lanes, d);
            for (int k = 0; k < left; k++) sum += power_of((double)lanes[k], p);
        }
    }
    if (p == (double)INFINITY) *total = extreme_double(*total, (double)v_reduce_max(s), REDUCE_MAX);
    else *total += sum + vd_reduce_add(wide_sum(s));
}

static void piece_f64(const double *a, const double *b, int64_t n, double p, double *total) {
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs(a[i] - b[i]);
        if (p == 2.0) *total += d * d;
        else if (p == 1.0) *total += d;
        else if (p == 0.0) *total += d != 0.0 ? 1.0 : 0.0;
        else if (p == (double)INFINITY) *total = extreme_double(*total, d, REDUCE_MAX);
        else *total += power_of(d, p);
    }
}

static double distance(row a, row b, int64_t length, double p, nbx_dtype dtype) {
    double total = 0.0;
    for (int64_t i = 0; i < length; i += CHUNK) {
        const int64_t n = length - i < CHUNK ? length - i : CHUNK;
        const char *pa = a.p + i * a.step, *pb = b.p + i * b.step;
        if (dtype == NBX_FLOAT64) {
            double xa[CHUNK], xb[CHUNK];
            stage_f64(xa, pa, a.step, n, dtype);
            stage_f64(xb, pb, b.step, n, dtype);
            piece_f64(xa, xb, n, p, &total);
            continue;
        }
        float xa[CHUNK], xb[CHUNK];
        const float *fa = (const float *)(const void *)pa, *fb = (const float *)(const void *)pb;
        if (a.step != 4) stage_f32(xa, pa, a.step, n, dtype), fa = xa;
        if (b.step != 4) stage_f32(xb, pb, b.step, n, dtype), fb = xb;
        if (p == 2.0) piece_f32(fa, fb, n, 2.0, &total);
        else if (p == 1.0) piece_f32(fa, fb, n, 1.0, &total);
        else piece_f32(fa, fb, n, p, &total);
    }
    if (p == 2.0) return sqrt(total);
    return p == 0.0 || p == 1.0 || p == (double)INFINITY ? total : pow(total, 1.0 / p);
}

typedef struct task {
    const nbx_tensor *a, *b, *out;
    double p;
} task;

static const char *matrix_start(const nbx_tensor *t, const nbx_tensor *out, int64_t batch) {
    const int64_t bytes = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    int64_t offset = 0;
    for (int d = out->rank - 3; d >= 0; d--) {
        const int own = d - (out->rank - t->rank);
        const int64_t at = batch % out->shape[d];
        batch /= out->shape[d];
        if (own >= 0 && t->shape[own] != 1) offset += at * t->stride[own];
    }
    return (const char *)nbx_data(t) + offset * bytes;
}

static void cdist_rows(void *arg, int64_t begin, int64_t end, int thread) {
    const task *t = arg;
    const nbx_tensor *a = t->a, *b = t->b;
    const nbx_dtype dtype = (nbx_dtype)a->dtype;
    const int64_t bytes = (int64_t)nbx_dtype_size(dtype), rows = a->shape[a->rank - 2], others = b->shape[b->rank - 2];
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const row x = {matrix_start(a, t->out, i / rows) + i % rows * a->stride[a->rank - 2] * bytes, a->stride[a->rank - 1] * bytes};
        const char *other = matrix_start(b, t->out, i / rows);
        for (int64_t k = 0; k < others; k++) {
            const row y = {other + k * b->stride[b->rank - 2] * bytes, b->stride[b->rank - 1] * bytes};
            const double d = distance(x, y, a->shape[a->rank - 1], t->p, dtype);
            store_f64((char *)nbx_data(t->out) + (i * others + k) * bytes, 0, &d, 1, dtype);
        }
    }
}

// -------------------------------------------------------------------------------------- sixteen rows of the other matrix
// float32 and the powers that need no power: one pair in each lane. 512 x 512 x 64: 4860 us one pair after the other, 810 so
// (Zen 3, AVX2, GCC 12). A sum is made of sums of 32 terms, whatever rows are together.
enum { PANEL_TERMS = 256, TERMS_TOGETHER = 32, ROWS_TOGETHER = 64, FEWEST_OTHERS = 4 };

NBX_INLINE vf32 add_term(vf32 s, vf32 x, vf32 y, double p) {
    const vf32 d = v_sub(x, y);
    if (p == 2.0) return v_fma(d, d, s);
    return p == 1.0 ? v_add(s, v_abs(d)) : v_max(s, v_abs(d));
}

// totals[i][16] of `rows` rows of a, `count` of their elements, with the panel's.
NBX_INLINE void add_rows(const float *const *a, int rows, const float *panel, int64_t count, double p, vf32 *totals) {
    vf32 s[4];
    for (int64_t k = 0; k < count; k += TERMS_TOGETHER) {
        const int64_t end = count - k < TERMS_TOGETHER ? count : k + TERMS_TOGETHER;
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) s[i] = v_zero();
        for (int64_t l = k; l < end; l++) {
            const vf32 y = v_load(panel + l * 16);
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++) s[i] = add_term(s[i], v_set1(a[i][l]), y, p);
        }
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++) totals[i] = p == (double)INFINITY ? v_max(totals[i], s[i]) : v_add(totals[i], s[i]);
    }
}

NBX_INLINE void add_all_rows(const float *a, int64_t next, int64_t rows, const float *panel, int64_t count, double p, vf32 *totals) {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) {
        const float *const four[] = {a + i * next, a + (i + 1) * next, a + (i + 2) * next, a + (i + 3) * next};
        add_rows(four, 4, panel, count, p, totals + i);
    }
    for (; i < rows; i++) {
        const float *const one[] = {a + i * next};
        add_rows(one, 1, panel, count, p, totals + i);
    }
}

// panel[k][16] of `others` rows; lanes past them repeat the last one.
static void fill_panel(const float *b, int64_t next, int64_t others, int64_t count, float *panel) {
    int64_t k = 0;
    for (; others == 16 && k + 16 <= count; k += 16) v_copy_transposed(panel + k * 16, 16, b + k, next);
    for (; k < count; k++)
        for (int64_t i = 0; i < 16; i++) panel[k * 16 + i] = b[(i < others ? i : others - 1) * next + k];
}

// Up to ROWS_TOGETHER rows, `next` elements apart, with all of b.
static void panel_rows(const float *a, int64_t next, int64_t rows, const float *b, int64_t b_row, int64_t others, int64_t length, double p, float *out) {
    float panel[PANEL_TERMS * 16];
    vf32 totals[ROWS_TOGETHER];
    for (int64_t j = 0; j < others; j += 16) {
        const int64_t lanes = others - j < 16 ? others - j : 16;
        for (int64_t i = 0; i < rows; i++) totals[i] = v_zero();
        for (int64_t k = 0; k < length; k += PANEL_TERMS) {
            const int64_t count = length - k < PANEL_TERMS ? length - k : PANEL_TERMS;
            fill_panel(b + j * b_row + k, b_row, lanes, count, panel);
            if (p == 2.0) add_all_rows(a + k, next, rows, panel, count, 2.0, totals);
            else if (p == 1.0) add_all_rows(a + k, next, rows, panel, count, 1.0, totals);
            else add_all_rows(a + k, next, rows, panel, count, (double)INFINITY, totals);
        }
        for (int64_t i = 0; i < rows; i++) {
            const vf32 y = p == 2.0 ? v_sqrt(totals[i]) : totals[i];
            if (lanes == 16) v_store(out + i * others + j, y);
            else v_store_n(out + i * others + j, y, (int)lanes);
        }
    }
}

static bool takes_panels(const task *t) {
    const nbx_tensor *a = t->a, *b = t->b;
    return a->dtype == NBX_FLOAT32 && (t->p == 2.0 || t->p == 1.0 || t->p == (double)INFINITY) && b->shape[b->rank - 2] >= FEWEST_OTHERS &&
           a->stride[a->rank - 1] == 1 && b->stride[b->rank - 1] == 1;
}

static void cdist_panels(void *arg, int64_t begin, int64_t end, int thread) {
    const task *t = arg;
    const nbx_tensor *a = t->a, *b = t->b;
    const int64_t rows = a->shape[a->rank - 2], others = b->shape[b->rank - 2], next = a->stride[a->rank - 2];
    (void)thread;
    for (int64_t i = begin; i < end;) {
        int64_t count = rows - i % rows;
        if (count > end - i) count = end - i;
        if (count > ROWS_TOGETHER) count = ROWS_TOGETHER;
        panel_rows((const float *)(const void *)matrix_start(a, t->out, i / rows) + i % rows * next, next, count,
                   (const float *)(const void *)matrix_start(b, t->out, i / rows), b->stride[b->rank - 2], others, a->shape[a->rank - 1], t->p,
                   (float *)nbx_data(t->out) + i * others);
        i += count;
    }
}

nbx_status NBX_KERNEL(cdist_cpu)(nbx_op_call *c) {
    task t = {arg_tensor(c, 0), arg_tensor(c, 1), out_get(c, 0), *(const double *)c->state};
    if (t.out->numel == 0) return NBX_OK;
    const int64_t others = t.b->shape[t.b->rank - 2], length = t.a->shape[t.a->rank - 1];
    if (takes_panels(&t)) nbx_parallel_for(c->pool, t.out->numel / others, 65536 / (others * (length + 1)) + 16, cdist_panels, &t);
    else nbx_parallel_for(c->pool, t.out->numel / others, 16384 / (others * (length + 1)) + 1, cdist_rows, &t);
    return NBX_OK;
}

static void pdist_rows(void *arg, int64_t begin, int64_t end, int thread) {
    const task *t = arg;
    const nbx_dtype dtype = (nbx_dtype)t->a->dtype;
    const int64_t n = t->a->shape[0], bytes = (int64_t)nbx_dtype_size(dtype), step = t->a->stride[1] * bytes;
    const char *x = nbx_data(t->a);
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i * n - i * (i + 1) / 2;
        for (int64_t k = i + 1; k < n; k++) {
            const row a = {x + i * t->a->stride[0] * bytes, step}, b = {x + k * t->a->stride[0] * bytes, step};
            const double d = distance(a, b, t->a->shape[1], t->p, dtype);
            store_f64((char *)nbx_data(t->out) + (first + k - i - 1) * bytes, 0, &d, 1, dtype);
        }
    }
}

nbx_status NBX_KERNEL(pdist_cpu)(nbx_op_call *c) {
    task t = {arg_tensor(c, 0), NULL, out_get(c, 0), *(const double *)c->state};
    if (t.out->numel > 0) nbx_parallel_for(c->pool, t.a->shape[0], 1, pdist_rows, &t);
    return NBX_OK;
}

// embedding_renorm: rows that are named (once or more) and longer than max_norm are scaled to it.
nbx_status NBX_KERNEL(embedding_renorm_cpu)(nbx_op_call *c) {
    const nbx_tensor *table = arg_tensor(c, 0), *indices = arg_tensor(c, 1), *out = out_get(c, 0);
    const double max_norm = arg_float(c, 2), p = arg_float(c, 3);
    const nbx_dtype dtype = (nbx_dtype)table->dtype;
    const int64_t bytes = (int64_t)nbx_dtype_size(dtype), rows = table->shape[0], length = table->shape[1];
    uint8_t *named = c->scratch;
    memset(named, 0, (size_t)rows);
    for (int64_t i = 0; i < indices->numel; i++) {
        int64_t rest = i, offset = 0, index = 0;
        for (int d = indices->rank - 1; d >= 0; d--) offset += rest % indices->shape[d] * indices->stride[d], rest /= indices->shape[d];
        stage_i64(&index, (const char *)nbx_data(indices) + offset * (int64_t)nbx_dtype_size((nbx_dtype)indices->dtype), 0, 1,
                  (nbx_dtype)indices->dtype);
        if (index < 0 || index >= rows) return nbx_call_fail(c, NBX_ERROR_INDEX, "index %lld is out of range", (long long)index);
        named[index] = 1;
    }
    for (int64_t r = 0; r < rows; r++) {
        const char *x = (const char *)nbx_data(table) + r * table->stride[0] * bytes;
        char *y = (char *)nbx_data(out) + r * out->stride[0] * bytes;
        const int64_t x_step = table->stride[1] * bytes, y_step = out->stride[1] * bytes;
        double buffer[CHUNK], norm = 0.0, scale = 1.0;
        const double zeros[CHUNK] = {0};
        for (int pass = named[r] ? 0 : 1; pass < 2; pass++) {
            for (int64_t i = 0; i < length; i += CHUNK) {
                const int64_t n = length - i < CHUNK ? length - i : CHUNK;
                stage_f64(buffer, x + i * x_step, x_step, n, dtype);
                if (pass == 0) piece_f64(buffer, zeros, n, p, &norm);
                else {
                    for (int64_t k = 0; k < n; k++) buffer[k] *= scale;
                    store_f64(y + i * y_step, y_step, buffer, n, dtype);
                }
            }
            if (pass == 0) {
                if (p == 2.0) norm = sqrt(norm);
                else if (p != 0.0 && p != 1.0 && p != (double)INFINITY) norm = pow(norm, 1.0 / p);
                if (norm > max_norm) scale = max_norm / (norm + 1e-7);
            }
        }
    }
    return NBX_OK;
}

// Attention in one pass over the keys, for tiles of queries, without the matrix of scores.
//
// The lanes of a vector are queries: a block of scores is K q^T, keys by queries, so maxima and sums go down the keys, lane
// by lane, and the result is V^T p^T. K and V are read row by row where they lie and need no packing. A query's sums depend
// on its own row alone, in the order of keys, in blocks of 96: neighbours, threads and instruction sets change no bit.
// Queries of all heads that share a key head fill a tile together, which makes decoding with grouped heads a small product.
#include <math.h>

#include "core/half.h"
#include "cpu/pool.h"
#include "cpu/tile_simd.h"
#include "cpu/vecmath.h"
#include "ops/attention/attention.h"

#define FEW 4  // queries of a tile for which keys or elements are the lanes

typedef struct attention_job {
    const nbx_attention *p;
    float *scratch;
    size_t thread_floats;
    int64_t group, tiles;  // heads per key head; tiles of queries per key head
} attention_job;

// The queries of a tile, and what is known of each.
typedef struct attention_tile {
    int lanes, vectors;
    int64_t b, kv_head;
    int64_t head[TILE_LANES], row[TILE_LANES];
    int32_t limit[TILE_LANES];      // last key that the query sees
    int64_t mask[TILE_LANES];       // offset of its row of the mask
    bool mask_is_shared;            // one row of the mask for all
    float max[TILE_LANES], sum[TILE_LANES];
    float *q, *scores, *out;        // [head_dim][lanes], [keys][lanes], [v_dim][lanes]
    float *keys, *values;           // a block widened to float
} attention_tile;

TILE_INLINE float load_float(const char *p, int64_t i, nbx_dtype d) {
    switch (d) {
    case NBX_FLOAT16: return nbx_from_f16(((const uint16_t *)p)[i]);
    case NBX_BFLOAT16: return nbx_from_bf16(((const uint16_t *)p)[i]);
    case NBX_FLOAT64: return (float)((const double *)p)[i];
    case NBX_BOOL: return ((const uint8_t *)p)[i] ? 0.0f : -INFINITY;
    default: return ((const float *)p)[i];
    }
}

// Up to 16 numbers, zeros behind them.
static vf32 load_some(const char *p, int64_t at, int64_t step, int count, nbx_dtype d) {
    if (step == 1 && d == NBX_FLOAT32) return v_load_n((const float *)p + at, count);
    if (step == 1 && d == NBX_FLOAT16) return v_load_f16_n((const uint16_t *)p + at, count);
    if (step == 1 && d == NBX_BFLOAT16) return v_load_bf16_n((const uint16_t *)p + at, count);
    float lanes[16] = {0};
    for (int i = 0; i < count; i++) lanes[i] = load_float(p, at + i * step, d);
    return v_load(lanes);
}

static void store_some(char *p, int64_t at, int64_t step, int count, nbx_dtype d, vf32 x) {
    float lanes[16];
    v_store(lanes, x);
    for (int i = 0; step != 1 && i < count; i++) {
        if (d == NBX_FLOAT16) ((uint16_t *)p)[at + i * step] = nbx_to_f16(lanes[i]);
        else if (d == NBX_BFLOAT16) ((uint16_t *)p)[at + i * step] = nbx_to_bf16(lanes[i]);
        else ((float *)p)[at + i * step] = lanes[i];
    }
    if (step != 1) return;
    if (d == NBX_FLOAT16) v_store_f16_n((uint16_t *)p + at, x, count);
    else if (d == NBX_BFLOAT16) v_store_bf16_n((uint16_t *)p + at, x, count);
    else v_store_n((float *)p + at, x, count);
}

static int64_t at_batch(const attention_side *s, int64_t b, int64_t head) { return b * s->batch + head * s->head; }

// ------------------------------------------------------------------------------------------------------------- queries
// Rows of the queries as columns of the tile, 16 x 16 at a time.
static void bring_queries(const nbx_attention *p, const attention_tile *t) {
    for (int v = 0; v < TILE_VECTORS; v++) {
        for (int64_t e = 0; e < p->head_dim; e += 16) {
            const int count = (int)(p->head_dim - e < 16 ? p->head_dim - e : 16);
            float lanes[16][16];
            vf32 rows[16];
            for (int i = 0; i < 16; i++) {
                const int lane = v * 16 + i;
                const int64_t at = at_batch(&p->q, t->b, t->head[lane]) + t->row[lane] * p->q.row + e * p->q.col;
                rows[i] = lane < t->lanes ? load_some(p->q.data, at, p->q.col, count, p->dtype) : v_zero();
            }
            v_store_transposed(lanes[0], 16, rows);
            for (int k = 0; k < count; k++) v_store(t->q + (e + k) * TILE_LANES + v * 16, v_load(lanes[k]));
        }
    }
}

static void start_tile(const attention_job *job, int64_t task, float *scratch, attention_tile *t) {
    const nbx_attention *p = job->p;
    const int64_t first = task % job->tiles * TILE_LANES, total = job->group * p->q_len;
    t->kv_head = task / job->tiles % p->kv_heads;
    t->b = task / job->tiles / p->kv_heads;
    t->lanes = (int)(total - first < TILE_LANES ? total - first : TILE_LANES);
    t->vectors = (t->lanes + 15) / 16;
    t->q = scratch;
    t->scores = t->q + p->head_dim * ATTENTION_LANES;
    t->out = t->scores + ATTENTION_KEYS * ATTENTION_LANES;
    t->keys = t->out + p->v_dim * ATTENTION_LANES;
    t->values = t->keys + ATTENTION_KEYS * p->head_dim;
    t->mask_is_shared = true;
    for (int i = 0; i < TILE_LANES; i++) {
        const int64_t at = first + (i < t->lanes ? i : 0);
        t->head[i] = t->kv_head * job->group + at / p->q_len;
        t->row[i] = at % p->q_len;
        t->mask[i] = at_batch(&p->mask, t->b, t->head[i]) + t->row[i] * p->mask.row;
        t->mask_is_shared &= t->mask[i] == t->mask[0];
        const int64_t limit = p->causal ? t->row[i] + p->causal_shift : p->k_len - 1;
        t->limit[i] = (int32_t)(limit < -1 ? -1 : limit < p->k_len ? limit : p->k_len - 1);
        t->max[i] = -INFINITY;
        t->sum[i] = 0;
    }
    bring_queries(p, t);
    for (int64_t e = 0; e < p->v_dim * TILE_LANES; e++) t->out[e] = 0;
    for (int64_t k = 0; t->lanes <= FEW && k < ATTENTION_KEYS * TILE_LANES; k++) t->scores[k] = 0;  // of lanes that stay empty
}

// Rows of K or V of a block as floats: where they lie, or widened into `copy`.
static const float *block_rows(const nbx_attention *p, const attention_side *s, int64_t b, int64_t head, int64_t first, int64_t count,
                               int64_t columns, float *copy, int64_t *row, int64_t *col) {
    const int64_t at = at_batch(s, b, head) + first * s->row;
    if (p->dtype == NBX_FLOAT32) {
        *row = s->row, *col = s->col;
        return (const float *)s->data + at;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t e = 0;
        const uint16_t *from = (const uint16_t *)s->data + at + i * s->row;
        float *to = copy + i * columns;
        for (; s->col == 1 && e + 16 <= columns; e += 16)
            v_store(to + e, p->dtype == NBX_FLOAT16 ? v_load_f16(from + e) : v_load_bf16(from + e));
        for (; e < columns; e++) to[e] = load_float((const char *)from, e * s->col, p->dtype);
    }
    *row = columns, *col = 1;
    return copy;
}

// ------------------------------------------------------------------------------------------------------------ products
// acc[i][lane] over `rows` rows of a and `vectors` vectors of b [count][TILE_LANES].
TILE_INLINE void sum_rows(const float *a, int64_t a_row, int64_t a_k, const float *b, int64_t count, float *acc, bool first, int64_t rows,
                          int vectors) {
    int64_t i = 0;
    for (; i + TILE_ROWS <= rows; i += TILE_ROWS)
        tile_sums(a + i * a_row, a_row, a_k, b, NULL, TILE_LANES, count, acc + i * TILE_LANES, first, TILE_ROWS, vectors);
    for (; i + 4 <= rows; i += 4) tile_sums(a + i * a_row, a_row, a_k, b, NULL, TILE_LANES, count, acc + i * TILE_LANES, first, 4, vectors);
    for (; i + 2 <= rows; i += 2) tile_sums(a + i * a_row, a_row, a_k, b, NULL, TILE_LANES, count, acc + i * TILE_LANES, first, 2, vectors);
    for (; i < rows; i++) tile_sums(a + i * a_row, a_row, a_k, b, NULL, TILE_LANES, count, acc + i * TILE_LANES, first, 1, vectors);
}

static void product(const float *a, int64_t a_row, int64_t a_k, const float *b, int64_t count, float *acc, bool first, int64_t rows, int vectors) {
#if TILE_VECTORS > 1
    if (vectors == 1) {
        sum_rows(a, a_row, a_k, b, count, acc, first, rows, 1);
        return;
    }
    if (vectors == 2) {
        sum_rows(a, a_row, a_k, b, count, acc, first, rows, 2);
        return;
    }
#else
    (void)vectors;
#endif
    sum_rows(a, a_row, a_k, b, count, acc, first, rows, TILE_VECTORS);
}

// --------------------------------------------------------------------------------------------------------- few queries
// With a few queries, as in decoding, most lanes would be empty: then 16 keys, or 16 elements of a value, are the lanes. The sums are
// the same. 32 heads of 128, 1 query, 512 keys: 3.0 -> 0.6 ms (one Zen 4 core, GCC 12).
// to[e][i] = element e of row i, for 16 rows of which `count` exist.
static void turn_rows(const float *rows, int64_t row, int count, int elements, float to[16][16]) {
    if (count == 16 && elements == 16) {
        v_copy_transposed(to[0], 16, rows, row);
        return;
    }
    vf32 some[16];
    for (int i = 0; i < 16; i++) some[i] = i < count ? v_load_n(rows + i * row, elements) : v_zero();
    v_store_transposed(to[0], 16, some);
}

TILE_INLINE void few_scores(const attention_tile *t, const float *keys, int64_t row, int64_t head_dim, int64_t count, int lanes) {
    for (int64_t k = 0; k < count; k += 16) {
        const int some = (int)(count - k < 16 ? count - k : 16);
        vf32 sum[FEW];
        float turned[16][16], out[16];
#pragma GCC unroll 4
        for (int i = 0; i < lanes; i++) sum[i] = v_zero();
        for (int64_t e = 0; e < head_dim; e += 16) {
            const int elements = (int)(head_dim - e < 16 ? head_dim - e : 16);
            turn_rows(keys + k * row + e, row, some, elements, turned);
            for (int j = 0; j < elements; j++) {
                const vf32 x = v_load(turned[j]);
#pragma GCC unroll 4
                for (int i = 0; i < lanes; i++) sum[i] = v_fma(x, v_set1(t->q[(e + j) * TILE_LANES + i]), sum[i]);
            }
        }
#pragma GCC unroll 4
        for (int i = 0; i < lanes; i++) {
            v_store(out, sum[i]);
            for (int j = 0; j < some; j++) t->scores[(k + j) * TILE_LANES + i] = out[j];
        }
    }
}

static void few_sums(const attention_tile *t, const float *values, int64_t row, int64_t v_dim, int64_t count) {
    enum { VECTORS = 8 };
    for (int lane = 0; lane < t->lanes; lane++)
        for (int64_t e = 0; e < v_dim; e += 16 * VECTORS) {
            const int64_t elements = v_dim - e < 16 * VECTORS ? v_dim - e : 16 * VECTORS;
            float lanes[16 * VECTORS] = {0};
            vf32 sum[VECTORS];
            for (int64_t i = 0; i < elements; i++) lanes[i] = t->out[(e + i) * TILE_LANES + lane];
            if (elements == 16 * VECTORS) {
#pragma GCC unroll 8
                for (int v = 0; v < VECTORS; v++) sum[v] = v_load(lanes + v * 16);
                for (int64_t k = 0; k < count; k++) {
                    const vf32 weight = v_set1(t->scores[k * TILE_LANES + lane]);
#pragma GCC unroll 8
                    for (int v = 0; v < VECTORS; v++) sum[v] = v_fma(v_load(values + k * row + e + v * 16), weight, sum[v]);
                }
#pragma GCC unroll 8
                for (int v = 0; v < VECTORS; v++) v_store(lanes + v * 16, sum[v]);
            } else {
                for (int64_t i = 0; i < elements; i += 16) {
                    const int some = (int)(elements - i < 16 ? elements - i : 16);
                    vf32 one = v_load(lanes + i);
                    for (int64_t k = 0; k < count; k++)
                        one = v_fma(v_load_n(values + k * row + e + i, some), v_set1(t->scores[k * TILE_LANES + lane]), one);
                    v_store(lanes + i, one);
                }
            }
            for (int64_t i = 0; i < elements; i++) t->out[(e + i) * TILE_LANES + lane] = lanes[i];
        }
}

static void scores_of_few(const attention_tile *t, const float *keys, int64_t row, int64_t head_dim, int64_t count) {
    if (t->lanes == 1) few_scores(t, keys, row, head_dim, count, 1);
    else few_scores(t, keys, row, head_dim, count, FEW);
}

// ------------------------------------------------------------------------------------------------------------- softmax
static vf32 mask_vector(const nbx_attention *p, const attention_tile *t, int v, int64_t key) {
    if (t->mask_is_shared) return v_set1(load_float(p->mask.data, t->mask[0] + key * p->mask.col, p->mask_dtype));
    float lanes[16];
    for (int i = 0; i < 16; i++) lanes[i] = load_float(p->mask.data, t->mask[v * 16 + i] + key * p->mask.col, p->mask_dtype);
    return v_load(lanes);
}

// e^x, x <= 0, within 8 parts in 10^5, from a cubic whose sum becomes the bits (Malossi and others, 2015). ATen's kernel for halves
// on CPUs with AVX-512 uses it, and its logsumexp, which is float32, shows that.
static vf32 exp_of_halves(vf32 x) {
    const vf32 t = v_mul(x, v_set1(0x1.715476p+0f)), f = v_sub(t, v_floor(t));
    vf32 y = v_fma(f, v_set1(-0.079204240219773236f), v_set1(-0.22433836478672356f));
    y = v_fma(f, v_fma(f, y, v_set1(0.30354260500649682f)), v_set1(0.00010703434948458272f));
    y = v_from_bits(v_to_i32(v_fma(v_set1(0x1p+23f), v_sub(t, y), v_set1(127 * 0x1p+23f))));
    return v_select(v_lt(x, v_set1(-87.33654f)), v_zero(), v_select(v_isnan(x), x, y));
}

// Turns the scores of 16 queries into exponentials over the new maximum, and scales what was summed before.
static void softmax_block(const nbx_attention *p, attention_tile *t, int v, int64_t first, int64_t count) {
    const vf32 scale = v_set1(p->scale), low = v_set1(-INFINITY), old = v_load(t->max + v * 16);
    const vi32 limit = vi_load(t->limit + v * 16);
    bool cut = false;
    for (int i = 0; i < 16; i++) cut |= t->limit[v * 16 + i] < first + count - 1;
    vf32 max = old;
    for (int64_t k = 0; k < count; k++) {
        float *at = t->scores + k * TILE_LANES + v * 16;
        vf32 s = v_mul(v_load(at), scale);
        if (p->mask.data) s = v_add(s, mask_vector(p, t, v, first + k));
        if (cut) s = v_select(vi_gt(vi_set1((int32_t)(first + k)), limit), low, s);
        max = v_max(max, s);
        v_store(at, s);
    }
    // A query that has seen only -inf keeps a maximum of -inf and counts from 0, so that no exponential is of inf - inf.
    const vf32 base = v_select(v_eq(max, low), v_zero(), max), factor = v_exp(v_sub(old, base));
    const int64_t coarse = p->coarse_exp ? p->k_len / 16 * 16 : 0;  // the keys that ATen takes 16 at a time
    vf32 sum = v_mul(v_load(t->sum + v * 16), factor);
    for (int64_t k = 0; k < count; k++) {
        float *at = t->scores + k * TILE_LANES + v * 16;
        const vf32 x = v_sub(v_load(at), base), y = first + k < coarse ? exp_of_halves(x) : v_exp(x);
        sum = v_add(sum, y);
        v_store(at, y);
    }
    v_store(t->max + v * 16, max);
    v_store(t->sum + v * 16, sum);
    if (vm_all(v_eq(factor, v_set1(1)))) return;
    for (int64_t e = 0; e < p->v_dim; e++) {
        float *at = t->out + e * TILE_LANES + v * 16;
        v_store(at, v_mul(v_load(at), factor));
    }
}

// Columns of the tile as rows of the result, 16 x 16 at a time. A query that saw no key gets zeros.
static void finish_tile(const nbx_attention *p, const attention_tile *t) {
    for (int v = 0; v < t->vectors; v++) {
        const vf32 sum = v_load(t->sum + v * 16);
        const vm32 unseen = v_eq(sum, v_zero());
        const vf32 factor = v_div(v_set1(1), sum);
        for (int64_t e = 0; e < p->v_dim; e += 16) {
            const int count = (int)(p->v_dim - e < 16 ? p->v_dim - e : 16);
            float lanes[16][16];
            vf32 rows[16];
            for (int k = 0; k < 16; k++)
                rows[k] = k < count ? v_select(unseen, v_zero(), v_mul(v_load(t->out + (e + k) * TILE_LANES + v * 16), factor)) : v_zero();
            v_store_transposed(lanes[0], 16, rows);
            for (int i = 0; i < 16 && v * 16 + i < t->lanes; i++) {
                const int lane = v * 16 + i;
                const int64_t at = at_batch(&p->out, t->b, t->head[lane]) + t->row[lane] * p->out.row + e * p->out.col;
                store_some((char *)p->out.data, at, p->out.col, count, p->dtype, v_load(lanes[i]));
            }
        }
    }
    for (int i = 0; i < t->lanes; i++) {
        const int64_t lse = at_batch(&p->lse, t->b, t->head[i]) + t->row[i] * p->lse.row;
        ((float *)p->lse.data)[lse] = t->sum[i] != 0 ? t->max[i] + logf(t->sum[i]) : 0;
    }
}

static void tile_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const attention_job *job = arg;
    const nbx_attention *p = job->p;
    attention_tile t;
    int64_t row, col;
    for (int64_t task = begin; task < end; task++) {
        start_tile(job, task, job->scratch + (size_t)thread * job->thread_floats, &t);
        int64_t keys = 0;
        for (int i = 0; i < t.lanes; i++) keys = t.limit[i] + 1 > keys ? t.limit[i] + 1 : keys;
        for (int64_t first = 0; first < keys; first += ATTENTION_KEYS) {
            const int64_t count = keys - first < ATTENTION_KEYS ? keys - first : ATTENTION_KEYS;
            const float *k = block_rows(p, &p->k, t.b, t.kv_head, first, count, p->head_dim, t.keys, &row, &col);
            const bool few = t.lanes <= FEW;
            if (few && col == 1) scores_of_few(&t, k, row, p->head_dim, count);
            else product(k, row, col, t.q, p->head_dim, t.scores, true, count, t.vectors);
            for (int v = 0; v < t.vectors; v++) softmax_block(p, &t, v, first, count);
            const float *x = block_rows(p, &p->v, t.b, t.kv_head, first, count, p->v_dim, t.values, &row, &col);
            if (few && col == 1) few_sums(&t, x, row, p->v_dim, count);
            else product(x, col, row, t.scores, count, t.out, false, p->v_dim, t.vectors);
        }
        finish_tile(p, &t);
    }
}

// ------------------------------------------------------------------------------------------------------------- float64
static double mask64(const nbx_attention *p, int64_t at) {
    if (p->mask_dtype == NBX_FLOAT64) return ((const double *)p->mask.data)[at];
    return (double)load_float(p->mask.data, at, p->mask_dtype);
}

static void one_query64(const nbx_attention *p, int64_t b, int64_t head, int64_t row, double *scores, double *sums) {
    const int64_t kv_head = head / (p->heads / p->kv_heads);
    const double *q = (const double *)p->q.data + at_batch(&p->q, b, head) + row * p->q.row;
    const double *k = (const double *)p->k.data + at_batch(&p->k, b, kv_head), *v = (const double *)p->v.data + at_batch(&p->v, b, kv_head);
    const int64_t limit = p->causal ? row + p->causal_shift : p->k_len - 1, keys = limit < 0 ? 0 : limit < p->k_len ? limit + 1 : p->k_len;
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < keys; i++) {
        double s = 0;
        for (int64_t e = 0; e < p->head_dim; e++) s += q[e * p->q.col] * k[i * p->k.row + e * p->k.col];
        s *= p->scale64;
        if (p->mask.data) s += mask64(p, at_batch(&p->mask, b, head) + row * p->mask.row + i * p->mask.col);
        scores[i] = s;
        max = s > max || isnan(s) ? s : max;
    }
    const double base = max == -INFINITY ? 0 : max;
    for (int64_t e = 0; e < p->v_dim; e++) sums[e] = 0;
    for (int64_t i = 0; i < keys; i++) {
        const double y = exp(scores[i] - base);
        sum += y;
        for (int64_t e = 0; e < p->v_dim; e++) sums[e] += y * v[i * p->v.row + e * p->v.col];
    }
    const int64_t at = at_batch(&p->out, b, head) + row * p->out.row;
    for (int64_t e = 0; e < p->v_dim; e++) ((double *)p->out.data)[at + e * p->out.col] = sum != 0 ? sums[e] / sum : 0;
    ((double *)p->lse.data)[at_batch(&p->lse, b, head) + row * p->lse.row] = sum != 0 ? base + log(sum) : 0;
}

static void tasks64(void *arg, int64_t begin, int64_t end, int thread) {
    const attention_job *job = arg;
    const nbx_attention *p = job->p;
    double *scores = (double *)(job->scratch + (size_t)thread * job->thread_floats);
    for (int64_t i = begin; i < end; i++)
        one_query64(p, i / p->q_len / p->heads, i / p->q_len % p->heads, i % p->q_len, scores, scores + p->k_len);
}

nbx_status NBX_KERNEL(attention_cpu)(nbx_op_call *call) {
    nbx_attention p;
    if (out_get(call, 0)->numel == 0 && out_get(call, 1)->numel == 0) return NBX_OK;
    nbx_attention_of(call, &p);
    attention_job job = {&p, call->scratch, nbx_attention_floats(&p), p.heads / p.kv_heads, 0};
    if (p.dtype == NBX_FLOAT64) {
        nbx_parallel_for(call->pool, p.batch * p.heads * p.q_len, 1 + 4096 / ((p.k_len + 1) * (p.head_dim + 8)), tasks64, &job);
        return NBX_OK;
    }
    job.tiles = (job.group * p.q_len + TILE_LANES - 1) / TILE_LANES;
    nbx_parallel_for(call->pool, p.batch * p.kv_heads * job.tiles, 1, tile_tasks, &job);
    return NBX_OK;
}

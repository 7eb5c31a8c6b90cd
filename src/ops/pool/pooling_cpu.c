// Pooling kernels. Three walks:
//   rows       float dtypes: the rows of a window are combined into one row in cache, vectors along the width; then the
//              columns of that row, vectors of positions where windows lie evenly
//   channels   float dtypes, channels last: vectors along the channels
//   elements   everything else, one position at a time
// The maximum's index is that of the first largest element in row-major order, or of the last NaN; as ATen's.
#include <math.h>
#include <string.h>

#include "cpu/pool.h"
#include "cpu/simd.h"
#include "ops/matmul/plain_numbers.h"
#include "ops/pool/pooling.h"
#include "ops/shape/move.h"

static bool is_max(const nbx_pooling *p) { return p->kind == POOL_MAX || p->kind == POOL_ADAPTIVE_MAX; }

typedef struct pool_job {
    const nbx_pooling *p;
    char *scratch;
    size_t row_bytes;
    bool even;     // nbx_pooling_is_even
    bool one_sum;  // averages of whole rows that fit a vector
} pool_job;

// A position of the result: its windows, and offsets of the plane it lies in.
typedef struct pool_place {
    int64_t n, c;
    pool_window z, y, x;
} pool_place;

static int64_t in_plane(const nbx_pooling *p, int64_t n, int64_t c) { return n * p->in_stride[0] + c * p->in_stride[1]; }

// What the sum of a window is divided by; 0: the window is empty.
static int64_t divisor_of(const nbx_pooling *p, const pool_place *at) {
    if (at->z.end <= at->z.start || at->y.end <= at->y.start || at->x.end <= at->x.start) return 0;
    if (p->divisor) return p->divisor;
    if (p->count_padding) return at->z.padded * at->y.padded * at->x.padded;
    return (at->z.end - at->z.start) * (at->y.end - at->y.start) * (at->x.end - at->x.start);
}

// --------------------------------------------------------------------------------------------------------------- rows
INLINE vf32 load_vector(const char *p, int64_t i, nbx_dtype d) {
    if (d == NBX_FLOAT16) return v_load_f16((const uint16_t *)p + i);
    if (d == NBX_BFLOAT16) return v_load_bf16((const uint16_t *)p + i);
    return v_load((const float *)p + i);
}

INLINE float load_float(const char *p, int64_t i, nbx_dtype d) {
    if (d == NBX_FLOAT16) return nbx_from_f16(((const uint16_t *)p)[i]);
    if (d == NBX_BFLOAT16) return nbx_from_bf16(((const uint16_t *)p)[i]);
    return ((const float *)p)[i];
}

INLINE void store_float(char *p, int64_t i, nbx_dtype d, float x) {
    if (d == NBX_FLOAT16) ((uint16_t *)p)[i] = nbx_to_f16(x);
    else if (d == NBX_BFLOAT16) ((uint16_t *)p)[i] = nbx_to_bf16(x);
    else ((float *)p)[i] = x;
}

INLINE vf32 load_some(const char *p, int64_t stride, int n, nbx_dtype d) {
    if (stride == 1 && n == 16) return load_vector(p, 0, d);
    if (stride == 1 && d == NBX_FLOAT32) return v_load_n((const float *)p, n);
    float lanes[16] = {0};
    for (int i = 0; i < n; i++) lanes[i] = load_float(p, i * stride, d);
    return v_load(lanes);
}

INLINE void store_some(char *p, int64_t at, int64_t stride, vf32 y, int n, nbx_dtype d) {
    if (stride == 1 && d == NBX_FLOAT32 && n == 16) {
        v_store((float *)p + at, y);
    } else if (stride == 1 && d == NBX_FLOAT32) {
        v_store_n((float *)p + at, y, n);
    } else if (stride == 1 && n == 16) {
        if (d == NBX_FLOAT16) v_store_f16((uint16_t *)p + at, y);
        else v_store_bf16((uint16_t *)p + at, y);
    } else if (stride == 1 && d == NBX_FLOAT16) {
        v_store_f16_n((uint16_t *)p + at, y, n);
    } else if (stride == 1) {
        v_store_bf16_n((uint16_t *)p + at, y, n);
    } else {
        float lanes[16];
        v_store(lanes, y);
        for (int i = 0; i < n; i++) store_float(p, at + i * stride, d, lanes[i]);
    }
}

// A row per thread, its padding around it: values that never win or add nothing, indices (as bits) above all others.
typedef struct pool_row {
    float *value;
    float *index;  // averages: by position, the factor of its divisor that is the width of its window
} pool_row;

static void column_lengths(const nbx_pooling *p, float *length) {
    for (int64_t x = 0; x < p->out[2]; x++) {
        const pool_window w = nbx_pooling_window(p, 2, x);
        length[x] = w.end <= w.start ? 0 : p->divisor ? 1 : (float)(p->count_padding ? w.padded : w.end - w.start);
    }
}

static pool_row padded_row(const pool_job *job, int thread) {
    const int64_t floats = (int64_t)(job->row_bytes / sizeof(float)), left = job->p->padding[2];
    float *value = (float *)(job->scratch + (size_t)thread * 2 * job->row_bytes), *index = value + floats;
    const vf32 absent = v_set1(is_max(job->p) ? -INFINITY : 0), beyond = v_from_bits(vi_set1(INT32_MAX));
    for (int64_t i = 0; i < floats; i += 16) v_store(value + i, absent), v_store(index + i, beyond);
    if (!is_max(job->p) && job->even) column_lengths(job->p, index);
    return (pool_row){value + left, is_max(job->p) ? index + left : index};
}

// The rows of a window: their sums, or the largest elements and where they are. Returns the last vector.
INLINE vf32 combine_rows(const nbx_pooling *p, const pool_place *at, pool_row row, bool max, bool indices, nbx_dtype d) {
    const int64_t bytes = (int64_t)nbx_dtype_size(d), width = p->in[2], step = p->in_stride[4];
    const int64_t z_step = p->step[0] * p->in_stride[2] * bytes, y_step = p->step[1] * p->in_stride[3] * bytes;
    const char *first = p->input + (in_plane(p, at->n, at->c) + at->z.start * p->in_stride[2] + at->y.start * p->in_stride[3]) * bytes;
    const vf32 absent = v_set1(max ? -INFINITY : 0);
    vf32 best = absent;
    for (int64_t x = 0; x < width; x += 16) {
        const int n = width - x < 16 ? (int)(width - x) : 16;
        const char *plane = first + x * step * bytes;
        best = absent;
        vi32 flat = vi_set1((int32_t)((at->z.start * p->in[1] + at->y.start) * width));  // all -inf: the first element
        for (int64_t z = at->z.start; z < at->z.end; z += p->step[0], plane += z_step) {
            const char *from = plane;
            for (int64_t y = at->y.start; y < at->y.end; y += p->step[1], from += y_step) {
                const vf32 next = load_some(from, step, n, d);
                if (indices) flat = vi_select(vm_or(v_gt(next, best), v_isnan(next)), vi_set1((int32_t)((z * p->in[1] + y) * width)), flat);
                best = max ? v_max(next, best) : v_add(best, next);
            }
        }
        v_store(row.value + x, n < 16 ? v_select(vm_first(n), best, absent) : best);
        if (!indices) continue;
        flat = vi_add(flat, vi_add(vi_set1((int32_t)x), vi_iota()));
        v_store(row.index + x, v_from_bits(n < 16 ? vi_select(vm_first(n), flat, vi_set1(INT32_MAX)) : flat));
    }
    return best;
}

// Two neighbouring columns of the windows of sixteen positions.
INLINE void two_columns(const float *row, int64_t stride, int64_t step, vf32 *a, vf32 *b) {
    if (stride == 1) {
        *a = v_load(row), *b = v_load(row + step);
    } else if (stride == 2 && step == 1) {
        v_load_pairs(row, a, b);
    } else {
        const vi32 lanes = vi_mul(vi_iota(), vi_set1((int32_t)stride));
        *a = v_gather(row, lanes), *b = v_gather(row + step, lanes);
    }
}

// Does a value replace the best so far? Equal values: the one that comes first row by row; NaN: the last.
INLINE void take_better(vf32 value, vi32 flat, vf32 *best, vi32 *best_flat) {
    const vm32 after = vi_gt(flat, *best_flat), before = vi_gt(*best_flat, flat);
    const vm32 nan = vm_and(v_isnan(value), vm_or(vm_not(v_isnan(*best)), after));
    const vm32 wins = vm_or(nan, vm_or(v_gt(value, *best), vm_and(v_eq(value, *best), before)));
    *best = v_select(wins, value, *best);
    *best_flat = vi_select(wins, flat, *best_flat);
}

static void store_indices(int64_t *to, int64_t stride, vi32 flat, int n) {
    int32_t lanes[16];
    vi_store(lanes, vi_select(vi_eq(flat, vi_set1(INT32_MAX)), vi_set1(0), flat));  // an empty window
    if (stride == 1 && n == 16)
        for (int i = 0; i < 16; i++) to[i] = lanes[i];
    else
        for (int i = 0; i < n; i++) to[i * stride] = lanes[i];
}

// Windows that lie evenly: sixteen positions at a time.
INLINE void even_columns(const nbx_pooling *p, const pool_place *at, pool_row row, int64_t out, int64_t to, bool max, bool indices, int64_t stride,
                         nbx_dtype d) {
    const int64_t kernel = p->kernel[2], step = p->step[2];
    pool_place one_column = *at;
    one_column.x = (pool_window){0, 1, 1};
    const float rows = max ? 1 : (float)divisor_of(p, &one_column);
    for (int64_t x = 0; x < p->out[2]; x += 16) {
        const int n = p->out[2] - x < 16 ? (int)(p->out[2] - x) : 16;
        const float *value = row.value + x * stride - p->padding[2], *index = row.index + x * stride - p->padding[2];
        vf32 best = v_set1(max ? -INFINITY : 0), a, b, a_bits, b_bits;
        vi32 flat = vi_set1(INT32_MAX);
        for (int64_t k = 0; k < kernel; k += 2) {
            two_columns(value + k * step, stride, step, &a, &b);
            if (indices) {
                two_columns(index + k * step, stride, step, &a_bits, &b_bits);
                take_better(a, v_bits(a_bits), &best, &flat);
                if (k + 1 < kernel) take_better(b, v_bits(b_bits), &best, &flat);
            } else {
                best = max ? v_max(a, best) : v_add(best, a);
                if (k + 1 < kernel) best = max ? v_max(b, best) : v_add(best, b);
            }
        }
        if (!max) {
            const vf32 by = v_mul(v_load(row.index + x), v_set1(rows));
            best = v_select(v_eq(by, v_zero()), v_zero(), v_div(best, by));
        }
        store_some(p->output, out + x * p->out_stride[4], p->out_stride[4], best, n, d);
        if (indices) store_indices(p->indices + to + x * p->index_stride[4], p->index_stride[4], flat, n);
    }
}

INLINE float sum_row(const float *row, int64_t count) {
    float sum = 0;
    int64_t i = 0;
    if (count >= 32) {
        vf32 sums = v_zero();
        for (; i + 16 <= count; i += 16) sums = v_add(sums, v_load(row + i));
        sum = v_reduce_add(sums);
    }
    for (; i < count; i++) sum += row[i];
    return sum;
}

INLINE bool replaces(float value, int32_t flat, float best, int32_t best_flat) {
    if (isnan(value)) return !isnan(best) || flat > best_flat;
    return value > best || (value == best && flat < best_flat);
}

// Windows of any lengths and distances.
INLINE void uneven_columns(const nbx_pooling *p, pool_place *at, pool_row row, int64_t out, int64_t to, bool max, bool indices, nbx_dtype d) {
    const int32_t *index = (const int32_t *)(const void *)row.index;
    for (int64_t x = 0; x < p->out[2]; x++) {
        at->x = nbx_pooling_window(p, 2, x);
        float best = max ? -INFINITY : 0;
        int32_t flat = INT32_MAX;
        if (!max) {
            const int64_t divisor = divisor_of(p, at);
            best = divisor ? sum_row(row.value + at->x.start, at->x.end - at->x.start) / (float)divisor : 0;
        } else {
            for (int64_t i = at->x.start; i < at->x.end; i += p->step[2]) {
                if (!indices) best = row.value[i] > best || isnan(row.value[i]) ? row.value[i] : best;
                else if (replaces(row.value[i], index[i], best, flat)) best = row.value[i], flat = index[i];
            }
            if (indices) p->indices[to + x * p->index_stride[4]] = flat == INT32_MAX ? 0 : flat;
        }
        store_float(p->output, out + x * p->out_stride[4], d, best);
    }
}

INLINE void one_row(const pool_job *job, pool_place *at, int64_t oz, int64_t oy, pool_row row, bool max, bool indices, nbx_dtype d) {
    const nbx_pooling *p = job->p;
    const int64_t out = at->n * p->out_stride[0] + at->c * p->out_stride[1] + oz * p->out_stride[2] + oy * p->out_stride[3];
    const int64_t to = at->n * p->index_stride[0] + at->c * p->index_stride[1] + oz * p->index_stride[2] + oy * p->index_stride[3];
    const vf32 last = combine_rows(p, at, row, max, indices, d);
    if (!max && job->one_sum) {  // lanes beyond the row are zero
        at->x = (pool_window){0, p->in[2], p->in[2]};
        const int64_t divisor = divisor_of(p, at);
        store_float(p->output, out, d, divisor ? v_reduce_add(last) / (float)divisor : 0);
    } else if (!job->even) uneven_columns(p, at, row, out, to, max, indices, d);
    else if (p->stride[2] == 1) even_columns(p, at, row, out, to, max, indices, 1, d);
    else if (p->stride[2] == 2) even_columns(p, at, row, out, to, max, indices, 2, d);
    else even_columns(p, at, row, out, to, max, indices, p->stride[2], d);
}

INLINE void each_row(const pool_job *job, int64_t begin, int64_t end, pool_row row, nbx_dtype d) {
    const nbx_pooling *p = job->p;
    int64_t oy = begin % p->out[1], oz = begin / p->out[1] % p->out[0], plane = begin / p->out[1] / p->out[0];
    pool_place at = {plane / p->channels, plane % p->channels, nbx_pooling_window(p, 0, oz), {0, 0, 0}, {0, 0, 0}};
    for (int64_t task = begin; task < end; task++) {
        at.y = nbx_pooling_window(p, 1, oy);
        if (!is_max(p)) one_row(job, &at, oz, oy, row, false, false, d);
        else if (p->indices) one_row(job, &at, oz, oy, row, true, true, d);
        else one_row(job, &at, oz, oy, row, true, false, d);
        if (++oy < p->out[1]) continue;
        oy = 0;
        if (++oz == p->out[0]) {
            oz = 0;
            if (++at.c == p->channels) at.c = 0, at.n++;
        }
        at.z = nbx_pooling_window(p, 0, oz);
    }
}

static void row_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const pool_job *job = arg;
    const pool_row row = padded_row(job, thread);
    switch (job->p->dtype) {
    case NBX_FLOAT16: each_row(job, begin, end, row, NBX_FLOAT16); break;
    case NBX_BFLOAT16: each_row(job, begin, end, row, NBX_BFLOAT16); break;
    default: each_row(job, begin, end, row, NBX_FLOAT32);
    }
}

// ------------------------------------------------------------------------------------------------------------ channels
INLINE void store_channels(const nbx_pooling *p, int64_t out, vf32 y, nbx_dtype d) {
    if (d == NBX_FLOAT16) v_store_f16((uint16_t *)p->output + out, y);
    else if (d == NBX_BFLOAT16) v_store_bf16((uint16_t *)p->output + out, y);
    else v_store((float *)p->output + out, y);
}

// Sixteen channels of one position.
INLINE void sixteen_channels(const nbx_pooling *p, const pool_place *at, int64_t out, int64_t to, bool max, nbx_dtype d) {
    vf32 best = v_set1(max ? -INFINITY : 0);
    vi32 index = vi_set1((int32_t)((at->z.start * p->in[1] + at->y.start) * p->in[2] + at->x.start));
    for (int64_t z = at->z.start; z < at->z.end; z += p->step[0])
        for (int64_t y = at->y.start; y < at->y.end; y += p->step[1])
            for (int64_t x = at->x.start; x < at->x.end; x += p->step[2]) {
                const int64_t from = in_plane(p, at->n, at->c) + z * p->in_stride[2] + y * p->in_stride[3] + x * p->in_stride[4];
                const vf32 next = load_vector(p->input, from, d);
                if (!max) {
                    best = v_add(best, next);
                    continue;
                }
                const vm32 wins = vm_or(v_gt(next, best), v_isnan(next));
                best = v_select(wins, next, best);
                index = vi_select(wins, vi_set1((int32_t)((z * p->in[1] + y) * p->in[2] + x)), index);
            }
    if (!max) {
        const int64_t divisor = divisor_of(p, at);
        best = divisor ? v_div(best, v_set1((float)divisor)) : v_zero();
    }
    store_channels(p, out, best, d);
    if (!max || !p->indices) return;
    int32_t lanes[16];
    vi_store(lanes, index);
    for (int i = 0; i < 16; i++) p->indices[to + i] = lanes[i];
}

// ------------------------------------------------------------------------------------------------------------ elements
INLINE int64_t lowest(nbx_dtype d) { return d == NBX_UINT8 ? 0 : INT64_MIN >> (64 - 8 * nbx_dtype_size(d)); }

INLINE void one_element(const nbx_pooling *p, const pool_place *at, int64_t out, int64_t to, nbx_dtype d) {
    const bool max = is_max(p), whole = nbx_dtype_is_integral(d, false);
    double best = max ? -INFINITY : 0;
    int64_t best_int = max && whole ? lowest(d) : 0, index = (at->z.start * p->in[1] + at->y.start) * p->in[2] + at->x.start;
    for (int64_t z = at->z.start; z < at->z.end; z += p->step[0])
        for (int64_t y = at->y.start; y < at->y.end; y += p->step[1])
            for (int64_t x = at->x.start; x < at->x.end; x += p->step[2]) {
                const int64_t from = in_plane(p, at->n, at->c) + z * p->in_stride[2] + y * p->in_stride[3] + x * p->in_stride[4];
                const int64_t flat = (z * p->in[1] + y) * p->in[2] + x;
                if (whole) {
                    const int64_t next = (int64_t)load_int(p->input, from, d);
                    if (!max) best_int = (int64_t)((uint64_t)best_int + (uint64_t)next);
                    else if (next > best_int) best_int = next, index = flat;
                } else {
                    const double next = load_real(p->input, from, d);
                    if (!max) best += next;
                    else if (next > best || isnan(next)) best = next, index = flat;
                }
            }
    if (!max) {
        const int64_t divisor = divisor_of(p, at);
        best_int = divisor ? best_int / divisor : 0;
        best = divisor ? best / (double)divisor : 0;
    }
    if (whole) store_int(p->output, out, d, (uint64_t)best_int);
    else store_real(p->output, out, d, best);
    if (max && p->indices) p->indices[to] = index;
}

static void any_element(const nbx_pooling *p, const pool_place *at, int64_t out, int64_t to) {
    switch (p->dtype) {
    case NBX_UINT8: one_element(p, at, out, to, NBX_UINT8); break;
    case NBX_INT8: one_element(p, at, out, to, NBX_INT8); break;
    case NBX_INT16: one_element(p, at, out, to, NBX_INT16); break;
    case NBX_INT32: one_element(p, at, out, to, NBX_INT32); break;
    case NBX_INT64: one_element(p, at, out, to, NBX_INT64); break;
    case NBX_FLOAT16: one_element(p, at, out, to, NBX_FLOAT16); break;
    case NBX_BFLOAT16: one_element(p, at, out, to, NBX_BFLOAT16); break;
    case NBX_FLOAT64: one_element(p, at, out, to, NBX_FLOAT64); break;
    default: one_element(p, at, out, to, NBX_FLOAT32);
    }
}

static int64_t offset_of(const int64_t *stride, int64_t n, int64_t c, int64_t z, int64_t y, int64_t x) {
    return n * stride[0] + c * stride[1] + z * stride[2] + y * stride[3] + x * stride[4];
}

static bool is_wide(const nbx_pooling *p) {
    return p->in_stride[1] == 1 && p->out_stride[1] == 1 && (!p->indices || p->index_stride[1] == 1) && p->channels >= 16 &&
           (p->dtype == NBX_FLOAT32 || p->dtype == NBX_FLOAT16 || p->dtype == NBX_BFLOAT16);
}

static void wide_channels(const nbx_pooling *p, const pool_place *at, int64_t out, int64_t to) {
    const bool max = is_max(p);
    switch (p->dtype) {
    case NBX_FLOAT16: max ? sixteen_channels(p, at, out, to, true, NBX_FLOAT16) : sixteen_channels(p, at, out, to, false, NBX_FLOAT16); break;
    case NBX_BFLOAT16: max ? sixteen_channels(p, at, out, to, true, NBX_BFLOAT16) : sixteen_channels(p, at, out, to, false, NBX_BFLOAT16); break;
    default: max ? sixteen_channels(p, at, out, to, true, NBX_FLOAT32) : sixteen_channels(p, at, out, to, false, NBX_FLOAT32);
    }
}

// All channels of the positions of one row.
static void position_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const pool_job *job = arg;
    const nbx_pooling *p = job->p;
    (void)thread;
    for (int64_t task = begin; task < end; task++) {
        const int64_t oy = task % p->out[1], oz = task / p->out[1] % p->out[0], n = task / p->out[1] / p->out[0];
        pool_place at = {n, 0, nbx_pooling_window(p, 0, oz), nbx_pooling_window(p, 1, oy), {0, 0, 0}};
        const bool wide = is_wide(p);
        for (int64_t ox = 0; ox < p->out[2]; ox++) {
            at.x = nbx_pooling_window(p, 2, ox);
            for (at.c = 0; at.c < p->channels;) {
                const int64_t out = offset_of(p->out_stride, n, at.c, oz, oy, ox), to = offset_of(p->index_stride, n, at.c, oz, oy, ox);
                if (wide && at.c + 16 <= p->channels) wide_channels(p, &at, out, to), at.c += 16;
                else any_element(p, &at, out, to), at.c++;
            }
        }
    }
}

nbx_status NBX_KERNEL(pooling_cpu)(nbx_op_call *call) {
    nbx_pooling p;
    if (out_get(call, 0)->numel == 0) return NBX_OK;
    nbx_pooling_of(call, &p);
    if (!p.input) {  // the mean of nothing
        char element[8];
        store_real(element, 0, p.dtype, (double)NAN);
        nbx_fill_tensor(NULL, out_get(call, 0), element);
        return NBX_OK;
    }
    pool_job job = {&p, call->scratch, call->scratch_bytes / (2 * (size_t)call->ctx->threads), nbx_pooling_is_even(&p),
                    p.kind == POOL_ADAPTIVE_AVG && p.out[2] == 1 && p.in[2] <= 16};
    const bool floats = p.dtype == NBX_FLOAT32 || p.dtype == NBX_FLOAT16 || p.dtype == NBX_BFLOAT16;
    const int64_t window = p.kernel[0] * p.kernel[1];
    if (floats && !is_wide(&p) && p.in[0] * p.in[1] * p.in[2] < INT32_MAX) {
        const int64_t tasks = p.batch * p.channels * p.out[0] * p.out[1];
        nbx_parallel_for(call->pool, tasks, 1 + 8192 / (window * (p.in[2] + 16)), row_tasks, &job);
    } else {
        const int64_t tasks = p.batch * p.out[0] * p.out[1];
        nbx_parallel_for(call->pool, tasks, 1 + 8192 / (p.channels * p.out[2] * window + 1), position_tasks, &job);
    }
    return NBX_OK;
}

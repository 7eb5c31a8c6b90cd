// Pooling kernels. Three walks:
//   rows       float dtypes: the rows of a window are combined into one row in cache, vectors along the width; then each
//              position combines its few columns of that row
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

// row[x] = sum, or larger, of itself and element x of an input row.
INLINE void take_row(const nbx_pooling *p, const char *from, float *row, int32_t *index, int32_t flat, bool max, bool indices, nbx_dtype d) {
    const int64_t width = p->in[2], stride = p->in_stride[4];
    int64_t x = 0;
    for (; stride == 1 && x + 16 <= width; x += 16) {
        const vf32 have = v_load(row + x), next = load_vector(from, x, d);
        if (!max) {
            v_store(row + x, v_add(have, next));
            continue;
        }
        const vm32 wins = vm_or(v_gt(next, have), v_isnan(next));
        v_store(row + x, v_select(wins, next, have));
        if (indices) vi_store(index + x, vi_select(wins, vi_set1(flat), vi_load(index + x)));
    }
    for (; x < width; x++) {
        const float next = load_float(from, x * stride, d);
        if (!max) {
            row[x] += next;
        } else if (next > row[x] || isnan(next)) {
            row[x] = next;
            if (indices) index[x] = flat;
        }
    }
}

INLINE void take_window_rows(const nbx_pooling *p, const pool_place *at, float *row, int32_t *index, bool max, bool indices, nbx_dtype d) {
    const int64_t bytes = (int64_t)nbx_dtype_size(d);
    for (int64_t x = 0; x < p->in[2]; x++) row[x] = max ? -INFINITY : 0;
    if (indices)  // all -inf: the first element of the window
        for (int64_t x = 0; x < p->in[2]; x++) index[x] = (int32_t)((at->z.start * p->in[1] + at->y.start) * p->in[2]);
    for (int64_t z = at->z.start; z < at->z.end; z += p->step[0])
        for (int64_t y = at->y.start; y < at->y.end; y += p->step[1]) {
            const char *from = p->input + (in_plane(p, at->n, at->c) + z * p->in_stride[2] + y * p->in_stride[3]) * bytes;
            take_row(p, from, row, index, (int32_t)((z * p->in[1] + y) * p->in[2]), max, indices, d);
        }
}

// Does a later column's value replace the best so far? Equal values: the one that comes first row by row; NaN: the last.
static bool replaces(float value, int64_t flat, float best, int64_t best_flat) {
    if (isnan(value)) return !isnan(best) || flat > best_flat;
    return value > best || (value == best && flat < best_flat);
}

INLINE void one_row(const nbx_pooling *p, pool_place *at, int64_t oz, int64_t oy, float *row, int32_t *index, bool max, nbx_dtype d) {
    const bool indices = max && p->indices;
    if (indices) take_window_rows(p, at, row, index, max, true, d);
    else take_window_rows(p, at, row, index, max, false, d);
    const int64_t out = at->n * p->out_stride[0] + at->c * p->out_stride[1] + oz * p->out_stride[2] + oy * p->out_stride[3];
    const int64_t to = at->n * p->index_stride[0] + at->c * p->index_stride[1] + oz * p->index_stride[2] + oy * p->index_stride[3];
    for (int64_t x = 0; x < p->out[2]; x++) {
        at->x = nbx_pooling_window(p, 2, x);
        if (!max) {
            float sum = 0;
            for (int64_t i = at->x.start; i < at->x.end; i++) sum += row[i];
            const int64_t divisor = divisor_of(p, at);
            store_float(p->output, out + x * p->out_stride[4], d, divisor ? sum / (float)divisor : 0);
            continue;
        }
        float best = -INFINITY;
        if (!indices) {
            for (int64_t i = at->x.start; i < at->x.end; i += p->step[2]) best = row[i] > best || isnan(row[i]) ? row[i] : best;
        } else {
            int64_t flat = at->x.start < at->x.end ? index[at->x.start] + at->x.start : 0;
            best = at->x.start < at->x.end ? row[at->x.start] : best;
            for (int64_t i = at->x.start + p->step[2]; i < at->x.end; i += p->step[2])
                if (replaces(row[i], index[i] + i, best, flat)) best = row[i], flat = index[i] + i;
            p->indices[to + x * p->index_stride[4]] = flat;
        }
        store_float(p->output, out + x * p->out_stride[4], d, best);
    }
}

static void row_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const pool_job *job = arg;
    const nbx_pooling *p = job->p;
    float *row = (float *)(job->scratch + (size_t)thread * 2 * job->row_bytes);
    int32_t *index = (int32_t *)((char *)row + job->row_bytes);
    for (int64_t task = begin; task < end; task++) {
        const int64_t oy = task % p->out[1], oz = task / p->out[1] % p->out[0], plane = task / p->out[1] / p->out[0];
        pool_place at = {plane / p->channels, plane % p->channels, nbx_pooling_window(p, 0, oz), nbx_pooling_window(p, 1, oy), {0, 0, 0}};
        const bool max = is_max(p);
        switch (p->dtype) {
        case NBX_FLOAT16: max ? one_row(p, &at, oz, oy, row, index, true, NBX_FLOAT16) : one_row(p, &at, oz, oy, row, index, false, NBX_FLOAT16); break;
        case NBX_BFLOAT16: max ? one_row(p, &at, oz, oy, row, index, true, NBX_BFLOAT16) : one_row(p, &at, oz, oy, row, index, false, NBX_BFLOAT16); break;
        default: max ? one_row(p, &at, oz, oy, row, index, true, NBX_FLOAT32) : one_row(p, &at, oz, oy, row, index, false, NBX_FLOAT32);
        }
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
INLINE void one_element(const nbx_pooling *p, const pool_place *at, int64_t out, int64_t to, nbx_dtype d) {
    const bool max = is_max(p), whole = nbx_dtype_is_integral(d, false);
    double best = max ? -INFINITY : 0;
    int64_t best_int = max ? INT64_MIN : 0, index = (at->z.start * p->in[1] + at->y.start) * p->in[2] + at->x.start;
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
    pool_job job = {&p, call->scratch, call->scratch_bytes / (2 * (size_t)call->ctx->threads)};
    const bool floats = p.dtype == NBX_FLOAT32 || p.dtype == NBX_FLOAT16 || p.dtype == NBX_BFLOAT16;
    const int64_t window = is_max(&p) || p.kind == POOL_AVG ? p.kernel[0] * p.kernel[1] : 1 + p.in[0] / p.out[0] * (p.in[1] / p.out[1]);
    if (floats && !is_wide(&p) && p.in[0] * p.in[1] * p.in[2] < INT32_MAX) {
        const int64_t tasks = p.batch * p.channels * p.out[0] * p.out[1];
        nbx_parallel_for(call->pool, tasks, 1 + 8192 / (window * (p.in[2] + 16)), row_tasks, &job);
    } else {
        const int64_t tasks = p.batch * p.out[0] * p.out[1];
        nbx_parallel_for(call->pool, tasks, 1 + 8192 / (p.channels * p.out[2] * window + 1), position_tasks, &job);
    }
    return NBX_OK;
}

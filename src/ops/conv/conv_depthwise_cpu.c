// Depthwise convolution, one channel at a time: rows of the image are read where they lie, and lanes beside it are masked, because
// moving rows to padded ones first took a third of the time. Half precision is widened to rows of floats before.
#include <string.h>

#include "core/half.h"
#include "cpu/gemm_load.h"
#include "cpu/pairs_simd.h"
#include "cpu/tile_simd.h"
#include "ops/conv/conv_kernels.h"
#include "ops/epilogue_simd.h"

#define ROWS 4  // of the result at a time, or vectors of a single row: four sums hide the latency of each other's multiply-adds
#define MAX_KERNEL 7  // of those with code of their own

typedef struct depthwise_job {
    const nbx_conv *p;
    char *scratch;
    conv_depthwise_plan plan;
} depthwise_job;

// What a task works on: one channel of one image, as float rows, and the filter.
typedef struct depthwise_channel {
    const float *first;           // element 0 of row `row0` of slice 0
    int64_t row0, step, line, slice;  // elements between neighbours, rows, slices
    const float *zeros;           // stands for rows outside the image
    const float *taps;            // [kz][ky][kx]
    float bias;
    int64_t z;                    // input slice of tap 0
    const nbx_epilogue_plain *end;
} depthwise_channel;

static const float *row_of(const nbx_conv *p, const depthwise_channel *c, int64_t z, int64_t y) {
    const bool inside = z >= 0 && z < p->in[0] && y >= 0 && y < p->in[1];
    return inside ? c->first + z * c->slice + (y - c->row0) * c->line : c->zeros;
}

// Which of the elements at, at + 1, ... a row of `size` has.
TILE_INLINE vm32 existing(int64_t at, int64_t size) {
    const int64_t low = at >= 0 ? 0 : at < -16 ? 16 : -at, end = size - at < 0 ? 0 : size - at > 16 ? 16 : size - at;
    return vm_and(vm_first((int)end), vm_not(vm_first((int)low)));
}

// Elements at, at + stride, ... of a row, step apart in memory.
TILE_INLINE vf32 spread(const nbx_conv *p, const depthwise_channel *c, const float *row, int64_t at) {
    const int64_t size = p->in[2], stride = p->stride[2];
    if (row == c->zeros) return v_zero();
    if (c->step == 1 && stride == 1) return v_load_where(row + at, existing(at, size));
    if (c->step == 1 && stride == 2)
        return v_even(v_load_where(row + at, existing(at, size)), v_load_where(row + at + 16, existing(at + 16, size)));
    float lanes[16];
    for (int64_t i = 0; i < 16; i++, at += stride) lanes[i] = at >= 0 && at < size ? row[at * c->step] : 0;
    return v_load(lanes);
}

TILE_INLINE void store(const nbx_conv *p, char *row, int64_t x, vf32 y, int count) {
    const int64_t step = p->out_stride[4];
    if (step == 1 && p->dtype == NBX_FLOAT32 && count == 16) {
        v_store((float *)row + x, y);
    } else if (step == 1 && p->dtype == NBX_FLOAT32) {
        v_store_n((float *)row + x, y, count);
    } else if (step == 1 && count == 16) {
        if (p->dtype == NBX_FLOAT16) v_store_f16((uint16_t *)row + x, y);
        else v_store_bf16((uint16_t *)row + x, y);
    } else if (step == 1 && p->dtype == NBX_FLOAT16) {
        v_store_f16_n((uint16_t *)row + x, y, count);
    } else if (step == 1) {
        v_store_bf16_n((uint16_t *)row + x, y, count);
    } else {
        float lanes[16];
        v_store(lanes, y);
        for (int i = 0; i < count; i++) {
            if (p->dtype == NBX_FLOAT32) ((float *)row)[(x + i) * step] = lanes[i];
            else if (p->dtype == NBX_FLOAT16) ((uint16_t *)row)[(x + i) * step] = nbx_to_f16(lanes[i]);
            else ((uint16_t *)row)[(x + i) * step] = nbx_to_bf16(lanes[i]);
        }
    }
}

// The epilogue of a vector of each of `count` rows, `next` bytes apart. Not inlined: the sums of a convolution without one stay in registers.
__attribute__((noinline)) static void end_sums(const nbx_conv *p, const depthwise_channel *c, const char *row, int64_t next, vf32 *sum, int count, int lanes) {
    for (int i = 0; i < count; i++) sum[i] = epilogue_plain(sum[i], c->end, (row + i * next - p->output) / (int64_t)sizeof(float), lanes);
}

TILE_INLINE void end_rows(const nbx_conv *p, const depthwise_channel *c, const char *row, int64_t next, vf32 *sum, int count, int lanes) {
    vf32 ended[ROWS];
    if (!c->end) return;
#pragma GCC unroll 4
    for (int i = 0; i < count; i++) ended[i] = sum[i];
    end_sums(p, c, row, next, ended, count, lanes);
#pragma GCC unroll 4
    for (int i = 0; i < count; i++) sum[i] = ended[i];
}

// x is tap kx of row y of the image: into the sums of all rows of the result that it reaches.
TILE_INLINE void spend(vf32 x, int y, int kx, const float *taps, const vf32 *kept, vf32 *sum, int count, int kernel, int stride) {
#pragma GCC unroll 4
    for (int i = 0; i < count; i++) {
        const int ky = y - i * stride;
        if (ky >= 0 && ky < kernel) sum[i] = v_fma(kernel == 3 ? kept[ky * 3 + kx] : v_set1(taps[ky * kernel + kx]), x, sum[i]);
    }
}

// 16 columns of `count` rows of the result, whose first tap is element `at`. Every element of the image is loaded once; for stride 2
// two taps come out of the same two vectors. The order of a sum: ky, then kx.
TILE_INLINE void block_rows(const float *const *line, const float *taps, const vf32 *kept, vf32 *sum, int64_t at, int64_t size, bool inside,
                            int count, int kernel, int stride) {
    vm32 mask[MAX_KERNEL], far_mask[MAX_KERNEL];
#pragma GCC unroll 7
    for (int kx = 0; kx < kernel; kx += stride) {
        if (!inside) mask[kx] = existing(at + kx, size);
        if (!inside && stride == 2) far_mask[kx] = existing(at + kx + 16, size);
    }
#pragma GCC unroll 13
    for (int y = 0; y < (count - 1) * stride + kernel; y++) {
#pragma GCC unroll 7
        for (int kx = 0; kx < kernel; kx += stride) {
            const float *x = line[y] + at + kx;
            const vf32 near = inside ? v_load(x) : v_load_where(x, mask[kx]);
            if (stride == 1) {
                spend(near, y, kx, taps, kept, sum, count, kernel, stride);
                continue;
            }
            const vf32 far = inside ? v_load(x + 16) : v_load_where(x + 16, far_mask[kx]);
            spend(v_even_mixed(near, far), y, kx, taps, kept, sum, count, kernel, stride);
            if (kx + 1 < kernel) spend(v_odd_mixed(near, far), y, kx + 1, taps, kept, sum, count, kernel, stride);
        }
    }
}

// `count` rows of the result from row y on. Constants: the kernel, both ways, and the stride, with dilation 1.
TILE_INLINE void some_rows(const nbx_conv *p, const depthwise_channel *c, int64_t y, char *out, int count, int kernel, int stride) {
    const int64_t next = p->out_stride[3] * (int64_t)nbx_dtype_size(p->dtype), columns = p->out[2], size = p->in[2];
    const int lines = (count - 1) * stride + kernel;
    const float *line[(ROWS - 1) * 2 + MAX_KERNEL];
    for (int i = 0; i < lines; i++) line[i] = row_of(p, c, c->z, y * stride - p->padding[1] + i);
    vf32 kept[9];
#pragma GCC unroll 9
    for (int k = 0; kernel == 3 && k < 9; k++) kept[k] = v_set1(c->taps[k]);
    for (int64_t x = 0; x < columns; x += 16) {
        const int64_t at = x * stride - p->padding[2];
        const int lanes = (int)(columns - x < 16 ? columns - x : 16);
        const bool inside = at >= 0 && at + (kernel - 1) / stride * stride + 16 * stride <= size;
        vf32 sum[ROWS];
#pragma GCC unroll 4
        for (int i = 0; i < count; i++) sum[i] = v_set1(c->bias);
        if (inside) block_rows(line, c->taps, kept, sum, at, size, true, count, kernel, stride);
        else block_rows(line, c->taps, kept, sum, at, size, false, count, kernel, stride);
#pragma GCC unroll 4
        for (int i = 0; stride == 2 && i < count; i++) sum[i] = v_in_order(sum[i]);
        end_rows(p, c, out + x * (int64_t)sizeof(float), next, sum, count, lanes);
#pragma GCC unroll 4
        for (int i = 0; i < count; i++) store(p, out + i * next, x, sum[i], lanes);
    }
}

// The same for any kernel, stride and dilation; of a single row four vectors at a time.
TILE_INLINE void some_rows_of_any(const nbx_conv *p, const depthwise_channel *c, int64_t y, char *out, int rows, int vectors) {
    const int64_t next = p->out_stride[3] * (int64_t)nbx_dtype_size(p->dtype), columns = p->out[2];
    for (int64_t x = 0; x < columns; x += 16 * vectors) {
        const float *tap = c->taps, *line[ROWS];
        vf32 sum[ROWS];
#pragma GCC unroll 4
        for (int i = 0; i < ROWS; i++) sum[i] = v_set1(c->bias);
        for (int64_t kz = 0; kz < p->kernel[0]; kz++)
            for (int64_t ky = 0; ky < p->kernel[1]; ky++) {
                for (int i = 0; i < rows; i++)
                    line[i] = row_of(p, c, c->z + kz * p->dilation[0], (y + i) * p->stride[1] - p->padding[1] + ky * p->dilation[1]);
                for (int64_t kx = 0; kx < p->kernel[2]; kx++, tap++) {
                    const int64_t at = x * p->stride[2] - p->padding[2] + kx * p->dilation[2];
#pragma GCC unroll 4
                    for (int i = 0; i < rows * vectors; i++)
                        sum[i] = v_fma(v_set1(*tap), spread(p, c, line[i / vectors], at + i % vectors * 16 * p->stride[2]), sum[i]);
                }
            }
#pragma GCC unroll 4
        for (int i = 0; i < rows * vectors; i++) {
            const int64_t column = x + i % vectors * 16, left = columns - column;
            if (left > 0) end_rows(p, c, out + i / vectors * next + column * (int64_t)sizeof(float), next, &sum[i], 1, left < 16 ? (int)left : 16);
            if (left > 0) store(p, out + i / vectors * next, column, sum[i], left < 16 ? (int)left : 16);
        }
    }
}

// Rows y to y + height. The last four may overlap others.
TILE_INLINE void all_rows(const nbx_conv *p, const depthwise_channel *c, int64_t y, int64_t height, char *out, int kernel, int stride) {
    const int64_t next = p->out_stride[3] * (int64_t)nbx_dtype_size(p->dtype);
    for (int64_t i = 0; height >= ROWS && i < height; i += ROWS) {
        const int64_t at = i + ROWS <= height ? i : height - ROWS;
        if (kernel) some_rows(p, c, y + at, out + at * next, ROWS, kernel, stride);
        else some_rows_of_any(p, c, y + at, out + at * next, ROWS, 1);
    }
    for (int64_t i = 0; height < ROWS && i < height; i++) {
        if (kernel) some_rows(p, c, y + i, out + i * next, 1, kernel, stride);
        else some_rows_of_any(p, c, y + i, out + i * next, 1, ROWS);
    }
}

// One function for each, so that each is compiled on its own.
#define ALL_ROWS(NAME, ...)                                                                                                      \
    static void NAME(const nbx_conv *p, const depthwise_channel *c, int64_t y, int64_t height, char *out) {                      \
        all_rows(p, c, y, height, out, __VA_ARGS__);                                                                             \
    }
ALL_ROWS(rows_3x3, 3, 1)
ALL_ROWS(rows_3x3_by_2, 3, 2)
ALL_ROWS(rows_5x5, 5, 1)
ALL_ROWS(rows_5x5_by_2, 5, 2)
ALL_ROWS(rows_7x7, 7, 1)
ALL_ROWS(rows_of_any, 0, 0)

typedef void (*all_rows_fn)(const nbx_conv *p, const depthwise_channel *c, int64_t y, int64_t height, char *out);

static all_rows_fn choose_rows(const nbx_conv *p) {
    static const all_rows_fn by_1[MAX_KERNEL + 1] = {[3] = rows_3x3, [5] = rows_5x5, [7] = rows_7x7};
    static const all_rows_fn by_2[MAX_KERNEL + 1] = {[3] = rows_3x3_by_2, [5] = rows_5x5_by_2};
    const int64_t k = p->kernel[2], stride = p->stride[2];
    const bool square = p->kernel[0] == 1 && k == p->kernel[1] && k <= MAX_KERNEL && stride == p->stride[1] && stride <= 2 &&
                        p->dilation[1] == 1 && p->dilation[2] == 1 && (p->dtype != NBX_FLOAT32 || p->in_stride[4] == 1);
    const all_rows_fn found = !square ? NULL : stride == 1 ? by_1[k] : by_2[k];
    return found ? found : rows_of_any;
}

TILE_INLINE void widen_row(const char *row, int64_t step, int64_t count, float *to, nbx_dtype d) {
    int64_t i = 0;
    for (; step == 1 && i + 16 <= count; i += 16)
        v_store(to + i, d == NBX_FLOAT16 ? v_load_f16((const uint16_t *)row + i) : v_load_bf16((const uint16_t *)row + i));
    for (; i < count; i++) to[i] = load_real_f32(d, row, i * step);
}

// The rows that `height` rows of the result from y on read, of all slices that exist.
static void widen(const nbx_conv *p, const char *channel, int64_t y, int64_t height, float *rows, depthwise_channel *c) {
    int64_t first = y * p->stride[1] - p->padding[1], last = first + (height - 1) * p->stride[1] + (p->kernel[1] - 1) * p->dilation[1];
    if (first < 0) first = 0;
    if (last >= p->in[1]) last = p->in[1] - 1;
    c->row0 = first, c->step = 1, c->line = p->in[2], c->slice = (last - first + 1) * p->in[2];
    c->first = rows - c->z * c->slice;
    for (int64_t kz = 0; kz < p->kernel[0]; kz++) {
        const int64_t z = c->z + kz * p->dilation[0];
        if (z < 0 || z >= p->in[0]) continue;
        for (int64_t i = first; i <= last; i++) {
            const char *row = channel + (z * p->in_stride[2] + i * p->in_stride[3]) * 2;
            float *to = rows + kz * p->dilation[0] * c->slice + (i - first) * c->line;
            if (p->dtype == NBX_FLOAT16) widen_row(row, p->in_stride[4], p->in[2], to, NBX_FLOAT16);
            else widen_row(row, p->in_stride[4], p->in[2], to, NBX_BFLOAT16);
        }
    }
}

static void load_taps(const nbx_conv *p, int64_t c, float *taps) {
    for (int64_t kz = 0; kz < p->kernel[0]; kz++)
        for (int64_t ky = 0; ky < p->kernel[1]; ky++)
            for (int64_t kx = 0; kx < p->kernel[2]; kx++) {
                const int64_t at = c * p->weight_stride[0] + kz * p->weight_stride[2] + ky * p->weight_stride[3] + kx * p->weight_stride[4];
                *taps++ = load_real_f32(p->dtype, p->weight, at);
            }
}

static void depthwise_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const depthwise_job *job = arg;
    const nbx_conv *p = job->p;
    const int64_t band = job->plan.band, bands = (p->out[1] + band - 1) / band, bytes = (int64_t)nbx_dtype_size(p->dtype);
    float *taps = (float *)(job->scratch + (size_t)thread * job->plan.thread_bytes);
    float *zeros = taps + job->plan.zeros_at, *rows = taps + job->plan.rows_at;
    memset(zeros, 0, (size_t)p->in[2] * sizeof *zeros);
    const all_rows_fn run = choose_rows(p);
    nbx_epilogue_plain last;
    const bool plain = p->epilogue && p->dtype == NBX_FLOAT32 && p->out_stride[4] == 1 && nbx_conv_reports(p) && nbx_epilogue_is_plain(p->epilogue, &last);
    for (int64_t task = begin; task < end; task++) {
        const int64_t y = task % bands * band, channel = task / bands % (p->groups * p->out_channels);
        const int64_t image = task / bands / (p->groups * p->out_channels), z = image % p->out[0], n = image / p->out[0];
        const int64_t height = p->out[1] - y < band ? p->out[1] - y : band;
        const char *in = p->input + (n * p->in_stride[0] + channel / p->out_channels * p->in_stride[1]) * bytes;
        char *out = p->output + (n * p->out_stride[0] + channel * p->out_stride[1] + z * p->out_stride[2] + y * p->out_stride[3]) * bytes;
        depthwise_channel c = {.first = (const float *)in, .step = p->in_stride[4], .line = p->in_stride[3], .slice = p->in_stride[2],
                               .zeros = zeros, .taps = taps, .z = z * p->stride[0] - p->padding[0]};
        if (plain) c.end = &last;
        c.bias = p->bias ? load_real_f32(p->dtype, p->bias, channel * p->bias_stride) : 0;
        load_taps(p, channel, taps);
        if (p->dtype != NBX_FLOAT32) widen(p, in, y, height, rows, &c);
        run(p, &c, y, height, out);
        if (!plain && nbx_conv_reports(p)) nbx_conv_report(p, &(conv_part){n, z, channel, 1, y, height, 0, p->out[2]});
    }
}

void NBX_KERNEL(conv_depthwise)(nbx_pool *pool, const nbx_conv *p, void *scratch) {
    depthwise_job job = {.p = p, .scratch = scratch};
    nbx_conv_depthwise_plan(p, &job.plan);
    const int64_t tasks = p->batch * p->out[0] * p->groups * p->out_channels * ((p->out[1] + job.plan.band - 1) / job.plan.band);
    const int64_t work = job.plan.band * (p->out[2] + 16) * (p->kernel[0] * p->kernel[1] * p->kernel[2] + 4) / 4;
    nbx_parallel_for(pool, tasks, 1 + 16384 / work, depthwise_tasks, &job);
}

// Depthwise convolution: one channel at a time. The rows a block of the result needs are widened to padded float rows (for
// stride s, one row per residue of the column), so that every tap is a run of consecutive floats.
#include <string.h>

#include "core/half.h"
#include "cpu/tile_simd.h"
#include "ops/conv/conv_kernels.h"

#define ROWS 4  // of the result at a time

typedef struct depthwise_job {
    const nbx_conv *p;
    char *scratch;
    size_t thread_bytes;
    int64_t row_floats;  // of one residue of a padded row
    int64_t band;        // rows of the result per task
} depthwise_job;

TILE_INLINE float load_float(const char *p, int64_t i, nbx_dtype d) {
    switch (d) {
    case NBX_FLOAT16: return nbx_from_f16(((const uint16_t *)p)[i]);
    case NBX_BFLOAT16: return nbx_from_bf16(((const uint16_t *)p)[i]);
    default: return ((const float *)p)[i];
    }
}

// to[i] = row[i * step] as float, for i < count. There is room for `room` floats, and zero may be written behind the count.
TILE_INLINE void copy_row(float *to, int64_t count, int64_t room, const char *row, int64_t step, nbx_dtype d) {
    int64_t i = 0;
    if (step == 1 && d == NBX_FLOAT32) {
        for (; i + 16 <= count; i += 16) v_store(to + i, v_load((const float *)row + i));
        if (i == count) return;
        const vf32 rest = v_load_n((const float *)row + i, (int)(count - i));
        if (i + 16 <= room) v_store(to + i, rest);  // a masked store would make the loads that follow wait for it
        else v_store_n(to + i, rest, (int)(count - i));
        return;
    }
    for (; step == 1 && d == NBX_FLOAT16 && i + 16 <= count; i += 16) v_store(to + i, v_load_f16((const uint16_t *)row + i));
    for (; step == 1 && d == NBX_BFLOAT16 && i + 16 <= count; i += 16) v_store(to + i, v_load_bf16((const uint16_t *)row + i));
    for (; i < count; i++) to[i] = load_float(row, i * step, d);
}

// Both residues of a row for stride 2: even[i] = row[2 i], odd[i] = row[2 i + 1]. The compiler makes shuffles of the inner loop.
static void unzip_row(const float *restrict row, int64_t count, float *restrict even, float *restrict odd) {
    const int64_t pairs = count / 2;
    for (int64_t i = 0; i + 16 <= pairs; i += 16)
        for (int k = 0; k < 16; k++) even[i + k] = row[2 * (i + k)], odd[i + k] = row[2 * (i + k) + 1];
    for (int64_t i = pairs < 16 ? 0 : pairs - 16; pairs % 16 && i < pairs; i += 16) {
        const int64_t end = i + 16 <= pairs ? 16 : pairs - i;
        if (end == 16)
            for (int k = 0; k < 16; k++) even[i + k] = row[2 * (i + k)], odd[i + k] = row[2 * (i + k) + 1];
        else
            for (int k = 0; k < end; k++) even[i + k] = row[2 * (i + k)], odd[i + k] = row[2 * (i + k) + 1];
    }
    if (count % 2) even[pairs] = row[count - 1];
}

// Rows first ... of a channel, each as `stride` residues of row_floats floats. What lies beside the image is zero already; rows above
// and below it are set to zero unless `whole` says that every task has the same ones.
static void widen_rows(const depthwise_job *job, const char *channel, int64_t first, int64_t count, bool whole, float *to) {
    const nbx_conv *p = job->p;
    const int64_t step = p->stride[2], bytes = (int64_t)nbx_dtype_size(p->dtype), width = job->row_floats, left = p->padding[2];
    const bool unzips = step == 2 && p->dtype == NBX_FLOAT32 && p->in_stride[4] == 1 && (left + p->in[2]) / 2 + 1 <= width;
    for (int64_t i = 0; i < count; i++, to += step * width) {
        const int64_t y = first + i;
        if (y < 0 || y >= p->in[1]) {
            if (!whole) memset(to, 0, (size_t)(step * width) * sizeof *to);
            continue;
        }
        const char *row = channel + y * p->in_stride[3] * bytes;
        if (unzips) {
            unzip_row((const float *)row, p->in[2], to + left % 2 * width + left / 2, to + (left + 1) % 2 * width + (left + 1) / 2);
            continue;
        }
        for (int64_t s = 0; s < step; s++) {
            // elements s - left + i * step of the row, of which those from begin to end exist (a division costs as much as a short row)
            const int64_t begin = step == 1 ? left : s < left ? (left - s + step - 1) / step : 0;
            const int64_t limit = step == 1 ? p->in[2] + left : s - left < p->in[2] ? (p->in[2] + left - s + step - 1) / step : 0;
            const int64_t end = limit < width ? limit : width;
            const char *from = row + (s - left + begin * step) * p->in_stride[4] * bytes;
            float *at = to + s * width + begin;
            if (begin >= end) continue;
            if (p->dtype == NBX_FLOAT16) copy_row(at, end - begin, width - begin, from, step * p->in_stride[4], NBX_FLOAT16);
            else if (p->dtype == NBX_BFLOAT16) copy_row(at, end - begin, width - begin, from, step * p->in_stride[4], NBX_BFLOAT16);
            else copy_row(at, end - begin, width - begin, from, step * p->in_stride[4], NBX_FLOAT32);
        }
    }
}

TILE_INLINE void store(const nbx_conv *p, char *row, int64_t x, vf32 y, int count) {
    const int64_t step = p->out_stride[4];
    if (step == 1 && p->dtype == NBX_FLOAT32 && count == 16) {
        v_store((float *)row + x, y);
    } else if (step == 1 && p->dtype == NBX_FLOAT32) {
        v_store_n((float *)row + x, y, count);
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

// What stays the same for all rows of a channel.
typedef struct depthwise_filter {
    const float *taps;      // [ky][kx]
    float bias;
    int64_t width;          // of a residue of a widened row
    int64_t row, ky;        // from a row of the result, and of the filter, to the next, in the widened rows
} depthwise_filter;

// `count` rows of the result, from the one at `out` on. Constants: the kernel and the stride along x, with dilation 1 there; or 0
// for all of them, and they are read from p.
TILE_INLINE void some_rows(const nbx_conv *p, const depthwise_filter *f, const float *rows, char *out, int count, int kernel_y, int kernel_x,
                           int stride) {
    const int64_t next = p->out_stride[3] * (int64_t)nbx_dtype_size(p->dtype), row = f->row, ky_step = f->ky, width = f->width, columns = p->out[2];
    const bool few = kernel_y * kernel_x == 9;  // taps stay in registers
    vf32 kept[9];
#pragma GCC unroll 9
    for (int k = 0; few && k < 9; k++) kept[k] = v_set1(f->taps[k]);
    for (int64_t x = 0; x < columns; x += 16) {
        vf32 sum[ROWS];
#pragma GCC unroll 4
        for (int i = 0; i < count; i++) sum[i] = v_set1(f->bias);
        if (stride != 0) {
#pragma GCC unroll 5
            for (int ky = 0; ky < kernel_y; ky++)
#pragma GCC unroll 5
                for (int kx = 0; kx < kernel_x; kx++) {
                    const vf32 tap = few ? kept[few ? ky * 3 + kx : 0] : v_set1(f->taps[ky * kernel_x + kx]);
                    const float *at = rows + ky * ky_step + x + kx % stride * width + kx / stride;
#pragma GCC unroll 4
                    for (int i = 0; i < count; i++) sum[i] = v_fma(tap, v_load(at + i * row), sum[i]);
                }
        } else {
            for (int64_t ky = 0; ky < p->kernel[1]; ky++)
                for (int64_t kx = 0; kx < p->kernel[2]; kx++) {
                    const int64_t reach = kx * p->dilation[2];
                    const vf32 tap = v_set1(f->taps[ky * p->kernel[2] + kx]);
                    const float *at = rows + ky * ky_step + reach % p->stride[2] * width + reach / p->stride[2] + x;
#pragma GCC unroll 4
                    for (int i = 0; i < count; i++) sum[i] = v_fma(tap, v_load(at + i * row), sum[i]);
                }
        }
        const int lanes = (int)(columns - x < 16 ? columns - x : 16);
#pragma GCC unroll 4
        for (int i = 0; i < count; i++) store(p, out + i * next, x, sum[i], lanes);
    }
}

// All rows of a band, four at a time: four sums hide the latency of each other's multiply-adds. The last four may overlap others.
TILE_INLINE void all_rows(const nbx_conv *p, const depthwise_filter *f, const float *rows, char *out, int64_t height, int kernel_y, int kernel_x,
                          int stride) {
    const int64_t next = p->out_stride[3] * (int64_t)nbx_dtype_size(p->dtype);
    for (int64_t y = 0; height >= ROWS && y < height; y += ROWS) {
        const int64_t at = y + ROWS <= height ? y : height - ROWS;
        some_rows(p, f, rows + at * f->row, out + at * next, ROWS, kernel_y, kernel_x, stride);
    }
    for (int64_t y = 0; height < ROWS && y < height; y++) some_rows(p, f, rows + y * f->row, out + y * next, 1, kernel_y, kernel_x, stride);
}

// One function for each, so that each is compiled on its own.
#define ALL_ROWS(NAME, ...)                                                                                                          static void NAME(const nbx_conv *p, const depthwise_filter *f, const float *rows, char *out, int64_t height) {                       all_rows(p, f, rows, out, height, __VA_ARGS__);                                                                              }
ALL_ROWS(rows_3x3, 3, 3, 1)
ALL_ROWS(rows_3x3_by_2, 3, 3, 2)
ALL_ROWS(rows_5x5, 5, 5, 1)
ALL_ROWS(rows_5x5_by_2, 5, 5, 2)
ALL_ROWS(rows_of_any, 0, 0, 0)

typedef void (*all_rows_fn)(const nbx_conv *p, const depthwise_filter *f, const float *rows, char *out, int64_t height);

static all_rows_fn choose_rows(const nbx_conv *p) {
    const int64_t k = p->kernel[1] == p->kernel[2] && p->dilation[2] == 1 ? p->kernel[1] : 0;
    if (k == 3 && p->stride[2] <= 2) return p->stride[2] == 1 ? rows_3x3 : rows_3x3_by_2;
    if (k == 5 && p->stride[2] <= 2) return p->stride[2] == 1 ? rows_5x5 : rows_5x5_by_2;
    return rows_of_any;
}

static void depthwise_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const depthwise_job *job = arg;
    const nbx_conv *p = job->p;
    const int64_t bands = (p->out[1] + job->band - 1) / job->band, bytes = (int64_t)nbx_dtype_size(p->dtype);
    const int64_t count = p->kernel[1] * p->kernel[2];
    float *taps = (float *)(job->scratch + (size_t)thread * job->thread_bytes), *rows = taps + (count + 15) / 16 * 16;
    const int64_t lines = (job->band - 1) * p->stride[1] + (p->kernel[1] - 1) * p->dilation[1] + 1;
    memset(rows, 0, (size_t)(lines * p->stride[2] * job->row_floats) * sizeof *rows);
    depthwise_filter f = {.taps = taps, .width = job->row_floats};
    f.row = p->stride[1] * p->stride[2] * f.width, f.ky = p->dilation[1] * p->stride[2] * f.width;
    const all_rows_fn run = choose_rows(p);
    for (int64_t task = begin; task < end; task++) {
        const int64_t y0 = task % bands * job->band, c = task / bands % (p->groups * p->out_channels);
        const int64_t image = task / bands / (p->groups * p->out_channels), z = image % p->out[0], n = image / p->out[0];
        const int64_t height = p->out[1] - y0 < job->band ? p->out[1] - y0 : job->band;
        const char *channel = p->input + (n * p->in_stride[0] + c / p->out_channels * p->in_stride[1] + z * p->in_stride[2]) * bytes;
        char *out = p->output + (n * p->out_stride[0] + c * p->out_stride[1] + z * p->out_stride[2]) * bytes;
        f.bias = p->bias ? load_float(p->bias, c * p->bias_stride, p->dtype) : 0;
        for (int64_t ky = 0, k = 0; ky < p->kernel[1]; ky++)
            for (int64_t kx = 0; kx < p->kernel[2]; kx++, k++)
                taps[k] = load_float(p->weight, c * p->weight_stride[0] + ky * p->weight_stride[3] + kx * p->weight_stride[4], p->dtype);
        widen_rows(job, channel, y0 * p->stride[1] - p->padding[1], (height - 1) * p->stride[1] + (p->kernel[1] - 1) * p->dilation[1] + 1, bands == 1,
                   rows);
        run(p, &f, rows, out + y0 * p->out_stride[3] * bytes, height);
    }
}

void NBX_KERNEL(conv_depthwise)(nbx_pool *pool, const nbx_conv *p, void *scratch, int threads) {
    depthwise_job job = {.p = p, .scratch = scratch, .row_floats = nbx_conv_depthwise_row(p), .band = nbx_conv_depthwise_band(p)};
    job.thread_bytes = nbx_conv_scratch(p, 1);
    (void)threads;
    const int64_t tasks = p->batch * p->out[0] * p->groups * p->out_channels * ((p->out[1] + job.band - 1) / job.band);
    const int64_t work = job.band * (p->out[2] + 16) * (p->kernel[1] * p->kernel[2] + 4) / 4;
    nbx_parallel_for(pool, tasks, 1 + 16384 / work, depthwise_tasks, &job);
}

// Depthwise convolution: one channel at a time. The rows a block of the result needs are widened to padded float rows (for
// stride s, one row per residue of the column), so that every tap is a run of consecutive floats.
#include <string.h>

#include "core/half.h"
#include "cpu/tile_simd.h"
#include "ops/conv/conv_kernels.h"

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

TILE_INLINE void widen(float *to, int64_t count, const char *row, int64_t stride, int64_t start, int64_t step, int64_t size, nbx_dtype d) {
    int64_t i = 0, last = start >= size ? 0 : (size - start + step - 1) / step;
    if (last > count) last = count;
    for (; i < last && start + i * step < 0; i++) to[i] = 0;
    if (stride * step == 1 && d == NBX_FLOAT32 && last > i) {
        memcpy(to + i, (const float *)row + start + i, (size_t)(last - i) * sizeof *to);
        i = last;
    }
    for (; i < last; i++) to[i] = load_float(row, (start + i * step) * stride, d);
    for (; i < count; i++) to[i] = 0;
}

// Rows y ... of the input of channel c, each as `stride` residues of row_floats floats.
static void widen_rows(const depthwise_job *job, const char *channel, int64_t first, int64_t count, float *to) {
    const nbx_conv *p = job->p;
    const int64_t step = p->stride[2], bytes = (int64_t)nbx_dtype_size(p->dtype);
    for (int64_t i = 0; i < count; i++)
        for (int64_t s = 0; s < step; s++, to += job->row_floats) {
            const int64_t y = first + i;
            if (y < 0 || y >= p->in[1]) {
                memset(to, 0, (size_t)job->row_floats * sizeof *to);
                continue;
            }
            const char *row = channel + y * p->in_stride[3] * bytes;
            const int64_t start = s - p->padding[2];
            if (p->dtype == NBX_FLOAT16) widen(to, job->row_floats, row, p->in_stride[4], start, step, p->in[2], NBX_FLOAT16);
            else if (p->dtype == NBX_BFLOAT16) widen(to, job->row_floats, row, p->in_stride[4], start, step, p->in[2], NBX_BFLOAT16);
            else widen(to, job->row_floats, row, p->in_stride[4], start, step, p->in[2], NBX_FLOAT32);
        }
}

static void store(const nbx_conv *p, char *row, int64_t x, vf32 y, int count) {
    const int64_t step = p->out_stride[4];
    if (step == 1 && p->dtype == NBX_FLOAT32) {
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

// One row of the result. taps: [ky][kx] of this channel.
TILE_INLINE void one_row(const depthwise_job *job, const float *rows, const float *taps, float bias, char *out, int64_t kernel_y,
                         int64_t kernel_x, int64_t stride) {
    const nbx_conv *p = job->p;
    const int64_t dilation = p->dilation[2];
    for (int64_t x = 0; x < p->out[2]; x += 16) {
        vf32 sum = v_set1(bias);
        for (int64_t ky = 0; ky < kernel_y; ky++)
            for (int64_t kx = 0; kx < kernel_x; kx++) {
                const int64_t reach = kx * dilation;
                const float *at = rows + (ky * p->dilation[1] * stride + reach % stride) * job->row_floats + reach / stride + x;
                sum = v_fma(v_set1(taps[ky * kernel_x + kx]), v_load(at), sum);
            }
        store(p, out, x, sum, (int)(p->out[2] - x < 16 ? p->out[2] - x : 16));
    }
}

static void depthwise_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const depthwise_job *job = arg;
    const nbx_conv *p = job->p;
    const int64_t bands = (p->out[1] + job->band - 1) / job->band, bytes = (int64_t)nbx_dtype_size(p->dtype);
    const int64_t count = p->kernel[1] * p->kernel[2];
    float *taps = (float *)(job->scratch + (size_t)thread * job->thread_bytes), *rows = taps + (count + 15) / 16 * 16;
    for (int64_t task = begin; task < end; task++) {
        const int64_t y0 = task % bands * job->band, c = task / bands % (p->groups * p->out_channels);
        const int64_t image = task / bands / (p->groups * p->out_channels), z = image % p->out[0], n = image / p->out[0];
        const int64_t height = p->out[1] - y0 < job->band ? p->out[1] - y0 : job->band;
        const char *channel = p->input + (n * p->in_stride[0] + c / p->out_channels * p->in_stride[1] + z * p->in_stride[2]) * bytes;
        char *out = p->output + (n * p->out_stride[0] + c * p->out_stride[1] + z * p->out_stride[2]) * bytes;
        const float bias = p->bias ? load_float(p->bias, c * p->bias_stride, p->dtype) : 0;
        for (int64_t k = 0; k < count; k++)
            taps[k] = load_float(p->weight, c * p->weight_stride[0] + k / p->kernel[2] * p->weight_stride[3] + k % p->kernel[2] * p->weight_stride[4],
                                 p->dtype);
        widen_rows(job, channel, y0 * p->stride[1] - p->padding[1], (height - 1) * p->stride[1] + (p->kernel[1] - 1) * p->dilation[1] + 1, rows);
        for (int64_t y = 0; y < height; y++) {
            char *row = out + (y0 + y) * p->out_stride[3] * bytes;
            const float *from = rows + y * p->stride[1] * p->stride[2] * job->row_floats;
            if (p->kernel[1] == 3 && p->kernel[2] == 3 && p->stride[2] == 1) one_row(job, from, taps, bias, row, 3, 3, 1);
            else if (p->kernel[1] == 3 && p->kernel[2] == 3 && p->stride[2] == 2) one_row(job, from, taps, bias, row, 3, 3, 2);
            else if (p->kernel[1] == 5 && p->kernel[2] == 5 && p->stride[2] == 1) one_row(job, from, taps, bias, row, 5, 5, 1);
            else one_row(job, from, taps, bias, row, p->kernel[1], p->kernel[2], p->stride[2]);
        }
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

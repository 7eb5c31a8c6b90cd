// Depthwise convolution of 16 channels at a time, one in each lane: images whose channels are adjacent, and small ones, whose rows would
// leave most lanes empty, after a turn of 16 planes. 960 channels of 7 x 7: 72 us by rows, 39 us so (AVX-512, Zen 4, GCC 12).
#include "cpu/gemm_load.h"
#include "cpu/tile_simd.h"
#include "ops/conv/conv_kernels.h"

#define COLUMNS 4  // of the result at a time: four sums hide the latency of each other's multiply-adds

typedef struct lanes_job {
    const nbx_conv *p;
    char *scratch;
    conv_lanes_plan plan;
} lanes_job;

TILE_INLINE vf32 load(const char *p, int64_t i, nbx_dtype d) {
    switch (d) {
    case NBX_FLOAT16: return v_load_f16((const uint16_t *)p + i);
    case NBX_BFLOAT16: return v_load_bf16((const uint16_t *)p + i);
    default: return v_load((const float *)p + i);
    }
}

TILE_INLINE void store(char *p, int64_t i, vf32 y, nbx_dtype d) {
    switch (d) {
    case NBX_FLOAT16: v_store_f16((uint16_t *)p + i, y); break;
    case NBX_BFLOAT16: v_store_bf16((uint16_t *)p + i, y); break;
    default: v_store((float *)p + i, y); break;
    }
}

// 16 channels of an image: where they lie, in elements from `data` on, and their filters.
typedef struct lanes_view {
    const char *in;
    char *out;
    int64_t in_slice, in_row, in_column, out_row, out_column;
    const float *taps;  // [kz][ky][kx][16], then the bias
} lanes_view;

// Taps k of a dim with 0 <= start + k * dilation < size.
typedef struct tap_range {
    int64_t begin, end;
} tap_range;

static tap_range taps_inside(int64_t start, int64_t dilation, int64_t size, int64_t kernel) {
    tap_range r = {start >= 0 ? 0 : (dilation - 1 - start) / dilation, start >= size ? 0 : (size - start + dilation - 1) / dilation};
    if (r.end > kernel) r.end = kernel;
    if (r.begin > r.end) r.begin = r.end;
    return r;
}

// `count` columns of the result from column x on, of slices kz and rows ky, through the taps kx of `columns`.
// kernel and stride are constants, or 0: then they are read from p, as the dilation is.
TILE_INLINE void some_columns(const nbx_conv *p, const lanes_view *v, int64_t z, tap_range slices, int64_t y, tap_range rows, int64_t x,
                              tap_range columns, char *out, int count, int kernel, int stride, nbx_dtype d) {
    const int64_t kernel_x = kernel ? kernel : p->kernel[2], step = (stride ? stride : p->stride[2]) * v->in_column;
    const int64_t next = (kernel ? 1 : p->dilation[2]) * v->in_column;
    vf32 sum[COLUMNS];
    const vf32 bias = v_load(v->taps + p->kernel[0] * p->kernel[1] * p->kernel[2] * 16);
#pragma GCC unroll 4
    for (int i = 0; i < count; i++) sum[i] = bias;
    for (int64_t kz = slices.begin; kz < slices.end; kz++)
        for (int64_t ky = rows.begin; ky < rows.end; ky++) {
            const float *tap = v->taps + (kz * p->kernel[1] + ky) * kernel_x * 16;
            const char *row = v->in + ((z + kz * p->dilation[0]) * v->in_slice + (y + ky * p->dilation[1]) * v->in_row) * (int64_t)nbx_dtype_size(d);
            const int64_t at = x * v->in_column;
            if (kernel && count == COLUMNS) {
#pragma GCC unroll 7
                for (int kx = 0; kx < kernel; kx++)
#pragma GCC unroll 4
                    for (int i = 0; i < count; i++)
                        sum[i] = v_fma(v_load(tap + kx * 16), load(row, at + (i * stride + kx) * v->in_column, d), sum[i]);
            } else {
                for (int64_t kx = columns.begin; kx < columns.end; kx++)
#pragma GCC unroll 4
                    for (int i = 0; i < count; i++) sum[i] = v_fma(v_load(tap + kx * 16), load(row, at + kx * next + i * step, d), sum[i]);
            }
        }
#pragma GCC unroll 4
    for (int i = 0; i < count; i++) store(out, i * v->out_column, sum[i], d);
}

// Rows y to y + height of slice z of the result.
TILE_INLINE void lanes_rows(const nbx_conv *p, const lanes_view *v, int64_t z, int64_t y, int64_t height, int kernel, int stride, nbx_dtype d) {
    const int64_t start_z = z * p->stride[0] - p->padding[0], reach = (p->kernel[2] - 1) * p->dilation[2];
    const tap_range slices = taps_inside(start_z, p->dilation[0], p->in[0], p->kernel[0]), all = {0, p->kernel[2]};
    for (int64_t i = 0; i < height; i++) {
        const int64_t start_y = (y + i) * p->stride[1] - p->padding[1];
        const tap_range rows = taps_inside(start_y, p->dilation[1], p->in[1], p->kernel[1]);
        char *out = v->out + i * v->out_row * (int64_t)nbx_dtype_size(d);
        for (int64_t x = 0; x < p->out[2];) {
            const int64_t at = x * p->stride[2] - p->padding[2];
            char *to = out + x * v->out_column * (int64_t)nbx_dtype_size(d);
            const bool inside = at >= 0 && x + COLUMNS <= p->out[2] && at + (COLUMNS - 1) * p->stride[2] + reach < p->in[2];
            if (inside) {
                some_columns(p, v, start_z, slices, start_y, rows, at, all, to, COLUMNS, kernel, stride, d);
                x += COLUMNS;
            } else {
                const tap_range columns = taps_inside(at, p->dilation[2], p->in[2], p->kernel[2]);
                some_columns(p, v, start_z, slices, start_y, rows, at, columns, to, 1, kernel, stride, d);
                x++;
            }
        }
    }
}

// One function for each, so that each is compiled on its own.
#define LANES_ROWS(NAME, ...)                                                                                                    \
    static void NAME(const nbx_conv *p, const lanes_view *v, int64_t z, int64_t y, int64_t height) {                             \
        lanes_rows(p, v, z, y, height, __VA_ARGS__);                                                                             \
    }
LANES_ROWS(f32_3, 3, 1, NBX_FLOAT32)
LANES_ROWS(f32_3_by_2, 3, 2, NBX_FLOAT32)
LANES_ROWS(f32_5, 5, 1, NBX_FLOAT32)
LANES_ROWS(f32_7, 7, 1, NBX_FLOAT32)
LANES_ROWS(f32_any, 0, 0, NBX_FLOAT32)
LANES_ROWS(f16_any, 0, 0, NBX_FLOAT16)
LANES_ROWS(bf16_any, 0, 0, NBX_BFLOAT16)

typedef void (*lanes_rows_fn)(const nbx_conv *p, const lanes_view *v, int64_t z, int64_t y, int64_t height);

static lanes_rows_fn choose_rows(const nbx_conv *p, nbx_dtype d) {
    if (d == NBX_FLOAT16) return f16_any;
    if (d == NBX_BFLOAT16) return bf16_any;
    static const lanes_rows_fn by_1[8] = {[3] = f32_3, [5] = f32_5, [7] = f32_7}, by_2[8] = {[3] = f32_3_by_2};
    const bool known = p->kernel[2] < 8 && p->stride[2] <= 2 && p->dilation[2] == 1;
    const lanes_rows_fn found = !known ? NULL : p->stride[2] == 1 ? by_1[p->kernel[2]] : by_2[p->kernel[2]];
    return found ? found : f32_any;
}

static void load_taps(const nbx_conv *p, int64_t channel, float *taps) {
    for (int64_t kz = 0; kz < p->kernel[0]; kz++)
        for (int64_t ky = 0; ky < p->kernel[1]; ky++)
            for (int64_t kx = 0; kx < p->kernel[2]; kx++, taps += 16) {
                const int64_t at = channel * p->weight_stride[0] + kz * p->weight_stride[2] + ky * p->weight_stride[3] + kx * p->weight_stride[4];
                for (int64_t i = 0; i < 16; i++) taps[i] = load_real_f32(p->dtype, p->weight, at + i * p->weight_stride[0]);
            }
    for (int64_t i = 0; i < 16; i++) taps[i] = p->bias ? load_real_f32(p->dtype, p->bias, (channel + i) * p->bias_stride) : 0;
}

// to[i * 16 + c] = element i of plane c, for 16 planes; and back. Planes are rows of floats, `stride` apart.
static void turn_in(const float *planes, int64_t stride, int64_t count, float *to) {
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) v_copy_transposed(to + i * 16, 16, planes + i, stride);
    for (; i < count; i++)
        for (int64_t c = 0; c < 16; c++) to[i * 16 + c] = planes[c * stride + i];
}

static void turn_out(const float *from, int64_t count, float *planes, int64_t stride) {
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) v_copy_transposed(planes + i, stride, from + i * 16, 16);
    for (; i < count; i++)
        for (int64_t c = 0; c < 16; c++) planes[c * stride + i] = from[i * 16 + c];
}

static void lanes_tasks(void *arg, int64_t begin, int64_t end, int thread) {
    const lanes_job *job = arg;
    const nbx_conv *p = job->p;
    const int64_t band = job->plan.band, bands = (p->out[1] + band - 1) / band, blocks = (p->groups + 15) / 16;
    const int64_t bytes = (int64_t)nbx_dtype_size(p->dtype), area_in = p->in[1] * p->in[2], area_out = p->out[1] * p->out[2];
    float *taps = (float *)(job->scratch + (size_t)thread * job->plan.thread_bytes);
    float *turned_in = taps + job->plan.in_at, *turned_out = taps + job->plan.out_at;
    const lanes_rows_fn run = choose_rows(p, p->dtype);
    for (int64_t task = begin; task < end; task++) {
        // all channels of a band of rows, then the next band: neighbours in memory are wanted soon after each other
        const int64_t y = task / blocks % bands * band, height = p->out[1] - y < band ? p->out[1] - y : band;
        const int64_t image = task / blocks / bands, z = image % p->out[0], n = image / p->out[0];
        int64_t channel = task % blocks * 16;
        if (channel + 16 > p->groups) channel = p->groups - 16;  // computed again, with the same results
        const char *in = p->input + (n * p->in_stride[0] + channel * p->in_stride[1]) * bytes;
        char *out = p->output + (n * p->out_stride[0] + channel * p->out_stride[1] + z * p->out_stride[2] + y * p->out_stride[3]) * bytes;
        lanes_view v = {in, out, p->in_stride[2], p->in_stride[3], p->in_stride[4], p->out_stride[3], p->out_stride[4], taps};
        load_taps(p, channel, taps);
        if (!job->plan.turns) {
            run(p, &v, z, y, height);
            if (p->groups % 16 == 0) nbx_conv_report(p, &(conv_part){n, z, channel, 16, y, height, 0, p->out[2]});
            continue;
        }
        turn_in((const float *)in + z * p->in_stride[2], p->in_stride[1], area_in, turned_in);
        v = (lanes_view){(const char *)turned_in - z * area_in * 16 * bytes, (char *)turned_out, area_in * 16, p->in[2] * 16, 16, p->out[2] * 16, 16, taps};
        run(p, &v, z, y, height);
        turn_out(turned_out, area_out, (float *)out, p->out_stride[1]);
        if (p->groups % 16 == 0) nbx_conv_report(p, &(conv_part){n, z, channel, 16, y, height, 0, p->out[2]});
    }
}

void NBX_KERNEL(conv_depthwise_lanes)(nbx_pool *pool, const nbx_conv *p, void *scratch) {
    lanes_job job = {.p = p, .scratch = scratch};
    nbx_conv_lanes_plan(p, &job.plan);
    const int64_t tasks = p->batch * p->out[0] * ((p->groups + 15) / 16) * ((p->out[1] + job.plan.band - 1) / job.plan.band);
    const int64_t work = job.plan.band * p->out[2] * (p->kernel[0] * p->kernel[1] * p->kernel[2] + 4);
    nbx_parallel_for(pool, tasks, 1 + 16384 / work, lanes_tasks, &job);
    if (p->groups % 16) nbx_epilogue_run_all(p->epilogue, pool);
}

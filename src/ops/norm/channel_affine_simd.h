// y = (x - mean) * scale + shift with a mean, scale and shift for every channel (dim 1) of every sample, or of all samples.
// Batch and group norm end with it. Works in any layout of x; y is dense in its own.
#ifndef NBX_OPS_CHANNEL_AFFINE_SIMD_H
#define NBX_OPS_CHANNEL_AFFINE_SIMD_H

#include "cpu/pool.h"
#include "ops/norm/norm_simd.h"
#include "ops/reduce/lines.h"

typedef struct channel_affine {
    const nbx_tensor *x, *y;
    int64_t samples, channels;
    const double *mean, *scale, *shift;  // [channels], or [samples, channels] when per_sample (shift is always [channels])
    bool per_sample;
    lines l;         // along the channels of one sample; operand 0: y, 1: x
    bool dense;      // channels are neighbours in y
    int64_t planes;  // runs along l.shape[0] of one channel of one sample
} channel_affine;

enum { AFFINE_PART = 512 };

static void affine_store(const channel_affine *a, char *y, const char *x, int64_t step, int64_t n, int64_t c, int64_t sample) {
    const int64_t at = a->per_sample ? sample * a->channels + c : c, bytes = (int64_t)nbx_dtype_size((nbx_dtype)a->y->dtype);
    const nbx_dtype dtype = (nbx_dtype)a->y->dtype;
    if (dtype == NBX_FLOAT64) {
        double buffer[AFFINE_PART];
        for (int64_t i = 0; i < n; i += AFFINE_PART) {
            const int64_t count = n - i < AFFINE_PART ? n - i : AFFINE_PART;
            stage_f64(buffer, x + i * step, step, count, NBX_FLOAT64);
            for (int64_t k = 0; k < count; k++) buffer[k] = (buffer[k] - a->mean[at]) * a->scale[at] + a->shift[c];
            store_f64(y + i * bytes, bytes, buffer, count, NBX_FLOAT64);
        }
        return;
    }
    const float mean = (float)a->mean[at], scale = (float)a->scale[at], shift = (float)a->shift[c];
    if (step == bytes) {
        if (dtype == NBX_FLOAT32) affine_run(y, x, n, mean, scale, shift, NBX_FLOAT32, NBX_FLOAT32);
        else if (dtype == NBX_BFLOAT16) affine_run(y, x, n, mean, scale, shift, NBX_BFLOAT16, NBX_BFLOAT16);
        else affine_run(y, x, n, mean, scale, shift, NBX_FLOAT16, NBX_FLOAT16);
        return;
    }
    float buffer[AFFINE_PART];
    for (int64_t i = 0; i < n; i += AFFINE_PART) {
        const int64_t count = n - i < AFFINE_PART ? n - i : AFFINE_PART;
        stage_f32(buffer, x + i * step, step, count, dtype);
        affine_run((char *)buffer, buffer, count, mean, scale, shift, NBX_FLOAT32, NBX_FLOAT32);
        store_f32(y + i * bytes, bytes, buffer, count, dtype);
    }
}

NBX_INLINE void affine_channels(char *y, const void *x, int64_t n, const double *mean, const double *scale, const double *shift,
                                nbx_dtype in, nbx_dtype out) {
    for (int64_t c = 0; c < n; c += 16) {
        const int left = n - c < 16 ? (int)(n - c) : 16;
        if (left == 16) {
            const vf32 m = v_from_f64(vd_load(mean + c), vd_load(mean + c + 8));
            const vf32 s = v_from_f64(vd_load(scale + c), vd_load(scale + c + 8));
            const vf32 b = v_from_f64(vd_load(shift + c), vd_load(shift + c + 8));
            lanes_store(y, c, v_fma(v_sub(lanes_load(x, c, in), m), s, b), out);
        } else {
            const int low = left < 8 ? left : 8, high = left - low;
            const vf32 m = v_from_f64(vd_load_n(mean + c, low), vd_load_n(mean + c + low, high));
            const vf32 s = v_from_f64(vd_load_n(scale + c, low), vd_load_n(scale + c + low, high));
            const vf32 b = v_from_f64(vd_load_n(shift + c, low), vd_load_n(shift + c + low, high));
            lanes_store_n(y, c, v_fma(v_sub(lanes_load_n(x, c, left, in), m), s, b), left, out);
        }
    }
}

// One position of all channels, which are neighbours in y.
static void affine_position(const channel_affine *a, char *y, const char *x, int64_t sample) {
    const int64_t first = a->per_sample ? sample * a->channels : 0, step = a->l.along[1];
    const double *mean = a->mean + first, *scale = a->scale + first;
    const nbx_dtype dtype = (nbx_dtype)a->y->dtype;
    const int64_t bytes = (int64_t)nbx_dtype_size(dtype);
    if (dtype == NBX_FLOAT64) {
        for (int64_t c = 0; c < a->channels; c++) {
            const double v = *(const double *)(const void *)(x + c * step);
            ((double *)(void *)y)[c] = (v - mean[c]) * scale[c] + a->shift[c];
        }
        return;
    }
    if (step == bytes) {
        if (dtype == NBX_FLOAT32) affine_channels(y, x, a->channels, mean, scale, a->shift, NBX_FLOAT32, NBX_FLOAT32);
        else if (dtype == NBX_BFLOAT16) affine_channels(y, x, a->channels, mean, scale, a->shift, NBX_BFLOAT16, NBX_BFLOAT16);
        else affine_channels(y, x, a->channels, mean, scale, a->shift, NBX_FLOAT16, NBX_FLOAT16);
        return;
    }
    float buffer[AFFINE_PART];
    for (int64_t c = 0; c < a->channels; c += AFFINE_PART) {
        const int64_t n = a->channels - c < AFFINE_PART ? a->channels - c : AFFINE_PART;
        stage_f32(buffer, x + c * step, step, n, dtype);
        affine_channels((char *)buffer, buffer, n, mean + c, scale + c, a->shift + c, NBX_FLOAT32, NBX_FLOAT32);
        store_f32(y + c * bytes, bytes, buffer, n, dtype);
    }
}

static void affine_body(void *arg, int64_t begin, int64_t end, int thread) {
    const channel_affine *a = arg;
    const int64_t xbytes = (int64_t)nbx_dtype_size((nbx_dtype)a->x->dtype);
    const int64_t per_sample = a->dense ? a->l.count : a->channels;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const int64_t sample = i / per_sample, item = i % per_sample;
        const char *x = (const char *)nbx_data(a->x) + sample * a->x->stride[0] * xbytes;
        char *y = (char *)nbx_data(a->y) + sample * a->y->stride[0] * xbytes;
        int64_t offset[2];
        if (a->dense) {
            lines_place(&a->l, item, offset);
            affine_position(a, y + offset[0], x + offset[1], sample);
            continue;
        }
        const int64_t run = a->l.rank ? a->l.shape[0] : 1, step = a->l.rank ? a->l.step[1][0] : 0;
        for (int64_t k = 0; k < a->planes; k++) {
            lines_place(&a->l, k * run, offset);
            affine_store(a, y + offset[0] + item * a->l.along[0], x + offset[1] + item * a->l.along[1], step, run, item, sample);
        }
    }
}

// Fills in the walk and runs it.
static inline void affine_apply(channel_affine *a, nbx_pool *pool) {
    if (a->x->numel == 0) return;
    nbx_tensor x = *a->x, y = *a->y;  // one sample: without dim 0
    x.rank--, y.rank--;
    x.shape++, y.shape++;
    x.stride++, y.stride++;
    lines_plan(&a->l, 0, 2, (const nbx_tensor *[]){&y, &x});
    a->samples = a->x->shape[0];
    a->channels = a->x->shape[1];
    a->dense = a->l.along[0] == (int64_t)nbx_dtype_size((nbx_dtype)y.dtype) && a->channels > 1;
    a->planes = a->l.rank ? a->l.count / a->l.shape[0] : 1;
    const int64_t items = a->samples * (a->dense ? a->l.count : a->channels);
    const int64_t work = a->dense ? a->channels : a->l.count;
    nbx_parallel_for(pool, items, 8192 / (work + 1) + 1, affine_body, a);
}

#endif

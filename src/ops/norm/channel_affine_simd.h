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
    bool flat;       // and in x, and so are positions: channels last
    int64_t planes;  // runs along l.shape[0] of one channel of one sample
    bool stream;     // the result is larger than the caches
} channel_affine;

enum { AFFINE_PART = 512, AFFINE_TILE = AFFINE_PART * 4 };

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
        affine_dense(y, x, n, mean, scale, shift, dtype, a->stream);
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

// Parameters of some channels as floats.
typedef struct affine_floats {
    float mean[AFFINE_PART], scale[AFFINE_PART], shift[AFFINE_PART];
} affine_floats;

static void affine_narrow(const channel_affine *a, int64_t sample, int64_t first, int64_t n, affine_floats *f) {
    const int64_t at = (a->per_sample ? sample * a->channels : 0) + first;
    for (int64_t c = 0; c < n; c++) {
        f->mean[c] = (float)a->mean[at + c], f->scale[c] = (float)a->scale[at + c], f->shift[c] = (float)a->shift[first + c];
    }
}

NBX_INLINE void affine_channels(char *y, const void *x, int64_t n, const affine_floats *f, nbx_dtype in, nbx_dtype out) {
    int64_t c = 0;
    for (; c + 16 <= n; c += 16)
        lanes_store(y, c, v_fma(v_sub(lanes_load(x, c, in), v_load(f->mean + c)), v_load(f->scale + c), v_load(f->shift + c)), out);
    if (c == n) return;
    const int left = (int)(n - c);
    const vf32 m = v_load_n(f->mean + c, left), s = v_load_n(f->scale + c, left), b = v_load_n(f->shift + c, left);
    lanes_store_n(y, c, v_fma(v_sub(lanes_load_n(x, c, left, in), m), s, b), left, out);
}

// One position of `n` channels from `first` on, which are neighbours in y.
static void affine_position(const channel_affine *a, char *y, const char *x, int64_t n, const affine_floats *f) {
    const int64_t step = a->l.along[1];
    const nbx_dtype dtype = (nbx_dtype)a->y->dtype;
    const int64_t bytes = (int64_t)nbx_dtype_size(dtype);
    if (step == bytes) {
        if (dtype == NBX_FLOAT32) affine_channels(y, x, n, f, NBX_FLOAT32, NBX_FLOAT32);
        else if (dtype == NBX_BFLOAT16) affine_channels(y, x, n, f, NBX_BFLOAT16, NBX_BFLOAT16);
        else affine_channels(y, x, n, f, NBX_FLOAT16, NBX_FLOAT16);
        return;
    }
    float buffer[AFFINE_PART];
    stage_f32(buffer, x, step, n, dtype);
    affine_channels((char *)buffer, buffer, n, f, NBX_FLOAT32, NBX_FLOAT32);
    store_f32(y, bytes, buffer, n, dtype);
}

// Positions that follow each other densely in x and y, all channels of each: through tiles that are streamed out.
NBX_INLINE void affine_stretch_of(char *y, const char *x, int64_t positions, int64_t n, const affine_floats *f, bool stream, nbx_dtype dtype) {
    const int64_t bytes = n * (dtype == NBX_FLOAT32 ? 4 : 2), together = bytes < AFFINE_TILE ? AFFINE_TILE / bytes : 1;
    _Alignas(64) char results[AFFINE_TILE];
    for (int64_t p = 0; p < positions; p += together) {
        const int64_t count = positions - p < together ? positions - p : together;
        char *to = stream ? results : y + p * bytes;
        for (int64_t i = 0; i < count; i++) affine_channels(to + i * bytes, x + (p + i) * bytes, n, f, dtype, dtype);
        if (stream) stream_bytes(y + p * bytes, results, (size_t)(count * bytes));
    }
}

static void affine_stretch(const channel_affine *a, char *y, const char *x, int64_t positions, const affine_floats *f) {
    if (a->y->dtype == NBX_FLOAT32) affine_stretch_of(y, x, positions, a->channels, f, a->stream, NBX_FLOAT32);
    else if (a->y->dtype == NBX_BFLOAT16) affine_stretch_of(y, x, positions, a->channels, f, a->stream, NBX_BFLOAT16);
    else affine_stretch_of(y, x, positions, a->channels, f, a->stream, NBX_FLOAT16);
}

static void affine_stretches(const channel_affine *a, int64_t begin, int64_t end) {
    const int64_t bytes = (int64_t)nbx_dtype_size((nbx_dtype)a->y->dtype);
    affine_floats f;
    for (int64_t i = begin; i < end;) {
        const int64_t sample = i / a->l.count, at = i % a->l.count, left = a->l.count - at, positions = left < end - i ? left : end - i;
        const int64_t offset = at * a->channels * bytes;
        if (i == begin || a->per_sample) affine_narrow(a, sample, 0, a->channels, &f);
        affine_stretch(a, (char *)nbx_data(a->y) + sample * a->y->stride[0] * bytes + offset,
                       (const char *)nbx_data(a->x) + sample * a->x->stride[0] * bytes + offset, positions, &f);
        i += positions;
    }
    if (a->stream) v_stream_end();
}

static void affine_doubles(const channel_affine *a, char *y, const char *x, int64_t sample) {
    const int64_t first = a->per_sample ? sample * a->channels : 0, step = a->l.along[1];
    for (int64_t c = 0; c < a->channels; c++) {
        const double v = *(const double *)(const void *)(x + c * step);
        ((double *)(void *)y)[c] = (v - a->mean[first + c]) * a->scale[first + c] + a->shift[c];
    }
}

// Positions begin to end of all samples, AFFINE_PART channels after the other, so that their parameters are narrowed once a sample.
static void affine_positions(const channel_affine *a, int64_t begin, int64_t end) {
    const int64_t bytes = (int64_t)nbx_dtype_size((nbx_dtype)a->y->dtype);
    affine_floats f;
    for (int64_t first = 0; first < a->channels; first += AFFINE_PART) {
        const int64_t n = a->channels - first < AFFINE_PART ? a->channels - first : AFFINE_PART;
        int64_t narrowed = -1, offset[2];
        for (int64_t i = begin; i < end; i++) {
            const int64_t sample = i / a->l.count;
            const char *x = (const char *)nbx_data(a->x) + sample * a->x->stride[0] * bytes;
            char *y = (char *)nbx_data(a->y) + sample * a->y->stride[0] * bytes;
            lines_place(&a->l, i % a->l.count, offset);
            if (a->y->dtype == NBX_FLOAT64) {
                if (first == 0) affine_doubles(a, y + offset[0], x + offset[1], sample);
                continue;
            }
            if (narrowed != sample) affine_narrow(a, sample, first, n, &f);
            narrowed = sample;
            affine_position(a, y + offset[0] + first * bytes, x + offset[1] + first * a->l.along[1], n, &f);
        }
    }
}

static void affine_body(void *arg, int64_t begin, int64_t end, int thread) {
    const channel_affine *a = arg;
    const int64_t xbytes = (int64_t)nbx_dtype_size((nbx_dtype)a->x->dtype);
    (void)thread;
    if (a->dense) {
        if (a->flat) affine_stretches(a, begin, end);
        else affine_positions(a, begin, end);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        const int64_t sample = i / a->channels, item = i % a->channels;
        const char *x = (const char *)nbx_data(a->x) + sample * a->x->stride[0] * xbytes;
        char *y = (char *)nbx_data(a->y) + sample * a->y->stride[0] * xbytes;
        int64_t offset[2];
        const int64_t run = a->l.rank ? a->l.shape[0] : 1, step = a->l.rank ? a->l.step[1][0] : 0;
        for (int64_t k = 0; k < a->planes; k++) {
            lines_place(&a->l, k * run, offset);
            affine_store(a, y + offset[0] + item * a->l.along[0], x + offset[1] + item * a->l.along[1], step, run, item, sample);
        }
    }
    if (a->stream) v_stream_end();
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
    a->flat = a->dense && y.dtype != NBX_FLOAT64 && a->channels <= AFFINE_PART && a->l.along[1] == a->l.along[0] &&
              (a->l.count == 1 || (a->l.rank == 1 && a->l.step[0][0] == a->channels * a->l.along[0] && a->l.step[1][0] == a->l.step[0][0]));
    a->planes = a->l.rank ? a->l.count / a->l.shape[0] : 1;
    a->stream = a->stream || nbx_past_caches(a->y->numel * (int64_t)nbx_dtype_size((nbx_dtype)y.dtype));
    const int64_t items = a->samples * (a->dense ? a->l.count : a->channels);
    const int64_t work = a->dense ? a->channels : a->l.count;
    nbx_parallel_for(pool, items, 8192 / (work + 1) + 1, affine_body, a);
}

#endif

// Loops that the normalisation kernels share: parameters as dense floats, affine maps of dense runs.
#ifndef NBX_OPS_NORM_SIMD_H
#define NBX_OPS_NORM_SIMD_H

#include "core/tensor.h"
#include "cpu/stream_simd.h"
#include "ops/reduce/reduce_rows_simd.h"
#include "ops/reduce/stage_simd.h"

// All elements of a parameter in logical order; `absent` where there is no tensor.
static inline void parameter_f32(float *to, const nbx_tensor *t, int64_t n, float absent) {
    if (!t) {
        for (int64_t i = 0; i < n; i++) to[i] = absent;
        return;
    }
    const int64_t bytes = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    const char *p = nbx_data(t);
    if (t->contiguous || t->rank <= 1) {
        stage_f32(to, p, t->contiguous ? bytes : t->stride[0] * bytes, n, (nbx_dtype)t->dtype);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, offset = 0;
        for (int d = t->rank - 1; d >= 0; d--) offset += rest % t->shape[d] * t->stride[d], rest /= t->shape[d];
        stage_f32(to + i, p + offset * bytes, 0, 1, (nbx_dtype)t->dtype);
    }
}

static inline void parameter_f64(double *to, const nbx_tensor *t, int64_t n, double absent) {
    if (!t) {
        for (int64_t i = 0; i < n; i++) to[i] = absent;
        return;
    }
    const int64_t bytes = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    const char *p = nbx_data(t);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, offset = 0;
        for (int d = t->rank - 1; d >= 0; d--) offset += rest % t->shape[d] * t->stride[d], rest /= t->shape[d];
        stage_f64(to + i, p + offset * bytes, 0, 1, (nbx_dtype)t->dtype);
    }
}

// y = (x - mean) * scale * weight + bias, element by element; weight NULL: 1 and no bias.
NBX_INLINE void affine_lanes(char *y, const void *x, int64_t n, float mean, float scale, const float *weight, const float *bias,
                             nbx_dtype in, nbx_dtype out) {
    const vf32 m = v_set1(mean), s = v_set1(scale);
    int64_t i = 0;
    if (weight) {
        for (; i + 16 <= n; i += 16) {
            const vf32 d = v_mul(v_sub(lanes_load(x, i, in), m), s);
            lanes_store(y, i, v_fma(d, v_load(weight + i), v_load(bias + i)), out);
        }
    } else {
        for (; i + 16 <= n; i += 16) lanes_store(y, i, v_mul(v_sub(lanes_load(x, i, in), m), s), out);
    }
    if (i < n) {
        const int left = (int)(n - i);
        vf32 d = v_mul(v_sub(lanes_load_n(x, i, left, in), m), s);
        if (weight) d = v_fma(d, v_load_n(weight + i, left), v_load_n(bias + i, left));
        lanes_store_n(y, i, d, left, out);
    }
}

// y = (x - mean) * scale + shift, the same for a whole run.
NBX_INLINE void affine_run(char *y, const void *x, int64_t n, float mean, float scale, float shift, nbx_dtype in, nbx_dtype out) {
    const vf32 m = v_set1(mean), s = v_set1(scale), b = v_set1(shift);
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) lanes_store(y, i, v_fma(v_sub(lanes_load(x, i, in), m), s, b), out);
    if (i < n) {
        const int left = (int)(n - i);
        lanes_store_n(y, i, v_fma(v_sub(lanes_load_n(x, i, left, in), m), s, b), left, out);
    }
}

// The same for a dtype known at run time (not float64), past the caches when `stream`.
static inline void affine_dense(char *y, const char *x, int64_t n, float mean, float scale, float shift, nbx_dtype dtype, bool stream) {
    const int64_t bytes = (int64_t)nbx_dtype_size(dtype), most = stream ? NBX_STREAM_TILE / bytes : n;
    _Alignas(64) char results[NBX_STREAM_TILE];
    for (int64_t i = 0; i < n; i += most) {
        const int64_t count = n - i < most ? n - i : most;
        char *to = stream ? results : y;
        if (dtype == NBX_FLOAT32) affine_run(to, x + i * bytes, count, mean, scale, shift, NBX_FLOAT32, NBX_FLOAT32);
        else if (dtype == NBX_BFLOAT16) affine_run(to, x + i * bytes, count, mean, scale, shift, NBX_BFLOAT16, NBX_BFLOAT16);
        else affine_run(to, x + i * bytes, count, mean, scale, shift, NBX_FLOAT16, NBX_FLOAT16);
        if (stream) stream_bytes(y + i * bytes, results, (size_t)(count * bytes));
    }
}

#endif

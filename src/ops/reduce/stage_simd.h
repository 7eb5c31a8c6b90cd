// Runs of elements of any dtype and step as dense float, double, int64 or complex double in a buffer of the first-level
// cache, and back. Reductions, scans, softmax and norms compute in one of these four domains only.
#ifndef NBX_OPS_STAGE_SIMD_H
#define NBX_OPS_STAGE_SIMD_H

#include <math.h>

#include "core/dtype.h"
#include "cpu/simd.h"

#define NBX_INLINE static inline __attribute__((always_inline))

// ------------------------------------------------------------------------------------------- one vector of 16 floats
NBX_INLINE vf32 lanes_load(const void *p, int64_t i, nbx_dtype dtype) {
    if (dtype == NBX_FLOAT16) return v_load_f16((const uint16_t *)p + i);
    if (dtype == NBX_BFLOAT16) return v_load_bf16((const uint16_t *)p + i);
    return v_load((const float *)p + i);
}

// The first n lanes only (0 < n <= 16); the others are zero.
NBX_INLINE vf32 lanes_load_n(const void *p, int64_t i, int n, nbx_dtype dtype) {
    if (dtype == NBX_FLOAT16) return v_load_f16_n((const uint16_t *)p + i, n);
    if (dtype == NBX_BFLOAT16) return v_load_bf16_n((const uint16_t *)p + i, n);
    return v_load_n((const float *)p + i, n);
}

NBX_INLINE void lanes_store(void *p, int64_t i, vf32 x, nbx_dtype dtype) {
    if (dtype == NBX_FLOAT16) v_store_f16((uint16_t *)p + i, x);
    else if (dtype == NBX_BFLOAT16) v_store_bf16((uint16_t *)p + i, x);
    else v_store((float *)p + i, x);
}

NBX_INLINE void lanes_store_n(void *p, int64_t i, vf32 x, int n, nbx_dtype dtype) {
    if (dtype == NBX_FLOAT16) v_store_f16_n((uint16_t *)p + i, x, n);
    else if (dtype == NBX_BFLOAT16) v_store_bf16_n((uint16_t *)p + i, x, n);
    else v_store_n((float *)p + i, x, n);
}

// 32 elements in two vectors. Which one is where does not matter to those who store them the same way (v_load_two_bf16).
NBX_INLINE void lanes_load_two(const void *p, int64_t i, vf32 *a, vf32 *b, nbx_dtype dtype) {
    if (dtype == NBX_FLOAT16) v_load_two_f16((const uint16_t *)p + i, a, b);
    else if (dtype == NBX_BFLOAT16) v_load_two_bf16((const uint16_t *)p + i, a, b);
    else *a = v_load((const float *)p + i), *b = v_load((const float *)p + i + 16);
}

NBX_INLINE void lanes_store_two(void *p, int64_t i, vf32 a, vf32 b, nbx_dtype dtype) {
    if (dtype == NBX_FLOAT16) v_store_two_f16((uint16_t *)p + i, a, b);
    else if (dtype == NBX_BFLOAT16) v_store_two_bf16((uint16_t *)p + i, a, b);
    else v_store((float *)p + i, a), v_store((float *)p + i + 16, b);
}

// Numbers of which none is NaN: rounding bfloat16 needs not look for any (3 of 8 operations a vector).
NBX_INLINE void lanes_store_two_numbers(void *p, int64_t i, vf32 a, vf32 b, nbx_dtype dtype) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (dtype == NBX_BFLOAT16) {
        const vi32 x = v_bits(a), y = v_bits(b), one = vi_set1(1), half = vi_set1(0x7fff);
        const vi32 low = vi_add(vi_add(x, half), vi_and(vi_shr(x, 16), one)), high = vi_add(vi_add(y, half), vi_and(vi_shr(y, 16), one));
        vi_store((int32_t *)(void *)((uint16_t *)p + i), vi_or(vi_shr(low, 16), vi_and(high, vi_set1(-65536))));
        return;
    }
#endif
    lanes_store_two(p, i, a, b, dtype);
}

// --------------------------------------------------------------------------------------------------- runs to a domain
typedef struct stage_c64 { float a, b; } stage_c64;
typedef struct stage_c128 { double a, b; } stage_c128;

// float to int64 as x86 converts: what does not fit becomes INT64_MIN.
static inline int64_t stage_to_int(double x) {
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}

// for every element x of TYPE: to[i] = VALUE; the dense case is a loop of its own, which compilers vectorise.
#define STAGE_EACH_(TYPE, VALUE)                                                                                       \
    if (step == (int64_t)sizeof(TYPE)) {                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const TYPE x = ((const TYPE *)(const void *)from)[i];                                                      \
            to[i] = VALUE;                                                                                             \
        }                                                                                                              \
    } else {                                                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const TYPE x = *(const TYPE *)(const void *)(from + i * step);                                             \
            to[i] = VALUE;                                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    break;

static inline void stage_half(float *to, const char *from, int64_t step, int64_t n, nbx_dtype dtype) {
    int64_t i = 0;
    if (step == 2) {
        for (; i + 16 <= n; i += 16) v_store(to + i, lanes_load(from, i, dtype));
        if (i < n) v_store_n(to + i, lanes_load_n(from, i, (int)(n - i), dtype), (int)(n - i));
        return;
    }
    for (; i < n; i += 16) {
        uint16_t raw[16];
        const int count = n - i < 16 ? (int)(n - i) : 16;
        for (int k = 0; k < count; k++) raw[k] = *(const uint16_t *)(const void *)(from + (i + k) * step);
        v_store_n(to + i, lanes_load_n(raw, 0, count, dtype), count);
    }
}

static inline void stage_f32(float *to, const char *from, int64_t step, int64_t n, nbx_dtype dtype) {
    switch (dtype) {
    case NBX_FLOAT16:
    case NBX_BFLOAT16: stage_half(to, from, step, n, dtype); break;
    case NBX_FLOAT32: STAGE_EACH_(float, x)
    case NBX_FLOAT64: STAGE_EACH_(double, (float)x)
    case NBX_COMPLEX64: STAGE_EACH_(stage_c64, x.a)
    case NBX_COMPLEX128: STAGE_EACH_(stage_c128, (float)x.a)
    case NBX_BOOL: STAGE_EACH_(uint8_t, x != 0)
    case NBX_UINT8: STAGE_EACH_(uint8_t, x)
    case NBX_INT8: STAGE_EACH_(int8_t, x)
    case NBX_INT16: STAGE_EACH_(int16_t, x)
    case NBX_UINT16: STAGE_EACH_(uint16_t, x)
    case NBX_INT32: STAGE_EACH_(int32_t, (float)x)
    case NBX_UINT32: STAGE_EACH_(uint32_t, (float)x)
    case NBX_INT64: STAGE_EACH_(int64_t, (float)x)
    case NBX_UINT64: STAGE_EACH_(uint64_t, (float)x)
    default: break;
    }
}

static inline void stage_half_wide(double *to, const char *from, int64_t step, int64_t n, nbx_dtype dtype) {
    float part[64];
    for (int64_t i = 0; i < n; i += 64) {
        const int64_t count = n - i < 64 ? n - i : 64;
        stage_half(part, from + i * step, step, count, dtype);
        for (int64_t k = 0; k < count; k++) to[i + k] = (double)part[k];
    }
}

static inline void stage_f64(double *to, const char *from, int64_t step, int64_t n, nbx_dtype dtype) {
    switch (dtype) {
    case NBX_FLOAT16:
    case NBX_BFLOAT16: stage_half_wide(to, from, step, n, dtype); break;
    case NBX_FLOAT32: STAGE_EACH_(float, (double)x)
    case NBX_FLOAT64: STAGE_EACH_(double, x)
    case NBX_COMPLEX64: STAGE_EACH_(stage_c64, (double)x.a)
    case NBX_COMPLEX128: STAGE_EACH_(stage_c128, x.a)
    case NBX_BOOL: STAGE_EACH_(uint8_t, x != 0)
    case NBX_UINT8: STAGE_EACH_(uint8_t, x)
    case NBX_INT8: STAGE_EACH_(int8_t, x)
    case NBX_INT16: STAGE_EACH_(int16_t, x)
    case NBX_UINT16: STAGE_EACH_(uint16_t, x)
    case NBX_INT32: STAGE_EACH_(int32_t, x)
    case NBX_UINT32: STAGE_EACH_(uint32_t, x)
    case NBX_INT64: STAGE_EACH_(int64_t, (double)x)
    case NBX_UINT64: STAGE_EACH_(uint64_t, (double)x)
    default: break;
    }
}

static inline void stage_i64(int64_t *to, const char *from, int64_t step, int64_t n, nbx_dtype dtype) {
    switch (dtype) {
    case NBX_FLOAT16:
    case NBX_BFLOAT16: {
        float part[64];
        for (int64_t i = 0; i < n; i += 64) {
            const int64_t count = n - i < 64 ? n - i : 64;
            stage_half(part, from + i * step, step, count, dtype);
            for (int64_t k = 0; k < count; k++) to[i + k] = stage_to_int((double)part[k]);
        }
        break;
    }
    case NBX_FLOAT32: STAGE_EACH_(float, stage_to_int((double)x))
    case NBX_FLOAT64: STAGE_EACH_(double, stage_to_int(x))
    case NBX_COMPLEX64: STAGE_EACH_(stage_c64, stage_to_int((double)x.a))
    case NBX_COMPLEX128: STAGE_EACH_(stage_c128, stage_to_int(x.a))
    case NBX_BOOL: STAGE_EACH_(uint8_t, x != 0)
    case NBX_UINT8: STAGE_EACH_(uint8_t, x)
    case NBX_INT8: STAGE_EACH_(int8_t, x)
    case NBX_INT16: STAGE_EACH_(int16_t, x)
    case NBX_UINT16: STAGE_EACH_(uint16_t, x)
    case NBX_INT32: STAGE_EACH_(int32_t, x)
    case NBX_UINT32: STAGE_EACH_(uint32_t, x)
    case NBX_INT64: STAGE_EACH_(int64_t, x)
    case NBX_UINT64: STAGE_EACH_(uint64_t, (int64_t)x)
    default: break;
    }
}

// 1 where the element is not zero (NaN is not), else 0.
static inline void stage_truth(int64_t *to, const char *from, int64_t step, int64_t n, nbx_dtype dtype) {
    switch (dtype) {
    case NBX_FLOAT16:
    case NBX_BFLOAT16: STAGE_EACH_(uint16_t, (x & 0x7fff) != 0)
    case NBX_FLOAT32: STAGE_EACH_(float, x != 0.0f)
    case NBX_FLOAT64: STAGE_EACH_(double, x != 0.0)
    case NBX_COMPLEX64: STAGE_EACH_(stage_c64, x.a != 0.0f || x.b != 0.0f)
    case NBX_COMPLEX128: STAGE_EACH_(stage_c128, x.a != 0.0 || x.b != 0.0)
    case NBX_INT16:
    case NBX_UINT16: STAGE_EACH_(uint16_t, x != 0)
    case NBX_INT32:
    case NBX_UINT32: STAGE_EACH_(uint32_t, x != 0)
    case NBX_INT64:
    case NBX_UINT64: STAGE_EACH_(uint64_t, x != 0)
    default: STAGE_EACH_(uint8_t, x != 0)
    }
}
#undef STAGE_EACH_

// Pairs (re, im); a real element has im 0.
static inline void stage_complex(double *to, const char *from, int64_t step, int64_t n, nbx_dtype dtype) {
    if (dtype == NBX_COMPLEX128 || dtype == NBX_COMPLEX64) {
        for (int64_t i = 0; i < n; i++) {
            const char *p = from + i * step;
            const bool wide = dtype == NBX_COMPLEX128;
            to[2 * i] = wide ? ((const double *)(const void *)p)[0] : (double)((const float *)(const void *)p)[0];
            to[2 * i + 1] = wide ? ((const double *)(const void *)p)[1] : (double)((const float *)(const void *)p)[1];
        }
        return;
    }
    double part[64];
    for (int64_t i = 0; i < n; i += 64) {
        const int64_t count = n - i < 64 ? n - i : 64;
        stage_f64(part, from + i * step, step, count, dtype);
        for (int64_t k = 0; k < count; k++) to[2 * (i + k)] = part[k], to[2 * (i + k) + 1] = 0.0;
    }
}

// The same after a conversion to dtype `cast`, whose domain is float or double: what the cast loses is lost here, too.
static inline void stage_cast_f32(float *to, const char *from, int64_t step, int64_t n, nbx_dtype dtype, nbx_dtype cast) {
    stage_f32(to, from, step, n, dtype);
    if (dtype == cast || cast == NBX_FLOAT32) return;
    for (int64_t i = 0; i < n; i += 16) {
        const int left = n - i < 16 ? (int)(n - i) : 16;
        const vf32 x = v_load_n(to + i, left);
        v_store_n(to + i, cast == NBX_FLOAT16 ? v_round_f16(x) : v_round_bf16(x), left);
    }
}
static inline void stage_cast_f64(double *to, const char *from, int64_t step, int64_t n, nbx_dtype dtype, nbx_dtype cast) {
    stage_f64(to, from, step, n, dtype);
    if (dtype == cast || cast == NBX_FLOAT64) return;
    for (int64_t i = 0; i < n; i += 16) {
        const int left = n - i < 16 ? (int)(n - i) : 16;
        float part[16] = {0};
        for (int k = 0; k < left; k++) part[k] = (float)to[i + k];
        const vf32 x = v_load(part);
        if (cast != NBX_FLOAT32) v_store(part, cast == NBX_FLOAT16 ? v_round_f16(x) : v_round_bf16(x));
        for (int k = 0; k < left; k++) to[i + k] = (double)part[k];
    }
}

// The value of an int64 as an integer dtype holds it.
static inline int64_t stage_wrap_int(int64_t x, nbx_dtype dtype) {
    switch (dtype) {
    case NBX_BOOL: return x != 0;
    case NBX_UINT8: return (uint8_t)x;
    case NBX_INT8: return (int8_t)x;
    case NBX_INT16: return (int16_t)x;
    case NBX_UINT16: return (uint16_t)x;
    case NBX_INT32: return (int32_t)x;
    case NBX_UINT32: return (uint32_t)x;
    default: return x;
    }
}

// ------------------------------------------------------------------------------------------------- runs from a domain
#define STORE_EACH_(TYPE, VALUE)                                                                                       \
    for (int64_t i = 0; i < n; i++) *(TYPE *)(void *)(to + i * step) = (TYPE)(VALUE);                                  \
    break;

static inline void store_f32(char *to, int64_t step, const float *from, int64_t n, nbx_dtype dtype) {
    switch (dtype) {
    case NBX_FLOAT16:
    case NBX_BFLOAT16:
        for (int64_t i = 0; i < n; i += 16) {
            const int count = n - i < 16 ? (int)(n - i) : 16;
            const vf32 x = v_load_n(from + i, count);
            if (step == 2) {
                if (count == 16) lanes_store(to, i, x, dtype);
                else lanes_store_n(to, i, x, count, dtype);
            } else {
                uint16_t raw[16];
                lanes_store(raw, 0, x, dtype);
                for (int k = 0; k < count; k++) *(uint16_t *)(void *)(to + (i + k) * step) = raw[k];
            }
        }
        break;
    case NBX_FLOAT32:
        if (step == 4) memcpy(to, from, (size_t)n * 4);
        else
            for (int64_t i = 0; i < n; i++) *(float *)(void *)(to + i * step) = from[i];
        break;
    case NBX_FLOAT64: STORE_EACH_(double, from[i])
    case NBX_BOOL: STORE_EACH_(uint8_t, from[i] != 0.0f)
    default: break;
    }
}

static inline void store_f64(char *to, int64_t step, const double *from, int64_t n, nbx_dtype dtype) {
    switch (dtype) {
    case NBX_FLOAT64: STORE_EACH_(double, from[i])
    case NBX_FLOAT32: STORE_EACH_(float, from[i])
    default: {
        float part[64];
        for (int64_t i = 0; i < n; i += 64) {
            const int64_t count = n - i < 64 ? n - i : 64;
            for (int64_t k = 0; k < count; k++) part[k] = (float)from[i + k];
            store_f32(to + i * step, step, part, count, dtype);
        }
    }
    }
}

static inline void store_i64(char *to, int64_t step, const int64_t *from, int64_t n, nbx_dtype dtype) {
    switch (dtype) {
    case NBX_BOOL: STORE_EACH_(uint8_t, from[i] != 0)
    case NBX_UINT8:
    case NBX_INT8: STORE_EACH_(uint8_t, from[i])
    case NBX_INT16:
    case NBX_UINT16: STORE_EACH_(uint16_t, from[i])
    case NBX_INT32:
    case NBX_UINT32: STORE_EACH_(uint32_t, from[i])
    case NBX_INT64:
    case NBX_UINT64: STORE_EACH_(uint64_t, from[i])
    default: break;
    }
}
#undef STORE_EACH_

// Pairs (re, im) to complex, or re alone to a real dtype.
static inline void store_complex(char *to, int64_t step, const double *from, int64_t n, nbx_dtype dtype) {
    for (int64_t i = 0; i < n; i++) {
        char *p = to + i * step;
        if (dtype == NBX_COMPLEX128) {
            ((double *)(void *)p)[0] = from[2 * i];
            ((double *)(void *)p)[1] = from[2 * i + 1];
        } else if (dtype == NBX_COMPLEX64) {
            ((float *)(void *)p)[0] = (float)from[2 * i];
            ((float *)(void *)p)[1] = (float)from[2 * i + 1];
        } else {
            store_f64(p, 0, from + 2 * i, 1, dtype);
        }
    }
}

#endif

// For the files that hold loops: shapes of loops as always-inline functions that take the operator as an argument, and
// the macro that makes a kernel of a set of loops. Vector body and tail run the same code, so a result does not depend on
// where in a tensor an element lies.
#ifndef NBX_OPS_ELEMENTWISE_LOOPS_SIMD_H
#define NBX_OPS_ELEMENTWISE_LOOPS_SIMD_H

#include <complex.h>
#undef I
#undef complex

#include "cpu/vecmath.h"
#include "ops/elementwise/elementwise.h"

#define EW_INLINE static inline __attribute__((always_inline))
// The next loop carries nothing from element to element (in and out may be the very same memory).
#if defined(__clang__)
#define EW_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed"  // loops around C library calls stay scalar
#else
#define EW_INDEPENDENT _Pragma("GCC ivdep")
#endif

nbx_status NBX_KERNEL(ew_execute)(nbx_op_call *c, const ew_loops *loops);

// The kernel NAME of an operator, from its loops.
#define EW_KERNEL(NAME, ...)                                                                                           \
    nbx_status NBX_KERNEL(NAME)(nbx_op_call * c);                                                                      \
    nbx_status NBX_KERNEL(NAME)(nbx_op_call * c) {                                                                     \
        static const ew_loops loops = {__VA_ARGS__};                                                                   \
        return NBX_KERNEL(ew_execute)(c, &loops);                                                                      \
    }
// A loop: SHAPE is one of the functions below, F what it does to an element (or a vector of them).
#define EW_LOOP(NAME, SHAPE, ...)                                                                                      \
    static void NAME(const ew_run *r) { SHAPE(r, __VA_ARGS__); }

// ------------------------------------------------------------------------------------------------------------- float32
EW_INLINE void ew_map1(const ew_run *r, vf32 (*f)(vf32)) {
    const float *x = r->in[0];
    float *y = r->out[0];
    int64_t i = 0;
    for (; i + 16 <= r->count; i += 16) v_store(y + i, f(v_load(x + i)));
    const int n = (int)(r->count - i);
    if (n) v_store_n(y + i, f(v_load_n(x + i, n)), n);
}
EW_INLINE void ew_map2(const ew_run *r, vf32 (*f)(vf32, vf32)) {
    const float *x = r->in[0], *y = r->in[1];
    float *z = r->out[0];
    int64_t i = 0;
    for (; i + 16 <= r->count; i += 16) v_store(z + i, f(v_load(x + i), v_load(y + i)));
    const int n = (int)(r->count - i);
    if (n) v_store_n(z + i, f(v_load_n(x + i, n), v_load_n(y + i, n)), n);
}
EW_INLINE void ew_map3(const ew_run *r, vf32 (*f)(vf32, vf32, vf32)) {
    const float *x = r->in[0], *y = r->in[1], *w = r->in[2];
    float *z = r->out[0];
    int64_t i = 0;
    for (; i + 16 <= r->count; i += 16) v_store(z + i, f(v_load(x + i), v_load(y + i), v_load(w + i)));
    const int n = (int)(r->count - i);
    if (n) v_store_n(z + i, f(v_load_n(x + i, n), v_load_n(y + i, n), v_load_n(w + i, n)), n);
}
// With the first numbers of params.
typedef struct ew_k32 { vf32 a, b, c, d; } ew_k32;
EW_INLINE ew_k32 ew_numbers32(const ew_params *p) {
    return (ew_k32){v_set1((float)p->f[0]), v_set1((float)p->f[1]), v_set1((float)p->f[2]), v_set1((float)p->f[3])};
}
EW_INLINE void ew_map1k(const ew_run *r, vf32 (*f)(vf32, ew_k32)) {
    const ew_k32 k = ew_numbers32(r->params);
    const float *x = r->in[0];
    float *y = r->out[0];
    int64_t i = 0;
    for (; i + 16 <= r->count; i += 16) v_store(y + i, f(v_load(x + i), k));
    const int n = (int)(r->count - i);
    if (n) v_store_n(y + i, f(v_load_n(x + i, n), k), n);
}
EW_INLINE void ew_map2k(const ew_run *r, vf32 (*f)(vf32, vf32, ew_k32)) {
    const ew_k32 k = ew_numbers32(r->params);
    const float *x = r->in[0], *y = r->in[1];
    float *z = r->out[0];
    int64_t i = 0;
    for (; i + 16 <= r->count; i += 16) v_store(z + i, f(v_load(x + i), v_load(y + i), k));
    const int n = (int)(r->count - i);
    if (n) v_store_n(z + i, f(v_load_n(x + i, n), v_load_n(y + i, n), k), n);
}
EW_INLINE void ew_map3k(const ew_run *r, vf32 (*f)(vf32, vf32, vf32, ew_k32)) {
    const ew_k32 k = ew_numbers32(r->params);
    const float *x = r->in[0], *y = r->in[1], *w = r->in[2];
    float *z = r->out[0];
    int64_t i = 0;
    for (; i + 16 <= r->count; i += 16) v_store(z + i, f(v_load(x + i), v_load(y + i), v_load(w + i), k));
    const int n = (int)(r->count - i);
    if (n) v_store_n(z + i, f(v_load_n(x + i, n), v_load_n(y + i, n), v_load_n(w + i, n), k), n);
}
// Where ATen rounds between the steps of an operator, so do we: x to the nearest number of float16 or bfloat16.
EW_INLINE vf32 ew_round(vf32 x, nbx_dtype compute) {
    return compute == NBX_BFLOAT16 ? v_round_bf16(x) : compute == NBX_FLOAT16 ? v_round_f16(x) : x;
}

// float16 and bfloat16 as they lie in memory, computed in float.
EW_INLINE void ew_load_two(const uint16_t *p, vf32 *two, nbx_dtype compute) {
    if (compute == NBX_BFLOAT16) v_load_two_bf16(p, &two[0], &two[1]);
    else v_load_two_f16(p, &two[0], &two[1]);
}
EW_INLINE void ew_store_two(uint16_t *p, vf32 a, vf32 b, nbx_dtype compute) {
    if (compute == NBX_BFLOAT16) v_store_two_bf16(p, a, b);
    else v_store_two_f16(p, a, b);
}
EW_INLINE void ew_halves1_of(const ew_run *r, vf32 (*f)(vf32), nbx_dtype compute) {
    const uint16_t *x = r->in[0];
    uint16_t *y = r->out[0], tail[32] = {0};
    for (int64_t i = 0; i < r->count; i += 32) {
        const size_t left = r->count - i < 32 ? 2 * (size_t)(r->count - i) : 0;
        vf32 a[2];
        if (left) memcpy(tail, x + i, left);
        ew_load_two(left ? tail : x + i, a, compute);
        ew_store_two(left ? tail : y + i, f(a[0]), f(a[1]), compute);
        if (left) memcpy(y + i, tail, left);
    }
}
// `scale`: y is multiplied by it, and rounded, first.
EW_INLINE void ew_halves2_of(const ew_run *r, vf32 (*f)(vf32, vf32), const vf32 *scale, nbx_dtype compute) {
    const uint16_t *x = r->in[0], *y = r->in[1];
    uint16_t *z = r->out[0], tail[2][32] = {{0}};
    for (int64_t i = 0; i < r->count; i += 32) {
        const size_t left = r->count - i < 32 ? 2 * (size_t)(r->count - i) : 0;
        vf32 a[2], b[2];
        if (left) memcpy(tail[0], x + i, left), memcpy(tail[1], y + i, left);
        ew_load_two(left ? tail[0] : x + i, a, compute);
        ew_load_two(left ? tail[1] : y + i, b, compute);
        for (int k = 0; scale && k < 2; k++) b[k] = ew_round(v_mul(*scale, b[k]), compute);
        ew_store_two(left ? tail[0] : z + i, f(a[0], b[0]), f(a[1], b[1]), compute);
        if (left) memcpy(z + i, tail[0], left);
    }
}
EW_INLINE void ew_halves1(const ew_run *r, vf32 (*f)(vf32)) {
    if (r->compute == NBX_BFLOAT16) ew_halves1_of(r, f, NBX_BFLOAT16);
    else ew_halves1_of(r, f, NBX_FLOAT16);
}
EW_INLINE void ew_halves2(const ew_run *r, vf32 (*f)(vf32, vf32)) {
    if (r->compute == NBX_BFLOAT16) ew_halves2_of(r, f, NULL, NBX_BFLOAT16);
    else ew_halves2_of(r, f, NULL, NBX_FLOAT16);
}
EW_INLINE void ew_store_bools(uint8_t *p, vm32 m, int n) {
    uint8_t lanes[16];
    vm_store_bool(lanes, m);
    for (int i = 0; i < n; i++) p[i] = lanes[i];
}
EW_INLINE void ew_test1(const ew_run *r, vm32 (*f)(vf32)) {
    const float *x = r->in[0];
    uint8_t *y = r->out[0];
    int64_t i = 0;
    for (; i + 16 <= r->count; i += 16) vm_store_bool(y + i, f(v_load(x + i)));
    const int n = (int)(r->count - i);
    if (n) ew_store_bools(y + i, f(v_load_n(x + i, n)), n);
}
EW_INLINE void ew_test2(const ew_run *r, vm32 (*f)(vf32, vf32)) {
    const float *x = r->in[0], *y = r->in[1];
    uint8_t *z = r->out[0];
    int64_t i = 0;
    for (; i + 16 <= r->count; i += 16) vm_store_bool(z + i, f(v_load(x + i), v_load(y + i)));
    const int n = (int)(r->count - i);
    if (n) ew_store_bools(z + i, f(v_load_n(x + i, n), v_load_n(y + i, n)), n);
}

// ------------------------------------------------------------------------------------------------------------- float64
EW_INLINE void ew_dmap1(const ew_run *r, vf64 (*f)(vf64)) {
    const double *x = r->in[0];
    double *y = r->out[0];
    int64_t i = 0;
    for (; i + 8 <= r->count; i += 8) vd_store(y + i, f(vd_load(x + i)));
    const int n = (int)(r->count - i);
    if (n) vd_store_n(y + i, f(vd_load_n(x + i, n)), n);
}
EW_INLINE void ew_dmap2(const ew_run *r, vf64 (*f)(vf64, vf64)) {
    const double *x = r->in[0], *y = r->in[1];
    double *z = r->out[0];
    int64_t i = 0;
    for (; i + 8 <= r->count; i += 8) vd_store(z + i, f(vd_load(x + i), vd_load(y + i)));
    const int n = (int)(r->count - i);
    if (n) vd_store_n(z + i, f(vd_load_n(x + i, n), vd_load_n(y + i, n)), n);
}

// ---------------------------------------------------------------------------- a plain C function, for any element type
typedef struct ew_k64 { double a, b, c, d; } ew_k64;
EW_INLINE ew_k64 ew_numbers64(const ew_params *p) { return (ew_k64){p->f[0], p->f[1], p->f[2], p->f[3]}; }
#define EW_APPLY(NAME, T, R)                                                                                           \
    EW_INLINE void ew_apply1_##NAME(const ew_run *r, R (*f)(T)) {                                                      \
        const T *x = r->in[0];                                                                                         \
        R *y = r->out[0];                                                                                              \
        const int64_t n = r->count;                                                                                    \
        EW_INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = f(x[i]);                                                 \
    }                                                                                                                  \
    EW_INLINE void ew_apply2_##NAME(const ew_run *r, R (*f)(T, T)) {                                                   \
        const T *x = r->in[0], *y = r->in[1];                                                                          \
        R *z = r->out[0];                                                                                              \
        const int64_t n = r->count;                                                                                    \
        EW_INDEPENDENT for (int64_t i = 0; i < n; i++) z[i] = f(x[i], y[i]);                                           \
    }                                                                                                                  \
    EW_INLINE void ew_apply3_##NAME(const ew_run *r, R (*f)(T, T, T)) {                                                \
        const T *x = r->in[0], *y = r->in[1], *w = r->in[2];                                                           \
        R *z = r->out[0];                                                                                              \
        const int64_t n = r->count;                                                                                    \
        EW_INDEPENDENT for (int64_t i = 0; i < n; i++) z[i] = f(x[i], y[i], w[i]);                                     \
    }                                                                                                                  \
    EW_INLINE void ew_apply1k_##NAME(const ew_run *r, R (*f)(T, ew_k64)) {                                             \
        const ew_k64 k = ew_numbers64(r->params);                                                                      \
        const T *x = r->in[0];                                                                                         \
        R *y = r->out[0];                                                                                              \
        const int64_t n = r->count;                                                                                    \
        EW_INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = f(x[i], k);                                              \
    }                                                                                                                  \
    EW_INLINE void ew_apply2k_##NAME(const ew_run *r, R (*f)(T, T, ew_k64)) {                                          \
        const ew_k64 k = ew_numbers64(r->params);                                                                      \
        const T *x = r->in[0], *y = r->in[1];                                                                          \
        R *z = r->out[0];                                                                                              \
        const int64_t n = r->count;                                                                                    \
        EW_INDEPENDENT for (int64_t i = 0; i < n; i++) z[i] = f(x[i], y[i], k);                                        \
    }                                                                                                                  \
    EW_INLINE void ew_apply3k_##NAME(const ew_run *r, R (*f)(T, T, T, ew_k64)) {                                       \
        const ew_k64 k = ew_numbers64(r->params);                                                                      \
        const T *x = r->in[0], *y = r->in[1], *w = r->in[2];                                                           \
        R *z = r->out[0];                                                                                              \
        const int64_t n = r->count;                                                                                    \
        EW_INDEPENDENT for (int64_t i = 0; i < n; i++) z[i] = f(x[i], y[i], w[i], k);                                  \
    }
typedef float _Complex ew_c64;
typedef double _Complex ew_c128;
EW_APPLY(f32, float, float)
EW_APPLY(f64, double, double)
EW_APPLY(i64, int64_t, int64_t)
EW_APPLY(u64, uint64_t, uint64_t)
EW_APPLY(bool, uint8_t, uint8_t)
EW_APPLY(c64, ew_c64, ew_c64)
EW_APPLY(c128, ew_c128, ew_c128)
EW_APPLY(f32_bool, float, uint8_t)
EW_APPLY(f64_bool, double, uint8_t)
EW_APPLY(c64_bool, ew_c64, uint8_t)
EW_APPLY(c128_bool, ew_c128, uint8_t)
EW_APPLY(c64_real, ew_c64, float)
EW_APPLY(c128_real, ew_c128, double)

// ------------------------------------------------------------------------------------------------------------ integers
// A function of int64 that is right modulo 2^n (add, mul, and, ...) or on widened values (max, comparisons), run in the
// memory's own width: the compiler narrows the arithmetic. uint64 goes through the function that is given for it.
#define EW_EACH_INT(F, FU)                                                                                             \
    switch (r->dtype) {                                                                                                \
    case NBX_BOOL:                                                                                                     \
    case NBX_UINT8: { EW_INT_LOOP(uint8_t, F) } break;                                                                 \
    case NBX_INT8: { EW_INT_LOOP(int8_t, F) } break;                                                                   \
    case NBX_INT16: { EW_INT_LOOP(int16_t, F) } break;                                                                 \
    case NBX_INT32: { EW_INT_LOOP(int32_t, F) } break;                                                                 \
    case NBX_INT64: { EW_INT_LOOP(int64_t, F) } break;                                                                 \
    case NBX_UINT16: { EW_INT_LOOP(uint16_t, F) } break;                                                               \
    case NBX_UINT32: { EW_INT_LOOP(uint32_t, F) } break;                                                               \
    case NBX_UINT64: { EW_INT_LOOP(uint64_t, FU) } break;                                                              \
    default: break;                                                                                                    \
    }

EW_INLINE void ew_ints1(const ew_run *r, int64_t (*f)(int64_t), uint64_t (*fu)(uint64_t)) {
    const int64_t n = r->count;
#define EW_INT_LOOP(T, G)                                                                                              \
    const T *x = r->in[0];                                                                                             \
    T *y = r->out[0];                                                                                                  \
    EW_INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = (T)G(x[i]);
    EW_EACH_INT(f, fu)
#undef EW_INT_LOOP
}
EW_INLINE void ew_ints2(const ew_run *r, int64_t (*f)(int64_t, int64_t), uint64_t (*fu)(uint64_t, uint64_t)) {
    const int64_t n = r->count;
#define EW_INT_LOOP(T, G)                                                                                              \
    const T *x = r->in[0], *y = r->in[1];                                                                              \
    T *z = r->out[0];                                                                                                  \
    EW_INDEPENDENT for (int64_t i = 0; i < n; i++) z[i] = (T)G(x[i], y[i]);
    EW_EACH_INT(f, fu)
#undef EW_INT_LOOP
}
EW_INLINE void ew_ints3(const ew_run *r, int64_t (*f)(int64_t, int64_t, int64_t), uint64_t (*fu)(uint64_t, uint64_t, uint64_t)) {
    const int64_t n = r->count;
#define EW_INT_LOOP(T, G)                                                                                              \
    const T *x = r->in[0], *y = r->in[1], *w = r->in[2];                                                               \
    T *z = r->out[0];                                                                                                  \
    EW_INDEPENDENT for (int64_t i = 0; i < n; i++) z[i] = (T)G(x[i], y[i], w[i]);
    EW_EACH_INT(f, fu)
#undef EW_INT_LOOP
}
EW_INLINE void ew_int_tests1(const ew_run *r, bool (*f)(int64_t), bool (*fu)(uint64_t)) {
    const int64_t n = r->count;
    uint8_t *y = r->out[0];
#define EW_INT_LOOP(T, G)                                                                                              \
    const T *x = r->in[0];                                                                                             \
    EW_INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = G(x[i]);
    EW_EACH_INT(f, fu)
#undef EW_INT_LOOP
}
EW_INLINE void ew_int_tests2(const ew_run *r, bool (*f)(int64_t, int64_t), bool (*fu)(uint64_t, uint64_t)) {
    const int64_t n = r->count;
    uint8_t *z = r->out[0];
#define EW_INT_LOOP(T, G)                                                                                              \
    const T *x = r->in[0], *y = r->in[1];                                                                              \
    EW_INDEPENDENT for (int64_t i = 0; i < n; i++) z[i] = G(x[i], y[i]);
    EW_EACH_INT(f, fu)
#undef EW_INT_LOOP
}

#endif

// One element of any dtype, loaded and stored. With a constant dtype the switches fold away.
#ifndef NBX_OPS_ELEMENT_H
#define NBX_OPS_ELEMENT_H

#include <string.h>

#include "core/dtype.h"
#include "core/half.h"

#define ELEMENT_INLINE static inline __attribute__((always_inline))

typedef struct nbx_complex_number { double re, im; } nbx_complex_number;

#define ELEMENT_LOADER(name, type)                                                                                     \
    ELEMENT_INLINE type element_get_##name(const void *p) {                                                            \
        type x;                                                                                                        \
        memcpy(&x, p, sizeof x);                                                                                       \
        return x;                                                                                                      \
    }                                                                                                                  \
    ELEMENT_INLINE void element_put_##name(void *p, type x) { memcpy(p, &x, sizeof x); }
ELEMENT_LOADER(u8, uint8_t)
ELEMENT_LOADER(i8, int8_t)
ELEMENT_LOADER(i16, int16_t)
ELEMENT_LOADER(u16, uint16_t)
ELEMENT_LOADER(i32, int32_t)
ELEMENT_LOADER(u32, uint32_t)
ELEMENT_LOADER(i64, int64_t)
ELEMENT_LOADER(u64, uint64_t)
ELEMENT_LOADER(f32, float)
ELEMENT_LOADER(f64, double)

// Integers and bools as int64 (uint64 keeps its bits).
ELEMENT_INLINE int64_t element_int(nbx_dtype d, const void *p) {
    switch (d) {
    case NBX_UINT8: return element_get_u8(p);
    case NBX_BOOL: return element_get_u8(p) != 0;
    case NBX_INT8: return element_get_i8(p);
    case NBX_INT16: return element_get_i16(p);
    case NBX_UINT16: return element_get_u16(p);
    case NBX_INT32: return element_get_i32(p);
    case NBX_UINT32: return element_get_u32(p);
    default: return element_get_i64(p);
    }
}
ELEMENT_INLINE void element_set_int(nbx_dtype d, void *p, int64_t x) {
    switch (d) {
    case NBX_UINT8:
    case NBX_INT8: element_put_u8(p, (uint8_t)x); break;
    case NBX_BOOL: element_put_u8(p, x != 0); break;
    case NBX_INT16:
    case NBX_UINT16: element_put_u16(p, (uint16_t)x); break;
    case NBX_INT32:
    case NBX_UINT32: element_put_u32(p, (uint32_t)x); break;
    default: element_put_i64(p, x); break;
    }
}
// Floating dtypes as float; float64 loses bits.
ELEMENT_INLINE float element_float(nbx_dtype d, const void *p) {
    switch (d) {
    case NBX_FLOAT16: return nbx_from_f16(element_get_u16(p));
    case NBX_BFLOAT16: return nbx_from_bf16(element_get_u16(p));
    case NBX_FLOAT8_E4M3FN: return nbx_from_e4m3fn(element_get_u8(p));
    case NBX_FLOAT8_E5M2: return nbx_from_e5m2(element_get_u8(p));
    case NBX_FLOAT64: return (float)element_get_f64(p);
    default: return element_get_f32(p);
    }
}
ELEMENT_INLINE void element_set_float(nbx_dtype d, void *p, float x) {
    switch (d) {
    case NBX_FLOAT16: element_put_u16(p, nbx_to_f16(x)); break;
    case NBX_BFLOAT16: element_put_u16(p, nbx_to_bf16(x)); break;
    case NBX_FLOAT8_E4M3FN: element_put_u8(p, nbx_to_e4m3fn(x)); break;
    case NBX_FLOAT8_E5M2: element_put_u8(p, nbx_to_e5m2(x)); break;
    case NBX_FLOAT64: element_put_f64(p, x); break;
    default: element_put_f32(p, x); break;
    }
}
// Any dtype as double; of complex numbers the real part, of int64 what double holds.
ELEMENT_INLINE double element_double(nbx_dtype d, const void *p) {
    switch (d) {
    case NBX_FLOAT64:
    case NBX_COMPLEX128: return element_get_f64(p);
    case NBX_COMPLEX64: return element_get_f32(p);
    case NBX_UINT64: return (double)element_get_u64(p);
    case NBX_FLOAT32:
    case NBX_FLOAT16:
    case NBX_BFLOAT16:
    case NBX_FLOAT8_E4M3FN:
    case NBX_FLOAT8_E5M2: return element_float(d, p);
    default: return (double)element_int(d, p);
    }
}
ELEMENT_INLINE double element_imag(nbx_dtype d, const void *p) {
    return d == NBX_COMPLEX128 ? element_get_f64((const char *)p + 8) : d == NBX_COMPLEX64 ? element_get_f32((const char *)p + 4) : 0;
}
// A double as an integer: truncated, and saturated where a plain conversion would be undefined.
ELEMENT_INLINE int64_t element_truncated(double x) {
    if (!(x >= -9223372036854775808.0 && x < 9223372036854775808.0)) return INT64_MIN;
    return (int64_t)x;
}
// float rounded from double through float, as a chain of two casts in C would.
ELEMENT_INLINE void element_set_double(nbx_dtype d, void *p, double x) {
    switch (d) {
    case NBX_FLOAT64: element_put_f64(p, x); break;
    case NBX_COMPLEX128: element_put_f64(p, x), element_put_f64((char *)p + 8, 0); break;
    case NBX_COMPLEX64: element_put_f32(p, (float)x), element_put_f32((char *)p + 4, 0); break;
    case NBX_FLOAT32:
    case NBX_FLOAT16:
    case NBX_BFLOAT16:
    case NBX_FLOAT8_E4M3FN:
    case NBX_FLOAT8_E5M2: element_set_float(d, p, (float)x); break;
    case NBX_BOOL: element_put_u8(p, x != 0); break;
    case NBX_UINT64: element_put_u64(p, x >= 9223372036854775808.0 && x < 18446744073709551616.0 ? (uint64_t)x : (uint64_t)element_truncated(x)); break;
    default: element_set_int(d, p, element_truncated(x)); break;
    }
}
ELEMENT_INLINE void element_set_imag(nbx_dtype d, void *p, double x) {
    if (d == NBX_COMPLEX128) element_put_f64((char *)p + 8, x);
    else if (d == NBX_COMPLEX64) element_put_f32((char *)p + 4, (float)x);
}

#endif

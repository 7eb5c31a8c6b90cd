// Elements of any dtype for plain kernels: reals as double, integers as 64 bits that wrap, complex numbers as two doubles.
// The dtype is a constant where these are called on the host, so the switches fold away.
#ifndef NBX_OPS_PLAIN_NUMBERS_H
#define NBX_OPS_PLAIN_NUMBERS_H

#include "core/dtype.h"
#include "core/half.h"

#ifdef __CUDACC__
#define INLINE NBX_BOTH
#else
#define INLINE static inline __attribute__((always_inline))
#endif

INLINE double load_real(const char *p, int64_t i, nbx_dtype d) {
    switch (d) {
    case NBX_FLOAT64: return ((const double *)p)[i];
    case NBX_FLOAT16: return (double)nbx_from_f16(((const uint16_t *)p)[i]);
    case NBX_BFLOAT16: return (double)nbx_from_bf16(((const uint16_t *)p)[i]);
    default: return (double)((const float *)p)[i];
    }
}

INLINE void store_real(char *p, int64_t i, nbx_dtype d, double x) {
    switch (d) {
    case NBX_FLOAT64: ((double *)p)[i] = x; break;
    case NBX_FLOAT16: ((uint16_t *)p)[i] = nbx_to_f16((float)x); break;
    case NBX_BFLOAT16: ((uint16_t *)p)[i] = nbx_to_bf16((float)x); break;
    default: ((float *)p)[i] = (float)x;
    }
}

// x rounded to a dtype. A sum, product or quotient of two numbers of the dtype that was made in double comes out right.
INLINE double in_dtype(double x, nbx_dtype d) {
    switch (d) {
    case NBX_FLOAT64: return x;
    case NBX_FLOAT16: return (double)nbx_from_f16(nbx_to_f16((float)x));
    case NBX_BFLOAT16: return (double)nbx_from_bf16(nbx_to_bf16((float)x));
    default: return (double)(float)x;
    }
}

INLINE uint64_t load_int(const char *p, int64_t i, nbx_dtype d) {
    switch (d) {
    case NBX_UINT8: return ((const uint8_t *)p)[i];
    case NBX_INT8: return (uint64_t)(int64_t)((const int8_t *)p)[i];
    case NBX_INT16: return (uint64_t)(int64_t)((const int16_t *)p)[i];
    case NBX_INT32: return (uint64_t)(int64_t)((const int32_t *)p)[i];
    default: return ((const uint64_t *)p)[i];
    }
}

INLINE void store_int(char *p, int64_t i, nbx_dtype d, uint64_t x) {
    switch (d) {
    case NBX_UINT8:
    case NBX_INT8: ((uint8_t *)p)[i] = (uint8_t)x; break;
    case NBX_INT16: ((uint16_t *)p)[i] = (uint16_t)x; break;
    case NBX_INT32: ((uint32_t *)p)[i] = (uint32_t)x; break;
    default: ((uint64_t *)p)[i] = x;
    }
}

INLINE void load_complex(const char *p, int64_t i, nbx_dtype d, double *re, double *im) {
    if (d == NBX_COMPLEX128) {
        *re = ((const double *)p)[2 * i], *im = ((const double *)p)[2 * i + 1];
    } else {
        *re = (double)((const float *)p)[2 * i], *im = (double)((const float *)p)[2 * i + 1];
    }
}

INLINE void store_complex(char *p, int64_t i, nbx_dtype d, double re, double im) {
    if (d == NBX_COMPLEX128) {
        ((double *)p)[2 * i] = re, ((double *)p)[2 * i + 1] = im;
    } else {
        ((float *)p)[2 * i] = (float)re, ((float *)p)[2 * i + 1] = (float)im;
    }
}

#endif

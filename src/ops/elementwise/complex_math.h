// Complex arithmetic as ATen does it: products by the plain formula (infinities are not recovered), quotients scaled by
// the larger part of the divisor (Smith).
#ifndef NBX_OPS_ELEMENTWISE_COMPLEX_MATH_H
#define NBX_OPS_ELEMENTWISE_COMPLEX_MATH_H

#include <complex.h>
#undef I
#undef complex
#include <math.h>

// Not CMPLX: the C library has it for GCC only.
static inline float _Complex complex_makef(float re, float im) { return __builtin_complex(re, im); }
static inline double _Complex complex_make(double re, double im) { return __builtin_complex(re, im); }

#define NBX_COMPLEX_MATH(S, T, C, MAKE, ABS)                                                                           \
    static inline C complex_add##S(C x, C y) { return MAKE(__real__ x + __real__ y, __imag__ x + __imag__ y); }        \
    static inline C complex_sub##S(C x, C y) { return MAKE(__real__ x - __real__ y, __imag__ x - __imag__ y); }        \
    static inline C complex_neg##S(C x) { return MAKE(-__real__ x, -__imag__ x); }                                     \
    static inline C complex_mul##S(C x, C y) {                                                                         \
        return MAKE(__real__ x * __real__ y - __imag__ x * __imag__ y, __real__ x * __imag__ y + __imag__ x * __real__ y); \
    }                                                                                                                  \
    static inline C complex_scale##S(C x, T s) { return MAKE(__real__ x * s, __imag__ x * s); }                        \
    static inline C complex_div##S(C x, C y) {                                                                         \
        const T a = __real__ x, b = __imag__ x, c = __real__ y, d = __imag__ y;                                        \
        if (ABS(c) >= ABS(d)) {                                                                                        \
            if (ABS(c) == 0 && ABS(d) == 0) return MAKE(a / ABS(c), b / ABS(d));                                       \
            const T ratio = d / c, scale = 1 / (c + d * ratio);                                                        \
            return MAKE((a + b * ratio) * scale, (b - a * ratio) * scale);                                             \
        }                                                                                                              \
        const T ratio = c / d, scale = 1 / (c * ratio + d);                                                            \
        return MAKE((a * ratio + b) * scale, (b * ratio - a) * scale);                                                 \
    }
NBX_COMPLEX_MATH(f, float, float _Complex, complex_makef, fabsf)
NBX_COMPLEX_MATH(, double, double _Complex, complex_make, fabs)

#endif

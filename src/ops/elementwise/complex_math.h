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

// A product that is rounded before it is added to: GCC's vectoriser makes fmaddsub of the two sums of a complex product in
// spite of -ffp-contract=off, for some vector lengths and not for others.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define COMPLEX_ROUNDED(T) T product = x * y; __asm__("" : "+x"(product)); return product;
#else
#define COMPLEX_ROUNDED(T) return x * y;
#endif
static inline float complex_productf(float x, float y) { COMPLEX_ROUNDED(float) }
static inline double complex_product(double x, double y) { COMPLEX_ROUNDED(double) }

#define NBX_COMPLEX_MATH(S, T, C, MAKE, ABS)                                                                           \
    static inline C complex_add##S(C x, C y) { return MAKE(__real__ x + __real__ y, __imag__ x + __imag__ y); }        \
    static inline C complex_sub##S(C x, C y) { return MAKE(__real__ x - __real__ y, __imag__ x - __imag__ y); }        \
    static inline C complex_neg##S(C x) { return MAKE(-__real__ x, -__imag__ x); }                                     \
    static inline C complex_mul##S(C x, C y) {                                                                         \
        return MAKE(complex_product##S(__real__ x, __real__ y) - complex_product##S(__imag__ x, __imag__ y),           \
                    complex_product##S(__real__ x, __imag__ y) + complex_product##S(__imag__ x, __real__ y));          \
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

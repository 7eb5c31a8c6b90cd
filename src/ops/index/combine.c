// Combining runs of elements, one loop for each dtype and operation.
#include "ops/index/combine.h"

#include <math.h>

#include "ops/shape/element.h"

ELEMENT_INLINE int64_t combine_int(nbx_combine how, bool is_unsigned, int64_t a, int64_t b) {
    const bool less = is_unsigned ? (uint64_t)a < (uint64_t)b : a < b;
    switch (how) {
    case NBX_COMBINE_ADD: return (int64_t)((uint64_t)a + (uint64_t)b);
    case NBX_COMBINE_MUL: return (int64_t)((uint64_t)a * (uint64_t)b);
    case NBX_COMBINE_MAX: return less ? b : a;
    case NBX_COMBINE_MIN: return less ? a : b;
    default: return b;
    }
}

ELEMENT_INLINE float combine_float(nbx_combine how, float a, float b) {
    switch (how) {
    case NBX_COMBINE_ADD: return a + b;
    case NBX_COMBINE_MUL: return a * b;
    case NBX_COMBINE_MAX: return b > a || b != b ? b : a;
    case NBX_COMBINE_MIN: return b < a || b != b ? b : a;
    default: return b;
    }
}

ELEMENT_INLINE double combine_double(nbx_combine how, double a, double b) {
    switch (how) {
    case NBX_COMBINE_ADD: return a + b;
    case NBX_COMBINE_MUL: return a * b;
    case NBX_COMBINE_MAX: return b > a || b != b ? b : a;
    case NBX_COMBINE_MIN: return b < a || b != b ? b : a;
    default: return b;
    }
}

ELEMENT_INLINE void combine_complex(nbx_combine how, nbx_dtype d, char *to, const char *from) {
    const double a = element_double(d, to), b = element_imag(d, to), x = element_double(d, from), y = element_imag(d, from);
    const bool add = how == NBX_COMBINE_ADD;
    element_set_double(d, to, add ? a + x : a * x - b * y);
    element_set_imag(d, to, add ? b + y : a * y + b * x);
}

ELEMENT_INLINE void combine_one(nbx_combine how, nbx_dtype d, char *to, const char *from) {
    if (d == NBX_COMPLEX64 || d == NBX_COMPLEX128) combine_complex(how, d, to, from);
    else if (d == NBX_FLOAT64) element_put_f64(to, combine_double(how, element_get_f64(to), element_get_f64(from)));
    else if (d == NBX_FLOAT32) element_put_f32(to, combine_float(how, element_get_f32(to), element_get_f32(from)));
    else if (d == NBX_FLOAT16 || d == NBX_BFLOAT16) element_set_float(d, to, combine_float(how, element_float(d, to), element_float(d, from)));
    else element_set_int(d, to, combine_int(how, d == NBX_UINT64, element_int(d, to), element_int(d, from)));
}

ELEMENT_INLINE int64_t width_of(nbx_dtype d) {  // known to the compiler
    switch (d) {
    case NBX_BOOL: case NBX_UINT8: case NBX_INT8: return 1;
    case NBX_INT16: case NBX_UINT16: case NBX_FLOAT16: case NBX_BFLOAT16: return 2;
    case NBX_INT32: case NBX_UINT32: case NBX_FLOAT32: return 4;
    case NBX_COMPLEX128: return 16;
    default: return 8;
    }
}

#define RUN(how, dtype)                                                                                                \
    static void how##_##dtype(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t count) {     \
        const int64_t width = width_of(NBX_##dtype);                                                                   \
        if (to_stride == width && from_stride == width)                                                                \
            for (int64_t i = 0; i < count; i++) combine_one(NBX_COMBINE_##how, NBX_##dtype, to + i * width, from + i * width); \
        else                                                                                                           \
            for (int64_t i = 0; i < count; i++, to += to_stride, from += from_stride)                                  \
                combine_one(NBX_COMBINE_##how, NBX_##dtype, to, from);                                                 \
    }                                                                                                                  \
    static void how##_AT_##dtype(char *to, int64_t to_step, const int64_t *index, const char *from, int64_t from_step, \
                                 int64_t count) {                                                                      \
        for (int64_t i = 0; i < count; i++, from += from_step)                                                         \
            combine_one(NBX_COMBINE_##how, NBX_##dtype, to + index[i] * to_step, from);                                \
    }
#define RUNS(how)                                                                                                      \
    RUN(how, UINT8) RUN(how, INT8) RUN(how, INT16) RUN(how, INT32) RUN(how, INT64) RUN(how, FLOAT16) RUN(how, FLOAT32) \
    RUN(how, FLOAT64) RUN(how, BOOL) RUN(how, BFLOAT16) RUN(how, UINT16) RUN(how, UINT32) RUN(how, UINT64)
RUNS(ADD)
RUNS(MUL)
RUNS(MAX)
RUNS(MIN)
RUN(ADD, COMPLEX64)
RUN(ADD, COMPLEX128)
RUN(MUL, COMPLEX64)
RUN(MUL, COMPLEX128)

typedef struct both_ways {
    nbx_combine_fn run;
    nbx_combine_at_fn at;
} both_ways;
#define WAYS(how, dtype) [NBX_##dtype] = {how##_##dtype, how##_AT_##dtype}
#define ROW(how)                                                                                                       \
    WAYS(how, UINT8), WAYS(how, INT8), WAYS(how, INT16), WAYS(how, INT32), WAYS(how, INT64), WAYS(how, FLOAT16),       \
        WAYS(how, FLOAT32), WAYS(how, FLOAT64), WAYS(how, BOOL), WAYS(how, BFLOAT16), WAYS(how, UINT16),               \
        WAYS(how, UINT32), WAYS(how, UINT64)
static const both_ways functions[NBX_COMBINE_MIN + 1][NBX_DTYPE_COUNT] = {
    [NBX_COMBINE_ADD] = {ROW(ADD), WAYS(ADD, COMPLEX64), WAYS(ADD, COMPLEX128)},
    [NBX_COMBINE_MUL] = {ROW(MUL), WAYS(MUL, COMPLEX64), WAYS(MUL, COMPLEX128)},
    [NBX_COMBINE_MAX] = {ROW(MAX)},
    [NBX_COMBINE_MIN] = {ROW(MIN)},
};

nbx_combine_fn nbx_combine_of(nbx_combine how, nbx_dtype dtype) { return functions[how][dtype].run; }
nbx_combine_at_fn nbx_combine_at_of(nbx_combine how, nbx_dtype dtype) { return functions[how][dtype].at; }

static int64_t least_int(nbx_dtype d) {
    if (!nbx_dtype_is_signed(d)) return 0;
    return (int64_t)(~(uint64_t)0 << (8 * nbx_dtype_size(d) - 1));
}

void nbx_combine_identity(nbx_combine how, nbx_dtype dtype, void *element) {
    if (how == NBX_COMBINE_ADD || how == NBX_COMBINE_SET) element_set_double(dtype, element, 0);
    else if (how == NBX_COMBINE_MUL) element_set_double(dtype, element, 1);
    else if (nbx_dtype_is_float(dtype)) element_set_double(dtype, element, how == NBX_COMBINE_MAX ? -(double)INFINITY : (double)INFINITY);
    else if (dtype == NBX_BOOL) element_set_int(dtype, element, how == NBX_COMBINE_MIN);
    else element_set_int(dtype, element, how == NBX_COMBINE_MAX ? least_int(dtype) : ~least_int(dtype));
}

void nbx_divide_run(nbx_dtype dtype, char *to, int64_t to_stride, int64_t divisor, int64_t count) {
    for (int64_t i = 0; i < count; i++, to += to_stride) {
        if (nbx_dtype_is_integral(dtype, true)) {
            const int64_t x = element_int(dtype, to);
            if (dtype == NBX_UINT64) element_set_int(dtype, to, (int64_t)((uint64_t)x / (uint64_t)divisor));
            else element_set_int(dtype, to, x / divisor - (x % divisor < 0));
        } else if (dtype == NBX_FLOAT64 || nbx_dtype_is_complex(dtype)) {
            const double re = element_double(dtype, to), im = element_imag(dtype, to);
            element_set_double(dtype, to, re / (double)divisor);
            element_set_imag(dtype, to, im / (double)divisor);
        } else {
            element_set_float(dtype, to, element_float(dtype, to) / (float)divisor);
        }
    }
}

bool nbx_combine_parse(const char *name, nbx_combine *how, bool *mean) {
    static const struct { const char *name; nbx_combine how; } names[] = {
        {"sum", NBX_COMBINE_ADD}, {"add", NBX_COMBINE_ADD}, {"mean", NBX_COMBINE_ADD}, {"prod", NBX_COMBINE_MUL},
        {"multiply", NBX_COMBINE_MUL}, {"amax", NBX_COMBINE_MAX}, {"amin", NBX_COMBINE_MIN}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i].name) != 0) continue;
        *how = names[i].how;
        *mean = strcmp(name, "mean") == 0;
        return true;
    }
    return false;
}

// Elements of arange, range, iota, linspace and logspace, a tile at a time: computed as int64, double or complex double,
// rounded where ATen rounds, and stored by the converter.
#include "cpu/pool.h"
#include "cpu/simd.h"
#include "core/half.h"
#include "ops/copy/convert.h"
#include "ops/create/range.h"
#include "ops/elementwise/elementwise.h"

#include "ops/elementwise/complex_math.h"

enum { TILE = NBX_TILE_BYTES / sizeof(double _Complex) };

typedef struct job {
    const range_numbers *n;
    nbx_dtype dtype;
    double _Complex start, end, step;
    int64_t start_int, step_int;
    char *out;
} job;

// x as the dtype holds it. ATen's linspace rounds the index, every product and every sum to the dtype of the result.
static double rounded(nbx_dtype dtype, double x) {
    switch (dtype) {
    case NBX_FLOAT16: return (double)nbx_from_f16(nbx_to_f16((float)x));
    case NBX_BFLOAT16: return (double)nbx_from_bf16(nbx_to_bf16((float)x));
    case NBX_FLOAT32:
    case NBX_COMPLEX64: return (double)(float)x;
    default: return x;
    }
}

static double _Complex as_dtype(nbx_dtype dtype, const nbx_value *number) {
    double element[2];
    double _Complex z;
    ew_store_number(dtype, element, number);
    NBX_KERNEL(nbx_convert)(NBX_COMPLEX128, &z, dtype, element, 1);
    return z;
}

// ---------------------------------------------------------------------------------------------------------------- tiles
static void step_integers(const job *j, int64_t first, int64_t count, int64_t *tile) {
    for (int64_t i = 0; i < count; i++)
        tile[i] = (int64_t)((uint64_t)j->start_int + (uint64_t)j->step_int * (uint64_t)(first + i));
}
static void step_floats(const job *j, int64_t first, int64_t count, double *tile) {
    const double start = __real__ j->start, step = __real__ j->step;
    for (int64_t i = 0; i < count; i++) tile[i] = start + step * (double)(first + i);
}

// Element i, counted from the nearer end: both ends are exact.
static double linear(const job *j, double start, double end, double step, int64_t i) {
    const int64_t steps = j->n->steps;
    if (i < steps / 2) return rounded(j->dtype, start + rounded(j->dtype, step * rounded(j->dtype, (double)i)));
    return rounded(j->dtype, end - rounded(j->dtype, step * rounded(j->dtype, (double)(steps - i - 1))));
}
static double _Complex linear_complex(const job *j, int64_t i) {
    return complex_make(linear(j, __real__ j->start, __real__ j->end, __real__ j->step, i),
                        linear(j, __imag__ j->start, __imag__ j->end, __imag__ j->step, i));
}
static double logarithmic(const job *j, int64_t i) {
    const int64_t steps = j->n->steps;
    if (i < steps / 2) return pow(j->n->base, __real__ j->start + __real__ j->step * (double)i);
    return pow(j->n->base, __real__ j->end - __real__ j->step * (double)(steps - i - 1));
}

static void fill_tile(const job *j, int64_t first, int64_t count, void *tile) {
    double *real = tile;
    double _Complex *both = tile;
    const bool is_complex = nbx_dtype_is_complex(j->dtype), linearly = j->n->kind == RANGE_LINEAR;
    if (j->n->kind == RANGE_STEP) {
        if (nbx_dtype_is_integral(j->dtype, true)) step_integers(j, first, count, tile);
        else step_floats(j, first, count, tile);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        if (is_complex) both[i] = linearly ? linear_complex(j, first + i) : cpow(complex_make(j->n->base, 0), linear_complex(j, first + i));
        else real[i] = linearly ? linear(j, __real__ j->start, __real__ j->end, __real__ j->step, first + i) : logarithmic(j, first + i);
    }
}

static void fill_range(void *arg, int64_t begin, int64_t end, int thread) {
    const job *j = arg;
    _Alignas(64) double _Complex tile[TILE];
    (void)thread;
    const bool integers = j->n->kind == RANGE_STEP && nbx_dtype_is_integral(j->dtype, true);
    const nbx_dtype tile_dtype = integers ? NBX_INT64 : nbx_dtype_is_complex(j->dtype) ? NBX_COMPLEX128 : NBX_FLOAT64;
    for (int64_t i = begin; i < end; i += TILE) {
        const int64_t count = end - i < TILE ? end - i : TILE;
        fill_tile(j, i, count, tile);
        NBX_KERNEL(nbx_convert)(j->dtype, j->out + i * (int64_t)nbx_dtype_size(j->dtype), tile_dtype, tile, count);
    }
}

// The step between neighbours. linspace's has the dtype of the result, or double for integers; logspace's is double.
static double spacing(const job *j, double start, double end) {
    const double gap = nbx_dtype_is_integral(j->dtype, true) ? end - start : rounded(j->dtype, end - start), step = gap / (double)(j->n->steps - 1);
    return j->n->kind == RANGE_LINEAR || nbx_dtype_is_complex(j->dtype) ? rounded(j->dtype, step) : step;
}

nbx_status NBX_KERNEL(range_cpu)(nbx_op_call *c);
nbx_status NBX_KERNEL(range_cpu)(nbx_op_call *c) {
    const nbx_tensor *out = out_get(c, 0);
    const range_numbers *n = c->state;
    job j = {.n = n, .dtype = (nbx_dtype)out->dtype, .out = nbx_data(out)};
    if (n->kind == RANGE_STEP) {
        const nbx_dtype in = j.dtype == NBX_FLOAT16 || j.dtype == NBX_BFLOAT16 ? NBX_FLOAT32 : NBX_FLOAT64;
        j.start = as_dtype(in, &n->start);
        j.step = as_dtype(in, &n->step);
        j.start_int = nbx_scalar_to_int(&n->start);
        j.step_int = nbx_scalar_to_int(&n->step);
    } else if (n->steps > 1) {
        j.start = as_dtype(j.dtype, &n->start);
        j.end = as_dtype(j.dtype, &n->end);
        j.step = complex_make(spacing(&j, __real__ j.start, __real__ j.end), spacing(&j, __imag__ j.start, __imag__ j.end));
    } else {  // one element: the start, which ATen then leaves in its own precision
        j.end = n->kind == RANGE_LINEAR ? as_dtype(j.dtype, &n->start) : as_dtype(NBX_COMPLEX128, &n->start);
    }
    nbx_parallel_for(c->pool, out->numel, 8192, fill_range, &j);
    return NBX_OK;
}

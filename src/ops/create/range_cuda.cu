// Elements of arange, range, iota, linspace and logspace on CUDA, and the places of triangles: a thread an element, computed
// and rounded as in range_cpu.c.
#include "cuda/flat.cuh"
#include "ops/create/range.h"
#include "ops/elementwise/complex.cuh"

typedef struct range_call {
    char *out;
    int64_t count, steps;
    int dtype, width, kind;
    bool integral, complex;
    double base;
    cdouble start, end, step;
    int64_t start_int, step_int;
} range_call;

static __host__ __device__ __forceinline__ double rounded(int dtype, double x) {
    switch (dtype) {
    case NBX_FLOAT16: return (double)__half2float(__float2half_rn((float)x));
    case NBX_BFLOAT16: return (double)__bfloat162float(__float2bfloat16_rn((float)x));
    case NBX_FLOAT32:
    case NBX_COMPLEX64: return (double)(float)x;
    default: return x;
    }
}

// Element i, counted from the nearer end.
static __device__ __forceinline__ double linear(const range_call &p, double start, double end, double step, int64_t i) {
    if (i < p.steps / 2) return rounded(p.dtype, start + rounded(p.dtype, step * rounded(p.dtype, (double)i)));
    return rounded(p.dtype, end - rounded(p.dtype, step * rounded(p.dtype, (double)(p.steps - i - 1))));
}

static __device__ cdouble element_of(const range_call &p, int64_t i) {
    if (p.kind == RANGE_STEP) return {__dadd_rn(p.start.re, __dmul_rn(p.step.re, (double)i)), 0};
    if (p.complex) {
        const cdouble z = {linear(p, p.start.re, p.end.re, p.step.re, i), linear(p, p.start.im, p.end.im, p.step.im, i)};
        return p.kind == RANGE_LINEAR ? z : zc_pow(cdouble{p.base, 0}, z);
    }
    if (p.kind == RANGE_LINEAR) return {linear(p, p.start.re, p.end.re, p.step.re, i), 0};
    const double from_start = __dadd_rn(p.start.re, __dmul_rn(p.step.re, (double)i));
    const double from_end = __dadd_rn(p.end.re, -__dmul_rn(p.step.re, (double)(p.steps - i - 1)));
    return {pow(p.base, i < p.steps / 2 ? from_start : from_end), 0};
}

static __global__ void __launch_bounds__(FLAT_THREADS) fill_range(const __grid_constant__ range_call p) {
    const int64_t i = flat_item();
    if (i >= p.count) return;
    char *to = p.out + i * p.width;
    if (p.kind == RANGE_STEP && p.integral) {
        ewc_store<int64_t>(p.dtype, to, (int64_t)((uint64_t)p.start_int + (uint64_t)p.step_int * (uint64_t)i));
        return;
    }
    const cdouble z = element_of(p, i);
    if (p.complex) ewc_store<cdouble>(p.dtype, to, z);
    else ewc_store<double>(p.dtype, to, z.re);
}

static cdouble as_dtype(nbx_dtype dtype, const nbx_value *number) {
    if (number->kind == NBX_KIND_COMPLEX) return {rounded(dtype, number->as.complex[0]), rounded(dtype, number->as.complex[1])};
    if (nbx_dtype_is_integral(dtype, true)) return {(double)nbx_scalar_to_int(number), 0};
    return {rounded(dtype, nbx_scalar_to_double(number)), 0};
}

static double spacing(const range_call &p, double start, double end) {
    const double gap = p.integral ? end - start : rounded(p.dtype, end - start), step = gap / (double)(p.steps - 1);
    return p.kind == RANGE_LINEAR || p.complex ? rounded(p.dtype, step) : step;
}

static nbx_status range_cuda(nbx_op_call *c) {
    const nbx_tensor *out = out_get(c, 0);
    const range_numbers *n = (const range_numbers *)c->state;
    const nbx_dtype dtype = (nbx_dtype)out->dtype;
    range_call p = {};
    if (out->numel == 0) return NBX_OK;
    p.out = (char *)nbx_data(out), p.count = out->numel, p.dtype = dtype, p.width = (int)nbx_dtype_size(dtype);
    p.kind = n->kind, p.steps = n->steps, p.base = n->base;
    p.integral = nbx_dtype_is_integral(dtype, true), p.complex = nbx_dtype_is_complex(dtype);
    if (n->kind == RANGE_STEP) {
        const nbx_dtype in = dtype == NBX_FLOAT16 || dtype == NBX_BFLOAT16 ? NBX_FLOAT32 : NBX_FLOAT64;
        p.start = as_dtype(in, &n->start), p.step = as_dtype(in, &n->step);
        p.start_int = nbx_scalar_to_int(&n->start), p.step_int = nbx_scalar_to_int(&n->step);
    } else if (n->steps > 1) {
        p.start = as_dtype(dtype, &n->start), p.end = as_dtype(dtype, &n->end);
        p.step = {spacing(p, p.start.re, p.end.re), spacing(p, p.start.im, p.end.im)};
    } else {
        p.end = as_dtype(n->kind == RANGE_LINEAR ? dtype : NBX_COMPLEX128, &n->start);
    }
    fill_range<<<flat_blocks(p.count), FLAT_THREADS, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

// ------------------------------------------------------------------------------------------------------------ triangles
// Rows [first, first + steps) of a triangle are longer by one each; the full rows come after (below) or before (above).
typedef struct triangle_call {
    char *out;
    int64_t count, row_step, column_step;  // bytes between rows and columns, and from one place to the next
    int64_t rows, columns, offset;
    int dtype;
    bool upper;
} triangle_call;

// Places in front of a row: a sum over rows of what each holds.
static __device__ __forceinline__ int64_t places_before(const triangle_call &p, int64_t row) {
    // a lower triangle of `diagonal` holds clamp(r + diagonal + 1, 0, columns) places in row r
    const int64_t diagonal = p.upper ? p.offset - 1 : p.offset;
    int64_t first = -diagonal < 0 ? 0 : -diagonal, full = p.columns - diagonal - 1;
    if (first > row) first = row;
    if (full < first) full = first;
    if (full > row) full = row;
    const int64_t steps = full - first;
    const int64_t below = (steps > 0 ? steps * (first + diagonal + 1) + steps * (steps - 1) / 2 : 0) + (row - full) * p.columns;
    return p.upper ? row * p.columns - below : below;
}

static __global__ void __launch_bounds__(FLAT_THREADS) triangle_places(const __grid_constant__ triangle_call p) {
    const int64_t i = flat_item();
    if (i >= p.count) return;
    int64_t low = 0, high = p.rows;  // the last row that begins at or before i, of those that hold places
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (places_before(p, middle) <= i) low = middle;
        else high = middle;
    }
    const int64_t skipped = p.upper && low + p.offset > 0 ? low + p.offset : 0;
    char *to = p.out + i * p.column_step;
    ewc_store<int64_t>(p.dtype, to, low);
    ewc_store<int64_t>(p.dtype, to + p.row_step, skipped + i - places_before(p, low));
}

template <bool UPPER> static nbx_status triangle_cuda(nbx_op_call *c) {
    const nbx_tensor *out = out_get(c, 0);
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)out->dtype), offset = arg_int(c, 2);
    if (out->numel == 0) return NBX_OK;
    triangle_call p = {};
    p.out = (char *)nbx_data(out), p.count = out->shape[1], p.row_step = out->stride[0] * width, p.column_step = out->stride[1] * width;
    p.rows = arg_int(c, 0), p.columns = arg_int(c, 1), p.dtype = out->dtype, p.upper = UPPER;
    p.offset = offset < INT32_MIN ? INT32_MIN : offset > INT32_MAX ? INT32_MAX : offset;
    triangle_places<<<flat_blocks(p.count), FLAT_THREADS, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::arange", range_cuda)
NBX_CUDA_KERNEL("aten::arange.start", range_cuda)
NBX_CUDA_KERNEL("aten::arange.start_step", range_cuda)
NBX_CUDA_KERNEL("aten::range", range_cuda)
NBX_CUDA_KERNEL("aten::range.step", range_cuda)
NBX_CUDA_KERNEL("prims::iota", range_cuda)
NBX_CUDA_KERNEL("aten::linspace", range_cuda)
NBX_CUDA_KERNEL("aten::linspace.Tensor_Tensor", range_cuda)
NBX_CUDA_KERNEL("aten::linspace.Tensor_Scalar", range_cuda)
NBX_CUDA_KERNEL("aten::linspace.Scalar_Tensor", range_cuda)
NBX_CUDA_KERNEL("aten::logspace", range_cuda)
NBX_CUDA_KERNEL("aten::logspace.Tensor_Tensor", range_cuda)
NBX_CUDA_KERNEL("aten::logspace.Tensor_Scalar", range_cuda)
NBX_CUDA_KERNEL("aten::logspace.Scalar_Tensor", range_cuda)
NBX_CUDA_KERNEL("aten::tril_indices", triangle_cuda<false>)
NBX_CUDA_KERNEL("aten::triu_indices", triangle_cuda<true>)

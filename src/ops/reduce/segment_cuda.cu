// segment_reduce on CUDA: a thread for every element of the result, which goes through its segment in order and rounds as the
// CPU's kernel does. Lengths and offsets are checked on the device.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"

#include <string.h>

enum { DATA, REDUCE, LENGTHS, INDICES, OFFSETS, AXIS, UNSAFE, INITIAL };
typedef enum rule { SUM, MEAN, MAX, MIN, PROD } rule;

typedef struct segment_call {
    flat x, given;          // given: lengths or offsets
    char *out;
    int dtype, how;
    bool lengths, has_initial, unsafe;
    double start;
    int64_t outer, segments, inner, size, step;  // step: bytes along the axis
    int64_t *places;        // first element and number of elements of each segment
    nbx_fault_slot *fault;
    int op;
} segment_call;

static __device__ __forceinline__ int64_t given_at(const segment_call &p, int64_t i) { return ewc_load<int64_t>(p.given.dtype, flat_at(p.given, i)); }

// A thread for each row of segments.
static __global__ void __launch_bounds__(FLAT_THREADS) place_segments(const __grid_constant__ segment_call p) {
    const int64_t row = flat_item();
    if (row >= p.outer) return;
    int64_t at = 0;
    bool right = true;
    for (int64_t s = 0; s < p.segments; s++) {
        int64_t count;
        if (p.lengths) {
            count = given_at(p, row * p.segments + s);
        } else {
            const int64_t first = given_at(p, row * (p.segments + 1) + s);
            right = right && first >= at && first <= p.size;
            at = first, count = given_at(p, row * (p.segments + 1) + s + 1) - first;
        }
        right = right && count >= 0 && count <= p.size - at;
        p.places[2 * (row * p.segments + s)] = right ? at : 0, p.places[2 * (row * p.segments + s) + 1] = right ? count : 0;
        at = right ? at + count : 0;
    }
    if (!p.lengths && p.segments == 0) right = given_at(p, row) >= 0 && given_at(p, row) <= p.size;
    if (p.lengths && !p.unsafe && at != p.size) right = false;
    if (!right) raise_fault(p.fault, p.op, NBX_FAULT_ASSERT, row, 0);
}

static __device__ __forceinline__ double joined(int how, double a, double x) {
    if (how == PROD) return a * x;
    if (how == SUM || how == MEAN) return a + x;
    if (a != a || x != x) return (double)NAN;
    return how == MAX ? fmax(a, x) : fmin(a, x);
}

static __global__ void __launch_bounds__(FLAT_THREADS) reduce_segments(const __grid_constant__ segment_call p) {
    const int64_t item = flat_item();
    if (item >= p.outer * p.segments * p.inner) return;
    const int64_t i = item % p.inner, segment = item / p.inner, first = p.places[2 * segment], count = p.places[2 * segment + 1];
    const char *x = count ? flat_at(p.x, (segment / p.segments * p.size + first) * p.inner + i) : NULL;
    double a = p.has_initial ? ewc_through<double>(p.dtype, p.start) : p.start;
    for (int64_t k = 0; k < count; k++) a = ewc_through<double>(p.dtype, joined(p.how, a, ewc_load<double>(p.dtype, x + k * p.step)));
    if (p.how == MEAN) a = count > 0 ? a / (double)count : p.has_initial ? a : (double)NAN;
    ewc_store<double>(p.dtype, p.out + item * nbx_cuda_dtype_bytes(p.dtype), a);
}

static nbx_status segments_cuda(nbx_op_call *c) {
    static const char *const names[] = {"sum", "mean", "max", "min", "prod"};
    const double starts[] = {0, 0, -(double)INFINITY, (double)INFINITY, 1};
    const nbx_tensor *x = arg_tensor(c, DATA), *lengths = arg_tensor(c, LENGTHS), *given = lengths ? lengths : arg_tensor(c, OFFSETS), *out = out_get(c, 0);
    const int axis = given->rank - 1;
    segment_call p = {};
    nbx_status status = flat_of(c, x, &p.x);
    if (status == NBX_OK) status = flat_of(c, given, &p.given);
    if (status != NBX_OK) return status;
    p.dtype = x->dtype, p.lengths = lengths, p.unsafe = arg_bool(c, UNSAFE), p.has_initial = !arg_is_none(c, INITIAL);
    for (int i = 0; i < 5; i++)
        if (strcmp(arg_string(c, REDUCE), names[i]) == 0) p.how = i;
    p.start = p.has_initial ? nbx_scalar_to_double(&c->args[INITIAL]) : starts[p.how];
    p.outer = p.inner = 1, p.segments = out->shape[axis], p.size = x->shape[axis], p.step = x->stride[axis] * p.x.width;
    for (int i = 0; i < axis; i++) p.outer *= x->shape[i];
    for (int i = axis + 1; i < x->rank; i++) p.inner *= x->shape[i];
    p.places = (int64_t *)c->scratch;
    p.fault = nbx_cuda_fault_slot(c, &p.op);
    if (p.outer) place_segments<<<flat_blocks(p.outer), FLAT_THREADS, 0, stream_of(c)>>>(p);
    if (out->numel == 0) return launch_status(c);
    p.out = (char *)nbx_data(out);
    reduce_segments<<<flat_blocks(out->numel), FLAT_THREADS, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::segment_reduce", segments_cuda)

// segment_reduce(data, reduce, *, lengths, indices, offsets, axis, unsafe, initial): sum, mean, max, min or prod of stretches of data
// along axis, which follow one another.
//   lengths [..., segments], or offsets [..., segments + 1]: of the rank axis + 1, sizes in front those of data; int64 or int32
//   result: axis has the segments in the place of elements; without initial, an empty segment gives 0, NaN, -inf, inf or 1
//   source: aten::segment_reduce; halves are rounded after every step, as there
#include <math.h>
#include <string.h>

#include "ops/shape/element.h"
#include "ops/op.h"

enum { DATA, REDUCE, LENGTHS, INDICES, OFFSETS, AXIS, UNSAFE, INITIAL };
typedef enum rule { SUM, MEAN, MAX, MIN, PROD } rule;

static nbx_status rule_of(nbx_op_call *c, rule *r) {
    static const char *const names[] = {"sum", "mean", "max", "min", "prod"};
    for (int i = 0; i < 5; i++) {
        if (strcmp(arg_string(c, REDUCE), names[i])) continue;
        *r = (rule)i;
        return NBX_OK;
    }
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "reduce '%s' is none of sum, mean, max, min, prod", arg_string(c, REDUCE));
}

static nbx_status infer_segments(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, DATA), *lengths = arg_tensor(c, LENGTHS), *given = lengths ? lengths : arg_tensor(c, OFFSETS);
    const int64_t more = lengths ? 0 : 1;
    int64_t shape[NBX_MAX_RANK];
    int axis;
    rule r;
    nbx_status status = nbx_call_dim(c, arg_int(c, AXIS), x->rank, &axis);
    if (status == NBX_OK) status = rule_of(c, &r);
    if (status == NBX_OK) status = nbx_call_need_float(c, x, false);
    if (status != NBX_OK) return status;
    if (!arg_is_none(c, INDICES)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "segments by indices are not supported");
    if (!given) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "needs lengths or offsets");
    if (given->dtype != NBX_INT64 && given->dtype != NBX_INT32) return nbx_call_fail(c, NBX_ERROR_DTYPE, "lengths must be int64 or int32");
    bool fits = x->rank > 0 && given->rank == axis + 1 && given->shape[axis] >= more;
    for (int d = 0; fits && d < axis; d++) fits = given->shape[d] == x->shape[d];
    if (!fits) return nbx_call_fail(c, NBX_ERROR_SHAPE, "lengths or offsets must have %d dims, and the sizes of data but in the last", axis + 1);
    memcpy(shape, x->shape, sizeof *shape * (size_t)x->rank);
    shape[axis] = given->shape[axis] - more;
    if (c->device.type != NBX_CPU) c->scratch_bytes = 2 * sizeof(int64_t) * (size_t)(given->numel + 1);  // where segments lie
    return out_new(c, 0, (nbx_dtype)x->dtype, x->rank, shape, NULL) ? NBX_OK : nbx_last_status(c->ctx);
}

static int64_t given_at(const nbx_tensor *t, int64_t i) {
    return element_int((nbx_dtype)t->dtype, (const char *)nbx_data(t) + nbx_element_offset(t, t->rank, i));
}

static double rounded(nbx_dtype d, double x) {
    char bytes[16];
    element_set_double(d, bytes, x);
    return element_double(d, bytes);
}

static double joined(rule r, double a, double x) {
    if (r == PROD) return a * x;
    if (r == SUM || r == MEAN) return a + x;
    if (a != a || x != x) return (double)NAN;
    return r == MAX ? fmax(a, x) : fmin(a, x);
}

// One segment of one place behind the axis: `count` elements, `step` bytes apart.
static double reduced(rule r, const nbx_value *initial, const char *x, int64_t count, int64_t step, nbx_dtype d) {
    static const double starts[] = {0, 0, -(double)INFINITY, (double)INFINITY, 1};
    const bool given = initial->kind != NBX_KIND_NONE;
    double a = given ? rounded(d, nbx_scalar_to_double(initial)) : starts[r];
    for (int64_t i = 0; i < count; i++) a = rounded(d, joined(r, a, element_double(d, x + i * step)));
    if (r != MEAN) return a;
    return count > 0 ? a / (double)count : given ? a : (double)NAN;
}

static nbx_status check_lengths(nbx_op_call *c, const nbx_tensor *lengths, int64_t outer, int64_t segments, int64_t size) {
    for (int64_t o = 0; o < outer; o++) {
        int64_t sum = 0;
        for (int64_t s = 0; s < segments; s++) {
            const int64_t n = given_at(lengths, o * segments + s);
            if (n < 0 || n > size - sum) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "lengths must not be negative, nor pass the %lld elements", (long long)size);
            sum += n;
        }
        if (sum != size && !arg_bool(c, UNSAFE)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "lengths sum to %lld, not %lld", (long long)sum, (long long)size);
    }
    return NBX_OK;
}

static nbx_status check_offsets(nbx_op_call *c, const nbx_tensor *offsets, int64_t outer, int64_t segments, int64_t size) {
    for (int64_t o = 0; o < outer; o++) {
        int64_t before = 0;
        for (int64_t s = 0; s <= segments; s++) {
            const int64_t at = given_at(offsets, o * (segments + 1) + s);
            if (at < before || at > size) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "offsets must rise from 0 to %lld", (long long)size);
            before = at;
        }
    }
    return NBX_OK;
}

static nbx_status segments_cpu(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, DATA), *lengths = arg_tensor(c, LENGTHS), *offsets = arg_tensor(c, OFFSETS), *out = out_get(c, 0);
    const nbx_dtype d = (nbx_dtype)x->dtype;
    const int axis = (lengths ? lengths : offsets)->rank - 1;
    const int64_t width = (int64_t)nbx_dtype_size(d), segments = out->shape[axis], step = x->stride[axis] * width;
    int64_t outer = 1, inner = 1;
    rule r;
    for (int i = 0; i < axis; i++) outer *= x->shape[i];
    for (int i = axis + 1; i < x->rank; i++) inner *= x->shape[i];
    nbx_status status = rule_of(c, &r);
    if (status == NBX_OK) status = lengths ? check_lengths(c, lengths, outer, segments, x->shape[axis]) : check_offsets(c, offsets, outer, segments, x->shape[axis]);
    for (int64_t o = 0; status == NBX_OK && o < outer; o++) {
        int64_t at = 0;
        for (int64_t s = 0; s < segments; s++) {
            if (!lengths) at = given_at(offsets, o * (segments + 1) + s);
            const int64_t count = lengths ? given_at(lengths, o * segments + s) : given_at(offsets, o * (segments + 1) + s + 1) - at;
            for (int64_t i = 0; i < inner; i++) {
                const int64_t first = (o * x->shape[axis] + (count ? at : 0)) * inner + i;
                const char *from = count ? (const char *)nbx_data(x) + nbx_element_offset(x, x->rank, first) : NULL;
                element_set_double(d, (char *)nbx_data(out) + ((o * segments + s) * inner + i) * width, reduced(r, &c->args[INITIAL], from, count, step, d));
            }
            at += count;
        }
    }
    return status;
}

const nbx_op nbx_ops_segment[] = {
    {.name = "aten::segment_reduce", .infer = infer_segments, .cpu = NBX_CPU_KERNEL_ONE(segments_cpu), .flags = NBX_OP_EXACT_OUT},
    NBX_OPS_END,
};

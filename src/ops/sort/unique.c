// unique in all its forms. The size of the result depends on data, so these are composites over sort.
//   unique(self) -> (values, inverse, counts): values[inverse] = self; counts[i] elements are values[i].
// Elements are compared as numbers: 0 equals -0, and no NaN equals another.
#include "ops/index/nonzero.h"
#include "ops/shape/element.h"
#include "ops/shape/geometry.h"

ELEMENT_INLINE bool equal_run(nbx_dtype d, const char *a, const char *b, int64_t count) {
    const int64_t size = (int64_t)nbx_dtype_size(d);
    for (int64_t i = 0; i < count * size; i += size)
        if (element_double(d, a + i) != element_double(d, b + i) || element_imag(d, a + i) != element_imag(d, b + i)) return false;
    return true;
}

static bool equal_elements(nbx_dtype d, const char *a, const char *b, int64_t count) {
    if (nbx_dtype_is_integral(d, true)) return memcmp(a, b, (size_t)count * nbx_dtype_size(d)) == 0;
    return equal_run(d, a, b, count);
}

// -1, 0, 1: lexicographic order of two slices. NaN is neither less nor greater. With a constant dtype: one loop of its own.
ELEMENT_INLINE int compare_run(nbx_dtype d, const char *a, const char *b, int64_t count) {
    const int64_t size = (int64_t)nbx_dtype_size(d);
    for (int64_t i = 0; i < count * size; i += size) {
        if (nbx_dtype_is_integral(d, true)) {
            const int64_t x = element_int(d, a + i), y = element_int(d, b + i);
            if (x != y) return (d == NBX_UINT64 ? (uint64_t)x < (uint64_t)y : x < y) ? -1 : 1;
        } else {
            const double x = element_double(d, a + i), y = element_double(d, b + i);
            if (x < y) return -1;
            if (x > y) return 1;
        }
    }
    return 0;
}

static int compare_slices(nbx_dtype d, const char *a, const char *b, int64_t count) {
    switch (d) {
#define COMPARE(D) case D: return compare_run(D, a, b, count);
    COMPARE(NBX_BOOL)
    COMPARE(NBX_UINT8)
    COMPARE(NBX_INT8)
    COMPARE(NBX_INT16)
    COMPARE(NBX_UINT16)
    COMPARE(NBX_INT32)
    COMPARE(NBX_UINT32)
    COMPARE(NBX_INT64)
    COMPARE(NBX_UINT64)
    COMPARE(NBX_FLOAT16)
    COMPARE(NBX_BFLOAT16)
    COMPARE(NBX_FLOAT32)
    COMPARE(NBX_FLOAT64)
#undef COMPARE
    default: return compare_run(d, a, b, count);  // float8
    }
}

// Merge sort of slice numbers, so that equal slices stay in order. other has room for as many.
static void sort_slices(nbx_dtype d, const char *data, int64_t slice, int64_t *order, int64_t *other, int64_t count) {
    if (count < 2) return;
    const int64_t half = count / 2, bytes = slice * (int64_t)nbx_dtype_size(d);
    sort_slices(d, data, slice, order, other, half);
    sort_slices(d, data, slice, order + half, other, count - half);
    int64_t a = 0, b = half, k = 0;
    while (a < half && b < count)
        other[k++] = compare_slices(d, data + order[b] * bytes, data + order[a] * bytes, slice) < 0 ? order[b++] : order[a++];
    while (a < half) other[k++] = order[a++];
    memcpy(order, other, sizeof(int64_t) * (size_t)k);  // what is left of the second half lies right already
}

// ------------------------------------------------------------------------------------------------------------------ runs
// Runs of equal slices in a given order.
typedef struct runs {
    nbx_dtype dtype;
    const char *data;
    int64_t count, slice;     // slices; elements of one
    const int64_t *order;     // NULL: as they lie
    const char *sorted;       // elements in that order, where they are there
    int64_t *firsts;          // [count]: the slice that begins each run
    int64_t found;
    const nbx_tensor *inverse, *counts;
} runs;

static nbx_tensor *host_ints(nbx_op_call *c, int rank, const int64_t *shape) {
    return nbx_new(c->ctx, (nbx_device){NBX_CPU, 0}, NBX_INT64, rank, shape);
}

static nbx_status find_runs(nbx_op_call *c, runs *r, bool inverse, bool counts, int rank, const int64_t *shape) {
    const int64_t bytes = r->slice * (int64_t)nbx_dtype_size(r->dtype), nothing = 0;
    r->firsts = nbx_scope_alloc(c->ctx, sizeof(int64_t) * (size_t)(r->count + 1));
    r->inverse = inverse ? host_ints(c, rank, shape) : host_ints(c, 1, &nothing);
    if (r->firsts == NULL || r->inverse == NULL) return c->ctx->status;
    int64_t *to = inverse ? nbx_data(r->inverse) : NULL, begin = 0;
    int64_t *lengths = nbx_scope_alloc(c->ctx, sizeof(int64_t) * (size_t)(r->count + 1));
    if (lengths == NULL) return c->ctx->status;
    for (int64_t i = 0; i < r->count; i++) {
        const int64_t here = r->order ? r->order[i] : i, before = i == 0 ? 0 : r->order ? r->order[i - 1] : i - 1;
        const char *a = r->sorted ? r->sorted + (i ? i - 1 : 0) * bytes : r->data + before * bytes;
        if (i == 0 || !equal_elements(r->dtype, a, r->sorted ? r->sorted + i * bytes : r->data + here * bytes, r->slice)) {
            if (r->found > 0) lengths[r->found - 1] = i - begin;
            r->firsts[r->found++] = here;
            begin = i;
        }
        if (to) to[here] = r->found - 1;
    }
    if (r->found > 0) lengths[r->found - 1] = r->count - begin;
    r->counts = counts ? host_ints(c, 1, &r->found) : host_ints(c, 1, &nothing);
    if (r->counts == NULL) return c->ctx->status;
    if (counts && r->found > 0) memcpy(nbx_data(r->counts), lengths, sizeof(int64_t) * (size_t)r->found);
    return NBX_OK;
}

static nbx_status give_all(nbx_op_call *c, const nbx_tensor *values, const runs *r) {
    if (nbx_give(c, 0, nbx_from_host(c, values)) != NBX_OK || nbx_give(c, 1, nbx_from_host(c, r->inverse)) != NBX_OK) return c->ctx->status;
    return c->schema->result_count > 2 ? nbx_give(c, 2, nbx_from_host(c, r->counts)) : NBX_OK;
}

static const nbx_tensor *values_of(nbx_op_call *c, const runs *r) {
    const size_t size = nbx_dtype_size(r->dtype);
    const nbx_tensor *values = nbx_new(c->ctx, (nbx_device){NBX_CPU, 0}, r->dtype, 1, &r->found);
    for (int64_t i = 0; values != NULL && i < r->found; i++)
        memcpy((char *)nbx_data(values) + i * (int64_t)size, r->data + r->firsts[i] * (int64_t)size, size);
    return values;
}

static nbx_status unique_flat(nbx_op_call *c, bool sorted, bool inverse, bool counts) {
    const nbx_tensor *self = arg_tensor(c, 0), *dense = nbx_on_host(c->ctx, self);
    const int64_t minus_one = -1;
    if (dense == NULL) return c->ctx->status;
    runs r = {.dtype = (nbx_dtype)self->dtype, .count = self->numel, .slice = 1};
    if (sorted && self->numel > 0) {
        nbx_value both[2];
        const nbx_value args[] = {T(nbx_reshaped(c->ctx, dense, 1, &minus_one)), B(true), I(0), B(false)};
        if (nbx_do_many(c->ctx, "aten::sort.stable", 4, args, both, 2) != NBX_OK) return c->ctx->status;
        r.order = nbx_data(both[1].as.tensor), r.sorted = nbx_data(both[0].as.tensor);
    }
    r.data = self->numel > 0 ? nbx_data(dense) : NULL;
    if (find_runs(c, &r, inverse, counts, self->rank, self->shape) != NBX_OK) return c->ctx->status;
    return give_all(c, values_of(c, &r), &r);
}

static nbx_status unique(nbx_op_call *c) { return unique_flat(c, true, arg_bool(c, 2), false); }
static nbx_status unique2(nbx_op_call *c) { return unique_flat(c, true, arg_bool(c, 2), arg_bool(c, 3)); }

// --------------------------------------------------------------------------------------------------------- along one dim
static nbx_status unique_along(nbx_op_call *c, int64_t dim, bool sorted) {
    const nbx_tensor *self = arg_tensor(c, 0);
    int d, zeros = 0;
    if (self->rank == 0) return nbx_call_fail(c, NBX_ERROR_INDEX, "dim %lld of a tensor without dims", (long long)dim);
    if (nbx_call_dim(c, dim, self->rank, &d) != NBX_OK) return c->ctx->status;
    for (int i = 0; i < self->rank; i++) zeros += self->shape[i] == 0;
    if (zeros > (self->shape[d] == 0)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "dims of size 0 other than dim %d", d);
    const nbx_tensor *front = nbx_on_host(c->ctx, NBX_DO(c->ctx, "aten::movedim.int", T(self), I(d), I(0)));
    if (front == NULL) return c->ctx->status;
    runs r = {.dtype = (nbx_dtype)self->dtype, .count = self->shape[d], .slice = self->shape[d] > 0 ? self->numel / self->shape[d] : 0};
    r.data = self->numel > 0 ? nbx_data(front) : NULL;
    int64_t *order = NULL;
    if (sorted) {
        if (nbx_dtype_is_complex(r.dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s has no order", nbx_dtype_name(r.dtype));
        order = nbx_scope_alloc(c->ctx, sizeof(int64_t) * 2 * (size_t)(r.count + 1));
        if (order == NULL) return c->ctx->status;
        for (int64_t i = 0; i < r.count; i++) order[i] = i;
        sort_slices(r.dtype, r.data, r.slice, order, order + r.count, r.count);
    }
    r.order = order;
    if (find_runs(c, &r, true, true, 1, &r.count) != NBX_OK) return c->ctx->status;
    const nbx_tensor *rows = host_ints(c, 1, &r.found);
    if (rows == NULL) return c->ctx->status;
    if (r.found > 0) memcpy(nbx_data(rows), r.firsts, sizeof(int64_t) * (size_t)r.found);
    const nbx_tensor *picked = NBX_DO(c->ctx, "aten::index_select", T(front), I(0), T(rows));
    return give_all(c, NBX_DO(c->ctx, "aten::movedim.int", T(picked), I(0), I(d)), &r);
}

static nbx_status unique_dim(nbx_op_call *c) { return unique_along(c, arg_int(c, 1), true); }
static nbx_status unique_dim_consecutive(nbx_op_call *c) { return unique_along(c, arg_int(c, 1), false); }

static nbx_status unique_consecutive(nbx_op_call *c) {
    const bool vector = arg_tensor(c, 0)->rank == 1 && (arg_int_or(c, 3, 0) == 0);
    if (arg_is_none(c, 3) || vector) return unique_flat(c, false, arg_bool(c, 1), arg_bool(c, 2));
    return unique_along(c, arg_int(c, 3), false);
}

#define UNIQUE(overload, function) {.name = "aten::" overload, .composite = function, .flags = NBX_OP_READS_DATA | NBX_OP_EXACT_OUT}
const nbx_op nbx_ops_unique[] = {
    UNIQUE("_unique", unique),
    UNIQUE("_unique2", unique2),
    UNIQUE("unique_dim", unique_dim),
    UNIQUE("unique_dim_consecutive", unique_dim_consecutive),
    UNIQUE("unique_consecutive", unique_consecutive),
    NBX_OPS_END,
};

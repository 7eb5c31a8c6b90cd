// Search in sorted values: searchsorted, bucketize; and isin, which sorts first.
#include "cpu/pool.h"
#include "ops/shape/element.h"
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"
#include "ops/sort/search.h"

// A number of the dtype that two operands have in common: integers stay integers.
typedef struct number { bool integral; int64_t i; double x; } number;

static number load(nbx_dtype common, nbx_dtype own, const char *p) {
    char element[16];
    if (own != common) {
        nbx_convert_run(common, element, 0, own, p, 0, 1);
        p = element;
    }
    const bool integral = nbx_dtype_is_integral(common, true);
    return (number){integral, integral ? element_int(common, p) : 0, integral ? 0 : element_double(common, p)};
}

// ------------------------------------------------------------------------------------------------ searchsorted, bucketize
// How the overloads' arguments stand.
typedef struct search_args { int sequence, value, int32, right, side, sorter; } search_args;
static const search_args sorted_args = {0, 1, 2, 3, 4, 5}, bucket_args = {1, 0, 2, 3, -1, -1};

nbx_status nbx_search_plan(nbx_op_call *c, nbx_search *s) {
    const search_args *a = c->op->data;
    nbx_promotion p;
    s->sequence = arg_tensor(c, a->sequence);
    s->values = arg_tensor(c, a->value);
    s->scalar = s->values ? NULL : &c->args[a->value];
    s->sorter = a->sorter >= 0 ? arg_tensor(c, a->sorter) : NULL;
    s->right = arg_bool(c, a->right);
    if (a->side >= 0 && arg_string(c, a->side)) {
        const bool side_right = strcmp(arg_string(c, a->side), "right") == 0;
        if (!side_right && strcmp(arg_string(c, a->side), "left") != 0)
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "side must be 'left' or 'right', not '%s'", arg_string(c, a->side));
        if (!side_right && s->right) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "side is left, right is true");
        s->right = side_right;
    }
    nbx_promotion_start(&p);
    nbx_promotion_tensor(&p, s->sequence);
    if (s->values) nbx_promotion_tensor(&p, s->values);
    else nbx_promotion_scalar(&p, s->scalar);
    s->common = nbx_promotion_result(&p);
    if (s->values && s->values->dtype == s->sequence->dtype) s->common = (nbx_dtype)s->values->dtype;
    s->length = s->sequence->rank == 0 ? 1 : s->sequence->shape[s->sequence->rank - 1];
    s->per_row = s->values && s->values->rank > 0 ? s->values->shape[s->values->rank - 1] : 1;
    s->scalar_dtype = NBX_DTYPE_NONE;
    if (s->scalar) s->scalar_dtype = s->scalar->kind == NBX_KIND_FLOAT || nbx_dtype_is_float(s->common) ? NBX_FLOAT64 : nbx_scalar_dtype(s->scalar);
    return NBX_OK;
}

static nbx_status search_infer(nbx_op_call *c) {
    const search_args *a = c->op->data;
    nbx_search s = {0};
    if (nbx_search_plan(c, &s) != NBX_OK) return c->ctx->status;
    const nbx_tensor *sequence = s.sequence, *values = s.values;
    if (a->side < 0 && sequence->rank != 1)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "boundaries must be a vector, not of %d dims", sequence->rank);
    if (sequence->rank == 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the sequence must have a dim");
    if (s.common == NBX_DTYPE_NONE || s.common == NBX_BOOL || nbx_dtype_is_complex(s.common))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s is not accepted", nbx_dtype_name(s.common));
    const int rank = values ? values->rank : 0;
    if (sequence->rank > 1) {
        bool fits = rank == sequence->rank;
        for (int d = 0; fits && d + 1 < rank; d++) fits = values->shape[d] == sequence->shape[d];
        if (!fits) {
            char x[NBX_SHAPE_TEXT], y[NBX_SHAPE_TEXT];
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "sequence of shape %s and values of shape %s differ before the last dim",
                                 nbx_shape_text(sequence->rank, sequence->shape, x, sizeof x), nbx_shape_text(rank, values ? values->shape : NULL, y, sizeof y));
        }
    }
    if (s.sorter != NULL) {
        if (!nbx_same_shape(s.sorter, sequence)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "sorter must have the sequence's shape");
        if (s.sorter->dtype != NBX_INT64) return nbx_call_fail(c, NBX_ERROR_DTYPE, "sorter must be int64, not %s", nbx_dtype_name((nbx_dtype)s.sorter->dtype));
    }
    if (arg_bool(c, a->int32) && s.length >= INT32_MAX) return nbx_call_fail(c, NBX_ERROR_SHAPE, "positions do not fit int32");
    return out_new(c, 0, arg_bool(c, a->int32) ? NBX_INT32 : NBX_INT64, rank, values ? values->shape : NULL, NULL) ? NBX_OK : c->ctx->status;
}

ELEMENT_INLINE bool goes_on(bool right, bool greater, bool equal) { return right ? !greater : !(greater || equal); }

// First position whose element is not less than (right: greater than) the value; NaN goes past the end.
ELEMENT_INLINE int64_t find_double(nbx_dtype d, bool right, const char *row, int64_t step, int64_t length, double value) {
    int64_t low = 0, high = length;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const double x = element_double(d, row + middle * step);
        if (goes_on(right, x > value, x == value)) low = middle + 1;
        else high = middle;
    }
    return low;
}

ELEMENT_INLINE int64_t find_int(nbx_dtype d, bool right, const char *row, int64_t step, int64_t length, int64_t value) {
    int64_t low = 0, high = length;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2, x = element_int(d, row + middle * step);
        if (goes_on(right, x > value, x == value)) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Any dtypes, and through the sorter; -1: the sorter points outside.
static int64_t find_slow(const nbx_search *s, const char *row, const char *sorter, number value) {
    int64_t low = 0, high = s->length;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int64_t at = sorter ? element_get_i64(sorter + middle * s->sorter_walk.step) : middle;
        if (at < 0 || at >= s->length) return -1;
        const number x = load(s->common, (nbx_dtype)s->sequence->dtype, row + at * s->walk.step);
        const bool is_unsigned = s->common == NBX_UINT64;
        const bool greater = !x.integral ? x.x > value.x : is_unsigned ? (uint64_t)x.i > (uint64_t)value.i : x.i > value.i;
        if (goes_on(s->right, greater, x.integral ? x.i == value.i : x.x == value.x)) low = middle + 1;
        else high = middle;
    }
    return low;
}

static int64_t find(const nbx_search *s, const char *row, const char *sorter, const char *value) {
    const nbx_dtype own = s->scalar ? s->scalar_dtype : (nbx_dtype)s->values->dtype;
    const int64_t step = s->walk.step;
    if (sorter == NULL && own == (nbx_dtype)s->sequence->dtype) {
        switch (own) {
        case NBX_FLOAT32: return find_double(NBX_FLOAT32, s->right, row, step, s->length, element_get_f32(value));
        case NBX_FLOAT64: return find_double(NBX_FLOAT64, s->right, row, step, s->length, element_get_f64(value));
        case NBX_INT64: return find_int(NBX_INT64, s->right, row, step, s->length, element_get_i64(value));
        case NBX_INT32: return find_int(NBX_INT32, s->right, row, step, s->length, element_get_i32(value));
        default: break;
        }
    }
    return find_slow(s, row, sorter, load(s->common, own, value));
}

// Several values of one dense row halve it together, without branches on the data: none waits for another's reads. The places
// that are looked at are those of find, so that rows without order, too, answer as ATen's do.
enum { TOGETHER = 8 };
#define FIND_TOGETHER(NAME, T)                                                                                         \
    ELEMENT_INLINE void halve_##NAME(bool right, const T *row, int64_t length, const T *values, int64_t *low) {        \
        int64_t left[TOGETHER];                                                                                        \
        for (int k = 0; k < TOGETHER; k++) low[k] = 0, left[k] = length;                                               \
        for (int64_t most = length; most > 0; most /= 2)                                                               \
            for (int k = 0; k < TOGETHER; k++) {                                                                       \
                const int64_t half = left[k] >> 1, at = low[k] + half;                                                 \
                const T x = row[at < length ? at : length - 1];                                                        \
                const int64_t on = -(int64_t)((right ? !(x > values[k]) : !(x >= values[k])) & (left[k] > 0));         \
                low[k] += (half + 1) & on;                                                                             \
                left[k] = half - (((half + half + 1) - left[k]) & on);                                                 \
            }                                                                                                          \
    }                                                                                                                  \
    static void find_##NAME##s(bool right, const T *row, int64_t length, const T *values, int64_t *low) {              \
        if (right) halve_##NAME(true, row, length, values, low);                                                       \
        else halve_##NAME(false, row, length, values, low);                                                            \
    }
FIND_TOGETHER(f32, float)
FIND_TOGETHER(f64, double)
FIND_TOGETHER(i64, int64_t)
FIND_TOGETHER(i32, int32_t)

// Values and results dense, one sequence for all, of the same dtype. Returns where the others begin.
static int64_t search_dense(const nbx_search *s, int64_t begin, int64_t end) {
    const nbx_tensor *v = s->values, *q = s->sequence, *out = s->out;
    if (v == NULL || s->sorter || q->rank != 1 || !q->contiguous || !v->contiguous || !out->contiguous || v->dtype != q->dtype) return begin;
    const void *row = nbx_data(q);
    const char *values = nbx_data(v);
    char *to = nbx_data(out);
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)v->dtype), out_width = (int64_t)nbx_dtype_size((nbx_dtype)out->dtype);
    int64_t found[TOGETHER];
    for (; begin + TOGETHER <= end; begin += TOGETHER) {
        const void *here = values + begin * width;
        switch ((nbx_dtype)v->dtype) {
        case NBX_FLOAT32: find_f32s(s->right, row, s->length, here, found); break;
        case NBX_FLOAT64: find_f64s(s->right, row, s->length, here, found); break;
        case NBX_INT64: find_i64s(s->right, row, s->length, here, found); break;
        case NBX_INT32: find_i32s(s->right, row, s->length, here, found); break;
        default: return begin;
        }
        for (int k = 0; k < TOGETHER; k++) element_set_int((nbx_dtype)out->dtype, to + (begin + k) * out_width, found[k]);
    }
    return begin;
}

static void search_values(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const nbx_search *s = arg;
    const nbx_tensor *v = s->values, *out = s->out;
    const int64_t width = v ? (int64_t)nbx_dtype_size((nbx_dtype)v->dtype) : 0, out_width = (int64_t)nbx_dtype_size((nbx_dtype)out->dtype);
    char element[16];
    if (s->scalar) nbx_scalar_element(s->scalar, s->scalar_dtype, element);
    for (int64_t i = search_dense(s, begin, end); i < end; i++) {
        const int64_t r = s->sequence->rank > 1 ? i / s->per_row : 0;
        const char *value = v ? nbx_data(v) : element;
        char *to = nbx_data(out);
        int64_t rest = i;
        for (int d = out->rank - 1; d >= 0; d--) {
            const int64_t at = rest % out->shape[d];
            rest /= out->shape[d];
            value += at * v->stride[d] * width;
            to += at * out->stride[d] * out_width;
        }
        const char *sorter = s->sorter ? (const char *)nbx_data(s->sorter) + nbx_row_offset(&s->sorter_walk, r) : NULL;
        const int64_t found = s->length == 0 ? 0 : find(s, (const char *)nbx_data(s->sequence) + nbx_row_offset(&s->walk, r), sorter, value);
        element_set_int((nbx_dtype)out->dtype, to, found);
    }
}

static nbx_status search_run(nbx_op_call *c) {
    nbx_search s = {.out = out_get(c, 0)};
    if (s.out->numel == 0 || nbx_search_plan(c, &s) != NBX_OK) return c->ctx->status;
    nbx_row_walk_of(s.sequence, s.sequence->rank - 1, &s.walk);
    if (s.sorter) {
        nbx_row_walk_of(s.sorter, s.sorter->rank - 1, &s.sorter_walk);
        for (int64_t r = 0; r < s.sorter_walk.count; r++)
            for (int64_t i = 0; i < s.length; i++) {
                const int64_t at = element_get_i64((const char *)nbx_data(s.sorter) + nbx_row_offset(&s.sorter_walk, r) + i * s.sorter_walk.step);
                if (at < 0 || at >= s.length)
                    return nbx_call_fail(c, NBX_ERROR_INDEX, "sorter holds %lld, outside [0, %lld]", (long long)at, (long long)s.length - 1);
            }
    }
    nbx_parallel_for(c->pool, s.out->numel, 512, search_values, &s);
    return NBX_OK;
}

// ----------------------------------------------------------------------------------------------------------------- isin
nbx_status nbx_membership_plan(nbx_op_call *c, nbx_membership *m) {
    nbx_promotion p;
    m->elements = arg_tensor(c, 0), m->tests = arg_tensor(c, 1);
    m->scalar = m->elements == NULL ? &c->args[0] : m->tests == NULL ? &c->args[1] : NULL;
    m->invert = arg_bool(c, 3);
    nbx_promotion_start(&p);
    for (int i = 0; i < 2; i++) {
        if (arg_tensor(c, i)) nbx_promotion_tensor(&p, arg_tensor(c, i));
        else nbx_promotion_scalar(&p, &c->args[i]);
    }
    m->common = nbx_promotion_result(&p);
    if (m->elements && m->tests && m->elements->dtype == m->tests->dtype) m->common = (nbx_dtype)m->elements->dtype;
    const bool truths = (m->elements && m->elements->dtype == NBX_BOOL) || (m->tests && m->tests->dtype == NBX_BOOL);
    if (m->common == NBX_DTYPE_NONE || !nbx_keys_exist(m->common) || truths)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s is not accepted", nbx_dtype_name(m->common));
    if (m->scalar) m->scalar_dtype = m->scalar->kind == NBX_KIND_FLOAT ? NBX_FLOAT64 : nbx_scalar_dtype(m->scalar);
    return NBX_OK;
}

static nbx_status isin_infer(nbx_op_call *c) {
    nbx_membership m = {0};
    if (nbx_membership_plan(c, &m) != NBX_OK) return c->ctx->status;
    c->scratch_bytes = c->device.type != NBX_CPU ? nbx_device_sort_bytes(1, m.tests ? m.tests->numel : 1) + sizeof(uint64_t) * (size_t)(m.tests ? m.tests->numel : 1)
                                                 : (sizeof(uint64_t) + sizeof(nbx_place)) * (size_t)(m.tests ? m.tests->numel + 1 : 1);
    return (m.elements ? out_new(c, 0, NBX_BOOL, m.elements->rank, m.elements->shape, NULL) : out_new(c, 0, NBX_BOOL, 0, NULL, NULL)) ? NBX_OK
                                                                                                                             : c->ctx->status;
}

static bool is_nan(nbx_dtype d, const char *p) { return nbx_dtype_is_float(d) && element_double(d, p) != element_double(d, p); }

// The key of an element in the common dtype; false: NaN, which is in nothing.
static bool key_in(nbx_dtype common, nbx_dtype own, const char *p, uint64_t *key) {
    char element[16];
    nbx_convert_run(common, element, 0, own, p, 0, 1);
    nbx_keys_run(common, false, element, 0, 1, key);
    return !is_nan(common, element);
}

static const char *element_at(const nbx_tensor *t, int64_t i) {
    return (const char *)nbx_data(t) + nbx_element_offset(t, t->rank, i);
}

static bool isin_key(const nbx_membership *m, uint64_t key) {
    int64_t low = 0, left = m->count;
    while (left > 0) {
        const int64_t half = left / 2, mask = -(int64_t)(m->keys[low + half] < key);
        low += mask & (half + 1);
        left = (mask & (left - half - 1)) | (~mask & half);
    }
    return low < m->count && m->keys[low] == key;
}

// Dense integers of the common dtype, whose keys are made by the block. Returns where the others begin.
static int64_t isin_dense(const nbx_membership *m, int64_t begin, int64_t end) {
    const nbx_tensor *e = m->elements, *out = m->out;
    uint64_t keys[512];
    if (e == NULL || !e->contiguous || !out->contiguous || (nbx_dtype)e->dtype != m->common || nbx_dtype_is_float(m->common)) return begin;
    const int64_t width = (int64_t)nbx_dtype_size(m->common);
    for (int64_t at = begin; at < end; at += 512) {
        const int64_t n = end - at < 512 ? end - at : 512;
        nbx_keys_run(m->common, false, (const char *)nbx_data(e) + at * width, width, n, keys);
        for (int64_t i = 0; i < n; i++) ((uint8_t *)nbx_data(out))[at + i] = isin_key(m, keys[i]) != m->invert;
    }
    return end;
}

static void isin_values(void *arg, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const nbx_membership *m = arg;
    char scalar[16];
    if (m->elements == NULL) nbx_scalar_element(m->scalar, m->scalar_dtype, scalar);
    for (int64_t i = isin_dense(m, begin, end); i < end; i++) {
        uint64_t key = 0;
        const bool number_here = m->elements ? key_in(m->common, (nbx_dtype)m->elements->dtype, element_at(m->elements, i), &key)
                                             : key_in(m->common, m->scalar_dtype, scalar, &key);
        *(uint8_t *)element_at(m->out, i) = (number_here && isin_key(m, key)) != m->invert;
    }
}

static nbx_status isin(nbx_op_call *c) {
    nbx_membership m = {.out = out_get(c, 0)};
    if (m.out->numel == 0 || nbx_membership_plan(c, &m) != NBX_OK) return c->ctx->status;
    const int64_t tests = m.tests ? m.tests->numel : 1;
    nbx_place *places = c->scratch;
    m.keys = (uint64_t *)(places + tests);
    for (int64_t i = 0; i < tests; i++) {
        char scalar[16];
        uint64_t key;
        if (m.tests == NULL) nbx_scalar_element(m.scalar, m.scalar_dtype, scalar);
        if (m.tests ? key_in(m.common, (nbx_dtype)m.tests->dtype, element_at(m.tests, i), &key) : key_in(m.common, m.scalar_dtype, scalar, &key))
            places[m.count++] = nbx_place_of(key, i);
    }
    nbx_places_sort(places, m.count);
    for (int64_t i = 0; i < m.count; i++) m.keys[i] = (uint64_t)(places[i] >> 64);
    nbx_parallel_for(c->pool, m.out->numel, 512, isin_values, &m);
    return NBX_OK;
}

#define SEARCH(overload, form)                                                                                         \
    {.name = "aten::" overload, .infer = search_infer, .cpu = NBX_CPU_KERNEL_ONE(search_run), .flags = NBX_OP_STRIDED_SAME, .data = &(form)}
#define ISIN(overload) {.name = "aten::isin." overload, .infer = isin_infer, .cpu = NBX_CPU_KERNEL_ONE(isin), .flags = NBX_OP_STRIDED_SAME}
const nbx_op nbx_ops_search[] = {
    SEARCH("searchsorted.Tensor", sorted_args),
    SEARCH("searchsorted.Scalar", sorted_args),
    SEARCH("bucketize.Tensor", bucket_args),
    SEARCH("bucketize.Scalar", bucket_args),
    ISIN("Tensor_Tensor"),
    ISIN("Tensor_Scalar"),
    ISIN("Scalar_Tensor"),
    NBX_OPS_END,
};

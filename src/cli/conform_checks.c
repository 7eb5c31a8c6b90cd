// The checks of golden cases: values, shape, alias, ties, set, abs, constant.
#include "conform.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *check_name(const test_case *c) { return nbx_json_string_or(nbx_json_get(c->json, "check"), "values"); }

static bool is_check(const test_case *c, const char *name) { return !strcmp(check_name(c), name); }

bool check_needs_subject(const test_case *c) { return is_check(c, "ties") || is_check(c, "set"); }

// ------------------------------------------------------------------------------------------------------ one by one
typedef bool (*tensor_check)(test_case *c, const char *name, const nbx_tensor *got, const tensor_arg *want);

// Applies a check to every tensor of a result; what is no tensor is compared by value.
static bool each_tensor(test_case *c, const char *name, const nbx_value *got, const nbx_json *want, tensor_check check) {
    const nbx_json *items = nbx_json_get(want, "list");
    if (arg_is(want, "tensor") && got->kind == NBX_KIND_TENSOR && got->as.tensor != NBX_NONE) {
        tensor_arg facts;
        return arg_tensor_facts(c, want, &facts) && compare_facts(c, name, got->as.tensor, &facts) && check(c, name, got->as.tensor, &facts);
    }
    if (!items || got->kind != NBX_KIND_TENSORS || (uint32_t)got->count != items->count) return compare_value(c, name, got, want);
    for (int i = 0; i < got->count; i++) {
        char element[120];
        snprintf(element, sizeof element, "%.90s element %d", name, i);
        const nbx_value value = got->as.tensors[i] == NBX_NONE ? nbx_of_none() : nbx_of_tensor(got->as.tensors[i]);
        if (!each_tensor(c, element, &value, &items->as.items[i], check)) return false;
    }
    return true;
}

static bool within_range(test_case *c, const char *name, const nbx_tensor *got, const tensor_arg *want) {
    (void)want;
    const nbx_json *range = nbx_json_get(c->json, "range");
    block b;
    if (!range) return true;
    if (!block_of_tensor(c, got, &b)) return false;
    const double low = arg_number(nbx_json_at(range, 0)), high = arg_number(nbx_json_at(range, 1));
    for (int64_t i = 0; i < b.count; i++) {
        const complex_number x = block_number(&b, i);
        if (x.re >= low && x.re <= high && (!dtype_is_complex(b.dtype) || (x.im >= low && x.im <= high))) continue;
        char place[200], text[80];
        return case_fail(c, "%s: %s at %s is not within %g and %g", name, block_text(&b, i, text, sizeof text),
                         index_text(&b, i, place, sizeof place), low, high);
    }
    return true;
}

static bool all_the_same(test_case *c, const char *name, const nbx_tensor *got, const tensor_arg *want) {
    (void)want;
    block b;
    if (!block_of_tensor(c, got, &b)) return false;
    for (int64_t i = 1; i < b.count; i++) {
        if (!memcmp(b.data, b.data + (size_t)i * element_bytes(b.dtype), element_bytes(b.dtype))) continue;
        char place[200], first[80], text[80];
        return case_fail(c, "%s: not constant: %s at the start, %s at %s", name, block_text(&b, 0, first, sizeof first),
                         block_text(&b, i, text, sizeof text), index_text(&b, i, place, sizeof place));
    }
    return true;
}

static bool same_magnitudes(test_case *c, const char *name, const nbx_tensor *got, const tensor_arg *want) {
    block a, b;
    if (!block_of_tensor(c, got, &a) || !block_of_arg(c, want, &b)) return false;
    const tolerance t = case_tolerance(c, a.dtype);
    for (int64_t i = 0; i < a.count; i++) {
        const complex_number x = block_number(&a, i), y = block_number(&b, i);
        if (number_fits((complex_number){hypot(x.re, x.im), 0}, (complex_number){hypot(y.re, y.im), 0}, t, false)) continue;
        char place[200], u[80], v[80];
        return case_fail(c, "%s: magnitudes differ at %s: got %s, want %s", name, index_text(&a, i, place, sizeof place),
                         block_text(&a, i, u, sizeof u), block_text(&b, i, v, sizeof v));
    }
    return true;
}

static int by_number(const void *a, const void *b) {
    const complex_number *x = a, *y = b;
    const bool x_nan = number_is_nan(*x), y_nan = number_is_nan(*y);
    if (x_nan || y_nan) return x_nan - y_nan;
    if (x->re != y->re) return x->re < y->re ? -1 : 1;
    return x->im < y->im ? -1 : x->im > y->im;
}

static bool same_sorted(test_case *c, complex_number *got, complex_number *want, int64_t count, tolerance t, bool complex) {
    (void)c;
    qsort(got, (size_t)count, sizeof *got, by_number);
    qsort(want, (size_t)count, sizeof *want, by_number);
    for (int64_t i = 0; i < count; i++) {
        if (!number_fits(got[i], want[i], t, complex)) return false;
    }
    return true;
}

static bool same_elements(test_case *c, const char *name, const nbx_tensor *got, const tensor_arg *want) {
    block a, b;
    if (!block_of_tensor(c, got, &a) || !block_of_arg(c, want, &b)) return false;
    complex_number *x = case_alloc(c, 2 * (size_t)(a.count + 1) * sizeof *x);
    if (!x) return false;
    for (int64_t i = 0; i < a.count; i++) x[i] = block_number(&a, i), x[a.count + i] = block_number(&b, i);
    return same_sorted(c, x, x + a.count, a.count, case_tolerance(c, a.dtype), dtype_is_complex(a.dtype)) ||
           case_fail(c, "%s: not the same elements", name);
}

// --------------------------------------------------------------------------------------------- indices along a dim
// A tensor seen along one dim: lanes of `length` elements, `inner` apart.
typedef struct lanes {
    int64_t outer, length, inner;
} lanes;

static bool subject_lanes(test_case *c, lanes *l) {
    const block *s = c->subject;
    if (!s) return case_malformed(c, "check '%s' needs a tensor as argument 0", check_name(c));
    const nbx_json *dim = nbx_json_get(c->json, "dim");
    *l = (lanes){1, s->count, 1};
    if (!nbx_json_is(dim, NBX_JSON_INT) || !s->rank) return true;
    const int64_t d = dim->as.integer < 0 ? dim->as.integer + s->rank : dim->as.integer;
    if (d < 0 || d >= s->rank) return case_malformed(c, "dim is out of range");
    l->length = s->shape[d];
    for (int i = 0; i < d; i++) l->outer *= s->shape[i];
    for (int i = (int)d + 1; i < s->rank; i++) l->inner *= s->shape[i];
    return true;
}

// Copies one lane of `length` elements that lie `inner` apart.
static void read_lane(const block *b, int64_t outer, int64_t inner_index, int64_t length, int64_t inner, complex_number *to) {
    for (int64_t k = 0; k < length; k++) to[k] = block_number(b, (outer * length + k) * inner + inner_index);
}

// What one lane of indices picks from the subject. Indices must be in range and differ.
static bool pick_lane(test_case *c, const lanes *l, const complex_number *indices, int64_t count, int64_t outer, int64_t inner_index,
                      char *seen, complex_number *picked) {
    memset(seen, 0, (size_t)l->length);
    for (int64_t k = 0; k < count; k++) {
        const double index = indices[k].re;
        if (!(index >= 0 && index < (double)l->length)) return case_fail(c, "index %g is outside 0 ... %lld", index, (long long)l->length - 1);
        if (seen[(int64_t)index]++) return case_fail(c, "index %g occurs twice along the dim", index);
        picked[k] = block_number(c->subject, (outer * l->length + (int64_t)index) * l->inner + inner_index);
    }
    return true;
}

// Compares what the indices pick; `sorted`: in any order along the dim.
static bool compare_picks(test_case *c, const block *got, const block *want, bool sorted) {
    lanes l;
    if (!subject_lanes(c, &l)) return false;
    const int64_t all = l.outer * l.inner;
    if (!got->count) return true;
    if (!all || got->count % all) return case_malformed(c, "the indices do not fit argument 0");
    const int64_t count = got->count / all;
    complex_number *memory = case_alloc(c, 4 * (size_t)count * sizeof *memory);
    char *seen = case_alloc(c, (size_t)l.length + 1);
    if (!memory || !seen) return false;
    complex_number *a = memory, *b = a + count, *picked_a = b + count, *picked_b = picked_a + count;
    const tolerance exact = {.given = true};
    for (int64_t o = 0; o < l.outer; o++) {
        for (int64_t i = 0; i < l.inner; i++) {
            read_lane(got, o, i, count, l.inner, a);
            read_lane(want, o, i, count, l.inner, b);
            if (!pick_lane(c, &l, a, count, o, i, seen, picked_a)) return false;
            if (!pick_lane(c, &l, b, count, o, i, seen, picked_b)) return false;
            if (sorted) {
                if (!same_sorted(c, picked_a, picked_b, count, exact, true)) return case_fail(c, "the indices pick other elements");
                continue;
            }
            for (int64_t k = 0; k < count; k++) {
                if (number_fits(picked_a[k], picked_b[k], exact, true)) continue;
                return case_fail(c, "index %g picks %.9g, but index %g is right, which picks %.9g", a[k].re, picked_a[k].re, b[k].re, picked_b[k].re);
            }
        }
    }
    return true;
}

static bool same_picks(test_case *c, const char *name, const nbx_tensor *got, const tensor_arg *want) {
    (void)name;
    block a, b;
    return block_of_tensor(c, got, &a) && block_of_arg(c, want, &b) && compare_picks(c, &a, &b, is_check(c, "set"));
}

// Values in any order along the dim.
static bool same_along_dim(test_case *c, const char *name, const nbx_tensor *got, const tensor_arg *want) {
    lanes l;
    block a, b;
    if (!subject_lanes(c, &l) || !block_of_tensor(c, got, &a) || !block_of_arg(c, want, &b)) return false;
    const int64_t all = l.outer * l.inner;
    if (!a.count) return true;
    if (!all || a.count % all) return case_malformed(c, "the values do not fit argument 0");
    const int64_t count = a.count / all;
    complex_number *x = case_alloc(c, 2 * (size_t)count * sizeof *x);
    for (int64_t o = 0; x && o < l.outer; o++) {
        for (int64_t i = 0; i < l.inner; i++) {
            read_lane(&a, o, i, count, l.inner, x);
            read_lane(&b, o, i, count, l.inner, x + count);
            if (!same_sorted(c, x, x + count, count, case_tolerance(c, a.dtype), dtype_is_complex(a.dtype))) {
                return case_fail(c, "%s: not the same elements along the dim", name);
            }
        }
    }
    return x != NULL;
}

// -------------------------------------------------------------------------------------------------------------- alias
static bool shares(test_case *c, const char *name, const nbx_tensor *result, const nbx_tensor *owner) {
    if (!nbx_tensor_numel(result) || nbx_tensor_shares_storage(result, owner)) return true;
    return case_fail(c, "%s: does not share memory with its argument", name);
}

static bool check_alias(test_case *c) {
    const int64_t of = nbx_json_int_or(nbx_json_get(c->json, "alias_of"), 0);
    if (of < 0 || of >= c->arg_count) return case_malformed(c, "alias_of names no argument");
    const nbx_value *owner = &c->args[of];
    int element = 0;
    for (int r = 0; r < c->results.count; r++) {
        const nbx_value *got = &c->results.values[r];
        const bool list = got->kind == NBX_KIND_TENSORS;
        if (!list && got->kind != NBX_KIND_TENSOR) continue;
        for (int i = 0; i < (list ? got->count : 1); i++, element++) {
            const nbx_tensor *t = list ? got->as.tensors[i] : got->as.tensor;
            const nbx_tensor *base = owner->kind == NBX_KIND_TENSOR                                  ? owner->as.tensor
                                     : owner->kind == NBX_KIND_TENSORS && element < owner->count ? owner->as.tensors[element]
                                                                                                 : NULL;
            char name[60];
            snprintf(name, sizeof name, list ? "result %d element %d" : "result %d", r, i);
            if (base && base != NBX_NONE && t != NBX_NONE && !shares(c, name, t, base)) return false;
        }
    }
    return true;
}

// ------------------------------------------------------------------------------------------------------------ results
static tensor_check check_of(const test_case *c, bool last) {
    const bool dim = nbx_json_get(c->json, "dim") != NULL;
    if (is_check(c, "shape")) return within_range;
    if (is_check(c, "constant")) return all_the_same;
    if (is_check(c, "abs")) return same_magnitudes;
    if (is_check(c, "ties")) return last ? same_picks : NULL;
    if (is_check(c, "set")) return !dim ? same_elements : last ? same_picks : same_along_dim;
    return NULL;  // by value
}

static bool check_known(test_case *c) {
    static const char *const known[] = {"values", "shape", "alias", "ties", "set", "abs", "constant"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (is_check(c, known[i])) return true;
    }
    return case_malformed(c, "check '%.40s' is not known", check_name(c));
}

static bool check_outputs(test_case *c, const nbx_json *out) {
    if ((uint32_t)c->results.count != out->count) return case_fail(c, "got %d results, want %u", c->results.count, out->count);
    for (uint32_t i = 0; i < out->count; i++) {
        char name[40];
        snprintf(name, sizeof name, "result %u", i);
        const nbx_json *want = &out->as.items[i];
        if (arg_is(want, "any")) continue;
        c->exact = nbx_json_at(nbx_json_get(c->json, "exact64"), i);
        const tensor_check check = check_of(c, i + 1 == out->count);
        const bool ok = check ? each_tensor(c, name, &c->results.values[i], want, check) : compare_value(c, name, &c->results.values[i], want);
        if (!ok) return false;
    }
    c->exact = NULL;
    return !is_check(c, "alias") || check_alias(c);
}

static const nbx_value *argument_called(const test_case *c, const char *key) {
    char *end;
    const long position = strtol(key, &end, 10);
    if (*key && !*end) return position >= 0 && position < c->arg_count ? &c->args[position] : NULL;
    for (int i = 0; i < c->keyword_count; i++) {
        if (!strcmp(c->keywords[i].name, key)) return &c->keywords[i].value;
    }
    return NULL;
}

static bool nothing_more(test_case *c, const char *name, const nbx_tensor *got, const tensor_arg *want) {
    (void)c, (void)name, (void)got, (void)want;
    return true;
}

static bool whole_stretch(test_case *c, const char *name, const nbx_tensor *got, const tensor_arg *want) {
    if (want->has_stride && want->offset >= want->base_at) return compare_mutated(c, name, got, want);
    block a, b;
    return c->judged || (block_of_tensor(c, got, &a) && block_of_arg(c, want, &b) && compare_blocks(c, name, &a, &b));
}

// An out= argument that a result is: the same memory, and the result was compared by value.
static bool is_result(const test_case *c, const nbx_value *argument) {
    const nbx_json *out = nbx_json_get(c->json, "out");
    if (argument->kind != NBX_KIND_TENSOR || argument->as.tensor == NBX_NONE) return false;
    for (int r = 0; r < c->results.count; r++) {
        const nbx_value *got = &c->results.values[r];
        if (got->kind == NBX_KIND_TENSOR && got->as.tensor == argument->as.tensor && arg_is(nbx_json_at(out, (size_t)r), "tensor")) return true;
    }
    return false;
}

// Where the check leaves the order, sign or value of results open, what was written is judged through the results.
static bool check_mutated(test_case *c, const nbx_json *mutated) {
    const bool by_value = is_check(c, "values") || is_check(c, "alias");
    for (uint32_t i = 0; i < mutated->count; i++) {
        const nbx_json_member *m = &mutated->as.members[i];
        const nbx_value *argument = argument_called(c, m->name);
        if (!argument) return case_malformed(c, "mutated names no argument '%.40s'", m->name);
        if (arg_is(&m->value, "any")) continue;
        char name[80];
        snprintf(name, sizeof name, "argument %.40s after the call", m->name);
        c->judged = is_result(c, argument);
        if (!each_tensor(c, name, argument, &m->value, by_value ? whole_stretch : nothing_more)) return false;
    }
    return true;
}

bool check_results(test_case *c) {
    const nbx_json *out = nbx_json_get(c->json, "out"), *mutated = nbx_json_get(c->json, "mutated");
    if (!check_known(c)) return false;
    if (out && out->kind != NBX_JSON_ARRAY) return case_malformed(c, "out is no list");
    if (mutated && mutated->kind != NBX_JSON_OBJECT) return case_malformed(c, "mutated is no object");
    if (!out && !mutated) return case_malformed(c, "the case says nothing of its results");
    return (!out || check_outputs(c, out)) && (!mutated || check_mutated(c, mutated));
}

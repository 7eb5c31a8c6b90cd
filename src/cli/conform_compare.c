// The rules of comparison: dtype and shape exactly, strides where given, numbers within |got - want| <= atol + rtol |want|.
#include "conform.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// -------------------------------------------------------------------------------------------------------- tolerances
static tolerance pair(double relative, double absolute) { return (tolerance){.relative = relative, .absolute = absolute}; }

static tolerance table_tolerance(nbx_dtype dtype) {
    switch (dtype) {
    case NBX_FLOAT64:
    case NBX_COMPLEX128: return pair(1e-7, 1e-7);
    case NBX_FLOAT32:
    case NBX_COMPLEX64: return pair(1.3e-6, 1e-5);
    case NBX_FLOAT16: return pair(1e-3, 1e-5);
    case NBX_BFLOAT16: return pair(1.6e-2, 1e-5);
    case NBX_FLOAT8_E4M3FN: return pair(0.125, 1e-5);
    case NBX_FLOAT8_E5M2: return pair(0.25, 1e-5);
    default: return pair(0, 0);
    }
}

static bool has_word(const char *op, const char *const *words) {
    for (; *words; words++) {
        if (strstr(op, *words)) return true;
    }
    return false;
}

// Factorisations and what is built on them lose digits with the condition of the matrix: ten times the table's pair.
static bool is_ill_conditioned(const char *op) {
    static const char *const words[] = {"inverse", "inv_ex", "pinv", "lstsq", "cholesky", "geqrf", "lu_solve", "lu_factor", "householder", "logdet",
                                        "slogdet", "matrix_exp", "matrix_power", "triangular_solve", NULL};
    static const char *const linalg[] = {"svd", "eig", "solve", "qr", "det", "cond", "lu", "ldl", "matrix_norm", NULL};
    return has_word(op, words) || (strstr(op, "linalg_") && has_word(op, linalg));
}

// Results that are sums of many terms, in an order that implementations choose: what cancels leaves an error in proportion
// to the terms, not to the result.
static bool is_sum(const char *op) {
    static const char *const words[] = {"mm", "mv", "dot", "matmul", "linear", "conv", "attention", "lstm", "gru", "rnn", "fft", "stft", "sum", "mean",
                                        "var", "std", "norm", "trace", "dist", "avg_pool", "upsample", "interpolate", "grid_sampler", "loss", "scatter_add",
                                        "scatter_reduce", "index_add", "index_reduce", "einsum", "embedding_bag", "col2im", "cov", "corrcoef",
                                        "trapez", "cosine_similarity", "addr", "addbmm", "cumsum", "logcumsumexp", "histc", NULL};
    return has_word(op, words);
}

tolerance case_tolerance(test_case *c, nbx_dtype dtype) {
    const nbx_json *tol = nbx_json_get(c->json, "tol");
    if (nbx_json_is(tol, NBX_JSON_STRING)) return (tolerance){.bits = true, .given = true};
    if (nbx_json_is(tol, NBX_JSON_ARRAY)) {
        return (tolerance){.relative = arg_number(nbx_json_at(tol, 0)), .absolute = arg_number(nbx_json_at(tol, 1)), .given = true};
    }
    tolerance t = table_tolerance(dtype);
    if (is_ill_conditioned(c->result->op)) t.relative *= 10, t.absolute *= 10, t.scale = 1;
    else if (is_sum(c->result->op)) t.scale = 1;
    return t;
}

// ----------------------------------------------------------------------------------------------------------- elements
static bool part_fits(double got, double want, tolerance t) {
    if (isinf(got) || isinf(want)) return got == want;
    return fabs(got - want) <= t.absolute + t.relative * fabs(want);
}

bool number_fits(complex_number got, complex_number want, tolerance t, bool complex) {
    const bool got_nan = number_is_nan(got), want_nan = number_is_nan(want);
    if (got_nan || want_nan) return got_nan && want_nan;
    if (!complex || isinf(got.re) || isinf(got.im) || isinf(want.re) || isinf(want.im)) {
        return part_fits(got.re, want.re, t) && part_fits(got.im, want.im, t);
    }
    return hypot(got.re - want.re, got.im - want.im) <= t.absolute + t.relative * hypot(want.re, want.im);
}

static bool element_fits(const block *got, const block *want, int64_t i, tolerance t) {
    if (t.bits) return block_same_bits(got, i, want, i);
    const size_t size = element_bytes(got->dtype);
    if (!memcmp(got->data + (size_t)i * size, want->data + (size_t)i * size, size)) return true;
    if (dtype_is_integral(got->dtype) && (!t.given || (t.relative == 0 && t.absolute == 0))) return false;
    return number_fits(block_number(got, i), block_number(want, i), t, dtype_is_complex(got->dtype));
}

static double distance(const block *got, const block *want, int64_t i) {
    const complex_number a = block_number(got, i), b = block_number(want, i);
    const double d = hypot(a.re - b.re, a.im - b.im);
    return isnan(d) ? INFINITY : d;
}

static bool report_difference(test_case *c, const char *name, const block *got, const block *want, int64_t differing,
                              int64_t worst, tolerance t) {
    char place[200], a[80], b[80], limit[80] = "";
    if (t.bits) snprintf(limit, sizeof limit, "bit for bit");
    else snprintf(limit, sizeof limit, "rtol %g, atol %g", t.relative, t.absolute);
    return case_fail(c, "%s: %lld of %lld elements differ, most at %s: got %s, want %s (%s %s)", name, (long long)differing,
                     (long long)got->count, index_text(got, worst, place, sizeof place), block_text(got, worst, a, sizeof a),
                     block_text(want, worst, b, sizeof b), nbx_dtype_name(got->dtype), limit);
}

static double largest_finite(const block *b) {
    double most = 0;
    for (int64_t i = 0; i < b->count; i++) {
        const complex_number x = block_number(b, i);
        const double magnitude = hypot(x.re, x.im);
        if (isfinite(magnitude) && magnitude > most) most = magnitude;
    }
    return most;
}

// The result in float64, when the case has it and it fits; NULL otherwise.
static const block *exact_block(test_case *c, const block *got, block *exact) {
    tensor_arg facts;
    if (!arg_is(c->exact, "tensor") || dtype_is_integral(got->dtype) || !arg_tensor_facts(c, c->exact, &facts)) return NULL;
    return block_of_arg(c, &facts, exact) && exact->count == got->count && !dtype_is_integral(exact->dtype) ? exact : NULL;
}

// Is ours at least as close to the float64 result as the recorded one? Then the recorded one is no reason to complain; nor is
// an infinity or NaN of a step that overflowed on the way, when ours fits the number that float64 gives.
static bool is_nearer(const block *got, const block *want, const block *exact, int64_t i, tolerance t) {
    if (!exact) return false;
    const complex_number x = block_number(got, i), y = block_number(want, i), e = block_number(exact, i);
    const double ours = hypot(x.re - e.re, x.im - e.im), theirs = hypot(y.re - e.re, y.im - e.im);
    if (!isfinite(theirs)) return isfinite(ours) && number_fits(x, e, t, dtype_is_complex(got->dtype));
    return isfinite(ours) && ours <= theirs;
}

bool compare_blocks(test_case *c, const char *name, const block *got, const block *want) {
    tolerance t = case_tolerance(c, got->dtype);
    if (got->count && !memcmp(got->data, want->data, got->bytes)) return true;
    if (t.scale > 0) t.absolute += t.relative * t.scale * largest_finite(want);
    block memory;
    const block *exact = t.given ? NULL : exact_block(c, got, &memory);
    int64_t differing = 0, worst = 0;
    double most = -1;
    for (int64_t i = 0; i < got->count; i++) {
        if (element_fits(got, want, i, t) || is_nearer(got, want, exact, i, t)) continue;
        const double d = distance(got, want, i);
        if (d > most) most = d, worst = i;
        differing++;
    }
    return !differing || report_difference(c, name, got, want, differing, worst, t);
}

// -------------------------------------------------------------------------------------------------------------- facts
static void sizes_text(int rank, const int64_t *sizes, char *text, size_t size) {
    size_t n = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < rank && n < size; d++) n += (size_t)snprintf(text + n, size - n, d ? ", %lld" : "%lld", (long long)sizes[d]);
    if (n < size) snprintf(text + n, size - n, "]");
}

static bool same_strides(const nbx_tensor *got, const tensor_arg *want) {
    if (!nbx_tensor_numel(got)) return true;
    const int64_t *stride = nbx_tensor_strides(got);
    for (int d = 0; d < want->rank; d++) {
        if (want->shape[d] > 1 && stride[d] != want->stride[d]) return false;
    }
    return true;
}

bool compare_facts(test_case *c, const char *name, const nbx_tensor *got, const tensor_arg *want) {
    char a[200], b[200];
    if (nbx_tensor_dtype(got) != want->dtype) {
        return case_fail(c, "%s: got dtype %s, want %s", name, nbx_dtype_name(nbx_tensor_dtype(got)), nbx_dtype_name(want->dtype));
    }
    const int rank = nbx_tensor_rank(got);
    sizes_text(rank, nbx_tensor_shape(got), a, sizeof a);
    sizes_text(want->rank, want->shape, b, sizeof b);
    if (rank != want->rank || (rank && memcmp(nbx_tensor_shape(got), want->shape, (size_t)rank * sizeof(int64_t)))) {
        return case_fail(c, "%s: got shape %s, want %s", name, a, b);
    }
    if (!want->has_stride || same_strides(got, want)) return true;
    char shape[200];
    sizes_text(rank, want->shape, shape, sizeof shape);
    sizes_text(rank, nbx_tensor_strides(got), a, sizeof a);
    sizes_text(rank, want->stride, b, sizeof b);
    return case_fail(c, "%s: got strides %s, want %s for shape %s", name, a, b, shape);
}

// -------------------------------------------------------------------------------------------------------------- values
static bool compare_tensor(test_case *c, const char *name, const nbx_tensor *got, const nbx_json *want) {
    tensor_arg facts;
    block a, b;
    if (!arg_tensor_facts(c, want, &facts) || !compare_facts(c, name, got, &facts)) return false;
    return block_of_tensor(c, got, &a) && block_of_arg(c, &facts, &b) && compare_blocks(c, name, &a, &b);
}

static const char *kind_name(int kind) {
    static const char *const names[] = {"none",   "a tensor", "an int",          "a float",     "a bool",  "a complex number", "a string", "a dtype",
                                        "layout", "a device", "a memory format", "a generator", "tensors", "ints",             "floats",   "bools",
                                        "values"};
    return kind >= 0 && kind < (int)(sizeof names / sizeof *names) ? names[kind] : "something unknown";
}

static bool wrong_kind(test_case *c, const char *name, const nbx_value *got, const nbx_json *want) {
    return case_fail(c, "%s: got %s, want %s", name, kind_name(got->kind), want->as.members[0].name);
}

static bool compare_number(test_case *c, const char *name, double got, double want, const char *what) {
    tolerance t = case_tolerance(c, NBX_FLOAT64);
    const bool fits = t.bits ? got == want || (isnan(got) && isnan(want)) : number_fits((complex_number){got, 0}, (complex_number){want, 0}, t, false);
    return fits || case_fail(c, "%s: got %s %.17g, want %.17g", name, what, got, want);
}

// Element i of a list result, as a value.
static nbx_value list_element(const nbx_value *list, int i) {
    switch (list->kind) {
    case NBX_KIND_TENSORS: return list->as.tensors[i] == NBX_NONE ? nbx_of_none() : nbx_of_tensor(list->as.tensors[i]);
    case NBX_KIND_INTS: return nbx_of_int(list->as.ints[i]);
    case NBX_KIND_FLOATS: return nbx_of_float(list->as.floats[i]);
    case NBX_KIND_BOOLS: return nbx_of_bool(list->as.bools[i]);
    default: return list->as.values[i];
    }
}

static bool compare_list(test_case *c, const char *name, const nbx_value *got, const nbx_json *want) {
    if (got->kind < NBX_KIND_TENSORS || !nbx_json_is(want, NBX_JSON_ARRAY)) return case_fail(c, "%s: got %s, want a list", name, kind_name(got->kind));
    if ((uint32_t)got->count != want->count) return case_fail(c, "%s: got %d elements, want %u", name, got->count, want->count);
    for (int i = 0; i < got->count; i++) {
        char element[120];
        snprintf(element, sizeof element, "%.90s element %d", name, i);
        const nbx_value value = list_element(got, i);
        if (!compare_value(c, element, &value, &want->as.items[i])) return false;
    }
    return true;
}

// ATen's number of a dtype, which is how PyTorch shows one that an operator returns.
static int64_t aten_number(nbx_dtype dtype) {
    static const int8_t numbers[NBX_DTYPE_COUNT] = {
        [NBX_UINT8] = 0,     [NBX_INT8] = 1,        [NBX_INT16] = 2,       [NBX_INT32] = 3,   [NBX_INT64] = 4,         [NBX_FLOAT16] = 5,
        [NBX_FLOAT32] = 6,   [NBX_FLOAT64] = 7,     [NBX_COMPLEX64] = 9,   [NBX_COMPLEX128] = 10, [NBX_BOOL] = 11,     [NBX_BFLOAT16] = 15,
        [NBX_UINT16] = 27,   [NBX_UINT32] = 28,     [NBX_UINT64] = 29,     [NBX_FLOAT8_E4M3FN] = 24, [NBX_FLOAT8_E5M2] = 23};
    return dtype >= 0 && dtype < NBX_DTYPE_COUNT ? numbers[dtype] : -1;
}

bool compare_value(test_case *c, const char *name, const nbx_value *got, const nbx_json *want) {
    if (!nbx_json_is(want, NBX_JSON_OBJECT) || !want->count) return case_malformed(c, "a result is no object");
    const char *kind = want->as.members[0].name;
    const nbx_json *content = &want->as.members[0].value;
    const bool got_tensor = got->kind == NBX_KIND_TENSOR && got->as.tensor != NBX_NONE;
    if (!strcmp(kind, "any")) return true;
    if (!strcmp(kind, "tensor")) return got_tensor ? compare_tensor(c, name, got->as.tensor, want) : wrong_kind(c, name, got, want);
    if (!strcmp(kind, "list")) return compare_list(c, name, got, content);
    if (!strcmp(kind, "none")) return got->kind == NBX_KIND_NONE || (got->kind == NBX_KIND_TENSOR && !got_tensor) || wrong_kind(c, name, got, want);
    if (!strcmp(kind, "int")) {
        if (got->kind == NBX_KIND_DTYPE && aten_number(got->as.dtype) == nbx_json_int_or(content, -1)) return true;
        if (got->kind != NBX_KIND_INT) return wrong_kind(c, name, got, want);
        return got->as.integer == nbx_json_int_or(content, 0) ||
               case_fail(c, "%s: got %lld, want %lld", name, (long long)got->as.integer, (long long)nbx_json_int_or(content, 0));
    }
    if (!strcmp(kind, "float")) return got->kind == NBX_KIND_FLOAT ? compare_number(c, name, got->as.real, arg_number(content), "float") : wrong_kind(c, name, got, want);
    if (!strcmp(kind, "bool")) {
        if (got->kind != NBX_KIND_BOOL) return wrong_kind(c, name, got, want);
        return got->as.boolean == nbx_json_bool_or(content, false) || case_fail(c, "%s: got %s", name, got->as.boolean ? "true" : "false");
    }
    if (!strcmp(kind, "complex")) {
        if (got->kind != NBX_KIND_COMPLEX) return wrong_kind(c, name, got, want);
        return compare_number(c, name, got->as.complex[0], arg_number(nbx_json_at(content, 0)), "real part") &&
               compare_number(c, name, got->as.complex[1], arg_number(nbx_json_at(content, 1)), "imaginary part");
    }
    nbx_value value;
    if (!arg_value(c, want, &value)) return false;
    if (value.kind != got->kind) return wrong_kind(c, name, got, want);
    if (got->kind == NBX_KIND_STRING) return !strcmp(got->as.string, value.as.string) || case_fail(c, "%s: got '%.60s', want '%.60s'", name, got->as.string, value.as.string);
    if (got->kind == NBX_KIND_DTYPE) return got->as.dtype == value.as.dtype || case_fail(c, "%s: got %s", name, nbx_dtype_name(got->as.dtype));
    return true;
}

// ------------------------------------------------------------------------------------------------- mutated arguments
// Which elements of the stretch belong to the argument: 1 each.
static char *mark_own(test_case *c, const tensor_arg *f) {
    char *own = case_alloc(c, (size_t)f->count + 1);
    int64_t index[NBX_MAX_RANK] = {0}, at = f->offset - f->base_at, numel = 1;
    for (int d = 0; d < f->rank; d++) numel *= f->shape[d];
    for (int64_t i = 0; own && i < numel; i++) {
        if (at >= 0 && at < f->count) own[at] = 1;
        for (int d = f->rank - 1; d >= 0; d--) {
            at += f->stride[d];
            if (++index[d] < f->shape[d]) break;
            at -= f->stride[d] * f->shape[d];
            index[d] = 0;
        }
    }
    return own;
}

bool compare_mutated(test_case *c, const char *name, const nbx_tensor *got, const tensor_arg *want) {
    const int64_t start = nbx_tensor_offset(got) - want->offset + want->base_at, count[1] = {want->count}, one[1] = {1};
    if (!want->count) return true;
    const nbx_tensor *stretch = start < 0 ? NULL : nbx_tensor_view(c->ctx, got, want->dtype, 1, count, one, start);
    if (!stretch) return case_fail(c, "%s: its storage does not reach as far as PyTorch's: %s", name, nbx_last_message(c->ctx));
    tensor_arg flat = *want;
    flat.rank = 1;
    flat.shape[0] = want->count;
    flat.stride[0] = 1;
    flat.offset = want->base_at;
    block a, b;
    if (!block_of_tensor(c, stretch, &a) || !block_of_arg(c, &flat, &b)) return false;
    if (!c->judged && !compare_blocks(c, name, &a, &b)) return false;
    const char *own = mark_own(c, want);
    for (int64_t i = 0; own && i < want->count; i++) {
        if (own[i] || block_same_bits(&a, i, &b, i)) continue;
        char x[80], y[80];
        return case_fail(c, "%s: an element beside it was written, at %lld of its storage: got %s, want %s", name, (long long)i,
                         block_text(&a, i, x, sizeof x), block_text(&b, i, y, sizeof y));
    }
    return own != NULL;
}

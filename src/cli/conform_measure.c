// What is measured beside the verdict: errors in units of the last place against float64, and a hash of the results' bits.
#include "conform.h"

#include <float.h>
#include <math.h>
#include <string.h>

// Distance between neighbours of a dtype around x; 0 for dtypes that are not measured.
static double unit_of_last_place(nbx_dtype dtype, double x) {
    int digits, smallest;  // bits of the significand, exponent of the smallest normal number
    switch (dtype) {
    case NBX_FLOAT64:
    case NBX_COMPLEX128: digits = 53, smallest = -1022; break;
    case NBX_FLOAT32:
    case NBX_COMPLEX64: digits = 24, smallest = -126; break;
    case NBX_BFLOAT16: digits = 8, smallest = -126; break;
    case NBX_FLOAT16: digits = 11, smallest = -14; break;
    default: return 0;
    }
    const int exponent = x == 0 ? smallest : ilogb(x);
    return ldexp(1, (exponent > smallest ? exponent : smallest) - digits + 1);
}

// NaN when the pair says nothing (no finite exact value), infinity when only ours is not finite.
static double error_in_ulp(const block *b, int64_t i, complex_number exact) {
    const complex_number x = block_number(b, i);
    const double magnitude = hypot(exact.re, exact.im);
    if (!isfinite(magnitude) || (b->dtype == NBX_FLOAT16 && magnitude > 65504) || (b->dtype != NBX_FLOAT64 && b->dtype != NBX_COMPLEX128 && magnitude > FLT_MAX)) return NAN;
    const double unit = unit_of_last_place(b->dtype, magnitude), d = hypot(x.re - exact.re, x.im - exact.im);
    return isfinite(d) ? d / unit : INFINITY;
}

static double largest_error(const block *b, const block *exact) {
    double most = 0;
    for (int64_t i = 0; i < b->count; i++) {
        const double e = error_in_ulp(b, i, block_number(exact, i));
        if (e > most) most = e;
    }
    return most;
}

static void measure_tensor(test_case *c, const nbx_value *got, const nbx_json *recorded, const nbx_json *exact) {
    if (got->kind != NBX_KIND_TENSOR || got->as.tensor == NBX_NONE || !arg_is(recorded, "tensor") || !arg_is(exact, "tensor")) return;
    tensor_arg recorded_facts, exact_facts;
    block ours, theirs, right;
    if (unit_of_last_place(nbx_tensor_dtype(got->as.tensor), 1) == 0) return;
    if (!arg_tensor_facts(c, recorded, &recorded_facts) || !arg_tensor_facts(c, exact, &exact_facts)) return;
    if (!block_of_tensor(c, got->as.tensor, &ours) || !block_of_arg(c, &recorded_facts, &theirs) || !block_of_arg(c, &exact_facts, &right)) return;
    if (ours.count != right.count || theirs.count != right.count || dtype_is_integral(right.dtype)) return;
    const double our_error = largest_error(&ours, &right), their_error = largest_error(&theirs, &right);
    if (our_error > c->result->ulp_ours) {
        c->result->ulp_ours = our_error;
        c->result->dtype = ours.dtype;
    }
    if (their_error > c->result->ulp_recorded) c->result->ulp_recorded = their_error;
}

void measure_ulp(test_case *c) {
    const nbx_json *out = nbx_json_get(c->json, "out"), *exact = nbx_json_get(c->json, "exact64");
    for (int i = 0; i < c->results.count; i++) {
        const nbx_json *recorded = nbx_json_at(out, (size_t)i), *right = nbx_json_at(exact, (size_t)i);
        if (recorded && right) measure_tensor(c, &c->results.values[i], recorded, right);
    }
}

// ------------------------------------------------------------------------------------------------------------- hashes
static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t hash_tensor(test_case *c, uint64_t hash, const nbx_tensor *t) {
    block b;
    if (t == NBX_NONE || !block_of_tensor(c, t, &b)) return mix(hash, 1);
    const size_t size = element_bytes(b.dtype);
    for (int d = 0; d < b.rank; d++) hash = mix(hash, (uint64_t)b.shape[d]);
    for (int64_t i = 0; i < b.count; i++) {
        uint64_t words[2] = {0, 0};
        memcpy(words, b.data + (size_t)i * size, size);
        if (!dtype_is_integral(b.dtype) && number_is_nan(block_number(&b, i))) words[0] = 0x7ff8, words[1] = 0;
        hash = mix(mix(hash, words[0]), words[1]);
    }
    return hash;
}

// Results that are not initialised or not compared are left out; all NaNs are one.
uint64_t hash_results(test_case *c) {
    const nbx_json *out = nbx_json_get(c->json, "out");
    uint64_t hash = 1;
    if (!strcmp(nbx_json_string_or(nbx_json_get(c->json, "check"), ""), "shape")) return 0;
    for (int r = 0; r < c->results.count; r++) {
        const nbx_value *got = &c->results.values[r];
        const nbx_json *want = nbx_json_at(out, (size_t)r);
        if (want && arg_is(want, "any")) continue;
        if (got->kind == NBX_KIND_TENSOR) hash = hash_tensor(c, hash, got->as.tensor);
        for (int i = 0; got->kind == NBX_KIND_TENSORS && i < got->count; i++) hash = hash_tensor(c, hash, got->as.tensors[i]);
        if (got->kind == NBX_KIND_INT) hash = mix(hash, (uint64_t)got->as.integer);
    }
    return hash ? hash : 1;
}

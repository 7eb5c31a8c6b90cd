// Elements of tensors in host memory: reading them as numbers whatever their dtype, comparing them as bits.
#include "conform.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t element_bytes(nbx_dtype dtype) { return nbx_dtype_bytes(dtype); }

bool dtype_is_complex(nbx_dtype dtype) { return dtype == NBX_COMPLEX64 || dtype == NBX_COMPLEX128; }

bool dtype_is_integral(nbx_dtype dtype) {
    switch (dtype) {
    case NBX_BOOL:
    case NBX_UINT8:
    case NBX_INT8:
    case NBX_INT16:
    case NBX_INT32:
    case NBX_INT64:
    case NBX_UINT16:
    case NBX_UINT32:
    case NBX_UINT64: return true;
    default: return false;
    }
}

// ----------------------------------------------------------------------------------------------------------- reading
bool block_alloc(test_case *c, nbx_dtype dtype, int rank, const int64_t *shape, block *b) {
    b->dtype = dtype;
    b->rank = rank;
    b->count = 1;
    for (int d = 0; d < rank; d++) {
        b->shape[d] = shape[d];
        b->count *= shape[d];
    }
    b->bytes = (size_t)b->count * nbx_dtype_bytes(dtype);
    b->data = case_alloc(c, b->bytes + 1);
    return b->data != NULL;
}

// First and last element of a tensor's storage that it reaches.
static void reach(const nbx_tensor *t, int64_t *low, int64_t *high) {
    *low = *high = nbx_tensor_offset(t);
    for (int d = 0; d < nbx_tensor_rank(t); d++) {
        const int64_t step = nbx_tensor_strides(t)[d] * (nbx_tensor_shape(t)[d] - 1);
        *(step < 0 ? low : high) += step;
    }
}

// Gathers elements that lie strided in data, from element `at` on.
static bool gather(test_case *c, const char *data, int64_t count, int64_t at, const int64_t *shape, const int64_t *stride, block *b) {
    const size_t size = nbx_dtype_bytes(b->dtype);
    int64_t index[NBX_MAX_RANK] = {0};
    for (int64_t i = 0; i < b->count; i++) {
        if (at < 0 || at >= count) return case_malformed(c, "strides leave the array");
        memcpy(b->data + (size_t)i * size, data + (size_t)at * size, size);
        for (int d = b->rank - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < shape[d]) break;
            at -= stride[d] * shape[d];
            index[d] = 0;
        }
    }
    return true;
}

// Strided tensors are read as one stretch of storage and put in order here, so that no operator under test takes part.
static bool read_stretch(test_case *c, const nbx_tensor *t, block *b) {
    int64_t low, high;
    reach(t, &low, &high);
    const int64_t count[1] = {high - low + 1}, one[1] = {1};
    const nbx_tensor *stretch = nbx_tensor_view(c->ctx, t, b->dtype, 1, count, one, low);
    char *data = stretch ? case_alloc(c, (size_t)count[0] * nbx_dtype_bytes(b->dtype)) : NULL;
    if (!data || nbx_tensor_read(c->ctx, stretch, data)) return case_fail(c, "a tensor cannot be read: %s", nbx_last_message(c->ctx));
    return gather(c, data, count[0], nbx_tensor_offset(t) - low, nbx_tensor_shape(t), nbx_tensor_strides(t), b);
}

bool block_of_tensor(test_case *c, const nbx_tensor *t, block *b) {
    if (nbx_tensor_nbytes(t) > (size_t)8 << 30) {
        case_skip(c, "a result of %zu bytes", nbx_tensor_nbytes(t));
        return false;
    }
    if (!block_alloc(c, nbx_tensor_dtype(t), nbx_tensor_rank(t), nbx_tensor_shape(t), b)) return false;
    if (!b->count) return true;
    int64_t low, high;
    reach(t, &low, &high);
    const bool spread = (high - low) / 64 > b->count;  // huge strides: the library's own copy
    if (!spread && !nbx_tensor_is_contiguous(t, NBX_CONTIGUOUS_FORMAT)) return read_stretch(c, t, b);
    if (nbx_tensor_read(c->ctx, t, b->data) == NBX_OK) return true;
    return case_fail(c, "a tensor cannot be read: %s", nbx_last_message(c->ctx));
}

// Walks the strides over the array as it lies in the file; an element outside it means a malformed case.
bool block_of_arg(test_case *c, const tensor_arg *f, block *b) {
    if (!block_alloc(c, f->dtype, f->rank, f->shape, b)) return false;
    return gather(c, nbx_tensor_data(f->array), f->count, f->offset - f->base_at, f->shape, f->stride, b);
}

// ----------------------------------------------------------------------------------------------------------- numbers
// A small binary float: sign, exponent_bits, mantissa_bits. finite_only: e4m3fn, whose only NaN is all ones.
static double small_float(unsigned bits, int exponent_bits, int mantissa_bits, bool finite_only) {
    const unsigned mantissa = bits & ((1u << mantissa_bits) - 1);
    const int top = (1 << exponent_bits) - 1, bias = top / 2;
    const int exponent = (int)(bits >> mantissa_bits) & top;
    const double sign = bits >> (exponent_bits + mantissa_bits) & 1 ? -1.0 : 1.0;
    if (exponent == top && (!finite_only || mantissa == (1u << mantissa_bits) - 1)) return mantissa ? NAN : sign * INFINITY;
    if (!exponent) return sign * ldexp(mantissa, 1 - bias - mantissa_bits);
    return sign * ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
}

#define READ(TYPE) (*(const TYPE *)(const void *)at)
complex_number block_number(const block *b, int64_t index) {
    const char *at = b->data + (size_t)index * nbx_dtype_bytes(b->dtype);
    complex_number x = {0, 0};
    switch (b->dtype) {
    case NBX_BOOL:
    case NBX_UINT8: x.re = READ(uint8_t); break;
    case NBX_INT8: x.re = READ(int8_t); break;
    case NBX_INT16: x.re = READ(int16_t); break;
    case NBX_INT32: x.re = READ(int32_t); break;
    case NBX_INT64: x.re = (double)READ(int64_t); break;
    case NBX_UINT16: x.re = READ(uint16_t); break;
    case NBX_UINT32: x.re = READ(uint32_t); break;
    case NBX_UINT64: x.re = (double)READ(uint64_t); break;
    case NBX_FLOAT16: x.re = small_float(READ(uint16_t), 5, 10, false); break;
    case NBX_BFLOAT16: x.re = small_float(READ(uint16_t), 8, 7, false); break;
    case NBX_FLOAT8_E4M3FN: x.re = small_float(READ(uint8_t), 4, 3, true); break;
    case NBX_FLOAT8_E5M2: x.re = small_float(READ(uint8_t), 5, 2, false); break;
    case NBX_FLOAT32: x.re = READ(float); break;
    case NBX_FLOAT64: x.re = READ(double); break;
    case NBX_COMPLEX64:
        x.re = READ(float);
        x.im = ((const float *)(const void *)at)[1];
        break;
    case NBX_COMPLEX128:
        x.re = READ(double);
        x.im = ((const double *)(const void *)at)[1];
        break;
    default: break;
    }
    return x;
}

bool number_is_nan(complex_number x) { return isnan(x.re) || isnan(x.im); }

bool block_same_bits(const block *a, int64_t i, const block *b, int64_t j) {
    const size_t size = nbx_dtype_bytes(a->dtype);
    if (!memcmp(a->data + (size_t)i * size, b->data + (size_t)j * size, size)) return true;
    if (dtype_is_integral(a->dtype)) return false;
    const complex_number x = block_number(a, i), y = block_number(b, j);
    if (!dtype_is_complex(a->dtype)) return isnan(x.re) && isnan(y.re);
    const bool re = (isnan(x.re) && isnan(y.re)) || (x.re == y.re && signbit(x.re) == signbit(y.re));
    const bool im = (isnan(x.im) && isnan(y.im)) || (x.im == y.im && signbit(x.im) == signbit(y.im));
    return re && im;
}

// -------------------------------------------------------------------------------------------------------------- texts
const char *block_text(const block *b, int64_t index, char *text, size_t size) {
    const complex_number x = block_number(b, index);
    const char *at = b->data + (size_t)index * nbx_dtype_bytes(b->dtype);
    const int digits = b->dtype == NBX_FLOAT64 || b->dtype == NBX_COMPLEX128 ? 17 : 9;
    if (b->dtype == NBX_BOOL) snprintf(text, size, x.re == 0 ? "false" : x.re == 1 ? "true" : "bool(%g)", x.re);
    else if (b->dtype == NBX_UINT64) snprintf(text, size, "%llu", (unsigned long long)READ(uint64_t));
    else if (b->dtype == NBX_INT64) snprintf(text, size, "%lld", (long long)READ(int64_t));
    else if (dtype_is_complex(b->dtype)) snprintf(text, size, "%.*g%+.*gj", digits, x.re, digits, x.im);
    else snprintf(text, size, "%.*g", digits, x.re);
    return text;
}

char *index_text(const block *b, int64_t index, char *text, size_t size) {
    int64_t place[NBX_MAX_RANK];
    for (int d = b->rank; d-- > 0;) {
        place[d] = index % b->shape[d];
        index /= b->shape[d];
    }
    size_t n = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < b->rank && n < size; d++) n += (size_t)snprintf(text + n, size - n, d ? ", %lld" : "%lld", (long long)place[d]);
    if (n < size) snprintf(text + n, size - n, "]");
    return text;
}

// Compares a result with what was expected: dtype and shape exactly, integers and bools bit for bit, floats by the largest
// difference over the largest magnitude; NaN and infinities must stand in the same places.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static double tolerance_of(nbx_dtype dtype) {
    switch (dtype) {
    case NBX_FLOAT64: case NBX_COMPLEX128: return 1e-8;
    case NBX_FLOAT32: case NBX_COMPLEX64: return 1e-4;
    case NBX_FLOAT16: return 5e-3;
    case NBX_BFLOAT16: return 4e-2;
    case NBX_FLOAT8_E4M3FN: return 0.125;
    case NBX_FLOAT8_E5M2: return 0.25;
    default: return 0;
    }
}

static bool is_complex(nbx_dtype dtype) { return dtype == NBX_COMPLEX64 || dtype == NBX_COMPLEX128; }
static bool is_real(nbx_dtype dtype) { return tolerance_of(dtype) > 0 && !is_complex(dtype); }

static void print_shape(const nbx_tensor *t, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "%s[", nbx_dtype_name(nbx_tensor_dtype(t)));
    for (int i = 0; i < nbx_tensor_rank(t) && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "", (long long)nbx_tensor_shape(t)[i]);
    if (used < size) snprintf(text + used, size - used, "]");
}

static bool same_facts(const nbx_tensor *a, const nbx_tensor *b) {
    const int rank = nbx_tensor_rank(a);
    return nbx_tensor_dtype(a) == nbx_tensor_dtype(b) && rank == nbx_tensor_rank(b) &&
           memcmp(nbx_tensor_shape(a), nbx_tensor_shape(b), (size_t)rank * sizeof(int64_t)) == 0;
}

// All elements as doubles (two a complex number); NULL: out of memory, or the cast failed.
static double *read_doubles(nbx_context *ctx, const nbx_tensor *t, size_t *count) {
    const bool complex = is_complex(nbx_tensor_dtype(t));
    const nbx_value args[2] = {nbx_of_tensor(t), nbx_of_dtype(complex ? NBX_COMPLEX128 : NBX_FLOAT64)};
    nbx_value wide;
    *count = (size_t)nbx_tensor_numel(t) * (complex ? 2 : 1);
    double *elements = malloc((*count + 1) * sizeof *elements);
    if (elements && nbx_call(ctx, "aten::to.dtype", args, 2, NULL, 0, &wide, 1, NULL) == NBX_OK &&
        nbx_tensor_read(ctx, wide.as.tensor, elements) == NBX_OK)
        return elements;
    free(elements);
    return NULL;
}

static void print_place(const nbx_tensor *t, size_t element, char *text, size_t size) {
    int64_t index[NBX_MAX_RANK];
    const int rank = nbx_tensor_rank(t);
    size_t rest = is_complex(nbx_tensor_dtype(t)) ? element / 2 : element, used = 0;
    for (int i = rank; i-- > 0;) {
        const size_t n = (size_t)nbx_tensor_shape(t)[i];
        index[i] = (int64_t)(rest % n);
        rest /= n;
    }
    used += (size_t)snprintf(text, size, "[");
    for (int i = 0; i < rank && used < size; i++) used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "", (long long)index[i]);
    if (used < size) snprintf(text + used, size - used, "]");
}

static bool compare_floats(nbx_context *ctx, const nbx_tensor *got, const nbx_tensor *wanted, double allowed, double *largest,
                           char *text, size_t size) {
    size_t count, worst = 0;
    double *a = read_doubles(ctx, got, &count), *b = read_doubles(ctx, wanted, &count);
    double difference = 0, magnitude = 0;
    bool misplaced = false, good = a && b;
    if (!good) snprintf(text, size, "cannot be read: %s", nbx_last_message(ctx));
    for (size_t i = 0; good && i < count && !misplaced; i++) {
        if (isfinite(b[i]) && fabs(b[i]) > magnitude) magnitude = fabs(b[i]);
        misplaced = isnan(a[i]) != isnan(b[i]) || ((isinf(a[i]) || isinf(b[i])) && !(a[i] == b[i]));
        const double d = isfinite(a[i]) && isfinite(b[i]) ? fabs(a[i] - b[i]) : 0;
        if (d > difference || misplaced) difference = d, worst = i;
    }
    if (good) {
        char place[256];
        *largest = difference / (magnitude > 0 ? magnitude : 1);
        good = !misplaced && *largest <= allowed;
        if (!good) print_place(got, worst, place, sizeof place);
        if (misplaced) snprintf(text, size, "%g stands at %s, expected %g", a[worst], place, b[worst]);
        else if (!good)
            snprintf(text, size, "differs by %.3g of the largest value (allowed %.3g): %.9g at %s, expected %.9g", *largest, allowed, a[worst], place, b[worst]);
    }
    free(a);
    free(b);
    return good;
}

static bool compare_bytes(nbx_context *ctx, const nbx_tensor *got, const nbx_tensor *wanted, double *largest, char *text, size_t size) {
    const size_t bytes = nbx_tensor_nbytes(got), element = nbx_dtype_bytes(nbx_tensor_dtype(got));
    char *a = malloc(bytes + 1), *b = malloc(bytes + 1), place[256];
    bool good = a && b && nbx_tensor_read(ctx, got, a) == NBX_OK && nbx_tensor_read(ctx, wanted, b) == NBX_OK;
    if (!good) snprintf(text, size, "cannot be read: %s", nbx_last_message(ctx));
    size_t count = 0, first = 0;
    for (size_t i = 0; good && i < bytes; i += element)
        if (memcmp(a + i, b + i, element) != 0 && count++ == 0) first = i / element;
    if (good && count) {
        good = false;
        *largest = INFINITY;
        print_place(got, first, place, sizeof place);
        snprintf(text, size, "%zu of %zu elements differ, the first at %s", count, bytes / element, place);
    }
    free(a);
    free(b);
    return good;
}

bool compare_tensors(nbx_context *ctx, const nbx_tensor *got, const nbx_tensor *wanted, double tolerance, double *largest,
                     char *text, size_t size) {
    *largest = 0;
    if (!same_facts(got, wanted)) {
        char a[512], b[512];
        print_shape(got, a, sizeof a);
        print_shape(wanted, b, sizeof b);
        *largest = INFINITY;
        snprintf(text, size, "is %s, expected %s", a, b);
        return false;
    }
    const nbx_dtype dtype = nbx_tensor_dtype(got);
    if (!is_real(dtype) && !is_complex(dtype)) return compare_bytes(ctx, got, wanted, largest, text, size);
    return compare_floats(ctx, got, wanted, tolerance < 0 ? tolerance_of(dtype) : tolerance, largest, text, size);
}

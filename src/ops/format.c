// Text of a tensor: values as nested lists, then shape, dtype and device. Long dims are shortened to three at either end.
#include "core/context.h"
#include "ops/op.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { EDGE = 3, LONG_DIM = 12 };

typedef struct writer {
    char *text;
    size_t size, length;  // length: what all of it would take
} writer;

static void put(writer *w, const char *format, ...) NBX_PRINTF(2, 3);
static void put(writer *w, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const size_t left = w->length < w->size ? w->size - w->length : 0;
    const int n = vsnprintf(left ? w->text + w->length : NULL, left, format, list);
    va_end(list);
    if (n > 0) w->length += (size_t)n;
}

static void put_real(writer *w, double x) {
    char digits[32];
    snprintf(digits, sizeof digits, "%.6g", x);
    put(w, strpbrk(digits, ".en") ? "%s" : "%s.", digits);
}

static void put_element(writer *w, nbx_dtype dtype, const void *at) {
    switch (dtype) {
    case NBX_BOOL: put(w, "%s", *(const uint8_t *)at ? "true" : "false"); return;
    case NBX_UINT8: put(w, "%u", *(const uint8_t *)at); return;
    case NBX_INT8: put(w, "%d", *(const int8_t *)at); return;
    case NBX_UINT16: put(w, "%u", *(const uint16_t *)at); return;
    case NBX_INT16: put(w, "%d", *(const int16_t *)at); return;
    case NBX_UINT32: put(w, "%" PRIu32, *(const uint32_t *)at); return;
    case NBX_INT32: put(w, "%" PRId32, *(const int32_t *)at); return;
    case NBX_UINT64: put(w, "%" PRIu64, *(const uint64_t *)at); return;
    case NBX_INT64: put(w, "%" PRId64, *(const int64_t *)at); return;
    case NBX_FLOAT64: put_real(w, *(const double *)at); return;
    case NBX_FLOAT32: put_real(w, (double)*(const float *)at); return;
    case NBX_COMPLEX64: put(w, "%.6g%+.6gi", (double)((const float *)at)[0], (double)((const float *)at)[1]); return;
    case NBX_COMPLEX128: put(w, "%.6g%+.6gi", ((const double *)at)[0], ((const double *)at)[1]); return;
    default: put_real(w, 0); return;  // narrow floats arrive as float32
    }
}

static void put_dim(writer *w, const nbx_tensor *t, int d, const char *at) {
    const size_t size = nbx_dtype_size((nbx_dtype)t->dtype);
    if (d == t->rank) {
        put_element(w, (nbx_dtype)t->dtype, at);
        return;
    }
    put(w, "[");
    for (int64_t i = 0; i < t->shape[d]; i++) {
        if (i) put(w, d + 1 < t->rank ? ",\n%*s" : ", ", d + 1, "");
        if (t->shape[d] > LONG_DIM && i == EDGE) {
            put(w, "...");
            i = t->shape[d] - EDGE - 1;
            continue;
        }
        put_dim(w, t, d + 1, at + i * t->stride[d] * (int64_t)size);
    }
    put(w, "]");
}

// The tensor on the host, row-major, float32 for what has less than 32 bits.
static const nbx_tensor *readable(nbx_context *ctx, const nbx_tensor *t) {
    const nbx_dtype dtype = (nbx_dtype)t->dtype;
    const nbx_tensor *host = nbx_tensor_to_device(ctx, t, (nbx_device){NBX_CPU, 0});
    if (host && nbx_dtype_is_float(dtype) && nbx_dtype_size(dtype) < 4) host = NBX_DO(ctx, "aten::_to_copy", T(host), nbx_of_dtype(NBX_FLOAT32));
    return host;
}

size_t nbx_tensor_format(nbx_context *ctx, const nbx_tensor *t, char *text, size_t size) {
    writer w = {text, size, 0};
    char shape[NBX_SHAPE_TEXT];
    if (size) text[0] = 0;
    if (!t) return 0;
    if (nbx_is_none(t)) {
        put(&w, "None");
        return w.length;
    }
    const nbx_scope scope = nbx_scope_open(ctx);
    const nbx_tensor *host = readable(ctx, t);
    if (host) {
        put_dim(&w, host, 0, host->numel ? nbx_data(host) : NULL);
        put(&w, "\n%s %s on %s", nbx_dtype_name((nbx_dtype)t->dtype), nbx_shape_text(t->rank, t->shape, shape, sizeof shape),
            t->storage->device.type == NBX_CPU ? "cpu" : "cuda");
        if (t->storage->device.type != NBX_CPU) put(&w, ":%d", t->storage->device.index);
    }
    nbx_scope_close(ctx, scope, NULL);
    return w.length;
}

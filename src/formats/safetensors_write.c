// Writes safetensors. Elements lie in order of falling element size, so that every tensor is aligned and can be mapped; the
// header keeps the order that was given, and says it once more under the metadata key "order".
#include "formats/tensor_set.h"

#include "core/memory.h"

#include <string.h>

typedef struct text {
    char *data;
    size_t count, capacity;
    bool failed;
} text;

static void put_bytes(text *t, const char *bytes, size_t count) {
    if (t->failed) return;
    if (t->capacity - t->count < count) {
        const size_t capacity = 2 * t->capacity + count + 256;
        char *grown = nbx_realloc(t->data, capacity);
        if (!grown) {
            t->failed = true;
            return;
        }
        t->data = grown;
        t->capacity = capacity;
    }
    memcpy(t->data + t->count, bytes, count);
    t->count += count;
}

static void put(text *t, const char *string) { put_bytes(t, string, strlen(string)); }

static void put_number(text *t, uint64_t number) {
    char digits[24];
    put_bytes(t, digits, (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)number));
}

// A JSON string; `twice` escapes it as a string inside a string.
static void put_string(text *t, const char *string, const char *ending, bool twice) {
    const char *quote = twice ? "\\\"" : "\"";
    put(t, quote);
    const char *parts[2] = {string, ending};
    for (int i = 0; i < 2; i++) {
        for (const char *c = parts[i]; *c; c++) {
            char escaped[8];
            if (*c == '"' || *c == '\\') {
                put(t, *c == '"' ? (twice ? "\\\\\\\"" : "\\\"") : (twice ? "\\\\\\\\" : "\\\\"));
            } else if ((unsigned char)*c < 0x20) {
                snprintf(escaped, sizeof escaped, "\\u%04x", *c);
                put(t, twice ? "\\" : "");
                put(t, escaped);
            } else {
                put_bytes(t, c, 1);
            }
        }
    }
    put(t, quote);
}

// safetensors has no code for complex128, and readers before 0.7 none for complex64: both are written as pairs.
static const char *ending_of(const nbx_tensor *t) {
    return t->dtype == NBX_COMPLEX64 ? "#complex64" : t->dtype == NBX_COMPLEX128 ? "#complex128" : "";
}

static void put_tensor(text *header, const nbx_to_write *w, uint64_t begin) {
    const nbx_tensor *t = w->tensor;
    const nbx_dtype part = nbx_dtype_to_real((nbx_dtype)t->dtype);
    put_string(header, w->name, ending_of(t), false);
    put(header, ":{\"dtype\":\"");
    put(header, nbx_dtype_rows[part].safetensors);
    put(header, "\",\"shape\":[");
    for (int d = 0; d < t->rank; d++) {
        if (d) put(header, ",");
        put_number(header, (uint64_t)t->shape[d]);
    }
    if (part != (nbx_dtype)t->dtype) put(header, t->rank ? ",2" : "2");
    put(header, "],\"data_offsets\":[");
    put_number(header, begin);
    put(header, ",");
    put_number(header, begin + nbx_tensor_nbytes(t));
    put(header, "]}");
}

// order[i] is the i-th tensor to lie in the file: by falling size of what must be aligned, else as given.
static void order_by_size(const nbx_to_write *list, size_t count, size_t *order) {
    size_t n = 0;
    for (size_t size = 8; size; size /= 2) {
        for (size_t i = 0; i < count; i++) {
            if (nbx_dtype_size(nbx_dtype_to_real((nbx_dtype)list[i].tensor->dtype)) == size) order[n++] = i;
        }
    }
}

static void put_header(text *header, const nbx_to_write *list, size_t count, const uint64_t *begin) {
    put(header, "{\"__metadata__\":{\"order\":\"[");
    for (size_t i = 0; i < count; i++) {
        if (i) put(header, ", ");
        put_string(header, list[i].name, ending_of(list[i].tensor), true);
    }
    put(header, "]\"}");
    for (size_t i = 0; i < count; i++) {
        put(header, ",");
        put_tensor(header, &list[i], begin[i]);
    }
    put(header, "}");
    while (header->count % 8 && !header->failed) put(header, " ");
}

static nbx_status write_all(nbx_context *ctx, FILE *file, const char *path, const nbx_to_write *list, size_t count,
                            const size_t *order, const text *header) {
    const uint64_t header_bytes = header->count;
    nbx_status status = nbx_write_bytes(ctx, file, path, &header_bytes, 8);
    if (!status) status = nbx_write_bytes(ctx, file, path, header->data, header->count);
    for (size_t i = 0; i < count && !status; i++) status = nbx_write_elements(ctx, file, path, list[order[i]].tensor);
    return status;
}

nbx_status nbx_safetensors_write(nbx_context *ctx, FILE *file, const char *path, const nbx_to_write *list, size_t count) {
    size_t *order = nbx_alloc((count + 1) * sizeof *order);
    uint64_t *begin = nbx_alloc((count + 1) * sizeof *begin);
    text header = {0};
    nbx_status status = NBX_ERROR_MEMORY;
    if (order && begin) {
        order_by_size(list, count, order);
        uint64_t at = 0;
        for (size_t i = 0; i < count; i++) {
            begin[order[i]] = at;
            at += nbx_tensor_nbytes(list[order[i]].tensor);
        }
        put_header(&header, list, count, begin);
    }
    if (!order || !begin || header.failed) nbx_fail_memory(ctx, header.capacity, path);
    else status = write_all(ctx, file, path, list, count, order, &header);
    nbx_free(header.data);
    nbx_free(begin);
    nbx_free(order);
    return status;
}

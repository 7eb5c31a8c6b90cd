// Safetensors: 8 bytes little-endian length, a JSON header, then the elements.
//   {"__metadata__": {"key": "text"}, "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
// Offsets count from the end of the header. They must fill what follows it without gap or overlap.
#include "formats/tensor_set.h"
#include "program/json.h"

#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER_BYTES = 100 * 1000 * 1000 };  // the limit of the reference implementation

typedef struct span {
    uint64_t begin, end;
} span;

typedef struct reader {
    nbx_context *ctx;
    nbx_tensors *set;
    const char *path;
    nbx_bytes *file;
    char *data;       // behind the header
    size_t data_bytes;
    span *spans;      // of the tensors read so far
    size_t count;
} reader;

static nbx_status bad(reader *r, const nbx_json_member *m, const char *problem) {
    return nbx_fail(r->ctx, NBX_ERROR_FORMAT, "%s: tensor '%.200s': %s", r->path, m->name, problem);
}

static nbx_status read_shape(reader *r, const nbx_json_member *m, nbx_placed *placed) {
    const nbx_json *shape = nbx_json_get(&m->value, "shape");
    if (!nbx_json_is(shape, NBX_JSON_ARRAY)) return bad(r, m, "shape is not a list");
    if (shape->count > NBX_FILE_RANK) return bad(r, m, "more than 255 dims");
    placed->rank = (int)shape->count;
    for (uint32_t d = 0; d < shape->count; d++) {
        placed->shape[d] = nbx_json_int_or(&shape->as.items[d], -1);
        if (placed->shape[d] < 0) return bad(r, m, "shape holds something that is no size");
    }
    return NBX_OK;
}

static nbx_status read_dtype(reader *r, const nbx_json_member *m, nbx_placed *placed) {
    const nbx_json *code = nbx_json_get(&m->value, "dtype");
    if (!nbx_json_is(code, NBX_JSON_STRING)) return bad(r, m, "dtype is not a string");
    placed->dtype = nbx_dtype_from_safetensors(code->as.string, code->count);
    if (placed->dtype != NBX_DTYPE_NONE) return NBX_OK;
    return nbx_fail(r->ctx, NBX_ERROR_UNSUPPORTED, "%s: tensor '%.200s': dtype '%.40s' is not supported", r->path, m->name,
                    code->as.string);
}

static nbx_status read_span(reader *r, const nbx_json_member *m, nbx_placed *placed) {
    const nbx_json *offsets = nbx_json_get(&m->value, "data_offsets");
    const int64_t begin = nbx_json_int_or(nbx_json_at(offsets, 0), -1), end = nbx_json_int_or(nbx_json_at(offsets, 1), -1);
    if (begin < 0 || end < begin || offsets->count != 2) return bad(r, m, "data_offsets are not a pair [begin, end]");
    if ((uint64_t)end > r->data_bytes) return bad(r, m, "data_offsets end past the end of the file");
    if (nbx_placed_bytes(placed->dtype, placed->rank, placed->shape) != end - begin) {
        return bad(r, m, "data_offsets do not span what shape and dtype need");
    }
    placed->owner = r->file;
    placed->data = r->data + begin;
    placed->bytes = (size_t)(end - begin);
    r->spans[r->count++] = (span){(uint64_t)begin, (uint64_t)end};
    return NBX_OK;
}

// "NAME#complex64" over pairs of float32 is NAME, complex64.
static void join_pairs(nbx_placed *placed) {
    static const struct {
        const char *ending;
        nbx_dtype part, whole;
    } forms[] = {{"#complex64", NBX_FLOAT32, NBX_COMPLEX64}, {"#complex128", NBX_FLOAT64, NBX_COMPLEX128}};
    for (size_t i = 0; i < 2; i++) {
        const size_t bytes = strlen(forms[i].ending);
        if (placed->name_bytes <= bytes || memcmp(placed->name + placed->name_bytes - bytes, forms[i].ending, bytes)) continue;
        if (placed->dtype != forms[i].part || !placed->rank || placed->shape[placed->rank - 1] != 2) continue;
        placed->name_bytes -= bytes;
        placed->dtype = forms[i].whole;
        placed->rank--;
        return;
    }
}

static nbx_status read_tensor(reader *r, const nbx_json_member *m) {
    if (m->value.kind != NBX_JSON_OBJECT) return bad(r, m, "not described by an object");
    nbx_placed placed;
    memset(&placed, 0, sizeof placed);
    placed.name = m->name;
    placed.name_bytes = m->name_bytes;
    nbx_status status = read_dtype(r, m, &placed);
    if (!status) status = read_shape(r, m, &placed);
    if (!status) status = read_span(r, m, &placed);
    if (status) return status;
    join_pairs(&placed);
    return nbx_tensors_add(r->ctx, r->set, r->path, &placed);
}

static nbx_status read_metadata(reader *r, const nbx_json *metadata) {
    if (metadata->kind != NBX_JSON_OBJECT) return nbx_fail(r->ctx, NBX_ERROR_FORMAT, "%s: __metadata__ is no object", r->path);
    for (uint32_t i = 0; i < metadata->count; i++) {
        const nbx_json_member *m = &metadata->as.members[i];
        if (m->value.kind != NBX_JSON_STRING) {
            return nbx_fail(r->ctx, NBX_ERROR_FORMAT, "%s: __metadata__ '%.200s' is no text", r->path, m->name);
        }
        const nbx_status status = nbx_tensors_add_metadata(r->ctx, r->set, r->path, m->name, m->value.as.string);
        if (status) return status;
    }
    return NBX_OK;
}

static int by_place(const void *a, const void *b) {
    const span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static nbx_status check_spans(reader *r) {
    if (r->count) qsort(r->spans, r->count, sizeof *r->spans, by_place);
    uint64_t at = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (r->spans[i].begin != at) {
            return nbx_fail(r->ctx, NBX_ERROR_FORMAT, "%s: tensors %s at byte %llu of the data", r->path,
                            r->spans[i].begin < at ? "overlap" : "leave a gap", (unsigned long long)at);
        }
        at = r->spans[i].end;
    }
    if (at == r->data_bytes) return NBX_OK;
    return nbx_fail(r->ctx, NBX_ERROR_FORMAT, "%s: %llu bytes behind the last tensor", r->path,
                    (unsigned long long)(r->data_bytes - at));
}

static nbx_status read_header(reader *r, const nbx_json *header) {
    if (header->kind != NBX_JSON_OBJECT) return nbx_fail(r->ctx, NBX_ERROR_FORMAT, "%s: the header is no object", r->path);
    r->spans = nbx_alloc((header->count + 1) * sizeof *r->spans);
    if (!r->spans) return nbx_fail_memory(r->ctx, header->count * sizeof *r->spans, r->path);
    nbx_status status = NBX_OK;
    for (uint32_t i = 0; i < header->count && !status; i++) {
        const nbx_json_member *m = &header->as.members[i];
        status = strcmp(m->name, "__metadata__") ? read_tensor(r, m) : read_metadata(r, &m->value);
    }
    if (!status) status = check_spans(r);
    nbx_free(r->spans);
    return status;
}

nbx_status nbx_safetensors_read(nbx_context *ctx, nbx_tensors *set, const char *path, nbx_bytes *file) {
    uint64_t header_bytes = 0;
    if (file->count < 8) return nbx_fail(ctx, NBX_ERROR_FORMAT, "%s: too short for a safetensors file", path);
    memcpy(&header_bytes, file->data, 8);
    if (header_bytes > MAX_HEADER_BYTES || header_bytes > file->count - 8 || header_bytes < 2 || file->data[8] != '{') {
        return nbx_fail(ctx, NBX_ERROR_FORMAT, "%s: neither safetensors nor npz nor npy", path);
    }
    nbx_json_document *document = nbx_json_create(ctx, path, file->data + 8, (size_t)header_bytes);
    if (!document) return nbx_last_status(ctx);
    reader r = {.ctx = ctx, .set = set, .path = path, .file = file};
    r.data = file->data + 8 + header_bytes;
    r.data_bytes = file->count - 8 - (size_t)header_bytes;
    const nbx_status status = read_header(&r, nbx_json_root(document));
    nbx_json_destroy(document);
    return status;
}

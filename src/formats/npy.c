// NumPy's .npy: "\x93NUMPY", version, length of the header, the header (a Python dict), the elements.
//   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
#include "formats/tensor_set.h"

#include <string.h>

typedef struct header {
    const char *descr;
    size_t descr_bytes;
    bool has_descr, has_order, has_shape;
    nbx_placed placed;
} header;

typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_space(cursor *c) {
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r')) c->at++;
}

static bool take(cursor *c, char expected) {
    skip_space(c);
    if (c->at >= c->end || *c->at != expected) return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word) {
    skip_space(c);
    const size_t bytes = strlen(word);
    if ((size_t)(c->end - c->at) < bytes || memcmp(c->at, word, bytes)) return false;
    c->at += bytes;
    return true;
}

static bool take_quoted(cursor *c, const char **string, size_t *bytes) {
    skip_space(c);
    if (c->at >= c->end || (*c->at != '\'' && *c->at != '"')) return false;
    const char quote = *c->at++;
    const char *stop = memchr(c->at, quote, (size_t)(c->end - c->at));
    if (!stop) return false;
    *string = c->at;
    *bytes = (size_t)(stop - c->at);
    c->at = stop + 1;
    return true;
}

static bool take_size(cursor *c, int64_t *size) {
    skip_space(c);
    const char *start = c->at;
    int64_t value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (value > (INT64_MAX - 9) / 10) return false;
        value = value * 10 + (*c->at - '0');
    }
    if (c->at == start) return false;
    if (c->at < c->end && *c->at == 'L') c->at++;  // written by Python 2
    *size = value;
    return true;
}

static bool take_shape(cursor *c, nbx_placed *placed) {
    if (!take(c, '(')) return false;
    while (!take(c, ')')) {
        if (placed->rank == NBX_FILE_RANK || !take_size(c, &placed->shape[placed->rank])) return false;
        placed->rank++;
        if (take(c, ',')) continue;
        return take(c, ')');
    }
    return true;
}

static bool take_item(cursor *c, header *h) {
    const char *key;
    size_t bytes;
    if (!take_quoted(c, &key, &bytes) || !take(c, ':')) return false;
    if (bytes == 5 && !memcmp(key, "descr", 5) && !h->has_descr) {
        h->has_descr = true;
        return take_quoted(c, &h->descr, &h->descr_bytes);
    }
    if (bytes == 13 && !memcmp(key, "fortran_order", 13) && !h->has_order) {
        h->has_order = true;
        h->placed.fortran = take_word(c, "True");
        return h->placed.fortran || take_word(c, "False");
    }
    if (bytes == 5 && !memcmp(key, "shape", 5) && !h->has_shape) {
        h->has_shape = true;
        return take_shape(c, &h->placed);
    }
    return false;
}

static bool parse_header(cursor c, header *h) {
    if (!take(&c, '{')) return false;
    while (!take(&c, '}')) {
        if (!take_item(&c, h)) return false;
        if (take(&c, ',')) continue;
        if (!take(&c, '}')) return false;
        break;
    }
    skip_space(&c);
    return c.at == c.end && h->has_descr && h->has_order && h->has_shape;
}

// '>' asks for reversed bytes; one-byte types may carry any mark. numpy has no bfloat16: extensions write it as two plain bytes.
static void parse_descr(header *h) {
    char code[8] = {0};
    if (h->descr_bytes < 2 || h->descr_bytes >= sizeof code) {
        h->placed.dtype = NBX_DTYPE_NONE;
        return;
    }
    memcpy(code, h->descr, h->descr_bytes);
    h->placed.swapped = code[0] == '>';
    if (code[0] == '>' || code[0] == '=') code[0] = '<';
    if (!strcmp(code + 2, "1")) code[0] = '|';
    else if (code[0] == '|') code[0] = '<';
    h->placed.dtype = !strcmp(code, "<V2") ? NBX_BFLOAT16 : nbx_dtype_from_numpy(code, h->descr_bytes);
}

static nbx_status fail(nbx_context *ctx, const char *path, const char *name, size_t bytes, const char *problem) {
    return nbx_fail(ctx, NBX_ERROR_FORMAT, "%s: array '%.*s': %s", path, (int)bytes, name, problem);
}

nbx_status nbx_npy_read(nbx_context *ctx, nbx_tensors *set, const char *path, const char *name, size_t name_bytes,
                        nbx_bytes *owner, char *data, size_t bytes) {
    if (bytes < 10 || memcmp(data, "\x93NUMPY", 6)) return fail(ctx, path, name, name_bytes, "not in npy format");
    const int major = data[6];
    const size_t start = major == 1 ? 10 : 12;
    uint32_t header_bytes = 0;
    if (major < 1 || major > 3) return fail(ctx, path, name, name_bytes, "npy versions 1 to 3 are known");
    if (bytes < start) return fail(ctx, path, name, name_bytes, "the header is cut off");
    memcpy(&header_bytes, data + 8, start - 8);
    if (header_bytes > bytes - start) return fail(ctx, path, name, name_bytes, "the header is cut off");

    header h;
    memset(&h, 0, sizeof h);
    if (!parse_header((cursor){data + start, data + start + header_bytes}, &h)) {
        return fail(ctx, path, name, name_bytes, "the header is not a dict of descr, fortran_order and shape for plain elements");
    }
    parse_descr(&h);
    if (h.placed.dtype == NBX_DTYPE_NONE) {
        return nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s: array '%.*s': element type '%.*s' is not supported", path,
                        (int)name_bytes, name, h.descr_bytes > 40 ? 40 : (int)h.descr_bytes, h.descr);
    }
    const int64_t needed = nbx_placed_bytes(h.placed.dtype, h.placed.rank, h.placed.shape);
    if (needed < 0 || (uint64_t)needed > bytes - start - header_bytes) {
        return fail(ctx, path, name, name_bytes, "fewer elements than the shape says");
    }
    h.placed.name = name;
    h.placed.name_bytes = name_bytes;
    h.placed.owner = owner;
    h.placed.data = data + start + header_bytes;
    h.placed.bytes = (size_t)needed;
    return nbx_tensors_add(ctx, set, path, &h.placed);
}

size_t nbx_npy_header(const nbx_tensor *t, char *text) {
    char dict[NBX_NPY_HEADER_BYTES - 80];
    size_t n = (size_t)snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                                nbx_dtype_rows[t->dtype].numpy);
    for (int d = 0; d < t->rank; d++) {
        n += (size_t)snprintf(dict + n, sizeof dict - n, d ? " %lld," : "%lld,", (long long)t->shape[d]);
    }
    if (t->rank > 1) n--;  // (2, 3) but (2,)
    n += (size_t)snprintf(dict + n, sizeof dict - n, "), }");
    const size_t total = (10 + n + 1 + 63) / 64 * 64;
    const uint16_t header_bytes = (uint16_t)(total - 10);
    memcpy(text, "\x93NUMPY\1\0", 8);
    memcpy(text + 8, &header_bytes, 2);
    memcpy(text + 10, dict, n);
    memset(text + 10 + n, ' ', total - 10 - n);
    text[total - 1] = '\n';
    return total;
}

nbx_status nbx_npy_write(nbx_context *ctx, FILE *file, const char *path, const nbx_tensor *t) {
    char text[NBX_NPY_HEADER_BYTES];
    const nbx_status status = nbx_write_bytes(ctx, file, path, text, nbx_npy_header(t, text));
    return status ? status : nbx_write_elements(ctx, file, path, t);
}

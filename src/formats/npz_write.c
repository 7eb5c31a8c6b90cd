// Writes .npz: a ZIP archive of stored .npy members. Every member carries the ZIP64 fields, so that size needs no second
// thought, and its data begin at a multiple of 64, so that they can be mapped.
#include "formats/tensor_set.h"

#include "core/memory.h"

#include <string.h>

typedef struct member {
    uint64_t at, bytes;  // of the local header; of the npy file
    uint32_t crc;
} member;

typedef struct writer {
    nbx_context *ctx;
    FILE *file;
    const char *path;
    uint64_t at;
    nbx_status status;
} writer;

static void put(writer *w, const void *bytes, size_t count) {
    if (w->status) return;
    w->status = nbx_write_bytes(w->ctx, w->file, w->path, bytes, count);
    w->at += count;
}

static void put_number(writer *w, uint64_t number, size_t bytes) { put(w, &number, bytes); }

// CRC-32 over several pieces, a byte at a time: 16 entries suffice and stay in the cache.
static uint32_t crc_add(uint32_t crc, const void *data, size_t count) {
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const unsigned char *at = data;
    crc = ~crc;
    for (size_t i = 0; i < count; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static nbx_status add_to_crc(nbx_context *ctx, void *arg, const void *bytes, size_t count) {
    (void)ctx;
    *(uint32_t *)arg = crc_add(*(uint32_t *)arg, bytes, count);
    return NBX_OK;
}

enum { LOCAL_BYTES = 30, LOCAL_EXTRA_BYTES = 20, CENTRAL_EXTRA_BYTES = 28, VERSION_ZIP64 = 45, UTF8_NAME = 0x800, DATE_1980 = 0x21 };

// The fields that a local and a central header share, from the version needed to the lengths of name and extra.
static void put_shared(writer *w, const member *m, size_t name_bytes, size_t extra_bytes) {
    put_number(w, VERSION_ZIP64, 2);
    put_number(w, UTF8_NAME, 2);
    put_number(w, 0, 2);  // stored
    put_number(w, 0, 2);  // 0:00
    put_number(w, DATE_1980, 2);
    put_number(w, m->crc, 4);
    put_number(w, 0xffffffff, 4);  // both sizes are in the ZIP64 field
    put_number(w, 0xffffffff, 4);
    put_number(w, name_bytes, 2);
    put_number(w, extra_bytes, 2);
}

static void put_name(writer *w, const char *name) {
    put(w, name, strlen(name));
    put(w, ".npy", 4);
}

static void put_member(writer *w, const nbx_to_write *item, member *m) {
    char header[NBX_NPY_HEADER_BYTES];
    const size_t header_bytes = nbx_npy_header(item->tensor, header), name_bytes = strlen(item->name) + 4;
    m->at = w->at;
    m->bytes = header_bytes + nbx_tensor_nbytes(item->tensor);
    m->crc = crc_add(0, header, header_bytes);
    if (!w->status) w->status = nbx_read_elements(w->ctx, item->tensor, add_to_crc, &m->crc);
    // An extra field of private kind pads the data to 64 bytes; npy headers are multiples of 64.
    const size_t start = (size_t)(w->at + LOCAL_BYTES + name_bytes + LOCAL_EXTRA_BYTES + 4);
    const size_t padding = (64 - start % 64) % 64;
    put(w, "PK\3\4", 4);
    put_shared(w, m, name_bytes, LOCAL_EXTRA_BYTES + 4 + padding);
    put_name(w, item->name);
    put_number(w, 1, 2);
    put_number(w, 16, 2);
    put_number(w, m->bytes, 8);
    put_number(w, m->bytes, 8);
    put_number(w, 0x4e42, 2);
    put_number(w, padding, 2);
    put(w, (const char[64]){0}, padding);
    put(w, header, header_bytes);
    if (w->status) return;
    w->status = nbx_write_elements(w->ctx, w->file, w->path, item->tensor);
    w->at += nbx_tensor_nbytes(item->tensor);
}

static void put_central(writer *w, const nbx_to_write *item, const member *m) {
    put(w, "PK\1\2", 4);
    put_number(w, VERSION_ZIP64, 2);
    put_shared(w, m, strlen(item->name) + 4, CENTRAL_EXTRA_BYTES);
    put_number(w, 0, 2);  // comment
    put_number(w, 0, 2);  // disk
    put_number(w, 0, 2);  // attributes
    put_number(w, 0, 4);
    put_number(w, 0xffffffff, 4);  // the place is in the ZIP64 field
    put_name(w, item->name);
    put_number(w, 1, 2);
    put_number(w, 24, 2);
    put_number(w, m->bytes, 8);
    put_number(w, m->bytes, 8);
    put_number(w, m->at, 8);
}

static void put_end(writer *w, size_t count, uint64_t directory) {
    const uint64_t end = w->at, bytes = end - directory;
    put(w, "PK\6\6", 4);
    put_number(w, 44, 8);
    put_number(w, VERSION_ZIP64, 2);
    put_number(w, VERSION_ZIP64, 2);
    put_number(w, 0, 4);
    put_number(w, 0, 4);
    put_number(w, count, 8);
    put_number(w, count, 8);
    put_number(w, bytes, 8);
    put_number(w, directory, 8);
    put(w, "PK\6\7", 4);
    put_number(w, 0, 4);
    put_number(w, end, 8);
    put_number(w, 1, 4);
    put(w, "PK\5\6", 4);
    put_number(w, 0, 4);
    put_number(w, count < 0xffff ? count : 0xffff, 2);
    put_number(w, count < 0xffff ? count : 0xffff, 2);
    put_number(w, bytes < 0xffffffff ? bytes : 0xffffffff, 4);
    put_number(w, directory < 0xffffffff ? directory : 0xffffffff, 4);
    put_number(w, 0, 2);
}

nbx_status nbx_npz_write(nbx_context *ctx, FILE *file, const char *path, const nbx_to_write *list, size_t count) {
    member *members = nbx_alloc_zero((count + 1) * sizeof *members);
    if (!members) return nbx_fail_memory(ctx, count * sizeof *members, path);
    writer w = {.ctx = ctx, .file = file, .path = path};
    for (size_t i = 0; i < count; i++) {
        if (strlen(list[i].name) > 60000) w.status = nbx_fail(ctx, NBX_ERROR_ARGUMENT, "%s: a name of %zu bytes", path, strlen(list[i].name));
        if (!w.status) put_member(&w, &list[i], &members[i]);
    }
    const uint64_t directory = w.at;
    for (size_t i = 0; i < count; i++) put_central(&w, &list[i], &members[i]);
    put_end(&w, count, directory);
    nbx_free(members);
    return w.status;
}

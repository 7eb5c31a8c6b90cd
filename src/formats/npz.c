// NumPy's .npz: a ZIP archive of .npy members. Stored members stay where they are; deflated ones (savez_compressed) are
// unpacked with zlib, by their declared size, which must be what comes out.
#include "formats/tensor_set.h"
#include "program/zip.h"

#include "core/memory.h"

#include <string.h>

#ifdef NBX_HAVE_ZLIB
#include <zlib.h>

static bool inflate_all(const nbx_zip_entry *entry, char *to) {
    z_stream z;
    memset(&z, 0, sizeof z);
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) return false;
    uint64_t in_left = entry->stored_bytes, out_left = entry->bytes;
    const uint64_t most = 1u << 30;  // zlib counts in 32 bits
    z.next_in = (Bytef *)(uintptr_t)entry->data;
    z.next_out = (Bytef *)to;
    int state = Z_OK;
    while (state == Z_OK) {
        if (!z.avail_in) z.avail_in = (uInt)(in_left < most ? in_left : most), in_left -= z.avail_in;
        if (!z.avail_out) z.avail_out = (uInt)(out_left < most ? out_left : most), out_left -= z.avail_out;
        state = inflate(&z, Z_NO_FLUSH);
    }
    inflateEnd(&z);
    return state == Z_STREAM_END && !z.avail_out && !out_left;
}

static nbx_bytes *unpack(nbx_context *ctx, const char *path, const nbx_zip_entry *entry) {
    // Deflate packs at most 1032 to 1: a larger claim is a lie that would only cost memory.
    if (entry->bytes / 1032 > entry->stored_bytes + 64) {
        nbx_fail(ctx, NBX_ERROR_FORMAT, "%s: '%.200s' claims to unpack to %llu bytes", path, entry->name, (unsigned long long)entry->bytes);
        return NULL;
    }
    nbx_bytes *bytes = nbx_bytes_create(ctx, (size_t)entry->bytes, path);
    if (!bytes) return NULL;
    if (inflate_all(entry, bytes->data) && nbx_crc32(bytes->data, bytes->count) == entry->crc) return bytes;
    nbx_fail(ctx, NBX_ERROR_FORMAT, "%s: '%.200s' is damaged", path, entry->name);
    nbx_bytes_release(bytes);
    return NULL;
}
#else
static nbx_bytes *unpack(nbx_context *ctx, const char *path, const nbx_zip_entry *entry) {
    nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s: '%.200s' is compressed, and this build has no zlib", path, entry->name);
    return NULL;
}
#endif

static nbx_status read_member(nbx_context *ctx, nbx_tensors *set, const char *path, nbx_bytes *file, const nbx_zip_entry *entry) {
    size_t name_bytes = strlen(entry->name);
    if (name_bytes > 4 && !strcmp(entry->name + name_bytes - 4, ".npy")) name_bytes -= 4;
    if (entry->method == 0) {
        char *data = file->data + ((const char *)entry->data - file->data);
        return nbx_npy_read(ctx, set, path, entry->name, name_bytes, file, entry->data ? data : file->data, (size_t)entry->bytes);
    }
    if (entry->method != 8) {
        return nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s: '%.200s' is packed by method %u", path, entry->name, entry->method);
    }
    nbx_bytes *bytes = unpack(ctx, path, entry);
    if (!bytes) return nbx_last_status(ctx);
    const nbx_status status = nbx_npy_read(ctx, set, path, entry->name, name_bytes, bytes, bytes->data, bytes->count);
    nbx_bytes_release(bytes);
    return status;
}

nbx_status nbx_npz_read(nbx_context *ctx, nbx_tensors *set, const char *path, nbx_bytes *file) {
    nbx_zip *zip = nbx_zip_open(ctx, path, file->data, file->count);
    if (!zip) return nbx_last_status(ctx);
    nbx_status status = NBX_OK;
    for (size_t i = 0; i < nbx_zip_count(zip) && !status; i++) status = read_member(ctx, set, path, file, nbx_zip_at(zip, i));
    nbx_zip_close(zip);
    return status;
}

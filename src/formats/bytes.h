// Bytes with shared ownership: a mapped file, or a block of memory. Tensors that lie in them hold a reference each.
#ifndef NBX_FORMATS_BYTES_H
#define NBX_FORMATS_BYTES_H

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nbx_bytes {
    int refs;     // atomic
    bool mapped, borrowed;
    size_t count;
    char *data;   // 64-byte aligned; NULL when count is 0
} nbx_bytes;

// Maps a whole file, privately: what is written to the memory stays in this process. NULL: fails ctx (IO or MEMORY).
nbx_bytes *nbx_bytes_map(nbx_context *ctx, const char *path);
// Uninitialised memory. NULL: fails ctx, naming what it was for.
nbx_bytes *nbx_bytes_create(nbx_context *ctx, size_t count, const char *what);
// Memory that somebody else frees, after the last reference is gone.
nbx_bytes *nbx_bytes_borrow(nbx_context *ctx, const void *data, size_t count);
// Gives the pages of a mapped file that were read so far back to the page cache; the next read maps them again. What was written
// to the memory would be lost: to be called before anybody may write.
void nbx_bytes_rest(nbx_bytes *bytes);
// The same of the whole pages of a part.
void nbx_bytes_rest_part(nbx_bytes *bytes, const void *data, size_t count);
nbx_bytes *nbx_bytes_retain(nbx_bytes *bytes);
void nbx_bytes_release(nbx_bytes *bytes);  // NULL is fine

#ifdef __cplusplus
}
#endif
#endif

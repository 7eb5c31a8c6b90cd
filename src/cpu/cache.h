// The size of the caches.
#ifndef NBX_CPU_CACHE_H
#define NBX_CPU_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Would so many bytes of results push out of the last cache what is in it, and be gone before they are read again?
bool nbx_past_caches(int64_t bytes);
// memcpy of so many: the lines that are written are not read first. For files that are compiled once; see stream_simd.h.
void nbx_copy_past_caches(void *to, const void *from, size_t bytes);
// The same in pieces: nbx_stream_end() after the last one, before another thread is told.
void nbx_stream_bytes(void *to, const void *from, size_t bytes);
void nbx_stream_end(void);

// Tiles are short: reads of the next one start while this one is written (the sum of two float32 tensors: 14 ms in tiles of
// 4 KB, 10 in tiles of 1 KB, 9.4 with no tile, on one Zen 4 core).
#define NBX_STREAM_TILE 1024

#ifdef __cplusplus
}
#endif
#endif

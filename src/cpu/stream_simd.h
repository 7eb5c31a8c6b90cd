// Results larger than the caches go past them: a plain store first reads the line it is to fill. (On 2 cores of a Zen 4
// 86 against 49 GB/s in copies, read and written.) Kernels fill a tile in the first cache and stream it out.
#ifndef NBX_CPU_STREAM_SIMD_H
#define NBX_CPU_STREAM_SIMD_H

#include "cpu/cache.h"
#include "cpu/simd.h"

// memcpy past the caches. Ends of lines that others may share are stored plainly. v_stream_end() after the last one.
SIMD_INLINE void stream_bytes(void *to, const void *from, size_t bytes)
{
    char *y = to;
    const char *x = from;
    const size_t head = (size_t)(-(uintptr_t)y & 63);
    if (bytes < head + 64) {
        memcpy(y, x, bytes);
        return;
    }
    memcpy(y, x, head);
    size_t i = head;
    for (; i + 64 <= bytes; i += 64) v_stream((float *)(void *)(y + i), v_load((const float *)(const void *)(x + i)));
    memcpy(y + i, x + i, bytes - i);
}

#endif

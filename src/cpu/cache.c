// The size of the caches: what the system says of the last one, within reason (some servers say the sum of many).
#include "cpu/cache.h"

#include <string.h>
#include <unistd.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { LEAST = 8 << 20, MOST = 64 << 20, UNKNOWN = 32 << 20 };

static int64_t last_cache_bytes(void)
{
#if defined(_SC_LEVEL3_CACHE_SIZE)
    const int64_t bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes <= 0 ? UNKNOWN : bytes < LEAST ? LEAST : bytes > MOST ? MOST : bytes;
#else
    return UNKNOWN;
#endif
}

bool nbx_past_caches(int64_t bytes)
{
    static int64_t known;
    int64_t cache = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (cache == 0) {
        cache = last_cache_bytes();
        __atomic_store_n(&known, cache, __ATOMIC_RELAXED);
    }
    return bytes > cache / 4 * 3;
}

#if defined(__SSE2__)
void nbx_stream_bytes(void *to, const void *from, size_t bytes)
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
    for (; i + 64 <= bytes; i += 64)
        for (size_t k = 0; k < 64; k += 16)
            _mm_stream_si128((__m128i *)(void *)(y + i + k), _mm_loadu_si128((const __m128i *)(const void *)(x + i + k)));
    memcpy(y + i, x + i, bytes - i);
}
void nbx_stream_end(void) { _mm_sfence(); }
#else
void nbx_stream_bytes(void *to, const void *from, size_t bytes) { memcpy(to, from, bytes); }
void nbx_stream_end(void) {}
#endif

void nbx_copy_past_caches(void *to, const void *from, size_t bytes)
{
    nbx_stream_bytes(to, from, bytes);
    nbx_stream_end();
}

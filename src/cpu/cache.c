// The size of the caches: what the system says of the last one, within reason (some servers say the sum of many).
#include "cpu/cache.h"

#include <unistd.h>

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

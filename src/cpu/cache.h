// The size of the caches.
#ifndef NBX_CPU_CACHE_H
#define NBX_CPU_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Would so many bytes of results push out of the last cache what is in it, and be gone before they are read again?
bool nbx_past_caches(int64_t bytes);

#ifdef __cplusplus
}
#endif
#endif

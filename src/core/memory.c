// The allocation seam. malloc's alignment does for descriptors and lists, and its fast path is three times as fast as
// aligned_alloc's (an eager operator: 333 -> 200 ns); tensors ask for 64 bytes, a cache line and the widest vector. One free
// serves all.
#include "core/memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static atomic_long allowed = -1; // successful allocations left before one fails; below 0: no limit
static atomic_long alive;

void nbx_alloc_fail_after(long count) { atomic_store(&allowed, count); }
long nbx_alloc_count(void) { return atomic_load(&alive); }

// Whether the next allocation may be made. The one that finds 0 fails and lifts the limit.
static int permitted(void)
{
    long left = atomic_load_explicit(&allowed, memory_order_relaxed);
    while (left >= 0) {
        if (atomic_compare_exchange_weak(&allowed, &left, left - 1)) return left > 0;
    }
    return 1;
}

static void *counted(void *p)
{
    if (p != NULL) atomic_fetch_add_explicit(&alive, 1, memory_order_relaxed);
    return p;
}

void *nbx_alloc_aligned(size_t alignment, size_t bytes)
{
    if (alignment < 64) alignment = 64;
    if (bytes > SIZE_MAX / 2 || !permitted()) return NULL;
    return counted(aligned_alloc(alignment, bytes == 0 ? alignment : (bytes + alignment - 1) / alignment * alignment));
}

void *nbx_alloc(size_t bytes)
{
    if (bytes > SIZE_MAX / 2 || !permitted()) return NULL;
    return counted(malloc(bytes == 0 ? 1 : bytes));
}

void *nbx_alloc_zero(size_t bytes)
{
    if (bytes > SIZE_MAX / 2 || !permitted()) return NULL;
    return counted(calloc(1, bytes == 0 ? 1 : bytes));
}

void *nbx_realloc(void *p, size_t bytes)
{
    if (p == NULL) return nbx_alloc(bytes);
    if (bytes > SIZE_MAX / 2 || !permitted()) return NULL;
    return realloc(p, bytes == 0 ? 1 : bytes);
}

void nbx_free(void *p)
{
    if (p == NULL) return;
    atomic_fetch_sub_explicit(&alive, 1, memory_order_relaxed);
    free(p);
}

char *nbx_strdup(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = nbx_alloc(bytes);
    if (copy != NULL) memcpy(copy, text, bytes);
    return copy;
}

// The one seam every allocation of the library passes. A test can make the n-th one fail.
#ifndef NBX_CORE_MEMORY_H
#define NBX_CORE_MEMORY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void *nbx_alloc(size_t bytes);       // aligned as malloc aligns; NULL when the system or a test says so; bytes 0 gives a valid pointer
void *nbx_alloc_zero(size_t bytes);
void *nbx_realloc(void *p, size_t bytes);
void *nbx_alloc_aligned(size_t alignment, size_t bytes);  // at least 64; freed by nbx_free, too
void nbx_free(void *p);              // NULL is fine
char *nbx_strdup(const char *text);

// Number of successful allocations that may still happen before one fails (-1: never fails), and allocations alive now.
void nbx_alloc_fail_after(long count);
long nbx_alloc_count(void);

#ifdef __cplusplus
}
#endif
#endif

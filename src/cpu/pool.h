// A thread pool for parallel loops over a range. The caller takes part, so a pool of n threads starts n - 1 workers.
#ifndef NBX_CPU_POOL_H
#define NBX_CPU_POOL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nbx_pool nbx_pool;

// threads <= 0 means nbx_cpu_count(). NULL when memory is full. When the system refuses some threads, the pool is smaller.
nbx_pool *nbx_pool_create(int threads);

// Waits for the workers to end. No loop may be running. NULL is fine.
void nbx_pool_destroy(nbx_pool *pool);

// How many threads take part, the caller included; 1 for NULL. Thread numbers given to a body are below this.
int nbx_pool_threads(const nbx_pool *pool);

// Calls body(arg, begin, end, thread) for ranges that together cover 0 <= i < count once each, and returns when all are
// done. Every begin is a multiple of grain, and a range is at least grain long unless it is the last, so grain says how
// much work is worth handing over (about 4 us). No two calls with the same thread number overlap in time.
// With one thread, a NULL pool, count <= grain, inside another loop of this pool, or while another thread runs a loop on
// it, the caller does everything alone, as thread 0. Which thread does which range varies from run to run.
void nbx_parallel_for(nbx_pool *pool, int64_t count, int64_t grain,
                      void (*body)(void *arg, int64_t begin, int64_t end, int thread), void *arg);

// Processors this process may use: the affinity mask, limited by the cgroup quota (v1 or v2) rounded up. At least 1.
int nbx_cpu_count(void);

#ifdef __cplusplus
}
#endif
#endif

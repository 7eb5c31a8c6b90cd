// The thread pool. A loop is published by one store to a word that workers watch: generation, an open bit and the number
// of workers inside. A worker enters by compare-and-swap while the loop is open; the caller works, closes it and waits for
// those inside to leave. A worker that sleeps through a whole loop costs nothing: the caller never waits for one that has
// not entered. Workers spin for 60 us after a loop, which spans the gaps between operators, then sleep (waking takes 35 us).
//
// Each thread owns a contiguous part of the range, taken piece by piece; who has finished takes pieces of the others.
#include "cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "core/memory.h"

#define SPIN_NANOSECONDS 60000
#define LINE 128                 // two lines: the prefetcher fetches them in pairs
#define PIECES_PER_THREAD 4      // balance against the cost of taking a piece, some 20 ns

#define OPEN ((uint64_t)1 << 31)
#define INSIDE_MASK (OPEN - 1)
#define NEXT_GENERATION ((uint64_t)1 << 32)

struct part {
    _Alignas(LINE) atomic_int_fast64_t next; // in grains
    int64_t end;
};

struct worker {
    _Alignas(LINE) nbx_pool *pool;
    int thread;
    atomic_bool asleep;
    pthread_t id;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

struct nbx_pool {
    _Alignas(LINE) atomic_uint_fast64_t word; // generation << 32 | OPEN | workers inside
    _Alignas(LINE) atomic_bool owned;         // a loop is running
    atomic_bool stop;
    atomic_int forks;                         // the value of process_forks for which the workers exist
    int threads;

    // the loop, written by the owner before it opens
    _Alignas(LINE) void (*body)(void *arg, int64_t begin, int64_t end, int thread);
    void *arg;
    int64_t count, grain, step; // step: grains per piece
    int taking_part;

    struct part *parts;     // [threads]
    struct worker *workers; // [threads], 0 unused
};

static atomic_int process_forks;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void count_fork(void) { atomic_fetch_add(&process_forks, 1); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, count_fork); }

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Works through the own part, then through what is left of the others.
static void take_part(nbx_pool *pool, int thread)
{
    const int parts = pool->taking_part;
    for (int i = 0; i < parts; i++) {
        struct part *part = &pool->parts[(thread + i) % parts];
        for (;;) {
            if (atomic_load_explicit(&part->next, memory_order_relaxed) >= part->end) break;
            const int64_t first = atomic_fetch_add_explicit(&part->next, pool->step, memory_order_relaxed);
            if (first >= part->end) break;
            const int64_t last = first + pool->step < part->end ? first + pool->step : part->end;
            const int64_t end = last * pool->grain < pool->count ? last * pool->grain : pool->count;
            pool->body(pool->arg, first * pool->grain, end, thread);
        }
    }
}

// Spins until the word shows a generation other than seen, then until SPIN_NANOSECONDS have passed sleeps.
static uint64_t await_loop(struct worker *self, uint64_t seen)
{
    nbx_pool *pool = self->pool;
    const int64_t start = now();
    for (unsigned spins = 1;; spins++) {
        const uint64_t word = atomic_load_explicit(&pool->word, memory_order_acquire);
        if (word / NEXT_GENERATION != seen) return word;
        pause_briefly();
        if (spins % 64 == 0 && now() - start > SPIN_NANOSECONDS) break;
    }
    pthread_mutex_lock(&self->lock);
    atomic_store(&self->asleep, true);
    while (atomic_load(&pool->word) / NEXT_GENERATION == seen) pthread_cond_wait(&self->wake, &self->lock);
    atomic_store(&self->asleep, false);
    pthread_mutex_unlock(&self->lock);
    return atomic_load(&pool->word);
}

static void *work(void *arg)
{
    struct worker *self = arg;
    nbx_pool *pool = self->pool;
    uint64_t seen = 0;
    while (!atomic_load(&pool->stop)) {
        uint64_t word = await_loop(self, seen);
        seen = word / NEXT_GENERATION;
        while ((word & OPEN) && word / NEXT_GENERATION == seen) {
            if (!atomic_compare_exchange_weak(&pool->word, &word, word + 1)) continue;
            if (self->thread < pool->taking_part) take_part(pool, self->thread);
            atomic_fetch_sub(&pool->word, 1);
            break;
        }
    }
    return NULL;
}

static void wake(struct worker *worker)
{
    if (!atomic_load(&worker->asleep)) return;
    pthread_mutex_lock(&worker->lock);
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
}

// Starts workers 1 .. threads - 1, with all signals blocked so that the program's handlers run on its own threads.
static void start_workers(nbx_pool *pool)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (int i = 1; i < pool->threads; i++) {
        struct worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->thread = i;
        atomic_init(&worker->asleep, false);
        pthread_mutex_init(&worker->lock, NULL);
        pthread_cond_init(&worker->wake, NULL);
        if (pthread_create(&worker->id, NULL, work, worker) != 0) pool->threads = i;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

nbx_pool *nbx_pool_create(int threads)
{
    if (threads <= 0) threads = nbx_cpu_count();
    pthread_once(&fork_once, watch_forks);
    nbx_pool *pool = nbx_alloc_aligned(LINE, sizeof *pool);
    struct part *parts = nbx_alloc_aligned(LINE, sizeof *parts * (size_t)threads);
    struct worker *workers = nbx_alloc_aligned(LINE, sizeof *workers * (size_t)threads);
    if (pool == NULL || parts == NULL || workers == NULL) {
        nbx_free(workers);
        nbx_free(parts);
        nbx_free(pool);
        return NULL;
    }
    *pool = (nbx_pool){.threads = threads, .parts = parts, .workers = workers};
    atomic_store(&pool->forks, atomic_load(&process_forks));
    start_workers(pool);
    return pool;
}

void nbx_pool_destroy(nbx_pool *pool)
{
    if (pool == NULL) return;
    if (atomic_load(&pool->forks) == atomic_load(&process_forks)) {
        atomic_store(&pool->stop, true);
        atomic_fetch_add(&pool->word, NEXT_GENERATION);
        for (int i = 1; i < pool->threads; i++) wake(&pool->workers[i]);
        for (int i = 1; i < pool->threads; i++) {
            pthread_join(pool->workers[i].id, NULL);
            pthread_cond_destroy(&pool->workers[i].wake);
            pthread_mutex_destroy(&pool->workers[i].lock);
        }
    }
    nbx_free(pool->workers);
    nbx_free(pool->parts);
    nbx_free(pool);
}

int nbx_pool_threads(const nbx_pool *pool) { return pool == NULL ? 1 : pool->threads; }

// A fork leaves the child without workers and maybe in the middle of a loop: begin anew. One thread does it, and those
// that come meanwhile work alone.
static bool workers_exist(nbx_pool *pool)
{
    int known = atomic_load(&pool->forks);
    const int forks = atomic_load(&process_forks);
    if (known == forks) return true;
    if (known == -1 || !atomic_compare_exchange_strong(&pool->forks, &known, -1)) return false;
    atomic_store(&pool->word, 0);
    atomic_store(&pool->owned, false);
    start_workers(pool);
    atomic_store(&pool->forks, forks);
    return true;
}

static void run_loop(nbx_pool *pool, int64_t count, int64_t grain, int64_t grains)
{
    const int64_t most = pool->threads;
    pool->taking_part = (int)(grains < most ? grains : most);
    const int64_t parts = pool->taking_part;
    pool->count = count;
    pool->grain = grain;
    pool->step = grains / (parts * PIECES_PER_THREAD) > 1 ? grains / (parts * PIECES_PER_THREAD) : 1;
    for (int64_t i = 0; i < parts; i++) {
        atomic_store_explicit(&pool->parts[i].next, grains / parts * i + (i < grains % parts ? i : grains % parts),
                              memory_order_relaxed);
        pool->parts[i].end = grains / parts * (i + 1) + (i + 1 < grains % parts ? i + 1 : grains % parts);
    }
    const uint64_t generation = (atomic_load(&pool->word) / NEXT_GENERATION + 1) & 0xffffffff;
    atomic_store(&pool->word, generation * NEXT_GENERATION | OPEN);
    for (int i = 1; i < pool->taking_part; i++) wake(&pool->workers[i]);
    take_part(pool, 0);
    uint64_t word = atomic_fetch_and(&pool->word, ~OPEN);
    for (unsigned spins = 1; (word & INSIDE_MASK) != 0; spins++) {
        pause_briefly();
        if (spins > 1000) sched_yield(); // somebody else may own the processor that the worker needs
        word = atomic_load_explicit(&pool->word, memory_order_acquire);
    }
}

void nbx_parallel_for(nbx_pool *pool, int64_t count, int64_t grain,
                      void (*body)(void *arg, int64_t begin, int64_t end, int thread), void *arg)
{
    if (count <= 0) return;
    if (grain < 1) grain = 1;
    const bool alone = pool == NULL || pool->threads == 1 || count <= grain || !workers_exist(pool) ||
                       atomic_exchange_explicit(&pool->owned, true, memory_order_acquire);
    if (alone) {
        body(arg, 0, count, 0);
        return;
    }
    pool->body = body;
    pool->arg = arg;
    run_loop(pool, count, grain, (count - 1) / grain + 1);
    atomic_store_explicit(&pool->owned, false, memory_order_release);
}

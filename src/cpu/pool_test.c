// The thread pool: every index once, ranges on multiples of the grain, nested and concurrent loops, fork, many short loops.
#include "cpu/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 1000
#define THREADS 4

struct visit {
    atomic_int seen[MOST];
    int64_t grain;
    atomic_int faults;
    atomic_int busy[THREADS];
    nbx_pool *inner;
};

static void visit(void *arg, int64_t begin, int64_t end, int thread)
{
    struct visit *v = arg;
    if (begin % v->grain != 0 || begin >= end || thread < 0 || thread >= THREADS) v->faults++;
    if (atomic_fetch_add(&v->busy[thread], 1) != 0) v->faults++;
    for (int64_t i = begin; i < end; i++) v->seen[i]++;
    atomic_fetch_sub(&v->busy[thread], 1);
}

static void check_loop(nbx_pool *pool, int64_t count, int64_t grain)
{
    struct visit v;
    memset(&v, 0, sizeof v);
    v.grain = grain;
    nbx_parallel_for(pool, count, grain, visit, &v);
    for (int i = 0; i < MOST; i++) assert_int_equal(v.seen[i], i < count ? 1 : 0);
    assert_int_equal(v.faults, 0);
}

static void visits_every_index_once(void **state)
{
    (void)state;
    nbx_pool *pool = nbx_pool_create(THREADS);
    assert_int_equal(nbx_pool_threads(pool), THREADS);
    const int64_t counts[] = {0, 1, 2, 3, 4, 5, 7, 16, 17, 100, 255, 999, 1000};
    const int64_t grains[] = {1, 2, 3, 16, 100, 1000, 5000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (size_t k = 0; k < sizeof grains / sizeof grains[0]; k++) {
            check_loop(pool, counts[i], grains[k]);
            check_loop(NULL, counts[i], grains[k]);
        }
    }
    nbx_pool_destroy(pool);
    nbx_pool_destroy(NULL);
    assert_int_equal(nbx_pool_threads(NULL), 1);
}

static void many_short_loops(void **state)
{
    (void)state;
    nbx_pool *pool = nbx_pool_create(THREADS);
    for (int i = 0; i < 2000; i++) {
        check_loop(pool, 8, 1);
        if (i % 500 == 0) usleep(1000); // long enough for the workers to fall asleep
    }
    nbx_pool_destroy(pool);
}

static void nested(void *arg, int64_t begin, int64_t end, int thread)
{
    struct visit *v = arg;
    (void)thread;
    for (int64_t i = begin; i < end; i++) check_loop(v->inner, 10 + i, 1);
}

static void a_loop_inside_a_loop_runs_alone(void **state)
{
    (void)state;
    struct visit v;
    memset(&v, 0, sizeof v);
    v.inner = nbx_pool_create(THREADS);
    nbx_parallel_for(v.inner, 20, 1, nested, &v);
    nbx_pool_destroy(v.inner);
}

static void *call_often(void *arg)
{
    for (int i = 0; i < 200; i++) check_loop(arg, 64, 4);
    return NULL;
}

static void several_threads_share_a_pool(void **state)
{
    (void)state;
    nbx_pool *pool = nbx_pool_create(THREADS);
    pthread_t callers[3];
    for (int i = 0; i < 3; i++) pthread_create(&callers[i], NULL, call_often, pool);
    call_often(pool);
    for (int i = 0; i < 3; i++) pthread_join(callers[i], NULL);
    nbx_pool_destroy(pool);
}

static void a_forked_child_can_use_the_pool(void **state)
{
    (void)state;
    if (getenv("NBX_EMULATED")) skip(); // QEMU ends a forked child that starts threads
#if !defined(__SANITIZE_THREAD__) // a child with threads of its own is refused there
    nbx_pool *pool = nbx_pool_create(THREADS);
    check_loop(pool, 100, 1);
    const pid_t child = fork();
    if (child == 0) {
        struct visit v;
        memset(&v, 0, sizeof v);
        v.grain = 1;
        nbx_parallel_for(pool, 100, 1, visit, &v);
        int wrong = v.faults;
        for (int i = 0; i < 100; i++) wrong += v.seen[i] != 1;
        nbx_pool_destroy(pool);
        _exit(wrong == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    check_loop(pool, 100, 1);
    nbx_pool_destroy(pool);
#endif
}

static void counts_processors(void **state)
{
    (void)state;
    assert_true(nbx_cpu_count() >= 1);
    assert_true(nbx_cpu_count() <= sysconf(_SC_NPROCESSORS_CONF));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(visits_every_index_once),
        cmocka_unit_test(many_short_loops),
        cmocka_unit_test(a_loop_inside_a_loop_runs_alone),
        cmocka_unit_test(several_threads_share_a_pool),
        cmocka_unit_test(a_forked_child_can_use_the_pool),
        cmocka_unit_test(counts_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

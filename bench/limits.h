// The limits of the machine, measured: fused multiply-adds a second, and bytes read a second, by all threads of a pool.
#ifndef NBX_BENCH_LIMITS_H
#define NBX_BENCH_LIMITS_H

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/memory.h"
#include "cpu/isa.h"
#include "cpu/pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static bool one_thread; // then its processor time is measured, and other load on the machine counts less

static double seconds(void)
{
    struct timespec t;
    clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define FMAS 20000

#if defined(__x86_64__)
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
__attribute__((target("avx512f"))) static float spin_avx512(void)
{
    const __m512 half = _mm512_set1_ps(0.5f);
#define START(i) __m512 x##i = _mm512_set1_ps(i);
#define STEP(i) x##i = _mm512_fmadd_ps(x##i, half, half);
#define SUM(i) total = _mm512_add_ps(total, x##i);
    TWELVE(START)
    for (int n = 0; n < FMAS; n++) { TWELVE(STEP) }
    __m512 total = half;
    TWELVE(SUM)
    return _mm512_cvtss_f32(total);
#undef START
#undef STEP
#undef SUM
}
__attribute__((target("avx2,fma"))) static float spin_avx2(void)
{
    const __m256 half = _mm256_set1_ps(0.5f);
#define START(i) __m256 x##i = _mm256_set1_ps(i);
#define STEP(i) x##i = _mm256_fmadd_ps(x##i, half, half);
#define SUM(i) total = _mm256_add_ps(total, x##i);
    TWELVE(START)
    for (int n = 0; n < FMAS; n++) { TWELVE(STEP) }
    __m256 total = half;
    TWELVE(SUM)
    return _mm256_cvtss_f32(total);
}
#endif

static volatile float sink;

static void spin(void *arg, int64_t begin, int64_t end, int thread)
{
    (void)arg, (void)thread;
    for (int64_t i = begin; i < end; i++) {
#if defined(__x86_64__)
        if (nbx_isa_best() == NBX_ISA_AVX512) sink = spin_avx512();
        if (nbx_isa_best() == NBX_ISA_AVX2) sink = spin_avx2();
#endif
    }
}

static double fma_peak(nbx_pool *pool) // flop/s of all threads, f32
{
    const double lanes = nbx_isa_best() == NBX_ISA_AVX512 ? 16 : nbx_isa_best() == NBX_ISA_AVX2 ? 8 : 0;
    const int parts = 16 * nbx_pool_threads(pool);
    double best = 1e9;
    for (int i = 0; i < 20; i++) {
        const double start = seconds();
        nbx_parallel_for(pool, parts, 1, spin, NULL);
        const double t = seconds() - start;
        if (t < best) best = t;
    }
    return 2 * lanes * 12 * FMAS * parts / best;
}

static uint64_t *memory;
#define MEMORY_WORDS ((int64_t)32 << 20) // 256 MB

static void read_memory(void *arg, int64_t begin, int64_t end, int thread)
{
    (void)arg, (void)thread;
    uint64_t sum[8] = {0};
    for (int64_t i = begin; i + 8 <= end; i += 8)
        for (int k = 0; k < 8; k++) sum[k] ^= memory[i + k];
    for (int k = 0; k < 8; k++) sink = (float)sum[k];
}

static double read_rate(nbx_pool *pool) // bytes/s
{
    memory = nbx_alloc((size_t)MEMORY_WORDS * 8);
    memset(memory, 1, (size_t)MEMORY_WORDS * 8);
    double best = 1e9;
    for (int i = 0; i < 8; i++) {
        const double start = seconds();
        nbx_parallel_for(pool, MEMORY_WORDS, 4096, read_memory, NULL);
        const double t = seconds() - start;
        if (t < best) best = t;
    }
    nbx_free(memory);
    return (double)MEMORY_WORDS * 8 / best;
}

#endif

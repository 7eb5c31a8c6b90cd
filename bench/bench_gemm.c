// Matrix products against the limits of the machine: the measured rate of fused multiply-adds, and of reading memory.
//   bench_gemm [threads]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/memory.h"
#include "cpu/gemm.h"
#include "cpu/isa.h"

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

typedef struct bench_case { nbx_dtype dtype; int64_t batch, m, n, k; int transposed_b, packed; } bench_case;

static void measure(const bench_case *b, nbx_pool *pool, double peak, double rate)
{
    const int64_t size = (int64_t)nbx_dtype_size(b->dtype);
    // small operands are used in turn, so that products with few rows read B from memory as a model does
    const int64_t b_bytes = b->batch * b->k * b->n * size, copies = b->m <= 16 && b_bytes < (64 << 20) ? (160 << 20) / b_bytes + 1 : 1;
    const int64_t used = b->m <= 16 && b_bytes > (1 << 20) ? copies : 1;
    char *a = nbx_alloc_zero((size_t)(b->batch * b->m * b->k * size)), *c = nbx_alloc_zero((size_t)(b->batch * b->m * b->n * 8));
    char *w = nbx_alloc((size_t)(b_bytes * used));
    memset(w, 0, (size_t)(b_bytes * used));
    nbx_gemm g = {.m = b->m, .n = b->n, .k = b->k, .batch = b->batch, .dtype = b->dtype,
                  .out_dtype = b->dtype == NBX_INT8 ? NBX_INT32 : b->dtype, .a = a, .row_stride_a = b->k, .col_stride_a = 1,
                  .batch_stride_a = b->m * b->k, .b = w, .row_stride_b = b->transposed_b ? 1 : b->n, .col_stride_b = b->transposed_b ? b->k : 1,
                  .batch_stride_b = b->k * b->n, .c = c, .row_stride_c = b->n, .col_stride_c = 1, .batch_stride_c = b->m * b->n, .alpha = 1};
    const size_t packed_bytes = nbx_gemm_packed_bytes(&g);
    char *packed = b->packed ? nbx_alloc(packed_bytes * (size_t)used) : NULL;
    for (int64_t i = 0; b->packed && i < used; i++) nbx_gemm_pack_b(&g, packed + i * (int64_t)packed_bytes, pool);
    void *scratch = nbx_alloc(nbx_gemm_scratch_bytes(&g, nbx_pool_threads(pool)));
    const double flops = 2.0 * (double)b->batch * (double)b->m * (double)b->n * (double)b->k;
    double best = 1e9;
    const double until = seconds() + 0.6;
    int64_t turn = 0;
    for (int i = 0; i < 3 || seconds() < until; i++) {
        const int repeats = flops < 1e6 ? 1000 : 1;
        const double start = seconds();
        for (int r = 0; r < repeats; r++, turn = (turn + 1) % used) {
            g.b = w + turn * b_bytes;
            if (b->packed) g.packed_b = packed + turn * (int64_t)packed_bytes;
            nbx_gemm_run(&g, pool, scratch);
        }
        const double t = (seconds() - start) / repeats;
        if (t < best) best = t;
    }
    printf("%-9s %4lld x [%5lld, %5lld, %5lld] %s%s %10.1f us %8.1f GFLOP/s %5.2f of peak   B %6.1f GB/s %5.2f of reading\n",
           nbx_dtype_rows[b->dtype].name, (long long)b->batch, (long long)b->m, (long long)b->n, (long long)b->k,
           b->transposed_b ? "T" : " ", b->packed ? "P" : " ", best * 1e6, flops / best * 1e-9, flops / best / peak,
           (double)b_bytes / best * 1e-9, (double)b_bytes / best / rate);
    nbx_free(a), nbx_free(w), nbx_free(c), nbx_free(scratch), nbx_free(packed);
}

int main(int argc, char **argv)
{
    nbx_pool *pool = nbx_pool_create(argc > 1 ? atoi(argv[1]) : 0);
    one_thread = nbx_pool_threads(pool) == 1;
    const double peak = fma_peak(pool), rate = read_rate(pool);
    printf("%s, %d threads: %.1f GFLOP/s f32, reading %.1f GB/s\n", nbx_isa_name(nbx_isa_best()), nbx_pool_threads(pool), peak * 1e-9, rate * 1e-9);
    static const bench_case cases[] = {
        {NBX_FLOAT32, 1, 1024, 1024, 1024, 0, 0}, {NBX_FLOAT32, 1, 1024, 1024, 1024, 1, 0}, {NBX_FLOAT32, 1, 1024, 1024, 1024, 0, 1},
        {NBX_FLOAT32, 1, 128, 3072, 768, 0, 0}, {NBX_FLOAT32, 1, 128, 3072, 768, 1, 0}, {NBX_FLOAT32, 1, 128, 3072, 768, 1, 1},
        {NBX_FLOAT32, 1, 197, 768, 768, 1, 0}, {NBX_FLOAT32, 1, 197, 768, 768, 1, 1}, {NBX_FLOAT32, 1, 512, 512, 512, 0, 0},
        {NBX_FLOAT32, 96, 128, 128, 64, 1, 0}, {NBX_FLOAT32, 96, 128, 64, 128, 0, 0}, {NBX_FLOAT32, 1, 3136, 64, 576, 0, 0},
        {NBX_FLOAT32, 1, 64, 3136, 576, 0, 0},
        {NBX_FLOAT32, 1, 64, 64, 64, 0, 0}, {NBX_FLOAT32, 1, 16, 16, 16, 0, 0}, {NBX_FLOAT32, 1, 4, 4, 4, 0, 0},
        {NBX_FLOAT32, 1, 1, 4096, 4096, 0, 0}, {NBX_FLOAT32, 1, 1, 4096, 4096, 1, 0}, {NBX_FLOAT32, 1, 1, 4096, 4096, 1, 1},
        {NBX_FLOAT32, 1, 4, 4096, 4096, 0, 0}, {NBX_FLOAT32, 1, 4, 4096, 4096, 1, 0}, {NBX_FLOAT32, 1, 4, 4096, 4096, 1, 1},
        {NBX_FLOAT32, 1, 8, 4096, 4096, 1, 0}, {NBX_FLOAT32, 1, 8, 4096, 4096, 0, 0}, {NBX_FLOAT32, 1, 16, 4096, 4096, 1, 1},
        {NBX_FLOAT32, 1, 4096, 1, 4096, 0, 0}, {NBX_FLOAT32, 1, 1, 1, 1000000, 0, 0}, {NBX_FLOAT32, 1, 1, 1000, 2048, 1, 0},
        {NBX_BFLOAT16, 1, 1024, 1024, 1024, 0, 0}, {NBX_BFLOAT16, 1, 128, 3072, 768, 1, 0}, {NBX_BFLOAT16, 1, 128, 3072, 768, 1, 1},
        {NBX_BFLOAT16, 1, 1, 4096, 4096, 0, 0}, {NBX_BFLOAT16, 1, 1, 4096, 4096, 1, 0}, {NBX_BFLOAT16, 1, 1, 4096, 4096, 1, 1},
        {NBX_FLOAT16, 1, 1024, 1024, 1024, 0, 0}, {NBX_FLOAT16, 1, 1, 4096, 4096, 1, 0}, {NBX_FLOAT16, 1, 1, 4096, 4096, 1, 1},
        {NBX_FLOAT64, 1, 512, 512, 512, 0, 0}, {NBX_INT8, 1, 512, 512, 512, 1, 0}, {NBX_COMPLEX64, 1, 256, 256, 256, 0, 0},
        {NBX_INT64, 1, 128, 128, 128, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) measure(&cases[i], pool, peak, rate);
    nbx_pool_destroy(pool);
    return 0;
}

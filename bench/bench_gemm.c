// Matrix products against the limits of the machine: the measured rate of fused multiply-adds, and of reading memory.
//   bench_gemm [threads]
#include <stdio.h>

#include "bench/limits.h"
#include "cpu/gemm.h"

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

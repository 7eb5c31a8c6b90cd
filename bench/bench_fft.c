// Fourier transforms: microseconds a call. bench_fft [threads] prints one line for each shape; bench/fft_torch.py the same for
// PyTorch.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "nbx/ops.h"

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double best_us(nbx_context *ctx, const char *name, const nbx_value *args)
{
    double best = 1e9, spent = 0;
    for (int i = 0; i < 400 && (i < 5 || spent < 0.5); i++) {
        const nbx_scope scope = nbx_scope_open(ctx);
        nbx_value y;
        const double start = seconds();
        if (nbx_call(ctx, name, args, 4, NULL, 0, &y, 1, NULL) != NBX_OK) exit((fprintf(stderr, "%s\n", nbx_last_message(ctx)), 1));
        const double t = seconds() - start;
        nbx_scope_close(ctx, scope, NULL);
        spent += t;
        if (t < best) best = t;
    }
    return best * 1e6;
}

static void measure(nbx_context *ctx, int64_t lines, int64_t n, nbx_dtype real)
{
    const int64_t shape[2] = {lines, n}, half[2] = {lines, n / 2 + 1}, dim = 1;
    const nbx_dtype complex = real == NBX_FLOAT64 ? NBX_COMPLEX128 : NBX_COMPLEX64;
    const nbx_value dims = nbx_of_ints(&dim, 1), none = nbx_of_int(0);
    const nbx_scope scope = nbx_scope_open(ctx);
    const nbx_value x = nbx_of_tensor(nbx_zeros(ctx, complex, 2, shape)), r = nbx_of_tensor(nbx_zeros(ctx, real, 2, shape));
    const nbx_value h = nbx_of_tensor(nbx_zeros(ctx, complex, 2, half));
    printf("%lld x %lld %s", (long long)lines, (long long)n, real == NBX_FLOAT64 ? "f64" : "f32");
    printf("  c2c %.1f", best_us(ctx, "aten::_fft_c2c", (nbx_value[]){x, dims, none, nbx_of_bool(true)}));
    printf("  r2c %.1f", best_us(ctx, "aten::_fft_r2c", (nbx_value[]){r, dims, none, nbx_of_bool(true)}));
    printf("  c2r %.1f\n", best_us(ctx, "aten::_fft_c2r", (nbx_value[]){h, dims, none, nbx_of_int(n)}));
    fflush(stdout);
    nbx_scope_close(ctx, scope, NULL);
}

int main(int argc, char **argv)
{
    static const int64_t shapes[][2] = {{1, 1 << 20}, {64, 1009}, {1, 1009}, {1000, 1024}, {1, 1024}, {2000, 400}, {1, 400}, {512, 512},
                                        {1, 65536}, {64, 4096}, {10000, 16}, {100, 1000}, {4, 100003}, {300, 243}, {1, 1000000}};
    nbx_options options = {.threads = argc > 1 ? atoi(argv[1]) : 0};
    nbx_context *ctx = nbx_context_create(&options);
    for (size_t i = 0; ctx && i < sizeof shapes / sizeof *shapes; i++) measure(ctx, shapes[i][0], shapes[i][1], NBX_FLOAT32);
    for (size_t i = 0; ctx && i < 5; i++) measure(ctx, shapes[i][0], shapes[i][1], NBX_FLOAT64);
    nbx_context_destroy(ctx);
    return 0;
}

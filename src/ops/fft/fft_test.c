// Transforms of every kind and of lengths that take every method, against the sum that defines them, in double.
#include "nbx/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PI 3.14159265358979323846

static nbx_tensor *call(nbx_context *ctx, const char *name, const nbx_value *args, int count) {
    nbx_value y = {0};
    assert_int_equal(nbx_call(ctx, name, args, count, NULL, 0, &y, 1, NULL), NBX_OK);
    return (nbx_tensor *)y.as.tensor;
}

static double next(uint32_t *seed) {
    *seed ^= *seed << 13, *seed ^= *seed >> 17, *seed ^= *seed << 5;
    return (double)(int32_t)*seed * 0x1p-31;
}

// y[0 ... 1] = sum of x[j] exp(sign 2 pi i j k / n). roots holds cosines and sines.
static void defined(const double *x, const double *roots, double *y, int64_t n, int64_t k, int sign) {
    y[0] = y[1] = 0;
    for (int64_t j = 0, at = 0; j < n; j++, at = (at + k) % n) {
        const double c = roots[2 * at], s = sign * roots[2 * at + 1];
        y[0] += x[2 * j] * c - x[2 * j + 1] * s, y[1] += x[2 * j] * s + x[2 * j + 1] * c;
    }
}

static void narrow(double *x, int64_t count) {
    float *y = (float *)(void *)x;
    for (int64_t i = 0; i < count; i++) y[i] = (float)x[i];
}

static void widen(const double *x, double *y, int64_t count) {
    for (int64_t i = 0; i < count; i++) y[i] = (double)((const float *)(const void *)x)[i];
}

typedef enum direction { FORWARD, BACKWARD, REAL, HERMITIAN } direction;

// `lines` lines of n points along `dim` of a matrix.
static void compare(nbx_context *ctx, int64_t n, int64_t lines, int dim, direction kind, bool wide) {
    const int64_t half = n / 2 + 1, in_points = kind == HERMITIAN ? half : n, out_points = kind == REAL ? half : n;
    const int in_reals = kind == REAL ? 1 : 2, out_reals = kind == HERMITIAN ? 1 : 2;
    const int64_t in_count = in_points * lines * in_reals, out_count = out_points * lines * out_reals, at = dim;
    double *x = malloc(sizeof *x * (size_t)in_count), *raw = malloc(sizeof *x * (size_t)in_count), *line = malloc(sizeof *x * 2 * (size_t)n);
    double *roots = malloc(sizeof *x * 2 * (size_t)n), want[2], *y = malloc(sizeof *x * (size_t)out_count), *got = malloc(sizeof *x * (size_t)out_count);
    uint32_t seed = (uint32_t)(n * 31 + lines);
    for (int64_t i = 0; i < n; i++) roots[2 * i] = cos(2 * PI * (double)i / (double)n), roots[2 * i + 1] = sin(2 * PI * (double)i / (double)n);
    for (int64_t i = 0; i < in_count; i++) x[i] = (double)(float)next(&seed);
    memcpy(raw, x, sizeof *x * (size_t)in_count);
    if (!wide) narrow(raw, in_count);
    const int64_t shape[2] = {dim ? lines : in_points, dim ? in_points : lines};
    const nbx_dtype dtype = kind == REAL ? (wide ? NBX_FLOAT64 : NBX_FLOAT32) : wide ? NBX_COMPLEX128 : NBX_COMPLEX64;
    const nbx_scope scope = nbx_scope_open(ctx);
    const nbx_tensor *t = nbx_tensor_from_host(ctx, dtype, 2, shape, raw);
    const nbx_value args[] = {nbx_of_tensor(t), nbx_of_ints(&at, 1), nbx_of_int(0), kind == HERMITIAN ? nbx_of_int(n) : nbx_of_bool(kind != BACKWARD)};
    nbx_tensor *r = call(ctx, kind == REAL ? "aten::_fft_r2c" : kind == HERMITIAN ? "aten::_fft_c2r" : "aten::_fft_c2c", args, 4);
    r = call(ctx, "aten::contiguous", (nbx_value[]){nbx_of_tensor(r)}, 1);
    assert_int_equal(nbx_tensor_read(ctx, r, y), NBX_OK);
    if (wide) memcpy(got, y, sizeof *y * (size_t)out_count);
    else widen(y, got, out_count);
    double worst = 0, most = 0;
    for (int64_t i = 0; i < out_count; i++) most = fabs(got[i]) > most ? fabs(got[i]) : most;
    const int64_t in_step = dim ? 1 : lines, out_step = dim ? 1 : lines;
    for (int64_t l = 0; l < lines; l += lines > 3 ? lines - 1 : 1) {
        const double *from = x + in_reals * l * (dim ? in_points : 1), *result = got + out_reals * l * (dim ? out_points : 1);
        for (int64_t j = 0; j < n; j++) {
            const bool mirrored = kind == HERMITIAN && 2 * j > n;
            const double *e = from + (mirrored ? n - j : j) * in_step * in_reals;
            const bool real = kind == REAL || (kind == HERMITIAN && (j == 0 || 2 * j == n));
            line[2 * j] = e[0], line[2 * j + 1] = real ? 0 : mirrored ? -e[1] : e[1];
        }
        for (int64_t k = 0; k < out_points; k += 1 + out_points / 100 + (k > 2 && k < out_points - 3) * (out_points / 40)) {
            defined(line, roots, want, n, k, kind == FORWARD || kind == REAL ? -1 : 1);
            for (int part = 0; part < out_reals; part++) {
                const double d = fabs(result[k * out_step * out_reals + part] - want[part]);
                if (!(d <= worst)) worst = d;
            }
        }
    }
    nbx_scope_close(ctx, scope, NULL);
    // measured: at most 4e-7 of the largest result in float, 1.2e-14 in double (where the sum above errs by as much)
    const double limit = (wide ? 4e-14 : 6e-7) * most + 1e-15;
    if (!(worst <= limit)) fail_msg("n %lld, %lld lines, dim %d, kind %d, wide %d: error %g of %g", (long long)n, (long long)lines, dim, (int)kind, wide, worst, most);
    free(x), free(raw), free(line), free(roots), free(y), free(got);
}

static void every_kind(nbx_context *ctx, int64_t n, int64_t lines) {
    for (int wide = 0; wide < 2; wide++)
        for (int k = FORWARD; k <= HERMITIAN; k++)
            for (int dim = 0; dim < 2; dim++) compare(ctx, n, lines, dim, (direction)k, wide);
}

static void all_short_lengths(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    for (int64_t n = 1; n <= 130; n++) every_kind(ctx, n, n % 3 ? 2 : 19);
    nbx_context_destroy(ctx);
}

// Powers of two, mixed radices, primes with and without smooth p - 1, two large primes, splits with an odd side.
static void lengths_of_every_method(void **state) {
    (void)state;
    static const int64_t lengths[] = {192, 251, 256, 359, 400, 442, 461, 500, 512, 667, 719, 729, 1000, 1009, 1018, 1024, 1021, 1155, 1458, 2018, 2039, 2048, 2209, 3125, 4096, 4087};
    nbx_context *ctx = nbx_context_create(NULL);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int many = 0; many < 2; many++) every_kind(ctx, lengths[i], many ? 17 : 1);
    nbx_context_destroy(ctx);
}

// Lines that all threads share, and convolutions of whole lines.
static void long_lengths(void **state) {
    (void)state;
    static const int64_t lengths[] = {32768, 65536, 60000, 45045, 40009, 80018, 100003};
    nbx_context *ctx = nbx_context_create(NULL);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) every_kind(ctx, lengths[i], 2);
    nbx_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_short_lengths),
        cmocka_unit_test(lengths_of_every_method),
        cmocka_unit_test(long_lengths),
    };
    return cmocka_run_group_tests_name("fft", tests, NULL, NULL);
}

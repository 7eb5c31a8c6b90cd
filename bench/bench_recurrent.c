// Recurrent layers: microseconds a call. bench_recurrent [threads] prints one line for each shape; bench/recurrent_torch.py the
// same for PyTorch.
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

static nbx_tensor *small(nbx_context *ctx, int rank, const int64_t *shape)
{
    nbx_value y = {0};
    const nbx_value args[] = {nbx_of_ints(shape, rank), nbx_of_float(0.01), nbx_of_dtype(NBX_FLOAT32)};
    if (nbx_call(ctx, "aten::full", args, 3, NULL, 0, &y, 1, NULL) != NBX_OK) exit((fprintf(stderr, "%s\n", nbx_last_message(ctx)), 1));
    return (nbx_tensor *)y.as.tensor;
}

static void measure(nbx_context *ctx, bool lstm, int64_t steps, int64_t batch, int64_t width)
{
    const int64_t gates = (lstm ? 4 : 3) * width;
    const nbx_scope scope = nbx_scope_open(ctx);
    const nbx_tensor *x = small(ctx, 3, (int64_t[]){steps, batch, width}), *h = small(ctx, 3, (int64_t[]){1, batch, width});
    const nbx_tensor *states[2] = {h, h}, *w = small(ctx, 2, (int64_t[]){gates, width}), *b = small(ctx, 1, &gates), *params[4] = {w, w, b, b};
    const nbx_value args[] = {nbx_of_tensor(x), lstm ? nbx_of_tensors(states, 2) : nbx_of_tensor(h), nbx_of_tensors(params, 4), nbx_of_bool(true),
                              nbx_of_int(1), nbx_of_float(0), nbx_of_bool(false), nbx_of_bool(false), nbx_of_bool(false)};
    double best = 1e9, spent = 0;
    for (int i = 0; i < 200 && (i < 5 || spent < 0.5); i++) {
        const nbx_scope inner = nbx_scope_open(ctx);
        nbx_value y[3];
        const double start = seconds();
        if (nbx_call(ctx, lstm ? "aten::lstm.input" : "aten::gru.input", args, 9, NULL, 0, y, 3, NULL) != NBX_OK)
            exit((fprintf(stderr, "%s\n", nbx_last_message(ctx)), 1));
        const double t = seconds() - start;
        nbx_scope_close(ctx, inner, NULL);
        spent += t;
        if (t < best) best = t;
    }
    printf("%s steps %lld batch %lld width %lld  %.1f\n", lstm ? "lstm" : "gru ", (long long)steps, (long long)batch, (long long)width, best * 1e6);
    fflush(stdout);
    nbx_scope_close(ctx, scope, NULL);
}

int main(int argc, char **argv)
{
    static const int64_t shapes[][3] = {{100, 1, 64}, {100, 1, 256}, {50, 1, 512}, {50, 8, 256}, {50, 32, 128}, {30, 32, 512}, {1, 1, 512}};
    const nbx_options options = {.threads = argc > 1 ? atoi(argv[1]) : 0};
    nbx_context *ctx = nbx_context_create(&options);
    for (int lstm = 1; lstm >= 0 && ctx; lstm--)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) measure(ctx, lstm, shapes[i][0], shapes[i][1], shapes[i][2]);
    nbx_context_destroy(ctx);
    return 0;
}

// What the library itself costs around a kernel: a command of a replay, an operator through the typed interface, and through
// the boxed one. Tensors have one element, so nothing else is measured. Best of many rounds, one thread.
//   bench_overhead
#include <stdio.h>
#include <time.h>

#include "nbx/nbx.h"
#include "support/maker.h"

enum { COMMANDS = 1000, ROUNDS = 300, CALLS = 1000 };

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

// ------------------------------------------------------------------------------------------------------------- replays
static maker_text make_chain(void) {
    program_maker m = {0};
    program_maker_input(&m, "x", 7, "1");
    for (int i = 0; i < COMMANDS; i++) {
        char result[16], arguments[48];
        snprintf(result, sizeof result, "y%d", i);
        if (i) snprintf(arguments, sizeof arguments, "self=y%d other=x", i - 1);
        else snprintf(arguments, sizeof arguments, "self=x other=x");
        program_maker_node(&m, "torch.ops.aten.add.Tensor", result, arguments);
    }
    char last[16];
    snprintf(last, sizeof last, "y%d", COMMANDS - 1);
    program_maker_output(&m, last, 7, "1");
    return program_maker_finish(&m);
}

static double replay_ns(nbx_context *ctx, const nbx_tensor *x) {
    maker_text file = make_chain();
    nbx_program *program;
    nbx_session *session;
    double best = -1;
    if (nbx_program_load_memory(ctx, "chain", file.bytes, file.count, NULL, &program) != NBX_OK) return -1;
    if (nbx_session_create(ctx, program, &session) == NBX_OK) {
        for (int i = 0; i < ROUNDS; i++) {
            const nbx_scope scope = nbx_scope_open(ctx);
            const nbx_value input = nbx_of_tensor(x);
            nbx_value output;
            const double start = now_ns();
            if (nbx_session_run(session, &input, 1, &output, 1, NULL) != NBX_OK) return -1;
            const double took = now_ns() - start;
            if (best < 0 || took < best) best = took;
            nbx_scope_close(ctx, scope, NULL);
        }
        nbx_session_destroy(session);
    }
    nbx_program_destroy(program);
    maker_free(&file);
    return best;
}

// ------------------------------------------------------------------------------------------------------- single operators
typedef nbx_tensor *(*call)(nbx_context *ctx, const nbx_tensor *x);

static nbx_tensor *typed_add(nbx_context *ctx, const nbx_tensor *x) { return nbx_add(ctx, x, x); }
static nbx_tensor *typed_relu(nbx_context *ctx, const nbx_tensor *x) { return nbx_relu(ctx, x); }
static nbx_tensor *typed_view(nbx_context *ctx, const nbx_tensor *x) { return nbx_transpose(ctx, x, 0, 0); }
static nbx_tensor *boxed_add(nbx_context *ctx, const nbx_tensor *x) {
    const nbx_value args[] = {nbx_of_tensor(x), nbx_of_tensor(x)};
    nbx_value result;
    return nbx_call(ctx, "aten::add.Tensor", args, 2, NULL, 0, &result, 1, NULL) == NBX_OK ? (nbx_tensor *)result.as.tensor : NULL;
}

static double call_ns(nbx_context *ctx, const nbx_tensor *x, call f) {
    double best = -1;
    for (int round = 0; round < ROUNDS; round++) {
        const double start = now_ns();
        for (int i = 0; i < CALLS; i++) {
            const nbx_scope scope = nbx_scope_open(ctx);
            if (!f(ctx, x)) return -1;
            nbx_scope_close(ctx, scope, NULL);
        }
        const double took = (now_ns() - start) / CALLS;
        if (best < 0 || took < best) best = took;
    }
    return best;
}

int main(void) {
    const nbx_options options = {.threads = 1};
    const int64_t shape[1] = {1};
    const float one = 1;
    nbx_context *ctx = nbx_context_create(&options);
    if (!ctx) return 1;
    const nbx_tensor *x = nbx_tensor_from_host(ctx, NBX_FLOAT32, 1, shape, &one);
    printf("replay of %d adds: %.1f us\n", COMMANDS, replay_ns(ctx, x) / 1e3);
    printf("typed add: %.0f ns\n", call_ns(ctx, x, typed_add));
    printf("typed relu: %.0f ns\n", call_ns(ctx, x, typed_relu));
    printf("typed view: %.0f ns\n", call_ns(ctx, x, typed_view));
    printf("boxed add: %.0f ns\n", call_ns(ctx, x, boxed_add));
    if (nbx_last_status(ctx) != NBX_OK) printf("%s\n", nbx_last_message(ctx));
    const bool failed = nbx_last_status(ctx) != NBX_OK;
    nbx_context_destroy(ctx);
    return failed;
}

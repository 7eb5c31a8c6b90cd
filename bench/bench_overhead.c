// What the library itself costs around a kernel: a command of a replay, an operator through the typed interface, and through
// the boxed one. Tensors have one element, so nothing else is measured. Best of many rounds, one thread. On a GPU: the time until
// the host may go on, beside that of a bare launch through the driver; the device is waited for between rounds.
//   bench_overhead [cpu|cuda]
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "nbx/nbx.h"
#include "support/maker.h"

enum { ROUNDS = 300 };
static int commands = 1000, calls = 1000;  // of a replay; a round

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

// ------------------------------------------------------------------------------------------------------------- replays
static maker_text make_chain(void) {
    program_maker m = {0};
    program_maker_input(&m, "x", 7, "1");
    for (int i = 0; i < commands; i++) {
        char result[16], arguments[48];
        snprintf(result, sizeof result, "y%d", i);
        if (i) snprintf(arguments, sizeof arguments, "self=y%d other=x", i - 1);
        else snprintf(arguments, sizeof arguments, "self=x other=x");
        program_maker_node(&m, "torch.ops.aten.add.Tensor", result, arguments);
    }
    char last[16];
    snprintf(last, sizeof last, "y%d", commands - 1);
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
            if (nbx_synchronize(ctx) != NBX_OK) return -1;
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
        for (int i = 0; i < calls; i++) {
            const nbx_scope scope = nbx_scope_open(ctx);
            if (!f(ctx, x)) return -1;
            nbx_scope_close(ctx, scope, NULL);
        }
        const double took = (now_ns() - start) / calls;
        if (best < 0 || took < best) best = took;
        if (nbx_synchronize(ctx) != NBX_OK) return -1;
    }
    return best;
}

// ---------------------------------------------------------------------------------------------------- the driver's launch
// A kernel that does nothing, through cuLaunchKernel; -1: no driver.
static double launch_ns(void) {
    static const char kernel[] = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing(.param .u64 p) { ret; }\n";
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *device_context, *module, *function, *stream;
    if (!driver) return -1;
    int (*const start_up)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit"), (*const retain)(void **, int) = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
    int (*const enter)(void *) = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent"), (*const load)(void **, const void *) = (int (*)(void **, const void *))dlsym(driver, "cuModuleLoadData");
    int (*const find)(void **, void *, const char *) = (int (*)(void **, void *, const char *))dlsym(driver, "cuModuleGetFunction");
    int (*const open)(void **, unsigned) = (int (*)(void **, unsigned))dlsym(driver, "cuStreamCreate"), (*const wait)(void *) = (int (*)(void *))dlsym(driver, "cuStreamSynchronize");
    typedef int (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    const launch_function launch = (launch_function)dlsym(driver, "cuLaunchKernel");
    double best = -1;
    uint64_t number = 0;
    void *parameters[] = {&number};
    if (start_up(0) || retain(&device_context, 0) || enter(device_context) || load(&module, kernel) || find(&function, module, "nothing") || open(&stream, 1)) return -1;
    for (int round = 0; round < ROUNDS; round++) {
        const double start = now_ns();
        for (int i = 0; i < calls; i++)
            if (launch(function, 1, 1, 1, 128, 1, 1, 0, stream, parameters, NULL)) return -1;
        const double took = (now_ns() - start) / calls;
        if (best < 0 || took < best) best = took;
        wait(stream);
    }
    return best;
}

int main(int argc, char **argv) {
    nbx_options options = {.threads = 1};
    if (argc > 1 && !nbx_device_parse(argv[1], &options.device)) return 2;
    if (options.device.type != NBX_CPU) commands = 300, calls = 400;
    const int64_t shape[1] = {1};
    const float one = 1;
    nbx_context *ctx = nbx_context_create(&options);
    if (!ctx) return 1;
    const nbx_tensor *x = nbx_tensor_from_host(ctx, NBX_FLOAT32, 1, shape, &one);
    printf("replay of %d adds: %.1f us\n", commands, replay_ns(ctx, x) / 1e3);
    printf("typed add: %.0f ns\n", call_ns(ctx, x, typed_add));
    printf("typed relu: %.0f ns\n", call_ns(ctx, x, typed_relu));
    printf("typed view: %.0f ns\n", call_ns(ctx, x, typed_view));
    if (options.device.type != NBX_CPU) printf("bare launch: %.0f ns\n", launch_ns());
    printf("boxed add: %.0f ns\n", call_ns(ctx, x, boxed_add));
    if (nbx_last_status(ctx) != NBX_OK) printf("%s\n", nbx_last_message(ctx));
    const bool failed = nbx_last_status(ctx) != NBX_OK;
    nbx_context_destroy(ctx);
    return failed;
}

// One loaded program in two threads, each with a context and a session of its own: their results are those of one thread.
#include "nbx/nbx.h"
#include "support/maker.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 64, COUNT = SIZE * SIZE, THREADS = 2, RUNS = 20 };

static maker_text make(void) {
    static float w[COUNT];
    for (int i = 0; i < COUNT; i++) w[i] = (float)(i * 37 % 23) / 23 - 0.5f;
    program_maker m = {0};
    program_maker_weight(&m, "w", 7, "64,64", w, sizeof w);
    program_maker_weight(&m, "b", 7, "64,64", w, sizeof w);
    program_maker_input(&m, "x", 7, "s0,64");
    program_maker_node(&m, "torch.ops.aten.mul.Tensor", "twice", "self=w other=2.0");
    program_maker_node(&m, "torch.ops.aten.mm.default", "p", "self=x mat2=twice");
    program_maker_node(&m, "torch.ops.aten.softmax.int", "s", "self=p dim=-1");
    program_maker_node(&m, "torch.ops.aten.add.Tensor", "next", "self=b other=s");
    program_maker_node(&m, "torch.ops.aten.sum.dim_IntList", "y", "self=next dim=[1]");
    program_maker_mutation(&m, "next", "b", 7, "64,64");
    program_maker_output(&m, "y", 7, "64");
    return program_maker_finish(&m);
}

typedef struct job {
    nbx_program *program;
    float y[RUNS][SIZE];
    bool good;
} job;

static void *work(void *arg) {
    job *j = arg;
    static float x[COUNT];  // zeros
    const nbx_options options = {.threads = 2};
    nbx_context *ctx = nbx_context_create(&options);
    nbx_session *session = NULL;
    const nbx_value input = nbx_of_tensor(nbx_tensor_from_host(ctx, NBX_FLOAT32, 2, (int64_t[]){SIZE, SIZE}, x));
    j->good = nbx_session_create(ctx, j->program, &session) == NBX_OK;
    for (int i = 0; i < RUNS && j->good; i++) {
        nbx_value output;
        const nbx_scope scope = nbx_scope_open(ctx);
        j->good = nbx_session_run(session, &input, 1, &output, 1, NULL) == NBX_OK &&
                  nbx_tensor_read(ctx, output.as.tensor, j->y[i]) == NBX_OK;
        nbx_scope_close(ctx, scope, NULL);
    }
    nbx_session_destroy(session);
    nbx_context_destroy(ctx);
    return NULL;
}

static void threads_share_a_program(void **state) {
    (void)state;
    static job jobs[THREADS + 1];
    pthread_t threads[THREADS];
    maker_text file = make();
    nbx_context *ctx = nbx_context_create(NULL);
    nbx_program *p;
    if (nbx_program_load_memory(ctx, "made", file.bytes, file.count, NULL, &p) != NBX_OK) fail_msg("%s", nbx_last_message(ctx));
    for (int i = 0; i <= THREADS; i++) jobs[i].program = p;
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, &jobs[i]), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    work(&jobs[THREADS]);
    for (int i = 0; i <= THREADS; i++) assert_true(jobs[i].good);
    for (int i = 0; i < THREADS; i++) assert_memory_equal(jobs[i].y, jobs[THREADS].y, sizeof jobs[i].y);
    assert_memory_not_equal(jobs[0].y[0], jobs[0].y[1], sizeof jobs[0].y[0]);  // each session has a buffer of its own
    nbx_program_destroy(p);
    nbx_context_destroy(ctx);
    maker_free(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_share_a_program)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Programs that use operators of a library of one's own: in place, made functional by export, and with effects. The programs
// lie in tests/programs/library; tests/programs/zoo_higher.py has the operators in Python.
#include "nbx/nbx.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char folder[] = "tests/programs/library";

// out = x * factor, returns x + 1
static nbx_status scale_into(nbx_op_call *c) {
    nbx_context *ctx = nbx_call_context(c);
    const nbx_tensor *x = nbx_call_tensor(c, 0), *scaled = nbx_mul_scalar(ctx, x, nbx_call_float(c, 2));
    const nbx_status status = nbx_copy_(ctx, (nbx_tensor *)nbx_call_tensor(c, 1), scaled);
    return status == NBX_OK ? nbx_call_set_result(c, 0, nbx_add_scalar(ctx, x, 1)) : status;
}

static nbx_status bump(nbx_op_call *c) {
    nbx_context *ctx = nbx_call_context(c);
    const nbx_value *outs = nbx_call_argument(c, 0);
    nbx_status status = NBX_OK;
    for (int i = 0; i < outs->count && status == NBX_OK; i++)
        status = nbx_copy_(ctx, (nbx_tensor *)outs->as.tensors[i], nbx_add_scalar(ctx, outs->as.tensors[i], (double)nbx_call_int(c, 1)));
    return status;
}

static nbx_status say(nbx_op_call *c) {
    const char *text = nbx_call_argument(c, 1)->as.string;
    return nbx_call_set_result(c, 0, nbx_add_scalar(nbx_call_context(c), nbx_call_tensor(c, 0), (double)strlen(text)));
}

static void register_all(nbx_context *ctx) {
    const nbx_operator_definition all[] = {
        {.schema = "testprograms::scale_into(Tensor x, Tensor(a0!) out, float factor) -> Tensor", .composite = scale_into, .effect = true},
        {.schema = "testprograms::bump(Tensor(a0!)[] outs, SymInt by) -> ()", .composite = bump, .effect = true},
        {.schema = "testprograms::say(Tensor x, str text) -> Tensor", .composite = say, .effect = true},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) assert_int_equal(nbx_operator_register(ctx, &all[i]), NBX_OK);
}

static nbx_program *load(nbx_context *ctx, const char *name, bool inspect, nbx_status wanted) {
    char path[256];
    const nbx_program_options options = {.inspect = inspect};
    nbx_program *p = NULL;
    snprintf(path, sizeof path, "%s/%s.pt2", folder, name);
    const nbx_status status = nbx_program_load(ctx, path, &options, &p);
    if (status != wanted) print_error("%s\n", nbx_last_message(ctx));
    assert_int_equal(status, wanted);
    return p;
}

static nbx_tensors *open_set(nbx_context *ctx, const char *name, const char *kind, int step) {
    char path[256];
    nbx_tensors *set;
    if (step < 0) snprintf(path, sizeof path, "%s/%s.%s.safetensors", folder, name, kind);
    else snprintf(path, sizeof path, "%s/%s.%s.%d.safetensors", folder, name, kind, step);
    assert_int_equal(nbx_tensors_load(ctx, path, &set), NBX_OK);
    return set;
}

static void same(nbx_context *ctx, const nbx_tensor *got, const nbx_tensor *wanted) {
    float a[64], b[64];
    assert_true(got && wanted && nbx_tensor_numel(got) == nbx_tensor_numel(wanted) && nbx_tensor_numel(got) <= 64);
    assert_int_equal(nbx_tensor_read(ctx, got, a), NBX_OK);
    assert_int_equal(nbx_tensor_read(ctx, wanted, b), NBX_OK);
    for (int64_t i = 0; i < nbx_tensor_numel(got); i++) assert_true(fabsf(a[i] - b[i]) <= 1e-6f * fmaxf(1, fabsf(b[i])));
}

static void run_step(nbx_context *ctx, nbx_session *session, const char *name, int step) {
    enum { MOST = 8 };
    nbx_tensors *given = open_set(ctx, name, "inputs", step), *expected = open_set(ctx, name, "expected", step);
    const nbx_value x = nbx_of_tensor(nbx_tensors_at(ctx, given, 0));
    nbx_value results[MOST];
    int count = 0;
    const nbx_status status = nbx_session_run(session, &x, 1, results, MOST, &count);
    if (status != NBX_OK) print_error("%s\n", nbx_last_message(ctx));
    assert_int_equal(status, NBX_OK);
    assert_int_equal((size_t)count, nbx_tensors_count(expected));
    for (int k = 0; k < count; k++) {
        char output[32];
        snprintf(output, sizeof output, "output_%d", k);
        same(ctx, results[k].as.tensor, nbx_tensors_get(ctx, expected, output));
    }
    nbx_tensors_destroy(given);
    nbx_tensors_destroy(expected);
}

// An expression that failed, in another context or before its error was cleared.
static void null_is_refused(nbx_context *ctx, nbx_session *session) {
    const nbx_value x = nbx_of_tensor(NULL);
    nbx_value results[8];
    assert_int_equal(nbx_session_run(session, &x, 1, results, 8, NULL), NBX_ERROR_ARGUMENT);
    nbx_clear_error(ctx);
}

static void run_program(nbx_context *ctx, const char *name, int steps) {
    nbx_program *p = load(ctx, name, false, NBX_OK);
    nbx_session *session;
    assert_int_equal(nbx_session_create(ctx, p, &session), NBX_OK);
    null_is_refused(ctx, session);
    for (int step = 0; step < steps || step == 0; step++) run_step(ctx, session, name, steps ? step : -1);
    nbx_session_destroy(session);
    nbx_program_destroy(p);
}

static void operators_that_are_missing_are_named_with_their_lines(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    load(ctx, "library_functional_core", false, NBX_ERROR_UNSUPPORTED);
    assert_non_null(strstr(nbx_last_message(ctx), "testprograms.scale_into.default: unknown operator (2 times)"));
    assert_non_null(strstr(nbx_last_message(ctx), "testprograms.bump.default: unknown operator"));
    nbx_clear_error(ctx);
    load(ctx, "library_effects_core", false, NBX_ERROR_UNSUPPORTED);
    assert_non_null(strstr(nbx_last_message(ctx), "zoo_higher.py:"));
    nbx_context_destroy(ctx);
}

static void operators_of_a_library_run(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    register_all(ctx);
    run_program(ctx, "library_functional", 2);
    run_program(ctx, "library_functional_core", 2);
    run_program(ctx, "library_effects", 0);
    run_program(ctx, "library_effects_core", 0);
    nbx_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_that_are_missing_are_named_with_their_lines),
        cmocka_unit_test(operators_of_a_library_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

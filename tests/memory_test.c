// Programs made for it, loaded and run while every allocation fails in turn: each time an answer (an error, or results where one
// could do without), nothing lost, and the same context runs the program afterwards.
#include "core/memory.h"
#include "nbx/nbx.h"
#include "support/maker.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { COUNT = 6, MOST_ALLOCATIONS = 20000 };
static const int64_t shape[2] = {2, 3};
static const float numbers[COUNT] = {1, -2, 3, -4, 5, -6};

static maker_text constants_and_views(void) {
    program_maker m = {0};
    program_maker_weight(&m, "w", 7, "2,3", numbers, sizeof numbers);
    program_maker_input(&m, "x", 7, "2,3");
    program_maker_node(&m, "torch.ops.aten.mul.Tensor", "twice", "self=w other=2.0");
    program_maker_node(&m, "torch.ops.aten.add.Tensor", "sum", "self=x other=twice");
    program_maker_node(&m, "torch.ops.aten.view.default", "flat", "self=sum size=[6]");
    program_maker_node(&m, "torch.ops.aten.relu.default", "r", "self=flat");
    program_maker_node(&m, "torch.ops.aten.view.default", "y", "self=r size=[2,3]");
    program_maker_output(&m, "y", 7, "2,3");
    return program_maker_finish(&m);
}

static maker_text state(void) {
    program_maker m = {0};
    program_maker_weight(&m, "b", 7, "2,3", numbers, sizeof numbers);
    program_maker_input(&m, "x", 7, "2,3");
    program_maker_node(&m, "torch.ops.aten.add.Tensor", "next", "self=b other=x");
    program_maker_node(&m, "torch.ops.aten.softmax.int", "y", "self=next dim=-1");
    program_maker_mutation(&m, "next", "b", 7, "2,3");
    program_maker_output(&m, "y", 7, "2,3");
    return program_maker_finish(&m);
}

static maker_text lists_and_symbols(void) {
    program_maker m = {0};
    program_maker_weight(&m, "w", 7, "3,3", (const float[9]){1, 2, 3, 4, 5, 6, 7, 8, 9}, 9 * sizeof(float));
    program_maker_input(&m, "x", 7, "s0,3");
    program_maker_node(&m, "torch.ops.aten.split.Tensor", "[a b]", "self=x split_size=2 dim=1");
    program_maker_node(&m, "torch.ops.aten.cat.default", "c", "tensors=(b,a) dim=1");
    program_maker_node(&m, "torch.ops.aten.mm.default", "p", "self=c mat2=w");
    program_maker_node(&m, "torch.ops.aten.layer_norm.default", "y", "input=p normalized_shape=[3]");
    program_maker_output(&m, "y", 7, "s0,3");
    return program_maker_finish(&m);
}

static nbx_status load_and_run(nbx_context *ctx, const maker_text *file) {
    nbx_program *p = NULL;
    nbx_session *session = NULL;
    nbx_value output;
    const nbx_scope scope = nbx_scope_open(ctx);
    const nbx_tensor *x = nbx_tensor_from_host(ctx, NBX_FLOAT32, 2, shape, numbers);
    nbx_status status = x ? nbx_program_load_memory(ctx, "made", file->bytes, file->count, NULL, &p) : nbx_last_status(ctx);
    if (status == NBX_OK) status = nbx_session_create(ctx, p, &session);
    const nbx_value input = nbx_of_tensor(x);
    for (int i = 0; i < 3 && status == NBX_OK; i++) status = nbx_session_run(session, &input, 1, &output, 1, NULL);
    nbx_session_destroy(session);
    nbx_program_destroy(p);
    nbx_scope_close(ctx, scope, NULL);
    return status;
}

// Whether the allocation that was to fail was never asked for.
static bool limit_left(long limit) {
    for (long i = 0; i <= limit; i++) {
        void *p = nbx_alloc(1);
        if (!p) return true;
        nbx_free(p);
    }
    return false;
}

static void every_allocation(maker_text (*make)(void)) {
    const nbx_options options = {.threads = 1};
    nbx_context *ctx = nbx_context_create(&options);
    maker_text file = make();
    if (load_and_run(ctx, &file) != NBX_OK) fail_msg("%s", nbx_last_message(ctx));  // what is made once and kept is there now
    bool done = false;
    for (long n = 0; !done; n++) {
        long before = nbx_alloc_count();
        assert_true(n < MOST_ALLOCATIONS);
        nbx_alloc_fail_after(n);
        const nbx_status status = load_and_run(ctx, &file);
        done = status == NBX_OK && limit_left(n);
        nbx_alloc_fail_after(-1);
        if (status != NBX_OK && (status != NBX_ERROR_MEMORY || !nbx_last_message(ctx)[0]))
            fail_msg("allocation %ld fails: status %d: %s", n, (int)status, nbx_last_message(ctx));
        nbx_clear_error(ctx);
        if (load_and_run(ctx, &file) != NBX_OK) fail_msg("after allocation %ld failed: %s", n, nbx_last_message(ctx));
        // A context's list of tensors may have grown; a leak grows each time.
        if (nbx_alloc_count() == before) continue;
        before = nbx_alloc_count();
        nbx_alloc_fail_after(n);
        (void)load_and_run(ctx, &file);
        nbx_alloc_fail_after(-1);
        nbx_clear_error(ctx);
        if (nbx_alloc_count() > before) fail_msg("allocation %ld fails: %ld blocks are lost", n, nbx_alloc_count() - before);
    }
    nbx_context_destroy(ctx);
    maker_free(&file);
}

static void programs_of_constants_and_views(void **unused) { (void)unused, every_allocation(constants_and_views); }
static void programs_with_state(void **unused) { (void)unused, every_allocation(state); }
static void programs_of_lists_and_symbols(void **unused) { (void)unused, every_allocation(lists_and_symbols); }

static void a_context(void **unused) {
    (void)unused;
    nbx_context *ctx = NULL;
    for (long n = 0; !ctx; n++) {
        const long before = nbx_alloc_count();
        nbx_alloc_fail_after(n);
        ctx = nbx_context_create(NULL);
        nbx_alloc_fail_after(-1);
        if (!ctx) assert_int_equal(nbx_alloc_count(), before);
        assert_true(n < MOST_ALLOCATIONS);
    }
    nbx_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context),
        cmocka_unit_test(programs_of_constants_and_views),
        cmocka_unit_test(programs_with_state),
        cmocka_unit_test(programs_of_lists_and_symbols),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Passes and plans of programs made for it: what is folded, dropped and planned, and that results stay what they were.
#include "core/memory.h"
#include "nbx/extension.h"
#include "nbx/nbx.h"
#include "support/maker.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static nbx_context *new_context(void) {
    nbx_context *ctx = nbx_context_create(NULL);
    assert_non_null(ctx);
    return ctx;
}

static nbx_program *load(nbx_context *ctx, const maker_text *file, const char *without) {
    const nbx_program_options options = {.without = without};
    nbx_program *p = NULL;
    if (nbx_program_load_memory(ctx, "made", file->bytes, file->count, &options, &p) != NBX_OK) fail_msg("%s", nbx_last_message(ctx));
    return p;
}

static int commands_of(nbx_context *ctx, const nbx_program *p) {
    nbx_program_plan plan;
    assert_int_equal(nbx_program_plan_memory(ctx, p, NULL, 0, &plan), NBX_OK);
    return plan.commands;
}

static void run(nbx_context *ctx, nbx_program *p, int rank, const int64_t *shape, const float *x, float *y) {
    nbx_session *session;
    nbx_value output;
    assert_int_equal(nbx_session_create(ctx, p, &session), NBX_OK);
    const nbx_scope scope = nbx_scope_open(ctx);
    const nbx_value input = nbx_of_tensor(nbx_tensor_from_host(ctx, NBX_FLOAT32, rank, shape, x));
    for (int i = 0; i < 2; i++)  // the second time from the plan
        if (nbx_session_run(session, &input, 1, &output, 1, NULL) != NBX_OK) fail_msg("%s", nbx_last_message(ctx));
    assert_int_equal(nbx_tensor_read(ctx, output.as.tensor, y), NBX_OK);
    nbx_scope_close(ctx, scope, NULL);
    nbx_session_destroy(session);
}

// -------------------------------------------------------------------------------------------------------- fold and dead
static void constants_are_folded_and_dead_nodes_dropped(void **state) {
    (void)state;
    const float w[4] = {1, 2, 3, 4}, x[4] = {10, 20, 30, 40};
    program_maker m = {0};
    program_maker_weight(&m, "w", 7, "4", w, sizeof w);
    program_maker_input(&m, "x", 7, "4");
    program_maker_node(&m, "torch.ops.aten.mul.Tensor", "twice", "self=w other=2.0");
    program_maker_node(&m, "torch.ops.aten.exp.default", "unread", "self=x");
    program_maker_node(&m, "torch.ops.aten.neg.default", "unread_too", "self=unread");
    program_maker_node(&m, "torch.ops.aten.add.Tensor", "y", "self=x other=twice");
    program_maker_output(&m, "y", 7, "4");
    maker_text file = program_maker_finish(&m);
    nbx_context *ctx = new_context();
    nbx_program *plain = load(ctx, &file, "fold,dead,batch_norm"), *passed = load(ctx, &file, NULL);
    float y[4];
    assert_int_equal(commands_of(ctx, plain), 4);
    assert_int_equal(commands_of(ctx, passed), 1);
    run(ctx, passed, 1, (int64_t[]){4}, x, y);
    for (int i = 0; i < 4; i++) assert_true(y[i] == x[i] + 2 * w[i]);
    nbx_program_destroy(plain);
    nbx_program_destroy(passed);
    nbx_context_destroy(ctx);
    maker_free(&file);
}

// What is written into, or handed to the caller who may write into it, is made anew in every run.
static void written_and_returned_constants_are_not_folded(void **state) {
    (void)state;
    const float w[2] = {1, 2}, x[2] = {10, 20};
    program_maker m = {0};
    program_maker_weight(&m, "w", 7, "2", w, sizeof w);
    program_maker_input(&m, "x", 7, "2");
    program_maker_node(&m, "torch.ops.aten.mul.Tensor", "sum", "self=w other=2.0");
    program_maker_node(&m, "torch.ops.aten.add_.Tensor", "sum_1", "self=sum other=x");
    program_maker_output(&m, "sum_1", 7, "2");
    maker_text file = program_maker_finish(&m);
    nbx_context *ctx = new_context();
    nbx_program *p = load(ctx, &file, NULL);
    float y[2];
    assert_int_equal(commands_of(ctx, p), 2);
    run(ctx, p, 1, (int64_t[]){2}, x, y);
    for (int i = 0; i < 2; i++) assert_true(y[i] == 2 * w[i] + x[i]);
    nbx_program_destroy(p);
    nbx_context_destroy(ctx);
    maker_free(&file);
}

// ---------------------------------------------------------------------------------------------------------- batch norm
enum { IN = 3, OUT = 5, SIZE = 4 };

static void fill(float *x, int count, float from, float step) {
    for (int i = 0; i < count; i++) x[i] = from + step * (float)((i * 37) % 23);
}

// shared: something else reads the convolution's weight.
static maker_text conv_and_norm(bool shared) {
    float w[OUT * IN * 9], b[OUT], gamma[OUT], beta[OUT], mean[OUT], var[OUT];
    fill(w, OUT * IN * 9, -1, 0.1f);
    fill(b, OUT, -0.5f, 0.05f);
    fill(gamma, OUT, 0.5f, 0.07f);
    fill(beta, OUT, -1, 0.09f);
    fill(mean, OUT, -0.3f, 0.04f);
    fill(var, OUT, 0.2f, 0.11f);
    program_maker m = {0};
    program_maker_weight(&m, "w", 7, "5,3,3,3", w, sizeof w);
    program_maker_weight(&m, "b", 7, "5", b, sizeof b);
    program_maker_weight(&m, "gamma", 7, "5", gamma, sizeof gamma);
    program_maker_weight(&m, "beta", 7, "5", beta, sizeof beta);
    program_maker_weight(&m, "mean", 7, "5", mean, sizeof mean);
    program_maker_weight(&m, "var", 7, "5", var, sizeof var);
    program_maker_input(&m, "x", 7, "1,3,4,4");
    program_maker_node(&m, "torch.ops.aten.conv2d.default", "conv", "input=x weight=w bias=b padding=[1,1]");
    program_maker_node(&m, "torch.ops.aten.batch_norm.default", "norm",
                       "input=conv weight=gamma bias=beta running_mean=mean running_var=var training=false momentum=0.1 eps=0.001 cudnn_enabled=true");
    if (shared) {
        program_maker_node(&m, "torch.ops.aten.conv2d.default", "again", "input=x weight=w bias=b padding=[1,1]");
        program_maker_node(&m, "torch.ops.aten.add.Tensor", "y", "self=norm other=again");
    }
    program_maker_output(&m, shared ? "y" : "norm", 7, "1,5,4,4");
    return program_maker_finish(&m);
}

static void compare_norms(bool shared, bool folded) {
    maker_text file = conv_and_norm(shared);
    nbx_context *ctx = new_context();
    nbx_program *plain = load(ctx, &file, "batch_norm"), *passed = load(ctx, &file, NULL);
    float x[IN * SIZE * SIZE], want[OUT * SIZE * SIZE], found[OUT * SIZE * SIZE], largest = 0;
    fill(x, IN * SIZE * SIZE, -2, 0.17f);
    assert_int_equal(commands_of(ctx, plain) - commands_of(ctx, passed), folded ? 1 : 0);
    run(ctx, plain, 4, (int64_t[]){1, IN, SIZE, SIZE}, x, want);
    run(ctx, passed, 4, (int64_t[]){1, IN, SIZE, SIZE}, x, found);
    for (int i = 0; i < OUT * SIZE * SIZE; i++) largest = fmaxf(largest, fabsf(want[i]));
    for (int i = 0; i < OUT * SIZE * SIZE; i++) assert_true(fabsf(want[i] - found[i]) <= 1e-6f * largest);
    nbx_program_destroy(plain);
    nbx_program_destroy(passed);
    nbx_context_destroy(ctx);
    maker_free(&file);
}

static void batch_norm_is_folded_into_its_convolution(void **state) {
    (void)state;
    compare_norms(false, true);
}

static void shared_weights_are_not_folded(void **state) {
    (void)state;
    compare_norms(true, false);
}

// ----------------------------------------------------------------------------------------------------------- epilogues
typedef struct conv_case {
    int in, out, groups, kernel, stride, size;
    bool heavy;  // steps that are more than an addition and a clamping are joined, too
} conv_case;

static const conv_case conv_cases[] = {
    {16, 24, 1, 3, 1, 9, true},      // channels in the lanes
    {40, 64, 1, 1, 1, 5, true},      // the same of gathered positions
    {20, 17, 1, 1, 1, 13, false},    // rows of the input where they lie
    {3, 7, 1, 3, 2, 21, false},      // expanded rows
    {2, 7, 1, 3, 1, 570, true},      // the same, past the caches
    {4, 15, 1, 1, 1, 390, true},
    {20, 20, 20, 3, 1, 23, false},   // depthwise, by rows
    {24, 24, 24, 3, 1, 7, false},    // by channels
    {36, 36, 36, 5, 1, 242, true},
};

// first = sigmoid(conv(x)), y = step(conv(x) + first): `step` and the sigmoid are joined or not, the addition always is.
static maker_text conv_and_steps(const conv_case *c, const char *step, const char *arguments, float *x, int *outputs) {
    const int per = c->in / c->groups, area = c->kernel * c->kernel, size = (c->size + 2 * (c->kernel / 2) - c->kernel) / c->stride + 1;
    static float w[64 * 64 * 9], b[64];
    char text[160], shape[64];
    fill(w, c->out * per * area, -1, 0.09f);
    fill(b, c->out, -0.5f, 0.05f);
    fill(x, c->in * c->size * c->size, -2, 0.17f);
    x[7] = -INFINITY;  // no NaN: which of two an addition keeps is the compiler's choice
    program_maker m = {0};
    snprintf(shape, sizeof shape, "%d,%d,%d,%d", c->out, per, c->kernel, c->kernel);
    program_maker_weight(&m, "w", 7, shape, w, sizeof *w * (size_t)(c->out * per * area));
    snprintf(shape, sizeof shape, "%d", c->out);
    program_maker_weight(&m, "b", 7, shape, b, sizeof *b * (size_t)c->out);
    snprintf(shape, sizeof shape, "1,%d,%d,%d", c->in, c->size, c->size);
    program_maker_input(&m, "x", 7, shape);
    snprintf(text, sizeof text, "input=x weight=w bias=b stride=[%d,%d] padding=[%d,%d] groups=%d", c->stride, c->stride, c->kernel / 2, c->kernel / 2, c->groups);
    program_maker_node(&m, "torch.ops.aten.conv2d.default", "one", text);
    program_maker_node(&m, "torch.ops.aten.sigmoid.default", "first", "self=one");
    program_maker_node(&m, "torch.ops.aten.conv2d.default", "two", text);
    program_maker_node(&m, "torch.ops.aten.add.Tensor", "sum", "self=two other=first");
    program_maker_node(&m, step, "y", arguments);
    *outputs = c->out * size * size;
    snprintf(shape, sizeof shape, "1,%d,%d,%d", c->out, size, size);
    program_maker_output(&m, "y", 7, shape);
    return program_maker_finish(&m);
}

static void compare_steps(const conv_case *c, const char *step, const char *arguments, bool heavy) {
    enum { MOST = 2400000 };
    float *x = nbx_alloc(sizeof *x * MOST), *want = nbx_alloc(sizeof *x * MOST), *found = nbx_alloc(sizeof *x * MOST);
    int outputs;
    maker_text file = conv_and_steps(c, step, arguments, x, &outputs);
    nbx_context *ctx = new_context();
    nbx_program *plain = load(ctx, &file, "epilogue"), *passed = load(ctx, &file, NULL);
    assert_int_equal(commands_of(ctx, plain), 5);
    assert_int_equal(commands_of(ctx, passed), c->heavy ? 2 : heavy ? 4 : 3);
    run(ctx, plain, 4, (int64_t[]){1, c->in, c->size, c->size}, x, want);
    setenv("NBX_VERIFY_REPLAY", "1", 1);
    run(ctx, passed, 4, (int64_t[]){1, c->in, c->size, c->size}, x, found);
    unsetenv("NBX_VERIFY_REPLAY");
    assert_memory_equal(want, found, sizeof *x * (size_t)outputs);
    nbx_program_destroy(plain);
    nbx_program_destroy(passed);
    nbx_context_destroy(ctx);
    maker_free(&file);
    nbx_free(x);
    nbx_free(want);
    nbx_free(found);
}

static void elementwise_calls_join_a_convolution(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof conv_cases / sizeof *conv_cases; i++) {
        compare_steps(&conv_cases[i], "torch.ops.aten.relu.default", "self=sum", false);
        compare_steps(&conv_cases[i], "torch.ops.aten.hardtanh.default", "self=sum min_val=-0.5 max_val=0.25", false);
        compare_steps(&conv_cases[i], "torch.ops.aten.relu_.default", "self=sum", false);
        compare_steps(&conv_cases[i], "torch.ops.aten.silu.default", "self=sum", true);
    }
}

// A small product takes any step along; one whose result something else reads, or is a result of the program, does not.
static void what_others_read_is_not_joined(void **state) {
    (void)state;
    float w[6 * 4], x[3 * 4], want[3 * 6], found[3 * 6];
    fill(w, 6 * 4, -1, 0.1f);
    fill(x, 3 * 4, -1, 0.2f);
    for (int i = 0; i < 3; i++) {
        program_maker m = {0};
        program_maker_weight(&m, "w", 7, "6,4", w, sizeof w);
        program_maker_input(&m, "x", 7, "3,4");
        program_maker_node(&m, "torch.ops.aten.linear.default", "product", "input=x weight=w");
        program_maker_node(&m, "torch.ops.aten.tanh.default", "y", "self=product");
        if (i == 1) program_maker_node(&m, "torch.ops.aten.mul.Tensor", "z", "self=y other=product");
        program_maker_output(&m, i == 1 ? "z" : "y", 7, "3,6");
        if (i == 2) program_maker_output(&m, "product", 7, "3,6");
        maker_text file = program_maker_finish(&m);
        nbx_context *ctx = new_context();
        nbx_program *plain = load(ctx, &file, "epilogue"), *passed = load(ctx, &file, NULL);
        assert_int_equal(commands_of(ctx, plain) - commands_of(ctx, passed), i == 0 ? 1 : 0);
        if (i < 2) {
            run(ctx, plain, 2, (int64_t[]){3, 4}, x, want);
            run(ctx, passed, 2, (int64_t[]){3, 4}, x, found);
            assert_memory_equal(want, found, sizeof want);
        }
        nbx_program_destroy(plain);
        nbx_program_destroy(passed);
        nbx_context_destroy(ctx);
        maker_free(&file);
    }
}

// --------------------------------------------------------------------------------------------------------------- plans
static maker_text any_length(void) {
    program_maker m = {0};
    program_maker_input(&m, "x", 7, "s0");
    program_maker_node(&m, "torch.ops.aten.exp.default", "e", "self=x");
    program_maker_node(&m, "torch.ops.aten.neg.default", "y", "self=e");
    program_maker_output(&m, "y", 7, "s0");
    return program_maker_finish(&m);
}

// Twenty lengths, twice: more than are kept, so plans are made, used, forgotten and made again; memory does not grow.
static void plans_are_kept_by_shape_and_bounded(void **state) {
    (void)state;
    maker_text file = any_length();
    nbx_context *ctx = new_context();
    nbx_program *p = load(ctx, &file, NULL);
    nbx_session *session;
    assert_int_equal(nbx_session_create(ctx, p, &session), NBX_OK);
    long alive = 0;
    for (int round = 0; round < 3; round++) {
        for (int64_t n = 1; n <= 20; n++) {
            float x[20], y[20];
            fill(x, 20, -1, 0.1f);
            const nbx_scope scope = nbx_scope_open(ctx);
            const nbx_value input = nbx_of_tensor(nbx_tensor_from_host(ctx, NBX_FLOAT32, 1, &n, x));
            nbx_value output;
            assert_int_equal(nbx_session_run(session, &input, 1, &output, 1, NULL), NBX_OK);
            assert_int_equal(nbx_tensor_numel(output.as.tensor), n);
            assert_int_equal(nbx_tensor_read(ctx, output.as.tensor, y), NBX_OK);
            for (int i = 0; i < n; i++) assert_true(fabsf(y[i] + expf(x[i])) < 1e-5f);
            nbx_scope_close(ctx, scope, NULL);
        }
        if (round == 1) alive = nbx_alloc_count();
    }
    assert_int_equal(nbx_alloc_count(), alive);
    nbx_session_destroy(session);
    nbx_program_destroy(p);
    nbx_context_destroy(ctx);
    maker_free(&file);
}

static void a_ceiling_is_kept(void **state) {
    (void)state;
    maker_text file = conv_and_norm(false);
    nbx_context *ctx = new_context();
    nbx_program *p = load(ctx, &file, NULL);
    nbx_program_plan plan;
    assert_int_equal(nbx_program_plan_memory(ctx, p, NULL, 0, &plan), NBX_OK);
    assert_int_equal(plan.peak_bytes, plan.weight_bytes + plan.state_bytes + plan.arena_bytes);
    assert_true(plan.weight_bytes > 0 && plan.arena_bytes > 0);
    nbx_program_destroy(p);
    nbx_program_options options = {.memory_ceiling = plan.peak_bytes - plan.packed_bytes};
    assert_int_equal(nbx_program_load_memory(ctx, "made", file.bytes, file.count, &options, &p), NBX_OK);
    nbx_program_destroy(p);
    options.memory_ceiling--;
    assert_int_equal(nbx_program_load_memory(ctx, "made", file.bytes, file.count, &options, &p), NBX_ERROR_MEMORY);
    assert_non_null(strstr(nbx_last_message(ctx), "largest buffers: "));
    assert_non_null(strstr(nbx_last_message(ctx), "conv"));
    nbx_context_destroy(ctx);
    maker_free(&file);
}

// ------------------------------------------------------------------------------------------------------- packed weights
static maker_text layers(void) {
    static float w[48 * 40], up[8 * 16 * 2 * 2];
    static uint16_t half[40 * 48];
    fill(w, 48 * 40, -1, 0.07f);
    fill(up, 8 * 16 * 2 * 2, -1, 0.1f);
    for (int i = 0; i < 40 * 48; i++) half[i] = (uint16_t)(0x3f00 + (i * 37) % 251);
    program_maker m = {0};
    program_maker_weight(&m, "w", 7, "48,40", w, sizeof w);
    program_maker_weight(&m, "half", 13, "40,48", half, sizeof half);
    program_maker_weight(&m, "up", 7, "8,16,2,2", up, sizeof up);
    program_maker_input(&m, "x", 7, "s0,40");
    program_maker_node(&m, "torch.ops.aten.linear.default", "wide", "input=x weight=w");
    program_maker_node(&m, "torch.ops.aten.type_as.default", "narrow", "self=wide other=half");
    program_maker_node(&m, "torch.ops.aten.linear.default", "less", "input=narrow weight=half");
    program_maker_node(&m, "torch.ops.aten.type_as.default", "back", "self=less other=x");
    program_maker_node(&m, "torch.ops.aten.view.default", "image", "self=back size=[-1,8,5,1]");
    program_maker_node(&m, "torch.ops.aten.conv_transpose2d.input", "y", "input=image weight=up stride=[2,2]");
    program_maker_output(&m, "y", 7, "s0,16,10,2");
    return program_maker_finish(&m);
}

// The bits of all runs of a plan are the same: the first, before weights are packed, and later ones; with one plan and several.
static void packed_weights_change_no_bits(void **state) {
    (void)state;
    enum { MOST = 20, COUNT = 16 * 10 * 2 };
    maker_text file = layers();
    nbx_context *ctx = new_context();
    nbx_program *p = load(ctx, &file, NULL);
    nbx_program_plan plan;
    nbx_session *session;
    static float x[MOST * 40], y[3][MOST * COUNT];
    fill(x, MOST * 40, -1, 0.1f);
    assert_int_equal(nbx_program_plan_memory(ctx, p, NULL, 0, &plan), NBX_OK);
    assert_true(plan.packed_bytes >= 48 * 40 * 4 + 8 * 16 * 4 * 4);  // 40 columns would not fill two panels of 32
    assert_int_equal(nbx_session_create(ctx, p, &session), NBX_OK);
    for (int rows = 2; rows <= MOST; rows += 9)
        for (int i = 0; i < 3; i++) {
            const nbx_scope scope = nbx_scope_open(ctx);
            const nbx_value input = nbx_of_tensor(nbx_tensor_from_host(ctx, NBX_FLOAT32, 2, (int64_t[]){rows, 40}, x));
            nbx_value output;
            if (nbx_session_run(session, &input, 1, &output, 1, NULL) != NBX_OK) fail_msg("%s", nbx_last_message(ctx));
            assert_int_equal(nbx_tensor_read(ctx, output.as.tensor, y[i]), NBX_OK);
            assert_memory_equal(y[i], y[0], (size_t)rows * COUNT * sizeof(float));
            nbx_scope_close(ctx, scope, NULL);
        }
    nbx_session_destroy(session);
    nbx_program_destroy(p);
    nbx_context_destroy(ctx);
    maker_free(&file);
}

// Where the ceiling leaves no room the weights are used as they lie.
static void packed_weights_keep_the_ceiling(void **state) {
    (void)state;
    maker_text file = layers();
    nbx_context *ctx = new_context();
    nbx_program *p = load(ctx, &file, NULL);
    nbx_program_plan plan;
    static float x[2 * 40], y[2 * 16 * 10 * 2];
    assert_int_equal(nbx_program_plan_memory(ctx, p, NULL, 0, &plan), NBX_OK);
    nbx_program_destroy(p);
    const nbx_program_options options = {.memory_ceiling = plan.peak_bytes - 1};
    assert_int_equal(nbx_program_load_memory(ctx, "made", file.bytes, file.count, &options, &p), NBX_OK);
    assert_int_equal(nbx_program_plan_memory(ctx, p, NULL, 0, &plan), NBX_OK);
    assert_int_equal(plan.packed_bytes, 0);
    assert_true(plan.peak_bytes <= options.memory_ceiling);
    run(ctx, p, 2, (int64_t[]){2, 40}, x, y);
    nbx_program_destroy(p);
    nbx_context_destroy(ctx);
    maker_free(&file);
}

// ---------------------------------------------------------------------------------------------------------- comparison
static float next_number = 1;

static nbx_status infer_counter(nbx_op_call *c) {
    return nbx_call_new_result(c, 0, NBX_FLOAT32, nbx_tensor_rank(nbx_call_tensor(c, 0)), nbx_tensor_shape(nbx_call_tensor(c, 0)));
}

static nbx_status counter(nbx_op_call *c) {
    float *y = nbx_tensor_data(nbx_call_result(c, 0));
    for (int64_t i = 0; i < nbx_tensor_numel(nbx_call_result(c, 0)); i++) y[i] = next_number++;
    return NBX_OK;
}

static nbx_status run_watched(nbx_context *ctx, const char *target, const char *arguments) {
    program_maker m = {0};
    program_maker_input(&m, "x", 7, "2");
    program_maker_node(&m, target, "y", arguments);
    program_maker_output(&m, "y", 7, "2");
    maker_text file = program_maker_finish(&m);
    const float x[2] = {1, 2};
    nbx_program *p = load(ctx, &file, NULL);
    nbx_session *session;
    nbx_value output;
    setenv("NBX_VERIFY_REPLAY", "1", 1);
    assert_int_equal(nbx_session_create(ctx, p, &session), NBX_OK);
    unsetenv("NBX_VERIFY_REPLAY");
    const nbx_scope scope = nbx_scope_open(ctx);
    const nbx_value input = nbx_of_tensor(nbx_tensor_from_host(ctx, NBX_FLOAT32, 1, (int64_t[]){2}, x));
    const nbx_status status = nbx_session_run(session, &input, 1, &output, 1, NULL);
    nbx_scope_close(ctx, scope, NULL);
    nbx_session_destroy(session);
    nbx_program_destroy(p);
    maker_free(&file);
    return status;
}

static void replays_are_compared_on_demand(void **state) {
    (void)state;
    nbx_context *ctx = new_context();
    const nbx_operator_definition definition = {.schema = "testlib::counter(Tensor x) -> Tensor", .infer = infer_counter, .cpu = counter};
    assert_int_equal(nbx_operator_register(ctx, &definition), NBX_OK);
    assert_int_equal(run_watched(ctx, "torch.ops.aten.exp.default", "self=x"), NBX_OK);
    assert_int_equal(run_watched(ctx, "torch.ops.aten.bernoulli.p", "self=x p=0.5"), NBX_OK);  // the generator is put back
    assert_int_equal(run_watched(ctx, "torch.ops.testlib.counter.default", "x=x"), NBX_ERROR_INTERNAL);
    assert_non_null(strstr(nbx_last_message(ctx), "another result 0 than a direct run"));
    nbx_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_are_folded_and_dead_nodes_dropped),
        cmocka_unit_test(written_and_returned_constants_are_not_folded),
        cmocka_unit_test(batch_norm_is_folded_into_its_convolution),
        cmocka_unit_test(shared_weights_are_not_folded),
        cmocka_unit_test(elementwise_calls_join_a_convolution),
        cmocka_unit_test(what_others_read_is_not_joined),
        cmocka_unit_test(plans_are_kept_by_shape_and_bounded),
        cmocka_unit_test(packed_weights_change_no_bits),
        cmocka_unit_test(packed_weights_keep_the_ceiling),
        cmocka_unit_test(a_ceiling_is_kept),
        cmocka_unit_test(replays_are_compared_on_demand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

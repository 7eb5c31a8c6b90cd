// Devices: what is said of those that are not there; where there is a GPU, what PyTorch draws on one, and bad input.
#include "core/context.h"
#include "core/tensor.h"
#include "nbx/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const nbx_device gpu = {NBX_CUDA, 0};

static void a_device_that_is_not_there_is_explained(void **state) {
    (void)state;
    assert_null(nbx_device_problem((nbx_device){NBX_CPU, 0}));
    assert_int_equal(nbx_device_problem(gpu) == NULL, nbx_device_count(NBX_CUDA) > 0);
    const nbx_device absent[] = {{NBX_CUDA, 4711}, {NBX_CUDA, -1}, {17, 0}};
    for (int i = 0; i < 3; i++) {
        const nbx_options options = {.device = absent[i]};
        assert_non_null(nbx_device_problem(absent[i]));
        assert_null(nbx_context_create(&options));
    }
    nbx_context *ctx = nbx_context_create(NULL);
    const int64_t shape[] = {3};
    assert_null(nbx_tensor_create_strided(ctx, absent[0], NBX_FLOAT32, 1, shape, NULL));
    assert_int_not_equal(nbx_last_status(ctx), NBX_OK);
    nbx_context_destroy(ctx);
}

static void host_memory_is_none_of_a_gpu(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    const int64_t shape[] = {3};
    static float values[3];
    assert_null(nbx_tensor_wrap(ctx, gpu, NBX_FLOAT32, 1, shape, NULL, values, sizeof values, NULL, NULL));
    assert_int_equal(nbx_last_status(ctx), NBX_ERROR_DEVICE);
    nbx_context_destroy(ctx);
}

// A context on a GPU; without one the case is skipped.
static nbx_context *on_gpu(void) {
    if (nbx_device_problem(gpu)) skip();
    const nbx_options options = {.device = gpu};
    nbx_context *ctx = nbx_context_create(&options);
    assert_non_null(ctx);
    return ctx;
}

static void draw(nbx_context *ctx, const char *name, nbx_value argument, int64_t count, void *numbers) {
    nbx_value y;
    nbx_manual_seed(ctx, 0);
    assert_int_equal(nbx_call(ctx, name, &argument, 1, NULL, 0, &y, 1, NULL), NBX_OK);
    assert_int_equal(nbx_tensor_numel(y.as.tensor), count);
    assert_int_equal(nbx_tensor_read(ctx, y.as.tensor, numbers), NBX_OK);
}

static void seeds_give_what_pytorch_draws_on_a_gpu(void **state) {
    (void)state;
    nbx_context *ctx = on_gpu();
    const float uniform[] = {0.3990f, 0.5167f, 0.0249f, 0.9401f, 0.9459f, 0.7967f, 0.4150f, 0.8203f};  // torch.manual_seed(0)
    const float normal[] = {-0.9247f, -0.4253f, -2.6438f, 0.1452f, -0.1209f, -0.5797f, -0.6229f, -0.3284f};
    const int64_t shape[] = {8};
    float found[8];
    draw(ctx, "aten::rand", nbx_of_ints(shape, 1), 8, found);
    for (int i = 0; i < 8; i++) assert_true(fabsf(found[i] - uniform[i]) < 1e-4f);
    draw(ctx, "aten::randn", nbx_of_ints(shape, 1), 8, found);
    for (int i = 0; i < 8; i++) assert_true(fabsf(found[i] - normal[i]) < 1e-4f);
    int64_t order[1000];
    bool seen[1000] = {false};
    draw(ctx, "aten::randperm", nbx_of_int(1000), 1000, order);
    for (int i = 0; i < 1000; i++) {
        assert_in_range(order[i], 0, 999);
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
    }
    nbx_context_destroy(ctx);
}

static void a_generator_of_the_cpu_gives_its_numbers_on_a_gpu(void **state) {
    (void)state;
    nbx_context *there = on_gpu(), *here = nbx_context_create(NULL);
    nbx_context *const both[] = {here, there};
    const int64_t shape[] = {33};
    float found[2][33];
    for (int i = 0; i < 2; i++) {
        nbx_generator *g = nbx_generator_create(both[i], 5);
        const nbx_value args[] = {nbx_of_ints(shape, 1), nbx_of_generator(g)};
        nbx_value y;
        assert_int_equal(nbx_call(both[i], "aten::randn.generator", args, 2, NULL, 0, &y, 1, NULL), NBX_OK);
        assert_int_equal(nbx_tensor_read(both[i], y.as.tensor, found[i]), NBX_OK);
        nbx_generator_destroy(g);
    }
    assert_memory_equal(found[0], found[1], sizeof found[0]);
    nbx_context_destroy(here);
    nbx_context_destroy(there);
}

static void a_generator_of_a_gpu_is_none_of_the_cpu(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    nbx_generator *g = nbx_generator_create_on(ctx, gpu, 5);
    uint64_t words[2] = {0}, moved[2] = {7, 12};
    assert_int_equal(nbx_generator_get_state(g, words, sizeof words), sizeof words);  // of a CUDA generator: seed, offset
    assert_int_equal(words[0], 5);
    assert_int_equal(words[1], 0);
    assert_int_equal(nbx_generator_set_state(ctx, g, moved, sizeof moved), NBX_OK);
    nbx_generator_get_state(g, words, sizeof words);
    assert_memory_equal(words, moved, sizeof words);
    const int64_t shape[] = {3};
    const nbx_value args[] = {nbx_of_ints(shape, 1), nbx_of_generator(g)};
    nbx_value y;
    assert_int_equal(nbx_call(ctx, "aten::rand.generator", args, 2, NULL, 0, &y, 1, NULL), NBX_ERROR_DEVICE);
    nbx_generator_destroy(g);
    nbx_context_destroy(ctx);
}

// Faults and refusals leave the context usable.
static void bad_input_on_a_gpu_is_an_error(void **state) {
    (void)state;
    nbx_context *ctx = on_gpu();
    const int64_t shape[] = {4}, far[] = {0, 9};
    nbx_tensor *x = nbx_zeros(ctx, NBX_FLOAT32, 1, shape), *index = nbx_tensor_from_host(ctx, NBX_INT64, 1, (int64_t[]){2}, far);
    const nbx_value args[] = {nbx_of_tensor(x), nbx_of_int(0), nbx_of_tensor(index)};
    nbx_value y;
    const nbx_status called = nbx_call(ctx, "aten::index_select", args, 3, NULL, 0, &y, 1, NULL);
    assert_int_equal(called == NBX_OK ? nbx_synchronize(ctx) : called, NBX_ERROR_INDEX);
    assert_non_null(strstr(nbx_last_message(ctx), "index_select"));
    nbx_clear_error(ctx);
    const int64_t huge[] = {(int64_t)1 << 46};
    assert_null(nbx_zeros(ctx, NBX_FLOAT32, 1, huge));
    assert_int_equal(nbx_last_status(ctx), NBX_ERROR_MEMORY);
    nbx_clear_error(ctx);
    const nbx_value sum[] = {nbx_of_tensor(x), nbx_of_tensor(x)};
    assert_int_equal(nbx_call(ctx, "aten::add.Tensor", sum, 2, NULL, 0, &y, 1, NULL), NBX_OK);
    assert_int_equal(nbx_synchronize(ctx), NBX_OK);
    nbx_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_that_is_not_there_is_explained),
        cmocka_unit_test(host_memory_is_none_of_a_gpu),
        cmocka_unit_test(seeds_give_what_pytorch_draws_on_a_gpu),
        cmocka_unit_test(a_generator_of_the_cpu_gives_its_numbers_on_a_gpu),
        cmocka_unit_test(a_generator_of_a_gpu_is_none_of_the_cpu),
        cmocka_unit_test(bad_input_on_a_gpu_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// A user's operator: registered once, called boxed, refused when it is malformed or taken.
#include "nbx/extension.h"
#include "nbx/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static nbx_status infer(nbx_op_call *c) {
    const nbx_tensor *x = nbx_call_tensor(c, 0);
    if (nbx_tensor_dtype(x) != NBX_FLOAT32) return nbx_call_fail(c, NBX_ERROR_DTYPE, "x must be float32");
    return nbx_call_new_result(c, 0, NBX_FLOAT32, nbx_tensor_rank(x), nbx_tensor_shape(x));
}

static nbx_status on_cpu(nbx_op_call *c) {
    const float *x = nbx_tensor_data(nbx_call_tensor(c, 0));
    float *y = nbx_tensor_data(nbx_call_result(c, 0));
    for (int64_t i = 0; i < nbx_tensor_numel(nbx_call_result(c, 0)); i++) y[i] = x[i] * (float)nbx_call_float(c, 1);
    return NBX_OK;
}

static nbx_status twice(nbx_op_call *c) {
    const nbx_tensor *x = nbx_call_tensor(c, 0);
    return nbx_call_set_result(c, 0, nbx_add(nbx_call_context(c), x, x));
}

static void a_kernel_and_a_composite(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    const nbx_operator_definition scale = {.schema = "testlib::scale(Tensor x, float by=2.0) -> Tensor", .infer = infer, .cpu = on_cpu};
    const nbx_operator_definition doubled = {.schema = "testlib::twice(Tensor x) -> Tensor", .composite = twice};
    assert_int_equal(nbx_operator_register(ctx, &scale), NBX_OK);
    assert_int_equal(nbx_operator_register(ctx, &doubled), NBX_OK);
    const float values[] = {1, -2, 3};
    const int64_t shape[] = {3};
    const nbx_value x = nbx_of_tensor(nbx_tensor_from_host(ctx, NBX_FLOAT32, 1, shape, values));
    nbx_value y;
    float got[3];
    assert_int_equal(nbx_call(ctx, "testlib::scale", &x, 1, NULL, 0, &y, 1, NULL), NBX_OK);
    assert_int_equal(nbx_tensor_read(ctx, y.as.tensor, got), NBX_OK);
    assert_true(got[0] == 2 && got[1] == -4 && got[2] == 6);
    assert_int_equal(nbx_call(ctx, "testlib::twice", &x, 1, NULL, 0, &y, 1, NULL), NBX_OK);
    assert_int_equal(nbx_tensor_read(ctx, y.as.tensor, got), NBX_OK);
    assert_true(got[2] == 6);

    assert_int_equal(nbx_operator_register(ctx, &scale), NBX_ERROR_ARGUMENT);
    assert_non_null(strstr(nbx_last_message(ctx), "testlib::scale"));
    nbx_clear_error(ctx);
    const nbx_operator_definition broken = {.schema = "testlib::broken(Tensor", .composite = twice};
    assert_int_equal(nbx_operator_register(ctx, &broken), NBX_ERROR_ARGUMENT);
    nbx_context_destroy(ctx);
}

static void the_name_of_the_operator_is_in_the_message(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    const int64_t shape[] = {2};
    const nbx_value x = nbx_of_tensor(nbx_tensor_create(ctx, NBX_INT64, 1, shape));
    nbx_value y;
    assert_int_equal(nbx_call(ctx, "testlib::scale", &x, 1, NULL, 0, &y, 1, NULL), NBX_ERROR_DTYPE);
    assert_string_equal(nbx_last_message(ctx), "testlib::scale: x must be float32");
    nbx_context_destroy(ctx);
}

static void what_has_code_for_a_gpu_only_is_refused_on_the_cpu(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    const nbx_operator_definition there = {.schema = "testlib::there(Tensor x) -> Tensor", .infer = infer, .cuda = on_cpu};
    assert_int_equal(nbx_operator_register(ctx, &there), NBX_OK);
    const int64_t shape[] = {2};
    const nbx_value x = nbx_of_tensor(nbx_zeros(ctx, NBX_FLOAT32, 1, shape));
    nbx_value y;
    assert_int_equal(nbx_call(ctx, "testlib::there", &x, 1, NULL, 0, &y, 1, NULL), NBX_ERROR_UNSUPPORTED);
    nbx_context_destroy(ctx);
}

static nbx_status gives_nothing(nbx_op_call *c) {
    assert_int_equal(nbx_call_argument(c, 7)->kind, NBX_KIND_NONE);
    return NBX_OK;
}
static nbx_status gives_too_many(nbx_op_call *c) { return nbx_call_new_result(c, 1000, NBX_FLOAT32, 0, NULL); }

static void mistakes_of_its_author_are_errors(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    const nbx_operator_definition mistakes[] = {
        {.schema = "testlib::nothing(Tensor x) -> Tensor", .infer = gives_nothing, .cpu = on_cpu},
        {.schema = "testlib::nothing_composed(Tensor x) -> Tensor", .composite = gives_nothing},
        {.schema = "testlib::too_many(Tensor x) -> Tensor", .infer = gives_too_many, .cpu = on_cpu},
    };
    const char *const names[] = {"testlib::nothing", "testlib::nothing_composed", "testlib::too_many"};
    const nbx_value x = nbx_of_tensor(nbx_zeros(ctx, NBX_FLOAT32, 0, NULL));
    nbx_value y;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(nbx_operator_register(ctx, &mistakes[i]), NBX_OK);
        assert_int_equal(nbx_call(ctx, names[i], &x, 1, NULL, 0, &y, 1, NULL), NBX_ERROR_ARGUMENT);
        nbx_clear_error(ctx);
    }
    const char *const schemas[] = {"", "x", "x(Tensor x) -> Tensor", "::x(Tensor x) -> Tensor", "testlib::(Tensor x) -> Tensor", "testlib::x"};
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        const nbx_operator_definition odd = {.schema = schemas[i], .composite = twice};
        assert_int_equal(nbx_operator_register(ctx, &odd), NBX_ERROR_ARGUMENT);
        nbx_clear_error(ctx);
    }
    nbx_context_destroy(ctx);
}

static void null_is_an_error(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    float element = 0;
    assert_int_equal(nbx_tensor_read(ctx, NULL, &element), NBX_ERROR_ARGUMENT);
    nbx_clear_error(ctx);
    assert_int_equal(nbx_tensor_write(ctx, NULL, &element), NBX_ERROR_ARGUMENT);
    nbx_clear_error(ctx);
    assert_null(nbx_tensor_view(ctx, NULL, NBX_FLOAT32, 0, NULL, NULL, 0));
    assert_int_equal(nbx_last_status(ctx), NBX_ERROR_ARGUMENT);
    nbx_clear_error(ctx);
    assert_null(nbx_tensor_create(ctx, NBX_FLOAT32, 2, NULL));
    assert_int_equal(nbx_last_status(ctx), NBX_ERROR_SHAPE);
    nbx_clear_error(ctx);
    assert_null(nbx_cat(ctx, 2, NULL, 0));
    assert_int_equal(nbx_last_status(ctx), NBX_ERROR_ARGUMENT);
    nbx_clear_error(ctx);
    const nbx_tensor *x = nbx_zeros(ctx, NBX_FLOAT32, 0, NULL);
    assert_int_equal(nbx_tensor_read(ctx, x, NULL), NBX_ERROR_ARGUMENT);
    nbx_value y;
    assert_int_equal(nbx_call(ctx, "aten::relu", NULL, 1, NULL, 0, &y, 1, NULL), NBX_ERROR_ARGUMENT);
    nbx_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_and_a_composite),
        cmocka_unit_test(the_name_of_the_operator_is_in_the_message),
        cmocka_unit_test(what_has_code_for_a_gpu_only_is_refused_on_the_cpu),
        cmocka_unit_test(mistakes_of_its_author_are_errors),
        cmocka_unit_test(null_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

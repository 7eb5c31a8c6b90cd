// Products whose operands and result have several dtypes.
#include "nbx/ops.h"
#include "nbx/call.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

// addmm.dtype, baddbmm.dtype: self has the dtype of the matrices or of the result.
static void self_of_either_dtype(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    const int64_t matrix[] = {2, 2}, batch[] = {1, 2, 2};
    const float numbers[] = {1, 2, 3, 4}, expected[] = {7 + 1, 10 + 2, 15 + 3, 22 + 4};
    const nbx_dtype halves[] = {NBX_FLOAT16, NBX_BFLOAT16};
    for (int batched = 0; batched < 2; batched++)
        for (int h = 0; h < 2; h++)
            for (int wide = 0; wide < 2; wide++) {
                const nbx_tensor *x = nbx_tensor_from_host(ctx, NBX_FLOAT32, 2 + batched, batched ? batch : matrix, numbers), *a = nbx_to_dtype(ctx, x, halves[h]);
                const nbx_value args[] = {nbx_of_tensor(wide ? x : a), nbx_of_tensor(a), nbx_of_tensor(a), nbx_of_dtype(NBX_FLOAT32)};
                nbx_value result;
                float found[4];
                assert_int_equal(nbx_call(ctx, batched ? "aten::baddbmm.dtype" : "aten::addmm.dtype", args, 4, NULL, 0, &result, 1, NULL), NBX_OK);
                assert_int_equal(nbx_tensor_read(ctx, result.as.tensor, found), NBX_OK);
                for (int i = 0; i < 4; i++) assert_true(found[i] == expected[i]);
            }
    nbx_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(self_of_either_dtype)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

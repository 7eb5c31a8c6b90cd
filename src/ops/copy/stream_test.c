// Results larger than the caches, which are streamed, against the same computed piece by piece.
#include "nbx/call.h"
#include "nbx/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = (66 << 20) / 4, PIECES = 9, SIDE = 4100 };

static nbx_tensor *numbers(nbx_context *ctx, nbx_dtype dtype, int64_t count) {
    nbx_tensor *t = nbx_tensor_create(ctx, NBX_FLOAT32, 1, &count);
    assert_non_null(t);
    float *x = nbx_tensor_data(t);
    for (int64_t i = 0; i < count; i++) x[i] = (float)(i * 7919 % 4001 - 2000) / 64.0f;
    return dtype == NBX_FLOAT32 ? t : nbx_to_dtype(ctx, t, dtype);
}

static nbx_tensor *call(nbx_context *ctx, const char *name, const nbx_value *args, int count) {
    nbx_value result;
    assert_int_equal(nbx_call(ctx, name, args, count, NULL, 0, &result, 1, NULL), NBX_OK);
    return (nbx_tensor *)result.as.tensor;
}

// Argument 0 (and 1 where it is a tensor) in pieces; starts off a line.
static void same_in_pieces(nbx_context *ctx, const char *name, nbx_value *args, int count) {
    const nbx_scope scope = nbx_scope_open(ctx);
    const nbx_tensor *whole[2] = {args[0].as.tensor, count > 1 && args[1].kind == NBX_KIND_TENSOR ? args[1].as.tensor : NULL};
    const int64_t n = nbx_tensor_numel(whole[0]) - 3;
    for (int k = 0; k < 2; k++)
        if (whole[k]) args[k] = nbx_of_tensor(nbx_narrow(ctx, whole[k], 0, 3, n));
    const nbx_tensor *all = call(ctx, name, args, count);
    const size_t bytes = nbx_tensor_nbytes(all) / (size_t)n;
    for (int64_t i = 0; i < PIECES; i++) {
        const nbx_scope inner = nbx_scope_open(ctx);
        const int64_t begin = n * i / PIECES, end = n * (i + 1) / PIECES;
        for (int k = 0; k < 2; k++)
            if (whole[k]) args[k] = nbx_of_tensor(nbx_narrow(ctx, whole[k], 0, 3 + begin, end - begin));
        const nbx_tensor *part = call(ctx, name, args, count);
        assert_memory_equal((const char *)nbx_tensor_data(all) + (size_t)begin * bytes, nbx_tensor_data(part), (size_t)(end - begin) * bytes);
        nbx_scope_close(ctx, inner, NULL);
    }
    nbx_scope_close(ctx, scope, NULL);
}

static void elementwise_and_casts(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    nbx_tensor *x = numbers(ctx, NBX_FLOAT32, COUNT), *half = numbers(ctx, NBX_BFLOAT16, 2 * COUNT);
    same_in_pieces(ctx, "aten::exp", (nbx_value[]){nbx_of_tensor(x)}, 1);
    same_in_pieces(ctx, "aten::add.Tensor", (nbx_value[]){nbx_of_tensor(x), nbx_of_tensor(x)}, 2);
    same_in_pieces(ctx, "aten::mul.Tensor", (nbx_value[]){nbx_of_tensor(half), nbx_of_tensor(half)}, 2);
    same_in_pieces(ctx, "aten::clone", (nbx_value[]){nbx_of_tensor(half)}, 1);
    same_in_pieces(ctx, "aten::_to_copy", (nbx_value[]){nbx_of_tensor(half), nbx_of_dtype(NBX_FLOAT32)}, 2);
    same_in_pieces(ctx, "aten::_to_copy", (nbx_value[]){nbx_of_tensor(x), nbx_of_dtype(NBX_INT64)}, 2);
    nbx_context_destroy(ctx);
}

static void turned(nbx_context *ctx, nbx_dtype dtype, size_t bytes) {
    const nbx_scope scope = nbx_scope_open(ctx);
    const int64_t rows = SIDE + 3, columns = bytes == 1 ? 4 * SIDE : SIDE;
    const nbx_tensor *x = nbx_view(ctx, numbers(ctx, dtype, rows * columns), 2, (int64_t[]){rows, columns});
    const nbx_tensor *y = nbx_contiguous(ctx, nbx_t(ctx, x));
    const char *from = nbx_tensor_data(x), *to = nbx_tensor_data(y);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += 1 + (i & 7))
            if (memcmp(from + (size_t)(i * columns + j) * bytes, to + (size_t)(j * rows + i) * bytes, bytes) != 0) fail_msg("element %lld, %lld", (long long)i, (long long)j);
    nbx_scope_close(ctx, scope, NULL);
}

// Every number of 16 bits, more than a million of them, is looked up in a table; in pieces each is computed.
static void tables(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    const int64_t count = 9 * 131072 + 3;
    for (int k = 0; k < 2; k++) {
        nbx_tensor *x = nbx_tensor_create(ctx, k ? NBX_FLOAT16 : NBX_BFLOAT16, 1, &count);
        assert_non_null(x);
        for (int64_t i = 0; i < count; i++) ((uint16_t *)nbx_tensor_data(x))[i] = (uint16_t)(i * 40503);
        same_in_pieces(ctx, "aten::silu", (nbx_value[]){nbx_of_tensor(x)}, 1);
        same_in_pieces(ctx, "aten::sin", (nbx_value[]){nbx_of_tensor(x)}, 1);
        same_in_pieces(ctx, "aten::gelu", (nbx_value[]){nbx_of_tensor(x), nbx_of_string("tanh")}, 2);
        const nbx_tensor *apart = call(ctx, "aten::erf", (nbx_value[]){nbx_of_tensor(x)}, 1);
        call(ctx, "aten::erf_", (nbx_value[]){nbx_of_tensor(x)}, 1);
        assert_memory_equal(nbx_tensor_data(apart), nbx_tensor_data(x), nbx_tensor_nbytes(x));
    }
    nbx_context_destroy(ctx);
}

static void transposes(void **state) {
    (void)state;
    nbx_context *ctx = nbx_context_create(NULL);
    turned(ctx, NBX_INT8, 1);
    turned(ctx, NBX_FLOAT16, 2);
    turned(ctx, NBX_FLOAT32, 4);
    turned(ctx, NBX_FLOAT64, 8);
    nbx_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(elementwise_and_casts), cmocka_unit_test(tables), cmocka_unit_test(transposes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

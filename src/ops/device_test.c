// Devices: what is said of those that are not there; where there is a GPU, what PyTorch draws on one, and bad input.
#include "core/context.h"
#include "core/tensor.h"
#include "nbx/ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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

// ---------------------------------------------------------------------------------------------------------- long rows
// Rows that clusters hold, rows in parts, tiles: what the small cases of the golden files do not reach.
enum { SOFTMAX, LOG_SOFTMAX, GROUP_NORM, CUMSUM, TOPK, TOPK_PLACES, SORT, SORT_PLACES, ARGMAX, TRANSPOSED, COLUMNS, NONZERO, WORKS };

static nbx_tensor *long_work(nbx_context *ctx, int work, const nbx_tensor *x) {
    const int64_t n = nbx_tensor_size(x, 1), folded[] = {1, 2, n}, table[] = {n / 40, 80}, first = 0;
    nbx_tensor *values = NULL, *places = NULL;
    switch (work) {
    case SOFTMAX: return nbx_softmax(ctx, x, -1);
    case LOG_SOFTMAX: return nbx_log_softmax(ctx, x, -1);
    case GROUP_NORM: return nbx_group_norm(ctx, nbx_reshape(ctx, x, 3, folded), 2, NBX_NONE, NBX_NONE, 1e-5);
    case CUMSUM: return nbx_cumsum(ctx, x, -1);
    case TOPK:
    case TOPK_PLACES: return nbx_topk(ctx, x, 50, -1, &values, &places) == NBX_OK ? work == TOPK ? values : places : NULL;
    case SORT:
    case SORT_PLACES: return nbx_sort(ctx, x, -1, true, &values, &places) == NBX_OK ? work == SORT ? values : places : NULL;
    case ARGMAX: return nbx_argmax(ctx, x, -1, false);
    case TRANSPOSED: return nbx_contiguous(ctx, nbx_t(ctx, nbx_reshape(ctx, x, 2, table)));
    case COLUMNS: return nbx_sum(ctx, nbx_reshape(ctx, x, 2, table), 1, &first, false);
    default: {
        const nbx_value arg = nbx_of_tensor(nbx_gt_scalar(ctx, x, 1));
        nbx_value y;
        return nbx_call(ctx, "aten::nonzero", &arg, 1, NULL, 0, &y, 1, NULL) == NBX_OK ? (nbx_tensor *)y.as.tensor : NULL;
    }
    }
}

static float *numbers_of(nbx_context *ctx, const nbx_tensor *t) {
    float *numbers = t ? malloc(sizeof *numbers * (size_t)nbx_tensor_numel(t) + 1) : NULL;
    assert_non_null(numbers);
    assert_int_equal(nbx_tensor_read(ctx, nbx_to_dtype(ctx, t, NBX_FLOAT32), numbers), NBX_OK);
    return numbers;
}

// Within the tolerance of the value, of a hundredth of the largest, or `least`: a unit of the smallest numbers of float16.
static void agree(nbx_context *here, const nbx_tensor *a, nbx_context *there, const nbx_tensor *b, double tolerance, const char *what) {
    const double least = 0x1p-23;
    float *x = numbers_of(here, a), *y = numbers_of(there, b), most = 0;
    const int64_t count = nbx_tensor_numel(a);
    assert_int_equal(count, nbx_tensor_numel(b));
    for (int64_t i = 0; i < count; i++) most = fmaxf(most, fabsf(x[i]));
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)x[i] - (double)y[i]) <= tolerance * (fabs((double)x[i]) + 0.01 * (double)most) + least))
            fail_msg("%s: element %lld is %.9g, on the CPU %.9g", what, (long long)i, (double)y[i], (double)x[i]);
    free(x);
    free(y);
}

static void long_rows_give_what_they_give_on_the_cpu(void **state) {
    (void)state;
    nbx_context *there = on_gpu(), *here = nbx_context_create(NULL);
    const int64_t lengths[] = {8000, 20000, 40000, 66000, 130000};
    const nbx_dtype dtypes[] = {NBX_FLOAT32, NBX_BFLOAT16, NBX_FLOAT16};
    for (int l = 0; l < 5; l++) {
        const int64_t shape[] = {2, lengths[l]};
        float *numbers = malloc(sizeof *numbers * 2 * (size_t)lengths[l]);
        uint32_t state_of = 12345;
        for (int64_t i = 0; i < 2 * lengths[l]; i++) {  // four of them: nearly normal
            float sum = -2;
            for (int k = 0; k < 4; k++) state_of = state_of * 1664525u + 1013904223u, sum += (float)(state_of >> 8) * 0x1p-24f;
            numbers[i] = 2 * sum;
        }
        for (int d = 0; d < 3; d++) {
            const nbx_scope outer = nbx_scope_open(here), inner = nbx_scope_open(there);
            const nbx_tensor *x = nbx_to_dtype(here, nbx_tensor_from_host(here, NBX_FLOAT32, 2, shape, numbers), dtypes[d]);
            const nbx_tensor *y = nbx_to_dtype(there, nbx_tensor_from_host(there, NBX_FLOAT32, 2, shape, numbers), dtypes[d]);
            for (int work = 0; work < WORKS; work++) {
                char what[80];
                snprintf(what, sizeof what, "work %d on rows of %lld %s", work, (long long)lengths[l], nbx_dtype_name(dtypes[d]));
                agree(here, long_work(here, work, x), there, long_work(there, work, y), d == 0 ? 1e-4 : d == 1 ? 1.6e-2 : 2e-3, what);
            }
            nbx_scope_close(here, outer, NULL);
            nbx_scope_close(there, inner, NULL);
        }
        free(numbers);
    }
    nbx_context_destroy(here);
    nbx_context_destroy(there);
}

// ------------------------------------------------------------------------------------------- products on tensor cores
typedef enum product_kind { OF_HALVES, OF_TF32, OF_INT8, OF_FLOAT8, WITH_BIAS, IMAGES, IMAGES_LAST, IMAGES_TF32, PRODUCTS } product_kind;

static const nbx_tensor *numbers_on(nbx_context *ctx, int rank, const int64_t *shape, double scale, nbx_dtype dtype) {
    int64_t numel = 1;
    for (int d = 0; d < rank; d++) numel *= shape[d];
    float *numbers = malloc(sizeof *numbers * (size_t)numel);
    uint32_t bits = (uint32_t)numel;
    for (int64_t i = 0; i < numel; i++) bits = bits * 1664525u + 1013904223u, numbers[i] = (float)(((double)(bits >> 8) * 0x1p-23 - 1) * scale);
    const nbx_tensor *t = nbx_to_dtype(ctx, nbx_tensor_from_host(ctx, NBX_FLOAT32, rank, shape, numbers), dtype);
    free(numbers);
    return t;
}

static nbx_tensor *called(nbx_context *ctx, const char *name, int count, const nbx_value *args) {
    nbx_value results[1];
    return nbx_call(ctx, name, args, count, NULL, 0, results, 1, NULL) == NBX_OK ? (nbx_tensor *)results[0].as.tensor : NULL;
}

// m x k times k x n, or an image of m = side * side pixels. turned: bit 0 for a, bit 1 for b: lines along m or n.
static nbx_tensor *product(nbx_context *ctx, product_kind kind, int64_t m, int64_t n, int64_t k, int turned) {
    const int64_t mk[] = {m, k}, km[] = {k, m}, kn[] = {k, n}, nk[] = {n, k};
    const nbx_dtype dtype = kind == OF_INT8 ? NBX_INT8 : kind == OF_FLOAT8 ? NBX_FLOAT8_E4M3FN : kind == OF_TF32 || kind == IMAGES_TF32 ? NBX_FLOAT32 : NBX_BFLOAT16;
    if (kind >= IMAGES) {
        int64_t side = 1;
        while ((side + 1) * (side + 1) <= m) side++;
        const int64_t image[] = {2, k, side, side}, filter[] = {n, k, 3, 3}, one[] = {1, 1};
        const nbx_tensor *x = numbers_on(ctx, 4, image, 1, dtype), *w = numbers_on(ctx, 4, filter, 0.5, dtype);
        if (kind == IMAGES_LAST) x = called(ctx, "aten::contiguous", 2, (nbx_value[]){nbx_of_tensor(x), nbx_of_memory_format(NBX_CHANNELS_LAST)});
        return nbx_conv2d(ctx, x, w, NBX_NONE, one, one, one, 1);
    }
    const double scale = kind == OF_INT8 ? 127 : 1;
    const nbx_tensor *a = turned & 1 ? nbx_t(ctx, numbers_on(ctx, 2, km, scale, dtype)) : numbers_on(ctx, 2, mk, scale, dtype);
    const nbx_tensor *b = turned & 2 ? numbers_on(ctx, 2, kn, scale, dtype) : nbx_t(ctx, numbers_on(ctx, 2, nk, scale, dtype));
    if (kind == OF_INT8) return called(ctx, "aten::_int_mm", 2, (nbx_value[]){nbx_of_tensor(a), nbx_of_tensor(b)});
    const nbx_tensor *bias = numbers_on(ctx, 1, &n, 1, kind == OF_FLOAT8 ? NBX_FLOAT32 : dtype);
    if (kind == WITH_BIAS) return called(ctx, "aten::addmm", 3, (nbx_value[]){nbx_of_tensor(bias), nbx_of_tensor(a), nbx_of_tensor(b)});
    if (kind != OF_FLOAT8) return nbx_mm(ctx, a, b);
    const double half = 0.5, two = 2;
    const nbx_tensor *sa = nbx_full(ctx, NBX_FLOAT32, 0, NULL, half), *sb = nbx_full(ctx, NBX_FLOAT32, 0, NULL, two);
    return called(ctx, "aten::_scaled_mm", 7, (nbx_value[]){nbx_of_tensor(a), nbx_of_tensor(b), nbx_of_tensor(sa), nbx_of_tensor(sb), nbx_of_tensor(bias), nbx_of_none(), nbx_of_dtype(NBX_FLOAT32)});
}

static void products_give_what_they_give_on_the_cpu(void **state) {
    (void)state;
    const nbx_options options = {.device = gpu, .allow_tf32 = true};
    if (nbx_device_problem(gpu)) skip();
    nbx_context *there = nbx_context_create(&options), *here = nbx_context_create(NULL);
    const int64_t sizes[][3] = {{33, 7, 5}, {64, 64, 64}, {130, 96, 160}, {257, 129, 75}, {1200, 1100, 96}, {2049, 1030, 40}, {1536, 1024, 64}};
    for (int kind = 0; kind < PRODUCTS; kind++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int turned = 0; turned < (kind < IMAGES ? 4 : 1); turned++) {
                const int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
                const nbx_scope outer = nbx_scope_open(here), inner = nbx_scope_open(there);
                const nbx_tensor *x = product(here, kind, m, n, k, turned), *y = product(there, kind, m, n, k, turned);
                char what[96];
                snprintf(what, sizeof what, "product %d of %lld x %lld x %lld, turned %d", kind, (long long)m, (long long)n, (long long)k, turned);
                if (kind == OF_INT8) x = nbx_to_dtype(here, x, NBX_FLOAT32), y = nbx_to_dtype(there, y, NBX_FLOAT32);
                agree(here, x, there, y, kind == OF_INT8 ? 0 : kind == OF_FLOAT8 || kind == OF_TF32 || kind == IMAGES_TF32 ? 0.05 : 1.6e-2, what);
                nbx_scope_close(here, outer, NULL);
                nbx_scope_close(there, inner, NULL);
            }
    nbx_context_destroy(here);
    nbx_context_destroy(there);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_that_is_not_there_is_explained),
        cmocka_unit_test(host_memory_is_none_of_a_gpu),
        cmocka_unit_test(seeds_give_what_pytorch_draws_on_a_gpu),
        cmocka_unit_test(a_generator_of_the_cpu_gives_its_numbers_on_a_gpu),
        cmocka_unit_test(a_generator_of_a_gpu_is_none_of_the_cpu),
        cmocka_unit_test(bad_input_on_a_gpu_is_an_error),
        cmocka_unit_test(long_rows_give_what_they_give_on_the_cpu),
        cmocka_unit_test(products_give_what_they_give_on_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

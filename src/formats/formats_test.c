// Tensors in files: what is written is read back, what other programs write is read, and bad files are refused.
#include "core/memory.h"
#include "formats/tensor_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    nbx_context *ctx;
    nbx_scope scope;
    char folder[64], path[128];
} fixture;

static int open_fixture(void **state) {
    static fixture f;
    strcpy(f.folder, "/tmp/nbx_formats_XXXXXX");
    assert_non_null(mkdtemp(f.folder));
    f.ctx = nbx_context_create(NULL);
    assert_non_null(f.ctx);
    f.scope = nbx_scope_open(f.ctx);
    *state = &f;
    return 0;
}

static int close_fixture(void **state) {
    fixture *f = *state;
    nbx_context_destroy(f->ctx);
    unlink(f->path);
    rmdir(f->folder);
    return 0;
}

static const char *path_of(fixture *f, const char *ending) {
    if (f->path[0]) unlink(f->path);
    snprintf(f->path, sizeof f->path, "%s/x%s", f->folder, ending);
    return f->path;
}

static int clear_error(void **state) {
    nbx_clear_error(((fixture *)*state)->ctx);
    return 0;
}

// Elements whose bytes differ from each other; bools are 0 and 1.
static nbx_tensor *counting(fixture *f, nbx_dtype dtype, int rank, const int64_t *shape) {
    unsigned char bytes[4096];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(dtype == NBX_BOOL ? i & 1 : i * 37 % 100);
    return nbx_tensor_from_host(f->ctx, dtype, rank, shape, bytes);
}

static void assert_same(fixture *f, const nbx_tensor *a, const nbx_tensor *b) {
    static char x[8192], y[8192];
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(nbx_tensor_dtype(a), nbx_tensor_dtype(b));
    assert_true(nbx_same_shape(a, b));
    if (nbx_tensor_read(f->ctx, a, x)) fail_msg("%s %s", nbx_last_message(f->ctx), nbx_dtype_name(nbx_tensor_dtype(a)));
    if (nbx_tensor_read(f->ctx, b, y)) fail_msg("%s %s", nbx_last_message(f->ctx), nbx_dtype_name(nbx_tensor_dtype(b)));
    assert_memory_equal(x, y, nbx_tensor_nbytes(a));
}

static void round_trip(fixture *f, const char *ending, const char *const *names, const nbx_tensor *const *tensors, size_t count) {
    nbx_tensors *set;
    path_of(f, ending);
    assert_int_equal(nbx_tensors_save(f->ctx, f->path, names, tensors, count), NBX_OK);
    if (nbx_tensors_load(f->ctx, f->path, &set)) fail_msg("%s", nbx_last_message(f->ctx));
    assert_int_equal(nbx_tensors_count(set), count);
    for (size_t i = 0; i < count; i++) {
        assert_true(nbx_tensors_has(set, names[i]));
        assert_same(f, nbx_tensors_get(f->ctx, set, names[i]), tensors[i]);
    }
    nbx_tensors_destroy(set);
}

static void every_dtype_comes_back(void **state) {
    fixture *f = *state;
    const int64_t shapes[4][3] = {{0}, {3}, {2, 0, 5}, {2, 3, 5}};
    const int ranks[4] = {0, 1, 3, 3};
    const nbx_tensor *tensors[4 * NBX_DTYPE_COUNT];
    const char *names[4 * NBX_DTYPE_COUNT];
    char text[4 * NBX_DTYPE_COUNT][40];
    size_t n = 0;
    for (int d = 0; d < NBX_DTYPE_COUNT; d++) {
        for (int s = 0; s < 4; s++, n++) {
            snprintf(text[n], sizeof text[n], "%s \"%d\"", nbx_dtype_name((nbx_dtype)d), s);
            names[n] = text[n];
            tensors[n] = counting(f, (nbx_dtype)d, ranks[s], shapes[s]);
        }
    }
    round_trip(f, ".safetensors", names, tensors, n);
    const nbx_tensor *known[4 * NBX_DTYPE_COUNT];  // numpy has no code for float8
    const char *known_names[4 * NBX_DTYPE_COUNT];
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        if (nbx_dtype_is_float8(nbx_tensor_dtype(tensors[i]))) continue;
        known[m] = tensors[i];
        known_names[m++] = names[i];
    }
    round_trip(f, ".npz", known_names, known, m);
    for (size_t i = 0; i < m; i++) round_trip(f, ".npy", (const char *const[]){"arr_0"}, &known[i], 1);
}

static void strided_tensors_are_written_in_order(void **state) {
    fixture *f = *state;
    const int64_t shape[2] = {3, 4}, turned[2] = {4, 3}, stride[2] = {1, 4};
    const nbx_tensor *base = counting(f, NBX_INT32, 2, shape);
    const nbx_tensor *view = nbx_tensor_view(f->ctx, base, NBX_INT32, 2, turned, stride, 0);
    round_trip(f, ".safetensors", (const char *const[]){"v"}, &view, 1);
    round_trip(f, ".npy", (const char *const[]){"arr_0"}, &view, 1);
}

static void metadata_tells_the_order(void **state) {
    fixture *f = *state;
    nbx_tensors *set;
    const nbx_tensor *tensors[2] = {counting(f, NBX_INT8, 0, NULL), counting(f, NBX_COMPLEX64, 0, NULL)};
    assert_int_equal(nbx_tensors_save(f->ctx, path_of(f, ".safetensors"), (const char *const[]){"a\"b", "z"}, tensors, 2), NBX_OK);
    assert_int_equal(nbx_tensors_load(f->ctx, f->path, &set), NBX_OK);
    assert_string_equal(nbx_tensors_metadata(set, "order"), "[\"a\\\"b\", \"z#complex64\"]");
    assert_null(nbx_tensors_metadata(set, "none"));
    assert_string_equal(nbx_tensors_name(set, 1), "z");
    assert_null(nbx_tensors_name(set, 2));
    assert_null(nbx_tensors_get(f->ctx, set, "nothing"));
    assert_int_equal(nbx_last_status(f->ctx), NBX_ERROR_ARGUMENT);
    nbx_tensors_destroy(set);
}

static nbx_status read_text(fixture *f, const void *bytes, size_t count, nbx_tensors **set) {
    nbx_bytes *file = nbx_bytes_create(f->ctx, count, "test");
    assert_non_null(file);
    if (count) memcpy(file->data, bytes, count);
    nbx_clear_error(f->ctx);
    const nbx_status status = nbx_tensors_read(f->ctx, "test", file, set);
    nbx_bytes_release(file);
    return status;
}

static nbx_status read_header(fixture *f, const char *header, size_t data_bytes, nbx_tensors **set) {
    char text[1024] = {0};
    const uint64_t bytes = strlen(header);
    memcpy(text, &bytes, 8);
    memcpy(text + 8, header, bytes);
    return read_text(f, text, 8 + bytes + data_bytes, set);
}

static void bad_safetensors_are_refused(void **state) {
    fixture *f = *state;
    nbx_tensors *set;
    static const struct {
        const char *header;
        size_t data_bytes;
    } bad[] = {
        {"[]", 0},
        {"{\"a\":1}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.5],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12},
        {"{\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", 3},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2},
        {"{\"__metadata__\":{\"a\":1}}", 0},
        {"{\"__metadata__\":[]}", 0},
        {"{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1},
        {"{", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(read_header(f, bad[i].header, bad[i].data_bytes, &set), NBX_ERROR_FORMAT);
        assert_null(set);
        assert_true(nbx_last_message(f->ctx)[0]);
    }
    assert_int_equal(read_header(f, "{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, &set), NBX_ERROR_UNSUPPORTED);
    assert_int_equal(read_text(f, "", 0, &set), NBX_ERROR_FORMAT);
    assert_int_equal(read_text(f, "abc", 3, &set), NBX_ERROR_FORMAT);
    assert_int_equal(read_text(f, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10, &set), NBX_ERROR_FORMAT);
    assert_int_equal(read_text(f, "PK\3\4 and no more", 16, &set), NBX_ERROR_FORMAT);
    assert_int_equal(read_header(f, "{}  ", 0, &set), NBX_OK);
    assert_int_equal(nbx_tensors_count(set), 0);
    nbx_tensors_destroy(set);
}

static void misplaced_elements_are_copied(void **state) {
    fixture *f = *state;
    nbx_tensors *set;
    // 1 byte, then a float that begins there
    assert_int_equal(read_header(f, "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                    "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}", 5, &set), NBX_OK);
    const nbx_tensor *b = nbx_tensors_get(f->ctx, set, "b");
    nbx_tensors_destroy(set);
    assert_int_equal((uintptr_t)nbx_tensor_data(b) % 4, 0);
    float x = 1;
    assert_int_equal(nbx_tensor_read(f->ctx, b, &x), NBX_OK);
    assert_true(x == 0);
}

static nbx_status read_npy(fixture *f, const char *header, const void *data, size_t data_bytes, nbx_tensors **set) {
    char text[1024] = "\x93NUMPY\1";
    const uint16_t bytes = (uint16_t)strlen(header);
    memcpy(text + 8, &bytes, 2);
    memcpy(text + 10, header, bytes);
    if (data_bytes) memcpy(text + 10 + bytes, data, data_bytes);
    return read_text(f, text, 10u + bytes + data_bytes, set);
}

static void numpy_orders_are_read(void **state) {
    fixture *f = *state;
    nbx_tensors *set;
    const unsigned char big[12] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
    assert_int_equal(read_npy(f, "{'shape': (2, 3), 'fortran_order': True, 'descr': '>i2'}\n", big, 12, &set), NBX_OK);
    int16_t x[6];
    assert_int_equal(nbx_tensor_read(f->ctx, nbx_tensors_at(f->ctx, set, 0), x), NBX_OK);
    assert_memory_equal(x, ((int16_t[]){1, 3, 5, 2, 4, 6}), sizeof x);
    nbx_tensors_destroy(set);
}

static void bad_npy_is_refused(void **state) {
    fixture *f = *state;
    nbx_tensors *set;
    static const char *const bad[] = {
        "{'descr': '<i2', 'fortran_order': False, 'shape': (7,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<i2', 'fortran_order': False}",
        "{'descr': '<i2', 'descr': '<i2', 'fortran_order': False, 'shape': ()}",
        "{'descr': [('a', '<i2')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<i2', 'fortran_order': 1, 'shape': (1,)}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (1,",
        "",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(read_npy(f, bad[i], "abcdefghijkl", 12, &set), NBX_ERROR_FORMAT);
    }
    assert_int_equal(read_npy(f, "{'descr': '<U5', 'fortran_order': False, 'shape': (0,)}", "", 0, &set), NBX_ERROR_UNSUPPORTED);
    assert_int_equal(read_npy(f, "{'descr': '|O', 'fortran_order': False, 'shape': (0,)}", "", 0, &set), NBX_ERROR_UNSUPPORTED);
    assert_int_equal(read_text(f, "\x93NUMPY\1\0\xff\xff{", 11, &set), NBX_ERROR_FORMAT);
}

static void wrong_requests_are_refused(void **state) {
    fixture *f = *state;
    const nbx_tensor *t[2] = {counting(f, NBX_INT8, 0, NULL), counting(f, NBX_INT8, 0, NULL)};
    const char *const names[2] = {"a", "a"};
    nbx_tensors *set;
    nbx_clear_error(f->ctx);
    assert_int_equal(nbx_tensors_save(f->ctx, "/tmp/x.bin", names, t, 1), NBX_ERROR_ARGUMENT);
    nbx_clear_error(f->ctx);
    assert_int_equal(nbx_tensors_save(f->ctx, "/tmp/x.npy", names, t, 2), NBX_ERROR_ARGUMENT);
    nbx_clear_error(f->ctx);
    assert_int_equal(nbx_tensors_save(f->ctx, "/tmp/x.npz", names, t, 2), NBX_ERROR_ARGUMENT);
    nbx_clear_error(f->ctx);
    assert_int_equal(nbx_tensors_save(f->ctx, "/nonexistent/x.npz", names, t, 1), NBX_ERROR_IO);
    nbx_clear_error(f->ctx);
    assert_int_equal(nbx_tensors_load(f->ctx, "/nonexistent/x.npz", &set), NBX_ERROR_IO);
    nbx_clear_error(f->ctx);
    assert_int_equal(nbx_tensors_load(f->ctx, "/tmp", &set), NBX_ERROR_IO);
}

// In the other order, so that every tensor lies where another is written.
static void the_file_that_tensors_lie_in_can_be_written(void **state) {
    fixture *f = *state;
    static const char *const endings[] = {".safetensors", ".npz"}, *const names[] = {"a", "b"}, *const turned[] = {"b", "a"};
    const int64_t shapes[] = {1000, 7};
    const nbx_tensor *t[2] = {counting(f, NBX_FLOAT32, 1, &shapes[0]), counting(f, NBX_FLOAT32, 1, &shapes[1])};
    for (int e = 0; e < 2; e++) {
        nbx_tensors *set;
        assert_int_equal(nbx_tensors_save(f->ctx, path_of(f, endings[e]), names, t, 2), NBX_OK);
        assert_int_equal(nbx_tensors_load(f->ctx, f->path, &set), NBX_OK);
        const nbx_tensor *mapped[2] = {nbx_tensors_get(f->ctx, set, "b"), nbx_tensors_get(f->ctx, set, "a")};
        assert_int_equal(nbx_tensors_save(f->ctx, f->path, turned, mapped, 2), NBX_OK);
        nbx_tensors_destroy(set);
        assert_int_equal(nbx_tensors_load(f->ctx, f->path, &set), NBX_OK);
        for (int i = 0; i < 2; i++) assert_same(f, nbx_tensors_get(f->ctx, set, names[i]), t[i]);
        nbx_tensors_destroy(set);
    }
}

static void a_file_of_no_tensors_is_read_back(void **state) {
    fixture *f = *state;
    static const char *const endings[] = {".safetensors", ".npz"};
    for (int e = 0; e < 2; e++) {
        nbx_tensors *set;
        assert_int_equal(nbx_tensors_save(f->ctx, path_of(f, endings[e]), NULL, NULL, 0), NBX_OK);
        assert_int_equal(nbx_tensors_load(f->ctx, f->path, &set), NBX_OK);
        assert_int_equal(nbx_tensors_count(set), 0);
        nbx_tensors_destroy(set);
    }
}

// Every allocation of a load made to fail in turn: an error each time, nothing lost.
static void failing_memory_is_an_error(void **state) {
    fixture *f = *state;
    const int64_t shape[1] = {5};
    const nbx_tensor *t[2] = {counting(f, NBX_FLOAT32, 1, shape), counting(f, NBX_COMPLEX64, 1, shape)};
    static const char *const endings[] = {".safetensors", ".npz"};
    for (int e = 0; e < 2; e++) {
        assert_int_equal(nbx_tensors_save(f->ctx, path_of(f, endings[e]), (const char *const[]){"a", "b"}, t, 2), NBX_OK);
        bool done = false;
        for (long n = 0; !done; n++) {
            nbx_tensors *set = NULL;
            const long before = nbx_alloc_count();
            nbx_clear_error(f->ctx);
            nbx_alloc_fail_after(n);
            const nbx_status status = nbx_tensors_load(f->ctx, f->path, &set);
            nbx_alloc_fail_after(-1);
            done = status == NBX_OK;
            assert_true(done || status == NBX_ERROR_MEMORY);
            nbx_tensors_destroy(set);
            assert_int_equal(nbx_alloc_count(), before);
            assert_true(n < 1000);
        }
    }
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup(f, clear_error)
    const struct CMUnitTest tests[] = {
        CASE(every_dtype_comes_back),
        CASE(strided_tensors_are_written_in_order),
        CASE(metadata_tells_the_order),
        CASE(bad_safetensors_are_refused),
        CASE(misplaced_elements_are_copied),
        CASE(numpy_orders_are_read),
        CASE(bad_npy_is_refused),
        CASE(wrong_requests_are_refused),
        CASE(a_file_of_no_tensors_is_read_back),
        CASE(the_file_that_tensors_lie_in_can_be_written),
        CASE(failing_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}

// Programs made for it and then damaged, in the archive and in the JSON: whatever is wrong, loading or running answers with an
// error and a message, or gives results as if nothing were wrong, where nobody could tell; nothing crashes, nothing is lost.
#include "core/memory.h"
#include "nbx/nbx.h"
#include "support/maker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const float numbers[6] = {1, 2, 3, 4, 5, 6};

static maker_text sound(void) {
    program_maker m = {0};
    program_maker_weight(&m, "w", 7, "2,3", numbers, sizeof numbers);
    program_maker_weight(&m, "v", 7, "3", numbers, 3 * sizeof *numbers);
    program_maker_input(&m, "x", 7, "2,3");
    program_maker_node(&m, "torch.ops.aten.add.Tensor", "a", "self=x other=w");
    program_maker_node(&m, "torch.ops.aten.mul.Tensor", "b", "self=a other=v");
    program_maker_node(&m, "torch.ops.aten.sum.dim_IntList", "y", "self=b dim=[1] keepdim=true");
    program_maker_output(&m, "y", 7, "2,1");
    return program_maker_finish(&m);
}

static nbx_status load_and_run(nbx_context *ctx, const void *bytes, size_t count) {
    nbx_program *p = NULL;
    nbx_session *session = NULL;
    nbx_value outputs[4], input;
    nbx_clear_error(ctx);
    const nbx_scope scope = nbx_scope_open(ctx);
    input = nbx_of_tensor(nbx_tensor_from_host(ctx, NBX_FLOAT32, 2, (int64_t[]){2, 3}, numbers));
    nbx_status status = nbx_program_load_memory(ctx, "damaged", bytes, count, NULL, &p);
    if (status == NBX_OK) status = nbx_session_create(ctx, p, &session);
    for (int i = 0; i < 2 && status == NBX_OK; i++) status = nbx_session_run(session, &input, 1, outputs, 4, NULL);
    nbx_session_destroy(session);
    nbx_program_destroy(p);
    nbx_scope_close(ctx, scope, NULL);
    if (status != NBX_OK && !nbx_last_message(ctx)[0]) fail_msg("status %d without a message", (int)status);
    if (status == NBX_ERROR_INTERNAL) fail_msg("an internal error: %s", nbx_last_message(ctx));
    return status;
}

// The bytes lie at the end of a block of their own, so that a read behind them is seen.
static nbx_status load_copy(nbx_context *ctx, const char *bytes, size_t count) {
    char *copy = malloc(count ? count : 1);
    assert_non_null(copy);
    if (count) memcpy(copy, bytes, count);
    const nbx_status status = load_and_run(ctx, copy, count);
    free(copy);
    return status;
}

static nbx_context *new_context(void) {
    const nbx_options options = {.threads = 1, .memory_ceiling = (size_t)64 << 20};
    nbx_context *ctx = nbx_context_create(&options);
    assert_non_null(ctx);
    return ctx;
}

// ------------------------------------------------------------------------------------------------------------- archives
static void cut_archives(void **state) {
    (void)state;
    nbx_context *ctx = new_context();
    maker_text file = sound();
    assert_int_equal(load_copy(ctx, file.bytes, file.count), NBX_OK);
    const long before = nbx_alloc_count();
    for (size_t n = 0; n < file.count; n += n < 200 || n + 700 > file.count ? 1 : 41) assert_int_equal(load_copy(ctx, file.bytes, n), NBX_ERROR_FORMAT);
    for (size_t n = 1; n < file.count; n += 97) assert_int_not_equal(load_copy(ctx, file.bytes + n, file.count - n), NBX_OK);
    assert_int_equal(nbx_alloc_count(), before);
    nbx_context_destroy(ctx);
    maker_free(&file);
}

static void flipped_bits(void **state) {
    (void)state;
    nbx_context *ctx = new_context();
    maker_text file = sound();
    load_copy(ctx, file.bytes, file.count);
    const long before = nbx_alloc_count();
    for (size_t bit = 0; bit < file.count * 8; bit += 5) {
        file.bytes[bit / 8] ^= (char)(1 << bit % 8);
        (void)load_copy(ctx, file.bytes, file.count);  // a weight, a pad or a date may change unseen
        file.bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    assert_int_equal(nbx_alloc_count(), before);
    nbx_context_destroy(ctx);
    maker_free(&file);
}

static uint32_t get32(const char *p) {
    uint32_t x;
    return memcpy(&x, p, 4), x;
}
static void put32(char *p, uint32_t x) { memcpy(p, &x, 4); }

// The directory's entry at a given index; every entry of maker.c's archives ends with its name.
static char *central(const maker_text *file, int index) {
    char *p = file->bytes + get32(file->bytes + file->count - 6);
    for (; index > 0; index--) p += 46 + (uint8_t)p[28] + 256 * (uint8_t)p[29];
    return p;
}

// What each number of an entry is replaced by; all of these must be seen.
static void wrong_numbers_in_the_directory(void **state) {
    (void)state;
    static const uint32_t absurd[] = {0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 100000};
    static const int places[] = {20, 24, 42};  // stored size, size, offset
    nbx_context *ctx = new_context();
    maker_text file = sound();
    for (int entry = 0; entry < 5; entry++)
        for (size_t k = 0; k < sizeof places / sizeof *places; k++)
            for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++) {
                char *p = central(&file, entry) + places[k];
                const uint32_t was = get32(p);
                put32(p, absurd[i]);
                assert_int_equal(load_copy(ctx, file.bytes, file.count), NBX_ERROR_FORMAT);
                put32(p, was);
            }
    char *end = file.bytes + file.count - 22;
    for (int place = 8; place < 20; place += 4) {
        const uint32_t was = get32(end + place);
        put32(end + place, 0xfffffff0);
        assert_int_equal(load_copy(ctx, file.bytes, file.count), NBX_ERROR_FORMAT);
        put32(end + place, was);
    }
    nbx_context_destroy(ctx);
    maker_free(&file);
}

static void overlapping_and_repeated_entries(void **state) {
    (void)state;
    nbx_context *ctx = new_context();
    maker_text file = sound();
    char *p = central(&file, 0), *q = central(&file, 1);
    const uint32_t bytes = get32(p + 20), offset = get32(q + 42);
    put32(p + 20, bytes + 200), put32(p + 24, bytes + 200);  // into the next one's
    assert_int_equal(load_copy(ctx, file.bytes, file.count), NBX_ERROR_FORMAT);
    assert_non_null(strstr(nbx_last_message(ctx), "overlaps"));
    put32(p + 20, bytes), put32(p + 24, bytes);
    put32(q + 42, get32(p + 42));  // two at one place
    assert_int_equal(load_copy(ctx, file.bytes, file.count), NBX_ERROR_FORMAT);
    put32(q + 42, offset);
    assert_int_equal(load_copy(ctx, file.bytes, file.count), NBX_OK);
    maker_free(&file);
    zip_maker z = {0};
    for (int i = 0; i < 2; i++) zip_maker_add(&z, "made/archive_format", "pt2", 3);
    zip_maker_finish(&z);
    assert_int_equal(load_copy(ctx, z.file.bytes, z.file.count), NBX_ERROR_FORMAT);
    assert_non_null(strstr(nbx_last_message(ctx), "twice"));
    maker_free(&z.file);
    nbx_context_destroy(ctx);
}

// ----------------------------------------------------------------------------------------------------------------- text
// The bytes of an entry of the sound archive.
static maker_text entry_of(const maker_text *file, const char *name) {
    maker_text t = {0};
    const size_t length = strlen(name);
    for (int i = 0; !t.bytes; i++) {
        const char *p = central(file, i);
        if (p[0] != 'P' || p[2] != 1) fail_msg("%s is missing", name);
        if (strlen(name) != (uint8_t)p[28] || memcmp(p + 46, name, length) != 0) continue;
        const char *local = file->bytes + get32(p + 42);
        const size_t head = 30 + length + (uint8_t)local[28] + 256 * (size_t)(uint8_t)local[29];
        maker_add_bytes(&t, local + head, get32(p + 20));
    }
    return t;
}

static maker_text replaced(const maker_text *text, const char *from, const char *to) {
    maker_text t = {0};
    const char *at = strstr(text->bytes, from);
    if (!at) fail_msg("there is no %s", from);
    maker_add_bytes(&t, text->bytes, (size_t)(at - text->bytes));
    maker_add(&t, "%s%s", to, at + strlen(from));
    return t;
}

static maker_text pack(const maker_text *model, const maker_text *config) {
    zip_maker z = {0};
    zip_maker_add(&z, "made/data/weights/weight_0", numbers, sizeof numbers);
    zip_maker_add(&z, "made/data/weights/weight_1", numbers, 3 * sizeof *numbers);
    zip_maker_add(&z, "made/data/weights/model_weights_config.json", config->bytes, config->count);
    zip_maker_add(&z, "made/models/model.json", model->bytes, model->count);
    zip_maker_add(&z, "made/archive_format", "pt2", 3);
    zip_maker_finish(&z);
    return z.file;
}

typedef struct change {
    bool weights;  // in the weights' JSON, else in the model's
    const char *from, *to;
} change;

#define INT(N) "{\"as_int\": " N "}"
static const change changes[] = {
    // weights: short, strides and offsets out of the storage, sizes that overflow, wrong kinds
    {true, "\"sizes\": [" INT("2"), "\"sizes\": [" INT("3")},
    {true, "\"sizes\": [" INT("2"), "\"sizes\": [" INT("-2")},
    {true, "\"sizes\": [" INT("2"), "\"sizes\": [" INT("9223372036854775807")},
    {true, "\"sizes\": [" INT("2"), "\"sizes\": [" INT("4611686018427387904")},
    {true, "\"sizes\": [" INT("2"), "\"sizes\": [" INT("99999999999999999999")},
    {true, "\"sizes\": [" INT("2"), "\"sizes\": [" INT("\"2\"")},
    {true, "\"sizes\": [" INT("2"), "\"sizes\": [" INT("2.5")},
    {true, "\"sizes\": [" INT("2") ", ", "\"sizes\": ["},
    {true, "\"strides\": [" INT("3"), "\"strides\": [" INT("4")},
    {true, "\"strides\": [" INT("3"), "\"strides\": [" INT("-3")},
    {true, "\"strides\": [" INT("3"), "\"strides\": [" INT("9223372036854775807")},
    {true, "\"storage_offset\": " INT("0"), "\"storage_offset\": " INT("1")},
    {true, "\"storage_offset\": " INT("0"), "\"storage_offset\": " INT("-1")},
    {true, "\"storage_offset\": " INT("0"), "\"storage_offset\": " INT("9223372036854775807")},
    {true, "\"storage_offset\": " INT("0"), "\"storage_offset\": " INT("2305843009213693951")},
    {true, "\"dtype\": 7", "\"dtype\": 5"},
    {true, "\"dtype\": 7", "\"dtype\": 99"},
    {true, "\"dtype\": 7", "\"dtype\": null"},
    {true, "\"layout\": 7", "\"layout\": 1"},
    {true, "\"use_pickle\": false", "\"use_pickle\": true"},
    {true, "weight_0", "weight_7"},
    {true, "weight_0", "../weight_0"},
    {true, "\"w\":", "\"z\":"},
    {true, "\"v\":", "\"w\":"},
    {true, "{\"config\": {", "{\"config\": ["},
    {true, "{\"config\"", "{\"other\""},
    // graph: names that are undefined, made later, made twice
    {false, "\"self\", \"arg\": {\"as_tensor\": {\"name\": \"a\"}}", "\"self\", \"arg\": {\"as_tensor\": {\"name\": \"q\"}}"},
    {false, "\"self\", \"arg\": {\"as_tensor\": {\"name\": \"a\"}}", "\"self\", \"arg\": {\"as_tensor\": {\"name\": \"b\"}}"},
    {false, "\"self\", \"arg\": {\"as_tensor\": {\"name\": \"x\"}}", "\"self\", \"arg\": {\"as_tensor\": {\"name\": \"y\"}}"},
    {false, "\"self\", \"arg\": {\"as_tensor\": {\"name\": \"a\"}}", "\"self\", \"arg\": {\"as_tensor\": {\"name\": \"\"}}"},
    {false, "\"self\", \"arg\": {\"as_tensor\": {\"name\": \"a\"}}", "\"self\", \"arg\": {\"as_tensor\": {\"name\": 3}}"},
    {false, "\"outputs\": [{\"as_tensor\": {\"name\": \"b\"}}]", "\"outputs\": [{\"as_tensor\": {\"name\": \"a\"}}]"},
    {false, "\"outputs\": [{\"as_tensor\": {\"name\": \"b\"}}]", "\"outputs\": []"},
    {false, "\"outputs\": [{\"as_tensor\": {\"name\": \"b\"}}]", "\"outputs\": [{\"as_int\": 3}]"},
    // arguments of wrong kinds and names, operators that are none
    {false, "{\"as_ints\": [1]}", "{\"as_ints\": [7]}"},
    {false, "{\"as_ints\": [1]}", "{\"as_ints\": 1}"},
    {false, "{\"as_ints\": [1]}", "{\"as_ints\": [1, 1]}"},
    {false, "{\"as_ints\": [1]}", "{\"as_ints\": [\"1\"]}"},
    {false, "{\"as_ints\": [1]}", "{\"as_string\": \"1\"}"},
    {false, "{\"as_ints\": [1]}", "{\"as_floats\": [1.5]}"},
    {false, "{\"as_ints\": [1]}", "{\"as_tensor\": {\"name\": \"x\"}}"},
    {false, "{\"as_ints\": [1]}", "{\"as_unheard_of\": true}"},
    {false, "{\"as_ints\": [1]}", "{\"as_ints\": [1], \"as_int\": 1}"},
    {false, "{\"as_ints\": [1]}", "[]"},
    {false, "{\"as_ints\": [1]}", "{\"as_graph\": {\"name\": \"g\", \"graph\": {}}}"},
    {false, "{\"as_bool\": true}", "{\"as_tensor\": {\"name\": \"x\"}}"},
    {false, "{\"as_bool\": true}", "{\"as_string\": \"yes\"}"},
    {false, "\"name\": \"other\"", "\"name\": \"another\""},
    {false, "aten.mul.Tensor", "aten.mul.Nothing"},
    {false, "aten.mul.Tensor", "aten.no_such_operator.default"},
    {false, "torch.ops.aten.mul.Tensor", ""},
    {false, "torch.ops.aten.mul.Tensor", "...."},
    // the outside
    {false, "\"nodes\": [", "\"nodes\": {"},
    {false, "\"nodes\": [", "\"nodes\": null, \"ignored\": ["},
    {false, "{\"graph_module\"", "{\"other_module\""},
    {false, "\"input_specs\"", "\"other_specs\""},
    {false, "\"major\": 8", "\"major\": 1000"},
    {false, "\"user_output\"", "\"unheard_of\""},
    {false, "\"parameter_name\": \"w\"", "\"parameter_name\": \"nothing\""},
};

static void wrong_text(void **state) {
    (void)state;
    nbx_context *ctx = new_context();
    maker_text file = sound(), model = entry_of(&file, "made/models/model.json"), config = entry_of(&file, "made/data/weights/model_weights_config.json");
    int wrong = 0;
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const change *c = &changes[i];
        maker_text changed = replaced(c->weights ? &config : &model, c->from, c->to);
        maker_text archive = pack(c->weights ? &model : &changed, c->weights ? &changed : &config);
        const nbx_status status = load_copy(ctx, archive.bytes, archive.count);
        const long before = nbx_alloc_count();  // the message is kept
        assert_int_equal(load_copy(ctx, archive.bytes, archive.count), status);
        if (status == NBX_OK) print_error("taken: %s for %s\n", c->to, c->from), wrong++;
        assert_int_equal(nbx_alloc_count(), before);
        maker_free(&changed);
        maker_free(&archive);
    }
    assert_int_equal(wrong, 0);
    maker_free(&file), maker_free(&model), maker_free(&config);
    nbx_context_destroy(ctx);
}

// The model's text cut and changed anywhere, with right checksums.
static void cut_and_changed_text(void **state) {
    (void)state;
    static const char put[] = "{}[]\",:0-9ne\\";
    nbx_context *ctx = new_context();
    maker_text file = sound(), model = entry_of(&file, "made/models/model.json"), config = entry_of(&file, "made/data/weights/model_weights_config.json");
    for (size_t n = 0; n < model.count; n += 7) {
        maker_text cut = {0};
        maker_add_bytes(&cut, model.bytes, n);
        maker_text archive = pack(&cut, &config);
        assert_int_equal(load_copy(ctx, archive.bytes, archive.count), NBX_ERROR_FORMAT);
        maker_free(&cut);
        maker_free(&archive);
        const char was = model.bytes[n];
        model.bytes[n] = put[n / 7 % (sizeof put - 1)];
        archive = pack(&model, &config);
        (void)load_copy(ctx, archive.bytes, archive.count);
        maker_free(&archive);
        model.bytes[n] = was;
    }
    maker_free(&file), maker_free(&model), maker_free(&config);
    nbx_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_archives),
        cmocka_unit_test(flipped_bits),
        cmocka_unit_test(wrong_numbers_in_the_directory),
        cmocka_unit_test(overlapping_and_repeated_entries),
        cmocka_unit_test(wrong_text),
        cmocka_unit_test(cut_and_changed_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

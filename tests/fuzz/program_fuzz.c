// Fuzz target: programs. The input is the JSON of a model, and behind a line "----" the JSON of its weights; both are put into an
// archive with right checksums, so that a change reaches the readers behind them. What loads is planned and run.
#include <stdio.h>
#include <string.h>

#include "nbx/nbx.h"
#include "support/maker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WEIGHTS = 4, WEIGHT_BYTES = 1024, MOST_INPUTS = 8, MOST_OUTPUTS = 16, MOST_ELEMENTS = 4096 };

static maker_text make_archive(const char *json, size_t bytes) {
    static const char separator[] = "\n----\n";
    static const uint8_t weight[WEIGHT_BYTES] = {1};
    const char *config = bytes ? memmem(json, bytes, separator, sizeof separator - 1) : NULL;
    const size_t length = config ? (size_t)(config - json) : bytes;
    zip_maker z = {0};
    char name[64];
    for (int i = 0; i < WEIGHTS; i++) {
        snprintf(name, sizeof name, "made/data/weights/weight_%d", i);
        zip_maker_add(&z, name, weight, sizeof weight);
    }
    if (config) zip_maker_add(&z, "made/data/weights/model_weights_config.json", config + sizeof separator - 1, bytes - length - (sizeof separator - 1));
    zip_maker_add(&z, "made/models/model.json", json, length);
    zip_maker_add(&z, "made/archive_format", "pt2", 3);
    zip_maker_finish(&z);
    return z.file;
}

// Zeros of the input's sizes; symbolic ones are 2.
static bool make_input(nbx_context *ctx, const nbx_program_value *v, nbx_value *input) {
    *input = v->kind == NBX_KIND_INT ? nbx_of_int(2) : v->kind == NBX_KIND_FLOAT ? nbx_of_float(0.5) : nbx_of_bool(true);
    if (v->kind != NBX_KIND_TENSOR) return v->kind == NBX_KIND_INT || v->kind == NBX_KIND_FLOAT || v->kind == NBX_KIND_BOOL;
    int64_t shape[64], count = 1;
    for (int i = 0; i < v->rank; i++) {
        shape[i] = v->dims[i].size < 0 ? 2 : v->dims[i].size;
        if (shape[i] > MOST_ELEMENTS || (count *= shape[i]) > MOST_ELEMENTS) return false;
    }
    *input = nbx_of_tensor(nbx_zeros(ctx, v->dtype, v->rank, shape));
    return input->as.tensor != NULL;
}

static void run(nbx_context *ctx, nbx_program *p) {
    nbx_value inputs[MOST_INPUTS], outputs[MOST_OUTPUTS];
    nbx_session *session;
    const int count = nbx_program_input_count(p);
    bool good = count <= MOST_INPUTS && nbx_program_output_count(p) <= MOST_OUTPUTS;
    for (int i = 0; i < count && good; i++) good = make_input(ctx, nbx_program_input(p, i), &inputs[i]);
    if (!good || nbx_session_create(ctx, p, &session) != NBX_OK) return;
    for (int i = 0; i < 2 && good; i++) good = nbx_session_run(session, inputs, count, outputs, MOST_OUTPUTS, NULL) == NBX_OK;
    nbx_session_destroy(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static nbx_context *ctx;
    const nbx_options options = {.threads = 1, .memory_ceiling = 16 << 20};
    if (!ctx) ctx = nbx_context_create(&options);
    maker_text file = make_archive((const char *)data, size);
    const nbx_scope scope = nbx_scope_open(ctx);
    nbx_program *p;
    nbx_program_plan plan;
    if (nbx_program_load_memory(ctx, "fuzz", file.bytes, file.count, NULL, &p) == NBX_OK) {
        if (nbx_program_plan_memory(ctx, p, NULL, 0, &plan) == NBX_OK) run(ctx, p);
        nbx_program_destroy(p);
    }
    nbx_scope_close(ctx, scope, NULL);
    nbx_clear_error(ctx);
    maker_free(&file);
    return 0;
}

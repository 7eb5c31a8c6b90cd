// Fuzz target: the reader of pickles. What it accepts is walked, to a depth, since containers may hold each other.
#include "program/pickle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int budget;

static void walk(const nbx_pickled *v, int depth) {
    volatile char sum = 0;
    if (depth > 50 || budget-- <= 0) return;
    if (v->kind == NBX_PICKLE_TEXT)
        for (uint32_t i = 0; i < v->count; i++) sum = (char)(sum + v->as.text[i]);
    if (v->kind == NBX_PICKLE_TENSOR)
        for (int i = 0; i < v->as.tensor->rank; i++) sum = (char)(sum + v->as.tensor->shape[i] + v->as.tensor->strides[i]);
    if (v->kind == NBX_PICKLE_TUPLE || v->kind == NBX_PICKLE_LIST || v->kind == NBX_PICKLE_DICT)
        for (uint32_t i = 0; i < v->count; i++) walk(v->as.items[i], depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static nbx_context *ctx;
    const nbx_options options = {.threads = 1};
    if (!ctx) ctx = nbx_context_create(&options);
    nbx_arena arena = {0};
    const nbx_pickled *root = nbx_pickle_read(ctx, &arena, "fuzz", data, size);
    budget = 100000;
    if (root) walk(root, 0);
    nbx_arena_free(&arena);
    nbx_clear_error(ctx);
    return 0;
}

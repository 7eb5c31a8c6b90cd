#include "program/verify.h"

#include <string.h>

#include "core/memory.h"
#include "ops/random/generator.h"
#include "program/higher.h"

static const nbx_device host = {NBX_CPU, 0};

// -------------------------------------------------------------------------------------------------- copies of everything
typedef struct snapshot {
    char **bytes;  // [count]
    int count;
    nbx_generator generator;
} snapshot;

static void free_snapshot(snapshot *s) {
    for (int i = 0; s->bytes && i < s->count; i++) nbx_free(s->bytes[i]);
    nbx_free(s->bytes);
}

static bool make_room(nbx_context *ctx, snapshot *s, int count) {
    s->bytes = nbx_alloc_zero(((size_t)count + 1) * sizeof *s->bytes);
    if (!s->bytes) return nbx_fail_memory(ctx, (size_t)count * sizeof *s->bytes, "a comparison"), false;
    s->count = count;
    return true;
}

static bool copy_places(nbx_context *ctx, nbx_storage *const *places, int count, snapshot *s) {
    if (!make_room(ctx, s, count)) return false;
    for (int i = 0; i < count; i++) {
        s->bytes[i] = nbx_alloc(places[i]->bytes);
        if (!s->bytes[i]) return nbx_fail_memory(ctx, places[i]->bytes, "a comparison"), false;
        if (places[i]->bytes && nbx_copy_bytes(ctx, host, s->bytes[i], places[i]->device, places[i]->data, places[i]->bytes) != NBX_OK) return false;
    }
    const nbx_generator *generator = nbx_context_generator(ctx);
    if (generator) s->generator = *generator;
    return generator != NULL;
}

static bool put_back(nbx_context *ctx, nbx_storage *const *places, const snapshot *s) {
    for (int i = 0; i < s->count; i++)
        if (places[i]->bytes && nbx_copy_bytes(ctx, places[i]->device, places[i]->data, host, s->bytes[i], places[i]->bytes) != NBX_OK) return false;
    *nbx_context_generator(ctx) = s->generator;
    return true;
}

// Results as bytes, in row-major order: they may lie in places that are written again.
static bool copy_results(nbx_context *ctx, const nbx_value *results, int count, snapshot *s) {
    if (!make_room(ctx, s, count)) return false;
    for (int i = 0; i < count; i++) {
        const nbx_tensor *t = results[i].kind == NBX_KIND_TENSOR ? results[i].as.tensor : NULL;
        const size_t bytes = t ? nbx_tensor_nbytes(t) : sizeof results[i].as;
        s->bytes[i] = nbx_alloc_zero(bytes);
        if (!s->bytes[i]) return nbx_fail_memory(ctx, bytes, "a comparison"), false;
        if (!t) memcpy(s->bytes[i], &results[i].as, sizeof results[i].as);
        else if (bytes && nbx_tensor_read(ctx, t, s->bytes[i]) != NBX_OK) return false;
    }
    return true;
}

// ---------------------------------------------------------------------------------------------------------- comparison
static nbx_status differ(nbx_context *ctx, const nbx_program *p, const char *what, int index) {
    return nbx_fail(ctx, NBX_ERROR_INTERNAL, "%s: the replay of its plan gives another %s %d than a direct run", p->label, what, index);
}

static bool same_kind(const nbx_value *a, const nbx_value *b) {
    if (a->kind != b->kind) return false;
    return a->kind != NBX_KIND_TENSOR || (a->as.tensor->dtype == b->as.tensor->dtype && nbx_same_shape(a->as.tensor, b->as.tensor));
}

static nbx_status compare(nbx_context *ctx, const nbx_program *p, const nbx_value *replayed, const nbx_value *direct, const snapshot *before,
                          const snapshot *after) {
    for (int i = 0; i < p->output_count; i++) {
        const size_t bytes = direct[i].kind == NBX_KIND_TENSOR ? nbx_tensor_nbytes(direct[i].as.tensor) : direct[i].kind == NBX_KIND_NONE ? 0 : sizeof(int64_t);
        if (!same_kind(&replayed[i], &direct[i]) || memcmp(before->bytes[i], after->bytes[i], bytes) != 0) return differ(ctx, p, "result", i);
    }
    return NBX_OK;
}

static nbx_status compare_places(nbx_context *ctx, const nbx_program *p, nbx_storage *const *places, const snapshot *a, const snapshot *b) {
    for (int i = 0; i < a->count; i++)
        if (memcmp(a->bytes[i], b->bytes[i], places[i]->bytes) != 0) return differ(ctx, p, "buffer or written input", i);
    return NBX_OK;
}

nbx_status nbx_verify_replay(nbx_context *ctx, const nbx_program *p, nbx_storage *const *places, int count, nbx_verify_run replay,
                             nbx_verify_run direct, void *arg, nbx_value *results) {
    snapshot before = {0}, replayed_places = {0}, direct_places = {0}, replayed = {0}, ran = {0};
    nbx_value *first = nbx_alloc_zero(((size_t)p->output_count + 1) * sizeof *first);
    if (!first) return nbx_fail_memory(ctx, (size_t)p->output_count * sizeof *first, "a comparison");
    bool good = copy_places(ctx, places, count, &before) && replay(arg, first) == NBX_OK && copy_results(ctx, first, p->output_count, &replayed) &&
                copy_places(ctx, places, count, &replayed_places) && put_back(ctx, places, &before) && direct(arg, results) == NBX_OK &&
                copy_results(ctx, results, p->output_count, &ran) && copy_places(ctx, places, count, &direct_places);
    nbx_status status = good ? compare(ctx, p, first, results, &replayed, &ran) : nbx_last_status(ctx);
    if (status == NBX_OK) status = compare_places(ctx, p, places, &replayed_places, &direct_places);
    nbx_values_release(first, p->output_count);
    nbx_free(first);
    free_snapshot(&before);
    free_snapshot(&replayed_places);
    free_snapshot(&direct_places);
    free_snapshot(&replayed);
    free_snapshot(&ran);
    return status;
}

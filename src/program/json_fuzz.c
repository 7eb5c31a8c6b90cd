// Fuzz target: the JSON reader. What it accepts is walked, and every member is found again by its name.
#include "program/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const nbx_json *v) {
    if (v->kind == NBX_JSON_STRING && v->as.string[v->count]) abort();
    for (uint32_t i = 0; v->kind == NBX_JSON_ARRAY && i < v->count; i++) walk(nbx_json_at(v, i));
    for (uint32_t i = 0; v->kind == NBX_JSON_OBJECT && i < v->count; i++) {
        const nbx_json_member *m = &v->as.members[i];
        if (strlen(m->name) == m->name_bytes && nbx_json_get(v, m->name) != &m->value) abort();
        walk(&m->value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static nbx_context *ctx;
    const nbx_options options = {.threads = 1};
    if (!ctx) ctx = nbx_context_create(&options);
    nbx_json_document *document = nbx_json_create(ctx, "fuzz", (const char *)data, size);
    if (document) walk(nbx_json_root(document));
    nbx_json_destroy(document);
    nbx_clear_error(ctx);
    return 0;
}

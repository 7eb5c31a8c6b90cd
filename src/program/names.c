// Paths of inputs and outputs: the nesting of arguments and results is a pytree spec, JSON text inside the program's JSON.
//   [1, {"type": "builtins.dict", "context": "[\"logits\", \"past\"]", "children_spec": [...]}]   a leaf has type null
#include <stdio.h>
#include <string.h>

#include "program/program_parts.h"

enum { LONGEST_PATH = 256, MOST_LEAVES = 1 << 20, DEEPEST_SPEC = 100 };

typedef struct walker {
    nbx_context *ctx;
    nbx_arena *arena;
    const nbx_json *fields;     // treespec_namedtuple_fields: qualified name -> field names
    const nbx_json *arguments;  // forward_arg_names
    const char **paths;
    int count, capacity;
    bool failed;
} walker;

static void add_path(walker *w, const char *path) {
    if (w->count == w->capacity) {
        const int capacity = w->capacity ? w->capacity * 2 : 32;
        const char **paths = capacity > MOST_LEAVES ? NULL : nbx_arena_array(w->ctx, w->arena, (size_t)capacity, sizeof *paths);
        if (!paths) {
            w->failed = true;
            return;
        }
        if (w->count) memcpy(paths, w->paths, (size_t)w->count * sizeof *paths);
        w->paths = paths;
        w->capacity = capacity;
    }
    w->paths[w->count] = nbx_arena_text(w->ctx, w->arena, path, strlen(path));
    w->failed |= !w->paths[w->count++];
}

// Keys of the children: an array of strings or numbers, or NULL.
static const nbx_json *keys_of(const walker *w, const nbx_json *spec, const char *type, nbx_json_document *context) {
    const nbx_json *root = context ? nbx_json_root(context) : NULL;
    if (strstr(type, "namedtuple")) {
        const char *name = nbx_json_is(root, NBX_JSON_STRING) ? root->as.string : nbx_json_string_or(nbx_json_get(spec, "context"), "");
        return nbx_json_get(w->fields, name);
    }
    if (nbx_json_is(root, NBX_JSON_ARRAY)) {  // a dataclass has [names, names of absent ones]
        const nbx_json *first = nbx_json_at(root, 0);
        return nbx_json_is(first, NBX_JSON_ARRAY) ? first : root;
    }
    return NULL;
}

static void child_name(const nbx_json *keys, uint32_t index, char *name, size_t size) {
    const nbx_json *key = nbx_json_at(keys, index);
    if (nbx_json_is(key, NBX_JSON_STRING)) snprintf(name, size, "%s", key->as.string);
    else if (nbx_json_is(key, NBX_JSON_INT)) snprintf(name, size, "%lld", (long long)key->as.integer);
    else snprintf(name, size, "%u", index);
}

static void walk(walker *w, const nbx_json *spec, const char *path, int depth) {
    const char *type = nbx_json_string_or(nbx_json_get(spec, "type"), NULL);
    const nbx_json *children = nbx_json_get(spec, "children_spec"), *context = nbx_json_get(spec, "context");
    if (!type || depth > DEEPEST_SPEC) {
        if (nbx_json_is(spec, NBX_JSON_OBJECT) && depth <= DEEPEST_SPEC) add_path(w, path);
        return;
    }
    // A context is mostly JSON text itself; where it is a bare name, parsing it fails, which is no failure of the load.
    nbx_json_document *parsed = NULL;
    if (nbx_json_is(context, NBX_JSON_STRING) && context->count && strchr("[{\"", context->as.string[0])) {
        const bool was_well = nbx_last_status(w->ctx) == NBX_OK;
        parsed = nbx_json_create(w->ctx, "context", context->as.string, context->count);
        if (!parsed && was_well) nbx_clear_error(w->ctx);
    }
    const nbx_json *keys = keys_of(w, spec, type, parsed);
    for (uint32_t i = 0; nbx_json_is(children, NBX_JSON_ARRAY) && i < children->count && !w->failed; i++) {
        char child[LONGEST_PATH];
        const size_t used = strlen(path);
        memcpy(child, path, used + 1);
        if (used && used + 2 < sizeof child) memcpy(child + used, ".", 2);
        child_name(keys, i, child + strlen(child), sizeof child - strlen(child));
        walk(w, &children->as.items[i], child, depth + 1);
    }
    nbx_json_destroy(parsed);
}

// The arguments are a pair: a tuple of positional ones, named after forward's arguments, and a dict of keywords.
static void walk_arguments(walker *w, const nbx_json *spec) {
    const nbx_json *pair = nbx_json_get(spec, "children_spec");
    const nbx_json *args = nbx_json_at(pair, 0), *keywords = nbx_json_at(pair, 1);
    const nbx_json *positional = nbx_json_get(args, "children_spec");
    for (uint32_t i = 0; nbx_json_is(positional, NBX_JSON_ARRAY) && i < positional->count && !w->failed; i++) {
        char name[LONGEST_PATH];
        child_name(w->arguments, i, name, sizeof name);
        walk(w, &positional->as.items[i], name, 1);
    }
    if (keywords && !w->failed) walk(w, keywords, "", 1);
}

const char **nbx_paths_read(nbx_context *ctx, nbx_program *p, const nbx_json *root, bool outputs, int *count) {
    const nbx_json *module = nbx_json_get(root, "graph_module");
    const nbx_json *signature = nbx_json_get(nbx_json_at(nbx_json_get(module, "module_call_graph"), 0), "signature");
    const nbx_json *text = nbx_json_get(signature, outputs ? "out_spec" : "in_spec");
    walker w = {.ctx = ctx, .arena = &p->arena, .fields = nbx_json_get(module, "treespec_namedtuple_fields"),
                .arguments = nbx_json_get(signature, "forward_arg_names")};
    static const char *nothing[1] = {""};
    *count = 0;
    if (!nbx_json_is(text, NBX_JSON_STRING)) return nothing;
    const bool was_well = nbx_last_status(ctx) == NBX_OK;
    nbx_json_document *spec = nbx_json_create(ctx, outputs ? "out_spec" : "in_spec", text->as.string, text->count);
    if (!spec) {
        if (nbx_last_status(ctx) == NBX_ERROR_MEMORY) return NULL;
        if (was_well) nbx_clear_error(ctx);
        return nothing;  // names are a convenience: the signature has names of its own
    }
    const nbx_json *tree = nbx_json_at(nbx_json_root(spec), 1);
    if (outputs) walk(&w, tree, "", 0);
    else walk_arguments(&w, tree);
    nbx_json_destroy(spec);
    *count = w.count;
    return w.failed ? NULL : w.paths ? w.paths : nothing;
}

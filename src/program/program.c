// Loads a program: archive, JSON, graph, signature, weights. Whatever cannot run is collected on the way and told at once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "program/passes.h"

static bool fail(nbx_context *ctx, const nbx_program *p, nbx_status status, const char *what) {
    nbx_fail(ctx, status, "%s: %s", p->label, what);
    return false;
}

// -------------------------------------------------------------------------------------------------------- choosing parts
static bool choose_model(nbx_context *ctx, nbx_program *p, const char *wanted) {
    const int count = nbx_archive_model_count(p->archive);
    char names[512] = "";
    p->model = count == 1 && !wanted ? 0 : -1;
    for (int i = 0; i < count; i++) {
        const char *name = nbx_archive_model_name(p->archive, i);
        const size_t used = strlen(names);
        if (strcmp(name, wanted ? wanted : "model") == 0) p->model = i;
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", name);
    }
    if (p->model >= 0) return true;
    nbx_fail(ctx, NBX_ERROR_ARGUMENT, "%s: %s%s; it holds the models %s", p->label, wanted ? "there is no model " : "several models: name one",
             wanted ? wanted : "", names);
    return false;
}

// 2.1 wrote version 1, another format altogether; majors above 8 do not exist yet.
static bool check_version(nbx_context *ctx, const nbx_program *p, const nbx_json *root) {
    const nbx_json *version = nbx_json_get(root, "schema_version");
    if (nbx_json_is(version, NBX_JSON_OBJECT)) version = nbx_json_get(version, "major");
    if (!nbx_json_is(version, NBX_JSON_INT)) return fail(ctx, p, NBX_ERROR_FORMAT, "no exported program: schema_version is missing");
    if (version->as.integer < 2)
        return fail(ctx, p, NBX_ERROR_UNSUPPORTED, "written by PyTorch 2.1, in a format of its own: export again with 2.2 or newer");
    if (version->as.integer > 8) {
        nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s: its schema version is %lld, this library reads 2 to 8", p->label, (long long)version->as.integer);
        return false;
    }
    return true;
}

// ------------------------------------------------------------------------------------------------------------ operators
typedef struct tally {
    nbx_context *ctx;
    nbx_program *p;
    nbx_name_map names;
    int capacity;
} tally;

static const char *plain_name(tally *t, const nbx_node *node) {
    static const char higher[] = "torch.ops.higher_order.";
    if (node->op && node->kind != NBX_NODE_HIGHER) return node->op->name;
    if (strncmp(node->target, higher, sizeof higher - 1) != 0) return node->target;
    char text[256];
    snprintf(text, sizeof text, "higher_order::%s", node->target + sizeof higher - 1);
    return nbx_arena_text(t->ctx, &t->p->arena, text, strlen(text));
}

static bool count(tally *t, const char *name, bool ours, const nbx_operator *op) {
    nbx_program *p = t->p;
    int32_t index;
    if (!name) return false;
    switch (nbx_name_add(t->ctx, &p->arena, &t->names, name, p->operator_count, &index)) {
    case NBX_ADDED_FAILED: return false;
    case NBX_ADDED_BEFORE: return p->operators[index].count++, true;
    default: break;
    }
    if (p->operator_count == t->capacity) {
        t->capacity = t->capacity ? t->capacity * 2 : 32;
        nbx_program_operator *list = nbx_arena_array(t->ctx, &p->arena, (size_t)t->capacity, sizeof *list);
        if (!list) return false;
        if (p->operator_count) memcpy(list, p->operators, (size_t)p->operator_count * sizeof *list);
        p->operators = list;
    }
    p->operators[p->operator_count++] = (nbx_program_operator){
        .name = name, .count = 1, .known = ours || op, .cpu = ours || nbx_operator_available(op, NBX_CPU), .cuda = ours || nbx_operator_available(op, NBX_CUDA)};
    return true;
}

static bool count_node(tally *t, const nbx_node *node) {
    const bool higher = node->kind == NBX_NODE_HIGHER;
    return count(t, plain_name(t, node), node->kind == NBX_NODE_HOST || higher, node->op) &&
           (!higher || !node->op || count(t, node->op->name, false, node->op));
}

static bool count_graph(tally *t, const nbx_graph *g) {
    for (int32_t i = 0; i < g->node_count; i++) {
        const nbx_node *node = &g->nodes[i];
        if (!count_node(t, node)) return false;
        for (int32_t k = 0; k < node->arg_count; k++)
            if (node->args[k].kind == NBX_OPERAND_GRAPH && !count_graph(t, node->args[k].as.graph)) return false;
    }
    return true;
}

static int by_count(const void *a, const void *b) {
    const nbx_program_operator *x = a, *y = b;
    return x->count != y->count ? (x->count > y->count ? -1 : 1) : strcmp(x->name, y->name);
}

static bool count_operators(nbx_context *ctx, nbx_program *p) {
    tally t = {.ctx = ctx, .p = p};
    if (!count_graph(&t, p->graph)) return false;
    if (p->operator_count) qsort(p->operators, (size_t)p->operator_count, sizeof *p->operators, by_count);
    return true;
}

// ------------------------------------------------------------------------------------------------------------- problems
// All reasons go to the caller's function if there is one; else the message takes as many as fit and counts the rest.
static bool tell_problems(nbx_context *ctx, const nbx_program *p, const nbx_program_options *options) {
    char text[1900] = "", line[1100];
    size_t used = 0;
    int told = 0;
    const bool report = options && options->report;
    for (int i = 0; i < p->problems.count; i++) {
        nbx_problem_line(&p->problems.list[i], line, sizeof line);
        if (report) options->report(options->report_arg, line);
        if (report || told < i || used + strlen(line) + 64 > sizeof text) continue;
        used += (size_t)snprintf(text + used, sizeof text - used, "\n  %s", line);
        told++;
    }
    if (!report && told < p->problems.count) snprintf(text + used, sizeof text - used, "\n  ... and %d more", p->problems.count - told);
    nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s: this program cannot run here (%d reason%s)%s%s", p->label, p->problems.count,
             p->problems.count == 1 ? "" : "s", report ? "" : ":", text);
    return false;
}

// -------------------------------------------------------------------------------------------------------------- weights
typedef struct stores {
    nbx_store *weights, *constants;
} stores;

// Non-persistent buffers and lifted tensors are constants; 2.2 keeps all buffers with the weights.
static nbx_tensor *find_tensor(nbx_context *ctx, const nbx_program *p, const stores *s, const nbx_source *source) {
    nbx_store *first = source->constant || !source->persistent ? s->constants : s->weights;
    nbx_store *second = first == s->weights ? s->constants : s->weights;
    nbx_store *store = !nbx_store_has(first, source->name) && nbx_store_has(second, source->name) ? second : first;
    return nbx_store_tensor(ctx, store, source->name, p->device);
}

static bool load_weights(nbx_context *ctx, nbx_program *p, const stores *s) {
    p->weights = nbx_arena_array(ctx, &p->arena, (size_t)p->graph->input_count + 1, sizeof *p->weights);
    if (!p->weights) return false;
    for (int32_t i = 0; i < p->graph->input_count; i++) {
        nbx_source *source = &p->sources[i];
        if (source->kind != NBX_SOURCE_WEIGHT) continue;
        source->tensor = find_tensor(ctx, p, s, source);
        if (!source->tensor) return false;
        p->weights[p->weight_count++] = (nbx_program_weight){source->name, source->tensor, source->parameter, source->state};
    }
    size_t mapped[2];
    p->weight_bytes = nbx_store_bytes(s->weights, &mapped[0]) + nbx_store_bytes(s->constants, &mapped[1]);
    p->mapped_bytes = mapped[0] + mapped[1];
    return true;
}

static bool open_stores(nbx_context *ctx, nbx_program *p) {
    stores s = {nbx_store_open(ctx, p->archive, p->model, false), NULL};
    s.constants = s.weights ? nbx_store_open(ctx, p->archive, p->model, true) : NULL;
    const bool good = s.constants && load_weights(ctx, p, &s);
    nbx_store_close(s.weights);
    nbx_store_close(s.constants);
    return good;
}

// -------------------------------------------------------------------------------------------------------------- loading
static void forget_metas(nbx_graph *g) {
    for (int32_t i = 0; i < g->value_count; i++) g->values[i].meta = NULL;
    for (int32_t i = 0; i < g->node_count; i++)
        for (int32_t k = 0; k < g->nodes[i].arg_count; k++)
            if (g->nodes[i].args[k].kind == NBX_OPERAND_GRAPH) forget_metas(g->nodes[i].args[k].as.graph);
}

static bool read_program(nbx_context *ctx, nbx_program *p, const nbx_json *root, const nbx_program_options *options) {
    if (!check_version(ctx, p, root)) return false;
    const nbx_json *graph = nbx_json_get(nbx_json_get(root, "graph_module"), "graph");
    if (!graph) return fail(ctx, p, NBX_ERROR_FORMAT, "it has no graph");
    const char *version = nbx_json_string_or(nbx_json_get(root, "torch_version"), "");
    p->torch_version = nbx_arena_text(ctx, &p->arena, version, strlen(version));
    p->problems.arena = &p->arena;
    nbx_graph_reader r = {.ctx = ctx, .arena = &p->arena, .label = p->label, .device = p->device, .problems = &p->problems, .node = -1};
    p->graph = nbx_graph_read(&r, graph, "");
    if (!p->torch_version || !p->graph || !nbx_signature_read(ctx, p, root) || !count_operators(ctx, p)) return false;
    forget_metas(p->graph);
    return p->problems.count == 0 || (options && options->inspect) || tell_problems(ctx, p, options);
}

// What no run writes, and no caller gets as a result, may be packed.
static void mark_constants(nbx_program *p) {
    const nbx_graph *g = p->graph;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < g->input_count; i++) {
            const nbx_source *s = &p->sources[i];
            const bool shown = g->inputs[i].kind == NBX_OPERAND_VALUE && (g->returned[g->inputs[i].as.value] || g->written[g->inputs[i].as.value]);
            if (s->tensor && (pass == 0 || s->state || shown)) s->tensor->storage->constant = pass == 0;
        }
}

static bool load_model(nbx_context *ctx, nbx_program *p, const nbx_program_options *options) {
    const char *text;
    size_t bytes;
    if (!choose_model(ctx, p, options ? options->model : NULL)) return false;
    if (nbx_archive_model_text(ctx, p->archive, p->model, &text, &bytes) != NBX_OK) return false;
    nbx_json_document *json = nbx_json_create(ctx, p->label, text, bytes);
    const bool good = json && read_program(ctx, p, nbx_json_root(json), options);
    nbx_json_destroy(json);
    return good && open_stores(ctx, p) && nbx_passes_run(ctx, p, options ? options->without : NULL) &&
           nbx_ceiling_check_at_load(ctx, p) == NBX_OK;
}

static nbx_status load(nbx_context *ctx, const char *label, nbx_bytes *bytes, const nbx_program_options *options, nbx_program **program) {
    nbx_program *p = bytes ? nbx_alloc_zero(sizeof *p) : NULL;
    if (bytes && !p) nbx_fail_memory(ctx, sizeof *p, "a program");
    if (!p) {
        nbx_bytes_release(bytes);
        return nbx_last_status(ctx);
    }
    p->refs = 1;
    p->packs = nbx_packed_open(&p->packed);
    p->bytes = bytes;
    p->device = nbx_context_device(ctx);
    p->memory_ceiling = options ? options->memory_ceiling : 0;
    const char *slash = strrchr(label, '/');
    p->label = nbx_arena_text(ctx, &p->arena, slash ? slash + 1 : label, strlen(slash ? slash + 1 : label));
    p->archive = p->label ? nbx_archive_open(ctx, p->label, bytes) : NULL;
    if (p->archive && load_model(ctx, p, options)) {
        mark_constants(p);
        nbx_bytes_rest(bytes);  // a page touched for an entry's header brings its neighbours, up to 2 MB of weights
        return *program = p, NBX_OK;
    }
    nbx_program_destroy(p);
    return nbx_last_status(ctx);
}

nbx_status nbx_program_load(nbx_context *ctx, const char *path, const nbx_program_options *options, nbx_program **program) {
    *program = NULL;
    return load(ctx, path, nbx_bytes_map(ctx, path), options, program);
}

nbx_status nbx_program_load_memory(nbx_context *ctx, const char *name, const void *data, size_t bytes,
                                   const nbx_program_options *options, nbx_program **program) {
    *program = NULL;
    return load(ctx, name, nbx_bytes_borrow(ctx, data, bytes), options, program);
}

void nbx_program_destroy(nbx_program *p) {
    if (!p || __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (p->packs) nbx_packed_close(&p->packed);
    for (int32_t i = 0; p->sources && p->graph && i < p->graph->input_count; i++) nbx_release(p->sources[i].tensor);
    nbx_archive_close(p->archive);
    nbx_bytes_release(p->bytes);
    nbx_arena_free(&p->arena);
    nbx_free(p);
}

// The signature of a program: what each input of the graph is (weight, caller's input, constant), what each output is (result,
// new contents of a buffer), with shapes, symbols, their ranges, and the guards over the caller's inputs.
#include <stdio.h>
#include <string.h>

#include "program/program_parts.h"

typedef struct reader {
    nbx_context *ctx;
    nbx_program *p;
    nbx_name_map values;  // name of a graph input -> its index
    const char **paths;
    int path_count;
    int user;             // inputs seen so far, fixed ones included
} reader;

static bool fail(reader *r, const char *what) {
    nbx_fail(r->ctx, NBX_ERROR_FORMAT, "%s: signature: %s", r->p->label, what);
    return false;
}

static char *copy_text(reader *r, const nbx_json *v) {
    if (!nbx_json_is(v, NBX_JSON_STRING) || strlen(v->as.string) != v->count) return NULL;
    return nbx_arena_text(r->ctx, &r->p->arena, v->as.string, v->count);
}

static char *format_text(reader *r, const char *format, int number) {
    char text[64];
    snprintf(text, sizeof text, format, number);
    return nbx_arena_text(r->ctx, &r->p->arena, text, strlen(text));
}

// ------------------------------------------------------------------------------------------------------------- symbols
// Reads a SymInt: {"as_int": 3}, or {"as_expr": {"expr_str": "Symbol('s77', ...)", "hint": {"as_int": 5}}}. *size: the number,
// or the hint of an expression (-1: none).
static bool read_size(reader *r, const nbx_json *v, int64_t *size, const nbx_expr **expr) {
    *expr = NULL;
    if (nbx_json_is(v, NBX_JSON_INT)) return *size = v->as.integer, true;
    const nbx_json *number = nbx_json_get(v, "as_int"), *symbolic = nbx_json_get(v, "as_expr");
    if (nbx_json_is(number, NBX_JSON_INT)) return *size = number->as.integer, true;
    const nbx_json *text = nbx_json_get(symbolic, "expr_str");
    if (!nbx_json_is(text, NBX_JSON_STRING)) return fail(r, "a size is malformed");
    *size = nbx_json_int_or(nbx_json_get(nbx_json_get(symbolic, "hint"), "as_int"), -1);
    static const nbx_expr not_understood = {.op = NBX_EXPR_INPUT, .dim = -1, .as.path = ""};
    *expr = nbx_expr_parse(r->ctx, &r->p->arena, text->as.string, text->count, &r->p->symbols);
    if (!*expr) *expr = &not_understood;
    return nbx_last_status(r->ctx) != NBX_ERROR_MEMORY;
}

static bool read_ranges(reader *r, const nbx_json *root) {
    const nbx_json *ranges = nbx_json_get(root, "range_constraints");
    const uint32_t count = nbx_json_is(ranges, NBX_JSON_OBJECT) ? ranges->count : 0;
    r->p->ranges = nbx_arena_array(r->ctx, &r->p->arena, (size_t)count + 1, sizeof *r->p->ranges);
    if (!r->p->ranges) return false;
    r->p->range_capacity = (int32_t)count;
    for (uint32_t i = 0; i < count; i++) {  // first symbols of the map: numbers 0 ... count - 1
        const nbx_json_member *m = &ranges->as.members[i];
        char *name = nbx_arena_text(r->ctx, &r->p->arena, m->name, m->name_bytes);
        int32_t symbol;
        if (!name || nbx_name_add(r->ctx, &r->p->arena, &r->p->symbols, name, (int32_t)r->p->symbols.count, &symbol) == NBX_ADDED_FAILED) return false;
        nbx_symbol_range *range = &r->p->ranges[symbol];
        range->known = true;
        range->min = nbx_json_int_or(nbx_json_get(&m->value, "min_val"), 0);
        range->max = nbx_json_int_or(nbx_json_get(&m->value, "max_val"), -1);
        if (range->max >= INT64_MAX - 1) range->max = -1;
    }
    return true;
}

static bool name_symbols(reader *r) {
    nbx_program *p = r->p;
    p->symbol_count = (int32_t)p->symbols.count;
    p->symbol_names = nbx_arena_array(r->ctx, &p->arena, (size_t)p->symbol_count + 1, sizeof *p->symbol_names);
    if (!p->symbol_names) return false;
    for (uint32_t i = 0; i < p->symbols.capacity; i++)
        if (p->symbols.names[i]) p->symbol_names[p->symbols.values[i]] = p->symbols.names[i];
    return true;
}

// -------------------------------------------------------------------------------------------------------------- shapes
static bool read_tensor_facts(reader *r, const nbx_json *meta, nbx_program_value *v, const nbx_expr ***exprs, int64_t **hints) {
    const nbx_json *sizes = nbx_json_get(meta, "sizes");
    v->kind = NBX_KIND_TENSOR;
    v->dtype = nbx_dtype_from_program((int)nbx_json_int_or(nbx_json_get(meta, "dtype"), -1));
    if (!nbx_json_is(sizes, NBX_JSON_ARRAY) || sizes->count > NBX_MAX_RANK) return fail(r, "a tensor has no sizes");
    v->rank = (int)sizes->count;
    nbx_program_dim *dims = nbx_arena_array(r->ctx, &r->p->arena, sizes->count + 1, sizeof *dims);
    const nbx_expr **list = nbx_arena_array(r->ctx, &r->p->arena, sizes->count + 1, sizeof *list);
    *hints = nbx_arena_array(r->ctx, &r->p->arena, sizes->count + 1, sizeof **hints);
    if (!dims || !list || !*hints) return false;
    for (uint32_t i = 0; i < sizes->count; i++) {
        if (!read_size(r, &sizes->as.items[i], &dims[i].size, &list[i])) return false;
        (*hints)[i] = dims[i].size < 0 ? 1 : dims[i].size;
        dims[i].min = dims[i].max = dims[i].size;
        if (!list[i]) continue;
        dims[i].size = -1;
        dims[i].min = 0;
        dims[i].max = -1;
        if (list[i]->op == NBX_EXPR_SYMBOL && list[i]->as.symbol < r->p->range_capacity && r->p->ranges[list[i]->as.symbol].known) {
            dims[i].min = r->p->ranges[list[i]->as.symbol].min;
            dims[i].max = r->p->ranges[list[i]->as.symbol].max;
        }
        const nbx_json *text = nbx_json_get(nbx_json_get(&sizes->as.items[i], "as_expr"), "expr_str");
        dims[i].symbol = "";
        if (nbx_json_is(text, NBX_JSON_STRING) && list[i]->op != NBX_EXPR_SYMBOL) dims[i].symbol = copy_text(r, text);
        if (!dims[i].symbol) return false;
    }
    v->dims = dims;
    *exprs = list;
    return true;
}

static bool describe(reader *r, const nbx_operand *o, nbx_program_value *v, const nbx_expr ***exprs, int64_t **hints) {
    *exprs = NULL;
    if (o->kind == NBX_OPERAND_CONSTANT) {
        v->kind = (nbx_kind)o->as.constant.kind;
        v->fixed = true;
        v->value = o->as.constant;
        return true;
    }
    if (o->kind != NBX_OPERAND_VALUE) return fail(r, "an input or output is neither tensor nor number");
    const nbx_graph_value *value = &r->p->graph->values[o->as.value];
    static const nbx_kind kinds[] = {NBX_KIND_TENSOR, NBX_KIND_INT, NBX_KIND_FLOAT, NBX_KIND_BOOL};
    v->kind = kinds[value->type];
    v->dtype = NBX_DTYPE_NONE;
    if (value->type != NBX_VALUE_TENSOR) return true;
    if (value->meta) return read_tensor_facts(r, value->meta, v, exprs, hints);
    return nbx_problem_add(r->ctx, &r->p->problems, "value %.100s has no dtype and sizes", value->name);
}

// -------------------------------------------------------------------------------------------------------------- inputs
static const char *path_or(reader *r, int index, const char *otherwise) {
    return index < r->path_count && r->paths[index][0] ? r->paths[index] : otherwise;
}

static bool add_user(reader *r, int32_t input, const char *given) {
    nbx_program *p = r->p;
    const nbx_operand *o = &p->graph->inputs[input];
    const int leaf = r->user++;
    nbx_program_value v = {.name = given};
    const nbx_expr **exprs;
    int64_t *hints = NULL;
    if (!describe(r, o, &v, &exprs, &hints)) return false;
    if (!v.name) v.name = o->kind == NBX_OPERAND_VALUE ? p->graph->values[o->as.value].name : format_text(r, "input_%d", p->input_count);
    if (!v.name) return false;
    v.path = path_or(r, leaf, v.name);
    if (v.fixed) {
        p->sources[input].kind = NBX_SOURCE_FIXED;
        p->fixed[p->fixed_count++] = v;
        return true;
    }
    v.written = p->graph->input_written[input];
    p->sources[input].kind = NBX_SOURCE_USER;
    p->sources[input].name = v.name;
    p->sources[input].user = p->input_count;
    p->input_dims[p->input_count] = exprs;
    p->input_hints[p->input_count] = hints;
    p->inputs[p->input_count++] = v;
    return true;
}

static bool add_weight(reader *r, int32_t input, const char *kind, const nbx_json *spec) {
    static const struct { const char *kind, *field; bool parameter, constant; } all[] = {
        {"parameter", "parameter_name", true, false}, {"buffer", "buffer_name", false, false},
        {"tensor_constant", "tensor_constant_name", false, true},
    };
    nbx_source *s = &r->p->sources[input];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(kind, all[i].kind) != 0) continue;
        s->kind = NBX_SOURCE_WEIGHT;
        s->name = copy_text(r, nbx_json_get(spec, all[i].field));
        s->parameter = all[i].parameter;
        s->constant = all[i].constant;
        s->persistent = !all[i].constant && nbx_json_bool_or(nbx_json_get(spec, "persistent"), true);
        s->state = r->p->graph->input_written[input];
        return s->name ? true : fail(r, "a weight has no name");
    }
    return nbx_problem_add(r->ctx, &r->p->problems, "an input of the kind %.100s is not supported", kind);
}

static bool read_input(reader *r, int32_t input, const nbx_json *spec) {
    const char *kind;
    const nbx_json *body;
    r->p->sources[input].kind = NBX_SOURCE_FIXED;
    if (!nbx_union_member(spec, &kind, &body)) return fail(r, "an input spec is malformed");
    if (strcmp(kind, "user_input") == 0) return add_user(r, input, NULL);
    if (strcmp(kind, "constant_input") == 0) {
        const char *name = copy_text(r, nbx_json_get(body, "name"));
        if (!name) return fail(r, "a constant input has no name");
        return add_user(r, input, name);
    }
    if (strcmp(kind, "token") == 0) return r->p->sources[input].kind = NBX_SOURCE_TOKEN, true;
    return add_weight(r, input, kind, body);
}

static bool read_inputs(reader *r, const nbx_json *signature) {
    nbx_program *p = r->p;
    const nbx_json *specs = nbx_json_get(signature, "input_specs");
    if (!nbx_json_is(specs, NBX_JSON_ARRAY) || specs->count != (uint32_t)p->graph->input_count)
        return fail(r, "input_specs do not match the graph's inputs");
    const size_t count = (size_t)specs->count + 1;
    p->sources = nbx_arena_array(r->ctx, &p->arena, count, sizeof *p->sources);
    p->inputs = nbx_arena_array(r->ctx, &p->arena, count, sizeof *p->inputs);
    p->fixed = nbx_arena_array(r->ctx, &p->arena, count, sizeof *p->fixed);
    p->input_dims = nbx_arena_array(r->ctx, &p->arena, count, sizeof *p->input_dims);
    p->input_hints = nbx_arena_array(r->ctx, &p->arena, count, sizeof *p->input_hints);
    p->input_numbers = nbx_arena_array(r->ctx, &p->arena, count, sizeof *p->input_numbers);
    if (!p->sources || !p->inputs || !p->fixed || !p->input_dims || !p->input_hints || !p->input_numbers) return false;
    for (uint32_t i = 0; i < specs->count; i++) {
        if (!read_input(r, (int32_t)i, &specs->as.items[i])) return false;
        const nbx_operand *o = &p->graph->inputs[i];
        int32_t known;
        if (o->kind != NBX_OPERAND_VALUE) continue;
        if (nbx_name_add(r->ctx, &p->arena, &r->values, p->graph->values[o->as.value].name, (int32_t)i, &known) == NBX_ADDED_FAILED) return false;
    }
    return true;
}

// An integer input's symbol, so that its range can be checked.
static bool read_number_inputs(reader *r, const nbx_json *graph) {
    nbx_program *p = r->p;
    const nbx_json *ints = nbx_json_get(graph, "sym_int_values");
    for (int32_t i = 0; i < p->graph->input_count; i++) {
        const nbx_source *s = &p->sources[i];
        if (s->kind != NBX_SOURCE_USER || p->inputs[s->user].kind != NBX_KIND_INT) continue;
        const nbx_json *value = nbx_json_get(ints, p->graph->values[p->graph->inputs[i].as.value].name);
        int64_t *hint = p->input_hints[s->user] = nbx_arena_alloc(r->ctx, &p->arena, sizeof *hint);
        if (!hint || (value && !read_size(r, value, hint, &p->input_numbers[s->user]))) return false;
    }
    return true;
}

// ------------------------------------------------------------------------------------------------------------- outputs
static int32_t input_named(reader *r, const nbx_json *body, const char *field, bool weights) {
    const char *name = nbx_json_string_or(nbx_json_get(body, field), "");
    if (!weights) return nbx_name_find(&r->values, name);
    for (int32_t i = 0; i < r->p->graph->input_count; i++)
        if (r->p->sources[i].kind == NBX_SOURCE_WEIGHT && strcmp(r->p->sources[i].name, name) == 0) return i;
    return -1;
}

static bool add_mutation(reader *r, nbx_sink *sink, int32_t input) {
    nbx_source *s = input >= 0 ? &r->p->sources[input] : NULL;
    if (!s || s->kind == NBX_SOURCE_FIXED || s->kind == NBX_SOURCE_TOKEN) return fail(r, "an output is written back to an input that is not there");
    sink->kind = NBX_SINK_MUTATION;
    sink->input = input;
    if (s->kind == NBX_SOURCE_WEIGHT) s->state = true;
    else r->p->inputs[s->user].written = true;
    return true;
}

static bool add_result(reader *r, nbx_sink *sink, const nbx_operand *o) {
    nbx_program *p = r->p;
    const nbx_expr **exprs;
    int64_t *hints;
    nbx_program_value v = {.name = format_text(r, "output_%d", p->output_count)};
    if (!v.name || !describe(r, o, &v, &exprs, &hints)) return false;
    v.path = path_or(r, p->output_count, v.name);
    sink->kind = NBX_SINK_USER;
    p->output_dims[p->output_count] = exprs;
    p->outputs[p->output_count++] = v;
    return true;
}

static bool read_output(reader *r, nbx_sink *sink, const nbx_operand *o, const nbx_json *spec) {
    const char *kind;
    const nbx_json *body;
    sink->kind = NBX_SINK_NOTHING;
    if (!nbx_union_member(spec, &kind, &body)) return fail(r, "an output spec is malformed");
    if (strcmp(kind, "user_output") == 0 || strcmp(kind, "loss_output") == 0) return add_result(r, sink, o);
    if (strcmp(kind, "buffer_mutation") == 0) return add_mutation(r, sink, input_named(r, body, "buffer_name", true));
    if (strcmp(kind, "parameter_mutation") == 0) return add_mutation(r, sink, input_named(r, body, "parameter_name", true));
    if (strcmp(kind, "user_input_mutation") == 0) return add_mutation(r, sink, input_named(r, body, "user_input_name", false));
    if (strcmp(kind, "token") == 0) return true;
    return nbx_problem_add(r->ctx, &r->p->problems, "an output of the kind %.100s is not supported", kind);
}

static bool read_outputs(reader *r, const nbx_json *root, const nbx_json *signature) {
    nbx_program *p = r->p;
    const nbx_json *specs = nbx_json_get(signature, "output_specs");
    if (!nbx_json_is(specs, NBX_JSON_ARRAY) || specs->count != (uint32_t)p->graph->output_count)
        return fail(r, "output_specs do not match the graph's outputs");
    r->paths = nbx_paths_read(r->ctx, p, root, true, &r->path_count);
    p->sinks = nbx_arena_array(r->ctx, &p->arena, (size_t)specs->count + 1, sizeof *p->sinks);
    p->outputs = nbx_arena_array(r->ctx, &p->arena, (size_t)specs->count + 1, sizeof *p->outputs);
    p->output_dims = nbx_arena_array(r->ctx, &p->arena, (size_t)specs->count + 1, sizeof *p->output_dims);
    if (!r->paths || !p->sinks || !p->outputs || !p->output_dims) return false;
    for (uint32_t i = 0; i < specs->count; i++)
        if (!read_output(r, &p->sinks[i], &p->graph->outputs[i], &specs->as.items[i])) return false;
    return true;
}

// -------------------------------------------------------------------------------------------------------------- guards
static bool read_guards(reader *r, const nbx_json *root) {
    const nbx_json *list = nbx_json_get(root, "guards_code");
    const uint32_t count = nbx_json_is(list, NBX_JSON_ARRAY) ? list->count : 0;
    r->p->guards = nbx_arena_array(r->ctx, &r->p->arena, (size_t)count + 1, sizeof *r->p->guards);
    if (!r->p->guards) return false;
    for (uint32_t i = 0; i < count; i++) {
        const nbx_json *text = &list->as.items[i];
        if (!nbx_json_is(text, NBX_JSON_STRING)) continue;
        nbx_guard *g = &r->p->guards[r->p->guard_count];
        g->expr = nbx_expr_parse(r->ctx, &r->p->arena, text->as.string, text->count, &r->p->symbols);
        if (nbx_last_status(r->ctx) == NBX_ERROR_MEMORY) return false;
        if (!g->expr) continue;  // about something else than sizes: may be left unchecked
        g->text = nbx_arena_text(r->ctx, &r->p->arena, text->as.string, text->count);
        if (!g->text) return false;
        r->p->guard_count++;
    }
    return true;
}

// Dims show the name of their symbol, or an expression of symbols that is not too long; the names are known when all are read.
static bool label_dims(reader *r, nbx_program_value *v, const nbx_expr *const *exprs) {
    for (int i = 0; exprs && i < v->rank; i++) {
        nbx_program_dim *dim = (nbx_program_dim *)&v->dims[i];
        char text[128];
        if (exprs[i] && exprs[i]->op == NBX_EXPR_SYMBOL) dim->symbol = r->p->symbol_names[exprs[i]->as.symbol];
        else if (exprs[i] && exprs[i]->op != NBX_EXPR_INT && nbx_expr_text(exprs[i], r->p->symbol_names, text, sizeof text)) {
            dim->symbol = nbx_arena_text(r->ctx, &r->p->arena, text, strlen(text));
            if (!dim->symbol) return false;
        }
    }
    return true;
}

bool nbx_signature_read(nbx_context *ctx, nbx_program *p, const nbx_json *root) {
    reader r = {.ctx = ctx, .p = p};
    const nbx_json *module = nbx_json_get(root, "graph_module"), *signature = nbx_json_get(module, "signature");
    r.paths = nbx_paths_read(ctx, p, root, false, &r.path_count);
    if (!r.paths || !read_ranges(&r, root) || !read_inputs(&r, signature) || !read_number_inputs(&r, nbx_json_get(module, "graph")) ||
        !read_outputs(&r, root, signature) || !read_guards(&r, root) || !name_symbols(&r))
        return false;
    bool labelled = true;
    for (int i = 0; i < p->input_count && labelled; i++) labelled = label_dims(&r, &p->inputs[i], p->input_dims[i]);
    for (int i = 0; i < p->output_count && labelled; i++) labelled = label_dims(&r, &p->outputs[i], p->output_dims[i]);
    return labelled;
}

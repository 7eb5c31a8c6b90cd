// Reads graphs: names become numbers, targets become operators, arguments move to the places the schema gives them.
#include "program/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ops/symbolic/symbolic.h"
#include "program/autocast.h"
#include "program/higher.h"

enum { DEEPEST_GRAPH = 64, LONGEST_LINE = 512 };

// ------------------------------------------------------------------------------------------------------------ messages
bool nbx_graph_fail(nbx_graph_reader *r, const char *format, ...) {
    char text[LONGEST_LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *graph = r->graph && r->graph->name[0] ? r->graph->name : "graph";
    if (r->node < 0) nbx_fail(r->ctx, NBX_ERROR_FORMAT, "%s: %s: %s", r->label, graph, text);
    else nbx_fail(r->ctx, NBX_ERROR_FORMAT, "%s: %s, node %d: %s", r->label, graph, (int)r->node, text);
    return false;
}

bool nbx_problem_add_at(nbx_context *ctx, nbx_problems *p, const char *source, const char *text) {
    for (int i = 0; i < p->count; i++)
        if (strcmp(p->list[i].text, text) == 0) return p->list[i].count++, true;
    if (p->count == p->capacity) {
        const int capacity = p->capacity ? p->capacity * 2 : 16;
        nbx_problem *list = nbx_arena_array(ctx, p->arena, (size_t)capacity, sizeof *list);
        if (!list) return false;
        if (p->count) memcpy(list, p->list, (size_t)p->count * sizeof *list);
        p->list = list;
        p->capacity = capacity;
    }
    const char *copy = nbx_arena_text(ctx, p->arena, text, strlen(text));
    if (!copy) return false;
    p->list[p->count++] = (nbx_problem){copy, source, 1};
    return true;
}

bool nbx_problem_add(nbx_context *ctx, nbx_problems *p, const char *format, ...) {
    char text[LONGEST_LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return nbx_problem_add_at(ctx, p, "", text);
}

const char *nbx_problem_line(const nbx_problem *p, char *line, size_t size) {
    char times[32] = "";
    if (p->count > 1) snprintf(times, sizeof times, " (%d times)", p->count);
    snprintf(line, size, "%s%s%s%s", p->text, times, p->source[0] ? p->count > 1 ? ", first at " : ", at " : "", p->source);
    return line;
}

// Frames inside PyTorch's own layers, and code that the tracer made up, say less than the model's line that led there.
static bool is_model_line(const char *file) {
    const size_t length = strcspn(file, "\"\n");
    const char *torch = strstr(file, "/torch/");
    return file[0] != '<' && !(torch && torch < file + length);
}

// The innermost frame of a stack trace: '  File "m.py", line 3, in forward\n    return x + 1\n' -> 'm.py:3: return x + 1'.
static const char *shorten_trace(nbx_graph_reader *r, const char *trace) {
    const char *frame = NULL;
    for (const char *at = trace; (at = strstr(at, "File \"")); at++)
        if (!frame || is_model_line(at + 6)) frame = at;
    if (!frame) return "";
    const char *file = frame + 6, *end = strchr(file, '"'), *line = end ? strstr(end, "line ") : NULL;
    if (!line) return "";
    for (const char *c = file; c < end; c++)
        if (*c == '/') file = c + 1;
    const char *code = strchr(line, '\n');
    while (code && (*code == '\n' || *code == ' ')) code++;
    char text[LONGEST_LINE];
    snprintf(text, sizeof text, "%.*s:%.*s%s%.*s", (int)(end - file), file, (int)strspn(line + 5, "0123456789"), line + 5,
             code && *code ? ": " : "", code ? (int)strcspn(code, "\n") : 0, code ? code : "");
    return nbx_arena_text(r->ctx, r->arena, text, strlen(text));
}

// Neighbours mostly come from the same line of the model.
static const char *source_of(nbx_graph_reader *r, const nbx_json *node) {
    const nbx_json *trace = nbx_json_get(nbx_json_get(node, "metadata"), "stack_trace");
    if (!nbx_json_is(trace, NBX_JSON_STRING)) return "";
    if (r->last_trace && r->last_trace->count == trace->count && memcmp(r->last_trace->as.string, trace->as.string, trace->count) == 0)
        return r->last_source;
    r->last_trace = trace;
    return r->last_source = shorten_trace(r, trace->as.string);
}

// -------------------------------------------------------------------------------------------------------------- values
int32_t nbx_graph_value_of(nbx_graph_reader *r, const char *name) {
    const int32_t value = nbx_name_find(&r->names, name);
    if (value < 0) nbx_graph_fail(r, "value %.200s is used, but nothing before it gives it", name);
    return value;
}

static bool is_name(const nbx_json *v) {
    return nbx_json_is(v, NBX_JSON_STRING) && v->count > 0 && strlen(v->as.string) == v->count;
}

static bool define(nbx_graph_reader *r, const nbx_json *name, nbx_value_type type, int32_t *value) {
    if (nbx_json_is(name, NBX_JSON_OBJECT)) name = nbx_json_get(name, "name");
    if (!is_name(name)) return nbx_graph_fail(r, "a result has no name");
    nbx_graph *g = r->graph;
    char *copy = nbx_arena_text(r->ctx, r->arena, name->as.string, name->count);
    const nbx_added added = copy ? nbx_name_add(r->ctx, r->arena, &r->names, copy, g->value_count, value) : NBX_ADDED_FAILED;
    if (added == NBX_ADDED_FAILED) return false;
    if (added == NBX_ADDED_BEFORE) return nbx_graph_fail(r, "value %.200s is given twice", copy);
    g->values[g->value_count++] = (nbx_graph_value){copy, (uint8_t)type, NULL};
    return true;
}

// Defines what an output Argument names, and appends its numbers to the node's outputs.
static bool define_argument(nbx_graph_reader *r, const nbx_json *argument, int32_t *outputs, int32_t *count) {
    const char *form;
    const nbx_json *v;
    if (!nbx_union_member(argument, &form, &v)) return nbx_graph_fail(r, "a result is malformed");
    if (strcmp(form, "as_tensors") == 0) {
        for (uint32_t i = 0; i < (nbx_json_is(v, NBX_JSON_ARRAY) ? v->count : 0); i++)
            if (!define(r, &v->as.items[i], NBX_VALUE_TENSOR, &outputs[(*count)++])) return false;
        return true;
    }
    if (strcmp(form, "as_tensor") == 0) return define(r, v, NBX_VALUE_TENSOR, &outputs[(*count)++]);
    if (strcmp(form, "as_none") == 0) return outputs[(*count)++] = -1, true;
    const nbx_json *name = nbx_json_get(v, "as_name");
    if (strcmp(form, "as_sym_int") == 0 && name) return define(r, name, NBX_VALUE_INT, &outputs[(*count)++]);
    if (strcmp(form, "as_sym_float") == 0 && name) return define(r, name, NBX_VALUE_FLOAT, &outputs[(*count)++]);
    if (strcmp(form, "as_sym_bool") == 0 && name) return define(r, name, NBX_VALUE_BOOL, &outputs[(*count)++]);
    // A number that export fixed: the operator still returns it, nothing reads it.
    return outputs[(*count)++] = -1, true;
}

static size_t names_in(const nbx_json *argument) {
    const char *form;
    const nbx_json *v;
    if (!nbx_union_member(argument, &form, &v)) return 0;
    return strcmp(form, "as_tensors") == 0 && nbx_json_is(v, NBX_JSON_ARRAY) ? v->count : 1;
}

static size_t count_values(const nbx_json *json) {
    const nbx_json *inputs = nbx_json_get(json, "inputs"), *nodes = nbx_json_get(json, "nodes");
    size_t count = inputs->count;
    for (uint32_t i = 0; i < nodes->count; i++) {
        const nbx_json *outputs = nbx_json_get(&nodes->as.items[i], "outputs");
        for (uint32_t k = 0; k < (nbx_json_is(outputs, NBX_JSON_ARRAY) ? outputs->count : 0); k++) count += names_in(&outputs->as.items[k]);
    }
    return count;
}

// --------------------------------------------------------------------------------------------------------------- nodes
static const nbx_json *inputs_of(nbx_graph_reader *r, const nbx_json *json) {
    const nbx_json *inputs = nbx_json_get(json, "inputs");
    if (nbx_json_is(inputs, NBX_JSON_ARRAY) && inputs->count < 4096) return inputs;
    nbx_graph_fail(r, "a node has no list of inputs");
    return NULL;
}

static bool is_number_type(nbx_type type) {
    return type == NBX_TYPE_INT || type == NBX_TYPE_FLOAT || type == NBX_TYPE_BOOL || type == NBX_TYPE_SCALAR;
}

static bool constant_fits(const nbx_param *p, const nbx_value *v) {
    const nbx_type type = (nbx_type)p->type;
    switch (v->kind) {
    case NBX_KIND_NONE: return p->optional || p->optional_element || p->has_default;
    case NBX_KIND_INT: case NBX_KIND_FLOAT: case NBX_KIND_BOOL: case NBX_KIND_COMPLEX: return is_number_type(type) || type == NBX_TYPE_TENSOR;
    case NBX_KIND_STRING: return type == NBX_TYPE_STRING;
    case NBX_KIND_DTYPE: return type == NBX_TYPE_DTYPE;
    case NBX_KIND_LAYOUT: return type == NBX_TYPE_LAYOUT;
    case NBX_KIND_DEVICE: return type == NBX_TYPE_DEVICE;
    case NBX_KIND_MEMORY_FORMAT: return type == NBX_TYPE_MEMORY_FORMAT;
    case NBX_KIND_INTS: case NBX_KIND_FLOATS: case NBX_KIND_BOOLS: return p->list && (is_number_type(type) || v->count == 0);
    default: return p->list;
    }
}

static bool operand_fits(const nbx_graph *g, const nbx_param *p, const nbx_operand *o) {
    const nbx_type type = (nbx_type)p->type;
    if (type == NBX_TYPE_OTHER) return true;
    switch (o->kind) {
    case NBX_OPERAND_CONSTANT: return constant_fits(p, &o->as.constant);
    case NBX_OPERAND_VALUE:
        if (is_number_type(type)) return true;  // a 0-dim tensor is read
        return type == NBX_TYPE_TENSOR || type == NBX_TYPE_STORAGE;
    case NBX_OPERAND_LIST:
        if (!p->list) return false;
        for (int32_t i = 0; i < o->as.list.count; i++) {
            const nbx_operand *item = &o->as.list.items[i];
            if (item->kind == NBX_OPERAND_VALUE && g->values[item->as.value].type == NBX_VALUE_TENSOR && type != NBX_TYPE_TENSOR && !is_number_type(type))
                return false;
        }
        return true;
    default: return false;
    }
}

// Numbers where the schema wants floats are made floats once, here.
static void settle_constant(const nbx_param *p, nbx_operand *o) {
    if (o->kind == NBX_OPERAND_CONSTANT && !p->list && p->type == NBX_TYPE_FLOAT && o->as.constant.kind == NBX_KIND_INT)
        o->as.constant = nbx_of_float((double)o->as.constant.as.integer);
}

static bool place_argument(nbx_graph_reader *r, nbx_node *node, const nbx_json *input, uint32_t position, uint64_t *given) {
    const nbx_json *name = nbx_json_get(input, "name");
    const nbx_schema *schema = node->schema;
    const bool named = is_name(name);
    const int i = named ? nbx_schema_param(schema, name->as.string) : (int)position;
    if (i < 0 || i >= schema->param_count) {
        if (!named) return nbx_graph_fail(r, "%s takes %d arguments", node->target, schema->param_count);
        node->kind = NBX_NODE_UNKNOWN;
        return nbx_problem_add(r->ctx, r->problems, "%s has an argument '%.100s' that is not known", node->target, name->as.string);
    }
    if (*given >> i & 1) return nbx_graph_fail(r, "argument '%s' of %s is given twice", schema->params[i].name, node->target);
    *given |= (uint64_t)1 << i;
    if (!nbx_operand_read(r, nbx_json_get(input, "arg"), &node->args[i])) return false;
    if (!operand_fits(r->graph, &schema->params[i], &node->args[i]))
        return nbx_graph_fail(r, "argument '%s' of %s is of the wrong kind", schema->params[i].name, node->target);
    settle_constant(&schema->params[i], &node->args[i]);
    if (i >= node->arg_count) node->arg_count = i + 1;
    return true;
}

static bool read_operator_arguments(nbx_graph_reader *r, nbx_node *node, const nbx_json *inputs) {
    const nbx_schema *schema = node->schema;
    uint64_t given = 0;
    node->args = nbx_arena_array(r->ctx, r->arena, (size_t)schema->param_count + 1, sizeof *node->args);
    if (!node->args) return false;
    for (uint32_t i = 0; i < inputs->count; i++)
        if (!place_argument(r, node, &inputs->as.items[i], i, &given)) return false;
    for (int i = 0; i < schema->param_count; i++) {
        const nbx_param *p = &schema->params[i];
        if (given >> i & 1) continue;
        if (!p->has_default && !p->optional) return nbx_graph_fail(r, "argument '%s' of %s is missing", p->name, node->target);
        node->args[i].kind = NBX_OPERAND_CONSTANT;
        node->args[i].as.constant = p->has_default ? p->fallback : nbx_of_none();
    }
    return true;
}

static bool report(nbx_graph_reader *r, const nbx_node *node, const char *what) {
    char text[LONGEST_LINE];
    snprintf(text, sizeof text, "%s: %s", node->target, what);
    return nbx_problem_add_at(r->ctx, r->problems, node->source, text);
}

// Why an operator cannot run; NULL: it can.
static const char *obstacle(const nbx_graph_reader *r, const char *target, const nbx_operator *op) {
    if (!op) return strncmp(target, "torch.ops.", 10) == 0 ? "unknown operator" : "a function that is not an operator";
    if (nbx_operator_available(op, (nbx_device_type)r->device.type)) return NULL;
    if (nbx_operator_refusal(op)) return nbx_operator_refusal(op);
    if (!op->op) return "known, but not implemented";
    return r->device.type == NBX_CPU ? "has no CPU kernel" : "has no CUDA kernel";
}

// Finds what computes the node. Whatever cannot run is reported and reading goes on.
static bool resolve(nbx_graph_reader *r, nbx_node *node) {
    node->code = (uint8_t)nbx_higher_find(node->target);
    if (node->code) return node->kind = NBX_NODE_HIGHER, true;
    node->code = (uint8_t)nbx_host_find(node->target);
    node->op = nbx_op_find(node->target);
    if (node->code) return node->kind = NBX_NODE_HOST, true;
    const char *why = obstacle(r, node->target, node->op);
    node->kind = why ? NBX_NODE_UNKNOWN : NBX_NODE_OPERATOR;
    return !why || report(r, node, why);
}

// A higher-order operator may be given an operator by name.
static bool note_callee(nbx_graph_reader *r, nbx_node *node, const nbx_operand *o) {
    nbx_node callee = {.target = o->as.constant.as.string, .source = node->source};
    callee.op = nbx_op_find(callee.target);
    const char *why = obstacle(r, callee.target, callee.op);
    if (why && !report(r, &callee, why)) return false;
    node->op = callee.op;
    return why || (node->schema = nbx_operator_parsed(r->ctx, callee.op)) != NULL;
}

// What compilers may heed and nobody else.
static bool is_hint(const char *name) {
    return strcmp(name, "hints") == 0 || strcmp(name, "scheme") == 0 || strcmp(name, "quant_options") == 0;
}

// HIGHER and HOST nodes without schema: arguments in the order they stand.
static bool read_plain_arguments(nbx_graph_reader *r, nbx_node *node, const nbx_json *inputs) {
    node->args = nbx_arena_array(r->ctx, r->arena, (size_t)inputs->count + 1, sizeof *node->args);
    node->names = nbx_arena_array(r->ctx, r->arena, (size_t)inputs->count + 1, sizeof *node->names);
    if (!node->args || !node->names) return false;
    for (uint32_t i = 0; i < inputs->count; i++) {
        const nbx_json *name = nbx_json_get(&inputs->as.items[i], "name"), *argument = nbx_json_get(&inputs->as.items[i], "arg"), *v;
        const char *form;
        nbx_operand *operand = &node->args[node->arg_count];
        if (is_name(name) && is_hint(name->as.string)) continue;
        node->names[node->arg_count] = is_name(name) ? nbx_arena_text(r->ctx, r->arena, name->as.string, name->count) : "";
        if (!node->names[node->arg_count++] || !nbx_operand_read(r, argument, operand)) return false;
        if (nbx_union_member(argument, &form, &v) && strcmp(form, "as_operator") == 0 && !note_callee(r, node, operand)) return false;
    }
    return true;
}

static bool read_arguments(nbx_graph_reader *r, nbx_node *node, const nbx_json *inputs) {
    if (node->op && strncmp(node->target, "torch.ops.", 10) == 0) {
        node->schema = nbx_operator_parsed(r->ctx, node->op);
        if (!node->schema) return false;
        if (!node->schema->varargs) return read_operator_arguments(r, node, inputs);
    }
    return read_plain_arguments(r, node, inputs);
}

static bool read_outputs(nbx_graph_reader *r, nbx_node *node, const nbx_json *outputs) {
    size_t count = 0;
    for (uint32_t i = 0; i < outputs->count; i++) count += names_in(&outputs->as.items[i]);
    node->outputs = nbx_arena_array(r->ctx, r->arena, count + 1, sizeof *node->outputs);
    if (!node->outputs) return false;
    for (uint32_t i = 0; i < outputs->count; i++)
        if (!define_argument(r, &outputs->as.items[i], node->outputs, &node->output_count)) return false;
    return true;
}

static bool read_parts(nbx_graph_reader *r, nbx_node *node, const nbx_json *inputs, const nbx_json *outputs) {
    if (!resolve(r, node) || !read_arguments(r, node, inputs) || !read_outputs(r, node, outputs)) return false;
    if (node->op) nbx_autocast_find(node->op->name, &node->cast_cpu, &node->cast_cuda);
    return true;
}

// with_effects(token, operator, arguments) gives a token and the operator's results. Nodes run in order anyway: what is left
// is the call, and a token that is a value nobody fills.
static bool read_effect(nbx_graph_reader *r, nbx_node *node, const nbx_json *inputs, const nbx_json *outputs) {
    nbx_operand callee;
    int32_t token, count = 0;
    if (inputs->count < 2 || outputs->count < 1 || !nbx_operand_read(r, nbx_json_get(&inputs->as.items[1], "arg"), &callee) ||
        callee.kind != NBX_OPERAND_CONSTANT || callee.as.constant.kind != NBX_KIND_STRING)
        return nbx_last_status(r->ctx) == NBX_ERROR_MEMORY ? false : nbx_graph_fail(r, "with_effects names no operator");
    node->target = callee.as.constant.as.string;
    nbx_json arguments = *inputs, results = *outputs;
    arguments.as.items += 2;
    arguments.count -= 2;
    results.as.items++;
    results.count--;
    return names_in(outputs->as.items) == 1 && define_argument(r, outputs->as.items, &token, &count) && read_parts(r, node, &arguments, &results);
}

static bool read_node(nbx_graph_reader *r, nbx_node *node, const nbx_json *json) {
    const nbx_json *target = nbx_json_get(json, "target"), *inputs = inputs_of(r, json), *outputs = nbx_json_get(json, "outputs");
    if (!inputs) return false;
    if (!is_name(target)) return nbx_graph_fail(r, "a node has no target");
    if (!nbx_json_is(outputs, NBX_JSON_ARRAY)) return nbx_graph_fail(r, "a node has no list of outputs");
    node->target = nbx_arena_text(r->ctx, r->arena, target->as.string, target->count);
    node->source = source_of(r, json);
    if (!node->target || !node->source) return false;
    if (strcmp(node->target, "torch.ops.higher_order.with_effects") == 0) return read_effect(r, node, inputs, outputs);
    return read_parts(r, node, inputs, outputs);
}

// --------------------------------------------------------------------------------------------------------------- graphs
static bool read_inputs(nbx_graph_reader *r, const nbx_json *inputs) {
    nbx_graph *g = r->graph;
    g->inputs = nbx_arena_array(r->ctx, r->arena, (size_t)inputs->count + 1, sizeof *g->inputs);
    if (!g->inputs) return false;
    for (uint32_t i = 0; i < inputs->count; i++) {
        const char *form;
        const nbx_json *v;
        nbx_operand *operand = &g->inputs[g->input_count++];
        int32_t value = -1, count = 0;
        const bool known = nbx_union_member(&inputs->as.items[i], &form, &v);
        if (known && (strcmp(form, "as_tensor") == 0 || (strncmp(form, "as_sym_", 7) == 0 && nbx_json_get(v, "as_name")))) {
            if (!define_argument(r, &inputs->as.items[i], &value, &count)) return false;
            operand->kind = NBX_OPERAND_VALUE;
            operand->as.value = value;
        } else if (known && strcmp(form, "as_custom_obj") == 0) {
            if (!nbx_problem_add(r->ctx, r->problems, "an input is a custom object")) return false;
        } else if (!nbx_operand_read(r, &inputs->as.items[i], operand)) {
            return false;
        }
    }
    return true;
}

static bool read_results(nbx_graph_reader *r, const nbx_json *outputs) {
    nbx_graph *g = r->graph;
    g->outputs = nbx_arena_array(r->ctx, r->arena, (size_t)outputs->count + 1, sizeof *g->outputs);
    if (!g->outputs) return false;
    for (uint32_t i = 0; i < outputs->count; i++)
        if (!nbx_operand_read(r, &outputs->as.items[i], &g->outputs[g->output_count++])) return false;
    return true;
}

// What the program says about its tensors, kept while it is loaded; a dtype or layout we do not have is reported.
static bool read_metas(nbx_graph_reader *r, const nbx_json *json) {
    const nbx_json *metas = nbx_json_get(json, "tensor_values");
    for (uint32_t i = 0; i < (nbx_json_is(metas, NBX_JSON_OBJECT) ? metas->count : 0); i++) {
        const nbx_json_member *m = &metas->as.members[i];
        const int64_t dtype = nbx_json_int_or(nbx_json_get(&m->value, "dtype"), -1);
        const int64_t layout = nbx_json_int_or(nbx_json_get(&m->value, "layout"), 7);
        if (nbx_dtype_from_program((int)dtype) == NBX_DTYPE_NONE &&
            !nbx_problem_add(r->ctx, r->problems, "dtype number %lld (of value %.100s) is not supported", (long long)dtype, m->name))
            return false;
        if (layout != 7 && !nbx_problem_add(r->ctx, r->problems, "layout number %lld (of value %.100s) is not supported", (long long)layout, m->name))
            return false;
        const int32_t value = nbx_name_find(&r->names, m->name);
        if (value >= 0) r->graph->values[value].meta = &m->value;
    }
    return true;
}

static bool read_body(nbx_graph_reader *r, const nbx_json *json) {
    nbx_graph *g = r->graph;
    const nbx_json *inputs = nbx_json_get(json, "inputs"), *outputs = nbx_json_get(json, "outputs"), *nodes = nbx_json_get(json, "nodes");
    if (!nbx_json_is(inputs, NBX_JSON_ARRAY) || !nbx_json_is(outputs, NBX_JSON_ARRAY) || !nbx_json_is(nodes, NBX_JSON_ARRAY))
        return nbx_graph_fail(r, "inputs, outputs or nodes are missing");
    const size_t values = count_values(json);
    if (values > INT32_MAX / 4 || nodes->count > INT32_MAX / 4) return nbx_graph_fail(r, "too many values");
    g->values = nbx_arena_array(r->ctx, r->arena, values + 1, sizeof *g->values);
    g->nodes = nbx_arena_array(r->ctx, r->arena, (size_t)nodes->count + 1, sizeof *g->nodes);
    if (!g->values || !g->nodes || !read_inputs(r, inputs)) return false;
    for (uint32_t i = 0; i < nodes->count; i++) {
        r->node = (int32_t)i;
        if (!read_node(r, &g->nodes[g->node_count++], &nodes->as.items[i])) return false;
    }
    r->node = -1;
    return read_results(r, outputs) && read_metas(r, json) && nbx_graph_find_writes(r->ctx, r->arena, g) &&
           nbx_graph_find_releases(r->ctx, r->arena, g);
}

nbx_graph *nbx_graph_read(nbx_graph_reader *r, const nbx_json *json, const char *name) {
    if (r->depth >= DEEPEST_GRAPH) return nbx_graph_fail(r, "sub-graphs are nested too deeply"), NULL;
    nbx_graph *g = nbx_arena_alloc(r->ctx, r->arena, sizeof *g);
    if (!g) return NULL;
    g->name = name;
    const nbx_name_map names = r->names;
    nbx_graph *outer = r->graph;
    const int32_t node = r->node;
    r->names = (nbx_name_map){NULL, NULL, 0, 0};
    r->graph = g;
    r->node = -1;
    r->depth++;
    const bool good = read_body(r, json);
    r->depth--;
    r->names = names;
    if (outer) outer->graph_count += g->graph_count + 1;
    r->graph = outer;
    r->node = node;
    return good ? g : NULL;
}

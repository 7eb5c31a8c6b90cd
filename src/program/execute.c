// The interpreter: runs the nodes of a graph one after another through the door. Every value is released after its last use.
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "ops/epilogue.h"
#include "ops/record.h"
#include "ops/symbolic/symbolic.h"
#include "program/autocast.h"
#include "program/higher.h"

enum { DEEPEST_CALL = 200 };

typedef struct frame {
    nbx_run *run;
    const nbx_graph *graph;
    nbx_value *values;  // [graph->value_count], tensors with a reference each
} frame;

static void release_value(nbx_value *v) {
    if (v->kind == NBX_KIND_TENSOR) nbx_release(v->as.tensor);
    *v = nbx_of_none();
}

void nbx_values_release(nbx_value *values, int count) {
    for (int i = 0; i < count; i++) release_value(&values[i]);
}

static void retain_value(nbx_value *v) {
    if (v->kind == NBX_KIND_TENSOR) nbx_retain(v->as.tensor);
}

// ------------------------------------------------------------------------------------------------------------- numbers
nbx_status nbx_number_of_tensor(nbx_context *ctx, const nbx_tensor *t, nbx_value *number) {
    if (t->numel != 1) return nbx_fail(ctx, NBX_ERROR_SHAPE, "a number was expected, not a tensor of %lld elements", (long long)t->numel);
    const nbx_value args[1] = {nbx_of_tensor(t)};
    return nbx_do_many(ctx, "aten::item", 1, args, number, 1);
}

// ----------------------------------------------------------------------------------------------------------- arguments
static nbx_status resolve(frame *f, const nbx_param *p, const nbx_operand *o, nbx_value *v);

static nbx_status resolve_list(frame *f, const nbx_param *p, const nbx_operand *o, nbx_value *v) {
    nbx_context *ctx = f->run->ctx;
    const int count = o->as.list.count;
    nbx_param element = p ? *p : (nbx_param){0};
    element.list = false;
    nbx_value *items = nbx_scope_alloc(ctx, ((size_t)count + 1) * sizeof *items);
    if (!items) return nbx_last_status(ctx);
    bool tensors = true, ints = true;
    for (int i = 0; i < count; i++) {
        const nbx_status status = resolve(f, p ? &element : NULL, &o->as.list.items[i], &items[i]);
        if (status != NBX_OK) return status;
        tensors &= items[i].kind == NBX_KIND_TENSOR || items[i].kind == NBX_KIND_NONE;
        ints &= items[i].kind == NBX_KIND_INT;
    }
    *v = nbx_of_values(items, count);
    if (tensors) {  // narrow in place: a pointer or an integer is no larger than a value
        const nbx_tensor **list = (const nbx_tensor **)(void *)items;
        for (int i = 0; i < count; i++) list[i] = items[i].kind == NBX_KIND_TENSOR ? items[i].as.tensor : NBX_NONE;
        *v = nbx_of_tensors(list, count);
    } else if (ints) {
        int64_t *list = (int64_t *)(void *)items;
        for (int i = 0; i < count; i++) list[i] = items[i].as.integer;
        *v = nbx_of_ints(list, count);
    }
    return NBX_OK;
}

static bool wants_number(const nbx_param *p) {
    return p && (p->type == NBX_TYPE_INT || p->type == NBX_TYPE_FLOAT || p->type == NBX_TYPE_BOOL || p->type == NBX_TYPE_SCALAR);
}

static nbx_status resolve(frame *f, const nbx_param *p, const nbx_operand *o, nbx_value *v) {
    switch (o->kind) {
    case NBX_OPERAND_CONSTANT: *v = o->as.constant; return NBX_OK;
    case NBX_OPERAND_VALUE:
        *v = f->values[o->as.value];
        if (v->kind == NBX_KIND_TENSOR && wants_number(p)) return nbx_number_of_tensor(f->run->ctx, v->as.tensor, v);
        return NBX_OK;
    case NBX_OPERAND_LIST: return resolve_list(f, p, o, v);
    default: *v = nbx_of_none(); return NBX_OK;
    }
}

static nbx_status resolve_all(frame *f, const nbx_node *node, nbx_value *args) {
    const nbx_schema *schema = node->kind == NBX_NODE_HIGHER || (node->schema && node->schema->varargs) ? NULL : node->schema;
    nbx_status status = NBX_OK;
    for (int i = 0; i < node->arg_count && status == NBX_OK; i++)
        status = resolve(f, schema ? &schema->params[i] : NULL, &node->args[i], &args[i]);
    return status;
}

// ------------------------------------------------------------------------------------------------------------- results
static nbx_status store(frame *f, const nbx_node *node, int *at, nbx_value v) {
    if (*at >= node->output_count) return ++*at, NBX_OK;  // nobody reads it
    const int32_t value = node->outputs[(*at)++];
    if (value < 0) return NBX_OK;
    if (v.kind == NBX_KIND_TENSOR && nbx_is_none(v.as.tensor)) v = nbx_of_none();
    retain_value(&v);
    release_value(&f->values[value]);
    f->values[value] = v;
    return NBX_OK;
}

// Results in the order of the schema; a list of tensors gives one value for each of its elements.
static nbx_status store_results(frame *f, const nbx_node *node, const nbx_value *results, int count) {
    int at = 0;
    for (int k = 0; k < count; k++) {
        if (results[k].kind == NBX_KIND_TENSORS)
            for (int i = 0; i < results[k].count; i++) store(f, node, &at, nbx_of_tensor(results[k].as.tensors[i]));
        else store(f, node, &at, results[k]);
    }
    if (at >= node->output_count) return NBX_OK;
    return nbx_fail(f->run->ctx, NBX_ERROR_FORMAT, "it gives %d results, the program expects %d", at, (int)node->output_count);
}

// --------------------------------------------------------------------------------------------------------------- nodes
static nbx_status run_operator(frame *f, const nbx_node *node) {
    nbx_run *run = f->run;
    nbx_value args[NBX_MAX_ARGS], results[NBX_MAX_RESULTS];
    int count = 0;
    nbx_status status = resolve_all(f, node, args);
    const uint8_t cast = run->cuda_rules ? node->cast_cuda : node->cast_cpu;
    if (status == NBX_OK && run->lower != NBX_DTYPE_NONE && cast != NBX_AUTOCAST_KEEP)
        status = nbx_autocast_apply(run->ctx, (nbx_autocast_policy)cast, run->lower, args, node->arg_count);
    if (status == NBX_OK) status = nbx_dispatch(run->ctx, node->op, args, node->arg_count, NULL, 0, results, NBX_MAX_RESULTS, &count);
    return status == NBX_OK ? store_results(f, node, results, count) : status;
}

static nbx_status run_host(frame *f, const nbx_node *node) {
    nbx_value args[NBX_MAX_ARGS], result;
    if (node->arg_count > NBX_MAX_ARGS) return nbx_fail(f->run->ctx, NBX_ERROR_FORMAT, "too many arguments");
    nbx_status status = resolve_all(f, node, args);
    if (status == NBX_OK) status = nbx_host_call(f->run->ctx, (nbx_host_code)node->code, args, node->arg_count, &result);
    return status == NBX_OK ? store_results(f, node, &result, 1) : status;
}

static nbx_status run_higher(frame *f, const nbx_node *node) {
    nbx_context *ctx = f->run->ctx;
    nbx_value *args = nbx_scope_alloc(ctx, ((size_t)node->arg_count + 1) * sizeof *args);
    nbx_value *results = nbx_scope_alloc(ctx, ((size_t)node->output_count + 1) * sizeof *results);
    if (!args || !results) return nbx_last_status(ctx);
    memset(results, 0, ((size_t)node->output_count + 1) * sizeof *results);
    nbx_status status = resolve_all(f, node, args);
    if (status == NBX_OK) status = nbx_higher_run(f->run, node, args, results);
    if (status == NBX_OK) status = store_results(f, node, results, node->output_count);
    nbx_values_release(results, node->output_count);
    return status;
}

static nbx_status run_node(frame *f, const nbx_node *node) {
    switch (node->kind) {
    case NBX_NODE_OPERATOR: return run_operator(f, node);
    case NBX_NODE_HOST: return run_host(f, node);
    case NBX_NODE_HIGHER: return run_higher(f, node);
    default: return nbx_fail(f->run->ctx, NBX_ERROR_UNSUPPORTED, "%s cannot run here", node->target);
    }
}

// -------------------------------------------------------------------------------------------------------------- errors
static void append_operand(const frame *f, const nbx_operand *o, char *text, size_t size) {
    const size_t used = strlen(text);
    char shape[NBX_SHAPE_TEXT];
    if (o->kind == NBX_OPERAND_LIST) {
        for (int32_t i = 0; i < o->as.list.count && i < 4; i++) append_operand(f, &o->as.list.items[i], text, size);
    } else if (o->kind == NBX_OPERAND_VALUE && f->values[o->as.value].kind == NBX_KIND_TENSOR) {
        const nbx_tensor *t = f->values[o->as.value].as.tensor;
        snprintf(text + used, size - used, "%s%s%s", used ? ", " : "", nbx_dtype_name((nbx_dtype)t->dtype),
                 nbx_shape_text(t->rank, t->shape, shape, sizeof shape));
    }
}

// "node 12, torch.ops.aten.mm.default of float32[2, 3], float32[4, 5] at model.py:12: y = x @ w: " in front of the message.
static void name_node(frame *f, int32_t index) {
    const nbx_node *node = &f->graph->nodes[index];
    char shapes[384] = "";
    if (f->run->told) return;
    f->run->told = true;
    for (int32_t i = 0; i < node->arg_count; i++) append_operand(f, &node->args[i], shapes, sizeof shapes);
    nbx_fail_prefix(f->run->ctx, "%s%snode %d, %s%s%s%s%s: ", f->graph->name, f->graph->name[0] ? ", " : "", (int)index, node->target,
                    shapes[0] ? " of " : "", shapes, node->source[0] ? ", at " : "", node->source);
}

// ------------------------------------------------------------------------------------------------------------ recordings
static nbx_status note_commands(frame *f, int32_t node, int begin) {
    nbx_context *ctx = f->run->ctx;
    nbx_trace *trace = f->run->trace;
    const int end = ctx->recorder->command_count;
    if (end == begin) return NBX_OK;
    if (trace->count == trace->capacity) {
        const int capacity = trace->capacity ? trace->capacity * 2 : 64;
        nbx_trace_span *spans = nbx_realloc(trace->spans, (size_t)capacity * sizeof *spans);
        if (!spans) return nbx_fail_memory(ctx, (size_t)capacity * sizeof *spans, "a plan");
        trace->spans = spans;
        trace->capacity = capacity;
    }
    trace->spans[trace->count++] = (nbx_trace_span){begin, end, f->graph, node};
    return NBX_OK;
}

const nbx_trace_span *nbx_trace_find(const nbx_trace *trace, int command) {
    for (int i = 0; i < trace->count; i++)
        if (command >= trace->spans[i].begin && command < trace->spans[i].end) return &trace->spans[i];
    return NULL;
}

void nbx_trace_name(nbx_context *ctx, const nbx_trace *trace, int command) {
    const nbx_trace_span *span = nbx_trace_find(trace, command);
    if (!span) return;
    const nbx_node *node = &span->graph->nodes[span->node];
    nbx_fail_prefix(ctx, "%s%snode %d, %s%s%s: ", span->graph->name, span->graph->name[0] ? ", " : "", (int)span->node, node->target,
                    node->source[0] ? ", at " : "", node->source);
}

static void renumber(nbx_trace *trace, const int *before) {
    for (int i = 0; i < trace->count; i++) trace->spans[i].begin = before[trace->spans[i].begin], trace->spans[i].end = before[trace->spans[i].end];
}

nbx_status nbx_trace_finish(nbx_context *ctx, nbx_trace *trace, nbx_recorder *r, bool joins) {
    const size_t bytes = sizeof(int) * ((size_t)r->command_count + 1);
    int *before = joins && trace ? nbx_alloc(bytes) : NULL;
    if (joins && trace && !before) return nbx_fail_memory(ctx, bytes, "a plan");
    const nbx_status status = joins ? nbx_recorder_join(ctx, r, before) : NBX_OK;
    if (before && status == NBX_OK) renumber(trace, before);
    nbx_free(before);
    return status == NBX_OK ? nbx_recorder_plan(ctx, r) : status;
}

// "aten::convolution + relu" for a call with an epilogue.
static const char *name_call(const nbx_op_call *c, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "%s", c->op->name);
    for (int s = 0; c->epilogue && s < c->epilogue->count && used < size; s++) {
        const char *name = strstr(c->epilogue->steps[s]->op->name, "::");
        used += (size_t)snprintf(text + used, size - used, " + %s", name ? name + 2 : c->epilogue->steps[s]->op->name);
    }
    return text;
}

void nbx_trace_report(const nbx_trace *trace, const nbx_recorder *r, const double *seconds, nbx_command_report_fn see, void *arg) {
    for (int i = 0; i < r->command_count; i++) {
        nbx_cost cost;
        nbx_call_cost(r->commands[i], &cost);
        const nbx_trace_span *span = nbx_trace_find(trace, i);
        const nbx_node *node = span ? &span->graph->nodes[span->node] : NULL;
        char name[128];
        const nbx_command_report report = {name_call(r->commands[i], name, sizeof name), node ? node->target : "", node ? node->source : "", cost.flops,
                                           cost.bytes_read + cost.bytes_written, cost.scratch_bytes, seconds ? seconds[i] : 0};
        see(arg, &report);
    }
}

// --------------------------------------------------------------------------------------------------------------- graphs
static nbx_status run_nodes(frame *f) {
    nbx_context *ctx = f->run->ctx;
    for (int32_t i = 0; i < f->graph->node_count; i++) {
        const nbx_node *node = &f->graph->nodes[i];
        if (node->kind == NBX_NODE_DROPPED) continue;
        const nbx_scope scope = nbx_scope_open(ctx);
        const int begin = f->run->trace ? ctx->recorder->command_count : 0;
        nbx_status status = run_node(f, node);
        if (status != NBX_OK) name_node(f, i);
        else if (f->run->trace) status = note_commands(f, i, begin);
        nbx_scope_close(ctx, scope, NULL);
        if (status != NBX_OK) return status;
        for (int32_t k = 0; k < node->release_count; k++) release_value(&f->values[node->release[k]]);
    }
    return NBX_OK;
}

static nbx_status run_frame(frame *f, const nbx_value *inputs, nbx_value *outputs) {
    for (int32_t i = 0; i < f->graph->input_count; i++) {
        if (f->graph->inputs[i].kind != NBX_OPERAND_VALUE) continue;
        nbx_value *v = &f->values[f->graph->inputs[i].as.value];
        *v = inputs[i];
        retain_value(v);
    }
    nbx_status status = run_nodes(f);
    for (int32_t k = 0; k < f->graph->output_count && status == NBX_OK; k++) {
        status = resolve(f, NULL, &f->graph->outputs[k], &outputs[k]);
        retain_value(&outputs[k]);
    }
    return status;
}

nbx_status nbx_node_run(nbx_context *ctx, const nbx_graph *graph, const nbx_node *node, nbx_value *values) {
    nbx_run run = {.ctx = ctx, .lower = NBX_DTYPE_NONE};
    frame f = {&run, graph, values};
    const nbx_scope scope = nbx_scope_open(ctx);
    const nbx_status status = run_node(&f, node);
    nbx_scope_close(ctx, scope, NULL);
    return status;
}

nbx_status nbx_graph_run(nbx_run *run, const nbx_graph *graph, const nbx_value *inputs, int count, nbx_value *outputs) {
    if (count != graph->input_count)
        return nbx_fail(run->ctx, NBX_ERROR_FORMAT, "sub-graph %s takes %d inputs, %d are given", graph->name, (int)graph->input_count, count);
    if (run->depth >= DEEPEST_CALL) return nbx_fail(run->ctx, NBX_ERROR_FORMAT, "sub-graphs are nested too deeply");
    frame f = {run, graph, nbx_alloc_zero(((size_t)graph->value_count + 1) * sizeof *f.values)};
    if (!f.values) return nbx_fail_memory(run->ctx, ((size_t)graph->value_count + 1) * sizeof *f.values, "values of a graph");
    run->depth++;
    const nbx_status status = run_frame(&f, inputs, outputs);
    run->depth--;
    nbx_values_release(f.values, graph->value_count);
    nbx_free(f.values);
    return status;
}

// Control flow and regions: the higher-order operators, each a few calls of nbx_graph_run.
#include "program/higher.h"

#include <string.h>

#include "core/memory.h"

typedef struct target {
    const char *name;
    uint8_t code;
} target;

nbx_higher_code nbx_higher_find(const char *name) {
    static const target all[] = {
        {"cond", NBX_HIGHER_COND}, {"switch", NBX_HIGHER_SWITCH}, {"while_loop", NBX_HIGHER_WHILE_LOOP},
        {"while_loop_stack_output", NBX_HIGHER_WHILE_LOOP_STACK}, {"map_impl", NBX_HIGHER_MAP}, {"map", NBX_HIGHER_MAP},
        {"scan", NBX_HIGHER_SCAN}, {"wrap_with_set_grad_enabled", NBX_HIGHER_SET_GRAD}, {"wrap_with_autocast", NBX_HIGHER_AUTOCAST},
        {"strict_mode", NBX_HIGHER_CALL}, {"invoke_subgraph", NBX_HIGHER_CALL}, {"wrap", NBX_HIGHER_CALL},
        {"tag_activation_checkpoint", NBX_HIGHER_CALL}, {"wrap_activation_checkpoint", NBX_HIGHER_CALL},
        {"hints_wrapper", NBX_HIGHER_CALL}, {"out_dtype", NBX_HIGHER_OUT_DTYPE}, {"associative_scan", NBX_HIGHER_ASSOCIATIVE},
        {"auto_functionalized", NBX_HIGHER_FUNCTIONAL}, {"auto_functionalized_v2", NBX_HIGHER_FUNCTIONAL_2},
        {"foreach_map", NBX_HIGHER_CALL}, {"invoke_quant", NBX_HIGHER_CALL}, {"invoke_quant_packed", NBX_HIGHER_CALL},
        {"run_const_graph", NBX_HIGHER_CALL}, {"dynamo_bypassing_wrapper", NBX_HIGHER_CALL}, {"print", NBX_HIGHER_NOTHING},
    };
    static const char *const places[] = {"torch.ops.higher_order.", "torch._higher_order_ops.wrap."};
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        const size_t length = strlen(places[k]);
        if (strncmp(name, places[k], length) != 0) continue;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            if (strcmp(name + length, all[i].name) == 0) return (nbx_higher_code)all[i].code;
    }
    return NBX_HIGHER_NONE;
}

// ------------------------------------------------------------------------------------------------------------ operands
// A growing row of values; those in `values` are borrowed.
typedef struct row {
    nbx_context *ctx;
    nbx_value *values;
    int count, capacity;
} row;

static bool row_add(row *r, nbx_value v) {
    if (r->count == r->capacity) {
        const int capacity = r->capacity ? r->capacity * 2 : 16;
        nbx_value *values = nbx_realloc(r->values, (size_t)capacity * sizeof *values);
        if (!values) return nbx_fail_memory(r->ctx, (size_t)capacity * sizeof *values, "operands of a sub-graph"), false;
        r->values = values;
        r->capacity = capacity;
    }
    r->values[r->count++] = v;
    return true;
}

// Adds a value, or all elements of a list.
static bool row_spread(row *r, const nbx_value *v) {
    bool good = true;
    switch (v->kind) {
    case NBX_KIND_TENSORS:
        for (int i = 0; i < v->count && good; i++)
            good = row_add(r, nbx_is_none(v->as.tensors[i]) ? nbx_of_none() : nbx_of_tensor(v->as.tensors[i]));
        return good;
    case NBX_KIND_INTS:
        for (int i = 0; i < v->count && good; i++) good = row_add(r, nbx_of_int(v->as.ints[i]));
        return good;
    case NBX_KIND_FLOATS:
        for (int i = 0; i < v->count && good; i++) good = row_add(r, nbx_of_float(v->as.floats[i]));
        return good;
    case NBX_KIND_BOOLS:
        for (int i = 0; i < v->count && good; i++) good = row_add(r, nbx_of_bool(v->as.bools[i]));
        return good;
    case NBX_KIND_VALUES:
        for (int i = 0; i < v->count && good; i++) good = row_spread(r, &v->as.values[i]);
        return good;
    case NBX_KIND_STRING: return true;  // names of regions
    default: return row_add(r, *v);
    }
}

static bool row_spread_from(row *r, const nbx_node *node, const nbx_value *args, int first) {
    for (int i = first; i < node->arg_count; i++)
        if (node->args[i].kind != NBX_OPERAND_GRAPH && !row_spread(r, &args[i])) return false;
    return true;
}

static const nbx_graph *graph_at(const nbx_node *node, int i) {
    return i < node->arg_count && node->args[i].kind == NBX_OPERAND_GRAPH ? node->args[i].as.graph : NULL;
}

static nbx_status malformed(nbx_run *run) { return nbx_fail(run->ctx, NBX_ERROR_FORMAT, "its arguments are not those of this operator"); }

// Runs a graph and hands over as many results as the node has.
static nbx_status run_into(nbx_run *run, const nbx_node *node, const nbx_graph *graph, const row *operands, nbx_value *results) {
    if (graph->output_count != node->output_count)
        return nbx_fail(run->ctx, NBX_ERROR_FORMAT, "sub-graph %s gives %d results, the node %d", graph->name, (int)graph->output_count, (int)node->output_count);
    return nbx_graph_run(run, graph, operands->values, operands->count, results);
}

static nbx_status truth_of(nbx_run *run, const nbx_value *v, bool *truth) {
    nbx_value number = *v;
    if (v->kind == NBX_KIND_TENSOR) {
        const nbx_status status = nbx_number_of_tensor(run->ctx, v->as.tensor, &number);
        if (status != NBX_OK) return status;
    }
    if (number.kind == NBX_KIND_BOOL) *truth = number.as.boolean;
    else if (number.kind == NBX_KIND_INT) *truth = number.as.integer != 0;
    else if (number.kind == NBX_KIND_FLOAT) *truth = number.as.real != 0;
    else return malformed(run);
    return NBX_OK;
}

// ------------------------------------------------------------------------------------------------------------ branches
static nbx_status run_cond(nbx_run *run, const nbx_node *node, const nbx_value *args, row *operands, nbx_value *results) {
    const nbx_graph *branches[2] = {graph_at(node, 2), graph_at(node, 1)};
    bool truth;
    if (!branches[0] || !branches[1]) return malformed(run);
    const nbx_status status = truth_of(run, &args[0], &truth);
    if (status != NBX_OK) return status;
    if (!row_spread_from(operands, node, args, 3)) return nbx_last_status(run->ctx);
    return run_into(run, node, branches[truth], operands, results);
}

static nbx_status run_switch(nbx_run *run, const nbx_node *node, const nbx_value *args, row *operands, nbx_value *results) {
    nbx_value index = args[0];
    int count = 0;
    while (graph_at(node, 1 + count)) count++;
    if (index.kind == NBX_KIND_TENSOR) {
        const nbx_status status = nbx_number_of_tensor(run->ctx, index.as.tensor, &index);
        if (status != NBX_OK) return status;
    }
    if (index.kind != NBX_KIND_INT || count == 0) return malformed(run);
    const int64_t chosen = index.as.integer < 0 ? 0 : index.as.integer >= count ? count - 1 : index.as.integer;
    if (!row_spread_from(operands, node, args, 1 + count)) return nbx_last_status(run->ctx);
    return run_into(run, node, graph_at(node, 1 + (int)chosen), operands, results);
}

static nbx_status run_call(nbx_run *run, const nbx_node *node, const nbx_value *args, row *operands, nbx_value *results) {
    int at = 0;
    while (at < node->arg_count && node->args[at].kind != NBX_OPERAND_GRAPH) at++;
    if (!graph_at(node, at)) return malformed(run);
    if (!row_spread_from(operands, node, args, at + 1)) return nbx_last_status(run->ctx);
    return run_into(run, node, graph_at(node, at), operands, results);
}

// wrap_with_autocast(device, dtype, enabled, cache, graph, operands): the sub-graph holds no casts; the rules apply inside.
static nbx_status run_autocast(nbx_run *run, const nbx_node *node, const nbx_value *args, row *operands, nbx_value *results) {
    if (node->arg_count < 5 || args[2].kind != NBX_KIND_BOOL) return malformed(run);
    const nbx_dtype lower = run->lower;
    const bool cuda_rules = run->cuda_rules;
    run->cuda_rules = args[0].kind == NBX_KIND_STRING && strncmp(args[0].as.string, "cuda", 4) == 0;
    if (args[0].kind == NBX_KIND_DEVICE) run->cuda_rules = args[0].as.device.type == NBX_CUDA;
    run->lower = !args[2].as.boolean                ? NBX_DTYPE_NONE
                 : args[1].kind == NBX_KIND_DTYPE   ? args[1].as.dtype
                 : run->cuda_rules                  ? NBX_FLOAT16
                                                    : NBX_BFLOAT16;
    const nbx_status status = run_call(run, node, args, operands, results);
    run->lower = lower;
    run->cuda_rules = cuda_rules;
    return status;
}

// --------------------------------------------------------------------------------------------------------------- loops
static int list_length(const nbx_value *v) { return v->kind >= NBX_KIND_TENSORS ? v->count : v->kind == NBX_KIND_NONE ? 0 : 1; }

// Values that loops collect, step by step: history[step * width + k], a reference each.
typedef struct history {
    row all;
    int width;
} history;

static bool history_add(history *h, const nbx_value *values) {
    for (int k = 0; k < h->width; k++) {
        if (!row_add(&h->all, values[k])) return false;
        if (values[k].kind == NBX_KIND_TENSOR) nbx_retain(values[k].as.tensor);
    }
    return true;
}

static void history_free(history *h) {
    nbx_values_release(h->all.values, h->all.count);
    nbx_free(h->all.values);
}

// All steps of value k along a new first dim.
static nbx_status history_stack(nbx_run *run, const history *h, int k, nbx_value *result) {
    nbx_context *ctx = run->ctx;
    const int steps = h->width ? h->all.count / h->width : 0;
    const nbx_scope scope = nbx_scope_open(ctx);
    const nbx_tensor **list = nbx_scope_alloc(ctx, ((size_t)steps + 1) * sizeof *list);
    nbx_tensor *stacked = NULL;
    bool tensors = list != NULL;
    for (int i = 0; i < steps && tensors; i++) {
        const nbx_value *v = &h->all.values[i * h->width + k];
        tensors = v->kind == NBX_KIND_TENSOR;
        list[i] = v->as.tensor;
    }
    if (tensors) stacked = NBX_DO(ctx, "aten::stack", nbx_of_tensors(list, steps), I(0));
    else if (list && steps && h->all.values[k].kind == NBX_KIND_NONE) *result = nbx_of_none();
    if (stacked) *result = nbx_of_tensor(nbx_retain(stacked));
    nbx_scope_close(ctx, scope, NULL);
    return stacked || nbx_last_status(ctx) == NBX_OK ? NBX_OK : nbx_last_status(ctx);
}

// Moves the first `count` of `from` to `to`, releasing what stood there.
static void replace(nbx_value *to, nbx_value *from, int count) {
    if (count <= 0) return;  // then there may be no lists
    nbx_values_release(to, count);
    memcpy(to, from, (size_t)count * sizeof *to);
    memset(from, 0, (size_t)count * sizeof *from);
}

typedef struct loop {
    nbx_run *run;
    const nbx_graph *condition, *body;
    row *operands;     // carried (a reference each), then additional
    int carried;
    nbx_value *next;   // [body->output_count]
} loop;

static nbx_status loop_goes_on(loop *l, bool *on) {
    nbx_value truth = nbx_of_none();
    nbx_status status = nbx_graph_run(l->run, l->condition, l->operands->values, l->operands->count, &truth);
    if (status == NBX_OK) status = truth_of(l->run, &truth, on);
    nbx_values_release(&truth, 1);
    return status;
}

static nbx_status loop_steps(loop *l, history *h) {
    for (;;) {
        bool on;
        const nbx_scope scope = nbx_scope_open(l->run->ctx);
        nbx_status status = loop_goes_on(l, &on);
        if (status == NBX_OK && on) status = nbx_graph_run(l->run, l->body, l->operands->values, l->operands->count, l->next);
        nbx_scope_close(l->run->ctx, scope, NULL);
        if (status != NBX_OK || !on) return status;
        if (h && !history_add(h, l->next)) return nbx_last_status(l->run->ctx);
        replace(l->operands->values, l->next, l->carried);
    }
}

static nbx_status run_while(nbx_run *run, const nbx_node *node, const nbx_value *args, row *operands, nbx_value *results, bool stack) {
    loop l = {run, graph_at(node, 0), graph_at(node, 1), operands, node->arg_count > 2 ? list_length(&args[2]) : 0, NULL};
    if (!l.condition || !l.body || l.condition->output_count != 1 || l.body->output_count != l.carried || node->output_count != l.carried)
        return malformed(run);
    if (!row_spread_from(operands, node, args, 2)) return nbx_last_status(run->ctx);
    if (operands->count < l.carried) return malformed(run);
    l.next = nbx_alloc_zero(((size_t)l.carried + 1) * sizeof *l.next);
    if (!l.next) return nbx_fail_memory(run->ctx, ((size_t)l.carried + 1) * sizeof *l.next, "values of a loop");
    for (int k = 0; k < l.carried; k++)
        if (operands->values[k].kind == NBX_KIND_TENSOR) nbx_retain(operands->values[k].as.tensor);
    history h = {{.ctx = run->ctx}, l.carried};
    nbx_status status = loop_steps(&l, stack ? &h : NULL);
    if (status == NBX_OK && stack && !h.all.count && !history_add(&h, operands->values)) status = nbx_last_status(run->ctx);
    for (int k = 0; stack && k < l.carried && status == NBX_OK; k++) status = history_stack(run, &h, k, &results[k]);
    if (!stack && status == NBX_OK) replace(results, operands->values, l.carried);
    nbx_values_release(operands->values, l.carried);
    nbx_values_release(l.next, l.carried);
    nbx_free(l.next);
    history_free(&h);
    return status;
}

// The row for step i: carried values, slice i of each mapped tensor, additional inputs.
typedef struct steps {
    nbx_run *run;
    const nbx_graph *body;
    row carried, mapped, additional, step;
    nbx_value *out;  // [body->output_count]
    history kept;    // outputs behind the carried ones; of an associative scan the carried ones
    bool prefixes;
} steps;

static bool build_step(steps *s, int64_t i) {
    nbx_context *ctx = s->run->ctx;
    s->step.count = 0;
    for (int k = 0; k < s->carried.count; k++)
        if (!row_add(&s->step, s->carried.values[k])) return false;
    for (int k = 0; k < s->mapped.count; k++) {
        const nbx_tensor *slice = NBX_DO(ctx, "aten::select.int", s->mapped.values[k], I(0), I(i));
        if (!slice || !row_add(&s->step, nbx_of_tensor(slice))) return false;
    }
    for (int k = 0; k < s->additional.count; k++)
        if (!row_add(&s->step, s->additional.values[k])) return false;
    return true;
}

static nbx_status run_step(steps *s, int64_t i) {
    const nbx_scope scope = nbx_scope_open(s->run->ctx);
    nbx_status status = build_step(s, i) ? nbx_graph_run(s->run, s->body, s->step.values, s->step.count, s->out) : nbx_last_status(s->run->ctx);
    nbx_scope_close(s->run->ctx, scope, NULL);
    if (status != NBX_OK) return status;
    if (!history_add(&s->kept, s->prefixes ? s->out : s->out + s->carried.count)) status = nbx_last_status(s->run->ctx);
    replace(s->carried.values, s->out, s->carried.count);
    if (!s->prefixes) nbx_values_release(s->out + s->carried.count, s->kept.width);
    return status;
}

// An associative scan carries what it returns, beginning with the first slices.
static nbx_status start_prefixes(steps *s) {
    for (int k = 0; k < s->mapped.count; k++) {
        const nbx_tensor *slice = NBX_DO(s->run->ctx, "aten::select.int", s->mapped.values[k], I(0), I(0));
        if (!slice || !row_add(&s->carried, nbx_of_tensor(slice))) return nbx_last_status(s->run->ctx);
        nbx_retain(slice);
    }
    return history_add(&s->kept, s->carried.values) ? NBX_OK : nbx_last_status(s->run->ctx);
}

static nbx_status run_steps(steps *s, nbx_value *results) {
    const nbx_tensor *first = s->mapped.count && s->mapped.values[0].kind == NBX_KIND_TENSOR ? s->mapped.values[0].as.tensor : NULL;
    if (!first || first->rank == 0) return malformed(s->run);
    nbx_status status = s->prefixes ? start_prefixes(s) : NBX_OK;
    for (int64_t i = s->prefixes; i < first->shape[0] && status == NBX_OK; i++) status = run_step(s, i);
    for (int k = 0; k < s->kept.width && status == NBX_OK; k++)
        status = history_stack(s->run, &s->kept, k, &results[s->prefixes ? k : s->carried.count + k]);
    if (status == NBX_OK && !s->prefixes) replace(results, s->carried.values, s->carried.count);
    return status;
}

// map_impl(graph, mapped, additional) is scan(graph, carried, mapped, additional) that carries nothing; associative_scan has
// the same arguments as map_impl.
static nbx_status run_scan(nbx_run *run, const nbx_node *node, const nbx_value *args, nbx_value *results) {
    const bool map = node->code != NBX_HIGHER_SCAN;
    steps s = {.run = run, .body = graph_at(node, 0), .carried.ctx = run->ctx, .mapped.ctx = run->ctx, .additional.ctx = run->ctx,
               .step.ctx = run->ctx, .kept.all.ctx = run->ctx, .prefixes = node->code == NBX_HIGHER_ASSOCIATIVE};
    const int at = map ? 1 : 2;
    if (!s.body || node->arg_count <= at || s.body->output_count != node->output_count) return malformed(run);
    const bool good = (map || row_spread(&s.carried, &args[1])) && row_spread(&s.mapped, &args[at]) &&
                      row_spread_from(&s.additional, node, args, at + 1);
    for (int k = 0; k < s.carried.count; k++)
        if (s.carried.values[k].kind == NBX_KIND_TENSOR) nbx_retain(s.carried.values[k].as.tensor);
    s.kept.width = node->output_count - s.carried.count;
    if (good && s.prefixes && s.kept.width != s.mapped.count) s.kept.width = -1;
    s.out = good && s.kept.width >= 0 ? nbx_alloc_zero(((size_t)node->output_count + 1) * sizeof *s.out) : NULL;
    nbx_status status = nbx_last_status(run->ctx);
    if (s.out) status = run_steps(&s, results);
    else if (good) status = s.kept.width < 0 ? malformed(run) : nbx_fail_memory(run->ctx, 0, "values of a loop");
    if (s.out) nbx_values_release(s.out, node->output_count);
    nbx_values_release(s.carried.values, s.carried.count);
    history_free(&s.kept);
    nbx_free(s.out);
    nbx_free(s.carried.values);
    nbx_free(s.mapped.values);
    nbx_free(s.additional.values);
    nbx_free(s.step.values);
    return status;
}

// ----------------------------------------------------------------------------------------------------------- out_dtype
// out_dtype(op, dtype, operands): the operator on operands raised to the dtype, so that products of int8 do not wrap.
static nbx_status run_out_dtype(nbx_run *run, const nbx_node *node, const nbx_value *args, row *operands, nbx_value *results) {
    nbx_context *ctx = run->ctx;
    if (node->arg_count < 3 || args[0].kind != NBX_KIND_STRING || args[1].kind != NBX_KIND_DTYPE || node->output_count != 1) return malformed(run);
    if (!row_spread_from(operands, node, args, 2)) return nbx_last_status(ctx);
    nbx_promotion promotion;
    nbx_promotion_start(&promotion);
    for (int i = 0; i < operands->count; i++)
        if (operands->values[i].kind == NBX_KIND_TENSOR) nbx_promotion_tensor(&promotion, operands->values[i].as.tensor);
    const nbx_dtype found = nbx_promotion_result(&promotion);
    const nbx_dtype dtype = found == NBX_DTYPE_NONE ? args[1].as.dtype : nbx_promote(found, args[1].as.dtype);
    for (int i = 0; i < operands->count; i++) {
        nbx_value *v = &operands->values[i];
        if (v->kind != NBX_KIND_TENSOR) continue;
        *v = nbx_of_tensor(NBX_DO(ctx, "aten::_to_copy", *v, nbx_of_dtype(dtype)));
    }
    const nbx_tensor *t = nbx_do(ctx, args[0].as.string, operands->count, operands->values);
    t = t ? NBX_DO(ctx, "aten::_to_copy", nbx_of_tensor(t), args[1]) : NULL;
    if (!t) return nbx_last_status(ctx);
    results[0] = nbx_of_tensor(nbx_retain(t));
    return NBX_OK;
}

nbx_status nbx_higher_run(nbx_run *run, const nbx_node *node, const nbx_value *args, nbx_value *results) {
    row operands = {.ctx = run->ctx};
    nbx_status status;
    switch ((nbx_higher_code)node->code) {
    case NBX_HIGHER_COND: status = run_cond(run, node, args, &operands, results); break;
    case NBX_HIGHER_SWITCH: status = run_switch(run, node, args, &operands, results); break;
    case NBX_HIGHER_WHILE_LOOP: status = run_while(run, node, args, &operands, results, false); break;
    case NBX_HIGHER_WHILE_LOOP_STACK: status = run_while(run, node, args, &operands, results, true); break;
    case NBX_HIGHER_MAP: case NBX_HIGHER_SCAN: case NBX_HIGHER_ASSOCIATIVE: status = run_scan(run, node, args, results); break;
    case NBX_HIGHER_FUNCTIONAL: status = nbx_functional_run(run, node, args, false, results); break;
    case NBX_HIGHER_FUNCTIONAL_2: status = nbx_functional_run(run, node, args, true, results); break;
    case NBX_HIGHER_NOTHING: status = NBX_OK; break;
    case NBX_HIGHER_AUTOCAST: status = run_autocast(run, node, args, &operands, results); break;
    case NBX_HIGHER_SET_GRAD: case NBX_HIGHER_CALL: status = run_call(run, node, args, &operands, results); break;
    case NBX_HIGHER_OUT_DTYPE: status = run_out_dtype(run, node, args, &operands, results); break;
    default: status = malformed(run); break;
    }
    nbx_free(operands.values);
    return status;
}

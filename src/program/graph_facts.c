// Facts about a graph that its execution needs: which values are dead after which node, which inputs it may write into, and
// which inputs its outputs may share memory with.
#include <string.h>

#include "program/graph.h"
#include "program/higher.h"

void nbx_operand_visit(const nbx_operand *o, void (*visit)(void *arg, int32_t value), void *arg) {
    if (o->kind == NBX_OPERAND_VALUE) visit(arg, o->as.value);
    if (o->kind == NBX_OPERAND_LIST)
        for (int32_t i = 0; i < o->as.list.count; i++) nbx_operand_visit(&o->as.list.items[i], visit, arg);
}

// ------------------------------------------------------------------------------------------------------------ liveness
typedef struct liveness {
    int32_t *last;  // [value_count]: node after which the value is dead; -1: never used so far
    int32_t node;
} liveness;

static void note_use(void *arg, int32_t value) {
    liveness *l = arg;
    l->last[value] = l->node;
}

static bool share_out(nbx_context *ctx, nbx_arena *arena, nbx_graph *g, const int32_t *last) {
    for (int32_t v = 0; v < g->value_count; v++)
        if (last[v] >= 0 && last[v] < g->node_count) g->nodes[last[v]].release_count++;
    for (int32_t i = 0; i < g->node_count; i++) {
        nbx_node *node = &g->nodes[i];
        if (!node->release_count) continue;
        node->release = nbx_arena_array(ctx, arena, (size_t)node->release_count, sizeof *node->release);
        if (!node->release) return false;
        node->release_count = 0;
    }
    for (int32_t v = 0; v < g->value_count; v++)
        if (last[v] >= 0 && last[v] < g->node_count) {
            nbx_node *node = &g->nodes[last[v]];
            node->release[node->release_count++] = v;
        }
    return true;
}

bool nbx_graph_find_releases(nbx_context *ctx, nbx_arena *arena, nbx_graph *g) {
    liveness l = {nbx_arena_array(ctx, arena, (size_t)g->value_count + 1, sizeof *l.last), 0};
    if (!l.last) return false;
    memset(l.last, -1, (size_t)g->value_count * sizeof *l.last);
    for (int32_t i = 0; i < g->node_count; i++) g->nodes[i].release_count = 0;
    for (; l.node < g->node_count; l.node++) {
        const nbx_node *node = &g->nodes[l.node];
        if (node->kind == NBX_NODE_DROPPED) continue;
        for (int32_t i = 0; i < node->arg_count; i++) nbx_operand_visit(&node->args[i], note_use, &l);
        for (int32_t i = 0; i < node->output_count; i++)  // a result nobody uses dies at once
            if (node->outputs[i] >= 0) l.last[node->outputs[i]] = l.node;
    }
    for (int32_t i = 0; i < g->output_count; i++) nbx_operand_visit(&g->outputs[i], note_use, &l);  // l.node is past the end: never released
    return share_out(ctx, arena, g, l.last);
}

// -------------------------------------------------------------------------------------------------- writes and aliases
// Values that may share memory are joined; a write into one marks its set. ATen's schemas say which arguments an operator
// writes ("a!") and which its results may be views of ("a"); a few say nothing although they return an argument or write
// their statistics.
static const char *const may_return_argument[] = {
    "aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout", "aten::type_as",
    "aten::atleast_1d", "aten::atleast_2d", "aten::atleast_3d", "aten::broadcast_tensors", "aten::meshgrid",
    "aten::meshgrid.indexing", "aten::_unsafe_view", "aten::sum_to_size", "aten::conj_physical", "aten::einsum", "aten::lift",
    "aten::rrelu", "aten::pad", "aten::cartesian_prod", "aten::native_dropout", "aten::expand_copy", "aten::to_dense",
    "aten::resolve_conj", "aten::resolve_neg", "aten::contiguous", "aten::_to_copy", "aten::alias", "aten::lift_fresh",
};

static const struct { const char *name; int training; int first; } writes_statistics[] = {
    // operator, index of its bool `training` or `use_input_stats`, index of running_mean (running_var follows)
    {"aten::batch_norm", 5, 3}, {"aten::native_batch_norm", 5, 3}, {"aten::_batch_norm_impl_index", 5, 3},
    {"aten::instance_norm", 5, 3}, {"aten::cudnn_batch_norm", 5, 3}, {"aten::miopen_batch_norm", 5, 3},
};

typedef struct sets {
    nbx_graph *graph;
    int32_t *parent;  // [value_count]
    bool *written, *returned;  // of a set's root
    int32_t joined;   // the set that the values of an operand are joined to; -1: none yet
} sets;

static int32_t root_of(sets *s, int32_t value) {
    while (s->parent[value] != value) value = s->parent[value] = s->parent[s->parent[value]];
    return value;
}

static void join(sets *s, int32_t a, int32_t b) {
    a = root_of(s, a);
    b = root_of(s, b);
    if (a == b) return;
    s->parent[b] = a;
    s->written[a] |= s->written[b];
}

static void join_value(void *arg, int32_t value) {
    sets *s = arg;
    if (s->joined < 0) s->joined = value;
    else join(s, s->joined, value);
}

static void write_value(void *arg, int32_t value) {
    sets *s = arg;
    s->written[root_of(s, value)] = true;
}

static void return_value(void *arg, int32_t value) {
    sets *s = arg;
    s->returned[root_of(s, value)] = true;
}

static bool is_listed(const char *name) {
    for (size_t i = 0; i < sizeof may_return_argument / sizeof *may_return_argument; i++)
        if (strcmp(may_return_argument[i], name) == 0) return true;
    return false;
}

static bool results_alias(const nbx_node *node) {
    for (int i = 0; i < node->schema->result_count; i++)
        if (node->schema->results[i].aliased || node->schema->results[i].written) return true;
    return (node->op->tags & (NBX_TAG_VIEW | NBX_TAG_MAYBE_VIEW)) || is_listed(node->op->name);
}

static void write_operand(sets *s, const nbx_operand *o) { nbx_operand_visit(o, write_value, s); }

static void note_operator(sets *s, const nbx_node *node) {
    const nbx_schema *schema = node->schema;
    bool marked = false;
    for (int i = 0; i < node->arg_count; i++) {
        if (schema->params[i].written) write_operand(s, &node->args[i]);
        marked |= schema->params[i].aliased || schema->params[i].written;
    }
    for (size_t i = 0; i < sizeof writes_statistics / sizeof *writes_statistics; i++) {
        if (strcmp(writes_statistics[i].name, node->op->name) != 0 || node->arg_count <= writes_statistics[i].training) continue;
        const nbx_operand *training = &node->args[writes_statistics[i].training];
        if (training->kind == NBX_OPERAND_CONSTANT && training->as.constant.kind == NBX_KIND_BOOL && !training->as.constant.as.boolean) continue;
        write_operand(s, &node->args[writes_statistics[i].first]);
        write_operand(s, &node->args[writes_statistics[i].first + 1]);
    }
    if (!results_alias(node)) return;
    s->joined = -1;
    for (int i = 0; i < node->arg_count; i++)
        if (!marked || schema->params[i].aliased || schema->params[i].written) nbx_operand_visit(&node->args[i], join_value, s);
    for (int i = 0; i < node->output_count; i++)
        if (node->outputs[i] >= 0 && s->joined >= 0) join_value(s, node->outputs[i]);
}

// Operands of a higher-order operator in a row: lists are flattened, as sub-graphs bind them.
typedef struct row {
    int32_t *values;
    int32_t count, capacity;
} row;

static void add_to_row(void *arg, int32_t value) {
    row *r = arg;
    if (r->count < r->capacity) r->values[r->count] = value;
    r->count++;
}

static void add_operand(row *r, const nbx_operand *o) {
    if (o->kind == NBX_OPERAND_LIST)
        for (int32_t i = 0; i < o->as.list.count; i++) add_operand(r, &o->as.list.items[i]);
    else if (o->kind == NBX_OPERAND_VALUE) add_to_row(r, o->as.value);
    else if (o->kind == NBX_OPERAND_CONSTANT)
        for (int i = 0; i < (o->as.constant.kind >= NBX_KIND_TENSORS ? o->as.constant.count : o->as.constant.kind < NBX_KIND_STRING); i++) add_to_row(r, -1);
}

// Which operands feed inputs of which graph: for all supported operators, the operands behind the last sub-graph, in order.
static void note_higher(sets *s, const nbx_node *node, row *r) {
    int32_t last_graph = -1;
    for (int32_t i = 0; i < node->arg_count; i++)
        if (node->args[i].kind == NBX_OPERAND_GRAPH) last_graph = i;
    r->count = 0;
    for (int32_t i = last_graph + 1; i < node->arg_count; i++) add_operand(r, &node->args[i]);
    for (int32_t i = 0; i <= last_graph; i++) {
        if (node->args[i].kind != NBX_OPERAND_GRAPH) continue;
        const nbx_graph *g = node->args[i].as.graph;
        const int32_t inputs = g->input_count < r->count ? g->input_count : r->count;
        for (int32_t k = 0; k < inputs && k < r->capacity; k++)
            if (r->values[k] >= 0 && g->input_written[k]) write_value(s, r->values[k]);
        for (int32_t k = 0; k < g->output_count && k < node->output_count; k++) {
            const int32_t from = g->output_alias[k];
            if (from >= 0 && from < inputs && from < r->capacity && r->values[from] >= 0 && node->outputs[k] >= 0)
                join(s, r->values[from], node->outputs[k]);
        }
    }
}

static int32_t largest_row(const nbx_graph *g) {
    int32_t largest = 0;
    for (int32_t i = 0; i < g->node_count; i++) {
        int32_t count = 0;
        for (int32_t k = 0; k < g->nodes[i].arg_count; k++)
            count += g->nodes[i].args[k].kind == NBX_OPERAND_LIST ? g->nodes[i].args[k].as.list.count : 1;
        if (count > largest) largest = count;
    }
    return largest;
}

static void finish(sets *s) {
    nbx_graph *g = s->graph;
    for (int32_t k = 0; k < g->output_count; k++) nbx_operand_visit(&g->outputs[k], return_value, s);
    for (int32_t v = 0; v < g->value_count; v++) {
        const int32_t root = root_of(s, v);
        g->written[v] = s->written[root];
        g->returned[v] = s->returned[root];
    }
    for (int32_t i = 0; i < g->input_count; i++)
        g->input_written[i] = g->inputs[i].kind == NBX_OPERAND_VALUE && s->written[root_of(s, g->inputs[i].as.value)];
    for (int32_t k = 0; k < g->output_count; k++) {
        g->output_alias[k] = -1;
        if (g->outputs[k].kind != NBX_OPERAND_VALUE) continue;
        const int32_t root = root_of(s, g->outputs[k].as.value);
        for (int32_t i = 0; i < g->input_count && g->output_alias[k] < 0; i++)
            if (g->inputs[i].kind == NBX_OPERAND_VALUE && root_of(s, g->inputs[i].as.value) == root) g->output_alias[k] = i;
    }
}

bool nbx_graph_find_writes(nbx_context *ctx, nbx_arena *arena, nbx_graph *g) {
    sets s = {.graph = g};
    row r = {.capacity = largest_row(g)};
    s.parent = nbx_arena_array(ctx, arena, (size_t)g->value_count + 1, sizeof *s.parent);
    s.written = nbx_arena_array(ctx, arena, (size_t)g->value_count + 1, sizeof *s.written);
    s.returned = nbx_arena_array(ctx, arena, (size_t)g->value_count + 1, sizeof *s.returned);
    g->written = nbx_arena_array(ctx, arena, (size_t)g->value_count + 1, sizeof *g->written);
    g->returned = nbx_arena_array(ctx, arena, (size_t)g->value_count + 1, sizeof *g->returned);
    g->input_written = nbx_arena_array(ctx, arena, (size_t)g->input_count + 1, sizeof *g->input_written);
    g->output_alias = nbx_arena_array(ctx, arena, (size_t)g->output_count + 1, sizeof *g->output_alias);
    r.values = nbx_arena_array(ctx, arena, (size_t)r.capacity + 1, sizeof *r.values);
    if (!s.parent || !s.written || !s.returned || !g->written || !g->returned || !g->input_written || !g->output_alias || !r.values) return false;
    for (int32_t v = 0; v < g->value_count; v++) s.parent[v] = v;
    for (int32_t i = 0; i < g->node_count; i++) {
        const nbx_node *node = &g->nodes[i];
        if (node->kind == NBX_NODE_OPERATOR && node->schema) note_operator(&s, node);
        if (node->kind == NBX_NODE_HIGHER) note_higher(&s, node, &r);
    }
    finish(&s);
    return true;
}

#include "program/passes.h"

#include <string.h>

#include "core/memory.h"
#include "program/higher.h"
#include "ops/symbolic/symbolic.h"

// A constant larger than what it is made of is kept only up to this size: torch.full of a mask costs less than its memory.
enum { LARGEST_NEW_CONSTANT = 1 << 20 };

// ------------------------------------------------------------------------------------------------------- what they share
const nbx_tensor *nbx_pass_constant(const nbx_pass *pass, int32_t value) {
    return pass->constants[value].kind == NBX_KIND_TENSOR ? pass->constants[value].as.tensor : NULL;
}

const nbx_tensor *nbx_pass_constant_operand(const nbx_pass *pass, const nbx_operand *o) {
    return o->kind == NBX_OPERAND_VALUE ? nbx_pass_constant(pass, o->as.value) : NULL;
}

static bool reserve_sources(nbx_pass *pass) {
    nbx_graph *g = pass->graph;
    if (g->input_count < pass->source_capacity) return true;
    const int32_t capacity = g->input_count * 2 + 16;
    nbx_source *sources = nbx_arena_array(pass->ctx, &pass->p->arena, (size_t)capacity, sizeof *sources);
    nbx_operand *inputs = nbx_arena_array(pass->ctx, &pass->p->arena, (size_t)capacity, sizeof *inputs);
    bool *written = nbx_arena_array(pass->ctx, &pass->p->arena, (size_t)capacity, sizeof *written);
    if (!sources || !inputs || !written) return false;
    if (g->input_count) {
        memcpy(sources, pass->p->sources, (size_t)g->input_count * sizeof *sources);
        memcpy(inputs, g->inputs, (size_t)g->input_count * sizeof *inputs);
        memcpy(written, g->input_written, (size_t)g->input_count * sizeof *written);
    }
    pass->p->sources = sources;
    g->inputs = inputs;
    g->input_written = written;
    pass->source_capacity = capacity;
    return true;
}

static bool holds(const nbx_pass *pass, const nbx_storage *storage) {
    for (int32_t i = 0; i < pass->graph->input_count; i++)
        if (pass->p->sources[i].tensor && pass->p->sources[i].tensor->storage == storage) return true;
    return false;
}

bool nbx_pass_give(nbx_pass *pass, int32_t value, const nbx_tensor *t) {
    nbx_graph *g = pass->graph;
    if (!reserve_sources(pass)) return false;
    if (!holds(pass, t->storage)) pass->p->weight_bytes += t->storage->bytes;
    if (pass->source_of[value] >= 0) g->inputs[pass->source_of[value]] = (nbx_operand){.kind = NBX_OPERAND_CONSTANT};
    pass->p->sources[g->input_count] = (nbx_source){.kind = NBX_SOURCE_WEIGHT, .constant = true, .name = "", .tensor = nbx_retain(t)};
    g->inputs[g->input_count] = (nbx_operand){.kind = NBX_OPERAND_VALUE, .as.value = value};
    pass->source_of[value] = g->input_count++;
    nbx_retain(t);
    nbx_values_release(&pass->constants[value], 1);
    pass->constants[value] = nbx_of_tensor(t);
    return true;
}

static void count_reader(void *arg, int32_t value) { ((nbx_pass *)arg)->readers[value]++; }
static void discount_reader(void *arg, int32_t value) { ((nbx_pass *)arg)->readers[value]--; }

void nbx_pass_drop(nbx_pass *pass, nbx_node *node) {
    for (int32_t i = 0; i < node->arg_count; i++) nbx_operand_visit(&node->args[i], discount_reader, pass);
    node->kind = NBX_NODE_DROPPED;
}

static void find_constants(nbx_pass *pass) {
    const nbx_graph *g = pass->graph;
    for (int32_t i = 0; i < g->input_count; i++) {
        const nbx_source *s = &pass->p->sources[i];
        if (g->inputs[i].kind != NBX_OPERAND_VALUE) continue;
        const int32_t value = g->inputs[i].as.value;
        pass->source_of[value] = i;
        if (s->kind == NBX_SOURCE_WEIGHT && !s->state && !g->written[value]) pass->constants[value] = nbx_of_tensor(nbx_retain(s->tensor));
    }
}

static bool survey(nbx_pass *pass) {
    nbx_graph *g = pass->graph;
    pass->source_capacity = g->input_count;
    pass->readers = nbx_arena_array(pass->ctx, &pass->p->arena, (size_t)g->value_count + 1, sizeof *pass->readers);
    pass->constants = nbx_arena_array(pass->ctx, &pass->p->arena, (size_t)g->value_count + 1, sizeof *pass->constants);
    pass->source_of = nbx_arena_array(pass->ctx, &pass->p->arena, (size_t)g->value_count + 1, sizeof *pass->source_of);
    if (!pass->readers || !pass->constants || !pass->source_of) return false;
    for (int32_t v = 0; v < g->value_count; v++) pass->source_of[v] = -1;
    find_constants(pass);
    for (int32_t i = 0; i < g->node_count; i++)
        for (int32_t k = 0; k < g->nodes[i].arg_count; k++) nbx_operand_visit(&g->nodes[i].args[k], count_reader, pass);
    for (int32_t k = 0; k < g->output_count; k++) nbx_operand_visit(&g->outputs[k], count_reader, pass);
    return true;
}

// Runs the same whenever it runs, and leaves nothing behind but its results.
static bool is_pure(const nbx_node *node) {
    if (node->kind != NBX_NODE_OPERATOR || !node->schema) return false;
    if ((node->op->tags & NBX_TAG_RANDOM) || (node->op->op->flags & (NBX_OP_RANDOM | NBX_OP_EFFECT | NBX_OP_IN_PLACE))) return false;
    for (int i = 0; i < node->arg_count; i++)
        if (node->schema->params[i].written) return false;
    return true;
}

// ---------------------------------------------------------------------------------------------------------------- fold
typedef struct fold_arguments {
    const nbx_pass *pass;
    bool constant;
    size_t bytes;  // of all
} fold_arguments;

static void see_argument(void *arg, int32_t value) {
    fold_arguments *a = arg;
    const nbx_tensor *t = nbx_pass_constant(a->pass, value);
    a->constant &= t != NULL;
    if (t) a->bytes += nbx_tensor_nbytes(t);
}

static bool may_fold(const nbx_pass *pass, const nbx_node *node, size_t *bytes) {
    fold_arguments a = {pass, is_pure(node), 0};
    for (int32_t i = 0; i < node->arg_count && a.constant; i++) nbx_operand_visit(&node->args[i], see_argument, &a);
    for (int32_t k = 0; k < node->output_count && a.constant; k++) {
        const int32_t v = node->outputs[k];
        a.constant = v < 0 || (pass->graph->values[v].type == NBX_VALUE_TENSOR && !pass->graph->written[v] && !pass->graph->returned[v]);
    }
    *bytes = a.bytes;
    return a.constant;
}

// A result that is no view of a constant takes memory of its own.
static bool is_worth_it(const nbx_pass *pass, const nbx_node *node, size_t bytes) {
    size_t taken = 0;
    for (int32_t k = 0; k < node->output_count; k++) {
        const nbx_tensor *t = node->outputs[k] >= 0 ? nbx_pass_constant(pass, node->outputs[k]) : NULL;
        if (t && !holds(pass, t->storage)) taken += t->storage->bytes;
    }
    return taken <= bytes || taken <= LARGEST_NEW_CONSTANT;
}

static void forget_results(nbx_pass *pass, const nbx_node *node) {
    for (int32_t k = 0; k < node->output_count; k++)
        if (node->outputs[k] >= 0) nbx_values_release(&pass->constants[node->outputs[k]], 1);
}

// The results stand among the constants.
static bool keep_results(nbx_pass *pass, nbx_node *node, size_t bytes) {
    bool complete = is_worth_it(pass, node, bytes);
    for (int32_t k = 0; k < node->output_count && complete; k++) complete = node->outputs[k] < 0 || nbx_pass_constant(pass, node->outputs[k]);
    if (!complete) return forget_results(pass, node), true;
    for (int32_t k = 0; k < node->output_count; k++)
        if (node->outputs[k] >= 0 && !nbx_pass_give(pass, node->outputs[k], nbx_pass_constant(pass, node->outputs[k]))) return false;
    nbx_pass_drop(pass, node);
    return true;
}

// A node that fails is left alone: its failure belongs to the run.
static bool fold(nbx_pass *pass) {
    for (int32_t i = 0; i < pass->graph->node_count; i++) {
        nbx_node *node = &pass->graph->nodes[i];
        size_t bytes;
        if (!may_fold(pass, node, &bytes)) continue;
        const nbx_status status = nbx_node_run(pass->ctx, pass->graph, node, pass->constants);
        if (status == NBX_ERROR_MEMORY || (status == NBX_OK && !keep_results(pass, node, bytes))) return false;
        if (status == NBX_OK) continue;
        forget_results(pass, node);
        nbx_clear_error(pass->ctx);
    }
    return true;
}

// ---------------------------------------------------------------------------------------------------------------- dead
static bool is_needed(const nbx_pass *pass, const nbx_node *node) {
    const bool number = node->kind == NBX_NODE_HOST && node->code < NBX_HOST_ASSERT_SCALAR;
    if (!number && !is_pure(node)) return true;
    for (int32_t k = 0; k < node->output_count; k++)
        if (node->outputs[k] >= 0 && pass->readers[node->outputs[k]]) return true;
    return false;
}

static bool drop_dead(nbx_pass *pass) {
    for (int32_t i = pass->graph->node_count; i-- > 0;) {
        nbx_node *node = &pass->graph->nodes[i];
        if (node->kind != NBX_NODE_DROPPED && !is_needed(pass, node)) nbx_pass_drop(pass, node);
    }
    return true;
}

// ------------------------------------------------------------------------------------------------------------- all of them
// Weights in the mapped file that no node reads any more take no memory; the flag of their storages tells them apart meanwhile.
static void discount_unread(nbx_pass *pass) {
    nbx_program *p = pass->p;
    for (int32_t i = 0; i < pass->graph->input_count; i++)
        if (p->sources[i].tensor) p->sources[i].tensor->storage->constant = false;
    for (int32_t i = 0; i < pass->graph->input_count; i++) {
        const nbx_operand *o = &pass->graph->inputs[i];
        if (p->sources[i].tensor && o->kind == NBX_OPERAND_VALUE && pass->readers[o->as.value]) p->sources[i].tensor->storage->constant = true;
    }
    for (int32_t i = 0; i < pass->graph->input_count; i++) {
        nbx_storage *s = p->sources[i].tensor ? p->sources[i].tensor->storage : NULL;
        if (!s || s->constant || p->sources[i].state || !nbx_store_is_mapped(s)) continue;
        p->weight_bytes -= s->bytes;
        p->mapped_bytes -= s->bytes;
        s->constant = true;
    }
}

static bool is_left_out(const char *without, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = without; at && (at = strstr(at, name)); at += length)
        if ((at == without || at[-1] == ',') && (at[length] == 0 || at[length] == ',')) return true;
    return false;
}

bool nbx_passes_run(nbx_context *ctx, nbx_program *p, const char *without) {
    static const struct { const char *name; bool (*run)(nbx_pass *pass); } all[] = {
        {"fold", fold}, {"batch_norm", nbx_pass_batch_norm}, {"dead", drop_dead},
    };
    nbx_pass pass = {.ctx = ctx, .p = p, .graph = p->graph};
    p->unjoined = is_left_out(without, "epilogue");
    if (p->problems.count || nbx_last_status(ctx) != NBX_OK) return true;
    bool good = survey(&pass);
    for (size_t i = 0; i < sizeof all / sizeof *all && good; i++) good = is_left_out(without, all[i].name) || all[i].run(&pass);
    if (good) discount_unread(&pass);
    if (pass.constants) nbx_values_release(pass.constants, pass.graph->value_count);
    return good && nbx_graph_find_releases(ctx, &p->arena, p->graph);
}

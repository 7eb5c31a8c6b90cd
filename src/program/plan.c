// The memory a run will take: the program is recorded, not run, with inputs that have sizes but no contents.
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "ops/record.h"
#include "program/higher.h"
#include "program/program_parts.h"

static size_t state_bytes(const nbx_program *p) {
    size_t bytes = 0;
    for (int32_t i = 0; i < p->graph->input_count; i++) {
        const nbx_source *s = &p->sources[i];
        bool seen = !s->tensor || !s->state;
        for (int32_t k = 0; k < i && !seen; k++)
            seen = p->sources[k].tensor && p->sources[k].state && p->sources[k].tensor->storage == s->tensor->storage;
        if (!seen) bytes += s->tensor->storage->bytes;
    }
    return bytes;
}

// A tensor of the sizes that export saw, as a planned storage: nothing reads it.
static const nbx_tensor *imagine(nbx_context *ctx, const nbx_program *p, int input) {
    const nbx_program_value *v = &p->inputs[input];
    nbx_tensor *t = nbx_tensor_new(ctx, v->dtype, v->rank, p->input_hints[input], NULL, 0, NULL);
    if (!t) return NULL;
    t->storage = nbx_recorder_storage(ctx, p->device, nbx_tensor_nbytes(t), v->name);
    if (t->storage) return nbx_scope_own(ctx, t);
    nbx_release(t);
    return NULL;
}

static nbx_status fill(nbx_context *ctx, const nbx_program *p, const nbx_value *given, nbx_value *inputs) {
    for (int32_t i = 0; i < p->graph->input_count; i++) {
        const nbx_source *s = &p->sources[i];
        inputs[i] = nbx_of_none();
        if (s->kind == NBX_SOURCE_WEIGHT) inputs[i] = nbx_of_tensor(s->tensor);
        if (s->kind != NBX_SOURCE_USER) continue;
        if (given) inputs[i] = given[s->user];
        else if (p->inputs[s->user].kind == NBX_KIND_TENSOR) inputs[i] = nbx_of_tensor(imagine(ctx, p, s->user));
        else if (p->inputs[s->user].kind == NBX_KIND_INT) inputs[i] = nbx_of_int(p->input_hints[s->user][0]);
        else inputs[i] = p->inputs[s->user].kind == NBX_KIND_BOOL ? nbx_of_bool(true) : nbx_of_float(1);
        if (inputs[i].kind == NBX_KIND_TENSOR && !inputs[i].as.tensor) return nbx_last_status(ctx);
    }
    return NBX_OK;
}

// true: recording ended where a size depends on data, which is no failure of the plan.
static bool ended_by_data(nbx_context *ctx, const nbx_recorder *r) {
    return nbx_last_status(ctx) == NBX_ERROR_DATA_DEPENDENT && r->dependent;
}

static nbx_status record(nbx_context *ctx, const nbx_program *p, const nbx_value *given, nbx_recorder *r, nbx_trace *trace, bool *partial) {
    nbx_value *inputs = nbx_alloc_zero(((size_t)p->graph->input_count + 1) * sizeof *inputs);
    nbx_value *outputs = nbx_alloc_zero(((size_t)p->graph->output_count + 1) * sizeof *outputs);
    nbx_status status = inputs && outputs ? NBX_OK : nbx_fail_memory(ctx, (size_t)p->graph->input_count * sizeof *inputs, "a plan");
    const nbx_scope scope = nbx_scope_open(ctx);
    nbx_run run = {.ctx = ctx, .lower = NBX_DTYPE_NONE, .trace = trace};
    ctx->recorder = r;
    if (status == NBX_OK) status = fill(ctx, p, given, inputs);
    if (status == NBX_OK) status = nbx_graph_run(&run, p->graph, inputs, p->graph->input_count, outputs);
    ctx->recorder = NULL;
    if (status != NBX_OK && ended_by_data(ctx, r)) {
        nbx_clear_error(ctx);
        *partial = true;
        status = NBX_OK;
    }
    for (int32_t k = 0; outputs && k < p->graph->output_count; k++)
        if (outputs[k].kind == NBX_KIND_TENSOR) nbx_recorder_keep(r, outputs[k].as.tensor->storage);
    if (outputs) nbx_values_release(outputs, p->graph->output_count);
    nbx_scope_close(ctx, scope, NULL);
    nbx_free(inputs);
    nbx_free(outputs);
    return status == NBX_OK ? nbx_trace_finish(ctx, trace, r, !p->unjoined) : status;
}

// ------------------------------------------------------------------------------------------------------------- ceiling
static void name_buffers(const nbx_recorder *r, char *text, size_t size) {
    enum { NAMED = 3 };
    const nbx_recorded_buffer *largest[NAMED] = {NULL};
    for (int i = 0; i < r->buffer_count; i++) {
        const nbx_recorded_buffer *b = &r->buffers[i];
        for (int k = 0; k < NAMED; k++) {
            if (largest[k] && largest[k]->storage->bytes >= b->storage->bytes) continue;
            const nbx_recorded_buffer *smaller = largest[k];
            largest[k] = b;
            b = smaller;
            if (!b) break;
        }
    }
    for (int k = 0; k < NAMED && largest[k]; k++) {
        const size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%zu bytes of %s", k ? ", " : "; its largest buffers: ", largest[k]->storage->bytes, largest[k]->made_by);
    }
}

static size_t peak_bytes(const nbx_program *p, const nbx_recorder *r) { return p->weight_bytes + state_bytes(p) + r->arena_bytes; }

size_t nbx_ceiling_room(const nbx_program *p, const nbx_recorder *r) {
    const size_t peak = peak_bytes(p, r);
    return !p->memory_ceiling ? SIZE_MAX : peak < p->memory_ceiling ? p->memory_ceiling - peak : 0;
}

nbx_status nbx_ceiling_check(nbx_context *ctx, const nbx_program *p, const nbx_recorder *r) {
    const size_t state = state_bytes(p), peak = peak_bytes(p, r);
    char buffers[512] = "";
    if (!p->memory_ceiling || peak <= p->memory_ceiling) return NBX_OK;
    name_buffers(r, buffers, sizeof buffers);
    return nbx_fail(ctx, NBX_ERROR_MEMORY, "%s needs %zu bytes (weights %zu, state %zu, arena %zu), its ceiling is %zu%s", p->label, peak,
                    p->weight_bytes, state, r->arena_bytes, p->memory_ceiling, buffers);
}

nbx_status nbx_ceiling_check_at_load(nbx_context *ctx, const nbx_program *p) {
    nbx_recorder *r = p->memory_ceiling && !p->problems.count ? nbx_recorder_create(ctx) : NULL;
    if (!r) return p->memory_ceiling && !p->problems.count ? nbx_last_status(ctx) : NBX_OK;
    bool partial = false;
    nbx_status status = record(ctx, p, NULL, r, NULL, &partial);
    if (status == NBX_OK) status = nbx_ceiling_check(ctx, p, r);
    nbx_recorder_destroy(r);
    return status;
}

nbx_status nbx_program_plan_memory(nbx_context *ctx, const nbx_program *p, const nbx_value *inputs, int input_count, nbx_program_plan *plan) {
    memset(plan, 0, sizeof *plan);
    if (p->problems.count) return nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s", p->problems.list[0].text);
    nbx_status status = inputs ? nbx_inputs_check(ctx, p, inputs, input_count) : NBX_OK;
    nbx_recorder *r = status == NBX_OK ? nbx_recorder_create(ctx) : NULL;
    if (!r) return nbx_last_status(ctx);
    status = record(ctx, p, inputs, r, NULL, &plan->partial);
    size_t spared = 0;
    if (status == NBX_OK) nbx_packed_measure(r, &plan->packed_bytes, &spared);
    if (plan->packed_bytes > nbx_ceiling_room(p, r)) plan->packed_bytes = spared = 0;
    plan->weight_bytes = p->weight_bytes - spared + plan->packed_bytes;
    plan->mapped_bytes = p->mapped_bytes - spared;
    plan->state_bytes = state_bytes(p);
    plan->arena_bytes = r->arena_bytes;
    plan->unplanned_bytes = r->unplanned_bytes;
    plan->peak_bytes = plan->weight_bytes + plan->state_bytes + plan->arena_bytes;
    plan->commands = r->command_count;
    nbx_recorder_destroy(r);
    return status;
}

nbx_status nbx_program_costs(nbx_context *ctx, const nbx_program *p, const nbx_value *inputs, int input_count, nbx_command_report_fn see, void *arg) {
    if (p->problems.count) return nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s", p->problems.list[0].text);
    nbx_status status = inputs ? nbx_inputs_check(ctx, p, inputs, input_count) : NBX_OK;
    nbx_recorder *r = status == NBX_OK ? nbx_recorder_create(ctx) : NULL;
    if (!r) return nbx_last_status(ctx);
    nbx_trace trace = {0};
    bool partial = false;
    status = record(ctx, p, inputs, r, &trace, &partial);
    if (status == NBX_OK) nbx_trace_report(&trace, r, NULL, see, arg);
    nbx_recorder_destroy(r);
    nbx_free(trace.spans);
    return status;
}

// Recording a session's run into a plan, and replaying it.
#include "program/replay.h"

#include <string.h>
#include <time.h>

#include "core/memory.h"

// ---------------------------------------------------------------------------------------------------------------- keys
static bool key_add(nbx_context *ctx, nbx_plan_key *key, int64_t word) {
    if (key->count == key->capacity) {
        const int capacity = key->capacity ? key->capacity * 2 : 32;
        int64_t *words = nbx_realloc(key->words, (size_t)capacity * sizeof *words);
        if (!words) return nbx_fail_memory(ctx, (size_t)capacity * sizeof *words, "a plan"), false;
        key->words = words;
        key->capacity = capacity;
    }
    key->words[key->count++] = word;
    return true;
}

static bool key_add_input(nbx_context *ctx, nbx_plan_key *key, const nbx_value *v) {
    if (!key_add(ctx, key, v->kind)) return false;
    if (v->kind != NBX_KIND_TENSOR) {
        int64_t bits = v->kind == NBX_KIND_BOOL ? v->as.boolean : v->as.integer;
        if (v->kind == NBX_KIND_FLOAT) memcpy(&bits, &v->as.real, 8);
        return key_add(ctx, key, bits);
    }
    const nbx_tensor *t = v->as.tensor;
    bool good = key_add(ctx, key, t->dtype) && key_add(ctx, key, t->rank);
    for (int i = 0; i < t->rank && good; i++) good = key_add(ctx, key, t->shape[i]) && key_add(ctx, key, t->stride[i]);
    return good;
}

bool nbx_plan_key_make(nbx_context *ctx, const nbx_program *p, const nbx_value *inputs, nbx_plan_key *key, bool *plain) {
    bool written = false;
    *plain = true;
    for (int i = 0; i < p->input_count; i++) {
        if (!key_add_input(ctx, key, &inputs[i])) return false;
        written |= p->inputs[i].written;
    }
    // Writes into one input must be seen through another that shares its memory, but placeholders share none.
    for (int i = 0; i < p->input_count && written; i++)
        for (int k = 0; k < i; k++)
            if (inputs[i].kind == NBX_KIND_TENSOR && inputs[k].kind == NBX_KIND_TENSOR && inputs[i].as.tensor->storage == inputs[k].as.tensor->storage)
                *plain = false;
    return true;
}

bool nbx_plan_key_equal(const nbx_plan_key *a, const nbx_plan_key *b) {
    return a->count == b->count && memcmp(a->words, b->words, (size_t)a->count * sizeof *a->words) == 0;
}

// ----------------------------------------------------------------------------------------------------------- recording
static nbx_tensor *make_holder(nbx_context *ctx, const nbx_tensor *t) {
    const int64_t bytes = nbx_extent_bytes((nbx_dtype)t->dtype, t->rank, t->shape, t->stride, 0);
    nbx_storage *storage = nbx_storage_wrap(ctx, nbx_device_of(t), bytes < 0 ? 0 : (size_t)bytes, NULL, NULL, NULL);
    if (!storage) return NULL;
    nbx_tensor *holder = nbx_tensor_new(ctx, (nbx_dtype)t->dtype, t->rank, t->shape, t->stride, 0, storage);
    nbx_storage_release(storage);
    return holder;
}

static bool place_inputs(nbx_context *ctx, const nbx_program *p, nbx_plan *plan, nbx_tensor *const *weights, const nbx_value *inputs, nbx_value *out) {
    for (int32_t i = 0; i < p->graph->input_count; i++) {
        const nbx_source *s = &p->sources[i];
        out[i] = nbx_of_none();
        if (s->kind == NBX_SOURCE_WEIGHT) out[i] = nbx_of_tensor(weights[i]);
        if (s->kind != NBX_SOURCE_USER) continue;
        out[i] = inputs[s->user];
        if (out[i].kind != NBX_KIND_TENSOR) continue;
        plan->holders[s->user] = make_holder(ctx, inputs[s->user].as.tensor);
        if (!plan->holders[s->user]) return false;
        out[i] = nbx_of_tensor(plan->holders[s->user]);
    }
    return true;
}

static bool is_planned(const nbx_plan *plan, const nbx_storage *s) {
    return s->plan >= 0 && s->plan < plan->recorder->buffer_count && plan->recorder->buffers[s->plan].storage == s;
}

// Storages of results get new memory for every replay, since the caller keeps them.
static bool expose_results(nbx_context *ctx, const nbx_program *p, nbx_plan *plan) {
    plan->fresh = nbx_alloc_zero(((size_t)p->graph->output_count + 1) * sizeof *plan->fresh);
    if (!plan->fresh) return nbx_fail_memory(ctx, (size_t)p->graph->output_count * sizeof *plan->fresh, "a plan"), false;
    for (int32_t k = 0; k < p->graph->output_count; k++) {
        if (p->sinks[k].kind != NBX_SINK_USER || plan->results[k].kind != NBX_KIND_TENSOR) continue;
        nbx_storage *s = plan->results[k].as.tensor->storage;
        bool seen = !is_planned(plan, s);
        for (int i = 0; i < plan->fresh_count && !seen; i++) seen = plan->fresh[i] == s;
        if (seen) continue;
        nbx_recorder_expose(plan->recorder, s);
        plan->fresh[plan->fresh_count++] = s;
    }
    return true;
}

static bool record(nbx_context *ctx, const nbx_program *p, nbx_plan *plan, nbx_tensor *const *weights, const nbx_value *inputs,
                   nbx_plan_body body, void *arg, bool *dependent) {
    nbx_value *values = nbx_alloc_zero(((size_t)p->graph->input_count + 1) * sizeof *values);
    if (!values) return nbx_fail_memory(ctx, (size_t)p->graph->input_count * sizeof *values, "a plan"), false;
    nbx_run run = {.ctx = ctx, .lower = NBX_DTYPE_NONE, .trace = &plan->trace};
    const nbx_scope scope = nbx_scope_open(ctx);
    ctx->recorder = plan->recorder;
    bool good = place_inputs(ctx, p, plan, weights, inputs, values) && body(arg, &run, values, plan->results) == NBX_OK;
    ctx->recorder = NULL;
    *dependent = !good && nbx_last_status(ctx) == NBX_ERROR_DATA_DEPENDENT;
    good = good && expose_results(ctx, p, plan) && nbx_trace_finish(ctx, &plan->trace, plan->recorder, !p->unjoined) == NBX_OK;
    nbx_scope_close(ctx, scope, NULL);
    nbx_free(values);
    return good;
}

nbx_plan *nbx_plan_record(nbx_context *ctx, const nbx_program *p, nbx_tensor *const *weights, const nbx_value *inputs,
                          nbx_plan_body body, void *arg, bool *dependent) {
    *dependent = false;
    nbx_plan *plan = nbx_alloc_zero(sizeof *plan);
    if (!plan) return nbx_fail_memory(ctx, sizeof *plan, "a plan"), NULL;
    plan->holders = nbx_alloc_zero(((size_t)p->input_count + 1) * sizeof *plan->holders);
    plan->results = nbx_alloc_zero(((size_t)p->graph->output_count + 1) * sizeof *plan->results);
    plan->recorder = plan->holders && plan->results ? nbx_recorder_create(ctx) : NULL;
    if (!plan->recorder && nbx_last_status(ctx) == NBX_OK) nbx_fail_memory(ctx, sizeof *plan, "a plan");
    const bool was_well = nbx_last_status(ctx) == NBX_OK;
    if (plan->recorder && record(ctx, p, plan, weights, inputs, body, arg, dependent)) return plan;
    if (*dependent && was_well) nbx_clear_error(ctx);
    nbx_plan_destroy(ctx, plan, p);
    return NULL;
}

static void drop_graph(nbx_context *ctx, nbx_plan *plan) {
    if (plan->graph) nbx_backend_of(ctx->device.type)->graph_destroy(plan->graph);
    plan->graph = NULL;
}

void nbx_plan_destroy(nbx_context *ctx, nbx_plan *plan, const nbx_program *p) {
    if (!plan) return;
    drop_graph(ctx, plan);
    if (plan->results) nbx_values_release(plan->results, p->graph->output_count);
    for (int i = 0; plan->holders && i < p->input_count; i++) nbx_release(plan->holders[i]);
    nbx_recorder_destroy(plan->recorder);
    nbx_free(plan->trace.spans);
    nbx_free(plan->key.words);
    nbx_free(plan->holders);
    nbx_free(plan->results);
    nbx_free(plan->fresh);
    nbx_free(plan->addresses);
    nbx_free(plan);
}

// -------------------------------------------------------------------------------------------------------------- replay
static void point_inputs(const nbx_program *p, nbx_plan *plan, const nbx_value *inputs) {
    for (int i = 0; i < p->input_count; i++)
        if (plan->holders[i]) plan->holders[i]->storage->data = inputs[i].as.tensor->numel ? nbx_data(inputs[i].as.tensor) : NULL;
}

// A result that lies in new memory, in a caller's input, or in the session's own tensors.
static nbx_tensor *give_result(nbx_context *ctx, const nbx_program *p, const nbx_plan *plan, nbx_storage *const *memory, const nbx_value *inputs,
                               const nbx_tensor *t) {
    nbx_storage *storage = t->storage;
    int64_t offset = t->offset;
    for (int i = 0; i < plan->fresh_count; i++)
        if (plan->fresh[i] == storage) storage = memory[i];
    for (int i = 0; i < p->input_count; i++)
        if (plan->holders[i] && plan->holders[i]->storage == t->storage) {
            if (t == plan->holders[i]) return nbx_retain(inputs[i].as.tensor);
            storage = inputs[i].as.tensor->storage;
            offset += inputs[i].as.tensor->offset;
        }
    if (storage == t->storage) return nbx_retain(t);
    return nbx_tensor_new(ctx, (nbx_dtype)t->dtype, t->rank, t->shape, t->stride, offset, storage);
}

static nbx_status give_results(nbx_context *ctx, const nbx_program *p, const nbx_plan *plan, nbx_storage *const *memory, const nbx_value *inputs,
                               nbx_value *results) {
    int at = 0;
    for (int32_t k = 0; k < p->graph->output_count; k++) {
        if (p->sinks[k].kind != NBX_SINK_USER) continue;
        results[at] = plan->results[k];
        if (plan->results[k].kind == NBX_KIND_TENSOR) {
            results[at] = nbx_of_tensor(give_result(ctx, p, plan, memory, inputs, plan->results[k].as.tensor));
            if (!results[at].as.tensor) return results[at] = nbx_of_none(), nbx_last_status(ctx);
        }
        at++;
    }
    return NBX_OK;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void keep_smaller(double *seconds, double found) {
    if (found < *seconds) *seconds = found;
}

// One command after another, each between two readings of the clock: the device's where there is one.
static nbx_status run_timed(nbx_context *ctx, nbx_plan *plan) {
    nbx_recorder *r = plan->recorder;
    const nbx_backend *backend = nbx_backend_of(ctx->device.type);
    void *timer = backend ? backend->timer_create(ctx, r->command_count + 1) : NULL;
    nbx_status status = backend && !timer ? ctx->status : NBX_OK;
    if (timer) status = backend->timer_stamp(ctx, timer, 0);
    for (r->at = 0; r->at < r->command_count && status == NBX_OK; r->at++) {
        const double start = now();
        r->commands[r->at]->ctx = ctx;
        status = r->commands[r->at]->kernel(r->commands[r->at]);
        if (timer && status == NBX_OK) status = backend->timer_stamp(ctx, timer, r->at + 1);
        else keep_smaller(&plan->seconds[r->at], now() - start);
    }
    if (timer && status == NBX_OK) status = backend->synchronize(ctx);
    for (int i = 0; timer && i < r->command_count && status == NBX_OK; i++) keep_smaller(&plan->seconds[i], backend->timer_seconds(timer, i, i + 1));
    if (timer) backend->timer_destroy(timer);
    return status;
}

static nbx_status run_commands(nbx_context *ctx, nbx_plan *plan) {
    const nbx_status status = plan->seconds ? run_timed(ctx, plan) : nbx_recorder_replay(ctx, plan->recorder);
    if (status != NBX_OK) nbx_trace_name(ctx, &plan->trace, plan->recorder->at);
    return status;
}

// Storages whose address changes between replays: placeholders of inputs, then results.
static nbx_storage *moving(const nbx_program *p, const nbx_plan *plan, int i) {
    if (i >= p->input_count) return plan->fresh[i - p->input_count];
    return plan->holders[i] ? plan->holders[i]->storage : NULL;
}

static bool may_be_graphed(const nbx_backend *backend, const nbx_plan *plan) {
    if (!backend || !backend->graph_create) return false;
    for (int i = 0; i < plan->recorder->command_count; i++)  // a random command draws anew at each replay
        if (plan->recorder->commands[i]->op->flags & NBX_OP_RANDOM) return false;
    return true;
}

typedef struct walk {
    nbx_context *ctx;
    nbx_plan *plan;
} walk;

static nbx_status walk_commands(void *arg) {
    const walk *w = arg;
    return nbx_recorder_replay(w->ctx, w->plan->recorder);
}

static void capture(nbx_context *ctx, const nbx_backend *backend, const nbx_program *p, nbx_plan *plan, int count) {
    walk w = {ctx, plan};
    void **stand_ins = nbx_alloc((size_t)(count + 1) * sizeof *stand_ins);
    for (int i = 0; stand_ins && i < count; i++) {
        nbx_storage *s = moving(p, plan, i);
        stand_ins[i] = backend->graph_stand_in(i, plan->addresses[i]);
        if (s) s->data = stand_ins[i];
    }
    if (stand_ins) plan->graph = backend->graph_create(ctx, walk_commands, &w, stand_ins, count);
    plan->ungraphed = !plan->graph;
    if (plan->ungraphed) nbx_clear_error(ctx);
    nbx_free(stand_ins);
    for (int i = 0; i < count; i++)
        if (moving(p, plan, i)) moving(p, plan, i)->data = plan->addresses[i];
}

// On a device the second replay is captured into a graph, which later ones launch as a whole.
static nbx_status run_on_device(nbx_context *ctx, const nbx_program *p, nbx_plan *plan) {
    const nbx_backend *backend = nbx_backend_of(ctx->device.type);
    const int count = p->input_count + plan->fresh_count;
    if (plan->ungraphed || !plan->replayed || plan->seconds) return run_commands(ctx, plan);
    if (!plan->addresses) {
        plan->addresses = may_be_graphed(backend, plan) ? nbx_alloc_zero((size_t)(count + 1) * sizeof *plan->addresses) : NULL;
        plan->ungraphed = !plan->addresses;
        if (plan->ungraphed) return run_commands(ctx, plan);
    }
    unsigned alignment = 0;
    for (int i = 0; i < count; i++) {
        const nbx_storage *s = moving(p, plan, i);
        plan->addresses[i] = s ? s->data : NULL;
        alignment = alignment * 31 + (unsigned)((uintptr_t)plan->addresses[i] % 16);  // kernels are chosen by it
    }
    if (plan->graph && alignment != plan->alignment) drop_graph(ctx, plan);
    plan->alignment = alignment;
    if (!plan->graph) capture(ctx, backend, p, plan, count);
    return plan->graph ? backend->graph_launch(ctx, plan->graph, plan->addresses) : run_commands(ctx, plan);
}

static void pack(nbx_context *ctx, nbx_program *p, nbx_plan *plan) {
    if (p->packs && plan->replayed && !plan->packed) {
        nbx_packed_use(ctx, &p->packed, plan->recorder, nbx_ceiling_room(p, plan->recorder));
        plan->packed = true;
    }
}

nbx_status nbx_plan_replay(nbx_context *ctx, nbx_program *p, nbx_plan *plan, void *arena, const nbx_value *inputs, nbx_value *results) {
    enum { FEW = 16 };
    nbx_storage *few[FEW], **memory = plan->fresh_count <= FEW ? few : nbx_alloc((size_t)plan->fresh_count * sizeof *memory);
    if (!memory) return nbx_fail_memory(ctx, (size_t)plan->fresh_count * sizeof *memory, "results");
    nbx_status status = NBX_OK;
    int made = 0;
    for (; made < plan->fresh_count && status == NBX_OK; made++) {
        memory[made] = nbx_storage_create(ctx, plan->fresh[made]->device, plan->fresh[made]->bytes);
        if (!memory[made]) {
            status = nbx_last_status(ctx);
            break;
        }
        plan->fresh[made]->data = memory[made]->data;
    }
    if (status == NBX_OK) {
        if (plan->bound != arena) {
            nbx_recorder_bind_at(ctx, plan->recorder, arena);
            drop_graph(ctx, plan);
        }
        plan->bound = arena;
        point_inputs(p, plan, inputs);
        pack(ctx, p, plan);
        status = ctx->device.type == NBX_CPU ? run_commands(ctx, plan) : run_on_device(ctx, p, plan);
        plan->replayed = true;
    }
    if (status == NBX_OK) status = give_results(ctx, p, plan, memory, inputs, results);
    for (int i = 0; i < made; i++) nbx_storage_release(memory[i]);
    if (memory != few) nbx_free(memory);
    return status;
}

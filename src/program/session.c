// Sessions: the program's state, and one run after another on it.
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "program/higher.h"
#include "program/program_parts.h"
#include "program/replay.h"
#include "program/verify.h"

enum { MOST_PLANS = 8, ARENA_ALIGNMENT = 64 };

struct nbx_session {
    nbx_context *ctx;
    nbx_program *program;
    nbx_tensor **weights;  // [graph->input_count]: the program's tensors, or the session's own where state; NULL for inputs
    nbx_value *inputs;     // [graph->input_count]: room for a run
    nbx_value *outputs;    // [graph->output_count]
    nbx_value *given;      // [input_count]: the caller's inputs, numbers taken out of tensors
    nbx_plan *plans[MOST_PLANS];
    int plan_count;
    nbx_storage *arena;    // shared by the plans: one runs at a time
    uint64_t runs;
    bool direct;           // sizes or branches depend on data: the program cannot be recorded
    bool verify;           // NBX_VERIFY_REPLAY
};

// --------------------------------------------------------------------------------------------------------------- state
// A storage the program writes into is copied as a whole, once: tensors that share it share the copy.
typedef struct copied {
    nbx_storage *from, *to;
} copied;

static bool must_copy(const nbx_program *p, const nbx_storage *storage) {
    for (int32_t i = 0; i < p->graph->input_count; i++)
        if (p->sources[i].tensor && p->sources[i].state && p->sources[i].tensor->storage == storage) return true;
    return false;
}

static nbx_storage *copy_of(nbx_session *s, copied *list, int *count, nbx_storage *from) {
    for (int i = 0; i < *count; i++)
        if (list[i].from == from) return list[i].to;
    nbx_storage *to = nbx_storage_create(s->ctx, from->device, from->bytes);
    if (!to) return NULL;
    if (from->bytes && nbx_copy_bytes(s->ctx, to->device, to->data, from->device, from->data, from->bytes) != NBX_OK) {
        nbx_storage_release(to);
        return NULL;
    }
    list[*count] = (copied){from, to};
    ++*count;
    return to;
}

static bool take_weight(nbx_session *s, int32_t i, copied *list, int *count) {
    const nbx_tensor *t = s->program->sources[i].tensor;
    if (!t) return true;
    if (!must_copy(s->program, t->storage)) return s->weights[i] = nbx_retain(t), true;
    nbx_storage *storage = copy_of(s, list, count, t->storage);
    if (storage) s->weights[i] = nbx_tensor_new(s->ctx, (nbx_dtype)t->dtype, t->rank, t->shape, t->stride, t->offset, storage);
    return s->weights[i] != NULL;
}

static bool take_weights(nbx_session *s) {
    const int32_t inputs = s->program->graph->input_count;
    int count = 0;
    copied *list = nbx_alloc(((size_t)inputs + 1) * sizeof *list);
    if (!list) return nbx_fail_memory(s->ctx, ((size_t)inputs + 1) * sizeof *list, "a session"), false;
    bool good = true;
    for (int32_t i = 0; i < inputs && good; i++) good = take_weight(s, i, list, &count);
    for (int i = 0; i < count; i++) nbx_storage_release(list[i].to);
    nbx_free(list);
    return good;
}

static void drop_plans(nbx_session *s) {
    for (int i = 0; i < s->plan_count; i++) nbx_plan_destroy(s->ctx, s->plans[i], s->program);
    s->plan_count = 0;
}

static void drop_weights(nbx_session *s) {
    for (int32_t i = 0; s->weights && i < s->program->graph->input_count; i++) {
        nbx_release(s->weights[i]);
        s->weights[i] = NULL;
    }
}

nbx_status nbx_session_reset(nbx_session *s) {
    drop_plans(s);
    drop_weights(s);
    return take_weights(s) ? NBX_OK : nbx_last_status(s->ctx);
}

nbx_status nbx_session_create(nbx_context *ctx, nbx_program *p, nbx_session **session) {
    *session = NULL;
    if (p->problems.count) return nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s: it was loaded to be inspected and cannot run: %s", p->label, p->problems.list[0].text);
    if (nbx_context_device(ctx).type != p->device.type) return nbx_fail(ctx, NBX_ERROR_DEVICE, "%s: it was loaded for another device", p->label);
    nbx_session *s = nbx_alloc_zero(sizeof *s);
    if (!s) return nbx_fail_memory(ctx, sizeof *s, "a session");
    s->ctx = ctx;
    s->program = p;
    __atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
    const char *verify = getenv("NBX_VERIFY_REPLAY"), *direct = getenv("NBX_DIRECT");
    s->verify = verify && verify[0] && strcmp(verify, "0") != 0;
    s->direct = direct && direct[0] && strcmp(direct, "0") != 0;
    const size_t inputs = (size_t)p->graph->input_count + 1, outputs = (size_t)p->graph->output_count + 1;
    s->weights = nbx_alloc_zero(inputs * sizeof *s->weights);
    s->inputs = nbx_alloc_zero(inputs * sizeof *s->inputs);
    s->given = nbx_alloc_zero(inputs * sizeof *s->given);
    s->outputs = nbx_alloc_zero(outputs * sizeof *s->outputs);
    bool good = s->weights && s->inputs && s->given && s->outputs;
    if (!good) nbx_fail_memory(ctx, inputs * sizeof *s->inputs, "a session");
    if (good && take_weights(s)) return *session = s, NBX_OK;
    nbx_session_destroy(s);
    return nbx_last_status(ctx);
}

void nbx_session_destroy(nbx_session *s) {
    if (!s) return;
    drop_plans(s);
    nbx_storage_release(s->arena);
    drop_weights(s);
    nbx_free(s->weights);
    nbx_free(s->inputs);
    nbx_free(s->given);
    nbx_free(s->outputs);
    nbx_program_destroy(s->program);
    nbx_free(s);
}

const char *nbx_session_state_name(const nbx_session *s, int index) {
    for (int32_t i = 0; i < s->program->graph->input_count; i++)
        if (s->program->sources[i].kind == NBX_SOURCE_WEIGHT && s->program->sources[i].state && index-- == 0) return s->program->sources[i].name;
    return NULL;
}

const nbx_tensor *nbx_session_state(const nbx_session *s, const char *name) {
    for (int32_t i = 0; i < s->program->graph->input_count; i++)
        if (s->weights[i] && strcmp(s->program->sources[i].name, name) == 0) return s->weights[i];
    return NULL;
}

// ---------------------------------------------------------------------------------------------------------------- runs
// Numbers may be given as tensors of one element.
static nbx_status take_inputs(nbx_session *s, const nbx_value *inputs, int count) {
    const nbx_program *p = s->program;
    if (count > 0 && !inputs) return nbx_fail(s->ctx, NBX_ERROR_ARGUMENT, "inputs are NULL");
    for (int i = 0; i < count && i < p->input_count; i++) {
        s->given[i] = inputs[i];
        const nbx_kind kind = p->inputs[i].kind;
        if (inputs[i].kind != NBX_KIND_TENSOR || !inputs[i].as.tensor || kind == NBX_KIND_TENSOR || inputs[i].as.tensor->numel != 1) continue;
        const nbx_status status = nbx_number_of_tensor(s->ctx, inputs[i].as.tensor, &s->given[i]);
        if (status != NBX_OK) return status;
        if (kind == NBX_KIND_FLOAT && s->given[i].kind == NBX_KIND_INT) s->given[i] = nbx_of_float((double)s->given[i].as.integer);
    }
    return nbx_inputs_check(s->ctx, p, s->given, count);
}

static bool same_place(const nbx_tensor *a, const nbx_tensor *b) {
    return a->storage == b->storage && a->offset == b->offset && a->dtype == b->dtype && nbx_same_shape(a, b) &&
           memcmp(a->stride, b->stride, (size_t)a->rank * sizeof *a->stride) == 0;
}

// New contents that lie in the memory of an input are copied out first: two buffers may have changed places.
static nbx_status part_from_inputs(nbx_session *s, const nbx_value *inputs, nbx_value *value, int32_t target) {
    for (int32_t i = 0; i < s->program->graph->input_count; i++) {
        const nbx_value *in = &inputs[i];
        if (in->kind != NBX_KIND_TENSOR || in->as.tensor->storage != value->as.tensor->storage) continue;
        if (i == target && same_place(in->as.tensor, value->as.tensor)) return NBX_OK;
        const nbx_tensor *copy = NBX_DO(s->ctx, "aten::clone", *value);
        if (!copy) return nbx_last_status(s->ctx);
        nbx_release(value->as.tensor);
        *value = nbx_of_tensor(nbx_retain(copy));
        return NBX_OK;
    }
    return NBX_OK;
}

static nbx_status write_back(nbx_session *s, const nbx_value *inputs, int32_t target, const nbx_value *value) {
    const nbx_value *to = &inputs[target];
    const nbx_source *source = &s->program->sources[target];
    if (same_place(to->as.tensor, value->as.tensor)) return NBX_OK;
    if (source->kind == NBX_SOURCE_WEIGHT && (to->as.tensor->dtype != value->as.tensor->dtype || !nbx_same_shape(to->as.tensor, value->as.tensor))) {
        if (s->ctx->recorder)  // a buffer that grows, such as a cache that is concatenated
            return nbx_fail(s->ctx, NBX_ERROR_DATA_DEPENDENT, "buffer %s changes its shape", source->name);
        nbx_release(s->weights[target]);
        s->weights[target] = nbx_retain(value->as.tensor);
        return NBX_OK;
    }
    return NBX_DO(s->ctx, "aten::copy_", *to, *value) ? NBX_OK : nbx_last_status(s->ctx);
}

static nbx_status write_mutations(nbx_session *s, const nbx_value *inputs, nbx_value *outputs) {
    const nbx_program *p = s->program;
    nbx_status status = NBX_OK;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t k = 0; k < p->graph->output_count && status == NBX_OK; k++) {
            if (p->sinks[k].kind != NBX_SINK_MUTATION) continue;
            const int32_t target = p->sinks[k].input;
            if (outputs[k].kind != NBX_KIND_TENSOR || inputs[target].kind != NBX_KIND_TENSOR)
                return nbx_fail(s->ctx, NBX_ERROR_FORMAT, "the new contents of %s are no tensor", p->sources[target].name);
            status = pass == 0 ? part_from_inputs(s, inputs, &outputs[k], target) : write_back(s, inputs, target, &outputs[k]);
        }
    return status;
}

// The graph and what is written back afterwards; while recording, inputs are placeholders.
static nbx_status run_body(void *arg, nbx_run *run, nbx_value *inputs, nbx_value *outputs) {
    nbx_session *s = arg;
    const nbx_status status = nbx_graph_run(run, s->program->graph, inputs, s->program->graph->input_count, outputs);
    return status == NBX_OK ? write_mutations(s, inputs, outputs) : status;
}

// Runs without a plan. results: one value for each user output, with references.
static nbx_status run_directly(nbx_session *s, nbx_value *results) {
    const nbx_program *p = s->program;
    nbx_run run = {.ctx = s->ctx, .lower = NBX_DTYPE_NONE};
    for (int32_t i = 0; i < p->graph->input_count; i++) {
        const nbx_source *source = &p->sources[i];
        s->inputs[i] = source->kind == NBX_SOURCE_WEIGHT ? nbx_of_tensor(s->weights[i])
                       : source->kind == NBX_SOURCE_USER ? s->given[source->user]
                                                         : nbx_of_none();
    }
    const nbx_scope scope = nbx_scope_open(s->ctx);
    const nbx_status status = run_body(s, &run, s->inputs, s->outputs);
    nbx_scope_close(s->ctx, scope, NULL);
    int at = 0;
    for (int32_t k = 0; k < p->graph->output_count && status == NBX_OK; k++) {
        if (p->sinks[k].kind != NBX_SINK_USER) continue;
        results[at++] = s->outputs[k];
        s->outputs[k] = nbx_of_none();
    }
    nbx_values_release(s->outputs, p->graph->output_count);
    return status;
}

// --------------------------------------------------------------------------------------------------------------- plans
static nbx_plan *find_plan(nbx_session *s, const nbx_plan_key *key) {
    for (int i = 0; i < s->plan_count; i++)
        if (nbx_plan_key_equal(&s->plans[i]->key, key)) return s->plans[i];
    return NULL;
}

// Room for one more plan: the one that has rested longest goes.
static nbx_plan **plan_slot(nbx_session *s) {
    if (s->plan_count < MOST_PLANS) return &s->plans[s->plan_count++];
    int oldest = 0;
    for (int i = 1; i < MOST_PLANS; i++)
        if (s->plans[i]->used < s->plans[oldest]->used) oldest = i;
    nbx_plan_destroy(s->ctx, s->plans[oldest], s->program);
    return &s->plans[oldest];
}

static nbx_status add_plan(nbx_session *s, nbx_plan_key *key, nbx_plan **plan) {
    bool dependent;
    *plan = nbx_plan_record(s->ctx, s->program, s->weights, s->given, run_body, s, &dependent);
    if (!*plan) return (s->direct = dependent) ? NBX_OK : nbx_last_status(s->ctx);
    if (nbx_ceiling_check(s->ctx, s->program, (*plan)->recorder) != NBX_OK) {
        nbx_plan_destroy(s->ctx, *plan, s->program);
        *plan = NULL;
        return nbx_last_status(s->ctx);
    }
    (*plan)->key = *key;
    key->words = NULL;
    *plan_slot(s) = *plan;
    return NBX_OK;
}

// The plan for the inputs at hand; NULL: they are run directly.
static nbx_status get_plan(nbx_session *s, nbx_plan **plan) {
    nbx_plan_key key = {NULL, 0, 0};
    bool plain;
    *plan = NULL;
    if (s->direct) return NBX_OK;
    nbx_status status = nbx_plan_key_make(s->ctx, s->program, s->given, &key, &plain) ? NBX_OK : nbx_last_status(s->ctx);
    if (status == NBX_OK && plain) {
        *plan = find_plan(s, &key);
        if (!*plan) status = add_plan(s, &key, plan);
    }
    nbx_free(key.words);
    return status;
}

static void *arena_of(nbx_session *s, size_t bytes) {
    if (!s->arena || s->arena->bytes < bytes + ARENA_ALIGNMENT) {
        nbx_storage_release(s->arena);
        s->arena = nbx_storage_create(s->ctx, s->program->device, bytes + ARENA_ALIGNMENT);
        if (!s->arena) return NULL;
    }
    return (void *)(((uintptr_t)s->arena->data + ARENA_ALIGNMENT - 1) & ~(uintptr_t)(ARENA_ALIGNMENT - 1));
}

typedef struct chosen {
    nbx_session *session;
    nbx_plan *plan;
} chosen;

static nbx_status replay_chosen(void *arg, nbx_value *results) {
    const chosen *c = arg;
    nbx_session *s = c->session;
    void *arena = arena_of(s, c->plan->recorder->arena_bytes);
    if (!arena) return nbx_last_status(s->ctx);
    c->plan->used = ++s->runs;
    return nbx_plan_replay(s->ctx, s->program, c->plan, arena, s->given, results);
}

static nbx_status run_chosen(void *arg, nbx_value *results) { return run_directly(((const chosen *)arg)->session, results); }

// What a run may write into: state, and inputs that the program changes; each storage once.
static int find_places(const nbx_session *s, nbx_storage **places) {
    int count = 0;
    for (int32_t i = 0; i < s->program->graph->input_count; i++) {
        const nbx_source *source = &s->program->sources[i];
        const nbx_value *given = source->kind == NBX_SOURCE_USER && s->program->inputs[source->user].written ? &s->given[source->user] : NULL;
        nbx_storage *storage = source->kind == NBX_SOURCE_WEIGHT && source->state       ? s->weights[i]->storage
                               : given && given->kind == NBX_KIND_TENSOR ? given->as.tensor->storage
                                                                         : NULL;
        for (int k = 0; k < count && storage; k++)
            if (places[k] == storage) storage = NULL;
        if (storage) places[count++] = storage;
    }
    return count;
}

static nbx_status verify(nbx_session *s, chosen *c, nbx_value *results) {
    const size_t bytes = ((size_t)s->program->graph->input_count + 1) * sizeof(nbx_storage *);
    nbx_storage **places = nbx_alloc(bytes);
    if (!places) return nbx_fail_memory(s->ctx, bytes, "a comparison");
    const nbx_status status = nbx_verify_replay(s->ctx, s->program, places, find_places(s, places), replay_chosen, run_chosen, c, results);
    nbx_free(places);
    return status;
}

static nbx_status run_once(nbx_session *s, nbx_value *results) {
    chosen c = {s, NULL};
    const nbx_status status = get_plan(s, &c.plan);
    if (status != NBX_OK || !c.plan) return status != NBX_OK ? status : run_directly(s, results);
    return s->verify ? verify(s, &c, results) : replay_chosen(&c, results);
}

static nbx_status profile(nbx_session *s, int runs, nbx_command_report_fn see, void *arg) {
    nbx_plan *plan;
    const nbx_program *p = s->program;
    nbx_status status = get_plan(s, &plan);
    if (status != NBX_OK) return status;
    if (!plan) return nbx_fail(s->ctx, NBX_ERROR_DATA_DEPENDENT, "%s: sizes or branches depend on data: there is no fixed list of calls", p->label);
    const int commands = plan->recorder->command_count;
    double *seconds = nbx_alloc(((size_t)commands + 1) * sizeof *seconds);
    nbx_value *results = nbx_alloc_zero(((size_t)p->output_count + 1) * sizeof *results);
    if (!seconds || !results) status = nbx_fail_memory(s->ctx, (size_t)commands * sizeof *seconds, "a profile");
    for (int i = 0; seconds && i < commands; i++) seconds[i] = 1e30;
    for (int run = 0; run <= runs && status == NBX_OK; run++) {
        plan->seconds = run > 0 ? seconds : NULL;
        status = run_once(s, results);
        nbx_values_release(results, p->output_count);
    }
    plan->seconds = NULL;
    if (status == NBX_OK) nbx_trace_report(&plan->trace, plan->recorder, seconds, see, arg);
    nbx_free(seconds);
    nbx_free(results);
    return status;
}

nbx_status nbx_session_profile(nbx_session *s, const nbx_value *inputs, int input_count, int runs, nbx_command_report_fn see, void *arg) {
    const nbx_status status = take_inputs(s, inputs, input_count);
    return status == NBX_OK ? profile(s, runs < 1 ? 1 : runs, see, arg) : status;
}

// Results go to the caller's scope.
static nbx_status hand_over(nbx_session *s, nbx_value *results) {
    nbx_status status = NBX_OK;
    for (int k = 0; k < s->program->output_count; k++)
        if (results[k].kind == NBX_KIND_TENSOR && !nbx_scope_own(s->ctx, (nbx_tensor *)(uintptr_t)results[k].as.tensor)) {
            status = nbx_last_status(s->ctx);
            results[k] = nbx_of_none();
        }
    return status;
}

nbx_status nbx_session_run(nbx_session *s, const nbx_value *inputs, int input_count, nbx_value *outputs, int capacity, int *count) {
    const nbx_program *p = s->program;
    if (count) *count = 0;
    if (capacity < p->output_count)
        return nbx_fail(s->ctx, NBX_ERROR_ARGUMENT, "the program gives %d results, there is room for %d", p->output_count, capacity);
    memset(outputs, 0, (size_t)capacity * sizeof *outputs);
    nbx_status status = take_inputs(s, inputs, input_count);
    if (status == NBX_OK) status = run_once(s, outputs);
    if (status == NBX_OK) status = hand_over(s, outputs);
    else nbx_values_release(outputs, capacity);
    if (status == NBX_OK && count) *count = p->output_count;
    return status;
}

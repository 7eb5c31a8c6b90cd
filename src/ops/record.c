// Recordings: appending calls, placing buffers, replaying.
#include "ops/record.h"
#include "core/memory.h"
#include "ops/epilogue.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT ((size_t)64)

nbx_recorder *nbx_recorder_create(nbx_context *ctx) {
    nbx_recorder *r = nbx_alloc_zero(sizeof *r);
    if (!r) nbx_fail_memory(ctx, sizeof *r, "recording");
    return r;
}

static void for_each_list(nbx_op_call *c, void (*visit)(void *)) {
    for (int i = 0; i < c->arg_count; i++)
        if (c->args[i].kind >= NBX_KIND_TENSORS) visit((void *)c->args[i].as.values);
}

void nbx_recorder_tensors(const nbx_op_call *c, void (*visit)(void *arg, const nbx_tensor *t), void *arg) {
    for (int i = 0; i < c->arg_count; i++) {
        if (c->args[i].kind == NBX_KIND_TENSOR) visit(arg, c->args[i].as.tensor);
        if (c->args[i].kind == NBX_KIND_TENSORS)
            for (int j = 0; j < c->args[i].count; j++) visit(arg, c->args[i].as.tensors[j]);
    }
    for (int k = 0; k < c->out_count; k++)
        if (c->out[k].kind == NBX_KIND_TENSOR) visit(arg, c->out[k].as.tensor);
    for (int k = 0; k < c->list_count; k++) visit(arg, c->list[k]);
    for (int s = 0; c->epilogue && s < c->epilogue->count; s++) nbx_recorder_tensors(c->epilogue->steps[s], visit, arg);
}

static void release_tensor(void *arg, const nbx_tensor *t) {
    (void)arg;
    nbx_release(t);
}

static void retain_tensor(void *arg, const nbx_tensor *t) {
    (void)arg;
    nbx_retain(t);
}

static void free_lists(nbx_op_call *c) {
    for_each_list(c, nbx_free);
    nbx_free(c->list);
    for (int i = 0; i < c->arg_count; i++)
        if (c->args[i].kind == NBX_KIND_STRING) nbx_free((void *)c->args[i].as.string);
}

static void free_call(nbx_op_call *c) {
    for (int s = 0; c->epilogue && s < c->epilogue->count; s++) free_call(c->epilogue->steps[s]);
    nbx_free(c->epilogue);
    free_lists(c);
    nbx_free(c->state);
    nbx_free(c);
}

static void destroy_call(nbx_op_call *c) {
    nbx_recorder_tensors(c, release_tensor, NULL);
    free_call(c);
}

void nbx_recorder_destroy(nbx_recorder *r) {
    if (!r) return;
    for (int i = 0; i < r->command_count; i++) destroy_call(r->commands[i]);
    for (int i = 0; i < r->buffer_count; i++) nbx_storage_release(r->buffers[i].storage);
    nbx_storage_release(r->arena);
    nbx_free(r->commands);
    nbx_free(r->scratch);
    nbx_free(r->buffers);
    nbx_free(r);
}

static bool grow(void **list, int count, int *capacity, size_t size) {
    if (count < *capacity) return true;
    const int larger = *capacity ? *capacity * 2 : 64;
    void *grown = nbx_realloc(*list, size * (size_t)larger);
    if (!grown) return false;
    *list = grown;
    *capacity = larger;
    return true;
}

nbx_storage *nbx_recorder_storage(nbx_context *ctx, nbx_device device, size_t bytes, const char *made_by) {
    nbx_recorder *r = ctx->recorder;
    nbx_storage *s = nbx_storage_wrap(ctx, device, bytes, NULL, NULL, NULL);
    if (!s || bytes == 0) return s;
    if (!grow((void **)&r->buffers, r->buffer_count, &r->buffer_capacity, sizeof *r->buffers)) {
        nbx_storage_release(s);
        nbx_fail_memory(ctx, sizeof *r->buffers * (size_t)r->buffer_capacity * 2, "recording");
        return NULL;
    }
    nbx_storage_retain(s);
    s->plan = r->buffer_count;
    r->buffers[r->buffer_count++] = (nbx_recorded_buffer){s, r->command_count, r->command_count, 0, made_by, false, false};
    return s;
}

typedef struct use {
    nbx_recorder *recorder;
    int command;
} use;

static bool planned(const nbx_recorder *r, const nbx_storage *s) {
    return s->plan >= 0 && s->plan < r->buffer_count && r->buffers[s->plan].storage == s;
}

static void note_use(void *arg, const nbx_tensor *t) {
    const use *u = arg;
    if (t && t->storage && planned(u->recorder, t->storage)) u->recorder->buffers[t->storage->plan].last = u->command;
}

static size_t element_bytes(int kind) {
    switch (kind) {
    case NBX_KIND_TENSORS: return sizeof(nbx_tensor *);
    case NBX_KIND_INTS:
    case NBX_KIND_FLOATS: return 8;
    case NBX_KIND_BOOLS: return sizeof(bool);
    default: return sizeof(nbx_value);
    }
}

static bool copy_lists(nbx_op_call *copy) {
    bool complete = true;
    for (int i = 0; i < copy->arg_count; i++) {
        nbx_value *v = &copy->args[i];
        if (v->kind == NBX_KIND_STRING) {
            v->as.string = nbx_strdup(v->as.string);
            complete &= v->as.string != NULL;
        } else if (v->kind >= NBX_KIND_TENSORS) {
            const size_t bytes = element_bytes(v->kind) * (size_t)v->count;
            void *list = nbx_alloc(bytes);
            if (list) memcpy(list, v->as.values, bytes);
            else v->count = 0;
            v->as.values = list;
            complete &= list != NULL;
        }
    }
    if (copy->list) {
        nbx_tensor **list = nbx_alloc(sizeof *list * (size_t)(copy->list_count + 1));
        if (list) memcpy(list, copy->list, sizeof *list * (size_t)copy->list_count);
        else copy->list_count = 0;
        copy->list = list;
        complete &= list != NULL;
    }
    return complete;
}

nbx_status nbx_recorder_append(nbx_context *ctx, const nbx_op_call *call) {
    nbx_recorder *r = ctx->recorder;
    int scratch_capacity = r->command_capacity;
    if (!grow((void **)&r->scratch, r->command_count, &scratch_capacity, sizeof *r->scratch) ||
        !grow((void **)&r->commands, r->command_count, &r->command_capacity, sizeof *r->commands))
        return nbx_fail_memory(ctx, sizeof(void *) * (size_t)r->command_capacity * 2, "recording");
    const size_t bytes = offsetof(nbx_op_call, args) + sizeof(nbx_value) * (size_t)call->arg_count;
    nbx_op_call *copy = nbx_alloc(bytes);
    if (!copy) return nbx_fail_memory(ctx, bytes, "recorded call");
    memcpy(copy, call, bytes);
    copy->recorded = true;
    copy->state = NULL;
    const bool complete = copy_lists(copy);
    nbx_recorder_tensors(copy, retain_tensor, NULL);
    if (complete && call->state_bytes) copy->state = nbx_alloc(call->state_bytes);
    if (copy->state) memcpy(copy->state, call->state, call->state_bytes);
    if (!complete || (call->state_bytes && !copy->state)) {
        destroy_call(copy);
        return nbx_fail_memory(ctx, bytes, "recorded call");
    }
    use u = {r, r->command_count};
    nbx_recorder_tensors(copy, note_use, &u);
    r->scratch[r->command_count] = -1;
    if (call->scratch_bytes) {
        nbx_storage *scratch = nbx_recorder_storage(ctx, call->device, call->scratch_bytes, call->op->name);
        if (!scratch) {
            destroy_call(copy);
            return ctx->status;
        }
        r->scratch[r->command_count] = (int)scratch->plan;
        nbx_storage_release(scratch);
    }
    r->commands[r->command_count++] = copy;
    return NBX_OK;
}

void nbx_recorder_keep(nbx_recorder *r, const nbx_storage *storage) {
    if (planned(r, storage)) r->buffers[storage->plan].last = r->command_count;
}

void nbx_recorder_expose(nbx_recorder *r, const nbx_storage *storage) {
    if (planned(r, storage)) r->buffers[storage->plan].exposed = true;
}

// Greedy by size (largest first), each at the lowest offset where no buffer alive at the same time lies: within a few
// percent of the lower bound on the usual networks, and quadratic only in buffers alive together.
static int larger_first(const void *a, const void *b) {
    const nbx_recorded_buffer *x = *(nbx_recorded_buffer *const *)a, *y = *(nbx_recorded_buffer *const *)b;
    if (x->storage->bytes != y->storage->bytes) return x->storage->bytes > y->storage->bytes ? -1 : 1;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : 0;
}

static size_t aligned(size_t bytes) { return (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1); }

static bool together(const nbx_recorded_buffer *a, const nbx_recorded_buffer *b) {
    return a->first <= b->last && b->first <= a->last;
}

// placed[0 .. count) is sorted by offset.
static int place(nbx_recorded_buffer **placed, int count, nbx_recorded_buffer *b) {
    const size_t need = aligned(b->storage->bytes);
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        if (!together(placed[i], b)) continue;
        if (placed[i]->offset >= at + need) break;
        const size_t end = placed[i]->offset + aligned(placed[i]->storage->bytes);
        if (end > at) at = end;
    }
    b->offset = at;
    int slot = count;
    while (slot > 0 && placed[slot - 1]->offset > at) {
        placed[slot] = placed[slot - 1];
        slot--;
    }
    placed[slot] = b;
    return count + 1;
}

nbx_status nbx_recorder_plan(nbx_context *ctx, nbx_recorder *r) {
    const size_t bytes = sizeof(nbx_recorded_buffer *) * (size_t)(r->buffer_count + 1);
    nbx_recorded_buffer **order = nbx_alloc(2 * bytes);
    if (!order) return nbx_fail_memory(ctx, 2 * bytes, "plan");
    nbx_recorded_buffer **placed = order + r->buffer_count + 1;
    for (int i = 0; i < r->buffer_count; i++) order[i] = &r->buffers[i];
    qsort(order, (size_t)r->buffer_count, sizeof *order, larger_first);
    r->arena_bytes = r->unplanned_bytes = 0;
    int count = 0;
    for (int i = 0; i < r->buffer_count; i++) {
        if (order[i]->exposed || order[i]->unused) continue;
        count = place(placed, count, order[i]);
        const size_t end = order[i]->offset + aligned(order[i]->storage->bytes);
        if (end > r->arena_bytes) r->arena_bytes = end;
        r->unplanned_bytes += order[i]->storage->bytes;
    }
    nbx_free(order);
    return NBX_OK;
}

void nbx_recorder_bind_at(nbx_context *ctx, nbx_recorder *r, void *base) {
    for (int i = 0; i < r->buffer_count; i++)
        if (!r->buffers[i].exposed && !r->buffers[i].unused) r->buffers[i].storage->data = (char *)base + r->buffers[i].offset;
    for (int i = 0; i < r->command_count; i++) {
        nbx_op_call *c = r->commands[i];
        if (r->scratch[i] >= 0) c->scratch = r->buffers[r->scratch[i]].storage->data;
        c->pool = ctx->pool;
    }
}

nbx_status nbx_recorder_bind(nbx_context *ctx, nbx_recorder *r) {
    if (r->arena || r->buffer_count == 0) return NBX_OK;
    r->arena = nbx_storage_create(ctx, ctx->device, r->arena_bytes + ALIGNMENT);
    if (!r->arena) return ctx->status;
    nbx_recorder_bind_at(ctx, r, (void *)(((uintptr_t)r->arena->data + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1)));
    return NBX_OK;
}

nbx_status nbx_recorder_replay(nbx_context *ctx, nbx_recorder *r) {
    for (r->at = 0; r->at < r->command_count; r->at++) {
        nbx_op_call *c = r->commands[r->at];
        c->ctx = ctx;
        const nbx_status status = c->kernel(c);
        if (status != NBX_OK) return status;
    }
    return NBX_OK;
}

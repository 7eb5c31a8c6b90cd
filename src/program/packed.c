#include "program/packed.h"

#include <string.h>

#include "core/memory.h"
#include "program/archive.h"

bool nbx_packed_open(nbx_packed_weights *w) { return pthread_mutex_init(&w->lock, NULL) == 0; }

static void empty(nbx_packed_weights *w) {
    for (int i = 0; i < w->count; i++) {
        nbx_storage_release(w->list[i].of);
        nbx_storage_release(w->list[i].made);
    }
    nbx_free(w->list);
}

void nbx_packed_close(nbx_packed_weights *w) {
    empty(w);
    pthread_mutex_destroy(&w->lock);
}

static bool describe(const nbx_op_call *c, nbx_packed_weight *x) {
    memset(x, 0, sizeof *x);
    if (!c->op->packing || c->device.type != NBX_CPU || !c->op->packing->describe(c, &x->form)) return false;
    x->packing = c->op->packing;
    x->isa = c->ctx->isa;
    x->of = x->form.weight->storage;
    return x->of->constant;
}

static bool same(const nbx_packed_weight *a, const nbx_packed_weight *b) {
    return a->of == b->of && a->packing == b->packing && a->isa == b->isa && a->form.bytes == b->form.bytes &&
           memcmp(a->form.layout, b->form.layout, sizeof a->form.layout) == 0;
}

// The place of x, which is added if it is new; NULL: no memory.
static nbx_packed_weight *find(nbx_packed_weights *w, const nbx_packed_weight *x) {
    for (int i = 0; i < w->count; i++)
        if (same(&w->list[i], x)) return &w->list[i];
    if (w->count == w->capacity) {
        const int capacity = w->capacity ? w->capacity * 2 : 32;
        nbx_packed_weight *list = nbx_realloc(w->list, (size_t)capacity * sizeof *list);
        if (!list) return NULL;
        w->list = list;
        w->capacity = capacity;
    }
    nbx_storage_retain(x->of);
    w->list[w->count] = *x;
    return &w->list[w->count++];
}

static void make(nbx_context *ctx, nbx_packed_weights *w, nbx_packed_weight *x, nbx_op_call *c, size_t room) {
    if (x->made || w->bytes + x->form.bytes > room) return;
    x->made = nbx_storage_create(ctx, c->device, x->form.bytes);
    if (!x->made) return nbx_clear_error(ctx);
    w->bytes += x->form.bytes;
    c->packed = x->made->data;
    const int64_t pieces = x->form.pieces > 1 ? x->form.pieces : 1;
    for (int64_t piece = 0; piece < pieces; piece++) {
        (void)x->packing->make[x->isa](c, piece, pieces);
        nbx_store_rest(x->of);
    }
}

void nbx_packed_use(nbx_context *ctx, nbx_packed_weights *w, nbx_recorder *r, size_t room) {
    nbx_packed_weight x, *place;
    pthread_mutex_lock(&w->lock);
    for (int i = 0; i < r->command_count; i++)  // before anything is made: what the first run read is here
        if (describe(r->commands[i], &x)) nbx_store_rest(x.of);
    for (int i = 0; i < r->command_count; i++) {
        nbx_op_call *c = r->commands[i];
        if (!describe(c, &x) || !(place = find(w, &x))) continue;
        make(ctx, w, place, c, room);
        c->packed = place->made ? place->made->data : NULL;
    }
    pthread_mutex_unlock(&w->lock);
}

// ------------------------------------------------------------------------------------------------------------- measuring
typedef struct readers {
    const nbx_storage *of;
    bool other;
} readers;

static void see(void *arg, const nbx_tensor *t) {
    readers *seen = arg;
    seen->other |= t && t->storage == seen->of;
}

// Does a command read the storage as it lies?
static bool is_read(nbx_recorder *r, const nbx_storage *of) {
    nbx_packed_weight x;
    readers seen = {of, false};
    for (int i = 0; i < r->command_count && !seen.other; i++) {
        const bool packed = describe(r->commands[i], &x) && x.of == of;
        if (!packed) nbx_recorder_tensors(r->commands[i], see, &seen);
    }
    return seen.other;
}

void nbx_packed_measure(nbx_recorder *r, size_t *bytes, size_t *spared) {
    nbx_packed_weights w = {0};
    nbx_packed_weight x;
    *bytes = *spared = 0;
    for (int i = 0; i < r->command_count; i++)
        if (describe(r->commands[i], &x)) (void)find(&w, &x);
    for (int i = 0; i < w.count; i++) {
        bool first = nbx_store_is_mapped(w.list[i].of);
        for (int k = 0; k < i && first; k++) first = w.list[k].of != w.list[i].of;
        *bytes += w.list[i].form.bytes;
        if (first && !is_read(r, w.list[i].of)) *spared += w.list[i].of->bytes;
    }
    empty(&w);
}

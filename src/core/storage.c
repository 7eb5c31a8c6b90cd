// Storage: a stretch of memory on one device, shared by count.
#include "core/context.h"
#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// Blocks this large are huge pages (a 4 KiB fault costs 0.1 us a page), and are kept when they are given back, up to
// KEPT_BYTES of them: to fault in 128 MiB took 160 ms on a virtual machine, to fill them 4.
#define HUGE_BYTES ((size_t)4 << 20)
#define KEPT_BYTES ((size_t)512 << 20)
#define SPARE_BYTES ((size_t)64)   // vector tails may read past the end
#define SMALL_BYTES ((size_t)512)  // with all around it, still on malloc's fastest path

static int64_t trace_bytes(void) {  // NBX_TRACE_FREE=bytes: report frees of storages at least that large
    static int64_t threshold = -2;
    int64_t t = __atomic_load_n(&threshold, __ATOMIC_RELAXED);
    if (t == -2) {
        const char *text = getenv("NBX_TRACE_FREE");
        t = text ? strtoll(text, NULL, 10) : -1;
        __atomic_store_n(&threshold, t, __ATOMIC_RELAXED);
    }
    return t;
}

// ------------------------------------------------------------------------------------------------------------ account
nbx_account *nbx_account_create(size_t ceiling_bytes) {
    nbx_account *account = nbx_alloc(sizeof *account);
    if (account) *account = (nbx_account){.refs = 1, .ceiling_bytes = ceiling_bytes};
    return account;
}

void nbx_account_release(nbx_account *account) {
    if (!account || __atomic_fetch_sub(&account->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
    for (int i = 0; i < NBX_KEPT_BLOCKS; i++) nbx_free(account->kept[i].data);
    nbx_free(account);
}

// Counts bytes, unless they would pass the ceiling.
static bool account_take(nbx_account *account, size_t bytes) {
    const size_t held = __atomic_add_fetch(&account->held_bytes, bytes, __ATOMIC_RELAXED);
    if (account->ceiling_bytes && (held > account->ceiling_bytes || held < bytes)) {
        __atomic_sub_fetch(&account->held_bytes, bytes, __ATOMIC_RELAXED);
        return false;
    }
    size_t peak = __atomic_load_n(&account->peak_bytes, __ATOMIC_RELAXED);
    while (held > peak && !__atomic_compare_exchange_n(&account->peak_bytes, &peak, held, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
    return true;
}

static void account_give_back(nbx_account *account, size_t bytes) {
    if (!account) return;
    __atomic_sub_fetch(&account->held_bytes, bytes, __ATOMIC_RELAXED);
    nbx_account_release(account);
}

// ----------------------------------------------------------------------------------------------------------- storage
// Who finds the kept blocks busy does without them.
static bool kept_enter(nbx_account *account) { return !__atomic_exchange_n(&account->busy, 1, __ATOMIC_ACQUIRE); }
static void kept_leave(nbx_account *account) { __atomic_store_n(&account->busy, 0, __ATOMIC_RELEASE); }

// The least kept block that holds so many bytes and is not twice as large; NULL: there is none.
static void *kept_take(nbx_account *account, size_t *bytes) {
    void *data = NULL;
    nbx_kept_block *best = NULL;
    if (!kept_enter(account)) return NULL;
    for (nbx_kept_block *k = account->kept; k < account->kept + NBX_KEPT_BLOCKS; k++)
        if (k->bytes >= *bytes && k->bytes / 2 < *bytes && (!best || k->bytes < best->bytes)) best = k;
    if (best) {
        data = best->data;
        *bytes = best->bytes;
        const size_t after = (size_t)(account->kept + NBX_KEPT_BLOCKS - 1 - best);
        memmove(best, best + 1, after * sizeof *best);
        best[after] = (nbx_kept_block){0};
    }
    kept_leave(account);
    return data;
}

// Keeps a block in place of the oldest ones where it must.
static void keep(nbx_account *account, void *data, size_t bytes) {
    if (bytes > KEPT_BYTES || account->ceiling_bytes || !kept_enter(account)) {
        nbx_free(data);
        return;
    }
    size_t total = bytes;
    int room = 0;  // blocks before it stay, youngest first
    while (room < NBX_KEPT_BLOCKS - 1 && account->kept[room].bytes && total + account->kept[room].bytes <= KEPT_BYTES) total += account->kept[room++].bytes;
    for (int i = room; i < NBX_KEPT_BLOCKS; i++) nbx_free(account->kept[i].data), account->kept[i] = (nbx_kept_block){0};
    for (int i = room; i > 0; i--) account->kept[i] = account->kept[i - 1];
    account->kept[0] = (nbx_kept_block){data, bytes};
    kept_leave(account);
}

static void release_host(nbx_storage *s) {
    if (s->block_bytes) keep(s->account, s->data, s->block_bytes);
    else nbx_free(s->data);
}

// The elements of a small storage lie behind it: one allocation instead of two.
static char *behind(nbx_storage *s) { return (char *)(((uintptr_t)(s + 1) + 63) & ~(uintptr_t)63); }

static void *host_alloc(nbx_storage *s) {
    if (s->bytes < HUGE_BYTES) return nbx_alloc_aligned(64, s->bytes + SPARE_BYTES);
    s->block_bytes = s->bytes;
    void *p = kept_take(s->account, &s->block_bytes);
    if (p) return p;
    p = nbx_alloc_aligned((size_t)2 << 20, s->bytes + SPARE_BYTES);
    if (p) madvise(p, s->bytes, MADV_HUGEPAGE);
    return p;
}

static nbx_storage *make(nbx_context *ctx, nbx_device device, size_t bytes, size_t spare) {
    nbx_storage *s = nbx_alloc(sizeof *s + spare);
    if (!s) nbx_fail_memory(ctx, sizeof *s + spare, "storage");
    else *s = (nbx_storage){.refs = 1, .device = device, .bytes = bytes, .plan = -1};
    return s;
}

nbx_storage *nbx_storage_wrap(nbx_context *ctx, nbx_device device, size_t bytes, void *data,
                              void (*release)(nbx_storage *), void *owner) {
    nbx_storage *s = make(ctx, device, bytes, 0);
    if (!s) return NULL;
    s->data = data;
    s->release = release;
    s->owner = owner;
    return s;
}

static nbx_storage *create(nbx_context *ctx, nbx_device device, size_t bytes, bool small) {
    nbx_storage *s = make(ctx, device, bytes, small ? bytes + 2 * SPARE_BYTES : 0);
    if (!s || bytes == 0) return s;
    if (!account_take(ctx->account, bytes)) {
        nbx_fail(ctx, NBX_ERROR_MEMORY, "out of memory: %zu bytes for a tensor; the context holds %zu, its ceiling is %zu", bytes,
                 ctx->account->held_bytes, ctx->account->ceiling_bytes);
        nbx_free(s);
        return NULL;
    }
    s->account = ctx->account;
    __atomic_fetch_add(&s->account->refs, 1, __ATOMIC_RELAXED);
    if (small) {
        s->data = behind(s);
    } else if (device.type == NBX_CPU) {
        s->data = host_alloc(s);
        s->release = release_host;
    } else {
        const nbx_backend *backend = nbx_backend_of(device.type);
        if (backend) backend->alloc(ctx, s);
        else nbx_fail(ctx, NBX_ERROR_DEVICE, "no backend for the device of a tensor of %zu bytes", bytes);
    }
    if (s->data) return s;
    account_give_back(s->account, bytes);
    nbx_free(s);
    if (device.type == NBX_CPU) nbx_fail_memory(ctx, bytes, "tensor");  // now that they do not count as held
    return NULL;
}

nbx_storage *nbx_storage_create(nbx_context *ctx, nbx_device device, size_t bytes) {
    return create(ctx, device, bytes, device.type == NBX_CPU && bytes <= SMALL_BYTES);
}

nbx_status nbx_storage_grow(nbx_context *ctx, nbx_storage *s, size_t bytes) {
    if (bytes <= s->bytes) return NBX_OK;
    nbx_storage *more = create(ctx, s->device, bytes, false);
    if (!more) return ctx->status;
    nbx_status status = NBX_OK;
    if (s->bytes > 0) status = nbx_copy_bytes(ctx, s->device, more->data, s->device, s->data, s->bytes);
    if (status == NBX_OK) {  // the two change places, but for their counts
        const nbx_storage old = *s;
        const int refs = more->refs;
        *s = *more;
        *more = old;
        s->refs = old.refs;
        more->refs = refs;
    }
    nbx_storage_release(more);
    return status;
}

void nbx_storage_retain(nbx_storage *s) { __atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED); }

void nbx_storage_release(nbx_storage *s) {
    if (!s || __atomic_fetch_sub(&s->refs, 1, __ATOMIC_ACQ_REL) != 1) return;
    const int64_t trace = trace_bytes();
    if (trace >= 0 && (int64_t)s->bytes >= trace) fprintf(stderr, "nbx: free %zu bytes at %p\n", s->bytes, s->data);
    if (s->release) s->release(s);
    account_give_back(s->account, s->bytes);
    nbx_free(s);
}

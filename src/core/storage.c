// Storage: a stretch of memory on one device, shared by count.
#include "core/context.h"
#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

// Pages this large are asked from the kernel directly and as huge pages: a 4 KiB fault costs 0.1 us a page.
#define HUGE_BYTES ((size_t)4 << 20)
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
    if (account && __atomic_fetch_sub(&account->refs, 1, __ATOMIC_ACQ_REL) == 1) nbx_free(account);
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
static void release_host(nbx_storage *s) { nbx_free(s->data); }

// The elements of a small storage lie behind it: one allocation instead of two.
static char *behind(nbx_storage *s) { return (char *)(((uintptr_t)(s + 1) + 63) & ~(uintptr_t)63); }

static void *host_alloc(size_t bytes) {
    if (bytes < HUGE_BYTES) return nbx_alloc_aligned(64, bytes + SPARE_BYTES);
    void *p = nbx_alloc_aligned((size_t)2 << 20, bytes + SPARE_BYTES);
    if (p) madvise(p, bytes, MADV_HUGEPAGE);
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
        s->data = host_alloc(bytes);
        s->release = release_host;
        if (!s->data) nbx_fail_memory(ctx, bytes, "tensor");
    } else {
        const nbx_backend *backend = nbx_backend_of(device.type);
        if (backend) backend->alloc(ctx, s);
        else nbx_fail(ctx, NBX_ERROR_DEVICE, "no backend for the device of a tensor of %zu bytes", bytes);
    }
    if (s->data) return s;
    account_give_back(s->account, bytes);
    nbx_free(s);
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

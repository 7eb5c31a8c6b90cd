// Scopes: a stack of tensors; a scope is a mark in it. Blocks of memory for lists ride along in a second stack, whose
// entries remember the height of the first at which they were made.
#include "core/context.h"
#include "core/memory.h"

typedef struct block {
    size_t owned_at;  // owned_count when it was made: freed when a scope with a lower or equal mark closes
    _Alignas(16) char bytes[];
} block;

nbx_scope nbx_scope_open(nbx_context *ctx) { return (nbx_scope){ctx->owned_count}; }

static bool reserve(nbx_context *ctx, void **stack, size_t count, size_t *capacity) {
    if (count < *capacity) return true;
    const size_t larger = *capacity ? *capacity * 2 : 64;
    void *grown = nbx_realloc(*stack, larger * sizeof(void *));
    if (!grown) {
        nbx_fail_memory(ctx, larger * sizeof(void *), "scope");
        return false;
    }
    *stack = grown;
    *capacity = larger;
    return true;
}

nbx_tensor *nbx_scope_own(nbx_context *ctx, nbx_tensor *t) {
    if (!t || nbx_is_none(t)) return t;
    if (!reserve(ctx, (void **)&ctx->owned, ctx->owned_count, &ctx->owned_capacity)) {
        nbx_release(t);
        return NULL;
    }
    return ctx->owned[ctx->owned_count++] = t;
}

void *nbx_scope_alloc(nbx_context *ctx, size_t bytes) {
    if (!reserve(ctx, (void **)&ctx->blocks, ctx->block_count, &ctx->block_capacity)) return NULL;
    block *b = nbx_alloc_aligned(16, sizeof *b + bytes);
    if (!b) {
        nbx_fail_memory(ctx, bytes, "list");
        return NULL;
    }
    // The block counts as one entry of the scope: an entry without a tensor marks its place.
    if (!reserve(ctx, (void **)&ctx->owned, ctx->owned_count, &ctx->owned_capacity)) {
        nbx_free(b);
        return NULL;
    }
    ctx->owned[ctx->owned_count++] = NULL;
    b->owned_at = ctx->owned_count;
    ctx->blocks[ctx->block_count++] = b;
    return b->bytes;
}

nbx_tensor *nbx_scope_close(nbx_context *ctx, nbx_scope scope, nbx_tensor *keep) {
    nbx_retain(keep);
    while (ctx->owned_count > scope.mark) nbx_release(ctx->owned[--ctx->owned_count]);
    while (ctx->block_count && ((block *)ctx->blocks[ctx->block_count - 1])->owned_at > scope.mark)
        nbx_free(ctx->blocks[--ctx->block_count]);
    return nbx_scope_own(ctx, keep);
}

// --fail-allocations: every allocation that a case's call makes fails in turn, until the call gets all it asks for. Each time
// the answer must be the status for memory, and nothing may be lost.
#include "conform.h"

#include "core/memory.h"

#pragma weak nbx_generator_destroy  // see conform_args.c

enum { MAX_ALLOCATIONS = 20000 };

// Calls with fresh arguments: what an in-place call has changed must not meet the next one.
static nbx_status call_once(test_case *c, const nbx_operator *op, long allowed, long *kept) {
    call_results r = {.count = 0};
    call_arguments a;
    const size_t blocks = c->block_count;
    const long before = nbx_alloc_count();
    const nbx_scope scope = nbx_scope_open(c->ctx);
    nbx_clear_error(c->ctx);
    c->shared_count = 0;
    if (!read_arguments(c, c->json, &a)) return NBX_ERROR_FORMAT;
    nbx_alloc_fail_after(allowed);
    const nbx_status status = nbx_call_operator(c->ctx, op, a.args, a.arg_count, a.keywords, a.keyword_count, r.values, MAX_RESULTS, &r.count);
    nbx_alloc_fail_after(-1);
    nbx_scope_close(c->ctx, scope, NULL);
    while (c->generator_count) nbx_generator_destroy(c->generators[--c->generator_count]);
    *kept = nbx_alloc_count() - before;
    case_free_from(c, blocks);
    return status;
}

void fail_allocations(test_case *c, const nbx_operator *op) {
    long kept, again;
    if (call_once(c, op, -1, &kept)) return;  // what is made once and kept (tables, caches) is there now
    for (long n = 0; n < MAX_ALLOCATIONS; n++) {
        const nbx_status status = call_once(c, op, n, &kept);
        if (status && status != NBX_ERROR_MEMORY) {
            case_fail(c, "allocation %ld fails: %s: %s", n, nbx_status_text(status), nbx_last_message(c->ctx));
            return;
        }
        if (kept > 0) {  // a cache may have been filled; a leak grows
            call_once(c, op, n, &again);
            if (again > 0) {
                case_fail(c, "allocation %ld fails: %ld blocks are lost", n, again);
                return;
            }
        }
        if (!status) return;
    }
}

// Operators that users register, and what their functions may ask of a call.
#include "nbx/extension.h"
#include "core/memory.h"
#include "ops/registry.h"

#include <string.h>

static nbx_status without_cpu_code(nbx_op_call *c) { return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "no kernel for the CPU"); }

nbx_status nbx_operator_register(nbx_context *ctx, const nbx_operator_definition *d) {
    if (!d || !d->schema || (!d->composite && !(d->infer && (d->cpu || d->cuda))))
        return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "an operator needs a schema, and a composite or infer with a kernel");
    const size_t length = strcspn(d->schema, "(");
    nbx_op *row = nbx_alloc_zero(sizeof *row + length + 1);  // lives as long as the process
    if (!row) return nbx_fail_memory(ctx, sizeof *row, "registered operator");
    char *name = (char *)(row + 1);
    memcpy(name, d->schema, length);
    row->name = name;
    row->infer = d->infer;
    row->composite = d->composite;
    for (int isa = 0; isa < 3; isa++) row->cpu[isa] = d->cpu || d->composite ? d->cpu : without_cpu_code;  // else it would be a view
    row->flags = (d->random ? NBX_OP_RANDOM : 0u) | (d->effect ? NBX_OP_EFFECT : 0u);
    const nbx_status status = nbx_registry_add(ctx, d->schema, row);
    if (status != NBX_OK) {
        nbx_free(row);
        return status;
    }
    if (d->cuda) __atomic_store_n(&nbx_registry_find(name)->cuda, d->cuda, __ATOMIC_RELEASE);
    return NBX_OK;
}

nbx_context *nbx_call_context(const nbx_op_call *c) { return c->ctx; }
const nbx_value *nbx_call_argument(const nbx_op_call *c, int i) { return &c->args[i]; }
const nbx_tensor *nbx_call_tensor(const nbx_op_call *c, int i) { return arg_tensor(c, i); }
int64_t nbx_call_int(const nbx_op_call *c, int i) { return nbx_scalar_to_int(&c->args[i]); }
double nbx_call_float(const nbx_op_call *c, int i) { return nbx_scalar_to_double(&c->args[i]); }
void nbx_call_need_scratch(nbx_op_call *c, size_t bytes) { c->scratch_bytes = bytes; }
nbx_tensor *nbx_call_result(const nbx_op_call *c, int k) { return out_get(c, k); }
void *nbx_call_scratch(const nbx_op_call *c) { return c->scratch; }
void *nbx_call_stream(const nbx_op_call *c) { return c->stream; }
nbx_status nbx_call_set_result(nbx_op_call *c, int k, const nbx_tensor *t) { return out_tensor(c, k, t); }

nbx_status nbx_call_new_result(nbx_op_call *c, int k, nbx_dtype dtype, int rank, const int64_t *shape) {
    return out_new(c, k, dtype, rank, shape, NULL) ? NBX_OK : c->ctx->status;
}

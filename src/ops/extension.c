// Operators that users register, and what their functions may ask of a call.
#include "nbx/extension.h"
#include "core/memory.h"
#include "ops/registry.h"

#include <string.h>

typedef struct registered {
    nbx_op row;
    nbx_op_fn infer, composite;  // the user's
    char name[];
} registered;

static nbx_status without_cpu_code(nbx_op_call *c) { return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "no kernel for the CPU"); }

// A kernel would be handed a result that is not there, a caller less than the schema promises.
static nbx_status all_given(nbx_op_call *c) {
    for (int k = 0; k < c->schema->result_count; k++)
        if (c->out[k].kind == NBX_KIND_NONE) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "its code gives no result %d", k);
    return NBX_OK;
}

static nbx_status infer(nbx_op_call *c) {
    const nbx_status status = ((const registered *)c->op)->infer(c);
    return status == NBX_OK ? all_given(c) : status;
}

static nbx_status composite(nbx_op_call *c) {
    const nbx_status status = ((const registered *)c->op)->composite(c);
    return status == NBX_OK ? all_given(c) : status;
}

nbx_status nbx_operator_register(nbx_context *ctx, const nbx_operator_definition *d) {
    if (!d || !d->schema || (!d->composite && !(d->infer && (d->cpu || d->cuda))))
        return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "an operator needs a schema, and a composite or infer with a kernel");
    const size_t length = strcspn(d->schema, "(");
    const char *colons = strstr(d->schema, "::");
    if (!d->schema[length] || !colons || colons == d->schema || colons + 2 >= d->schema + length)
        return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "schema '%s': expected namespace::name(...) -> ...", d->schema);
    registered *own = nbx_alloc_zero(sizeof *own + length + 1);  // lives as long as the process
    if (!own) return nbx_fail_memory(ctx, sizeof *own, "registered operator");
    nbx_op *row = &own->row;
    memcpy(own->name, d->schema, length);
    own->infer = d->infer;
    own->composite = d->composite;
    row->name = own->name;
    row->infer = d->infer ? infer : NULL;
    row->composite = d->composite ? composite : NULL;
    for (int isa = 0; isa < 3; isa++) row->cpu[isa] = d->cpu || d->composite ? d->cpu : without_cpu_code;  // else it would be a view
    row->flags = (d->random ? NBX_OP_RANDOM : 0u) | (d->effect ? NBX_OP_EFFECT : 0u);
    const nbx_status status = nbx_registry_add(ctx, d->schema, row);
    if (status != NBX_OK) {
        nbx_free(own);
        return status;
    }
    if (d->cuda) __atomic_store_n(&nbx_registry_find(own->name)->cuda, d->cuda, __ATOMIC_RELEASE);
    return NBX_OK;
}

nbx_context *nbx_call_context(const nbx_op_call *c) { return c->ctx; }
const nbx_value *nbx_call_argument(const nbx_op_call *c, int i) {
    static const nbx_value none = {.kind = NBX_KIND_NONE};
    return i >= 0 && i < c->arg_count ? &c->args[i] : &none;
}
const nbx_tensor *nbx_call_tensor(const nbx_op_call *c, int i) {
    const nbx_value *v = nbx_call_argument(c, i);
    return v->kind == NBX_KIND_TENSOR ? v->as.tensor : NULL;
}
int64_t nbx_call_int(const nbx_op_call *c, int i) { return nbx_scalar_to_int(nbx_call_argument(c, i)); }
double nbx_call_float(const nbx_op_call *c, int i) { return nbx_scalar_to_double(nbx_call_argument(c, i)); }
void nbx_call_need_scratch(nbx_op_call *c, size_t bytes) { c->scratch_bytes = bytes; }
nbx_tensor *nbx_call_result(const nbx_op_call *c, int k) { return k >= 0 && k < c->out_count ? out_get(c, k) : NULL; }
void *nbx_call_scratch(const nbx_op_call *c) { return c->scratch; }
void *nbx_call_stream(const nbx_op_call *c) { return c->stream; }

static nbx_status check_result(nbx_op_call *c, int k) {
    return k >= 0 && k < NBX_MAX_RESULTS ? NBX_OK : nbx_call_fail(c, NBX_ERROR_ARGUMENT, "there is no result %d", k);
}

nbx_status nbx_call_set_result(nbx_op_call *c, int k, const nbx_tensor *t) {
    const nbx_status status = check_result(c, k);
    return status == NBX_OK ? out_tensor(c, k, t) : status;
}

nbx_status nbx_call_new_result(nbx_op_call *c, int k, nbx_dtype dtype, int rank, const int64_t *shape) {
    const nbx_status status = check_result(c, k);
    if (status != NBX_OK) return status;
    return out_new(c, k, dtype, rank, shape, NULL) ? NBX_OK : c->ctx->status;
}

// What operators share: results, dims, scalars, broadcasting, calls from inside composites.
#include "core/memory.h"
#include "ops/registry.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LIST = 1 << 22 };  // tensors of one result: a billion views would be a mistake of the caller, and take minutes

// -------------------------------------------------------------------------------------------------------------- errors
nbx_status nbx_call_fail(nbx_op_call *c, nbx_status status, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const char *name = c->schema && c->schema->name ? c->schema->name : c->op ? c->op->name : "call";
    const char *colons = strstr(name, "::");
    if (strncmp(name, "aten::", 6) == 0) name = colons + 2;
    return nbx_fail(c->ctx, status, "%s: %s", name, text);
}

nbx_status nbx_call_need_float(nbx_op_call *c, const nbx_tensor *t, bool complex_too) {
    const nbx_dtype d = (nbx_dtype)t->dtype;
    if ((nbx_dtype_is_float(d) && !nbx_dtype_is_float8(d)) || (complex_too && nbx_dtype_is_complex(d))) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "expected a floating point%s tensor, found %s", complex_too ? " or complex" : "",
                         nbx_dtype_name(d));
}

const nbx_tensor *nbx_call_target(const nbx_op_call *c, int k) {
    for (int i = 0; i < c->schema->param_count; i++) {
        if (!c->schema->params[i].written || c->args[i].kind != NBX_KIND_TENSOR) continue;
        if (k-- == 0) return c->args[i].as.tensor;
    }
    return NULL;
}

nbx_status nbx_call_need_target(nbx_op_call *c, int k, nbx_dtype dtype) {
    const nbx_tensor *target = nbx_call_target(c, k);
    if (!target || (nbx_dtype)target->dtype == dtype) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_DTYPE, "expected an out tensor of dtype %s, found %s", nbx_dtype_name(dtype),
                         nbx_dtype_name((nbx_dtype)target->dtype));
}

// --------------------------------------------------------------------------------------------------------------- numbers
double nbx_scalar_to_double(const nbx_value *v) {
    switch (v->kind) {
    case NBX_KIND_INT: return (double)v->as.integer;
    case NBX_KIND_FLOAT: return v->as.real;
    case NBX_KIND_BOOL: return v->as.boolean;
    case NBX_KIND_COMPLEX: return v->as.complex[0];
    default: return 0;
    }
}

int64_t nbx_scalar_to_int(const nbx_value *v) {
    if (v->kind == NBX_KIND_INT) return v->as.integer;
    const double x = nbx_scalar_to_double(v);
    if (isnan(x)) return 0;
    if (x >= 9223372036854775808.0) return INT64_MAX;
    return x < -9223372036854775808.0 ? INT64_MIN : (int64_t)x;
}

nbx_dtype nbx_scalar_dtype(const nbx_value *v) {
    switch (v->kind) {
    case NBX_KIND_INT: return NBX_INT64;
    case NBX_KIND_FLOAT: return NBX_FLOAT32;
    case NBX_KIND_BOOL: return NBX_BOOL;
    case NBX_KIND_COMPLEX: return NBX_COMPLEX64;
    default: return NBX_DTYPE_NONE;
    }
}

nbx_tensor *nbx_wrap_number(nbx_context *ctx, nbx_device device, const nbx_value *number) {
    static const nbx_dtype dtypes[] = {[NBX_KIND_INT] = NBX_INT64, [NBX_KIND_FLOAT] = NBX_FLOAT64, [NBX_KIND_BOOL] = NBX_BOOL,
                                       [NBX_KIND_COMPLEX] = NBX_COMPLEX128};
    const nbx_dtype dtype = dtypes[number->kind];
    nbx_storage *storage = nbx_storage_create(ctx, device, nbx_dtype_size(dtype));
    nbx_tensor *t = storage ? nbx_tensor_new(ctx, dtype, 0, NULL, NULL, 0, storage) : NULL;
    nbx_storage_release(storage);
    if (!t) return NULL;
    t->wrapped = true;
    if (nbx_copy_bytes(ctx, device, nbx_data(t), (nbx_device){NBX_CPU, 0}, &number->as, nbx_dtype_size(dtype)) != NBX_OK) {
        nbx_release(t);
        return NULL;
    }
    return nbx_scope_own(ctx, t);
}

// ------------------------------------------------------------------------------------------------------------------ dims
nbx_status nbx_call_dim(nbx_op_call *c, int64_t dim, int rank, int *wrapped) {
    const int64_t range = rank > 0 ? rank : 1;
    *wrapped = 0;
    if (dim < -range || dim >= range)
        return nbx_call_fail(c, NBX_ERROR_INDEX, "dim %lld is out of range [%lld, %lld]", (long long)dim, (long long)-range,
                             (long long)range - 1);
    *wrapped = (int)(dim < 0 ? dim + range : dim);
    return NBX_OK;
}

nbx_status nbx_call_dims(nbx_op_call *c, int arg, int rank, bool empty_is_all, uint64_t *mask) {
    int count;
    int64_t one = 0;
    const int64_t *dims = arg_ints(c, arg, &count);
    if (c->args[arg].kind == NBX_KIND_INT) {
        one = c->args[arg].as.integer;
        dims = &one;
        count = 1;
    }
    *mask = 0;
    if (arg_is_none(c, arg) || (count == 0 && empty_is_all)) {
        *mask = rank == 64 ? ~(uint64_t)0 : ((uint64_t)1 << rank) - 1;
        return NBX_OK;
    }
    for (int i = 0; i < count; i++) {
        int dim;
        const nbx_status status = nbx_call_dim(c, dims[i], rank, &dim);
        if (status != NBX_OK) return status;
        if (*mask >> dim & 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "dim %d appears more than once", dim);
        *mask |= (uint64_t)1 << dim;
    }
    return NBX_OK;
}

nbx_status nbx_broadcast(nbx_op_call *c, int *rank, int64_t *shape, int rank_b, const int64_t *shape_b) {
    const int common = *rank > rank_b ? *rank : rank_b;
    int64_t out[NBX_MAX_RANK];
    for (int i = 1; i <= common; i++) {
        const int64_t a = i <= *rank ? shape[*rank - i] : 1, b = i <= rank_b ? shape_b[rank_b - i] : 1;
        if (a != b && a != 1 && b != 1) {
            char text_a[NBX_SHAPE_TEXT], text_b[NBX_SHAPE_TEXT];
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "shapes %s and %s do not broadcast: sizes %lld and %lld at dim %d",
                                 nbx_shape_text(*rank, shape, text_a, sizeof text_a),
                                 nbx_shape_text(rank_b, shape_b, text_b, sizeof text_b), (long long)a, (long long)b, common - i);
        }
        out[common - i] = a == 1 ? b : a;
    }
    *rank = common;
    memcpy(shape, out, sizeof *out * (size_t)common);
    return NBX_OK;
}

// --------------------------------------------------------------------------------------------------------------- results
static void set_tensor(nbx_op_call *c, int k, nbx_tensor *t) {
    if (c->list) {
        if (c->list[k]) nbx_release(c->list[k]);
        c->list[k] = t;
        return;
    }
    if (c->out[k].kind == NBX_KIND_TENSOR) nbx_release(c->out[k].as.tensor);
    c->out[k] = nbx_of_tensor(t);
    if (k >= c->out_count) c->out_count = k + 1;
}

nbx_tensor *out_new(nbx_op_call *c, int k, nbx_dtype dtype, int rank, const int64_t *shape, const int64_t *stride) {
    nbx_tensor *t = nbx_tensor_new(c->ctx, dtype, rank, shape, stride, 0, NULL);
    if (t) set_tensor(c, k, t);
    return t;
}

nbx_tensor *out_like(nbx_op_call *c, int k, nbx_dtype dtype, const nbx_tensor *t) {
    int64_t stride[NBX_MAX_RANK];
    nbx_strides_preserve(t, stride);
    return out_new(c, k, dtype, t->rank, t->shape, stride);
}

nbx_tensor *out_view(nbx_op_call *c, int k, const nbx_tensor *base, nbx_dtype dtype, int rank, const int64_t *shape,
                     const int64_t *stride, int64_t offset) {
    const int64_t bytes = nbx_extent_bytes(dtype, rank, shape, stride, offset);
    if (bytes < 0 || (uint64_t)bytes > base->storage->bytes) {
        char text[NBX_SHAPE_TEXT];
        nbx_call_fail(c, NBX_ERROR_SHAPE, "a view of shape %s at offset %lld does not fit into a storage of %zu bytes",
                      nbx_shape_text(rank, shape, text, sizeof text), (long long)offset, base->storage->bytes);
        return NULL;
    }
    nbx_tensor *t = nbx_tensor_new(c->ctx, dtype, rank, shape, stride, offset, base->storage);
    if (t) set_tensor(c, k, t);
    return t;
}

nbx_status out_tensor(nbx_op_call *c, int k, const nbx_tensor *t) {
    if (!t) return c->ctx->status != NBX_OK ? c->ctx->status : nbx_call_fail(c, NBX_ERROR_INTERNAL, "a composite lost its result");
    set_tensor(c, k, nbx_retain(t));
    return NBX_OK;
}

void out_none(nbx_op_call *c, int k) {
    c->out[k] = nbx_of_none();
    if (k >= c->out_count) c->out_count = k + 1;
}

void out_value(nbx_op_call *c, int k, nbx_value value) {
    c->out[k] = value;
    if (k >= c->out_count) c->out_count = k + 1;
}

nbx_status out_list(nbx_op_call *c, int count) {
    if (count > MAX_LIST) return nbx_call_fail(c, NBX_ERROR_MEMORY, "%d tensors are more than a list may hold", count);
    const size_t bytes = sizeof(nbx_tensor *) * (size_t)(count > 0 ? count : 1);
    c->list = nbx_alloc_zero(bytes);
    if (!c->list) return nbx_fail_memory(c->ctx, bytes, "list of results");
    c->list_count = count;
    c->out_count++;
    return NBX_OK;
}

void *nbx_call_state(nbx_op_call *c, size_t bytes) {
    if (c->state) nbx_free(c->state);
    c->state = nbx_alloc_zero(bytes);
    c->state_bytes = c->state ? bytes : 0;
    if (!c->state) nbx_fail_memory(c->ctx, bytes, "state of a call");
    return c->state;
}

// ------------------------------------------------------------------------------------------------------------ composites
static bool has_failed_tensor(const nbx_value *args, int count) {
    for (int i = 0; i < count; i++)
        if (args[i].kind == NBX_KIND_TENSOR && !args[i].as.tensor) return true;
    return false;
}

nbx_status nbx_do_many(nbx_context *ctx, const char *name, int count, const nbx_value *args, nbx_value *results, int capacity) {
    if (ctx->status != NBX_OK && has_failed_tensor(args, count)) return ctx->status;
    const nbx_operator *op = nbx_registry_find(name);
    if (!op) return nbx_fail(ctx, NBX_ERROR_UNKNOWN, "no operator is named %s", name);
    return nbx_dispatch(ctx, op, args, count, NULL, 0, results, capacity, NULL);
}

nbx_tensor *nbx_do(nbx_context *ctx, const char *name, int count, const nbx_value *args) {
    nbx_value results[NBX_MAX_RESULTS] = {0};
    if (nbx_do_many(ctx, name, count, args, results, NBX_MAX_RESULTS) != NBX_OK) return NULL;
    if (results[0].kind == NBX_KIND_TENSOR) return (nbx_tensor *)results[0].as.tensor;
    nbx_fail(ctx, NBX_ERROR_INTERNAL, "%s: its first result is no tensor", name);
    return NULL;
}

nbx_status nbx_forward(nbx_op_call *c, const char *name, int count, const nbx_value *args) {
    nbx_value results[NBX_MAX_RESULTS] = {0};
    const nbx_operator *op = nbx_registry_find(name);
    if (!op) return nbx_call_fail(c, NBX_ERROR_UNKNOWN, "no operator is named %s", name);
    int produced = 0;
    nbx_status status = nbx_dispatch(c->ctx, op, args, count, NULL, 0, results, NBX_MAX_RESULTS, &produced);
    if (status != NBX_OK) return status;
    for (int k = 0; k < produced && status == NBX_OK; k++) {
        if (results[k].kind == NBX_KIND_TENSORS) {
            status = out_list(c, results[k].count);
            for (int i = 0; status == NBX_OK && i < results[k].count; i++) status = out_tensor(c, i, results[k].as.tensors[i]);
        } else if (results[k].kind == NBX_KIND_TENSOR) {
            status = out_tensor(c, k, results[k].as.tensor);
        } else {
            out_value(c, k, results[k]);
        }
    }
    return status;
}

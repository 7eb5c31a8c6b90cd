// The one door: bind arguments, infer results, allocate them, choose the kernel, call or record it.
// In-place and out= forms are derived here from the functional row.
#include "core/memory.h"
#include "ops/bind.h"
#include "ops/random/generator.h"
#include "ops/record.h"
#include "ops/registry.h"

#include <string.h>

enum { MAX_DEPTH = 64, MAX_OUT = NBX_MAX_RESULTS };

// ------------------------------------------------------------------------------------------------------------- devices
static void see_device(nbx_op_call *c, const nbx_tensor *t, bool *found) {
    if (!t || nbx_is_none(t) || !t->storage) return;
    const nbx_device d = t->storage->device;
    if (!*found || (c->device.type == NBX_CPU && d.type != NBX_CPU)) c->device = d;
    *found |= !t->wrapped;
}

// Results go where the tensors are; a 0-dim CPU tensor beside others does not count. Without tensors: a Device argument,
// else the context's device.
static void choose_device(nbx_op_call *c) {
    bool found = false;
    c->device = c->ctx->device;
    for (int i = 0; i < c->arg_count; i++) {
        if (c->args[i].kind == NBX_KIND_TENSOR) see_device(c, c->args[i].as.tensor, &found);
        if (c->args[i].kind == NBX_KIND_TENSORS)
            for (int j = 0; j < c->args[i].count; j++) see_device(c, c->args[i].as.tensors[j], &found);
    }
    for (int i = 0; i < c->arg_count; i++)
        if (c->args[i].kind == NBX_KIND_DEVICE) c->device = c->args[i].as.device;
}

// Kernels see operands of one device. A 0-dim CPU operand beside CUDA ones is brought over.
static nbx_status bring_over(nbx_op_call *c, const nbx_tensor **t) {
    if (!*t || nbx_is_none(*t) || (*t)->storage->device.type == c->device.type) return NBX_OK;
    if ((*t)->wrapped && (c->op->flags & NBX_OP_STRIDED_OUT)) return NBX_OK;  // the elementwise engine takes it as a number
    if ((*t)->rank == 0 && (*t)->storage->device.type == NBX_CPU) {
        const bool wrapped = (*t)->wrapped;
        nbx_tensor *there = nbx_tensor_to_device(c->ctx, *t, c->device);
        if (!there) return c->ctx->status;
        there->wrapped = wrapped;
        *t = there;
        return NBX_OK;
    }
    return nbx_call_fail(c, NBX_ERROR_DEVICE, "tensors lie on different devices");
}

static nbx_status unite_devices(nbx_op_call *c) {
    if (c->device.type == NBX_CPU && c->ctx->device.type == NBX_CPU) return NBX_OK;
    if (c->op->flags & NBX_OP_ANY_DEVICE) return NBX_OK;
    for (int i = 0; i < c->arg_count; i++) {
        nbx_status status = NBX_OK;
        if (c->args[i].kind == NBX_KIND_TENSOR) {
            status = bring_over(c, &c->args[i].as.tensor);
        } else if (c->args[i].kind == NBX_KIND_TENSORS) {
            const nbx_tensor **list = nbx_scope_alloc(c->ctx, sizeof *list * (size_t)(c->args[i].count + 1));
            if (!list) return c->ctx->status;
            memcpy(list, c->args[i].as.tensors, sizeof *list * (size_t)c->args[i].count);
            for (int j = 0; j < c->args[i].count && status == NBX_OK; j++) status = bring_over(c, &list[j]);
            c->args[i].as.tensors = list;
        }
        if (status != NBX_OK) return status;
    }
    return NBX_OK;
}

// ------------------------------------------------------------------------------------------------------------- storage
static nbx_status give_storage(nbx_op_call *c, nbx_tensor *t) {
    if (!t || t->storage) return NBX_OK;
    const int64_t bytes = nbx_extent_bytes((nbx_dtype)t->dtype, t->rank, t->shape, t->stride, 0);
    if (bytes < 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the result is larger than any memory");
    t->storage = c->ctx->recorder ? nbx_recorder_storage(c->ctx, c->device, (size_t)bytes, c->op->name)
                                  : nbx_storage_create(c->ctx, c->device, (size_t)bytes);
    return t->storage ? NBX_OK : c->ctx->status;
}

static nbx_status give_storages(nbx_op_call *c) {
    nbx_status status = NBX_OK;
    for (int k = 0; k < c->out_count && status == NBX_OK; k++)
        if (c->out[k].kind == NBX_KIND_TENSOR) status = give_storage(c, (nbx_tensor *)c->out[k].as.tensor);
    for (int k = 0; k < c->list_count && status == NBX_OK; k++) status = give_storage(c, c->list[k]);
    return status;
}

nbx_tensor *nbx_new(nbx_context *ctx, nbx_device device, nbx_dtype dtype, int rank, const int64_t *shape) {
    nbx_tensor *t = nbx_tensor_new(ctx, dtype, rank, shape, NULL, 0, NULL);
    if (!t) return NULL;
    const size_t bytes = nbx_tensor_nbytes(t);
    t->storage = ctx->recorder ? nbx_recorder_storage(ctx, device, bytes, "temporary") : nbx_storage_create(ctx, device, bytes);
    if (t->storage) return nbx_scope_own(ctx, t);
    nbx_release(t);
    return NULL;
}

// ---------------------------------------------------------------------------------------------------------------- runs
static nbx_status run_kernel(nbx_op_call *c, nbx_op_fn kernel) {
    c->kernel = kernel;
    c->pool = c->ctx->pool;
    c->stream = c->ctx->stream;
    if (c->ctx->recorder) return nbx_recorder_append(c->ctx, c);
    if (!c->scratch_bytes) return kernel(c);
    nbx_storage *scratch = nbx_storage_create(c->ctx, c->device, c->scratch_bytes);
    if (!scratch) return c->ctx->status;
    c->scratch = scratch->data;
    const nbx_status status = kernel(c);
    nbx_storage_release(scratch);
    return status;
}

static nbx_status refuse_recording(nbx_op_call *c) {
    c->ctx->recorder->dependent = c->op->name;
    return nbx_call_fail(c, NBX_ERROR_DATA_DEPENDENT, "its result depends on data");
}

static nbx_status missing_kernel(nbx_op_call *c) {
    return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "no kernel for %s", c->device.type == NBX_CPU ? "the CPU" : "CUDA");
}

// --------------------------------------------------------------------------------------------------------- derived forms
// Where the results of a derived call go: self of an in-place form, the trailing arguments of an out= form.
typedef struct targets {
    int count;
    nbx_tensor **tensors, *few[MAX_OUT];  // tensors: few, or a block of the scope
} targets;

static nbx_status check_target(nbx_op_call *c, const nbx_operator *op, const nbx_tensor *result, const nbx_tensor *target) {
    char want[NBX_SHAPE_TEXT], found[NBX_SHAPE_TEXT];
    if (!(c->op->flags & NBX_OP_ANY_OUT) && !nbx_can_cast((nbx_dtype)result->dtype, (nbx_dtype)target->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "result type %s can't be cast to the output type %s",
                             nbx_dtype_name((nbx_dtype)result->dtype), nbx_dtype_name((nbx_dtype)target->dtype));
    const bool exact = (c->op->flags & (NBX_OP_STRIDED_SAME | NBX_OP_EXACT_OUT | NBX_OP_EXACT_DTYPE)) ||
                       ((op->tags & NBX_TAG_GENERATED) && !(c->op->flags & NBX_OP_ANY_OUT));
    if (op->form == NBX_FORM_OUT && result->dtype != target->dtype && exact)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "expected an output of type %s, not %s", nbx_dtype_name((nbx_dtype)result->dtype),
                             nbx_dtype_name((nbx_dtype)target->dtype));
    if (op->form == NBX_FORM_IN_PLACE && !(c->op->flags & NBX_OP_RESIZE_SELF) && !nbx_same_shape(result, target))
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "output of shape %s doesn't match the broadcast shape %s",
                             nbx_shape_text(target->rank, target->shape, found, sizeof found),
                             nbx_shape_text(result->rank, result->shape, want, sizeof want));
    if (!(op->form == NBX_FORM_IN_PLACE && (c->op->flags & NBX_OP_SHARED_SELF)) && nbx_has_internal_overlap(target))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "some elements of the tensor to write share memory: clone it first");
    return NBX_OK;
}

static bool same_strides(const nbx_tensor *a, const nbx_tensor *b) {
    return memcmp(a->stride, b->stride, sizeof *a->stride * (size_t)a->rank) == 0;
}

// out= arguments of another shape are resized, as ATen does.
static nbx_status resize_target(nbx_op_call *c, const nbx_operator *op, const nbx_tensor *result, nbx_tensor *target) {
    const bool keeps = !c->restride_out && !(c->op->flags & NBX_OP_RESTRIDE_OUT);
    if (nbx_same_shape(result, target) && (keeps || same_strides(result, target))) return NBX_OK;
    int64_t stride[NBX_MAX_RANK];
    const bool packed = (c->op->flags & (NBX_OP_EXACT_OUT | NBX_OP_PACKED_OUT)) || (op->tags & NBX_TAG_GENERATED);
    if (packed) nbx_strides_contiguous(result->rank, result->shape, stride);
    else nbx_strides_preserve(result, stride);  // the result's own; a view with gaps is packed
    const int64_t bytes = nbx_extent_bytes((nbx_dtype)target->dtype, result->rank, result->shape, stride, target->offset);
    if (bytes < 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the result is larger than any memory");
    nbx_storage *storage = NULL;
    if ((uint64_t)bytes > target->storage->bytes) {
        storage = c->ctx->recorder ? nbx_recorder_storage(c->ctx, target->storage->device, (size_t)bytes, c->op->name)
                                   : nbx_storage_create(c->ctx, target->storage->device, (size_t)bytes);
        if (!storage) return c->ctx->status;
    }
    const bool done = nbx_tensor_become(c->ctx, target, (nbx_dtype)target->dtype, result->rank, result->shape, stride,
                                        target->offset, storage);
    nbx_storage_release(storage);
    return done ? NBX_OK : c->ctx->status;
}

static bool same_layout(const nbx_tensor *a, const nbx_tensor *b) {
    return a->storage == b->storage && a->offset == b->offset && a->dtype == b->dtype && nbx_same_shape(a, b) && same_strides(a, b);
}

static bool hazard(const nbx_tensor *in, const nbx_tensor *target) {
    return in && !nbx_is_none(in) && nbx_may_overlap(in, target) && !same_layout(in, target);
}

// May the kernel write straight into the target while reading the arguments?
static bool writes_directly(const nbx_op_call *c, const nbx_tensor *result, const nbx_tensor *target) {
    if (result->storage) return false;
    if (!(c->op->flags & (NBX_OP_STRIDED_OUT | NBX_OP_STRIDED_SAME))) return false;
    for (int i = 0; i < c->arg_count; i++) {
        if (c->args[i].kind == NBX_KIND_TENSOR && hazard(c->args[i].as.tensor, target)) return false;
        if (c->args[i].kind == NBX_KIND_TENSORS)
            for (int j = 0; j < c->args[i].count; j++)
                if (hazard(c->args[i].as.tensors[j], target)) return false;
    }
    return true;
}

static nbx_tensor *result_at(nbx_op_call *c, int k) { return k < (c->list ? c->list_count : c->out_count) ? out_get(c, k) : NULL; }

static void replace_result(nbx_op_call *c, int k, nbx_tensor *t) {
    nbx_tensor *old = out_get(c, k);
    nbx_retain(t);
    if (c->list) c->list[k] = t;
    else c->out[k] = nbx_of_tensor(t);
    nbx_release(old);
}

static bool has_in_place_form(const char *name) {
    char text[128];
    const char *dot = strchr(name, '.');
    const size_t stem = dot ? (size_t)(dot - name) : strlen(name);
    if (stem + 2 + (dot ? strlen(dot) : 0) > sizeof text) return false;
    memcpy(text, name, stem);
    text[stem] = '_';
    strcpy(text + stem + 1, dot ? dot : "");
    return nbx_registry_find(text) != NULL;
}

// What moves elements must not read where it writes; self may be the out= argument where the operator has an in-place form.
static nbx_status check_overlap(nbx_op_call *c, const nbx_tensor *target) {
    const bool moves = c->op->flags & (NBX_OP_STRIDED_SAME | NBX_OP_EXACT_OUT);
    bool clear = true;
    for (int i = 0; i < c->arg_count && clear; i++) {
        const nbx_value *v = &c->args[i];
        if (c->schema->params[i].written) continue;
        if (moves && v->kind == NBX_KIND_TENSOR && nbx_may_overlap(v->as.tensor, target))
            clear = i == 0 && same_layout(v->as.tensor, target) && has_in_place_form(c->op->name);
        for (int j = 0; v->kind == NBX_KIND_TENSORS && j < v->count && clear; j++)
            clear = nbx_is_none(v->as.tensors[j]) || !nbx_may_overlap(v->as.tensors[j], target);
    }
    if (clear) return NBX_OK;
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "some elements of an input and of the output share memory: clone the input first");
}

static bool spans_densely(const nbx_tensor *t) {
    return t->numel > 0 && nbx_extent_bytes((nbx_dtype)t->dtype, t->rank, t->shape, t->stride, 0) == (int64_t)nbx_tensor_nbytes(t);
}

// ATen's rule for elementwise work: an input and the target are two stretches of memory, or one and the same.
static bool overlaps_in_part(const nbx_tensor *a, const nbx_tensor *b) {
    if (!a || nbx_is_none(a) || a->storage != b->storage || !spans_densely(a) || !spans_densely(b)) return false;
    const char *from_a = nbx_data(a), *from_b = nbx_data(b);
    return from_a < from_b + nbx_tensor_nbytes(b) && from_b < from_a + nbx_tensor_nbytes(a) && !same_layout(a, b);
}

static nbx_status check_parts(nbx_op_call *c, const nbx_tensor *target) {
    if (!(c->op->flags & NBX_OP_STRIDED_OUT)) return NBX_OK;
    for (int i = 0; i < c->arg_count; i++)
        if (c->args[i].kind == NBX_KIND_TENSOR && overlaps_in_part(c->args[i].as.tensor, target))
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "some elements of an input and of the output share memory: clone the input first");
    return NBX_OK;
}

// Before the kernel: checks every target, and lets it stand for the result where the kernel may write it.
static nbx_status aim(nbx_op_call *c, const nbx_operator *op, const targets *t) {
    const nbx_form form = op->form;
    for (int k = 0; k < t->count; k++) {
        nbx_tensor *result = result_at(c, k), *target = t->tensors[k];
        if (!result || !target) continue;
        if (form == NBX_FORM_IN_PLACE && result->storage && result->storage == target->storage && !same_layout(result, target))
            continue;  // a view: land() changes the descriptor
        nbx_status status = check_target(c, op, result, target);
        if (status == NBX_OK) status = check_parts(c, target);
        if (status == NBX_OK && form == NBX_FORM_OUT) status = check_overlap(c, target);
        if (status == NBX_OK && (form == NBX_FORM_OUT || (c->op->flags & NBX_OP_RESIZE_SELF))) status = resize_target(c, op, result, target);
        if (status == NBX_OK && form == NBX_FORM_OUT) status = check_overlap(c, target);  // it may have grown over an input
        if (status != NBX_OK) return status;
        if (writes_directly(c, result, target)) replace_result(c, k, target);
    }
    return NBX_OK;
}

// After the kernel: what was computed elsewhere is copied into its target.
static nbx_status land(nbx_op_call *c, nbx_form form, const targets *t) {
    for (int k = 0; k < t->count; k++) {
        nbx_tensor *result = result_at(c, k), *target = t->tensors[k];
        if (!result || !target || result == target) continue;
        nbx_status status = NBX_OK;
        if (form == NBX_FORM_IN_PLACE && result->storage == target->storage) {
            if (!same_layout(result, target) &&
                !nbx_tensor_become(c->ctx, target, (nbx_dtype)result->dtype, result->rank, result->shape, result->stride,
                                   result->offset, NULL))
                status = c->ctx->status;
        } else if (!same_layout(result, target)) {
            if (!NBX_DO(c->ctx, "aten::copy_", T(target), T(result))) status = c->ctx->status;
        }
        if (status != NBX_OK) return status;
        replace_result(c, k, target);
    }
    return NBX_OK;
}

static void add_target(targets *t, const nbx_tensor *target) {
    if (t->tensors) t->tensors[t->count] = (nbx_tensor *)target;
    t->count++;
}

static void walk_targets(const nbx_op_call *c, const nbx_schema *schema, targets *t) {
    t->count = 0;
    for (int i = 0; i < schema->param_count; i++) {
        if (!schema->params[i].written) continue;
        const nbx_value *v = &c->args[i];
        if (v->kind == NBX_KIND_TENSOR) add_target(t, v->as.tensor);
        for (int j = 0; v->kind == NBX_KIND_TENSORS && j < v->count; j++) add_target(t, v->as.tensors[j]);
    }
}

static nbx_status find_targets(nbx_op_call *c, const nbx_schema *schema, nbx_form form, targets *t) {
    t->count = 0;
    t->tensors = NULL;
    if (form == NBX_FORM_FUNCTIONAL) return NBX_OK;
    walk_targets(c, schema, t);  // counts
    t->tensors = t->count <= MAX_OUT ? t->few : nbx_scope_alloc(c->ctx, sizeof *t->tensors * (size_t)t->count);
    if (!t->tensors) return c->ctx->status;
    walk_targets(c, schema, t);
    return NBX_OK;
}

// ------------------------------------------------------------------------------------------------------ host fall-back
// Rows without code for a device run on the host: arguments are copied there, results and written arguments back.
// Memory is copied as it lies, so that strides, gaps and what shares memory decide there what they decide here.
static bool in_storage(const nbx_tensor *t, const nbx_storage *storage) { return t && !nbx_is_none(t) && t->storage == storage && t->numel > 0; }

static void widen(const nbx_tensor *t, const nbx_storage *storage, int64_t *begin, int64_t *end) {
    if (!in_storage(t, storage)) return;
    const int64_t first = t->offset * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype), align = 16;  // a multiple of all elements
    const int64_t last = nbx_extent_bytes((nbx_dtype)t->dtype, t->rank, t->shape, t->stride, t->offset);
    if (first < *begin) *begin = first / align * align;
    if (last > *end) *end = last;
}

// The host's memory of a storage, in which the arguments made so far may lie already; *begin is where it starts there.
static nbx_storage *memory_of(nbx_op_call *c, const nbx_value *made, const nbx_tensor *t, int64_t *begin) {
    int64_t end = 0;
    nbx_storage *found = NULL;
    *begin = INT64_MAX;
    for (int i = 0; i < c->arg_count; i++) {
        const nbx_value *v = &c->args[i];
        if (v->kind == NBX_KIND_TENSOR) widen(v->as.tensor, t->storage, begin, &end);
        for (int j = 0; v->kind == NBX_KIND_TENSORS && j < v->count; j++) widen(v->as.tensors[j], t->storage, begin, &end);
        if (v->kind == NBX_KIND_TENSOR && in_storage(v->as.tensor, t->storage) && made[i].as.tensor != v->as.tensor) found = made[i].as.tensor->storage;
    }
    if (*begin > end) *begin = end = 0;  // no elements
    if (found) {
        nbx_storage_retain(found);
        return found;
    }
    nbx_storage *storage = nbx_storage_create(c->ctx, (nbx_device){NBX_CPU, 0}, (size_t)(end - *begin));
    if (storage && nbx_copy_bytes(c->ctx, storage->device, storage->data, t->storage->device, (const char *)t->storage->data + *begin, (size_t)(end - *begin)) == NBX_OK)
        return storage;
    nbx_storage_release(storage);
    return NULL;
}

static const nbx_tensor *host_twin(nbx_op_call *c, const nbx_value *made, const nbx_tensor *t) {
    if (!t || nbx_is_none(t) || t->storage->device.type == NBX_CPU) return t;
    int64_t begin;
    nbx_storage *storage = memory_of(c, made, t, &begin);
    if (!storage) return NULL;
    const int64_t offset = t->numel ? t->offset - begin / (int64_t)nbx_dtype_size((nbx_dtype)t->dtype) : 0;
    nbx_tensor *twin = nbx_tensor_new(c->ctx, (nbx_dtype)t->dtype, t->rank, t->shape, t->stride, offset, storage);
    nbx_storage_release(storage);
    return nbx_scope_own(c->ctx, twin);
}

static nbx_status to_host(nbx_op_call *c, nbx_value *made, int i) {
    nbx_value *v = &made[i];
    if (v->kind == NBX_KIND_TENSOR && v->as.tensor) {
        v->as.tensor = host_twin(c, made, v->as.tensor);
        return v->as.tensor ? NBX_OK : c->ctx->status;
    }
    if (v->kind == NBX_KIND_DEVICE) v->as.device = (nbx_device){NBX_CPU, 0};
    if (v->kind != NBX_KIND_TENSORS) return NBX_OK;
    const nbx_tensor **list = nbx_scope_alloc(c->ctx, sizeof *list * (size_t)(v->count + 1));
    if (!list) return c->ctx->status;
    for (int j = 0; j < v->count; j++) {
        list[j] = host_twin(c, made, v->as.tensors[j]);
        if (!list[j]) return c->ctx->status;
    }
    v->as.tensors = list;
    return NBX_OK;
}

static nbx_status from_host(nbx_op_call *c, int k, const nbx_value *host_args, const nbx_tensor *result) {
    for (int i = 0; i < c->arg_count; i++) {  // an argument may be the result
        const nbx_value *v = &host_args[i];
        if (v->kind == NBX_KIND_TENSOR && v->as.tensor == result) return out_tensor(c, k, c->args[i].as.tensor);
        for (int j = 0; v->kind == NBX_KIND_TENSORS && j < v->count; j++)
            if (v->as.tensors[j] == result) return out_tensor(c, k, c->args[i].as.tensors[j]);
    }
    const int64_t bytes = nbx_extent_bytes((nbx_dtype)result->dtype, result->rank, result->shape, result->stride, 0);
    nbx_tensor *there = nbx_tensor_create_strided(c->ctx, c->device, (nbx_dtype)result->dtype, result->rank, result->shape, result->stride);
    if (!there || nbx_copy_bytes(c->ctx, c->device, nbx_data(there), result->storage->device, nbx_data(result), (size_t)bytes) != NBX_OK)
        return c->ctx->status;
    return out_tensor(c, k, there);
}

// A written argument, which took the shape of the result if it is an out=.
static nbx_status write_back(nbx_op_call *c, const nbx_operator *op, const nbx_tensor *written, const nbx_tensor *twin) {
    if (written == twin) return NBX_OK;
    const nbx_status status = resize_target(c, op, twin, (nbx_tensor *)written);
    return status != NBX_OK || NBX_DO(c->ctx, "aten::copy_", T(written), T(twin)) ? status : c->ctx->status;
}

static nbx_status run_on_host(nbx_op_call *c, const nbx_operator *op) {
    nbx_context *ctx = c->ctx;
    const nbx_device device = ctx->device;
    nbx_value args[NBX_MAX_ARGS], results[NBX_MAX_RESULTS];
    nbx_status status = NBX_OK;
    int count = 0;
    memcpy(args, c->args, sizeof *args * (size_t)c->arg_count);
    for (int i = 0; i < c->arg_count && status == NBX_OK; i++) status = to_host(c, args, i);
    ctx->device = (nbx_device){NBX_CPU, 0};
    if (status == NBX_OK) status = nbx_dispatch(ctx, op, args, c->arg_count, NULL, 0, results, NBX_MAX_RESULTS, &count);
    ctx->device = device;
    for (int i = 0; i < c->arg_count && status == NBX_OK; i++) {
        if (!c->schema->params[i].written) continue;
        if (args[i].kind == NBX_KIND_TENSOR) status = write_back(c, op, c->args[i].as.tensor, args[i].as.tensor);
        for (int j = 0; args[i].kind == NBX_KIND_TENSORS && j < args[i].count && status == NBX_OK; j++)
            status = write_back(c, op, c->args[i].as.tensors[j], args[i].as.tensors[j]);
    }
    for (int k = 0; k < count && status == NBX_OK; k++) {
        if (results[k].kind == NBX_KIND_TENSOR) {
            status = from_host(c, k, args, results[k].as.tensor);
        } else if (results[k].kind == NBX_KIND_TENSORS) {
            status = out_list(c, results[k].count);
            for (int j = 0; j < results[k].count && status == NBX_OK; j++) status = from_host(c, j, args, results[k].as.tensors[j]);
        } else {
            out_value(c, k, results[k]);
        }
    }
    return status;
}

// A generator of the CPU draws there.
static bool draws_on_host(const nbx_op_call *c) {
    if (!(c->op->flags & NBX_OP_RANDOM) || !(c->op->cpu[0] || (c->op->flags & NBX_OP_READS_DATA))) return false;
    for (int i = 0; i < c->arg_count; i++)
        if (c->args[i].kind == NBX_KIND_GENERATOR) return !c->args[i].as.generator->of_device;
    return c->ctx->generator && !c->ctx->generator->of_device;
}

static bool falls_back_to_host(const nbx_op_call *c, nbx_op_fn device_code) {
    return c->device.type != NBX_CPU && ((!device_code && nbx_op_runs_on_host(c->op)) || draws_on_host(c));
}

// --------------------------------------------------------------------------------------------------------------- the door
static nbx_status run_row(nbx_op_call *c, const nbx_operator *op, const targets *t) {
    const nbx_op *row = c->op;
    nbx_context *ctx = c->ctx;
    nbx_status status;
    const nbx_operator *base = op->base ? op->base : op;
    const nbx_op_fn device_code = c->device.type == NBX_CPU ? NULL : nbx_operator_kernel(base, c->device.type, ctx->isa);
    const bool on_host = falls_back_to_host(c, device_code);
    if (ctx->recorder && (on_host || (row->flags & NBX_OP_READS_DATA))) return refuse_recording(c);
    if (on_host) return run_on_host(c, op);
    if (row->composite) {
        status = (device_code ? device_code : row->composite)(c);
        if (status == NBX_OK) status = aim(c, op, t);
        return status == NBX_OK ? land(c, op->form, t) : status;
    }
    const bool is_view = !row->cpu[0];
    const nbx_op_fn kernel = is_view ? NULL : c->device.type == NBX_CPU ? row->cpu[ctx->isa] : device_code;
    if (!is_view && !kernel) return missing_kernel(c);
    status = unite_devices(c);
    if (status == NBX_OK) status = row->infer(c);
    if (status == NBX_OK) status = aim(c, op, t);
    if (status == NBX_OK) status = give_storages(c);
    if (status == NBX_OK && kernel) status = run_kernel(c, kernel);
    return status == NBX_OK ? land(c, op->form, t) : status;
}

static void drop_results(nbx_op_call *c) {
    for (int k = 0; k < c->out_count; k++)
        if (c->out[k].kind == NBX_KIND_TENSOR) nbx_release(c->out[k].as.tensor);
    for (int k = 0; k < c->list_count; k++) nbx_release(c->list[k]);
    c->out_count = c->list_count = 0;
}

static nbx_status hand_list_over(nbx_op_call *c, nbx_value *result) {
    nbx_context *ctx = c->ctx;
    nbx_tensor **list = nbx_scope_alloc(ctx, sizeof *list * (size_t)(c->list_count + 1));
    if (!list) {
        for (int k = 0; k < c->list_count; k++) nbx_release(c->list[k]);
        c->list_count = 0;
        return ctx->status;
    }
    int failed = 0;
    for (int k = 0; k < c->list_count; k++) {
        list[k] = c->list[k] ? nbx_scope_own(ctx, c->list[k]) : (nbx_tensor *)NBX_NONE;
        failed += !list[k];
    }
    *result = nbx_of_tensors((const nbx_tensor *const *)list, c->list_count);
    return failed ? ctx->status : NBX_OK;
}

static bool is_number_list(const nbx_value *v) { return v->kind == NBX_KIND_INTS || v->kind == NBX_KIND_FLOATS; }

// Lists of numbers lie in the scope of the call, or in an argument; these copies outlast both, until free_number_lists.
static nbx_status keep_number_lists(nbx_op_call *c) {
    nbx_status status = NBX_OK;
    for (int k = 0; k < c->out_count; k++) {
        if (!is_number_list(&c->out[k])) continue;
        const size_t bytes = 8 * (size_t)c->out[k].count;
        void *copy = nbx_alloc(bytes);
        if (!copy) status = nbx_fail_memory(c->ctx, bytes, "list of results");
        else if (bytes) memcpy(copy, c->out[k].as.ints, bytes);
        c->out[k].as.ints = copy;
    }
    return status;
}

static void free_number_lists(nbx_op_call *c) {
    for (int k = 0; k < c->out_count; k++)
        if (is_number_list(&c->out[k])) nbx_free((void *)(uintptr_t)c->out[k].as.ints);
}

static nbx_status hand_number_list_over(nbx_op_call *c, nbx_value *v) {
    const size_t bytes = 8 * (size_t)v->count;
    void *list = nbx_scope_alloc(c->ctx, bytes);
    if (!list) return c->ctx->status;
    if (bytes) memcpy(list, v->as.ints, bytes);
    v->as.ints = list;
    return NBX_OK;
}

// Results leave the call: tensors now belong to the caller's scope.
static nbx_status hand_over(nbx_op_call *c, nbx_value *results, int capacity, int *count) {
    if (c->out_count > capacity) {
        const nbx_status status = nbx_call_fail(c, NBX_ERROR_ARGUMENT, "gives %d results, there is room for %d", c->out_count, capacity);
        drop_results(c);
        return status;
    }
    if (count) *count = c->out_count;
    const int single = c->list ? c->out_count - 1 : c->out_count;
    nbx_status status = c->list ? hand_list_over(c, &results[single]) : NBX_OK;
    for (int k = 0; k < single; k++) {
        results[k] = c->out[k];
        if (results[k].kind == NBX_KIND_TENSOR && !nbx_scope_own(c->ctx, (nbx_tensor *)results[k].as.tensor)) status = c->ctx->status;
        if (is_number_list(&results[k]) && hand_number_list_over(c, &results[k]) != NBX_OK) status = c->ctx->status;
    }
    return status;
}

nbx_status nbx_dispatch(nbx_context *ctx, const nbx_operator *op, const nbx_value *args, int arg_count,
                        const nbx_named_value *keywords, int keyword_count, nbx_value *results, int capacity, int *count) {
    if (count) *count = 0;
    if (!op->op)
        return nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s %s", op->name, nbx_operator_refusal(op)      ? nbx_operator_refusal(op)
                                                                       : nbx_operator_in_programs(op) ? "runs inside programs only"
                                                                                                      : "is known, but not implemented");
    if (ctx->depth >= MAX_DEPTH) return nbx_fail(ctx, NBX_ERROR_INTERNAL, "%s: composites call each other without end", op->name);
    const nbx_schema *schema = nbx_operator_parsed(ctx, op);
    if (!schema) return ctx->status;

    nbx_op_call c;
    memset(&c, 0, offsetof(nbx_op_call, args));
    c.ctx = ctx;
    c.op = op->op;
    c.schema = schema;
    targets t;
    const nbx_scope scope = nbx_scope_open(ctx);
    ctx->depth++;
    nbx_status status = nbx_bind(&c, schema, args, arg_count, keywords, keyword_count);
    if (status == NBX_OK) {
        choose_device(&c);
        status = find_targets(&c, schema, op->form, &t);
    }
    if (status == NBX_OK) status = run_row(&c, op, &t);
    ctx->depth--;
    const bool lists_kept = status == NBX_OK;
    if (lists_kept) status = keep_number_lists(&c);
    nbx_scope_close(ctx, scope, NULL);
    if (status == NBX_OK && op->form != NBX_FORM_FUNCTIONAL && schema->result_count == 0) drop_results(&c);  // the targets hold them
    else if (status == NBX_OK) status = hand_over(&c, results, capacity, count);
    else drop_results(&c);
    if (lists_kept) free_number_lists(&c);
    nbx_free(c.list);
    nbx_free(c.state);
    return status;
}

nbx_status nbx_call_operator(nbx_context *ctx, const nbx_operator *op, const nbx_value *args, int arg_count,
                             const nbx_named_value *keywords, int keyword_count, nbx_value *results, int capacity, int *count) {
    if (!op) return nbx_fail(ctx, NBX_ERROR_UNKNOWN, "no operator was given");
    if (arg_count < 0 || arg_count > NBX_MAX_ARGS) return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "%s: %d arguments", op->name, arg_count);
    if ((arg_count && !args) || (keyword_count > 0 && !keywords) || (capacity > 0 && !results))
        return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "%s: %s are NULL, but counted", op->name, arg_count && !args ? "arguments" : keyword_count > 0 && !keywords ? "keywords" : "results");
    return nbx_dispatch(ctx, op, args, arg_count, keywords, keyword_count, results, capacity, count);
}

nbx_status nbx_call(nbx_context *ctx, const char *name, const nbx_value *args, int arg_count, const nbx_named_value *keywords,
                    int keyword_count, nbx_value *results, int capacity, int *count) {
    const nbx_operator *op = nbx_op_find(name);
    if (!op) return nbx_fail(ctx, NBX_ERROR_UNKNOWN, "no operator is named %s", name ? name : "(null)");
    return nbx_call_operator(ctx, op, args, arg_count, keywords, keyword_count, results, capacity, count);
}

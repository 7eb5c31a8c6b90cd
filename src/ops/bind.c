// Binding arguments by ATen's rules: a number stands for a Tensor (wrapped, and of some operators only) or for a list of fixed
// length, an int for a float, a 0-dim tensor for nothing (ATen refuses that, too).
#include "ops/bind.h"

#include <math.h>
#include <string.h>

static const char *const kind_names[] = {"None",   "Tensor", "int",       "float",    "bool",  "complex", "str",    "dtype", "layout",
                                         "device", "memory_format", "Generator", "Tensor[]", "int[]", "float[]", "bool[]", "list"};

static nbx_status mismatch(nbx_op_call *c, const nbx_param *p, const nbx_value *v, const char *expected) {
    const char *found = v->kind >= 0 && v->kind <= NBX_KIND_VALUES ? kind_names[v->kind] : "invalid";
    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "argument '%s' must be %s%s, not %s", p->name, expected,
                         p->optional ? " or None" : "", found);
}

static bool to_int(const nbx_value *v, int64_t *out) {
    if (v->kind == NBX_KIND_INT) *out = v->as.integer;
    else if (v->kind == NBX_KIND_BOOL) *out = v->as.boolean;
    else return false;
    return true;
}

static bool to_float(const nbx_value *v, double *out) {
    if (v->kind == NBX_KIND_FLOAT) *out = v->as.real;
    else if (v->kind == NBX_KIND_INT) *out = (double)v->as.integer;
    else if (v->kind == NBX_KIND_BOOL) *out = v->as.boolean;
    else return false;
    return true;
}

static nbx_status bind_int(nbx_op_call *c, const nbx_param *p, nbx_value *v) {
    int64_t x;
    if (v->kind == NBX_KIND_FLOAT && v->as.real == floor(v->as.real) && fabs(v->as.real) < 9e15) x = (int64_t)v->as.real;
    else if (!to_int(v, &x)) return mismatch(c, p, v, "int");
    *v = nbx_of_int(x);
    return NBX_OK;
}

// ATen takes a number for a Tensor where its schema once had a Scalar only; everywhere else that is a mistake.
static bool takes_numbers(const nbx_schema *s) {
    static const char *const names[] = {"add", "sub", "mul", "div", "divide", "multiply", "subtract", "true_divide", "floor_divide"};
    if (strncmp(s->name, "aten::", 6) != 0) return true;
    const char *base = s->name + 6;
    size_t length = strcspn(base, ".");
    if (length && base[length - 1] == '_') length--;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && strncmp(names[i], base, length) == 0) return true;
    return false;
}

static nbx_status bind_one(nbx_op_call *c, const nbx_param *p, nbx_value *v) {
    double real;
    int64_t integer;
    switch ((nbx_type)p->type) {
    case NBX_TYPE_TENSOR:
    case NBX_TYPE_STORAGE:
        if (v->kind == NBX_KIND_TENSOR) {
            if (!v->as.tensor) return c->ctx->status != NBX_OK ? c->ctx->status : mismatch(c, p, &(nbx_value){0}, "Tensor");
            if (!nbx_is_none(v->as.tensor)) return NBX_OK;
            *v = nbx_of_none();
            return p->optional ? NBX_OK : mismatch(c, p, v, "Tensor");
        }
        if (!nbx_is_scalar_kind(v->kind) || !takes_numbers(c->schema)) return mismatch(c, p, v, "Tensor");
        *v = nbx_of_tensor(nbx_wrap_number(c->ctx, (nbx_device){NBX_CPU, 0}, v));
        return v->as.tensor ? NBX_OK : c->ctx->status;
    case NBX_TYPE_INT: return bind_int(c, p, v);
    case NBX_TYPE_FLOAT:
        if (!to_float(v, &real)) return mismatch(c, p, v, "float");
        *v = nbx_of_float(real);
        return NBX_OK;
    case NBX_TYPE_BOOL:
        if (v->kind == NBX_KIND_BOOL) return NBX_OK;
        if (!to_int(v, &integer)) return mismatch(c, p, v, "bool");
        *v = nbx_of_bool(integer != 0);
        return NBX_OK;
    case NBX_TYPE_SCALAR: return nbx_is_scalar_kind(v->kind) ? NBX_OK : mismatch(c, p, v, "a number");
    case NBX_TYPE_STRING: return v->kind == NBX_KIND_STRING ? NBX_OK : mismatch(c, p, v, "str");
    case NBX_TYPE_DTYPE: return v->kind == NBX_KIND_DTYPE ? NBX_OK : mismatch(c, p, v, "dtype");
    case NBX_TYPE_LAYOUT:
        if (v->kind != NBX_KIND_LAYOUT) return mismatch(c, p, v, "layout");
        return v->as.integer == 0 ? NBX_OK : nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "layout other than strided");
    case NBX_TYPE_DEVICE: return v->kind == NBX_KIND_DEVICE ? NBX_OK : mismatch(c, p, v, "device");
    case NBX_TYPE_MEMORY_FORMAT: return v->kind == NBX_KIND_MEMORY_FORMAT ? NBX_OK : mismatch(c, p, v, "memory_format");
    case NBX_TYPE_GENERATOR: return v->kind == NBX_KIND_GENERATOR ? NBX_OK : mismatch(c, p, v, "Generator");
    case NBX_TYPE_OTHER: break;
    }
    return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "argument '%s' has a type this library does not know", p->name);
}

// The i-th element of a list value as a value of its own.
static nbx_value element(const nbx_value *v, int i) {
    switch (v->kind) {
    case NBX_KIND_TENSORS: return nbx_of_tensor(v->as.tensors[i]);
    case NBX_KIND_INTS: return nbx_of_int(v->as.ints[i]);
    case NBX_KIND_FLOATS: return nbx_of_float(v->as.floats[i]);
    case NBX_KIND_BOOLS: return nbx_of_bool(v->as.bools[i]);
    default: return v->as.values[i];
    }
}

static bool list_is_ready(const nbx_param *p, const nbx_value *v) {
    switch ((nbx_type)p->type) {
    case NBX_TYPE_INT: return v->kind == NBX_KIND_INTS;
    case NBX_TYPE_FLOAT: return v->kind == NBX_KIND_FLOATS;
    case NBX_TYPE_BOOL: return v->kind == NBX_KIND_BOOLS;
    case NBX_TYPE_SCALAR:
    case NBX_TYPE_STRING: return false;
    default: return false;
    }
}

static bool tensors_are_ready(const nbx_param *p, const nbx_value *v) {
    if (v->kind != NBX_KIND_TENSORS) return false;
    for (int i = 0; i < v->count; i++)
        if (!v->as.tensors[i] || (nbx_is_none(v->as.tensors[i]) && !p->optional_element)) return false;
    return true;
}

static nbx_status bind_tensors(nbx_op_call *c, const nbx_param *p, nbx_value *v, int count) {
    if (tensors_are_ready(p, v)) return NBX_OK;
    const nbx_tensor **list = nbx_scope_alloc(c->ctx, sizeof *list * (size_t)(count ? count : 1));
    if (!list) return c->ctx->status;
    for (int i = 0; i < count; i++) {
        nbx_value e = element(v, i);
        if (e.kind == NBX_KIND_NONE || (e.kind == NBX_KIND_TENSOR && e.as.tensor && nbx_is_none(e.as.tensor))) {
            if (!p->optional_element) return mismatch(c, p, &(nbx_value){0}, "a list of Tensor");
            list[i] = NBX_NONE;
            continue;
        }
        const nbx_status status = bind_one(c, p, &e);
        if (status != NBX_OK) return status;
        list[i] = e.as.tensor;
    }
    *v = nbx_of_tensors(list, count);
    return NBX_OK;
}

static nbx_status bind_numbers(nbx_op_call *c, const nbx_param *p, nbx_value *v, int count, bool spread) {
    const size_t room = (size_t)(count ? count : 1) * sizeof(nbx_value);
    void *list = nbx_scope_alloc(c->ctx, room);
    if (!list) return c->ctx->status;
    for (int i = 0; i < count; i++) {
        nbx_value e = spread ? *v : element(v, i);
        const nbx_status status = bind_one(c, p, &e);
        if (status != NBX_OK) return status;
        if (p->type == NBX_TYPE_INT) ((int64_t *)list)[i] = e.as.integer;
        else if (p->type == NBX_TYPE_FLOAT) ((double *)list)[i] = e.as.real;
        else if (p->type == NBX_TYPE_BOOL) ((bool *)list)[i] = e.as.boolean;
        else ((nbx_value *)list)[i] = e;
    }
    *v = p->type == NBX_TYPE_INT     ? nbx_of_ints(list, count)
         : p->type == NBX_TYPE_FLOAT ? nbx_of_floats(list, count)
         : p->type == NBX_TYPE_BOOL  ? nbx_of_bools(list, count)
                                     : nbx_of_values(list, count);
    return NBX_OK;
}

static nbx_status bind_value(nbx_op_call *c, const nbx_param *p, nbx_value *v) {
    if (v->kind == NBX_KIND_NONE) return p->optional || p->optional_element ? NBX_OK : mismatch(c, p, v, "given");
    if (!p->list) return bind_one(c, p, v);
    if (v->kind < NBX_KIND_TENSORS) {  // one number for a list: "int[2] stride=1"
        if (p->type != NBX_TYPE_TENSOR && nbx_is_scalar_kind(v->kind))
            return bind_numbers(c, p, v, p->fixed_count > 0 ? p->fixed_count : 1, true);
        return mismatch(c, p, v, "a list");
    }
    if (v->count < 0) return mismatch(c, p, v, "a list");
    if (v->count && !v->as.values) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "argument '%s' is a list of %d at NULL", p->name, (int)v->count);
    if (list_is_ready(p, v)) return NBX_OK;
    return p->type == NBX_TYPE_TENSOR ? bind_tensors(c, p, v, v->count) : bind_numbers(c, p, v, v->count, false);
}

static nbx_status bind_keyword(nbx_op_call *c, const nbx_schema *s, const nbx_named_value *k, uint64_t *given) {
    const int i = k->name ? nbx_schema_param(s, k->name) : -1;
    if (i < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "no argument is named '%s'", k->name ? k->name : "");
    if (*given >> i & 1) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "argument '%s' is given twice", k->name);
    *given |= (uint64_t)1 << i;
    c->args[i] = k->value;
    return NBX_OK;
}

nbx_status nbx_bind(nbx_op_call *c, const nbx_schema *s, const nbx_value *args, int arg_count, const nbx_named_value *keywords,
                    int keyword_count) {
    if (s->varargs) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "only a program can call it: its arguments hold sub-graphs");
    if (arg_count > s->param_count)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "takes at most %d arguments, %d given", s->param_count, arg_count);
    c->arg_count = s->param_count;
    if (arg_count > 0) memcpy(c->args, args, sizeof *args * (size_t)arg_count);
    uint64_t given = ((uint64_t)1 << arg_count) - 1;
    for (int i = 0; i < keyword_count; i++) {
        const nbx_status status = bind_keyword(c, s, &keywords[i], &given);
        if (status != NBX_OK) return status;
    }
    for (int i = 0; i < s->param_count; i++) {
        const nbx_param *p = &s->params[i];
        if (!(given >> i & 1)) {
            if (!p->has_default && !p->optional)
                return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "argument '%s' is missing", p->name ? p->name : "?");
            c->args[i] = p->has_default ? p->fallback : nbx_of_none();
        } else if (c->args[i].kind == NBX_KIND_NONE && p->has_default && !p->optional && !p->optional_element) {
            c->args[i] = p->fallback;  // None for a parameter that has a default means the default
        } else {
            const nbx_status status = bind_value(c, p, &c->args[i]);
            if (status != NBX_OK) return status;
        }
    }
    return NBX_OK;
}

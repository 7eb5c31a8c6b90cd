// The globals that torch.save writes, imitated: rebuilding of tensors and parameters, storages, and a few plain types.
#include "program/pickle_globals.h"

#include <string.h>

static nbx_pickled *fail(nbx_unpickler *u, const char *what) {
    nbx_fail(u->ctx, NBX_ERROR_FORMAT, "%s: pickle byte %zu: %s", u->label, (size_t)(u->at - u->begin), what);
    return NULL;
}

static bool text_is(const nbx_pickled *v, const char *text) {
    return v->kind == NBX_PICKLE_TEXT && v->count == strlen(text) && memcmp(v->as.text, text, v->count) == 0;
}

static bool is_global(const nbx_pickled *v, const char *module, const char *name) {
    return v->kind == NBX_PICKLE_GLOBAL && text_is(v->as.items[0], module) && text_is(v->as.items[1], name);
}

static nbx_pickled *refuse(nbx_unpickler *u, const nbx_pickled *global) {
    const nbx_pickled *module = global->as.items[0], *name = global->as.items[1];
    nbx_fail(u->ctx, NBX_ERROR_UNSUPPORTED, "%s: pickled %.*s.%.*s cannot be read (only plain tensors and numbers can)", u->label,
             (int)(module->count < 200 ? module->count : 200), module->as.text, (int)(name->count < 200 ? name->count : 200),
             name->as.text);
    return NULL;
}

// ------------------------------------------------------------------------------------------------------------ storages
static nbx_dtype storage_dtype(const nbx_pickled *name) {
    static const struct { const char *name; nbx_dtype dtype; } classes[] = {
        {"FloatStorage", NBX_FLOAT32}, {"DoubleStorage", NBX_FLOAT64}, {"HalfStorage", NBX_FLOAT16},
        {"BFloat16Storage", NBX_BFLOAT16}, {"LongStorage", NBX_INT64}, {"IntStorage", NBX_INT32},
        {"ShortStorage", NBX_INT16}, {"CharStorage", NBX_INT8}, {"ByteStorage", NBX_UINT8}, {"BoolStorage", NBX_BOOL},
        {"ComplexFloatStorage", NBX_COMPLEX64}, {"ComplexDoubleStorage", NBX_COMPLEX128},
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (text_is(name, classes[i].name)) return classes[i].dtype;
    return NBX_DTYPE_NONE;
}

nbx_pickled *nbx_pickle_storage(nbx_unpickler *u, const nbx_pickled *id) {
    nbx_pickled **items = id->as.items;
    if (id->kind != NBX_PICKLE_TUPLE || id->count < 5 || !text_is(items[0], "storage") || items[1]->kind != NBX_PICKLE_GLOBAL ||
        items[2]->kind != NBX_PICKLE_TEXT || items[4]->kind != NBX_PICKLE_INT || items[4]->as.integer < 0)
        return fail(u, "a persistent id that is no storage");
    const bool untyped = is_global(items[1], "torch.storage", "UntypedStorage");
    const nbx_dtype dtype = text_is(items[1]->as.items[0], "torch") ? storage_dtype(items[1]->as.items[1]) : NBX_DTYPE_NONE;
    if (!untyped && dtype == NBX_DTYPE_NONE) return refuse(u, items[1]);
    if (memchr(items[2]->as.text, 0, items[2]->count)) return fail(u, "a storage's key holds a zero byte");
    const uint64_t elements = (uint64_t)items[4]->as.integer, size = untyped ? 1 : nbx_dtype_bytes(dtype);
    if (elements > (uint64_t)INT64_MAX / size) return fail(u, "a storage's size is absurd");
    nbx_pickled *v = nbx_pickle_new(u, NBX_PICKLE_STORAGE);
    nbx_pickled_storage *storage = v ? nbx_arena_alloc(u->ctx, u->arena, sizeof *storage) : NULL;
    if (!storage) return NULL;
    storage->key = nbx_arena_text(u->ctx, u->arena, items[2]->as.text, items[2]->count);
    storage->dtype = dtype;
    storage->bytes = elements * size;
    v->as.storage = storage;
    return storage->key ? v : NULL;
}

// ------------------------------------------------------------------------------------------------------------- tensors
static int64_t *copy_sizes(nbx_unpickler *u, const nbx_pickled *tuple) {
    int64_t *sizes = nbx_arena_array(u->ctx, u->arena, tuple->count + 1, sizeof *sizes);
    for (uint32_t i = 0; sizes && i < tuple->count; i++) {
        if (tuple->as.items[i]->kind != NBX_PICKLE_INT) return (int64_t *)(void *)fail(u, "a size that is no integer");
        sizes[i] = tuple->as.items[i]->as.integer;
    }
    return sizes;
}

// Bits that change what the bytes mean; a set one would need another reader.
static bool has_flag(const nbx_pickled *flags) {
    if (flags->kind != NBX_PICKLE_DICT) return false;
    for (uint32_t i = 0; i + 1 < flags->count; i += 2) {
        const nbx_pickled *value = flags->as.items[i + 1];
        if (value->kind == NBX_PICKLE_BOOL && value->as.boolean) return true;
    }
    return false;
}

static nbx_dtype dtype_of(const nbx_pickled *v) {
    char name[32];
    if (v->kind != NBX_PICKLE_GLOBAL || !text_is(v->as.items[0], "torch") || v->as.items[1]->count >= sizeof name)
        return NBX_DTYPE_NONE;
    memcpy(name, v->as.items[1]->as.text, v->as.items[1]->count);
    name[v->as.items[1]->count] = 0;
    return nbx_dtype_parse(name);
}

// _rebuild_tensor_v2 and _v3: (storage, offset, size, stride, requires_grad, hooks[, dtype][, flags]).
static nbx_pickled *rebuild_tensor(nbx_unpickler *u, const nbx_pickled *args, bool with_dtype) {
    nbx_pickled **a = args->as.items;
    const uint32_t needed = with_dtype ? 7 : 6;
    if (args->count < needed || a[0]->kind != NBX_PICKLE_STORAGE || a[1]->kind != NBX_PICKLE_INT ||
        a[2]->kind != NBX_PICKLE_TUPLE || a[3]->kind != NBX_PICKLE_TUPLE || a[2]->count != a[3]->count)
        return fail(u, "a tensor with broken arguments");
    if (a[2]->count > NBX_MAX_RANK) return fail(u, "a tensor of more than 64 dimensions");
    if (args->count > needed && has_flag(a[needed]))
        return nbx_fail(u->ctx, NBX_ERROR_UNSUPPORTED, "%s: a pickled tensor has its conj or neg bit set", u->label), NULL;
    nbx_pickled *v = nbx_pickle_new(u, NBX_PICKLE_TENSOR);
    nbx_pickled_tensor *t = v ? nbx_arena_alloc(u->ctx, u->arena, sizeof *t) : NULL;
    if (!t) return NULL;
    v->as.tensor = t;
    t->storage = a[0]->as.storage;
    t->dtype = with_dtype ? dtype_of(a[6]) : t->storage->dtype;
    if (t->dtype == NBX_DTYPE_NONE) {
        if (with_dtype && a[6]->kind == NBX_PICKLE_GLOBAL) return refuse(u, a[6]);
        return fail(u, "a tensor without dtype");
    }
    t->rank = (int)a[2]->count;
    t->offset = a[1]->as.integer;
    t->shape = copy_sizes(u, a[2]);
    t->strides = t->shape ? copy_sizes(u, a[3]) : NULL;
    return t->strides ? v : NULL;
}

static nbx_pickled *first_tensor(nbx_unpickler *u, const nbx_pickled *args) {
    if (args->count < 1 || args->as.items[0]->kind != NBX_PICKLE_TENSOR) return fail(u, "a parameter without tensor");
    return args->as.items[0];
}

// _rebuild_from_type_v2: (function, type, args, state). Only plain tensors: a subclass would compute otherwise.
static nbx_pickled *rebuild_from_type(nbx_unpickler *u, const nbx_pickled *args) {
    if (args->count < 3 || args->as.items[0]->kind != NBX_PICKLE_GLOBAL || args->as.items[1]->kind != NBX_PICKLE_GLOBAL ||
        args->as.items[2]->kind != NBX_PICKLE_TUPLE)
        return fail(u, "a tensor with broken arguments");
    if (!is_global(args->as.items[1], "torch", "Tensor")) return refuse(u, args->as.items[1]);
    if (is_global(args->as.items[0], "torch._tensor", "_rebuild_from_type_v2")) return refuse(u, args->as.items[0]);
    return nbx_pickle_call(u, args->as.items[0], args->as.items[2]);
}

// -------------------------------------------------------------------------------------------------------- plain things
static bool as_double(const nbx_pickled *v, double *x) {
    *x = v->kind == NBX_PICKLE_INT ? (double)v->as.integer : v->as.real;
    return v->kind == NBX_PICKLE_INT || v->kind == NBX_PICKLE_FLOAT;
}

static nbx_pickled *make_complex(nbx_unpickler *u, const nbx_pickled *args) {
    nbx_pickled *v = nbx_pickle_new(u, NBX_PICKLE_COMPLEX);
    if (!v) return NULL;
    if (args->count != 2 || !as_double(args->as.items[0], &v->as.complex[0]) || !as_double(args->as.items[1], &v->as.complex[1]))
        return fail(u, "a complex number without two parts");
    return v;
}

static nbx_pickled *only_item(nbx_unpickler *u, const nbx_pickled *args, nbx_pickle_kind kind) {
    if (args->count < 1 || args->as.items[0]->kind != (uint32_t)kind) return fail(u, "a call with broken arguments");
    return args->as.items[0];
}

nbx_pickled *nbx_pickle_call(nbx_unpickler *u, const nbx_pickled *f, const nbx_pickled *args) {
    if (is_global(f, "torch._utils", "_rebuild_tensor_v2")) return rebuild_tensor(u, args, false);
    if (is_global(f, "torch._utils", "_rebuild_tensor_v3")) return rebuild_tensor(u, args, true);
    if (is_global(f, "torch._utils", "_rebuild_parameter")) return first_tensor(u, args);
    if (is_global(f, "torch._utils", "_rebuild_parameter_with_state")) return first_tensor(u, args);
    if (is_global(f, "torch._tensor", "_rebuild_from_type_v2")) return rebuild_from_type(u, args);
    if (is_global(f, "collections", "OrderedDict") && args->count == 0) return nbx_pickle_new(u, NBX_PICKLE_DICT);
    if (is_global(f, "torch", "Size")) return only_item(u, args, NBX_PICKLE_TUPLE);
    if (is_global(f, "_codecs", "encode")) return only_item(u, args, NBX_PICKLE_TEXT);
    if (is_global(f, "__builtin__", "set") || is_global(f, "builtins", "set")) return only_item(u, args, NBX_PICKLE_LIST);
    if (is_global(f, "__builtin__", "complex") || is_global(f, "builtins", "complex")) return make_complex(u, args);
    if (is_global(f, "__builtin__", "slice") || is_global(f, "builtins", "slice") || is_global(f, "torch", "device") ||
        is_global(f, "torch.serialization", "_get_layout"))
        return nbx_pickle_new(u, NBX_PICKLE_OTHER);
    return refuse(u, f);
}

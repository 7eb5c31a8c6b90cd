// Arguments of golden cases: from JSON and arrays to values on the device under test.
#include "conform.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// Absent from a library built without the random family.
#pragma weak nbx_generator_create_on

double arg_number(const nbx_json *number) {
    const char *text = nbx_json_string_or(number, NULL);
    if (!text) return nbx_json_number_or(number, NAN);
    if (!strcmp(text, "inf")) return INFINITY;
    if (!strcmp(text, "-inf")) return -INFINITY;
    if (!strcmp(text, "-0.0")) return -0.0;
    return NAN;
}

// ------------------------------------------------------------------------------------------------------ tensor facts
static bool read_sizes(test_case *c, const nbx_json *list, const char *what, int *count, int64_t *sizes) {
    if (!nbx_json_is(list, NBX_JSON_ARRAY) || list->count > NBX_MAX_RANK) return case_malformed(c, "%s is no list of up to 64 numbers", what);
    *count = (int)list->count;
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->as.items[i].kind != NBX_JSON_INT) return case_malformed(c, "%s holds something that is no integer", what);
        sizes[i] = list->as.items[i].as.integer;
    }
    return true;
}

static void dense_strides(tensor_arg *f) {
    int64_t step = 1;
    for (int d = f->rank; d-- > 0;) {
        f->stride[d] = step;
        if (f->shape[d] > 1) step *= f->shape[d];
    }
}

static bool read_dtype(test_case *c, const nbx_json *arg, tensor_arg *f) {
    const char *name = nbx_json_string_or(nbx_json_get(arg, "dtype"), NULL);
    f->dtype = name ? nbx_dtype_parse(name) : nbx_tensor_dtype(f->array);
    if (f->dtype == NBX_DTYPE_NONE) return case_malformed(c, "dtype '%.40s' is not known", name ? name : "");
    const size_t bytes = nbx_tensor_nbytes(f->array), size = nbx_dtype_bytes(f->dtype);
    if (bytes % size) return case_malformed(c, "an array of %zu bytes has no elements of %zu", bytes, size);
    f->count = (int64_t)(bytes / size);
    return true;
}

// The shape as given; else the array's own, without the last dim of a pair that is read as a complex number.
static bool read_shape(test_case *c, const nbx_json *arg, tensor_arg *f) {
    const nbx_json *shape = nbx_json_get(arg, "shape");
    if (shape) return read_sizes(c, shape, "shape", &f->rank, f->shape);
    f->rank = nbx_tensor_rank(f->array);
    memcpy(f->shape, nbx_tensor_shape(f->array), (size_t)f->rank * sizeof *f->shape);
    if (f->count == nbx_tensor_numel(f->array)) return true;
    if (f->rank && f->shape[f->rank - 1] == 2) f->rank--;
    else f->rank = 1, f->shape[0] = f->count;
    return true;
}

static bool read_base(test_case *c, const nbx_json *arg, tensor_arg *f) {
    const nbx_json *base = nbx_json_get(arg, "base");
    if (!base) return true;
    f->base_count = nbx_json_int_or(nbx_json_at(base, 0), 0);
    f->base_at = nbx_json_int_or(nbx_json_at(base, 1), -1);
    if (f->base_at < 0 || f->base_count < f->count || f->base_at > f->base_count - f->count) return case_malformed(c, "base does not hold the array");
    return true;
}

bool arg_tensor_facts(test_case *c, const nbx_json *arg, tensor_arg *f) {
    memset(f, 0, sizeof *f);
    const char *name = nbx_json_string_or(nbx_json_get(arg, "tensor"), NULL);
    if (!name || !nbx_tensors_has(c->arrays, name)) return case_malformed(c, "there is no array '%.60s'", name ? name : "");
    f->array = nbx_tensors_get(c->ctx, c->arrays, name);
    if (!f->array) {
        case_skip(c, "array '%.60s': %s", name, nbx_last_message(c->ctx));  // more dims than tensors may have
        return false;
    }
    if (!read_dtype(c, arg, f) || !read_shape(c, arg, f) || !read_base(c, arg, f)) return false;
    f->offset = nbx_json_int_or(nbx_json_get(arg, "offset"), f->base_at);
    const nbx_json *stride = nbx_json_get(arg, "stride");
    f->has_stride = stride != NULL;
    f->is_view = stride || nbx_json_get(arg, "offset") || f->base_count || nbx_json_get(arg, "storage");
    int64_t numel = 1;
    for (int d = 0; d < f->rank; d++) {
        if (f->shape[d] < 0 || (f->shape[d] && numel > INT64_MAX / f->shape[d])) return case_malformed(c, "shape holds no sizes");
        numel *= f->shape[d];
    }
    if (!stride) {
        dense_strides(f);
        if (!f->is_view && numel != f->count) return case_malformed(c, "array '%.60s' does not fill its shape", name);
        return true;
    }
    int count;
    if (!read_sizes(c, stride, "stride", &count, f->stride)) return false;
    return count == f->rank || case_malformed(c, "stride and shape differ in rank");
}

// ------------------------------------------------------------------------------------------------------------ tensors
typedef struct mapping {
    void *data;
    size_t bytes;
} mapping;

static void unmap(void *owner) {
    mapping *m = owner;
    munmap(m->data, m->bytes);
    free(m);
}

// A storage of base_count elements that are zero but for the array. It is mapped, so that untouched pages cost nothing.
static const nbx_tensor *mapped_base(test_case *c, const tensor_arg *f) {
    const size_t size = nbx_dtype_bytes(f->dtype);
    mapping *m = malloc(sizeof *m);
    if (!m || (uint64_t)f->base_count > ((uint64_t)1 << 46) / size) {
        free(m);
        case_skip(c, "a storage of %lld elements", (long long)f->base_count);
        return NULL;
    }
    m->bytes = (size_t)f->base_count * size;
    m->data = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->data == MAP_FAILED) {
        case_skip(c, "a storage of %zu bytes cannot be mapped", m->bytes);
        free(m);
        return NULL;
    }
    if (f->count) memcpy((char *)m->data + (size_t)f->base_at * size, nbx_tensor_data(f->array), (size_t)f->count * size);
    const nbx_device cpu = {NBX_CPU, 0};
    const int64_t shape[1] = {f->base_count};
    const nbx_tensor *t = nbx_tensor_wrap(c->ctx, cpu, f->dtype, 1, shape, NULL, m->data, m->bytes, unmap, m);
    if (!t) {
        unmap(m);
        case_fail(c, "%s", nbx_last_message(c->ctx));
        return NULL;
    }
    if (c->options->device.type == NBX_CPU) return t;
    if (m->bytes > (size_t)16 << 30) {
        case_skip(c, "a storage of %zu bytes", m->bytes);
        return NULL;
    }
    return nbx_tensor_to_device(c->ctx, t, c->options->device);
}

// The whole storage as a 1-D tensor of its own, on the device under test.
static const nbx_tensor *fresh_storage(test_case *c, const tensor_arg *f) {
    if (f->base_count) return mapped_base(c, f);
    const int64_t shape[1] = {f->count};
    return nbx_tensor_from_host(c->ctx, f->dtype, 1, shape, nbx_tensor_data(f->array));
}

static const nbx_tensor *storage_of(test_case *c, const nbx_json *arg, const tensor_arg *f) {
    const char *name = nbx_json_string_or(nbx_json_get(arg, "storage"), NULL);
    if (!name) return fresh_storage(c, f);
    for (int i = 0; i < c->shared_count; i++) {
        if (!strcmp(c->shared[i].name, name)) return c->shared[i].base;
    }
    const nbx_tensor *base = fresh_storage(c, f);
    if (base && c->shared_count < MAX_SHARED) {
        c->shared[c->shared_count].name = name;
        c->shared[c->shared_count++].base = base;
    }
    return base;
}

static bool make_tensor(test_case *c, const nbx_json *arg, nbx_value *value) {
    tensor_arg f;
    if (!arg_tensor_facts(c, arg, &f)) return false;
    const nbx_tensor *t = NULL;
    if (!f.is_view) {
        t = nbx_tensor_from_host(c->ctx, f.dtype, f.rank, f.shape, nbx_tensor_data(f.array));
    } else {
        const nbx_tensor *base = storage_of(c, arg, &f);
        if (base) t = nbx_tensor_view(c->ctx, base, f.dtype, f.rank, f.shape, f.stride, f.offset);
    }
    if (!t) return case_fail(c, "an argument cannot be made: %s", nbx_last_message(c->ctx));
    *value = nbx_of_tensor(t);
    return true;
}

// ------------------------------------------------------------------------------------------------------------- lists
static bool all_of_kind(const nbx_value *values, int count, int kind, int other) {
    for (int i = 0; i < count; i++) {
        if (values[i].kind != kind && values[i].kind != other) return false;
    }
    return count > 0;
}

static bool pack_list(test_case *c, const nbx_value *values, int count, nbx_value *list) {
    const bool tensors = all_of_kind(values, count, NBX_KIND_TENSOR, NBX_KIND_NONE);
    const bool ints = all_of_kind(values, count, NBX_KIND_INT, NBX_KIND_INT) || !count;
    const bool floats = all_of_kind(values, count, NBX_KIND_FLOAT, NBX_KIND_FLOAT);
    const bool bools = all_of_kind(values, count, NBX_KIND_BOOL, NBX_KIND_BOOL);
    void *memory = case_alloc(c, ((size_t)count + 1) * 8);
    if (!memory) return false;
    for (int i = 0; i < count; i++) {
        if (tensors) ((const nbx_tensor **)memory)[i] = values[i].kind == NBX_KIND_NONE ? NBX_NONE : values[i].as.tensor;
        if (ints) ((int64_t *)memory)[i] = values[i].as.integer;
        if (floats) ((double *)memory)[i] = values[i].as.real;
        if (bools) ((bool *)memory)[i] = values[i].as.boolean;
    }
    *list = tensors  ? nbx_of_tensors(memory, count)
            : ints   ? nbx_of_ints(memory, count)
            : floats ? nbx_of_floats(memory, count)
            : bools  ? nbx_of_bools(memory, count)
                     : nbx_of_values(values, count);
    return true;
}

static bool make_list(test_case *c, const nbx_json *items, nbx_value *list) {
    if (!nbx_json_is(items, NBX_JSON_ARRAY)) return case_malformed(c, "a list is no list");
    nbx_value *values = case_alloc(c, (items->count + 1) * sizeof *values);
    if (!values) return false;
    for (uint32_t i = 0; i < items->count; i++) {
        if (!arg_value(c, &items->as.items[i], &values[i])) return false;
    }
    return pack_list(c, values, (int)items->count, list);
}

// ------------------------------------------------------------------------------------------------------ everything else
// One of the CPU, or of a GPU: cases of the latter are skipped on the CPU.
static bool make_generator(test_case *c, const nbx_json *seed, bool of_gpu, nbx_value *value) {
    const nbx_device device = of_gpu ? c->options->device : (nbx_device){NBX_CPU, 0};
    if (of_gpu && device.type == NBX_CPU) return case_skip(c, "a generator of a GPU"), false;
    if (c->generator_count == MAX_GENERATORS) return case_malformed(c, "more than %d generators", MAX_GENERATORS);
    nbx_generator *g = !nbx_generator_create_on ? NULL : nbx_generator_create_on(c->ctx, device, (uint64_t)nbx_json_int_or(seed, 0));
    if (!g) return case_fail(c, "no generator: %s", nbx_last_message(c->ctx));
    c->generators[c->generator_count++] = g;
    *value = nbx_of_generator(g);
    return true;
}

static bool earlier_result(test_case *c, const nbx_json *place, nbx_value *value) {
    const int64_t call = nbx_json_int_or(nbx_json_at(place, 0), -1), k = nbx_json_int_or(nbx_json_at(place, 1), -1);
    if (call < 0 || (uint64_t)call >= c->before_count || k < 0) return case_malformed(c, "result names no earlier call");
    if (k >= c->before[call].count) return case_fail(c, "call %lld before has no result %lld", (long long)call, (long long)k);
    *value = c->before[call].values[k];
    return true;
}

static bool named_constant(test_case *c, const char *kind, const char *name, nbx_value *value) {
    static const char *const formats[] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};
    static const char *const layouts[] = {"strided", "sparse_coo", "sparse_csr", "mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"};
    if (!strcmp(kind, "dtype")) {
        *value = nbx_of_dtype(nbx_dtype_parse(name));
        return value->kind != NBX_KIND_NONE || case_malformed(c, "dtype '%.40s' is not known", name);
    }
    const bool layout = !strcmp(kind, "layout");
    const char *const *names = layout ? layouts : formats;
    for (int i = 0; i < (layout ? 8 : 4); i++) {
        if (strcmp(name, names[i])) continue;
        *value = layout ? nbx_of_int(i) : nbx_of_memory_format((nbx_memory_format)i);
        if (layout) value->kind = NBX_KIND_LAYOUT;
        return true;
    }
    return case_malformed(c, "%s '%.40s' is not known", kind, name);
}

static bool make_device(test_case *c, const char *name, nbx_value *value) {
    nbx_device device;
    if (!strcmp(name, "cpu")) device = c->options->device;
    else if (!strcmp(name, "meta") || !nbx_device_parse(name, &device)) {
        case_skip(c, "device %.40s", name);
        return false;
    }
    *value = nbx_of_device(device);
    return true;
}

bool arg_value(test_case *c, const nbx_json *arg, nbx_value *value) {
    if (!nbx_json_is(arg, NBX_JSON_OBJECT) || !arg->count) return case_malformed(c, "an argument is no object");
    const char *kind = arg->as.members[0].name;
    const nbx_json *content = &arg->as.members[0].value;
    const char *text = nbx_json_string_or(content, "");
    *value = nbx_of_none();
    if (!strcmp(kind, "tensor")) return make_tensor(c, arg, value);
    if (!strcmp(kind, "list")) return make_list(c, content, value);
    if (!strcmp(kind, "result")) return earlier_result(c, content, value);
    if (!strcmp(kind, "generator")) return make_generator(c, content, false, value);
    if (!strcmp(kind, "cuda_generator")) return make_generator(c, content, true, value);
    if (!strcmp(kind, "device")) return make_device(c, text, value);
    if (!strcmp(kind, "dtype") || !strcmp(kind, "layout") || !strcmp(kind, "memory_format")) return named_constant(c, kind, text, value);
    if (!strcmp(kind, "none")) return true;
    if (!strcmp(kind, "int") && content->kind == NBX_JSON_INT) *value = nbx_of_int(content->as.integer);
    else if (!strcmp(kind, "bool") && content->kind == NBX_JSON_BOOL) *value = nbx_of_bool(content->as.boolean);
    else if (!strcmp(kind, "float")) *value = nbx_of_float(arg_number(content));
    else if (!strcmp(kind, "string") && content->kind == NBX_JSON_STRING) *value = nbx_of_string(text);
    else if (!strcmp(kind, "complex")) *value = nbx_of_complex(arg_number(nbx_json_at(content, 0)), arg_number(nbx_json_at(content, 1)));
    else return case_malformed(c, "argument of unknown kind '%.40s'", kind);
    return true;
}

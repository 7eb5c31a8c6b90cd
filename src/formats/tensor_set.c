// Sets of named tensors: which file format it is, look-up by name, and what lies badly in a file put right.
#include "formats/tensor_set.h"

#include "core/memory.h"
#include "formats/destination.h"

#include <errno.h>
#include <string.h>

typedef struct entry {
    char *name;
    nbx_dtype dtype;
    int rank;
    int64_t *shape;   // [rank]
    int64_t *stride;  // [rank]; NULL: row-major
    nbx_bytes *owner;
    char *data;
    size_t bytes;
} entry;

typedef struct text_entry {
    char *key, *text;
} text_entry;

struct nbx_tensors {
    entry *entries;
    size_t count, capacity;
    uint32_t *table;  // [table_size]: entry + 1, by hash of the name; 0 is free
    size_t table_size;
    text_entry *metadata;
    size_t metadata_count;
};

// ----------------------------------------------------------------------------------------------------------- look-up
static uint32_t hash_bytes(const char *name, size_t bytes) {  // FNV-1a
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash;
}

static const entry *find(const nbx_tensors *set, const char *name, size_t bytes) {
    if (!set->table_size) return NULL;
    const size_t mask = set->table_size - 1;
    for (size_t slot = hash_bytes(name, bytes) & mask; set->table[slot]; slot = (slot + 1) & mask) {
        const entry *e = &set->entries[set->table[slot] - 1];
        if (strlen(e->name) == bytes && !memcmp(e->name, name, bytes)) return e;
    }
    return NULL;
}

static void put(nbx_tensors *set, size_t index) {
    const char *name = set->entries[index].name;
    const size_t mask = set->table_size - 1;
    size_t slot = hash_bytes(name, strlen(name)) & mask;
    while (set->table[slot]) slot = (slot + 1) & mask;
    set->table[slot] = (uint32_t)index + 1;
}

// Room for one more entry; the table stays at most half full.
static bool grow(nbx_tensors *set) {
    if (set->count < set->capacity) return true;
    const size_t capacity = set->capacity ? 2 * set->capacity : 16;
    entry *entries = nbx_realloc(set->entries, capacity * sizeof *entries);
    if (!entries) return false;
    set->entries = entries;
    uint32_t *table = nbx_alloc_zero(2 * capacity * sizeof *table);
    if (!table) return false;
    nbx_free(set->table);
    set->table = table;
    set->table_size = 2 * capacity;
    set->capacity = capacity;
    for (size_t i = 0; i < set->count; i++) put(set, i);
    return true;
}

size_t nbx_tensors_count(const nbx_tensors *set) { return set->count; }

const char *nbx_tensors_name(const nbx_tensors *set, size_t index) {
    return index < set->count ? set->entries[index].name : NULL;
}

bool nbx_tensors_has(const nbx_tensors *set, const char *name) { return find(set, name, strlen(name)); }

const char *nbx_tensors_metadata(const nbx_tensors *set, const char *key) {
    for (size_t i = 0; i < set->metadata_count; i++) {
        if (!strcmp(set->metadata[i].key, key)) return set->metadata[i].text;
    }
    return NULL;
}

static void release_owner(void *owner) { nbx_bytes_release(owner); }

static nbx_tensor *make_tensor(nbx_context *ctx, const entry *e) {
    const nbx_device cpu = {NBX_CPU, 0};
    nbx_bytes_retain(e->owner);
    nbx_tensor *t = nbx_tensor_wrap(ctx, cpu, e->dtype, e->rank, e->shape, e->stride, e->bytes ? e->data : NULL, e->bytes,
                                    release_owner, e->owner);
    if (!t) nbx_bytes_release(e->owner);
    return t;
}

nbx_tensor *nbx_tensors_get(nbx_context *ctx, const nbx_tensors *set, const char *name) {
    const entry *e = find(set, name, strlen(name));
    if (e) return make_tensor(ctx, e);
    nbx_fail(ctx, NBX_ERROR_ARGUMENT, "no tensor is called '%s'", name);
    return NULL;
}

nbx_tensor *nbx_tensors_at(nbx_context *ctx, const nbx_tensors *set, size_t index) {
    if (index < set->count) return make_tensor(ctx, &set->entries[index]);
    nbx_fail(ctx, NBX_ERROR_ARGUMENT, "tensor %zu of %zu", index, set->count);
    return NULL;
}

// ------------------------------------------------------------------------------------------------------------ adding
int64_t nbx_placed_bytes(nbx_dtype dtype, int rank, const int64_t *shape) {
    const int64_t numel = nbx_shape_numel(rank, shape), size = (int64_t)nbx_dtype_size(dtype);
    return numel < 0 || numel > INT64_MAX / size ? -1 : numel * size;
}

// What the processor must see aligned: an element, or half of a complex one.
static size_t part_bytes(nbx_dtype dtype) { return nbx_dtype_size(nbx_dtype_to_real(dtype)); }

static void reverse_parts(char *data, size_t bytes, size_t part) {
    for (char *at = data, *end = data + bytes; at < end; at += part) {
        for (size_t i = 0; i < part / 2; i++) {
            const char c = at[i];
            at[i] = at[part - 1 - i];
            at[part - 1 - i] = c;
        }
    }
}

// Takes the elements where they are, or a copy of them that is aligned and in our order of bytes.
static nbx_status take_elements(nbx_context *ctx, const char *path, const nbx_placed *placed, entry *e) {
    const size_t part = part_bytes(placed->dtype);
    const bool swap = placed->swapped && part > 1;
    e->data = placed->data;
    if ((!swap && !((uintptr_t)placed->data % part)) || !placed->bytes) {
        e->owner = nbx_bytes_retain(placed->owner);
        return NBX_OK;
    }
    e->owner = nbx_bytes_create(ctx, placed->bytes, path);
    if (!e->owner) return nbx_last_status(ctx);
    e->data = e->owner->data;
    memcpy(e->data, placed->data, placed->bytes);
    if (swap) reverse_parts(e->data, placed->bytes, part);
    return NBX_OK;
}

static void fortran_strides(int rank, const int64_t *shape, int64_t *stride) {
    int64_t step = 1;
    for (int d = 0; d < rank; d++) {
        stride[d] = step;
        if (shape[d] > 1) step *= shape[d];
    }
}

static void entry_clear(entry *e) {
    nbx_bytes_release(e->owner);
    nbx_free(e->name);
    nbx_free(e->shape);
}

static nbx_status fill_entry(nbx_context *ctx, const char *path, const nbx_placed *placed, entry *e) {
    const size_t rank = (size_t)placed->rank;
    e->dtype = placed->dtype;
    e->rank = placed->rank;
    e->bytes = placed->bytes;
    e->name = nbx_alloc(placed->name_bytes + 1);
    e->shape = nbx_alloc((2 * rank + 1) * sizeof *e->shape);
    if (!e->name || !e->shape) return nbx_fail_memory(ctx, placed->name_bytes, path);
    memcpy(e->name, placed->name, placed->name_bytes);
    e->name[placed->name_bytes] = 0;
    memcpy(e->shape, placed->shape, rank * sizeof *e->shape);
    if (placed->fortran && rank > 1) {
        e->stride = e->shape + rank;
        fortran_strides(placed->rank, e->shape, e->stride);
    }
    return take_elements(ctx, path, placed, e);
}

nbx_status nbx_tensors_add(nbx_context *ctx, nbx_tensors *set, const char *path, const nbx_placed *placed) {
    if (memchr(placed->name, 0, placed->name_bytes)) return nbx_fail(ctx, NBX_ERROR_FORMAT, "%s: a name holds a zero byte", path);
    if (find(set, placed->name, placed->name_bytes)) {
        return nbx_fail(ctx, NBX_ERROR_FORMAT, "%s: two tensors are called '%.*s'", path, (int)placed->name_bytes, placed->name);
    }
    if (set->count >= UINT32_MAX / 4 || !grow(set)) return nbx_fail_memory(ctx, (set->count + 1) * sizeof(entry), path);
    entry e = {0};
    const nbx_status status = fill_entry(ctx, path, placed, &e);
    if (status) {
        entry_clear(&e);
        return status;
    }
    set->entries[set->count] = e;
    put(set, set->count++);
    return NBX_OK;
}

nbx_status nbx_tensors_add_metadata(nbx_context *ctx, nbx_tensors *set, const char *path, const char *key, const char *text) {
    text_entry *grown = nbx_realloc(set->metadata, (set->metadata_count + 1) * sizeof *grown);
    if (!grown) return nbx_fail_memory(ctx, (set->metadata_count + 1) * sizeof *grown, path);
    set->metadata = grown;
    text_entry e = {nbx_strdup(key), nbx_strdup(text)};
    if (!e.key || !e.text) {
        nbx_free(e.key);
        nbx_free(e.text);
        return nbx_fail_memory(ctx, strlen(text), path);
    }
    set->metadata[set->metadata_count++] = e;
    return NBX_OK;
}

// ------------------------------------------------------------------------------------------------- loading and saving
static nbx_status read_any(nbx_context *ctx, nbx_tensors *set, const char *path, nbx_bytes *file) {
    if (!file->count) return nbx_fail(ctx, NBX_ERROR_FORMAT, "%s: the file is empty", path);
    // An archive without members starts with its end: numpy's with the plain one, ours with that of ZIP64.
    if (file->count >= 4 && (!memcmp(file->data, "PK\3\4", 4) || !memcmp(file->data, "PK\5\6", 4) || !memcmp(file->data, "PK\6\6", 4))) {
        return nbx_npz_read(ctx, set, path, file);
    }
    if (file->count >= 6 && !memcmp(file->data, "\x93NUMPY", 6)) {
        return nbx_npy_read(ctx, set, path, "arr_0", 5, file, file->data, file->count);
    }
    return nbx_safetensors_read(ctx, set, path, file);
}

nbx_status nbx_tensors_read(nbx_context *ctx, const char *path, nbx_bytes *file, nbx_tensors **out) {
    nbx_tensors *set = nbx_alloc_zero(sizeof *set);
    const nbx_status status = set ? read_any(ctx, set, path, file) : nbx_fail_memory(ctx, sizeof *set, path);
    if (status) nbx_tensors_destroy(set);
    *out = status ? NULL : set;
    return status;
}

nbx_status nbx_tensors_load(nbx_context *ctx, const char *path, nbx_tensors **out) {
    *out = NULL;
    nbx_bytes *file = nbx_bytes_map(ctx, path);
    if (!file) return nbx_last_status(ctx);
    const nbx_status status = nbx_tensors_read(ctx, path, file, out);
    nbx_bytes_release(file);
    return status;
}

void nbx_tensors_destroy(nbx_tensors *set) {
    if (!set) return;
    for (size_t i = 0; i < set->count; i++) entry_clear(&set->entries[i]);
    for (size_t i = 0; i < set->metadata_count; i++) {
        nbx_free(set->metadata[i].key);
        nbx_free(set->metadata[i].text);
    }
    nbx_free(set->entries);
    nbx_free(set->table);
    nbx_free(set->metadata);
    nbx_free(set);
}

nbx_status nbx_write_bytes(nbx_context *ctx, FILE *file, const char *path, const void *bytes, size_t count) {
    if (!count || fwrite(bytes, 1, count, file) == count) return NBX_OK;
    return nbx_fail(ctx, NBX_ERROR_IO, "%s: %s", path, strerror(errno));
}

nbx_status nbx_read_elements(nbx_context *ctx, const nbx_tensor *t,
                             nbx_status (*take)(nbx_context *, void *, const void *, size_t), void *arg) {
    const size_t bytes = nbx_tensor_nbytes(t);
    if (!bytes) return NBX_OK;
    if (nbx_tensor_device(t).type == NBX_CPU && nbx_tensor_is_contiguous(t, NBX_CONTIGUOUS_FORMAT)) {
        return take(ctx, arg, nbx_tensor_data(t), bytes);
    }
    nbx_bytes *copy = nbx_bytes_create(ctx, bytes, "a tensor to be written");
    if (!copy) return nbx_last_status(ctx);
    nbx_status status = nbx_tensor_read(ctx, t, copy->data);
    if (!status) status = take(ctx, arg, copy->data, bytes);
    nbx_bytes_release(copy);
    return status;
}

typedef struct target {
    FILE *file;
    const char *path;
} target;

static nbx_status write_taken(nbx_context *ctx, void *arg, const void *bytes, size_t count) {
    const target *to = arg;
    return nbx_write_bytes(ctx, to->file, to->path, bytes, count);
}

nbx_status nbx_write_elements(nbx_context *ctx, FILE *file, const char *path, const nbx_tensor *t) {
    target to = {file, path};
    return nbx_read_elements(ctx, t, write_taken, &to);
}

static bool ends_with(const char *path, const char *ending) {
    const size_t a = strlen(path), b = strlen(ending);
    return a >= b && !strcmp(path + a - b, ending);
}

typedef enum format { FORMAT_UNKNOWN, FORMAT_SAFETENSORS, FORMAT_NPZ, FORMAT_NPY } format;

static format format_of(const char *path) {
    if (ends_with(path, ".safetensors")) return FORMAT_SAFETENSORS;
    if (ends_with(path, ".npz")) return FORMAT_NPZ;
    return ends_with(path, ".npy") ? FORMAT_NPY : FORMAT_UNKNOWN;
}

static nbx_status check_to_write(nbx_context *ctx, const char *path, const nbx_to_write *list, size_t count) {
    if (format_of(path) == FORMAT_UNKNOWN) {
        return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "%s: the name must end in .safetensors, .npz or .npy", path);
    }
    if (format_of(path) == FORMAT_NPY && count != 1) {
        return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "%s: an .npy file holds one tensor, not %zu", path, count);
    }
    for (size_t i = 0; i < count; i++) {
        if (!list[i].tensor || list[i].tensor == NBX_NONE) {
            return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "%s: '%s' is no tensor", path, list[i].name);
        }
        for (size_t j = 0; j < i; j++) {
            if (!strcmp(list[i].name, list[j].name)) {
                return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "%s: two tensors are called '%s'", path, list[i].name);
            }
        }
    }
    return NBX_OK;
}

static nbx_status write_file(nbx_context *ctx, const char *path, const nbx_to_write *list, size_t count) {
    nbx_status status = check_to_write(ctx, path, list, count);
    if (status) return status;
    nbx_destination d;
    if (!nbx_destination_open(&d, path)) return nbx_fail(ctx, NBX_ERROR_IO, "%s: %s", path, strerror(errno));
    const format f = format_of(path);
    status = f == FORMAT_NPY   ? nbx_npy_write(ctx, d.file, path, list[0].tensor)
             : f == FORMAT_NPZ ? nbx_npz_write(ctx, d.file, path, list, count)
                               : nbx_safetensors_write(ctx, d.file, path, list, count);
    return nbx_destination_close(ctx, &d, path, status);
}

nbx_status nbx_tensors_save(nbx_context *ctx, const char *path, const char *const *names, const nbx_tensor *const *tensors,
                            size_t count) {
    nbx_to_write *list = nbx_alloc((count + 1) * sizeof *list);
    if (!list) return nbx_fail_memory(ctx, count * sizeof *list, path);
    for (size_t i = 0; i < count; i++) list[i] = (nbx_to_write){names ? names[i] : "", tensors[i]};
    const nbx_status status = write_file(ctx, path, list, count);
    nbx_free(list);
    return status;
}

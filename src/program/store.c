// The stored tensors of a model: a table name -> {storage, dtype, sizes, strides, offset}, from a config in JSON (layout C) or
// from a torch.save archive inside the archive (layouts A and B). A storage is made when its first tensor is asked for.
#include <string.h>

#include "core/memory.h"
#include "program/archive_parts.h"
#include "program/json.h"

enum { IN_PLACE_ALIGNMENT = 16 };  // the widest element; kernels take vectors from anywhere

typedef struct storages {
    const nbx_zip *zip;      // where the raw files lie
    nbx_storage **by_entry;  // [entries of zip], made on demand
    size_t bytes, mapped;
} storages;

struct nbx_store {
    const char *label;       // "model.pt2: weights"
    nbx_bytes *owner;        // of all raw bytes
    nbx_arena arena;
    const char *folder;      // of the raw files, with a slash at its end
    nbx_zip *inner;          // the torch.save archive
    storages storages;
    nbx_json_document *config;
    const nbx_json *tensors; // of the config: name -> payload
    const nbx_pickled *dict;
    nbx_name_map names;      // of the dict: index of the value
};

static bool fail(nbx_context *ctx, const nbx_store *store, const char *name, const char *what) {
    nbx_fail(ctx, NBX_ERROR_FORMAT, "%s: \"%s\": %s", store->label, name, what);
    return false;
}

// ------------------------------------------------------------------------------------------------------------ storages
static void release_mapped(nbx_storage *storage) { nbx_bytes_release(storage->owner); }

static nbx_storage *make_storage(nbx_context *ctx, storages *s, nbx_bytes *owner, const nbx_zip_entry *entry, nbx_device device) {
    const nbx_device host = {NBX_CPU, 0};
    const size_t bytes = (size_t)entry->bytes;
    const bool in_place = device.type == NBX_CPU && (uintptr_t)entry->data % IN_PLACE_ALIGNMENT == 0;
    nbx_storage *storage;
    if (in_place && bytes) {
        storage = nbx_storage_wrap(ctx, device, bytes, (void *)(uintptr_t)entry->data, release_mapped, owner);
        if (storage) nbx_bytes_retain(owner), s->mapped += bytes;
    } else {
        storage = nbx_storage_create(ctx, device, bytes);
        if (storage && bytes && nbx_copy_bytes(ctx, device, storage->data, host, entry->data, bytes) != NBX_OK) {
            nbx_storage_release(storage);
            storage = NULL;
        }
    }
    if (storage) s->bytes += bytes;
    return storage;
}

static nbx_storage *storage_of(nbx_context *ctx, storages *s, nbx_bytes *owner, const nbx_zip_entry *entry, nbx_device device) {
    if (!s->by_entry) {
        s->by_entry = nbx_alloc_zero(nbx_zip_count(s->zip) * sizeof *s->by_entry);
        if (!s->by_entry) return nbx_fail_memory(ctx, nbx_zip_count(s->zip) * sizeof *s->by_entry, "weights"), NULL;
    }
    nbx_storage **place = &s->by_entry[entry - nbx_zip_at(s->zip, 0)];
    if (!*place) *place = make_storage(ctx, s, owner, entry, device);
    return *place;
}

static void free_storages(storages *s) {
    for (size_t i = 0; s->by_entry && i < nbx_zip_count(s->zip); i++) nbx_storage_release(s->by_entry[i]);
    nbx_free(s->by_entry);
}

typedef struct placed {
    nbx_dtype dtype;
    int rank;
    int64_t offset;
    const int64_t *shape, *strides;
} placed;

static nbx_tensor *place_tensor(nbx_context *ctx, nbx_store *store, const char *name, const char *file, const placed *p,
                                nbx_device device) {
    const nbx_zip_entry *entry = nbx_zip_find(store->storages.zip, file);
    if (!entry) return fail(ctx, store, name, "its file is missing in the archive"), NULL;
    if (entry->method != 0) return fail(ctx, store, name, "its file is packed; PyTorch stores entries as they are"), NULL;
    for (int i = 0; i < p->rank; i++)
        if (p->shape[i] < 0 || p->strides[i] < 0) return fail(ctx, store, name, "a negative size or stride"), NULL;
    const int64_t extent = p->offset < 0 ? -1 : nbx_extent_bytes(p->dtype, p->rank, p->shape, p->strides, p->offset);
    if (extent < 0) return fail(ctx, store, name, "its sizes, strides and offset overflow"), NULL;
    if ((uint64_t)extent > entry->bytes) {
        nbx_fail(ctx, NBX_ERROR_FORMAT, "%s: \"%s\" needs %lld bytes, but its file %s has only %llu", store->label, name,
                 (long long)extent, file, (unsigned long long)entry->bytes);
        return NULL;
    }
    nbx_storage *storage = storage_of(ctx, &store->storages, store->owner, entry, device);
    if (!storage) return NULL;
    return nbx_tensor_new(ctx, p->dtype, p->rank, p->shape, p->strides, p->offset, storage);
}

// ------------------------------------------------------------------------------------------------- torch.save archives
// The folder of the only */data.pkl, "archive/" for instance.
static const char *find_folder(nbx_context *ctx, nbx_arena *arena, const nbx_zip *zip) {
    for (size_t i = 0; i < nbx_zip_count(zip); i++) {
        const char *name = nbx_zip_at(zip, i)->name, *slash = strchr(name, '/');
        if (slash && strcmp(slash, "/data.pkl") == 0) return nbx_arena_text(ctx, arena, name, (size_t)(slash - name) + 1);
    }
    return NULL;
}

static bool is_big_endian(const nbx_zip_entry *entry) {
    return entry && entry->bytes >= 3 && entry->data && memcmp(entry->data, "big", 3) == 0;
}

static const nbx_pickled *open_saved(nbx_context *ctx, nbx_store *store, const nbx_zip_entry *outer) {
    if (outer->method != 0) return fail(ctx, store, outer->name, "is packed; PyTorch stores entries as they are"), NULL;
    store->inner = nbx_zip_open(ctx, store->label, outer->data, (size_t)outer->bytes);
    if (!store->inner) return NULL;
    store->storages.zip = store->inner;
    const char *folder = find_folder(ctx, &store->arena, store->inner);
    if (!folder) return fail(ctx, store, outer->name, "has no data.pkl"), NULL;
    const char *pickle = nbx_archive_path(ctx, &store->arena, folder, "data.pkl", "", "");
    const char *order = nbx_archive_path(ctx, &store->arena, folder, "byteorder", "", "");
    store->folder = nbx_archive_path(ctx, &store->arena, folder, "data/", "", "");
    if (!pickle || !order || !store->folder) return NULL;
    if (is_big_endian(nbx_zip_find(store->inner, order))) {
        nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s: its tensors are written in big-endian order, which is not read", store->label);
        return NULL;
    }
    const nbx_zip_entry *entry = nbx_zip_find(store->inner, pickle);
    if (!entry || nbx_zip_check(ctx, store->label, entry) != NBX_OK) return NULL;
    return nbx_pickle_read(ctx, &store->arena, store->label, entry->data, (size_t)entry->bytes);
}

static nbx_tensor *saved_tensor(nbx_context *ctx, nbx_store *store, const char *name, const nbx_pickled_tensor *t, nbx_device device) {
    const char *file = nbx_archive_path(ctx, &store->arena, store->folder, t->storage->key, "", "");
    const placed p = {t->dtype, t->rank, t->offset, t->shape, t->strides};
    return file ? place_tensor(ctx, store, name, file, &p, device) : NULL;
}

static bool index_dict(nbx_context *ctx, nbx_store *store) {
    if (store->dict->kind != NBX_PICKLE_DICT) return fail(ctx, store, "data.pkl", "is no dict of tensors");
    for (uint32_t i = 0; i + 1 < store->dict->count; i += 2) {
        const nbx_pickled *key = store->dict->as.items[i];
        if (key->kind != NBX_PICKLE_TEXT || memchr(key->as.text, 0, key->count)) return fail(ctx, store, "data.pkl", "has a key that is no name");
        const char *name = nbx_arena_text(ctx, &store->arena, key->as.text, key->count);
        int32_t value;
        if (!name) return false;
        const nbx_added added = nbx_name_add(ctx, &store->arena, &store->names, name, (int32_t)i + 1, &value);
        if (added == NBX_ADDED_FAILED) return false;
        if (added == NBX_ADDED_BEFORE) return fail(ctx, store, name, "occurs twice");
    }
    return true;
}

// ---------------------------------------------------------------------------------------------------- configs in JSON
// A size: {"as_int": 3}, or a bare 3.
static bool read_size(const nbx_json *v, int64_t *size) {
    if (nbx_json_is(v, NBX_JSON_OBJECT)) v = nbx_json_get(v, "as_int");
    if (!nbx_json_is(v, NBX_JSON_INT)) return false;
    *size = v->as.integer;
    return true;
}

static bool read_sizes(const nbx_json *list, int64_t *sizes, int *rank) {
    if (!nbx_json_is(list, NBX_JSON_ARRAY) || list->count > NBX_MAX_RANK) return false;
    *rank = (int)list->count;
    for (int i = 0; i < *rank; i++)
        if (!read_size(&list->as.items[i], &sizes[i])) return false;
    return true;
}

static nbx_tensor *config_tensor(nbx_context *ctx, nbx_store *store, const char *name, nbx_device device) {
    const nbx_json *payload = nbx_json_get(store->tensors, name);
    const nbx_json *meta = nbx_json_get(payload, "tensor_meta");
    const char *path = nbx_json_string_or(nbx_json_get(payload, "path_name"), NULL);
    if (!path || strlen(path) != nbx_json_get(payload, "path_name")->count) return fail(ctx, store, name, "has no path_name"), NULL;
    if (nbx_json_bool_or(nbx_json_get(payload, "use_pickle"), false) || !nbx_json_is(meta, NBX_JSON_OBJECT)) {
        nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s: \"%s\" is a pickled object (%s); only plain tensors are read", store->label, name, path);
        return NULL;
    }
    int64_t shape[NBX_MAX_RANK], strides[NBX_MAX_RANK];
    placed p = {.shape = shape, .strides = strides};
    int ranks[2];
    const nbx_json *dtype = nbx_json_get(meta, "dtype"), *layout = nbx_json_get(meta, "layout");
    if (!read_sizes(nbx_json_get(meta, "sizes"), shape, &ranks[0]) || !read_sizes(nbx_json_get(meta, "strides"), strides, &ranks[1]) ||
        ranks[0] != ranks[1] || !read_size(nbx_json_get(meta, "storage_offset"), &p.offset) || !nbx_json_is(dtype, NBX_JSON_INT))
        return fail(ctx, store, name, "its sizes, strides, offset or dtype are malformed"), NULL;
    p.rank = ranks[0];
    p.dtype = nbx_dtype_from_program((int)dtype->as.integer);
    if (p.dtype == NBX_DTYPE_NONE || nbx_json_int_or(layout, 7) != 7) {
        nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s: \"%s\" has dtype number %lld and layout number %lld, which are not supported",
                 store->label, name, (long long)dtype->as.integer, (long long)nbx_json_int_or(layout, 7));
        return NULL;
    }
    const char *file = nbx_archive_path(ctx, &store->arena, store->folder, path, "", "");
    return file ? place_tensor(ctx, store, name, file, &p, device) : NULL;
}

static bool open_config(nbx_context *ctx, nbx_store *store, const nbx_archive *archive, const nbx_zip_entry *entry, bool constants) {
    if (nbx_zip_check(ctx, archive->label, entry) != NBX_OK) return false;
    store->config = nbx_json_create(ctx, store->label, (const char *)entry->data, (size_t)entry->bytes);
    if (!store->config) return false;
    store->tensors = nbx_json_get(nbx_json_root(store->config), "config");
    if (!nbx_json_is(store->tensors, NBX_JSON_OBJECT)) return fail(ctx, store, entry->name, "has no \"config\"");
    store->storages.zip = archive->zip;
    store->folder = nbx_archive_path(ctx, &store->arena, archive->top, constants ? "data/constants/" : "data/weights/", "", "");
    return store->folder != NULL;
}

// -------------------------------------------------------------------------------------------------------------- public
static bool fill_store(nbx_context *ctx, nbx_store *store, const nbx_archive *archive, int model, bool constants) {
    const nbx_archive_model *m = &archive->models[model];
    store->owner = nbx_bytes_retain(archive->bytes);
    store->label = nbx_archive_path(ctx, &store->arena, archive->label, ": ", constants ? "constants" : "weights", "");
    if (!store->label) return false;
    if (m->config[constants]) return open_config(ctx, store, archive, m->config[constants], constants);
    if (!m->pickled[constants] || !m->pickled[constants]->bytes) return true;
    store->dict = open_saved(ctx, store, m->pickled[constants]);
    return store->dict && index_dict(ctx, store);
}

nbx_store *nbx_store_open(nbx_context *ctx, const nbx_archive *archive, int model, bool constants) {
    nbx_store *store = nbx_alloc_zero(sizeof *store);
    if (!store) return nbx_fail_memory(ctx, sizeof *store, "weights"), NULL;
    if (fill_store(ctx, store, archive, model, constants)) return store;
    nbx_store_close(store);
    return NULL;
}

void nbx_store_close(nbx_store *store) {
    if (!store) return;
    free_storages(&store->storages);
    nbx_zip_close(store->inner);
    nbx_json_destroy(store->config);
    nbx_bytes_release(store->owner);
    nbx_arena_free(&store->arena);
    nbx_free(store);
}

bool nbx_store_has(const nbx_store *store, const char *name) {
    if (store->tensors) return nbx_json_get(store->tensors, name) != NULL;
    return nbx_name_find(&store->names, name) >= 0;
}

nbx_tensor *nbx_store_tensor(nbx_context *ctx, nbx_store *store, const char *name, nbx_device device) {
    if (!nbx_store_has(store, name)) return fail(ctx, store, name, "is not in the archive"), NULL;
    if (store->tensors) return config_tensor(ctx, store, name, device);
    const nbx_pickled *v = store->dict->as.items[nbx_name_find(&store->names, name)];
    if (v->kind == NBX_PICKLE_TENSOR) return saved_tensor(ctx, store, name, v->as.tensor, device);
    nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s: \"%s\" is no tensor; only plain tensors are read", store->label, name);
    return NULL;
}

size_t nbx_store_bytes(const nbx_store *store, size_t *mapped) {
    *mapped = store->storages.mapped;
    return store->storages.bytes;
}

bool nbx_store_is_mapped(const nbx_storage *storage) {
    return storage->release == release_mapped && ((const nbx_bytes *)storage->owner)->mapped;
}

void nbx_store_rest(const nbx_storage *storage) {
    if (nbx_store_is_mapped(storage)) nbx_bytes_rest_part(storage->owner, storage->data, storage->bytes);
}

// ------------------------------------------------------------------------------------------------------- sample inputs
struct nbx_samples {
    nbx_store store;
    const nbx_pickled *root;
};

nbx_samples *nbx_samples_open(nbx_context *ctx, const nbx_archive *archive, int model) {
    const nbx_zip_entry *entry = archive->models[model].samples;
    if (!entry || !entry->bytes) return NULL;
    nbx_samples *samples = nbx_alloc_zero(sizeof *samples);
    if (!samples) return nbx_fail_memory(ctx, sizeof *samples, "sample inputs"), NULL;
    samples->store.owner = nbx_bytes_retain(archive->bytes);
    samples->store.label = nbx_archive_path(ctx, &samples->store.arena, archive->label, ": ", "sample inputs", "");
    samples->root = samples->store.label ? open_saved(ctx, &samples->store, entry) : NULL;
    if (samples->root) return samples;
    nbx_samples_close(samples);
    return NULL;
}

void nbx_samples_close(nbx_samples *samples) {
    if (!samples) return;
    free_storages(&samples->store.storages);
    nbx_zip_close(samples->store.inner);
    nbx_bytes_release(samples->store.owner);
    nbx_arena_free(&samples->store.arena);
    nbx_free(samples);
}

const nbx_pickled *nbx_samples_root(const nbx_samples *samples) { return samples->root; }

nbx_tensor *nbx_samples_tensor(nbx_context *ctx, nbx_samples *samples, const nbx_pickled_tensor *t) {
    const nbx_device host = {NBX_CPU, 0};
    return saved_tensor(ctx, &samples->store, "input", t, host);
}

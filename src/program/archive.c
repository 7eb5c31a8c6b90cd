// Finds the layout of an archive and the entries that belong to each model. The tensors are read in store.c.
#include "program/archive_parts.h"

#include <stdio.h>
#include <string.h>

#include "core/memory.h"

static bool ends_with(const char *text, const char *end) {
    const size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static bool fail(nbx_context *ctx, const nbx_archive *archive, const char *what) {
    nbx_fail(ctx, NBX_ERROR_FORMAT, "%s: %s", archive->label, what);
    return false;
}

const char *nbx_archive_path(nbx_context *ctx, nbx_arena *arena, const char *top, const char *folder, const char *name,
                             const char *suffix) {
    const size_t length = strlen(top) + strlen(folder) + strlen(name) + strlen(suffix);
    char *path = nbx_arena_alloc(ctx, arena, length + 1);
    if (path) snprintf(path, length + 1, "%s%s%s%s", top, folder, name, suffix);
    return path;
}

const nbx_zip_entry *nbx_archive_find(nbx_context *ctx, nbx_archive *archive, const char *folder, const char *name,
                                      const char *suffix, bool *failed) {
    const char *path = nbx_archive_path(ctx, &archive->arena, archive->top, folder, name, suffix);
    if (!path) return *failed = true, NULL;
    return nbx_zip_find(archive->zip, path);
}

static bool entry_holds(const nbx_zip_entry *entry, const char *text) {
    size_t bytes = (size_t)entry->bytes;
    if (!entry->data || entry->method != 0) return false;
    while (bytes && (entry->data[bytes - 1] == '\n' || entry->data[bytes - 1] == ' ')) bytes--;
    return bytes == strlen(text) && memcmp(entry->data, text, bytes) == 0;
}

// ------------------------------------------------------------------------------------------------------------ layout A
static const nbx_zip_entry *find_either(const nbx_zip *zip, const char *name, const char *other) {
    const nbx_zip_entry *entry = nbx_zip_find(zip, name);
    return entry ? entry : nbx_zip_find(zip, other);
}

static bool open_old(nbx_context *ctx, nbx_archive *archive, const nbx_zip_entry *program) {
    nbx_archive_model *model = nbx_arena_alloc(ctx, &archive->arena, sizeof *model);
    if (!model) return false;
    model->name = "model";
    model->text = program;
    model->pickled[0] = find_either(archive->zip, "serialized_state_dict.pt", "serialized_state_dict.json");
    model->pickled[1] = find_either(archive->zip, "serialized_constants.pt", "serialized_constants.json");
    model->samples = find_either(archive->zip, "serialized_example_inputs.pt", "serialized_example_inputs.json");
    archive->models = model;
    archive->model_count = 1;
    return true;
}

// ------------------------------------------------------------------------------------------------------ layouts B and C
static bool find_top(nbx_context *ctx, nbx_archive *archive) {
    for (size_t i = 0; i < nbx_zip_count(archive->zip); i++) {
        const char *name = nbx_zip_at(archive->zip, i)->name;
        const char *slash = strchr(name, '/');
        if (!slash || strcmp(slash, "/archive_format") != 0) continue;
        if (!entry_holds(nbx_zip_at(archive->zip, i), "pt2")) return fail(ctx, archive, "archive_format is not pt2");
        archive->top = nbx_arena_text(ctx, &archive->arena, name, (size_t)(slash - name) + 1);
        return archive->top != NULL;
    }
    return fail(ctx, archive, "a ZIP archive, but no exported program (it has no archive_format; was it written by torch.export.save?)");
}

static bool check_byteorder(nbx_context *ctx, nbx_archive *archive) {
    bool failed = false;
    const nbx_zip_entry *entry = nbx_archive_find(ctx, archive, "", "byteorder", "", &failed);
    if (failed || !entry || entry_holds(entry, "little")) return !failed;
    nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s: its tensors are written in big-endian order, which is not read", archive->label);
    return false;
}

static bool add_model(nbx_context *ctx, nbx_archive *archive, nbx_archive_model *model, const nbx_zip_entry *entry) {
    const char *name = entry->name + strlen(archive->top) + strlen("models/");
    bool failed = false;
    model->name = nbx_arena_text(ctx, &archive->arena, name, strlen(name) - strlen(".json"));
    if (!model->name) return false;
    model->text = entry;
    model->config[0] = nbx_archive_find(ctx, archive, "data/weights/", model->name, "_weights_config.json", &failed);
    model->config[1] = nbx_archive_find(ctx, archive, "data/constants/", model->name, "_constants_config.json", &failed);
    model->pickled[0] = nbx_archive_find(ctx, archive, "data/weights/", model->name, ".pt", &failed);
    model->pickled[1] = nbx_archive_find(ctx, archive, "data/constants/", model->name, ".pt", &failed);
    model->samples = nbx_archive_find(ctx, archive, "data/sample_inputs/", model->name, ".pt", &failed);
    return !failed;
}

static bool is_model(const nbx_archive *archive, const char *name) {
    const size_t top = strlen(archive->top);
    return strncmp(name, archive->top, top) == 0 && strncmp(name + top, "models/", 7) == 0 && ends_with(name, ".json") &&
           strlen(name) > top + strlen("models/.json") && !strchr(name + top + 7, '/');
}

static bool open_new(nbx_context *ctx, nbx_archive *archive) {
    if (!find_top(ctx, archive) || !check_byteorder(ctx, archive)) return false;
    const size_t count = nbx_zip_count(archive->zip);
    size_t models = 0;
    for (size_t i = 0; i < count; i++) models += is_model(archive, nbx_zip_at(archive->zip, i)->name);
    if (!models) return fail(ctx, archive, "no exported program in it (there is no models/NAME.json; a compiled AOTInductor package?)");
    archive->models = nbx_arena_array(ctx, &archive->arena, models, sizeof *archive->models);
    if (!archive->models) return false;
    for (size_t i = 0; i < count; i++) {
        const nbx_zip_entry *entry = nbx_zip_at(archive->zip, i);
        if (is_model(archive, entry->name) && !add_model(ctx, archive, &archive->models[archive->model_count++], entry)) return false;
    }
    return true;
}

// -------------------------------------------------------------------------------------------------------------- public
static bool read_archive(nbx_context *ctx, nbx_archive *archive, const char *label) {
    archive->label = nbx_arena_text(ctx, &archive->arena, label, strlen(label));
    if (!archive->label) return false;
    archive->top = "";
    archive->zip = nbx_zip_open(ctx, label, archive->bytes->data, archive->bytes->count);
    if (!archive->zip) return false;
    const nbx_zip_entry *old = nbx_zip_find(archive->zip, "serialized_exported_program.json");
    return old ? open_old(ctx, archive, old) : open_new(ctx, archive);
}

nbx_archive *nbx_archive_open(nbx_context *ctx, const char *label, nbx_bytes *bytes) {
    nbx_archive *archive = nbx_alloc_zero(sizeof *archive);
    if (!archive) return nbx_fail_memory(ctx, sizeof *archive, "an archive"), NULL;
    archive->bytes = nbx_bytes_retain(bytes);
    if (read_archive(ctx, archive, label)) return archive;
    nbx_archive_close(archive);
    return NULL;
}

void nbx_archive_close(nbx_archive *archive) {
    if (!archive) return;
    nbx_zip_close(archive->zip);
    nbx_bytes_release(archive->bytes);
    nbx_arena_free(&archive->arena);
    nbx_free(archive);
}

int nbx_archive_model_count(const nbx_archive *archive) { return archive->model_count; }
const char *nbx_archive_model_name(const nbx_archive *archive, int model) { return archive->models[model].name; }

nbx_status nbx_archive_model_text(nbx_context *ctx, const nbx_archive *archive, int model, const char **text, size_t *bytes) {
    const nbx_zip_entry *entry = archive->models[model].text;
    *text = (const char *)entry->data;
    *bytes = (size_t)entry->bytes;
    return nbx_zip_check(ctx, archive->label, entry);
}

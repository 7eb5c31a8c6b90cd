// What a program says about itself: models, inputs, outputs, weights, operators, and its sample inputs.
#include <stdlib.h>
#include <string.h>

#include "program/program_parts.h"

const char *nbx_program_model_name(const nbx_program *p, int index) {
    return index >= 0 && index < nbx_archive_model_count(p->archive) ? nbx_archive_model_name(p->archive, index) : NULL;
}

const char *nbx_program_torch_version(const nbx_program *p) { return p->torch_version; }

int nbx_program_input_count(const nbx_program *p) { return p->input_count; }
int nbx_program_output_count(const nbx_program *p) { return p->output_count; }
int nbx_program_weight_count(const nbx_program *p) { return p->weight_count; }
int nbx_program_operator_count(const nbx_program *p) { return p->operator_count; }

const nbx_program_value *nbx_program_input(const nbx_program *p, int index) {
    return index >= 0 && index < p->input_count ? &p->inputs[index] : NULL;
}
const nbx_program_value *nbx_program_fixed_input(const nbx_program *p, int index) {
    return index >= 0 && index < p->fixed_count ? &p->fixed[index] : NULL;
}
const nbx_program_value *nbx_program_output(const nbx_program *p, int index) {
    return index >= 0 && index < p->output_count ? &p->outputs[index] : NULL;
}
const nbx_program_weight *nbx_program_weight_at(const nbx_program *p, int index) {
    return index >= 0 && index < p->weight_count ? &p->weights[index] : NULL;
}
const nbx_program_operator *nbx_program_operator_at(const nbx_program *p, int index) {
    return index >= 0 && index < p->operator_count ? &p->operators[index] : NULL;
}

int nbx_program_find_input(const nbx_program *p, const char *name) {
    for (int i = 0; i < p->input_count; i++)
        if (strcmp(p->inputs[i].name, name) == 0) return i;
    for (int i = 0; i < p->input_count; i++)
        if (strcmp(p->inputs[i].path, name) == 0) return i;
    if (strncmp(name, "input_", 6) == 0 && name[6] && strspn(name + 6, "0123456789") == strlen(name + 6) && strlen(name) < 15) {
        const int i = atoi(name + 6);
        if (i < p->input_count) return i;
    }
    return -1;
}

// -------------------------------------------------------------------------------------------------------- sample inputs
typedef struct flattener {
    nbx_context *ctx;
    const nbx_program *p;
    nbx_samples *samples;
    nbx_value *inputs;
    int capacity, seen, given;
    int budget;  // values that may still be visited: containers may hold each other
} flattener;

static bool is_plain(nbx_kind kind) { return kind == NBX_KIND_INT || kind == NBX_KIND_FLOAT || kind == NBX_KIND_BOOL; }

// Leaves come in the order of all inputs, fixed ones included; those are skipped.
static bool is_fixed_leaf(const flattener *f) {
    for (int32_t i = 0, leaf = 0; i < f->p->graph->input_count; i++) {
        const nbx_source *s = &f->p->sources[i];
        if (s->kind == NBX_SOURCE_WEIGHT || s->kind == NBX_SOURCE_TOKEN) continue;
        if (leaf++ == f->seen) return s->kind == NBX_SOURCE_FIXED;
    }
    return true;
}

static bool take_leaf(flattener *f, const nbx_pickled *v) {
    const bool fixed = is_fixed_leaf(f);
    f->seen++;
    if (fixed) return true;
    if (f->given == f->capacity) return false;
    nbx_value *input = &f->inputs[f->given++];
    if (v->kind == NBX_PICKLE_TENSOR) {
        const nbx_tensor *t = nbx_scope_own(f->ctx, nbx_samples_tensor(f->ctx, f->samples, v->as.tensor));
        if (!t) return false;
        t = nbx_tensor_to_device(f->ctx, t, f->p->device);
        *input = nbx_of_tensor(t);
        return t != NULL;
    }
    *input = v->kind == NBX_PICKLE_INT     ? nbx_of_int(v->as.integer)
             : v->kind == NBX_PICKLE_FLOAT ? nbx_of_float(v->as.real)
             : v->kind == NBX_PICKLE_BOOL  ? nbx_of_bool(v->as.boolean)
                                           : nbx_of_none();
    return is_plain((nbx_kind)input->kind);
}

static bool flatten(flattener *f, const nbx_pickled *v, int depth) {
    if (depth > 64 || f->budget-- <= 0) return false;
    switch (v->kind) {
    case NBX_PICKLE_TUPLE: case NBX_PICKLE_LIST:
        for (uint32_t i = 0; i < v->count; i++)
            if (!flatten(f, v->as.items[i], depth + 1)) return false;
        return true;
    case NBX_PICKLE_DICT:
        for (uint32_t i = 1; i < v->count; i += 2)
            if (!flatten(f, v->as.items[i], depth + 1)) return false;
        return true;
    default: return take_leaf(f, v);
    }
}

static nbx_status no_samples(nbx_context *ctx, const nbx_program *p, const char *why) {
    const nbx_status status = nbx_last_status(ctx);
    if (status == NBX_ERROR_MEMORY) return status;
    nbx_clear_error(ctx);
    return nbx_fail(ctx, NBX_ERROR_UNSUPPORTED, "%s: %s", p->label, why);
}

nbx_status nbx_program_sample_inputs(nbx_context *ctx, const nbx_program *p, nbx_value *inputs, int capacity) {
    if (capacity < p->input_count)
        return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "the program takes %d inputs, there is room for %d", p->input_count, capacity);
    nbx_samples *samples = nbx_samples_open(ctx, p->archive, p->model);
    if (!samples) return no_samples(ctx, p, "it has no sample inputs that can be read without Python");
    flattener f = {ctx, p, samples, inputs, capacity, 0, 0, 1 << 20};
    const bool good = flatten(&f, nbx_samples_root(samples), 0) && f.given == p->input_count;
    nbx_samples_close(samples);
    return good ? NBX_OK : no_samples(ctx, p, "its sample inputs do not match its inputs");
}

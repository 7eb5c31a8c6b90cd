// Inputs of one step: from files by name, or the samples stored with the program.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

static int failed(runner *r) { return complain("run", EXIT_FAILED, "%s", nbx_last_message(r->ctx)); }

static int give(runner *r, int input, const nbx_tensor *t) {
    t = nbx_tensor_to_device(r->ctx, t, nbx_context_device(r->ctx));
    if (!t) return failed(r);
    r->inputs[input] = nbx_of_tensor(t);
    return EXIT_RIGHT;
}

// An input that export fixed: nothing reads it, but another value than the fixed one would be silently ignored.
static int check_fixed(runner *r, const nbx_program_value *fixed, const nbx_tensor *t) {
    nbx_value number = nbx_of_none();
    const nbx_value args[1] = {nbx_of_tensor(t)};
    if (nbx_tensor_numel(t) != 1)
        return complain("run", EXIT_FAILED, "input %s is one number, which export fixed, but %lld are given", fixed->name, (long long)nbx_tensor_numel(t));
    if (nbx_call(r->ctx, "aten::item", args, 1, NULL, 0, &number, 1, NULL) != NBX_OK) return failed(r);
    if (number.kind == NBX_KIND_COMPLEX) return complain("run", EXIT_FAILED, "input %s is complex, but export fixed it to a real number", fixed->name);
    const double given = number.kind == NBX_KIND_INT ? (double)number.as.integer : number.kind == NBX_KIND_BOOL ? number.as.boolean : number.as.real;
    const double wanted = fixed->value.kind == NBX_KIND_INT    ? (double)fixed->value.as.integer
                          : fixed->value.kind == NBX_KIND_BOOL ? fixed->value.as.boolean
                          : fixed->value.kind == NBX_KIND_FLOAT ? fixed->value.as.real
                                                               : given;
    if (given == wanted) return EXIT_RIGHT;
    return complain("run", EXIT_FAILED, "input %s is %g, but export fixed it to %g", fixed->name, given, wanted);
}

static void put(char *text, size_t size, const char *format, ...) NBX_PRINTF(3, 4);
static void put(char *text, size_t size, const char *format, ...) {
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

// "x float32[s0 (2 to 64), 3]", behind what is in the text already.
static void add_description(char *text, size_t size, const nbx_program_value *v) {
    static const char *const kinds[] = {"None", "tensor", "int", "float", "bool"};
    put(text, size, "%s%s %s", text[0] ? ", " : "", v->name,
        v->kind == NBX_KIND_TENSOR ? nbx_dtype_name(v->dtype) : v->kind <= NBX_KIND_BOOL ? kinds[v->kind] : "?");
    for (int i = 0; i < v->rank; i++) {
        const nbx_program_dim *d = &v->dims[i];
        put(text, size, "%s", i ? ", " : "[");
        if (d->size >= 0) put(text, size, "%lld", (long long)d->size);
        else if (d->max >= 0) put(text, size, "%s (%lld to %lld)", d->symbol, (long long)d->min, (long long)d->max);
        else put(text, size, "%s (from %lld)", d->symbol, (long long)d->min);
    }
    if (v->rank) put(text, size, "]");
}

static int take_tensor(runner *r, const char *file, const char *name, const nbx_tensor *t) {
    const int input = nbx_program_find_input(r->program, name);
    if (input >= 0) return give(r, input, t);
    const nbx_program_value *fixed;
    for (int i = 0; (fixed = nbx_program_fixed_input(r->program, i)); i++)
        if (strcmp(fixed->name, name) == 0 || strcmp(fixed->path, name) == 0) return check_fixed(r, fixed, t);
    char names[2048] = "";
    for (int i = 0; i < nbx_program_input_count(r->program); i++) add_description(names, sizeof names, nbx_program_input(r->program, i));
    return complain("run", EXIT_FAILED, "%s: the program has no input %s; it takes %s", file, name, names[0] ? names : "none");
}

static int take_file(runner *r, const char *path, const char *only) {
    nbx_tensors *set;
    if (nbx_tensors_load(r->ctx, path, &set) != NBX_OK) return complain("run", EXIT_FILE, "%s", nbx_last_message(r->ctx));
    const size_t count = nbx_tensors_count(set);
    int code = EXIT_RIGHT;
    if (only) {  // the tensor of that name, or the only one there is
        const nbx_tensor *t = nbx_tensors_has(set, only) ? nbx_tensors_get(r->ctx, set, only) : count == 1 ? nbx_tensors_at(r->ctx, set, 0) : NULL;
        code = t ? take_tensor(r, path, only, t) : complain("run", EXIT_FAILED, "%s: it holds %zu tensors, none of them named %s", path, count, only);
    } else {
        for (size_t i = 0; i < count && code == EXIT_RIGHT; i++) {
            const nbx_tensor *t = nbx_tensors_at(r->ctx, set, i);
            const char *name = nbx_tensors_name(set, i);
            const bool unnamed = count == 1 && strcmp(name, "arr_0") == 0 && nbx_program_input_count(r->program) == 1;
            code = t ? take_tensor(r, path, unnamed ? "input_0" : name, t) : failed(r);
        }
    }
    nbx_tensors_destroy(set);
    return code;
}

static int take_named(runner *r, const char *text) {
    const char *equals = strchr(text, '=');
    char name[512];
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    return take_file(r, equals + 1, name);
}

int take_inputs(runner *r, int step) {
    const run_options *o = r->options;
    const int count = nbx_program_input_count(r->program);
    int code = EXIT_RIGHT;
    memset(r->inputs, 0, ((size_t)count + 1) * sizeof *r->inputs);
    if (!o->input_count && !o->named_count) {
        if (nbx_program_sample_inputs(r->ctx, r->program, r->inputs, count) == NBX_OK) return EXIT_RIGHT;
        return complain("run", nbx_last_status(r->ctx) == NBX_ERROR_UNSUPPORTED ? EXIT_USAGE : EXIT_FILE, "%s: give --inputs FILE", nbx_last_message(r->ctx));
    }
    if (o->input_count) code = take_file(r, o->inputs[step], NULL);
    for (int i = 0; i < o->named_count && code == EXIT_RIGHT; i++) code = take_named(r, o->named[i]);
    char missing[2048] = "";
    for (int i = 0; i < count && code == EXIT_RIGHT; i++)
        if (r->inputs[i].kind == NBX_KIND_NONE) add_description(missing, sizeof missing, nbx_program_input(r->program, i));
    return missing[0] ? complain("run", EXIT_FAILED, "missing inputs: %s", missing) : code;
}

// Results of one step: shown, saved, or compared with a file.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

static int failed(runner *r) { return complain("run", EXIT_FAILED, "%s", nbx_last_message(r->ctx)); }

const nbx_tensor *value_as_tensor(runner *r, const nbx_value *v) {
    switch (v->kind) {
    case NBX_KIND_TENSOR: return v->as.tensor;
    case NBX_KIND_INT: return nbx_tensor_from_host(r->ctx, NBX_INT64, 0, NULL, &v->as.integer);
    case NBX_KIND_FLOAT: return nbx_tensor_from_host(r->ctx, NBX_FLOAT64, 0, NULL, &v->as.real);
    case NBX_KIND_BOOL: return nbx_tensor_from_host(r->ctx, NBX_BOOL, 0, NULL, &v->as.boolean);
    default: return NULL;
    }
}

void show_outputs(runner *r, int step) {
    if (r->options->steps > 1) printf("run %d\n", step);
    for (int i = 0; i < nbx_program_output_count(r->program); i++) {
        const nbx_program_value *facts = nbx_program_output(r->program, i);
        show_value(r->ctx, facts->name, facts->path, &r->outputs[i]);
    }
}

int save_outputs(runner *r, const char *path) {
    const size_t most = (size_t)nbx_program_output_count(r->program) + (size_t)nbx_program_input_count(r->program);
    const char **names = calloc(most + 1, sizeof *names);
    const nbx_tensor **tensors = calloc(most + 1, sizeof *tensors);
    size_t count = 0;
    int code = names && tensors ? EXIT_RIGHT : complain("run", EXIT_FAILED, "out of memory");
    for (int i = 0; i < nbx_program_output_count(r->program) && code == EXIT_RIGHT; i++) {
        const nbx_tensor *t = value_as_tensor(r, &r->outputs[i]);
        if (!t && r->outputs[i].kind != NBX_KIND_NONE && r->outputs[i].kind != NBX_KIND_STRING) code = failed(r);
        if (!t) continue;
        names[count] = nbx_program_output(r->program, i)->name;
        tensors[count++] = t;
    }
    for (int i = 0; i < nbx_program_input_count(r->program) && code == EXIT_RIGHT; i++) {
        if (!nbx_program_input(r->program, i)->written || r->inputs[i].kind != NBX_KIND_TENSOR) continue;
        names[count] = nbx_program_input(r->program, i)->name;
        tensors[count++] = r->inputs[i].as.tensor;
    }
    if (code == EXIT_RIGHT && nbx_tensors_save(r->ctx, path, names, tensors, count) != NBX_OK)
        code = complain("run", nbx_last_status(r->ctx) == NBX_ERROR_IO ? EXIT_FILE : EXIT_FAILED, "%s", nbx_last_message(r->ctx));
    free(names);
    free(tensors);
    return code;
}

// ------------------------------------------------------------------------------------------------------------- compare
static const nbx_value *find_result(runner *r, const char *name) {
    for (int i = 0; i < nbx_program_output_count(r->program); i++)
        if (strcmp(nbx_program_output(r->program, i)->name, name) == 0) return &r->outputs[i];
    const int input = nbx_program_find_input(r->program, name);
    if (input >= 0) return &r->inputs[input];
    for (int i = 0; i < nbx_program_output_count(r->program); i++)
        if (strcmp(nbx_program_output(r->program, i)->path, name) == 0) return &r->outputs[i];
    return NULL;
}

static int differs(runner *r, int step, const char *name, const char *text) {
    if (r->options->steps > 1) complain("run", EXIT_DIFFERS, "run %d: %s %s", step, name, text);
    else complain("run", EXIT_DIFFERS, "%s %s", name, text);
    return EXIT_DIFFERS;
}

// A number may come from a float32 tensor, and says no more about it than its kind.
static double tolerance_of(const runner *r, const nbx_value *value) {
    return r->options->tolerance < 0 && value && value->kind == NBX_KIND_FLOAT ? 1e-4 : r->options->tolerance;
}

static int expect_one(runner *r, int step, const char *name, const nbx_tensor *got, const nbx_tensor *wanted, double tolerance) {
    char text[1024];
    double largest;
    const bool good = compare_tensors(r->ctx, got, wanted, tolerance, &largest, text, sizeof text);
    if (largest > r->largest) r->largest = largest;
    return good ? EXIT_RIGHT : differs(r, step, name, text);
}

int expect_outputs(runner *r, int step) {
    nbx_tensors *set;
    int code = EXIT_RIGHT;
    if (nbx_tensors_load(r->ctx, r->options->expects[step], &set) != NBX_OK) return complain("run", EXIT_FILE, "%s", nbx_last_message(r->ctx));
    const size_t count = nbx_tensors_count(set);
    for (size_t i = 0; i < count && code <= EXIT_DIFFERS; i++) {
        const bool unnamed = count == 1 && strcmp(nbx_tensors_name(set, i), "arr_0") == 0 && nbx_program_output_count(r->program) == 1;
        const char *name = unnamed ? nbx_program_output(r->program, 0)->name : nbx_tensors_name(set, i);
        const nbx_tensor *wanted = nbx_tensors_at(r->ctx, set, i);
        const nbx_value *value = find_result(r, name);
        const nbx_tensor *got = value ? value_as_tensor(r, value) : NULL;
        int one;
        if (!wanted || (!got && nbx_last_status(r->ctx) != NBX_OK)) one = failed(r);
        else one = got ? expect_one(r, step, name, got, wanted, tolerance_of(r, value)) : differs(r, step, name, value ? "is None" : "is expected, but the program has no such output");
        if (one > code) code = one;
    }
    nbx_tensors_destroy(set);
    return code;
}

int expect_state(runner *r) {
    nbx_tensors *set;
    int code = EXIT_RIGHT;
    if (nbx_tensors_load(r->ctx, r->options->expect_state, &set) != NBX_OK) return complain("run", EXIT_FILE, "%s", nbx_last_message(r->ctx));
    for (size_t i = 0; i < nbx_tensors_count(set) && code <= EXIT_DIFFERS; i++) {
        const char *name = nbx_tensors_name(set, i);
        const nbx_tensor *wanted = nbx_tensors_at(r->ctx, set, i), *got = nbx_session_state(r->session, name);
        int one;
        if (!wanted) one = failed(r);
        else one = got ? expect_one(r, r->options->steps - 1, name, got, wanted, r->options->tolerance) : differs(r, r->options->steps - 1, name, "is expected, but the program has no such buffer");
        if (one > code) code = one;
    }
    nbx_tensors_destroy(set);
    return code;
}

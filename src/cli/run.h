// nbx run: what its three files share: run.c (options, steps, times), run_inputs.c, run_outputs.c (save, compare, show).
#ifndef NBX_CLI_RUN_H
#define NBX_CLI_RUN_H

#include "cli.h"

typedef struct run_options {
    const char *path, *device, *threads, *isa, *model, *expect_state;
    const char **inputs, **named, **expects, **outputs;
    int input_count, named_count, expect_count, output_count;
    int steps;
    double tolerance;  // below 0: each dtype's own
    uint64_t seed;
    int64_t repeat;
    bool seeded, quiet, draw_on_cpu, allow_tf32;
} run_options;

typedef struct runner {
    const run_options *options;
    nbx_context *ctx;
    nbx_program *program;
    nbx_session *session;
    nbx_value *inputs, *outputs;  // of the current step, owned by its scope
    double largest;               // difference found so far
} runner;

// All return an exit status.
int take_inputs(runner *r, int step);
int save_outputs(runner *r, const char *path);
int expect_outputs(runner *r, int step);
int expect_state(runner *r);
void show_outputs(runner *r, int step);

// A number as a 0-dim tensor of int64, float64 or bool, owned by the scope; a tensor as it is; NULL: there is none.
const nbx_tensor *value_as_tensor(runner *r, const nbx_value *v);

#endif

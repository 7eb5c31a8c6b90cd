// nbx run: loads a program, runs it step by step, and shows, saves or compares what comes out.
#include "run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char help[] =
    "nbx run MODEL.pt2 [options]\n"
    "\n"
    "Runs a program that torch.export.save wrote. Without --inputs it takes the sample inputs stored in the file.\n"
    "FILE is a .safetensors, .npz or .npy file.\n"
    "\n"
    "  --inputs FILE        inputs under the program's names for them (nbx info lists them), or input_0, input_1, ...\n"
    "                       Several --inputs are several runs in order; buffers keep their values from one to the next.\n"
    "  --input NAME=FILE    one input from a file of its own, in every run\n"
    "  --expect FILE        compare the results with output_0, output_1, ... of this file, and inputs that the program\n"
    "                       writes into with those under their names. One for each --inputs\n"
    "  --expect-state FILE  compare the program's buffers after the last run, under their full names\n"
    "  --tolerance X        largest difference over the largest value that --expect allows, for all floats; otherwise\n"
    "                       float64 1e-8, float32 1e-4, float16 5e-3, bfloat16 4e-2. Integers and bools must be equal\n"
    "  --outputs FILE       write the results. One for each --inputs\n"
    "  --device cpu|cuda[:N]   where to run (cpu)\n"
    "  --threads N          CPU threads to use (what the machine allows)\n"
    "  --isa NAME           baseline, avx2 or avx512, to use less than this CPU has\n"
    "  --seed N             what torch.manual_seed would set before each run\n"
    "  --allow-tf32         float32 products and convolutions on a GPU may round their factors to tf32\n"
    "  --draw-on-cpu        random operators give the CPU's numbers on a GPU, too\n"
    "  --model NAME         which model of an archive that holds several\n"
    "  --repeat N           run the last step N times more, and print the smallest, median and 99th percentile time\n"
    "  --quiet              say nothing unless something is wrong, but the times of --repeat\n"
    "\n"
    "Exit status: 0 right, 1 differs from --expect, 2 usage, 3 unreadable or malformed file, 4 unsupported program,\n"
    "5 the run failed.\n";

enum { MOST_STEPS = 4096 };

// ------------------------------------------------------------------------------------------------------------- options
static bool add(const char ***list, int *count, const char *value) {
    if (*count == MOST_STEPS) return false;
    const char **longer = realloc(*list, ((size_t)*count + 1) * sizeof *longer);
    if (!longer) return false;
    longer[(*count)++] = value;
    *list = longer;
    return true;
}

static int missing_value(const char *option) { return complain("run", EXIT_USAGE, "%s needs a value", option); }

// One option at args[*at]; -1: understood, else an exit status.
static int read_option(run_options *o, int count, char **args, int *at) {
    const char *value = NULL, *option = args[*at];
    struct { const char *option; const char ***list; int *count; } lists[] = {
        {"--inputs", &o->inputs, &o->input_count}, {"--input", &o->named, &o->named_count}, {"--expect", &o->expects, &o->expect_count},
        {"--outputs", &o->outputs, &o->output_count},
    };
    struct { const char *option, **text; } texts[] = {
        {"--device", &o->device}, {"--threads", &o->threads}, {"--isa", &o->isa}, {"--model", &o->model}, {"--expect-state", &o->expect_state},
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (take_option(count, args, at, lists[i].option, &value)) {
            if (!value) return missing_value(option);
            return add(lists[i].list, lists[i].count, value) ? -1 : complain("run", EXIT_USAGE, "too many %s", option);
        }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (take_option(count, args, at, texts[i].option, &value)) return (*texts[i].text = value) ? -1 : missing_value(option);
    if (take_option(count, args, at, "--tolerance", &value)) {
        if (!value) return missing_value(option);
        return read_number(value, &o->tolerance) && o->tolerance >= 0 ? -1 : complain("run", EXIT_USAGE, "--tolerance takes a number from 0 on, not %s", value);
    }
    if (take_option(count, args, at, "--seed", &value)) {
        if (!value) return missing_value(option);
        o->seeded = true;
        return read_seed(value, &o->seed) ? -1 : complain("run", EXIT_USAGE, "--seed takes an integer, not %s", value);
    }
    if (take_option(count, args, at, "--repeat", &value)) {
        if (!value) return missing_value(option);
        return read_integer(value, &o->repeat) && o->repeat > 0 && o->repeat < 10000000 ? -1 : complain("run", EXIT_USAGE, "--repeat takes a number from 1 to 9999999, not %s", value);
    }
    if (strcmp(option, "--allow-tf32") == 0) return o->allow_tf32 = true, -1;
    if (strcmp(option, "--draw-on-cpu") == 0) return o->draw_on_cpu = true, -1;
    if (strcmp(option, "--quiet") == 0 || strcmp(option, "-q") == 0) return o->quiet = true, -1;
    if (option[0] == '-' && option[1]) return complain("run", EXIT_USAGE, "there is no option %s. See nbx run --help", option);
    if (o->path) return complain("run", EXIT_USAGE, "one program at a time: %s, then %s", o->path, option);
    o->path = option;
    return -1;
}

// Told before the run, which may take long.
static bool can_be_written(const char *path) {
    static const char *const endings[] = {".safetensors", ".npz", ".npy"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t length = strlen(path), end = strlen(endings[i]);
        if (length >= end && strcmp(path + length - end, endings[i]) == 0) return true;
    }
    return false;
}

static int check_options(run_options *o) {
    o->steps = o->input_count > 0 ? o->input_count : 1;
    if (!o->path) return fputs(help, stderr), EXIT_USAGE;
    if (o->expect_count && o->expect_count != o->steps)
        return complain("run", EXIT_USAGE, "%d runs, but %d --expect files", o->steps, o->expect_count);
    if (o->output_count && o->output_count != o->steps)
        return complain("run", EXIT_USAGE, "%d runs, but %d --outputs files", o->steps, o->output_count);
    for (int i = 0; i < o->output_count; i++)
        if (!can_be_written(o->outputs[i]))
            return complain("run", EXIT_USAGE, "%s: the name must end in .safetensors, .npz or .npy", o->outputs[i]);
    for (int i = 0; i < o->named_count; i++)
        if (!strchr(o->named[i], '=')) return complain("run", EXIT_USAGE, "--input takes NAME=FILE, not %s", o->named[i]);
    return -1;
}

// ---------------------------------------------------------------------------------------------------------------- runs
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int failed(runner *r) { return complain("run", EXIT_FAILED, "%s", nbx_last_message(r->ctx)); }

static int run_once(runner *r) {
    if (r->options->draw_on_cpu) nbx_draw_on_cpu(r->ctx, true);
    if (r->options->seeded) nbx_manual_seed(r->ctx, r->options->seed);
    if (nbx_session_run(r->session, r->inputs, nbx_program_input_count(r->program), r->outputs, nbx_program_output_count(r->program), NULL) != NBX_OK)
        return failed(r);
    return nbx_synchronize(r->ctx) == NBX_OK ? EXIT_RIGHT : failed(r);
}

static int repeat(runner *r) {
    const size_t count = (size_t)r->options->repeat;
    double *times = malloc(count * sizeof *times);
    int code = times ? EXIT_RIGHT : complain("run", EXIT_FAILED, "out of memory");
    for (size_t i = 0; i < count && code == EXIT_RIGHT; i++) {
        const nbx_scope scope = nbx_scope_open(r->ctx);
        const double start = now();
        code = run_once(r);
        times[i] = now() - start;
        nbx_scope_close(r->ctx, scope, NULL);
    }
    if (code == EXIT_RIGHT) {
        qsort(times, count, sizeof *times, by_size);
        printf("%zu runs: min %.3f ms, median %.3f ms, p99 %.3f ms\n", count, times[0] * 1e3, times[count / 2] * 1e3,
               times[(size_t)ceil((double)count * 0.99) - 1] * 1e3);
    }
    free(times);
    return code;
}

static int run_step(runner *r, int step) {
    const run_options *o = r->options;
    int code = take_inputs(r, step);
    if (code == EXIT_RIGHT) code = run_once(r);
    if (code != EXIT_RIGHT) return code;
    if (o->output_count) code = save_outputs(r, o->outputs[step]);
    if (code == EXIT_RIGHT && o->expect_count) code = expect_outputs(r, step);
    if (code != EXIT_RIGHT) return code;
    if (!o->quiet && !o->expect_count && !o->output_count) show_outputs(r, step);
    if (step + 1 == o->steps && o->expect_state) code = expect_state(r);
    return code == EXIT_RIGHT && step + 1 == o->steps && o->repeat ? repeat(r) : code;
}

static int run_steps(runner *r) {
    int worst = EXIT_RIGHT;
    for (int step = 0; step < r->options->steps; step++) {
        const nbx_scope scope = nbx_scope_open(r->ctx);
        const int code = run_step(r, step);
        nbx_scope_close(r->ctx, scope, NULL);
        if (code > worst) worst = code;
        if (code > EXIT_DIFFERS) break;
    }
    if (worst == EXIT_RIGHT && r->options->expect_count && !r->options->quiet)
        printf("right: %d of %d runs as expected, largest difference %.3g of the largest value\n", r->options->steps, r->options->steps, r->largest);
    return worst;
}

static int load_and_run(runner *r) {
    const run_options *o = r->options;
    const nbx_program_options options = {.model = o->model, .report = print_problem};
    nbx_clear_error(r->ctx);
    if (nbx_program_load(r->ctx, o->path, &options, &r->program) != NBX_OK) return complain_load("run", r->ctx);
    if (nbx_session_create(r->ctx, r->program, &r->session) != NBX_OK) return failed(r);
    r->inputs = calloc((size_t)nbx_program_input_count(r->program) + 1, sizeof *r->inputs);
    r->outputs = calloc((size_t)nbx_program_output_count(r->program) + 1, sizeof *r->outputs);
    if (!r->inputs || !r->outputs) return complain("run", EXIT_FAILED, "out of memory");
    return run_steps(r);
}

static int run(const run_options *o) {
    nbx_options options;
    runner r = {.options = o};
    if (!read_context_options("run", o->device, o->threads, o->isa, &options)) return EXIT_USAGE;
    options.allow_tf32 = o->allow_tf32;
    r.ctx = nbx_context_create(&options);
    if (!r.ctx) return complain("run", EXIT_FAILED, "no context: out of memory, or the device is not there");
    const int code = load_and_run(&r);
    nbx_session_destroy(r.session);
    nbx_program_destroy(r.program);
    nbx_context_destroy(r.ctx);
    free(r.inputs);
    free(r.outputs);
    return code;
}

int command_run(int count, char **args) {
    run_options o = {.tolerance = -1};
    int code = -1;
    for (int i = 0; i < count && code < 0; i++) {
        if (strcmp(args[i], "--help") == 0 || strcmp(args[i], "-h") == 0) code = fputs(help, stdout) < 0 ? EXIT_FAILED : EXIT_RIGHT;
        else code = read_option(&o, count, args, &i);
    }
    if (code < 0) code = check_options(&o);
    if (code < 0) code = run(&o);
    free(o.inputs);
    free(o.named);
    free(o.expects);
    free(o.outputs);
    return code;
}

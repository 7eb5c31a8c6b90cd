// nbx profile: where the time of a run goes, call by call, beside what the machine could do; and a trace to look at.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nbx/ops.h"
#include "run.h"

static const char help[] =
    "nbx profile MODEL.pt2 [options]\n"
    "\n"
    "Times every kernel call of a run, beside its arithmetic, its memory traffic and the limit that this machine's copy\n"
    "bandwidth and matrix products, measured first, set to them. Slowest first.\n"
    "\n"
    "  --inputs FILE, --input NAME=FILE   as for nbx run; without them the sample inputs stored in the file\n"
    "  --device cpu|cuda[:N], --threads N, --isa NAME, --model NAME   as for nbx run\n"
    "  --runs N       the smallest time of N runs is shown for each call (20)\n"
    "  --top N        so many lines (40)\n"
    "  --trace FILE   writes the calls as a trace that Perfetto and chrome://tracing show\n"
    "  --json         all calls in order, as JSON\n";

typedef struct row {
    char *op, *node, *source;
    double seconds, flops, bytes;
} row;

typedef struct profile {
    run_options options;
    int64_t runs, top;
    const char *trace;
    bool json, failed;
    row *rows;
    int count, capacity;
    double bandwidth, peak;  // bytes and flops per second
} profile;

static void see(void *arg, const nbx_command_report *r) {
    profile *p = arg;
    if (p->count == p->capacity) {
        const int capacity = p->capacity ? 2 * p->capacity : 64;
        row *rows = realloc(p->rows, (size_t)capacity * sizeof *rows);
        if (!rows) {
            p->failed = true;
            return;
        }
        p->rows = rows;
        p->capacity = capacity;
    }
    row *to = &p->rows[p->count++];
    *to = (row){strdup(r->op), strdup(r->node), strdup(r->source), r->seconds, r->flops, r->bytes};
    p->failed |= !to->op || !to->node || !to->source;
}

// -------------------------------------------------------------------------------------------------------------- limits
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Seconds of the fastest of a few calls; 0: it failed.
static double fastest(nbx_context *ctx, const char *name, const nbx_tensor *a, const nbx_tensor *b) {
    const nbx_value args[2] = {nbx_of_tensor(a), nbx_of_tensor(b)};
    double best = 0;
    if (!a || !b) return 0;
    for (int i = 0; i < 6; i++) {
        const nbx_scope scope = nbx_scope_open(ctx);
        nbx_value result;
        const double start = now();
        const bool done = nbx_call(ctx, name, args, 2, NULL, 0, &result, 1, NULL) == NBX_OK && nbx_synchronize(ctx) == NBX_OK;
        const double seconds = now() - start;
        nbx_scope_close(ctx, scope, NULL);
        if (!done) return 0;
        if (best == 0 || seconds < best) best = seconds;
    }
    return best;
}

static void measure_limits(profile *p, nbx_context *ctx, nbx_dtype dtype) {
    const bool device = nbx_context_device(ctx).type == NBX_CUDA;
    const int64_t count = device ? (int64_t)128 << 20 : (int64_t)16 << 20, n = device ? 4096 : 768, square[2] = {n, n};
    const nbx_scope scope = nbx_scope_open(ctx);
    const double copy = fastest(ctx, "aten::copy_", nbx_full(ctx, NBX_FLOAT32, 1, &count, 0.5), nbx_full(ctx, NBX_FLOAT32, 1, &count, 0.5));
    const double product = fastest(ctx, "aten::mm", nbx_full(ctx, dtype, 2, square, 0.5), nbx_full(ctx, dtype, 2, square, 0.5));
    if (copy > 0) p->bandwidth = 8 * (double)count / copy;
    if (product > 0) p->peak = 2 * (double)n * (double)n * (double)n / product;
    nbx_scope_close(ctx, scope, NULL);
    nbx_clear_error(ctx);
}

static double limit_of(const profile *p, const row *r) {
    const double memory = p->bandwidth > 0 ? r->bytes / p->bandwidth : 0, arithmetic = p->peak > 0 ? r->flops / p->peak : 0;
    return memory > arithmetic ? memory : arithmetic;
}

// -------------------------------------------------------------------------------------------------------------- output
static int slower_first(const void *a, const void *b) {
    const double x = (*(row *const *)a)->seconds, y = (*(row *const *)b)->seconds;
    return x > y ? -1 : x < y;
}

static int print_table(const profile *p) {
    row **order = malloc(((size_t)p->count + 1) * sizeof *order);
    if (!order) return complain("profile", EXIT_FAILED, "out of memory");
    double total = 0, limit = 0, flops = 0, bytes = 0;
    for (int i = 0; i < p->count; i++) {
        order[i] = &p->rows[i];
        total += p->rows[i].seconds, limit += limit_of(p, &p->rows[i]), flops += p->rows[i].flops, bytes += p->rows[i].bytes;
    }
    qsort(order, (size_t)p->count, sizeof *order, slower_first);
    printf("limits measured here: %.1f GB/s copied, %.1f GFLOP/s in matrix products\n\n", p->bandwidth * 1e-9, p->peak * 1e-9);
    printf("%10s %6s %9s %9s %8s  %-34s %s\n", "us", "share", "GB/s", "GFLOP/s", "of limit", "kernel", "node");
    for (int i = 0; i < p->count && i < p->top; i++) {
        const row *r = order[i];
        const double s = r->seconds > 0 ? r->seconds : 1e-9;
        printf("%10.2f %5.1f%% %9.1f %9.1f %8.2f  %-34s %s%s%s\n", r->seconds * 1e6, total > 0 ? 100 * r->seconds / total : 0, r->bytes / s * 1e-9,
               r->flops / s * 1e-9, limit_of(p, r) / s, r->op, r->node, r->source[0] ? "  " : "", r->source);
    }
    if (p->count > p->top) printf("%10s and %d calls more\n", "", p->count - (int)p->top);
    printf("%10.2f us in %d calls, %.3f GFLOP, %.1f MB moved; at the limit %.2f us\n", total * 1e6, p->count, flops * 1e-9, bytes * 1e-6, limit * 1e6);
    free(order);
    return EXIT_RIGHT;
}

static int print_json(const profile *p) {
    printf("{\"bytes_per_second\": %.6g, \"flops_per_second\": %.6g, \"calls\": [", p->bandwidth, p->peak);
    for (int i = 0; i < p->count; i++) {
        const row *r = &p->rows[i];
        printf("%s\n  {\"kernel\": ", i ? "," : "");
        print_json_text(r->op);
        printf(", \"node\": ");
        print_json_text(r->node);
        printf(", \"source\": ");
        print_json_text(r->source);
        printf(", \"seconds\": %.9g, \"flops\": %.9g, \"bytes\": %.9g, \"limit\": %.9g}", r->seconds, r->flops, r->bytes, limit_of(p, r));
    }
    printf("\n]}\n");
    return EXIT_RIGHT;
}

static void write_json_text(FILE *f, const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text >= 0x20) fprintf(f, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

static int write_trace(const profile *p) {
    FILE *f = fopen(p->trace, "w");
    if (!f) return complain("profile", EXIT_FILE, "%s cannot be written", p->trace);
    double at = 0;
    fprintf(f, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
    for (int i = 0; i < p->count; i++) {
        const row *r = &p->rows[i];
        fprintf(f, "%s\n{\"ph\": \"X\", \"pid\": 0, \"tid\": 0, \"ts\": %.3f, \"dur\": %.3f, \"name\": \"", i ? "," : "", at * 1e6, r->seconds * 1e6);
        write_json_text(f, r->op);
        fprintf(f, "\", \"args\": {\"node\": \"");
        write_json_text(f, r->node);
        fprintf(f, "\", \"source\": \"");
        write_json_text(f, r->source);
        fprintf(f, "\", \"flops\": %.9g, \"bytes\": %.9g, \"limit_us\": %.3f}}", r->flops, r->bytes, limit_of(p, r) * 1e6);
        at += r->seconds;
    }
    fprintf(f, "\n]}\n");
    return fclose(f) == 0 ? EXIT_RIGHT : complain("profile", EXIT_FILE, "%s cannot be written", p->trace);
}

// ----------------------------------------------------------------------------------------------------------------- run
static nbx_dtype dtype_of(const nbx_program *program) {  // that matrix products are likely to have
    for (int i = 0; i < nbx_program_weight_count(program); i++) {
        const nbx_dtype d = nbx_tensor_dtype(nbx_program_weight_at(program, i)->tensor);
        if (d == NBX_FLOAT16 || d == NBX_BFLOAT16 || d == NBX_FLOAT32 || d == NBX_FLOAT64) return d;
    }
    return NBX_FLOAT32;
}

static int measure(profile *p, runner *r) {
    const nbx_program_options options = {.model = p->options.model, .report = print_problem};
    if (nbx_program_load(r->ctx, p->options.path, &options, &r->program) != NBX_OK) return complain_load("profile", r->ctx);
    if (nbx_session_create(r->ctx, r->program, &r->session) != NBX_OK) return complain("profile", EXIT_FAILED, "%s", nbx_last_message(r->ctx));
    r->inputs = calloc((size_t)nbx_program_input_count(r->program) + 1, sizeof *r->inputs);
    if (!r->inputs) return complain("profile", EXIT_FAILED, "out of memory");
    int code = take_inputs(r, 0);
    if (code != EXIT_RIGHT) return code;
    measure_limits(p, r->ctx, dtype_of(r->program));
    if (nbx_session_profile(r->session, r->inputs, nbx_program_input_count(r->program), (int)p->runs, see, p) != NBX_OK)
        return complain("profile", EXIT_FAILED, "%s", nbx_last_message(r->ctx));
    if (p->failed) return complain("profile", EXIT_FAILED, "out of memory");
    if (p->trace) code = write_trace(p);
    if (code == EXIT_RIGHT) code = p->json ? print_json(p) : print_table(p);
    return code;
}

static int run(profile *p) {
    nbx_options options;
    runner r = {.options = &p->options};
    if (!read_context_options("profile", p->options.device, p->options.threads, p->options.isa, &options)) return EXIT_USAGE;
    r.ctx = nbx_context_create(&options);
    if (!r.ctx) return complain("profile", EXIT_FAILED, "no context: out of memory, or the device is not there");
    const nbx_scope scope = nbx_scope_open(r.ctx);
    const int code = measure(p, &r);
    nbx_scope_close(r.ctx, scope, NULL);
    nbx_session_destroy(r.session);
    nbx_program_destroy(r.program);
    nbx_context_destroy(r.ctx);
    free(r.inputs);
    return code;
}

static int read_count(const char *option, const char *value, int64_t *count) {
    if (value && read_integer(value, count) && *count > 0 && *count <= 1000000) return -1;
    return complain("profile", EXIT_USAGE, "%s takes a number from 1 to 1000000, not %s", option, value ? value : "nothing");
}

static int read_option(profile *p, int count, char **args, int *at) {
    run_options *o = &p->options;
    const char *value = NULL, *option = args[*at];
    struct { const char *option, **text; } texts[] = {
        {"--device", &o->device}, {"--threads", &o->threads}, {"--isa", &o->isa}, {"--model", &o->model}, {"--trace", &p->trace},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (take_option(count, args, at, texts[i].option, texts[i].text))
            return *texts[i].text ? -1 : complain("profile", EXIT_USAGE, "%s needs a value", option);
    if (take_option(count, args, at, "--inputs", &o->inputs[0])) return o->input_count = 1, o->inputs[0] ? -1 : complain("profile", EXIT_USAGE, "--inputs needs a value");
    if (take_option(count, args, at, "--input", &value)) {
        if (!value || !strchr(value, '=')) return complain("profile", EXIT_USAGE, "--input takes NAME=FILE");
        return o->named[o->named_count++] = value, -1;
    }
    if (take_option(count, args, at, "--runs", &value)) return read_count("--runs", value, &p->runs);
    if (take_option(count, args, at, "--top", &value)) return read_count("--top", value, &p->top);
    if (strcmp(option, "--json") == 0) return p->json = true, -1;
    if (option[0] == '-' || o->path) return complain("profile", EXIT_USAGE, "what is %s? See nbx profile --help", option);
    return o->path = option, -1;
}

int command_profile(int count, char **args) {
    const char *inputs[1] = {NULL}, **named = malloc(((size_t)count + 1) * sizeof *named);
    profile p = {.options = {.inputs = inputs, .named = named, .steps = 1}, .runs = 20, .top = 40};
    int code = named ? -1 : complain("profile", EXIT_FAILED, "out of memory");
    for (int i = 0; i < count && code < 0; i++) {
        if (strcmp(args[i], "--help") == 0 || strcmp(args[i], "-h") == 0) code = fputs(help, stdout) < 0 ? EXIT_FAILED : EXIT_RIGHT;
        else code = read_option(&p, count, args, &i);
    }
    if (code < 0 && !p.options.path) code = (fputs(help, stderr), EXIT_USAGE);
    if (code < 0) code = run(&p);
    for (int i = 0; i < p.count; i++) free(p.rows[i].op), free(p.rows[i].node), free(p.rows[i].source);
    free(p.rows);
    free(named);
    return code;
}

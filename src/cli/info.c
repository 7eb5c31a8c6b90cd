// nbx info: what a program takes and gives, which operators it uses and whether they run here, and what memory it needs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char help[] =
    "nbx info MODEL.pt2 [--json] [--cost] [--model NAME] [--device cpu|cuda]\n"
    "\n"
    "Shows inputs and outputs with their shapes and dynamic sizes, the operators with how often each is used and where it\n"
    "runs, weights, buffers that are kept between runs, and the planned memory. Works for programs that cannot run, too.\n"
    "--cost: arithmetic, memory traffic and scratch of a run, by kernel, for the sizes seen at export.\n";

static const char *const kind_names[] = {"None", "tensor", "int", "float", "bool", "complex", "str"};

static const char *kind_of(const nbx_program_value *v) {
    if (v->kind == NBX_KIND_TENSOR) return nbx_dtype_name(v->dtype);
    return v->kind <= NBX_KIND_STRING ? kind_names[v->kind] : "?";
}

static void print_number(const nbx_value *v) {
    if (v->kind == NBX_KIND_INT) printf("%lld", (long long)v->as.integer);
    else if (v->kind == NBX_KIND_FLOAT) printf("%g", v->as.real);
    else if (v->kind == NBX_KIND_BOOL) printf("%s", v->as.boolean ? "True" : "False");
    else if (v->kind == NBX_KIND_STRING) printf("\"%s\"", v->as.string);
    else printf("None");
}

static void print_bytes(const char *what, size_t bytes) {
    if (bytes >= 10000000) printf("%s %.1f MB", what, (double)bytes / 1e6);
    else printf("%s %.1f kB", what, (double)bytes / 1e3);
}

// ---------------------------------------------------------------------------------------------------------------- text
static void print_value(const nbx_program_value *v) {
    printf("  %-24s ", v->name);
    if (strcmp(v->name, v->path) != 0) printf("(%s) ", v->path);
    printf("%s", kind_of(v));
    if (v->kind == NBX_KIND_TENSOR) print_dims(v);
    if (v->fixed) printf(" = "), print_number(&v->value);
    if (v->written) printf("  written by the program");
    for (int i = 0; i < v->rank; i++) {
        const nbx_program_dim *d = &v->dims[i];
        if (d->size >= 0 || !d->symbol) continue;
        if (d->max >= 0) printf("  %s: %lld to %lld", d->symbol, (long long)d->min, (long long)d->max);
        else if (d->min > 0) printf("  %s: from %lld", d->symbol, (long long)d->min);
    }
    printf("\n");
}

static void print_weights(const nbx_program *p) {
    int parameters = 0, others = 0, states = 0;
    for (int i = 0; i < nbx_program_weight_count(p); i++) {
        const nbx_program_weight *w = nbx_program_weight_at(p, i);
        parameters += w->parameter;
        others += !w->parameter;
        states += w->state;
    }
    printf("weights: %d parameters, %d buffers and constants\n", parameters, others);
    for (int i = 0; states && i < nbx_program_weight_count(p); i++) {
        const nbx_program_weight *w = nbx_program_weight_at(p, i);
        if (!w->state) continue;
        printf("  %-24s %s[", w->name, nbx_dtype_name(nbx_tensor_dtype(w->tensor)));
        for (int k = 0; k < nbx_tensor_rank(w->tensor); k++) printf("%s%lld", k ? ", " : "", (long long)nbx_tensor_shape(w->tensor)[k]);
        printf("]  kept between runs\n");
    }
}

static void print_operators(const nbx_program *p) {
    printf("operators:\n");
    for (int i = 0; i < nbx_program_operator_count(p); i++) {
        const nbx_program_operator *o = nbx_program_operator_at(p, i);
        printf("  %6d  %-52s %s\n", o->count, o->name,
               o->cpu && o->cuda ? "cpu, cuda" : o->cpu ? "cpu" : o->cuda ? "cuda" : o->known ? "known, not implemented" : "unknown");
    }
}

static void print_memory(nbx_context *ctx, const nbx_program *p) {
    nbx_program_plan plan;
    if (nbx_program_plan_memory(ctx, p, NULL, 0, &plan) != NBX_OK) {
        printf("memory: not planned: %s\n", nbx_last_message(ctx));
        nbx_clear_error(ctx);
        return;
    }
    print_bytes("memory: peak", plan.peak_bytes);
    print_bytes(": weights", plan.weight_bytes);
    print_bytes(" (in the file", plan.mapped_bytes);
    if (plan.packed_bytes) print_bytes(", packed", plan.packed_bytes);
    print_bytes("), state", plan.state_bytes);
    print_bytes(", arena", plan.arena_bytes);
    print_bytes(" (unplanned", plan.unplanned_bytes);
    printf("), %d commands%s\n", plan.commands, plan.partial ? ", up to where sizes depend on data" : "");
}

// ---------------------------------------------------------------------------------------------------------------- cost
enum { MOST_KERNELS = 512 };
typedef struct kernel_cost {
    char name[64];
    int calls;
    double flops, bytes, scratch;
} kernel_cost;
typedef struct costs {
    kernel_cost kernels[MOST_KERNELS], total;
    int count;
} costs;

static void add_cost(kernel_cost *to, const nbx_command_report *r) {
    to->calls++;
    to->flops += r->flops;
    to->bytes += r->bytes;
    if ((double)r->scratch_bytes > to->scratch) to->scratch = (double)r->scratch_bytes;
}

static void see_cost(void *arg, const nbx_command_report *r) {
    costs *c = arg;
    int at = 0;
    while (at < c->count && strcmp(c->kernels[at].name, r->op) != 0) at++;
    if (at == c->count && at < MOST_KERNELS) snprintf(c->kernels[c->count++].name, sizeof c->kernels->name, "%s", r->op);
    if (at < c->count) add_cost(&c->kernels[at], r);
    add_cost(&c->total, r);
}

static int costlier_first(const void *a, const void *b) {
    const kernel_cost *x = a, *y = b;
    return x->flops != y->flops ? (x->flops > y->flops ? -1 : 1) : x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

static int print_costs(nbx_context *ctx, const nbx_program *p, bool json) {
    costs *c = calloc(1, sizeof *c);
    if (!c || nbx_program_costs(ctx, p, NULL, 0, see_cost, c) != NBX_OK) {
        free(c);
        return complain("info", nbx_last_status(ctx) == NBX_ERROR_UNSUPPORTED ? EXIT_UNSUPPORTED : EXIT_FAILED, "%s", c ? nbx_last_message(ctx) : "out of memory");
    }
    qsort(c->kernels, (size_t)c->count, sizeof *c->kernels, costlier_first);
    snprintf(c->total.name, sizeof c->total.name, "total");
    if (json) printf("{");
    else printf("%8s %14s %14s %12s  kernel\n", "calls", "MFLOP", "MB moved", "scratch kB");
    for (int i = 0; i <= c->count; i++) {
        const kernel_cost *k = i < c->count ? &c->kernels[i] : &c->total;
        if (json) printf("%s\"%s\": {\"calls\": %d, \"flops\": %.9g, \"bytes\": %.9g, \"scratch\": %.9g}", i ? ",\n " : "", k->name, k->calls, k->flops, k->bytes, k->scratch);
        else printf("%8d %14.3f %14.3f %12.1f  %s\n", k->calls, k->flops * 1e-6, k->bytes * 1e-6, k->scratch * 1e-3, k->name);
    }
    if (json) printf("}\n");
    free(c);
    return EXIT_RIGHT;
}

static void print_text(nbx_context *ctx, const nbx_program *p, const char *path) {
    const nbx_program_value *v;
    printf("%s: exported by PyTorch %s", path, nbx_program_torch_version(p)[0] ? nbx_program_torch_version(p) : "before 2.5");
    if (nbx_program_model_name(p, 1)) {
        printf(", models");
        for (int i = 0; nbx_program_model_name(p, i); i++) printf(" %s", nbx_program_model_name(p, i));
    }
    printf("\ninputs:\n");
    for (int i = 0; (v = nbx_program_input(p, i)); i++) print_value(v);
    for (int i = 0; (v = nbx_program_fixed_input(p, i)); i++) print_value(v);
    printf("outputs:\n");
    for (int i = 0; (v = nbx_program_output(p, i)); i++) print_value(v);
    print_weights(p);
    print_operators(p);
    print_memory(ctx, p);
}

// ---------------------------------------------------------------------------------------------------------------- JSON
static void json_value(const nbx_program_value *v, bool first) {
    printf("%s\n    {\"name\": ", first ? "" : ",");
    print_json_text(v->name);
    printf(", \"path\": ");
    print_json_text(v->path);
    printf(", \"type\": \"%s\"", v->kind == NBX_KIND_TENSOR ? "tensor" : kind_of(v));
    if (v->kind == NBX_KIND_TENSOR) {
        printf(", \"dtype\": \"%s\", \"shape\": [", nbx_dtype_name(v->dtype));
        for (int i = 0; i < v->rank; i++) {
            const nbx_program_dim *d = &v->dims[i];
            printf("%s", i ? ", " : "");
            if (d->size >= 0) {
                printf("%lld", (long long)d->size);
                continue;
            }
            printf("{\"symbol\": ");
            print_json_text(d->symbol ? d->symbol : "");
            printf(", \"min\": %lld, \"max\": ", (long long)d->min);
            if (d->max < 0) printf("null}");
            else printf("%lld}", (long long)d->max);
        }
        printf("]");
    }
    if (v->fixed && v->kind != NBX_KIND_STRING) {
        printf(", \"fixed\": ");
        if (v->kind == NBX_KIND_BOOL) printf("%s", v->value.as.boolean ? "true" : "false");
        else if (v->kind == NBX_KIND_NONE) printf("null");
        else print_number(&v->value);
    }
    printf(", \"written\": %s}", v->written ? "true" : "false");
}

static void json_weights(const nbx_program *p) {
    printf("  \"weights\": [");
    for (int i = 0; i < nbx_program_weight_count(p); i++) {
        const nbx_program_weight *w = nbx_program_weight_at(p, i);
        printf("%s\n    {\"name\": ", i ? "," : "");
        print_json_text(w->name);
        printf(", \"dtype\": \"%s\", \"shape\": [", nbx_dtype_name(nbx_tensor_dtype(w->tensor)));
        for (int k = 0; k < nbx_tensor_rank(w->tensor); k++) printf("%s%lld", k ? ", " : "", (long long)nbx_tensor_shape(w->tensor)[k]);
        printf("], \"parameter\": %s, \"state\": %s}", w->parameter ? "true" : "false", w->state ? "true" : "false");
    }
    printf("\n  ],\n");
}

static void json_operators(const nbx_program *p) {
    printf("  \"operators\": [");
    for (int i = 0; i < nbx_program_operator_count(p); i++) {
        const nbx_program_operator *o = nbx_program_operator_at(p, i);
        printf("%s\n    {\"name\": ", i ? "," : "");
        print_json_text(o->name);
        printf(", \"count\": %d, \"known\": %s, \"cpu\": %s, \"cuda\": %s}", o->count, o->known ? "true" : "false", o->cpu ? "true" : "false",
               o->cuda ? "true" : "false");
    }
    printf("\n  ],\n");
}

static void print_json(nbx_context *ctx, const nbx_program *p) {
    const nbx_program_value *v;
    nbx_program_plan plan;
    printf("{\n  \"torch_version\": ");
    print_json_text(nbx_program_torch_version(p));
    printf(",\n  \"inputs\": [");
    for (int i = 0; (v = nbx_program_input(p, i)); i++) json_value(v, i == 0);
    for (int i = 0; (v = nbx_program_fixed_input(p, i)); i++) json_value(v, i == 0 && nbx_program_input_count(p) == 0);
    printf("\n  ],\n  \"outputs\": [");
    for (int i = 0; (v = nbx_program_output(p, i)); i++) json_value(v, i == 0);
    printf("\n  ],\n");
    json_weights(p);
    json_operators(p);
    if (nbx_program_plan_memory(ctx, p, NULL, 0, &plan) == NBX_OK)
        printf("  \"memory\": {\"peak\": %zu, \"weights\": %zu, \"mapped\": %zu, \"packed\": %zu, \"state\": %zu, \"arena\": %zu, \"unplanned\": %zu, \"commands\": %d, \"partial\": %s}\n}\n",
               plan.peak_bytes, plan.weight_bytes, plan.mapped_bytes, plan.packed_bytes, plan.state_bytes, plan.arena_bytes, plan.unplanned_bytes, plan.commands,
               plan.partial ? "true" : "false");
    else printf("  \"memory\": null\n}\n");
}

int command_info(int count, char **args) {
    const char *path = NULL, *model = NULL, *device = NULL;
    bool json = false, cost = false;
    for (int i = 0; i < count; i++) {
        if (strcmp(args[i], "--help") == 0 || strcmp(args[i], "-h") == 0) return fputs(help, stdout), EXIT_RIGHT;
        if (strcmp(args[i], "--json") == 0) json = true;
        else if (strcmp(args[i], "--cost") == 0) cost = true;
        else if (take_option(count, args, &i, "--model", &model) || take_option(count, args, &i, "--device", &device)) continue;
        else if (args[i][0] == '-' || path) return complain("info", EXIT_USAGE, "what is %s? See nbx info --help", args[i]);
        else path = args[i];
    }
    if (!path) return fputs(help, stderr), EXIT_USAGE;
    nbx_options options;
    if (!read_context_options("info", device, NULL, NULL, &options)) return EXIT_USAGE;
    nbx_context *ctx = nbx_context_create(&options);
    if (!ctx) return complain("info", EXIT_FAILED, "no context: out of memory, or the device is not there");
    const nbx_program_options how = {.model = model, .inspect = true};
    nbx_program *p;
    int code = EXIT_RIGHT;
    if (nbx_program_load(ctx, path, &how, &p) != NBX_OK) code = complain_load("info", ctx);
    else if (cost) code = print_costs(ctx, p, json);
    else if (json) print_json(ctx, p);
    else print_text(ctx, p, path);
    nbx_program_destroy(p);
    nbx_context_destroy(ctx);
    return code;
}

// nbx ops: the table of operators, and where each of them runs.
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const char help[] =
    "nbx ops [NAME] [--json | --markdown] [--missing]\n"
    "\n"
    "Lists every operator the library knows, with the devices it runs on; \"programs\" stands for operators on sub-graphs and\n"
    "symbolic numbers, which only programs use, on any device. NAME shows one (aten::add.Tensor, add.Tensor,\n"
    "torch.ops.aten.add.Tensor), or all whose name contains it.\n"
    "cuda: on the GPU; host: tensors of a GPU are taken, but copied to the host and back. libnbx_cuda.so tells which, with\n"
    "or without a GPU; where it is not found nothing is said.\n"
    "  --json        as a JSON list\n"
    "  --markdown    as a table for documents, all overloads of an operator in a row\n"
    "  --missing     only those without an implementation and without a reason for that\n";

typedef enum list_form { FORM_TEXT, FORM_JSON, FORM_MARKDOWN } list_form;

static bool runs_on(const nbx_operator *op, nbx_device_type device) { return nbx_operator_available(op, device) && !nbx_operator_in_programs(op); }
static bool runs(const nbx_operator *op) { return nbx_operator_available(op, NBX_CPU) || nbx_operator_available(op, NBX_CUDA); }

// What a word of the tables means is said in docs/operators.md.
static const char *const ways[] = {[NBX_RUNS_NOWHERE] = NULL, [NBX_RUNS_KERNEL] = "kernel", [NBX_RUNS_OTHERS] = "calls",
                                   [NBX_RUNS_NOTHING] = "view", [NBX_RUNS_ON_HOST] = "host", [NBX_RUNS_IN_PROGRAMS] = "programs"};

static void print_json(const nbx_operator *op, bool first) {
    printf("%s  {\"name\": ", first ? "" : ",\n");
    print_json_text(nbx_operator_name(op));
    const char *cuda = ways[nbx_operator_runs(op, NBX_CUDA)];
    printf(", \"cpu\": %s, \"cuda\": %s, \"cuda_by\": %s%s%s, \"in_programs\": %s, \"refused\": ", runs_on(op, NBX_CPU) ? "true" : "false",
           runs_on(op, NBX_CUDA) ? "true" : "false", cuda ? "\"" : "", cuda ? cuda : "null", cuda ? "\"" : "",
           nbx_operator_in_programs(op) ? "true" : "false");
    if (nbx_operator_refusal(op)) print_json_text(nbx_operator_refusal(op));
    else printf("null");
    printf(", \"schema\": ");
    print_json_text(nbx_operator_schema(op));
    printf("}");
}

static void print_text(const nbx_operator *op) {
    const nbx_operator_way cuda = nbx_operator_runs(op, NBX_CUDA);
    const char *where = nbx_operator_in_programs(op) ? "programs" : nbx_operator_refusal(op) ? "refused" : !runs(op) ? "-" :
                        cuda == NBX_RUNS_ON_HOST ? "cpu, host" : cuda != NBX_RUNS_NOWHERE ? "cpu, cuda" : "cpu";
    printf("%-48s %-10s %s%s%s\n", nbx_operator_name(op), where, nbx_operator_schema(op), nbx_operator_refusal(op) ? ": " : "",
           nbx_operator_refusal(op) ? nbx_operator_refusal(op) : "");
}

// ------------------------------------------------------------------------------------------------------------ markdown
// Length of "aten::add" in "aten::add_.Tensor": overloads and in-place forms are of one operator.
static size_t family_length(const char *name) {
    size_t length = strcspn(name, ".");
    const bool dunder = length > 2 && name[length - 1] == '_' && name[length - 2] == '_';
    if (length > 1 && name[length - 1] == '_' && !dunder) length--;
    return length;
}

static bool same_family(const char *a, const char *b) {
    const size_t length = family_length(a);
    return length == family_length(b) && strncmp(a, b, length) == 0;
}

static bool writes_keyword(const char *schema) {
    const char *star = strstr(schema, "*, "), *mark = star ? strstr(star, "!)") : NULL, *arrow = strstr(schema, "->");
    return mark && arrow && mark < arrow;
}

// The overloads of rows [at, end): "Tensor, Scalar, in place, out".
static void print_overloads(size_t at, size_t end, size_t length) {
    bool in_place = false, out = false, first = true;
    for (size_t i = at; i < end; i++) {
        const char *name = nbx_operator_name(nbx_operator_at(i)), *rest = name + length;
        if (*rest == '_') in_place = true;
        else if (writes_keyword(nbx_operator_schema(nbx_operator_at(i)))) out = true;
        else printf("%s%s", first ? "" : ", ", *rest == '.' ? rest + 1 : "default"), first = false;
    }
    if (in_place) printf("%sin place", first ? "" : ", ");
    if (out) printf("%sout", first && !in_place ? "" : ", ");
}

// How the overloads of rows [at, end) run: "kernel", or "kernel, calls" where they differ.
static void print_ways(size_t at, size_t end, nbx_device_type device) {
    unsigned seen = 0;
    for (size_t i = at; i < end; i++) seen |= 1u << nbx_operator_runs(nbx_operator_at(i), device);
    const char *between = " ";
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        if (!ways[way] || !(seen & 1u << way)) continue;
        printf("%s%s", between, ways[way]);
        between = ", ";
    }
    printf(" |");
}

static void print_family(size_t at, size_t end, bool cuda) {
    const nbx_operator *op = nbx_operator_at(at);
    const size_t length = family_length(nbx_operator_name(op));
    printf("| `%.*s` | ", (int)length, nbx_operator_name(op));
    print_overloads(at, end, length);
    printf(" |");
    print_ways(at, end, NBX_CPU);
    if (cuda) print_ways(at, end, NBX_CUDA);
    printf(" %s |\n", nbx_operator_refusal(op) ? nbx_operator_refusal(op) : "");
}

static int list_markdown(const char *name) {
    const bool cuda = nbx_operator_runs(nbx_op_find("aten::add.Tensor"), NBX_CUDA) != NBX_RUNS_NOWHERE;  // libnbx_cuda.so is there
    printf("| operator | overloads | CPU |%s notes |\n| --- | --- | --- |%s --- |\n", cuda ? " CUDA |" : "", cuda ? " --- |" : "");
    for (size_t at = 0, end; at < nbx_operator_count(); at = end) {
        for (end = at + 1; end < nbx_operator_count() && same_family(nbx_operator_name(nbx_operator_at(at)), nbx_operator_name(nbx_operator_at(end))); end++) {}
        if (!name || strstr(nbx_operator_name(nbx_operator_at(at)), name)) print_family(at, end, cuda);
    }
    return EXIT_RIGHT;
}

// ---------------------------------------------------------------------------------------------------------------- lists
static bool is_wanted(const nbx_operator *op, const char *name, bool missing) {
    if (name && !strstr(nbx_operator_name(op), name)) return false;
    return !missing || !(runs(op) || nbx_operator_refusal(op));
}

static int list(const char *name, list_form form, bool missing) {
    size_t shown = 0, available = 0, refused = 0;
    const nbx_operator *exact = name ? nbx_op_find(name) : NULL;
    if (form == FORM_JSON) printf("[\n");
    for (size_t i = 0; i < nbx_operator_count(); i++) {
        const nbx_operator *op = nbx_operator_at(i);
        if (exact ? op != exact : !is_wanted(op, name, missing)) continue;
        if (form == FORM_JSON) print_json(op, shown == 0);
        else print_text(op);
        shown++;
        available += runs(op);
        refused += nbx_operator_refusal(op) != NULL;
    }
    if (form == FORM_JSON) printf("\n]\n");
    if (form == FORM_TEXT && !exact) printf("%zu operators: %zu run, %zu are refused with a reason, %zu are missing\n", shown, available, refused, shown - available - refused);
    if (shown || !name) return EXIT_RIGHT;
    return complain("ops", EXIT_USAGE, "no operator is named %s", name);
}

int command_ops(int count, char **args) {
    const char *name = NULL;
    list_form form = FORM_TEXT;
    bool missing = false;
    for (int i = 0; i < count; i++) {
        if (strcmp(args[i], "--help") == 0 || strcmp(args[i], "-h") == 0) return fputs(help, stdout), EXIT_RIGHT;
        if (strcmp(args[i], "--json") == 0) form = FORM_JSON;
        else if (strcmp(args[i], "--markdown") == 0) form = FORM_MARKDOWN;
        else if (strcmp(args[i], "--missing") == 0) missing = true;
        else if (args[i][0] == '-' || name) return complain("ops", EXIT_USAGE, "what is %s? See nbx ops --help", args[i]);
        else name = args[i];
    }
    return form == FORM_MARKDOWN ? list_markdown(name) : list(name, form, missing);
}

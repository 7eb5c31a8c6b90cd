// nbx ops: the table of operators, and where each of them runs.
#include <stdio.h>
#include <string.h>

#include "cli.h"

static const char help[] =
    "nbx ops [NAME] [--json | --markdown] [--missing]\n"
    "\n"
    "Lists every operator the library knows, with the devices it runs on. NAME shows one (aten::add.Tensor, add.Tensor,\n"
    "torch.ops.aten.add.Tensor), or all whose name contains it.\n"
    "  --json        as a JSON list\n"
    "  --markdown    as a table for documents\n"
    "  --missing     only those without an implementation\n";

typedef enum list_form { FORM_TEXT, FORM_JSON, FORM_MARKDOWN } list_form;

static void print_one(const nbx_operator *op, list_form form, bool first) {
    const bool cpu = nbx_operator_available(op, NBX_CPU), cuda = nbx_operator_available(op, NBX_CUDA);
    const char *where = cpu && cuda ? "cpu, cuda" : cpu ? "cpu" : cuda ? "cuda" : "-";
    if (form == FORM_JSON) {
        printf("%s  {\"name\": ", first ? "" : ",\n");
        print_json_text(nbx_operator_name(op));
        printf(", \"cpu\": %s, \"cuda\": %s, \"schema\": ", cpu ? "true" : "false", cuda ? "true" : "false");
        print_json_text(nbx_operator_schema(op));
        printf("}");
    } else if (form == FORM_MARKDOWN) {
        printf("| `%s` | %s | `%s` |\n", nbx_operator_name(op), where, nbx_operator_schema(op));
    } else {
        printf("%-48s %-10s %s\n", nbx_operator_name(op), where, nbx_operator_schema(op));
    }
}

static bool is_wanted(const nbx_operator *op, const char *name, bool missing) {
    if (name && !strstr(nbx_operator_name(op), name)) return false;
    return !missing || !(nbx_operator_available(op, NBX_CPU) || nbx_operator_available(op, NBX_CUDA));
}

static int list(const char *name, list_form form, bool missing) {
    size_t shown = 0, available = 0;
    const nbx_operator *exact = name ? nbx_op_find(name) : NULL;
    if (form == FORM_JSON) printf("[\n");
    if (form == FORM_MARKDOWN) printf("| operator | runs on | schema |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < nbx_operator_count(); i++) {
        const nbx_operator *op = nbx_operator_at(i);
        if (exact ? op != exact : !is_wanted(op, name, missing)) continue;
        print_one(op, form, shown++ == 0);
        available += nbx_operator_available(op, NBX_CPU) || nbx_operator_available(op, NBX_CUDA);
    }
    if (form == FORM_JSON) printf("\n]\n");
    if (form == FORM_TEXT && !exact) printf("%zu operators, %zu of them implemented\n", shown, available);
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
    return list(name, form, missing);
}

// Arguments of a program's JSON to operands. Every form that any release has written is taken: the older ones spell out all
// members of a union with nulls, and write names of optional tensors as bare strings.
#include <string.h>

#include "program/graph.h"

bool nbx_union_member(const nbx_json *object, const char **name, const nbx_json **value) {
    if (!nbx_json_is(object, NBX_JSON_OBJECT)) return false;
    const nbx_json_member *found = NULL;
    for (uint32_t i = 0; i < object->count; i++) {
        const nbx_json_member *m = &object->as.members[i];
        if (nbx_json_is(&m->value, NBX_JSON_NULL)) continue;
        if (found) return false;
        found = m;
    }
    if (!found) return false;
    *name = found->name;
    *value = &found->value;
    return true;
}

static bool give(nbx_operand *operand, nbx_value constant) {
    operand->kind = NBX_OPERAND_CONSTANT;
    operand->as.constant = constant;
    return true;
}

static bool refuse(nbx_graph_reader *r, const char *form) { return nbx_graph_fail(r, "argument %s is malformed", form); }

static char *copy_text(nbx_graph_reader *r, const nbx_json *v) {
    if (!nbx_json_is(v, NBX_JSON_STRING) || strlen(v->as.string) != v->count) return NULL;
    return nbx_arena_text(r->ctx, r->arena, v->as.string, v->count);
}

static bool read_name(nbx_graph_reader *r, const nbx_json *name, nbx_operand *operand) {
    if (nbx_json_is(name, NBX_JSON_OBJECT)) name = nbx_json_get(name, "name");
    if (!nbx_json_is(name, NBX_JSON_STRING)) return refuse(r, "as_tensor");
    operand->kind = NBX_OPERAND_VALUE;
    operand->as.value = nbx_graph_value_of(r, name->as.string);
    return operand->as.value >= 0;
}

// ------------------------------------------------------------------------------------------------------------- numbers
static bool number_of(const nbx_json *v, double *x) {
    static const struct { const char *text; double value; } words[] = {
        {"Infinity", __builtin_inf()}, {"-Infinity", -__builtin_inf()}, {"NaN", __builtin_nan("")},
        {"inf", __builtin_inf()}, {"-inf", -__builtin_inf()}, {"nan", __builtin_nan("")},
    };
    if (nbx_json_is(v, NBX_JSON_INT) || nbx_json_is(v, NBX_JSON_FLOAT)) return *x = nbx_json_number_or(v, 0), true;
    if (!nbx_json_is(v, NBX_JSON_STRING)) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(v->as.string, words[i].text) == 0) return *x = words[i].value, true;
    return false;
}

static bool read_number(nbx_graph_reader *r, const char *form, const nbx_json *v, nbx_operand *operand) {
    double x;
    if (strcmp(form, "as_int") == 0 && nbx_json_is(v, NBX_JSON_INT)) return give(operand, nbx_of_int(v->as.integer));
    if (strcmp(form, "as_bool") == 0 && nbx_json_is(v, NBX_JSON_BOOL)) return give(operand, nbx_of_bool(v->as.boolean));
    if (strcmp(form, "as_float") == 0 && number_of(v, &x)) return give(operand, nbx_of_float(x));
    return refuse(r, form);
}

// {"as_name": "sym_size_int"} or {"as_int": 3}, as_float, as_bool.
static bool read_symbolic(nbx_graph_reader *r, const nbx_json *v, nbx_operand *operand) {
    const char *form;
    const nbx_json *value;
    if (!nbx_union_member(v, &form, &value)) return refuse(r, "as_sym_int");
    return strcmp(form, "as_name") == 0 ? read_name(r, value, operand) : read_number(r, form, value, operand);
}

static bool read_complex(nbx_graph_reader *r, const nbx_json *v, nbx_operand *operand) {
    double re, im;
    if (!number_of(nbx_json_get(v, "real"), &re) || !number_of(nbx_json_get(v, "imag"), &im)) return refuse(r, "as_complex");
    return give(operand, nbx_of_complex(re, im));
}

// --------------------------------------------------------------------------------------------------------------- lists
// A list whose items are all numbers becomes a constant of the narrowest kind that holds them.
static bool pack_constants(nbx_graph_reader *r, nbx_operand *operand) {
    const int32_t count = operand->as.list.count;
    const nbx_operand *items = operand->as.list.items;
    int kind = count ? (int)items[0].as.constant.kind : NBX_KIND_INT;
    for (int32_t i = 0; i < count; i++)
        if (items[i].as.constant.kind != kind) kind = NBX_KIND_NONE;
    const bool plain = kind == NBX_KIND_INT || kind == NBX_KIND_FLOAT || kind == NBX_KIND_BOOL;
    void *list = nbx_arena_array(r->ctx, r->arena, (size_t)count + 1, plain ? 8 : sizeof(nbx_value));
    if (!list) return false;
    for (int32_t i = 0; i < count; i++) {
        const nbx_value *v = &items[i].as.constant;
        if (kind == NBX_KIND_INT) ((int64_t *)list)[i] = v->as.integer;
        else if (kind == NBX_KIND_FLOAT) ((double *)list)[i] = v->as.real;
        else if (kind == NBX_KIND_BOOL) ((bool *)list)[i] = v->as.boolean;
        else ((nbx_value *)list)[i] = *v;
    }
    return give(operand, kind == NBX_KIND_INT     ? nbx_of_ints(list, count)
                         : kind == NBX_KIND_FLOAT ? nbx_of_floats(list, count)
                         : kind == NBX_KIND_BOOL  ? nbx_of_bools(list, count)
                                                  : nbx_of_values(list, count));
}

typedef bool (*read_item)(nbx_graph_reader *r, const char *form, const nbx_json *v, nbx_operand *operand);

static bool read_list(nbx_graph_reader *r, const char *form, const nbx_json *v, read_item item, nbx_operand *operand) {
    if (!nbx_json_is(v, NBX_JSON_ARRAY) || v->count > INT32_MAX / 64) return refuse(r, form);
    operand->kind = NBX_OPERAND_LIST;
    operand->as.list.count = (int32_t)v->count;
    operand->as.list.items = nbx_arena_array(r->ctx, r->arena, v->count + 1, sizeof(nbx_operand));
    if (!operand->as.list.items) return false;
    bool constant = true;
    for (uint32_t i = 0; i < v->count; i++) {
        if (!item(r, form, &v->as.items[i], &operand->as.list.items[i])) return false;
        constant &= operand->as.list.items[i].kind == NBX_OPERAND_CONSTANT;
    }
    return constant ? pack_constants(r, operand) : true;
}

static bool item_tensor(nbx_graph_reader *r, const char *form, const nbx_json *v, nbx_operand *operand) {
    (void)form;
    return read_name(r, v, operand);
}

static bool item_optional(nbx_graph_reader *r, const char *form, const nbx_json *v, nbx_operand *operand) {
    const char *member;
    const nbx_json *value;
    if (!nbx_union_member(v, &member, &value)) return refuse(r, form);
    if (strcmp(member, "as_none") == 0) return give(operand, nbx_of_none());
    return strcmp(member, "as_tensor") == 0 ? read_name(r, value, operand) : refuse(r, form);
}

static bool item_symbolic(nbx_graph_reader *r, const char *form, const nbx_json *v, nbx_operand *operand) {
    (void)form;
    return read_symbolic(r, v, operand);
}

static bool item_number(nbx_graph_reader *r, const char *form, const nbx_json *v, nbx_operand *operand) {
    const char *one = strcmp(form, "as_ints") == 0 ? "as_int" : strcmp(form, "as_floats") == 0 ? "as_float" : "as_bool";
    return read_number(r, one, v, operand);
}

static bool item_text(nbx_graph_reader *r, const char *form, const nbx_json *v, nbx_operand *operand) {
    char *text = copy_text(r, v);
    return text ? give(operand, nbx_of_string(text)) : refuse(r, form);
}

static bool item_ints(nbx_graph_reader *r, const char *form, const nbx_json *v, nbx_operand *operand) {
    return read_list(r, strcmp(form, "as_int_lists") == 0 ? "as_ints" : "as_floats", v, item_number, operand);
}

// --------------------------------------------------------------------------------------------------------- enumerations
static bool read_dtype(nbx_graph_reader *r, const nbx_json *v, nbx_operand *operand) {
    if (!nbx_json_is(v, NBX_JSON_INT)) return refuse(r, "as_scalar_type");
    const nbx_dtype dtype = nbx_dtype_from_program((int)v->as.integer);
    if (dtype == NBX_DTYPE_NONE && !nbx_problem_add(r->ctx, r->problems, "dtype number %lld is not supported", (long long)v->as.integer))
        return false;
    return give(operand, nbx_of_dtype(dtype));
}

static bool read_memory_format(nbx_graph_reader *r, const nbx_json *v, nbx_operand *operand) {
    static const nbx_memory_format formats[] = {NBX_CONTIGUOUS_FORMAT, NBX_CHANNELS_LAST, NBX_CHANNELS_LAST_3D, NBX_PRESERVE_FORMAT};
    const int64_t code = nbx_json_int_or(v, 0);
    if (code < 1 || code > 4) return refuse(r, "as_memory_format");
    return give(operand, nbx_of_memory_format(formats[code - 1]));
}

static bool read_layout(nbx_graph_reader *r, const nbx_json *v, nbx_operand *operand) {
    if (!nbx_json_is(v, NBX_JSON_INT)) return refuse(r, "as_layout");
    if (v->as.integer != 7 && !nbx_problem_add(r->ctx, r->problems, "layout number %lld is not supported (only strided is)", (long long)v->as.integer))
        return false;
    nbx_value layout = nbx_of_none();
    layout.kind = NBX_KIND_LAYOUT;
    return give(operand, layout);
}

static bool read_graph(nbx_graph_reader *r, const nbx_json *v, nbx_operand *operand) {
    const nbx_json *graph = nbx_json_get(v, "graph");
    const char *name = copy_text(r, nbx_json_get(v, "name"));
    if (!graph || !name) return refuse(r, "as_graph");
    operand->kind = NBX_OPERAND_GRAPH;
    operand->as.graph = nbx_graph_read(r, graph, name);
    return operand->as.graph != NULL;
}

static bool item_tensors(nbx_graph_reader *r, const char *form, const nbx_json *v, nbx_operand *operand) {
    return read_list(r, form, v, item_tensor, operand);
}

// {"name": Argument, ...}: the values in their order, as keyword arguments are bound.
static bool read_dictionary(nbx_graph_reader *r, const nbx_json *v, nbx_operand *operand) {
    if (!nbx_json_is(v, NBX_JSON_OBJECT)) return refuse(r, "as_string_to_argument");
    operand->kind = NBX_OPERAND_LIST;
    operand->as.list.count = 0;
    operand->as.list.items = nbx_arena_array(r->ctx, r->arena, v->count + 1, sizeof(nbx_operand));
    if (!operand->as.list.items) return false;
    bool constant = true;
    for (uint32_t i = 0; i < v->count; i++) {
        nbx_operand *item = &operand->as.list.items[operand->as.list.count++];
        if (!nbx_operand_read(r, &v->as.members[i].value, item)) return false;
        constant &= item->kind == NBX_OPERAND_CONSTANT;
    }
    return constant ? pack_constants(r, operand) : true;
}

static bool unsupported(nbx_graph_reader *r, const char *form, nbx_operand *operand) {
    return nbx_problem_add(r->ctx, r->problems, "arguments of the kind %s are not supported", form) && give(operand, nbx_of_none());
}

// ------------------------------------------------------------------------------------------------------------------ all
static bool read_form(nbx_graph_reader *r, const char *form, const nbx_json *v, nbx_operand *operand) {
    if (strcmp(form, "as_tensor") == 0) return read_name(r, v, operand);
    if (strcmp(form, "as_none") == 0) return give(operand, nbx_of_none());
    if (strcmp(form, "as_int") == 0 || strcmp(form, "as_float") == 0 || strcmp(form, "as_bool") == 0) return read_number(r, form, v, operand);
    if (strncmp(form, "as_sym_", 7) == 0)
        return form[strlen(form) - 1] == 's' ? read_list(r, form, v, item_symbolic, operand) : read_symbolic(r, v, operand);
    if (strcmp(form, "as_tensors") == 0) return read_list(r, form, v, item_tensor, operand);
    if (strcmp(form, "as_optional_tensors") == 0) return read_list(r, form, v, item_optional, operand);
    if (strcmp(form, "as_ints") == 0 || strcmp(form, "as_floats") == 0 || strcmp(form, "as_bools") == 0)
        return read_list(r, form, v, item_number, operand);
    if (strcmp(form, "as_scalar_type") == 0) return read_dtype(r, v, operand);
    if (strcmp(form, "as_device") == 0) return give(operand, nbx_of_device(r->device));
    if (strcmp(form, "as_layout") == 0) return read_layout(r, v, operand);
    if (strcmp(form, "as_memory_format") == 0) return read_memory_format(r, v, operand);
    if (strcmp(form, "as_string") == 0 || strcmp(form, "as_operator") == 0) return item_text(r, form, v, operand);
    if (strcmp(form, "as_strings") == 0) return read_list(r, form, v, item_text, operand);
    if (strcmp(form, "as_graph") == 0) return read_graph(r, v, operand);
    if (strcmp(form, "as_complex") == 0) return read_complex(r, v, operand);
    if (strcmp(form, "as_optional_tensor") == 0) return item_optional(r, form, v, operand);
    if (strcmp(form, "as_int_lists") == 0 || strcmp(form, "as_float_lists") == 0) return read_list(r, form, v, item_ints, operand);
    if (strcmp(form, "as_nested_tensors") == 0) return read_list(r, form, v, item_tensors, operand);
    if (strcmp(form, "as_string_to_argument") == 0) return read_dictionary(r, v, operand);
    return unsupported(r, form, operand);
}

bool nbx_operand_read(nbx_graph_reader *r, const nbx_json *argument, nbx_operand *operand) {
    const char *form;
    const nbx_json *value;
    // None is written [] or true; some writers leave every member of the union null.
    if (nbx_json_is(argument, NBX_JSON_OBJECT) && !nbx_union_member(argument, &form, &value)) {
        for (uint32_t i = 0; i < argument->count; i++)
            if (!nbx_json_is(&argument->as.members[i].value, NBX_JSON_NULL)) return nbx_graph_fail(r, "an argument is given in two forms");
        return give(operand, nbx_of_none());
    }
    if (!nbx_union_member(argument, &form, &value)) return nbx_graph_fail(r, "an argument is no object");
    return read_form(r, form, value, operand);
}

// Reads ATen schema text. One allocation holds the schema, its names and its defaults.
//   ns::name.overload(Tensor self, int[2] stride=1, *, ScalarType? dtype=None) -> (Tensor values, Tensor indices)
#include "ops/schema.h"
#include "core/memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    nbx_context *ctx;
    const char *text, *at;
    char *memory;  // bump allocator: sized so that it cannot run out
    size_t left;
    bool failed;
} reader;

static void *take(reader *r, size_t bytes) {
    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > r->left) {
        r->failed = true;
        return NULL;
    }
    void *p = r->memory;
    r->memory += bytes;
    r->left -= bytes;
    return p;
}

static void fail(reader *r, const char *what) {
    if (!r->failed) nbx_fail(r->ctx, NBX_ERROR_ARGUMENT, "schema '%s': %s at '%.20s'", r->text, what, r->at);
    r->failed = true;
}

static void skip_blanks(reader *r) {
    while (*r->at == ' ') r->at++;
}

static bool accept(reader *r, const char *token) {
    skip_blanks(r);
    const size_t length = strlen(token);
    if (strncmp(r->at, token, length) != 0) return false;
    r->at += length;
    return true;
}

static char *copy_text(reader *r, const char *from, size_t length) {
    char *copy = take(r, length + 1);
    if (!copy) return NULL;
    memcpy(copy, from, length);
    copy[length] = 0;
    return copy;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

static size_t word(reader *r) {
    skip_blanks(r);
    size_t n = 0;
    while (is_word(r->at[n])) n++;
    return n;
}

static const struct {
    const char *name;
    nbx_type type;
} types[] = {
    {"Tensor", NBX_TYPE_TENSOR},       {"int", NBX_TYPE_INT},         {"SymInt", NBX_TYPE_INT},
    {"float", NBX_TYPE_FLOAT},         {"SymFloat", NBX_TYPE_FLOAT},  {"bool", NBX_TYPE_BOOL},
    {"SymBool", NBX_TYPE_BOOL},        {"Scalar", NBX_TYPE_SCALAR},   {"str", NBX_TYPE_STRING},
    {"ScalarType", NBX_TYPE_DTYPE},    {"Layout", NBX_TYPE_LAYOUT},   {"Device", NBX_TYPE_DEVICE},
    {"MemoryFormat", NBX_TYPE_MEMORY_FORMAT}, {"Generator", NBX_TYPE_GENERATOR}, {"Storage", NBX_TYPE_STORAGE},
};

static void read_type(reader *r, nbx_param *p) {
    const size_t n = word(r);
    if (!n) {
        fail(r, "expected a type");
        return;
    }
    p->type = NBX_TYPE_OTHER;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].name) == n && strncmp(types[i].name, r->at, n) == 0) p->type = (uint8_t)types[i].type;
    r->at += n;
    if (*r->at == '(') {  // an alias annotation: (a), (a!), (a -> *), (a|b)
        p->aliased = true;
        while (*r->at && *r->at != ')') p->written |= *r->at++ == '!';
        if (*r->at) r->at++;
    }
    for (;;) {
        if (*r->at == '?') {
            p->optional = true;
            r->at++;
        } else if (*r->at == '[') {
            p->optional_element = p->optional;
            p->optional = false;
            p->list = true;
            p->fixed_count = (int32_t)strtol(r->at + 1, NULL, 10);
            while (*r->at && *r->at != ']') r->at++;
            if (*r->at) r->at++;
        } else {
            return;
        }
    }
}

static nbx_value read_number(reader *r, nbx_type type) {
    char *end_int, *end_float;
    const long long integer = strtoll(r->at, &end_int, 10);
    const double real = strtod(r->at, &end_float);
    if (end_float == r->at) fail(r, "expected a number");
    const bool is_float = end_float > end_int || type == NBX_TYPE_FLOAT;
    r->at = end_float;
    return is_float ? nbx_of_float(real) : nbx_of_int(integer);
}

static nbx_value read_list(reader *r, nbx_type type) {
    int64_t ints[16];
    double floats[16];
    int n = 0;
    while (!accept(r, "]") && !r->failed && n < 16) {
        skip_blanks(r);
        const nbx_value v = read_number(r, type);
        ints[n] = v.kind == NBX_KIND_INT ? v.as.integer : 0;
        floats[n++] = v.kind == NBX_KIND_FLOAT ? v.as.real : 0;
        accept(r, ",");
    }
    void *list = take(r, sizeof(int64_t) * (size_t)(n ? n : 1));
    if (!list) return nbx_of_none();
    if (type == NBX_TYPE_FLOAT) {
        memcpy(list, floats, sizeof(double) * (size_t)n);
        return nbx_of_floats(list, n);
    }
    memcpy(list, ints, sizeof(int64_t) * (size_t)n);
    return type == NBX_TYPE_TENSOR ? nbx_of_tensors(list, 0) : nbx_of_ints(list, n);
}

static nbx_value read_default(reader *r, nbx_param *p) {
    if (accept(r, "None")) return nbx_of_none();
    if (accept(r, "True")) return nbx_of_bool(true);
    if (accept(r, "False")) return nbx_of_bool(false);
    if (accept(r, "contiguous_format")) return nbx_of_memory_format(NBX_CONTIGUOUS_FORMAT);
    if (accept(r, "[")) return read_list(r, (nbx_type)p->type);
    if (*r->at == '"' || *r->at == '\'') {
        const char quote = *r->at++;
        const char *start = r->at;
        while (*r->at && *r->at != quote) r->at++;
        const nbx_value v = nbx_of_string(copy_text(r, start, (size_t)(r->at - start)));
        if (*r->at) r->at++;
        return v;
    }
    const nbx_value v = read_number(r, (nbx_type)p->type);
    if (p->type == NBX_TYPE_DTYPE && v.kind == NBX_KIND_INT) return nbx_of_dtype((nbx_dtype)v.as.integer);  // dtypes have ATen's numbers
    if (!p->list || r->failed) return v;
    int64_t *ints = take(r, sizeof *ints * 8);  // "int[2] stride=1"
    const int n = p->fixed_count > 0 && p->fixed_count <= 8 ? p->fixed_count : 1;
    for (int i = 0; ints && i < n; i++) ints[i] = v.as.integer;
    return nbx_of_ints(ints, n);
}

static void read_param(reader *r, nbx_param *p, bool keyword_only) {
    read_type(r, p);
    p->keyword_only = keyword_only;
    const size_t n = word(r);
    if (n) {
        p->name = copy_text(r, r->at, n);
        r->at += n;
    }
    if (accept(r, "=")) {
        p->has_default = true;
        p->fallback = read_default(r, p);
    }
}

static void read_params(reader *r, nbx_schema *s) {
    bool keyword_only = false;
    while (!r->failed && !accept(r, ")")) {
        if (accept(r, "*")) keyword_only = true;
        else if (s->param_count == NBX_MAX_ARGS) fail(r, "too many parameters");
        else {
            read_param(r, &s->params[s->param_count++], keyword_only);
            s->positional_count += !keyword_only;
        }
        if (!accept(r, ",") && *r->at != ')') fail(r, "expected ',' or ')'");
    }
}

static void read_results(reader *r, nbx_schema *s) {
    if (!accept(r, "->")) fail(r, "expected '->'");
    if (!accept(r, "(")) {
        read_param(r, &s->results[s->result_count++], false);
        return;
    }
    while (!r->failed && !accept(r, ")")) {
        if (s->result_count == NBX_MAX_RESULTS) fail(r, "too many results");
        else read_param(r, &s->results[s->result_count++], false);
        if (!accept(r, ",") && *r->at != ')') fail(r, "expected ',' or ')'");
    }
}

nbx_schema *nbx_schema_create(nbx_context *ctx, const char *text) {
    const size_t length = strlen(text);
    size_t commas = 2;
    for (const char *c = text; *c; c++) commas += *c == ',' || *c == '(';
    // Every name and default is a piece of the text, rounded up; a list default takes 64 bytes.
    const size_t bytes = sizeof(nbx_schema) + 2 * commas * sizeof(nbx_param) + 3 * length + commas * 96 + 256;
    char *memory = nbx_alloc_zero(bytes);
    if (!memory) {
        nbx_fail_memory(ctx, bytes, "schema");
        return NULL;
    }
    reader r = {.ctx = ctx, .text = text, .at = text, .memory = memory, .left = bytes};
    nbx_schema *s = take(&r, sizeof *s);
    s->memory = memory;
    s->text = copy_text(&r, text, length);
    const size_t name = strcspn(text, "(");
    s->name = copy_text(&r, text, name);
    r.at += name;
    s->params = take(&r, commas * sizeof(nbx_param));
    s->results = take(&r, commas * sizeof(nbx_param));
    if (!*r.at) s->varargs = true;
    else if (accept(&r, "(")) {
        read_params(&r, s);
        read_results(&r, s);
    }
    if (!r.failed) return s;
    fail(&r, "malformed");
    nbx_schema_destroy(s);
    return NULL;
}

void nbx_schema_destroy(nbx_schema *schema) {
    if (schema) nbx_free(schema->memory);
}

int nbx_schema_param(const nbx_schema *schema, const char *name) {
    for (int i = 0; i < schema->param_count; i++)
        if (schema->params[i].name && strcmp(schema->params[i].name, name) == 0) return i;
    return -1;
}

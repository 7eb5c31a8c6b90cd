// Strict JSON as a tree of values: what archives, safetensors headers and golden files are written in.
//
// Accepted is RFC 8259 plus NaN, Infinity and -Infinity, which Python writes. Integers keep all 64 bits. Refused are repeated
// names, control characters and broken UTF-8 in strings, lone surrogates, text after the value, and nesting past
// NBX_JSON_MAX_DEPTH. A document owns its memory; values are read-only and live as long as it does.
#ifndef NBX_PROGRAM_JSON_H
#define NBX_PROGRAM_JSON_H

#include "nbx/context.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NBX_JSON_MAX_DEPTH 500

typedef enum nbx_json_kind {
    NBX_JSON_NULL,
    NBX_JSON_BOOL,
    NBX_JSON_INT,    // written without fraction or exponent, and fits int64
    NBX_JSON_FLOAT,  // every other number
    NBX_JSON_STRING,
    NBX_JSON_ARRAY,
    NBX_JSON_OBJECT,
} nbx_json_kind;

typedef struct nbx_json nbx_json;
typedef struct nbx_json_member nbx_json_member;

struct nbx_json {
    uint32_t kind;   // nbx_json_kind
    uint32_t count;  // bytes of a string, elements of an array, members of an object
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *string;              // UTF-8, with a final zero that count leaves out
        const nbx_json *items;           // [count]
        const nbx_json_member *members;  // [count], in the order of the text
    } as;
};

struct nbx_json_member {
    const char *name;
    uint32_t name_bytes;
    uint32_t hash;
    nbx_json value;
};

typedef struct nbx_json_document nbx_json_document;

// Reads a text, which need not live on. `what` names it in messages: "model.json: line 3, column 7: expected ':'".
// NULL: fails the context (FORMAT or MEMORY). Undone by nbx_json_destroy, which takes NULL.
nbx_json_document *nbx_json_create(nbx_context *ctx, const char *what, const char *text, size_t bytes);
void nbx_json_destroy(nbx_json_document *document);
const nbx_json *nbx_json_root(const nbx_json_document *document);

// Member of an object by name, element of an array by position. NULL when there is none, and when the value is of another
// kind or NULL itself, so that look-ups chain: nbx_json_get(nbx_json_get(root, "graph_module"), "graph").
const nbx_json *nbx_json_get(const nbx_json *object, const char *name);
const nbx_json *nbx_json_at(const nbx_json *array, size_t index);

static inline bool nbx_json_is(const nbx_json *v, nbx_json_kind kind) { return v && v->kind == (uint32_t)kind; }
// The value's content, or `otherwise` when the value is absent or of another kind.
static inline const char *nbx_json_string_or(const nbx_json *v, const char *otherwise) {
    return nbx_json_is(v, NBX_JSON_STRING) ? v->as.string : otherwise;
}
static inline int64_t nbx_json_int_or(const nbx_json *v, int64_t otherwise) {
    return nbx_json_is(v, NBX_JSON_INT) ? v->as.integer : otherwise;
}
static inline double nbx_json_number_or(const nbx_json *v, double otherwise) {
    if (nbx_json_is(v, NBX_JSON_INT)) return (double)v->as.integer;
    return nbx_json_is(v, NBX_JSON_FLOAT) ? v->as.real : otherwise;
}
static inline bool nbx_json_bool_or(const nbx_json *v, bool otherwise) {
    return nbx_json_is(v, NBX_JSON_BOOL) ? v->as.boolean : otherwise;
}

#ifdef __cplusplus
}
#endif
#endif

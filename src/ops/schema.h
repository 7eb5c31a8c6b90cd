// ATen schema strings, read: names, kinds, defaults. And the table of every operator known by name (schemas.def).
#ifndef NBX_OPS_SCHEMA_H
#define NBX_OPS_SCHEMA_H

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    NBX_TAG_CORE = 1, NBX_TAG_SEED = 2, NBX_TAG_EXTRA = 4, NBX_TAG_VIEW = 8, NBX_TAG_MAYBE_VIEW = 16,
    NBX_TAG_RANDOM = 32, NBX_TAG_DYNAMIC_SHAPE = 64, NBX_TAG_DATA_DEPENDENT = 128, NBX_TAG_POINTWISE = 256,
    NBX_TAG_OWN = 512, NBX_TAG_HISTORICAL = 1024, NBX_TAG_GENERATED = 2048, NBX_TAG_PRIM = 4096,
    NBX_TAG_REDUCTION = 8192, NBX_TAG_INPLACE_VIEW = 16384,
};

typedef enum nbx_type {
    NBX_TYPE_TENSOR, NBX_TYPE_INT, NBX_TYPE_FLOAT, NBX_TYPE_BOOL, NBX_TYPE_SCALAR, NBX_TYPE_STRING, NBX_TYPE_DTYPE,
    NBX_TYPE_LAYOUT, NBX_TYPE_DEVICE, NBX_TYPE_MEMORY_FORMAT, NBX_TYPE_GENERATOR, NBX_TYPE_STORAGE,
    NBX_TYPE_OTHER,
} nbx_type;

typedef struct nbx_param {
    char *name;
    uint8_t type;           // nbx_type of the value, or of the element of a list
    bool list;
    bool optional;          // None is allowed ("Tensor?", "int[]?")
    bool optional_element;  // "Tensor?[]"
    bool keyword_only;
    bool written;           // "Tensor(a!)"
    bool aliased;           // "Tensor(a)"
    bool has_default;
    int32_t fixed_count;    // of "int[2]": one number stands for so many; 0: none
    nbx_value fallback;     // the default; lists and strings belong to the schema
} nbx_param;

typedef struct nbx_schema {
    char *text;             // whole
    char *name;             // "aten::add.Tensor"
    nbx_param *params;
    int param_count, positional_count;
    nbx_param *results;     // name may be NULL
    int result_count;
    bool varargs;           // higher-order: any arguments
    void *memory;           // where all of the above lies
} nbx_schema;

#define NBX_MAX_ARGS 32
#define NBX_MAX_RESULTS 10

// Parses text ("ns::name.overload(...) -> ..."); NULL and fails ctx when it is none. Undone by nbx_schema_destroy.
nbx_schema *nbx_schema_create(nbx_context *ctx, const char *text);
void nbx_schema_destroy(nbx_schema *schema);
int nbx_schema_param(const nbx_schema *schema, const char *name);  // index, or -1

#ifdef __cplusplus
}
#endif
#endif

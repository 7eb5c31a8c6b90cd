// A loaded program as its own files see it.
#ifndef NBX_PROGRAM_PROGRAM_PARTS_H
#define NBX_PROGRAM_PROGRAM_PARTS_H

#include "nbx/program.h"
#include "program/archive.h"
#include "program/expr.h"
#include "program/graph.h"
#include "program/packed.h"

// What an input of the root graph is.
typedef enum nbx_source_kind {
    NBX_SOURCE_WEIGHT,  // parameter, buffer or constant: tensor
    NBX_SOURCE_USER,    // given by the caller: user, an index into program->inputs
    NBX_SOURCE_FIXED,   // a constant of the graph: nothing reads it
    NBX_SOURCE_TOKEN,   // orders effects; carries nothing
} nbx_source_kind;

typedef struct nbx_source {
    uint8_t kind;             // nbx_source_kind
    bool parameter, persistent, constant;
    bool state;               // a weight the program writes into
    const char *name;         // of a weight, "encoder.weight"; of an input, its name in the signature
    nbx_tensor *tensor;       // of a weight; the program holds a reference
    int32_t user;
} nbx_source;

// What an output of the root graph is.
typedef enum nbx_sink_kind {
    NBX_SINK_USER,       // a result
    NBX_SINK_MUTATION,   // the new contents of an input of the graph: a buffer, a parameter or a caller's tensor
    NBX_SINK_NOTHING,
} nbx_sink_kind;

typedef struct nbx_sink {
    uint8_t kind;             // nbx_sink_kind
    int32_t input;            // MUTATION: index of the graph's input
} nbx_sink;

typedef struct nbx_symbol_range {
    bool known;
    int64_t min, max;         // max -1: unbounded
} nbx_symbol_range;

typedef struct nbx_guard {
    const nbx_expr *expr;
    const char *text;
} nbx_guard;

struct nbx_program {
    int refs;                 // atomic: sessions and the caller
    nbx_arena arena;
    nbx_bytes *bytes;
    nbx_archive *archive;
    int model;
    const char *label, *torch_version;
    nbx_device device;
    nbx_graph *graph;
    nbx_problems problems;    // not empty only if loaded to be inspected
    nbx_source *sources;      // [graph->input_count]
    nbx_sink *sinks;          // [graph->output_count]
    nbx_program_value *inputs, *outputs, *fixed;
    int input_count, output_count, fixed_count;
    const nbx_expr ***input_dims, ***output_dims;  // [count][rank]; NULL: fixed size
    int64_t **input_hints;    // [input_count][rank]: sizes at export; [0] of a number: its value then
    const nbx_expr **input_numbers;  // [input_count]: of an integer input; NULL: not symbolic
    nbx_name_map symbols;
    const char **symbol_names;
    nbx_symbol_range *ranges; // [symbol]
    int32_t symbol_count;
    int32_t range_capacity;
    nbx_guard *guards;
    int guard_count;
    nbx_program_weight *weights;
    int weight_count;
    nbx_program_operator *operators;
    int operator_count;
    size_t weight_bytes, mapped_bytes;
    size_t memory_ceiling;
    nbx_packed_weights packed;
    bool packs;               // it is open
    bool unjoined;            // elementwise calls run by themselves (the pass "epilogue" is left out)
};

// signature.c: sources, sinks, inputs, outputs, symbols and guards from the JSON of a program. false: fails ctx.
bool nbx_signature_read(nbx_context *ctx, nbx_program *p, const nbx_json *root);
// names.c: the paths of inputs and outputs from the pytree specs of the module. count leaves; NULL: fails ctx.
const char **nbx_paths_read(nbx_context *ctx, nbx_program *p, const nbx_json *root, bool outputs, int *count);
// plan.c: MEMORY when weights, state and the arena of a recording pass the program's ceiling; names the largest buffers.
nbx_status nbx_ceiling_check(nbx_context *ctx, const nbx_program *p, const nbx_recorder *r);
// What the ceiling leaves for packed weights beside them.
size_t nbx_ceiling_room(const nbx_program *p, const nbx_recorder *r);
// The same for the sizes that export saw.
nbx_status nbx_ceiling_check_at_load(nbx_context *ctx, const nbx_program *p);
// inputs.c: checks the caller's inputs against shapes, ranges and guards.
nbx_status nbx_inputs_check(nbx_context *ctx, const nbx_program *p, const nbx_value *inputs, int count);

#endif

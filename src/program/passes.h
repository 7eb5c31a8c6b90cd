// Passes: what is done to a loaded program's root graph before it runs for the first time. Nodes that need not run are
// marked as dropped; values that are the same in every run become weights of the program.
//   fold        a node whose arguments are all constants is run once, at load
//   batch_norm  a batch norm in evaluation mode behind a convolution is folded into the convolution's weights
//   dead        a node whose results nobody reads, and which does nothing else, is dropped
//   epilogue    not of the graph but of each recording (nbx_trace_finish): elementwise calls run piece by piece on what was just made
#ifndef NBX_PROGRAM_PASSES_H
#define NBX_PROGRAM_PASSES_H

#include "program/program_parts.h"

// Runs all passes but those that `without` names ("fold,dead"; NULL: none). false: fails ctx, out of memory.
bool nbx_passes_run(nbx_context *ctx, nbx_program *p, const char *without);

// What passes share: the root graph, who reads what, and what is the same in every run.
typedef struct nbx_pass {
    nbx_context *ctx;
    nbx_program *p;
    nbx_graph *graph;
    int32_t *readers;      // [value_count]: nodes and outputs that read a value
    nbx_value *constants;  // [value_count]: a value that is the same in every run, with a reference; else NONE
    int32_t *source_of;    // [value_count]: graph input that gives a value, or -1
    int32_t source_capacity;
} nbx_pass;

// The constant that a value or an operand is; NULL: none, or an absent operand.
const nbx_tensor *nbx_pass_constant(const nbx_pass *pass, int32_t value);
const nbx_tensor *nbx_pass_constant_operand(const nbx_pass *pass, const nbx_operand *operand);
// Makes t what a value is in every run, whoever gave it before. false: fails ctx.
bool nbx_pass_give(nbx_pass *pass, int32_t value, const nbx_tensor *t);
// The node need not run any more.
void nbx_pass_drop(nbx_pass *pass, nbx_node *node);

// batch_norm_fold.c
bool nbx_pass_batch_norm(nbx_pass *pass);

#endif

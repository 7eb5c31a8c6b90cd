// Higher-order operators: those that take sub-graphs.
#ifndef NBX_PROGRAM_HIGHER_H
#define NBX_PROGRAM_HIGHER_H

#include "nbx/program.h"
#include "program/graph.h"

typedef enum nbx_higher_code {
    NBX_HIGHER_NONE,
    NBX_HIGHER_COND,             // pred, true graph, false graph, operands
    NBX_HIGHER_SWITCH,           // index, graphs, operands
    NBX_HIGHER_WHILE_LOOP,       // condition graph, body graph, carried, additional
    NBX_HIGHER_WHILE_LOOP_STACK, // the same; results are all carried values, stacked
    NBX_HIGHER_MAP,              // graph, mapped operands, additional
    NBX_HIGHER_SCAN,             // graph, carried, mapped, additional
    NBX_HIGHER_SET_GRAD,         // flag, graph, operands
    NBX_HIGHER_AUTOCAST,         // device, dtype, enabled, cache, graph, operands
    NBX_HIGHER_CALL,             // graph somewhere, then operands: strict_mode, invoke_subgraph, wrap, checkpoint
    NBX_HIGHER_OUT_DTYPE,        // operator, dtype, operands
    NBX_HIGHER_ASSOCIATIVE,      // graph, mapped operands, additional
    NBX_HIGHER_FUNCTIONAL,       // operator, arguments by name (functional.c)
    NBX_HIGHER_FUNCTIONAL_2,     // the same; written arguments are views of bases
    NBX_HIGHER_NOTHING,          // prints
} nbx_higher_code;

nbx_higher_code nbx_higher_find(const char *target);

// Which node of which graph made which commands of a recording: the commands before `end` that no earlier span has.
typedef struct nbx_trace_span {
    int begin, end;
    const nbx_graph *graph;
    int32_t node;
} nbx_trace_span;

typedef struct nbx_trace {
    nbx_trace_span *spans;  // inner nodes stand before the node around them
    int count, capacity;
} nbx_trace;
// The innermost span of a command; NULL: it belongs to no node.
const nbx_trace_span *nbx_trace_find(const nbx_trace *trace, int command);
// One report for each command of a recording. seconds may be NULL.
void nbx_trace_report(const nbx_trace *trace, const nbx_recorder *r, const double *seconds, nbx_command_report_fn see, void *arg);
// The last pass: elementwise calls become epilogues of what makes their operands (ops/epilogue.h), then buffers get their places.
nbx_status nbx_trace_finish(nbx_context *ctx, nbx_trace *trace, nbx_recorder *r, bool joins);
// Puts the node of a command in front of the failure on hand.
void nbx_trace_name(nbx_context *ctx, const nbx_trace *trace, int command);

// One run of a program: what all graphs of it share.
typedef struct nbx_run {
    nbx_context *ctx;
    nbx_dtype lower;        // autocast's dtype inside a region, else NBX_DTYPE_NONE
    bool cuda_rules;        // the region was written for CUDA
    bool told;              // the failing node has been named
    int depth;              // of sub-graphs
    nbx_trace *trace;       // kept while the context records; may be NULL
} nbx_run;

// Runs a graph. Inputs are borrowed; outputs receive one value for each output of the graph, tensors with a reference each.
nbx_status nbx_graph_run(nbx_run *run, const nbx_graph *graph, const nbx_value *inputs, int count, nbx_value *outputs);
// Runs one operator of a graph by itself. values [graph->value_count]: what it reads; what it gives is put there, tensors with a
// reference each.
nbx_status nbx_node_run(nbx_context *ctx, const nbx_graph *graph, const nbx_node *node, nbx_value *values);
// Runs a higher-order node. args in the program's order (graphs are NONE there: they stand in node->args); lists are values of
// kind TENSORS, INTS or VALUES. results: room for node->output_count values, tensors with a reference each.
nbx_status nbx_higher_run(nbx_run *run, const nbx_node *node, const nbx_value *args, nbx_value *results);
// auto_functionalized, or its second version.
nbx_status nbx_functional_run(nbx_run *run, const nbx_node *node, const nbx_value *args, bool second, nbx_value *results);
// A number in a 0-dim tensor. Fails while recording: the number is not known then.
nbx_status nbx_number_of_tensor(nbx_context *ctx, const nbx_tensor *t, nbx_value *number);
void nbx_values_release(nbx_value *values, int count);

#endif

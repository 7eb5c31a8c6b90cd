// A program's graph in memory: values by number, nodes in order of execution, operators found, arguments in schema order.
#ifndef NBX_PROGRAM_GRAPH_H
#define NBX_PROGRAM_GRAPH_H

#include "ops/registry.h"
#include "program/arena.h"
#include "program/json.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nbx_graph nbx_graph;

// ------------------------------------------------------------------------------------------------------------ operands
typedef enum nbx_operand_kind {
    NBX_OPERAND_CONSTANT,  // as.constant; absent arguments are constants of kind NONE
    NBX_OPERAND_VALUE,     // as.value: number of a value of the graph
    NBX_OPERAND_LIST,      // as.list, with at least one VALUE in it
    NBX_OPERAND_GRAPH,     // as.graph: a sub-graph of a higher-order operator
} nbx_operand_kind;

typedef struct nbx_operand nbx_operand;
struct nbx_operand {
    uint8_t kind;          // nbx_operand_kind
    union {
        nbx_value constant;  // lists and strings lie in the program's arena
        int32_t value;
        nbx_graph *graph;
        struct {
            nbx_operand *items;
            int32_t count;
        } list;
    } as;
};

// --------------------------------------------------------------------------------------------------------------- nodes
typedef enum nbx_node_kind {
    NBX_NODE_OPERATOR,  // through the door
    NBX_NODE_HOST,      // sizes, checks and arithmetic of symbolic numbers: code is an nbx_host_code (symbolic.h)
    NBX_NODE_HIGHER,    // code is an nbx_higher_code (higher.h)
    NBX_NODE_UNKNOWN,   // reported; never run
    NBX_NODE_DROPPED,   // a pass found that it need not run; it stays, so that the others keep their numbers
} nbx_node_kind;

typedef struct nbx_node {
    uint8_t kind;              // nbx_node_kind
    uint8_t code;
    uint8_t cast_cpu, cast_cuda;  // what autocast does with it: nbx_autocast_policy
    int32_t arg_count;
    int32_t output_count;
    int32_t release_count;
    const nbx_operator *op;    // NULL for most HOST nodes; of a HIGHER node the operator it is given as an argument
    const nbx_schema *schema;  // of op
    nbx_operand *args;         // OPERATOR: in schema order, gaps filled with defaults; others: as the program lists them
    const char **names;        // [arg_count] of HIGHER nodes: what the program calls its arguments; "" by position
    int32_t *outputs;          // number of the value that takes each result; -1: none
    int32_t *release;          // values nobody needs after this node
    const char *target;        // "torch.ops.aten.add.Tensor"
    const char *source;        // "model.py:12: y = x + 1", "" when the program does not say
} nbx_node;

// -------------------------------------------------------------------------------------------------------------- graphs
typedef enum nbx_value_type { NBX_VALUE_TENSOR, NBX_VALUE_INT, NBX_VALUE_FLOAT, NBX_VALUE_BOOL } nbx_value_type;

typedef struct nbx_graph_value {
    const char *name;
    uint8_t type;              // nbx_value_type
    const nbx_json *meta;      // its TensorMeta while loading; NULL afterwards
} nbx_graph_value;

struct nbx_graph {
    const char *name;          // "true_graph_0"; "" for the root
    nbx_graph_value *values;
    int32_t value_count;
    nbx_operand *inputs;       // VALUE, or CONSTANT for a number that export fixed
    int32_t input_count;
    nbx_operand *outputs;
    int32_t output_count;
    nbx_node *nodes;
    int32_t node_count;
    int32_t graph_count;       // sub-graphs inside, all levels
    bool *written;             // [value_count]: may anything write into its memory?
    bool *returned;            // [value_count]: may an output share its memory?
    bool *input_written;       // [input_count]: may the graph write into this input's memory?
    int32_t *output_alias;     // [output_count]: an input whose memory the output may share, or -1
};

// ------------------------------------------------------------------------------------------------------------- reading
// What is wrong with a program, collected so that all of it can be told at once.
typedef struct nbx_problem {
    const char *text;          // "torch.ops.aten.foo.default: unknown operator"
    const char *source;        // line of the model where it was met first, or ""
    int count;                 // how often it was met
} nbx_problem;

typedef struct nbx_problems {
    nbx_arena *arena;
    nbx_problem *list;
    int count, capacity;
} nbx_problems;
// Adds a problem, or counts it if it is there already. false: out of memory.
bool nbx_problem_add(nbx_context *ctx, nbx_problems *problems, const char *format, ...) NBX_PRINTF(3, 4);
bool nbx_problem_add_at(nbx_context *ctx, nbx_problems *problems, const char *source, const char *text);
// The problem as one line, with its count and source.
const char *nbx_problem_line(const nbx_problem *problem, char *line, size_t size);

typedef struct nbx_graph_reader {
    nbx_context *ctx;
    nbx_arena *arena;
    const char *label;
    nbx_device device;         // of the run: stands for every device the program names
    nbx_problems *problems;
    const nbx_json *last_trace;
    const char *last_source;
    nbx_name_map names;        // of the graph being read
    nbx_graph *graph;
    int depth;
    int32_t node;              // being read, for messages
} nbx_graph_reader;

// Reads the JSON object of a graph. NULL: fails ctx (FORMAT, MEMORY). Operators that cannot run go to the problems.
nbx_graph *nbx_graph_read(nbx_graph_reader *r, const nbx_json *json, const char *name);

// Converts one Argument of a program; `used` names are looked up in the reader's graph. false: fails ctx.
bool nbx_operand_read(nbx_graph_reader *r, const nbx_json *argument, nbx_operand *operand);
// The one member of a union that is not null: its name and value. false: there is none, or several.
bool nbx_union_member(const nbx_json *object, const char **name, const nbx_json **value);
// Fails with FORMAT, naming the node. Returns false.
bool nbx_graph_fail(nbx_graph_reader *r, const char *format, ...) NBX_PRINTF(2, 3);
// Number of a value of the graph being read; -1: fails, undefined.
int32_t nbx_graph_value_of(nbx_graph_reader *r, const char *name);

// Calls visit for every value that an operand reads.
void nbx_operand_visit(const nbx_operand *operand, void (*visit)(void *arg, int32_t value), void *arg);

// Fills written, returned, input_written and output_alias, sub-graphs first.
bool nbx_graph_find_writes(nbx_context *ctx, nbx_arena *arena, nbx_graph *graph);
// Fills every node's release list; again when nodes have changed.
bool nbx_graph_find_releases(nbx_context *ctx, nbx_arena *arena, nbx_graph *graph);

#ifdef __cplusplus
}
#endif
#endif

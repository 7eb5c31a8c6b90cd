// Plans: a program recorded for one set of input shapes, and replayed. A plan knows its inputs only by placeholders, whose
// addresses are set before each replay, so nothing is copied on the way in; results are written straight into fresh memory.
#ifndef NBX_PROGRAM_REPLAY_H
#define NBX_PROGRAM_REPLAY_H

#include "ops/record.h"
#include "program/higher.h"
#include "program/program_parts.h"

// What a plan was made for: kinds, dtypes, shapes and strides of all inputs, and the values of numbers.
typedef struct nbx_plan_key {
    int64_t *words;
    int count, capacity;
} nbx_plan_key;

typedef struct nbx_plan {
    nbx_plan_key key;
    nbx_recorder *recorder;
    nbx_trace trace;          // which node made which commands
    nbx_tensor **holders;     // [input_count]: placeholders of tensor inputs, NULL for numbers
    nbx_value *results;       // [graph->output_count]: what the graph gave while it was recorded
    nbx_storage **fresh;      // planned storages that results lie in; new memory for each replay
    int fresh_count;
    void *bound;              // base of the arena that addresses were last set for
    uint64_t used;            // time of the last replay, for the choice of what to forget
    void *graph;              // of the device, captured at the second replay
    void **addresses;         // [input_count + fresh_count]: of the holders and results, for the graph
    unsigned alignment;       // of them: the lowest bits, for which the graph was captured
    bool ungraphed;           // the device or a command does not allow a graph
    double *seconds;          // [commands]: while it is profiled, the smallest time of each; else NULL
    bool replayed, packed;
} nbx_plan;

// Key of a set of inputs. false: out of memory. *plain false: these inputs share memory where that matters, run them directly.
bool nbx_plan_key_make(nbx_context *ctx, const nbx_program *p, const nbx_value *inputs, nbx_plan_key *key, bool *plain);
bool nbx_plan_key_equal(const nbx_plan_key *a, const nbx_plan_key *b);
void nbx_plan_destroy(nbx_context *ctx, nbx_plan *plan, const nbx_program *p);

// Runs what a session does with the graph's inputs and outputs while the context records.
typedef nbx_status (*nbx_plan_body)(void *arg, nbx_run *run, nbx_value *inputs, nbx_value *outputs);
// Records a plan. weights[i] stands for graph input i if it is a weight. *dependent: the program cannot be recorded, since
// sizes or branches depend on data; nothing failed. NULL otherwise: fails ctx.
nbx_plan *nbx_plan_record(nbx_context *ctx, const nbx_program *p, nbx_tensor *const *weights, const nbx_value *inputs,
                          nbx_plan_body body, void *arg, bool *dependent);
// Replays it on inputs of the plan's key. arena holds at least recorder->arena_bytes. results: one value for each user output,
// tensors with a reference each.
nbx_status nbx_plan_replay(nbx_context *ctx, nbx_program *p, nbx_plan *plan, void *arena, const nbx_value *inputs, nbx_value *results);

#endif

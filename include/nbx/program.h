// Exported programs: what torch.export.save wrote, loaded and run.
//
//   nbx_program *program;
//   nbx_session *session;
//   if (nbx_program_load(ctx, "digits.pt2", NULL, &program) != NBX_OK || nbx_session_create(ctx, program, &session) != NBX_OK)
//       return fprintf(stderr, "%s\n", nbx_last_message(ctx)), 1;
//   nbx_value image = nbx_of_tensor(pixels), logits;
//   if (nbx_session_run(session, &image, 1, &logits, 1, NULL) == NBX_OK) ...logits.as.tensor...
//   nbx_session_destroy(session);
//   nbx_program_destroy(program);
//
// A program is what the file says: weights, graph, names. It never changes, and any number of threads may share it.
// A session is one use of it: the buffers the program writes into (a key/value cache, a counter) live there and keep their
// values from run to run. A session belongs to one context, and so to one thread at a time; every thread makes its own.
#ifndef NBX_PROGRAM_H
#define NBX_PROGRAM_H

#include "nbx/call.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nbx_program nbx_program;
typedef struct nbx_session nbx_session;

// ------------------------------------------------------------------------------------------------------------- loading
typedef struct nbx_program_options {
    const char *model;     // which of several models in one archive; NULL: the only one, or the one named "model"
    bool inspect;          // load even if operators are missing: the program can be looked at, not run
    size_t memory_ceiling; // bytes that weights, state and the planned arena may take together; 0: no ceiling. Loading (for the
                           // sizes that export saw) and runs (for theirs) fail with MEMORY, naming the largest buffers
    // Called once for each reason why the program cannot run, before loading fails with UNSUPPORTED. NULL: the message of
    // the context lists as many as fit.
    void (*report)(void *arg, const char *reason);
    void *report_arg;
    // Passes to leave out, "fold,batch_norm": fold (what depends on constants only is computed at load), batch_norm (folded into
    // the convolution before it; results differ in the last bits, docs/numerics.md), dead (what nobody reads is not computed).
    const char *without;
} nbx_program_options;

// Loads a program for the context's device. Weights are used where they lie in the mapped file (a page is read when a run
// first touches it), but for those that a pass computes something from. options may be NULL.
//   errors: IO (no such file), FORMAT (not an exported program, or a damaged one), UNSUPPORTED (operators, dtypes or
//   constructs this library lacks: all of them are listed, each with a line of the model's source), MEMORY
NBX_API NBX_MUST_CHECK nbx_status nbx_program_load(nbx_context *ctx, const char *path, const nbx_program_options *options,
                                                   nbx_program **program);
// The same from an archive in memory, which must outlive the program and everything made from it. `name` is for messages.
NBX_API NBX_MUST_CHECK nbx_status nbx_program_load_memory(nbx_context *ctx, const char *name, const void *data, size_t bytes,
                                                          const nbx_program_options *options, nbx_program **program);
// Sessions keep the program alive, so this may be called while there are any. NULL is fine.
NBX_API void nbx_program_destroy(nbx_program *program);

// Names of the models in the program's archive; NULL past the end.
NBX_API const char *nbx_program_model_name(const nbx_program *program, int index);
NBX_API const char *nbx_program_torch_version(const nbx_program *program);  // "2.11.0+cpu"; "" before 2.5

// -------------------------------------------------------------------------------------------------- inputs and outputs
typedef struct nbx_program_dim {
    int64_t size;         // -1: any size from min to max
    int64_t min, max;     // of a dynamic dim; max -1: no upper end
    const char *symbol;   // its name in the program, "s77", or what it is made of, "2*s77 + 1"; dims of the same symbol have the
                          // same size. NULL: fixed
} nbx_program_dim;

typedef struct nbx_program_value {
    const char *name;     // in the program's signature: "x", "input_ids"; outputs: "output_0"
    const char *path;     // place in the arguments or in the nested result: "batch.a", "logits", "past.0"; never NULL
    nbx_kind kind;        // TENSOR; INT, FLOAT, BOOL for numbers; NONE
    nbx_dtype dtype;      // of a tensor
    int rank;
    const nbx_program_dim *dims;  // [rank]
    bool written;         // an input: the program writes into the caller's tensor
    bool fixed;           // export fixed the value: `value` has it
    nbx_value value;
} nbx_program_value;

// Inputs that a run needs, in order. Numbers that export fixed are not among them.
NBX_API int nbx_program_input_count(const nbx_program *program);
NBX_API const nbx_program_value *nbx_program_input(const nbx_program *program, int index);   // NULL past the end
// By name in the signature, by path, or "input_0", "input_1", ...; -1: none.
NBX_API int nbx_program_find_input(const nbx_program *program, const char *name);
// Inputs that export fixed to a constant: nothing reads them, but a caller who gives one must give this value.
NBX_API const nbx_program_value *nbx_program_fixed_input(const nbx_program *program, int index);  // NULL past the end

NBX_API int nbx_program_output_count(const nbx_program *program);
NBX_API const nbx_program_value *nbx_program_output(const nbx_program *program, int index);  // NULL past the end

// The sample inputs stored in the archive, one value for each input, owned by the innermost scope.
//   errors: UNSUPPORTED when there are none, or they hold objects that only Python can read
NBX_API NBX_MUST_CHECK nbx_status nbx_program_sample_inputs(nbx_context *ctx, const nbx_program *program, nbx_value *inputs,
                                                            int capacity);

// ------------------------------------------------------------------------------------------- weights, operators, memory
typedef struct nbx_program_weight {
    const char *name;          // "encoder.layer.0.weight"
    const nbx_tensor *tensor;  // as stored in the file; read it, do not write it
    bool parameter;            // else a buffer or a constant
    bool state;                // the program writes into it: sessions have copies of their own
} nbx_program_weight;
NBX_API int nbx_program_weight_count(const nbx_program *program);
NBX_API const nbx_program_weight *nbx_program_weight_at(const nbx_program *program, int index);  // NULL past the end

typedef struct nbx_program_operator {
    const char *name;          // "aten::convolution", "higher_order::cond", "_operator.add"
    int count;                 // nodes that use it, sub-graphs included
    bool known;                // in the table of operators
    bool cpu, cuda;            // runs there
} nbx_program_operator;
NBX_API int nbx_program_operator_count(const nbx_program *program);
NBX_API const nbx_program_operator *nbx_program_operator_at(const nbx_program *program, int index);  // by count, then name

typedef struct nbx_program_plan {
    size_t weight_bytes;       // storages of all weights, each once; those that are packed as they are then
    size_t mapped_bytes;       // of these, used in place in the file
    size_t packed_bytes;       // of these, packed once for the kernels, at the second run, if a ceiling leaves room
    size_t state_bytes;        // buffers that each session copies
    size_t arena_bytes;        // everything a run computes, with places planned by lifetime
    size_t unplanned_bytes;    // the same if nothing shared its place
    size_t peak_bytes;         // weights + state + arena
    int commands;              // kernel calls of a run
    bool partial;              // results depend on data (nonzero, item): planned up to the first such operator
} nbx_program_plan;
// What a run with inputs of these shapes will take, computed without running. inputs NULL: the sizes seen at export.
NBX_API NBX_MUST_CHECK nbx_status nbx_program_plan_memory(nbx_context *ctx, const nbx_program *program, const nbx_value *inputs,
                                                          int input_count, nbx_program_plan *plan);

// One kernel call of a run.
typedef struct nbx_command_report {
    const char *op;        // the operator whose kernel runs: "aten::convolution"
    const char *node;      // the node of the program it belongs to: "torch.ops.aten.conv2d.default"; "" past the graph
    const char *source;    // the line of the model's source; "" unknown
    double flops, bytes;   // by its shapes: arithmetic, and memory read and written
    size_t scratch_bytes;
    double seconds;        // measured; 0 where only costs are asked for
} nbx_command_report;
typedef void (*nbx_command_report_fn)(void *arg, const nbx_command_report *report);

// What each kernel call of a run costs, in order, computed without running. inputs NULL: the sizes seen at export.
NBX_API NBX_MUST_CHECK nbx_status nbx_program_costs(nbx_context *ctx, const nbx_program *program, const nbx_value *inputs, int input_count,
                                                    nbx_command_report_fn see, void *arg);

// ------------------------------------------------------------------------------------------------------------- running
// A session of the program on the context it was loaded with, or another one of the same device.
NBX_API NBX_MUST_CHECK nbx_status nbx_session_create(nbx_context *ctx, nbx_program *program, nbx_session **session);
NBX_API void nbx_session_destroy(nbx_session *session);  // NULL is fine

// One run. inputs are tensors or numbers in the program's order, input_count of them; a 0-dim tensor may stand for a number.
// Inputs that the program writes into are changed in place. outputs receives the results in flat order: tensors owned by the
// innermost scope, numbers, or NONE; *count (may be NULL) how many. An output may share memory with an input or with a buffer
// of the session, where the program returns one.
//   errors: ARGUMENT, SHAPE, DTYPE (an input that does not fit, named, with what is allowed), ASSERT (a check inside the
//   program), and whatever operators report, with the node, shapes and the line of the model's source in front
NBX_API NBX_MUST_CHECK nbx_status nbx_session_run(nbx_session *session, const nbx_value *inputs, int input_count,
                                                  nbx_value *outputs, int capacity, int *count);

// Runs `runs` times (at least 1, after one run to warm up) and reports every kernel call with its smallest time: of the
// processor, or of the device between two events. The session's buffers change as by that many runs.
//   errors: as nbx_session_run; DATA_DEPENDENT: sizes or branches depend on data, there is no list of calls
NBX_API NBX_MUST_CHECK nbx_status nbx_session_profile(nbx_session *session, const nbx_value *inputs, int input_count, int runs,
                                                      nbx_command_report_fn see, void *arg);

// Buffers and parameters that the program writes into. NULL past the end, or no such buffer. The tensor is the session's
// own: read it with nbx_tensor_read, set it with nbx_tensor_write.
NBX_API const char *nbx_session_state_name(const nbx_session *session, int index);
NBX_API const nbx_tensor *nbx_session_state(const nbx_session *session, const char *name);
// Gives all of them the values of the file again.
NBX_API NBX_MUST_CHECK nbx_status nbx_session_reset(nbx_session *session);

#ifdef __cplusplus
}
#endif
#endif

// Epilogues: elementwise calls that a recording runs on the result of another call, piece by piece, while that lies in the cache.
//
// A recorded call whose row says so (carries) may have a list of recorded elementwise calls, its steps. Each takes the result so far
// as an operand and writes in its place; its other operands are numbers, and tensors that lie in memory as the result does (a residual).
// The loops are those of the calls by themselves, and each intermediate result is stored in its dtype, so no bit of a result changes.
#ifndef NBX_OPS_EPILOGUE_H
#define NBX_OPS_EPILOGUE_H

#include "ops/op.h"

#define NBX_EPILOGUE_STEPS 6

typedef enum nbx_epilogue_operand { NBX_EPILOGUE_RESULT, NBX_EPILOGUE_NUMBER, NBX_EPILOGUE_OTHER } nbx_epilogue_operand;

struct nbx_epilogue {
    int count;
    nbx_op_call *steps[NBX_EPILOGUE_STEPS];  // own
    uint8_t operands[NBX_EPILOGUE_STEPS][8]; // nbx_epilogue_operand of each input of a step's row
    int8_t other[NBX_EPILOGUE_STEPS];        // which argument of a step is OTHER, or -1
};

// float32: what the steps come to where they are one addition at most, then one clamping at most. Vectors: epilogue_simd.h.
typedef struct nbx_epilogue_plain {
    const float *residual;  // NULL, or what is added
    bool residual_first;    // it is the first operand (which NaN is kept depends on it)
    bool clamps;
    float low, high;
} nbx_epilogue_plain;

// Fills plain, of no epilogue (e NULL), too. false: the steps are to be run. The addresses are those of the present replay.
bool nbx_epilogue_is_plain(const nbx_epilogue *e, nbx_epilogue_plain *plain);

// For kernels: elements first to first + count of the result, counted in memory from its data on, have been written and will not be
// written again. Each is to be reported once; from any thread. e may be NULL.
void nbx_epilogue_run(const nbx_epilogue *e, int64_t first, int64_t count);
// The same on `count` float32 sums before they are stored, in any order (tile); gather brings elements of another operand, whose data it
// is given, into the same order. space: room for as many.
void nbx_epilogue_run_tile(const nbx_epilogue *e, float *tile, int64_t count, float *space, void (*gather)(const void *arg, const void *data, float *to),
                           const void *arg);
// The same for all elements at once, by all threads: where a kernel does not know when a part is done.
void nbx_epilogue_run_all(const nbx_epilogue *e, nbx_pool *pool);

// Joins what may be joined among the recorded commands (record.h), whose list gets shorter; the buffers of results must be exposed or
// kept before, their places be planned after. before: NULL, or [command_count + 1], how many of the commands that are left stood before each.
nbx_status nbx_recorder_join(nbx_context *ctx, nbx_recorder *r, int *before);

#endif

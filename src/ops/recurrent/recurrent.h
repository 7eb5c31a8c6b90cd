// One layer of a recurrent network in one direction: what the composites hand to the kernel.
#ifndef NBX_OPS_RECURRENT_H
#define NBX_OPS_RECURRENT_H

#include "cpu/gemm.h"
#include "ops/op.h"

typedef enum recurrent_mode { RECURRENT_RELU, RECURRENT_TANH, RECURRENT_LSTM, RECURRENT_GRU } recurrent_mode;  // cuDNN's numbers

static inline int64_t recurrent_gates(int64_t mode) { return mode == RECURRENT_LSTM ? 4 : mode == RECURRENT_GRU ? 3 : 1; }

// Arguments of nbx::recurrent_layer.
enum { LAYER_INPUT, LAYER_HX, LAYER_CX, LAYER_W_IH, LAYER_W_HH, LAYER_B_IH, LAYER_B_HH, LAYER_W_HR, LAYER_BATCH_SIZES, LAYER_MODE, LAYER_REVERSE };

// Where things lie in scratch; numbers are computed in float, or in double for float64.
typedef struct recurrent_job {
    int64_t rows, batch, inputs, hidden, state, gates;  // rows of all steps; sizes of a row
    int64_t steps;                                      // 0: as many as there are batch sizes
    size_t input_part, step_part, cell, full, packed, product, spans;  // spans: CUDA, of packed sequences
    bool packs;
} recurrent_job;

// The products of a layer, without pointers: of all inputs, of the states of a step, and the projection of a step.
nbx_gemm nbx_recurrent_input_product(const nbx_op_call *c, const recurrent_job *job);
nbx_gemm nbx_recurrent_state_product(const nbx_op_call *c, const recurrent_job *job);
nbx_gemm nbx_recurrent_projection(const nbx_op_call *c, const recurrent_job *job);

NBX_CPU_DECLARE(recurrent_cpu);

#endif

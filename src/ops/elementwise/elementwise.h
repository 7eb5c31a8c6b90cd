// The elementwise engine: an operator is one row of data (which arguments it reads, how dtypes follow, which it refuses)
// and one dense loop per class of dtype. Broadcasting, strides, casts and threads are the engine's.
#ifndef NBX_OPS_ELEMENTWISE_H
#define NBX_OPS_ELEMENTWISE_H

#include "ops/iter.h"

#ifdef __cplusplus
extern "C" {
#endif

#define EW_INPUTS 5
#define EW_OUTPUTS 2
#define EW_OPERANDS (EW_INPUTS + EW_OUTPUTS)

// How the dtype of computing follows from the inputs.
typedef enum ew_rule {
    EW_PROMOTE,  // ATen's result_type
    EW_FLOAT,    // the same; integers and bool become the default float
    EW_FIRST,    // the dtype of the first input, whatever the others are
} ew_rule;

// The dtype of an operand, compared with that of computing.
typedef enum ew_kind {
    EW_SAME,
    EW_BOOL,     // an input of this kind takes no part in promotion
    EW_REAL,     // of a complex dtype: its parts'
    EW_COMPLEX,  // of a real dtype: the complex one
    EW_INT32,
    EW_INT64,
} ew_kind;

static inline nbx_dtype ew_dtype_of(uint8_t kind, nbx_dtype compute) {
    switch ((ew_kind)kind) {
    case EW_BOOL: return NBX_BOOL;
    case EW_REAL: return nbx_dtype_to_real(compute);
    case EW_COMPLEX: return nbx_dtype_to_complex(compute);
    case EW_INT32: return NBX_INT32;
    case EW_INT64: return NBX_INT64;
    case EW_SAME: break;
    }
    return compute;
}

// Numbers a loop reads: what setup took from the call's other arguments.
typedef struct ew_params {
    double f[8];
    int64_t i[4];
} ew_params;

typedef struct ew_types {
    nbx_dtype compute;
    nbx_dtype out[EW_OUTPUTS];
} ew_types;

typedef struct ew_row {
    uint8_t inputs, outputs;  // outputs 0 means 1
    uint8_t arg[EW_INPUTS];   // which arguments the inputs are: tensors or numbers
    uint8_t rule;             // ew_rule
    uint8_t in[EW_INPUTS];    // ew_kind
    uint8_t out[EW_OUTPUTS];  // ew_kind
    uint8_t flags;
    uint32_t accepts;         // dtypes of computing; 0: all
    // Checks the other arguments and fills params; may change types. Called in infer and before the first run.
    nbx_status (*setup)(nbx_op_call *c, ew_types *types, ew_params *params);
} ew_row;

enum {
    EW_EXACT_NUMBERS = 1,  // numbers beside float16 or bfloat16 are not rounded to them first, unless they are the first operand (mul, div)
    EW_NO_BOOL_INPUT = 2,  // refuses bool inputs even where they are promoted away (sub)
    EW_HEAVY = 4,          // a loop of more than 5 ns an element: smaller pieces are worth a thread
    EW_PLAIN_OUT = 8,      // results are contiguous whatever the inputs are
    EW_PLAIN_COMPLEX = 16, // the same for complex inputs
    EW_TABLED = 32,        // large tensors of 16 bits are looked up in a table of all 65536 results: it takes 1 cycle an element
};

// A table costs as much as its elements; from here on that is a sixteenth. In the call's scratch.
#define EW_TABLE_ELEMENTS 65536
#define EW_TABLED_LEAST (16 * EW_TABLE_ELEMENTS)

// Sets of dtypes.
#define EW_BIT(d) (1u << (d))
#define EW_BOOLS EW_BIT(NBX_BOOL)
#define EW_INTS (EW_BIT(NBX_UINT8) | EW_BIT(NBX_INT8) | EW_BIT(NBX_INT16) | EW_BIT(NBX_INT32) | EW_BIT(NBX_INT64))
#define EW_UINTS (EW_BIT(NBX_UINT16) | EW_BIT(NBX_UINT32) | EW_BIT(NBX_UINT64))
#define EW_SINGLES (EW_BIT(NBX_FLOAT32) | EW_BIT(NBX_FLOAT64))
#define EW_HALVES (EW_BIT(NBX_FLOAT16) | EW_BIT(NBX_BFLOAT16))
#define EW_FLOATS (EW_SINGLES | EW_HALVES)
#define EW_COMPLEXES (EW_BIT(NBX_COMPLEX64) | EW_BIT(NBX_COMPLEX128))
#define EW_FLOAT8S (EW_BIT(NBX_FLOAT8_E4M3FN) | EW_BIT(NBX_FLOAT8_E5M2))
#define EW_NUMBERS (EW_INTS | EW_FLOATS)  // what most operators take, plus bool or complex

// Is a number (or 0-dim tensor) of this input kept as it is beside float16 and bfloat16?
static inline bool ew_is_exact(const ew_row *row, int slot) { return (row->flags & EW_EXACT_NUMBERS) && slot > 0; }

// The dtypes of a call, checked; and the numbers of its other arguments.
nbx_status ew_resolve(nbx_op_call *c, const ew_row *row, ew_types *types, ew_params *params);
// infer of every row: broadcast shape, TensorIterator's strides.
nbx_status ew_infer(nbx_op_call *c);

// What a loop sees: dense operands. in and out may be the same memory.
typedef struct ew_run {
    void *out[EW_OUTPUTS];
    const void *in[EW_INPUTS];
    int64_t count;
    nbx_dtype dtype;    // the tile's, for loops of several dtypes
    nbx_dtype compute;  // the call's: float16 where the tile is float32
    const ew_params *params;
    int *fault;         // set to an EW_FAULT by any thread
} ew_run;

enum { EW_FAULT_NONE, EW_FAULT_ZERO_DIVISION, EW_FAULT_NEGATIVE_POWER };

typedef void (*ew_loop)(const ew_run *run);

// One loop per class. Absent ones fall back: f32 to f64, c64 to c128, boolean to ints, ints to i64, u64 to i64.
typedef struct ew_loops {
    ew_loop f32, f64;
    ew_loop halves;  // float16 and bfloat16 as they lie in memory, where all operands do; else f32 in tiles
    ew_loop ints;  // any integer dtype or bool as it lies in memory; the run says which
    ew_loop i64, u64;
    ew_loop boolean;
    ew_loop c64, c128;
} ew_loops;

typedef struct ew_plan {
    bool ready, flat;            // flat: dense everywhere, no tiles
    bool exact;                  // EW_EXACT_NUMBERS
    bool stream;                 // results are larger than the caches
    uint8_t outs, operands;      // outputs first
    uint8_t dtype[EW_OPERANDS], tile[EW_OPERANDS];
    bool direct[EW_OPERANDS];    // the loop works in the operand's own memory
    int8_t number[EW_OPERANDS];  // >= 0: a number, in value[]
    uint8_t by[EW_OUTPUTS];      // dtype a result passes through on its way into an out= argument: the tile's, or a narrower one
    nbx_dtype run_dtype, compute;
    ew_loop loop;
    ew_params params;
    double value[EW_INPUTS][2];
    int64_t grain;               // blocks (flat: elements) worth a thread
    nbx_iter iter;               // last: a kept plan has room for its dims only
} ew_plan;

// Fills a plan for the call's operands as they are now.
nbx_status ew_plan_make(nbx_op_call *c, const ew_row *row, const ew_loops *loops, ew_plan *plan);
nbx_status ew_fail_fault(nbx_op_call *c, int fault);
// Is an operand to be rounded to the dtype of computing before it goes into a wider tile?
static inline bool ew_rounds_first(const ew_plan *p, int k) {
    const bool exact = p->exact && k > p->outs && !nbx_dtype_is_integral(p->compute, true);
    return !exact && p->compute != p->run_dtype && p->dtype[k] != (uint8_t)p->compute && p->tile[k] == (uint8_t)p->run_dtype;
}

// Stores a number as one element of any dtype (as ATen's Scalar.to, without its check).
void ew_store_number(nbx_dtype dtype, void *to, const nbx_value *number);
// Fails unless the number fits the dtype.
nbx_status ew_check_number(nbx_op_call *c, nbx_dtype dtype, const nbx_value *number);
// The same of what fills a tensor: there halves take any number.
static inline nbx_status ew_check_fill(nbx_op_call *c, nbx_dtype dtype, const nbx_value *number) {
    return ew_check_number(c, EW_BIT(dtype) & EW_HALVES ? NBX_FLOAT64 : dtype, number);
}

// ---------------------------------------------------------------------------------------------------------------- rows
#define EW_OP_NAMED(NAME, KERNEL, ...)                                                                                 \
    {                                                                                                                  \
        .name = NAME, .infer = ew_infer, .cpu = NBX_CPU_KERNEL(KERNEL), .flags = NBX_OP_STRIDED_OUT,                   \
        .data = &(const ew_row){__VA_ARGS__},                                                                          \
    }
#define EW_OP(NAME, KERNEL, ...) EW_OP_NAMED("aten::" NAME, KERNEL, __VA_ARGS__)
#define EW_OP_EXACT(NAME, KERNEL, ...)  /* an out= of another dtype is refused */                                      \
    {                                                                                                                  \
        .name = "aten::" NAME, .infer = ew_infer, .cpu = NBX_CPU_KERNEL(KERNEL), .flags = NBX_OP_STRIDED_OUT | NBX_OP_EXACT_DTYPE, \
        .data = &(const ew_row){__VA_ARGS__},                                                                          \
    }
#define EW_OP_SHARED(NAME, KERNEL, ...)  /* in place also where elements of self share memory */                         \
    {                                                                                                                  \
        .name = "aten::" NAME, .infer = ew_infer, .cpu = NBX_CPU_KERNEL(KERNEL), .flags = NBX_OP_STRIDED_OUT | NBX_OP_SHARED_SELF, \
        .data = &(const ew_row){__VA_ARGS__},                                                                          \
    }
#define EW_UNARY .inputs = 1, .arg = {0}
#define EW_BINARY .inputs = 2, .arg = {0, 1}
#define EW_TERNARY .inputs = 3, .arg = {0, 1, 2}

#ifdef __cplusplus
}
#endif
#endif

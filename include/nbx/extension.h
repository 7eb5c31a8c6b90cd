// Operators of your own: register them before loading a program, and the program's nodes of that name run them.
//
//     static nbx_status infer(nbx_op_call *c) {                      // describes the result, touches no element
//         const nbx_tensor *x = nbx_call_tensor(c, 0);
//         return nbx_call_new_result(c, 0, nbx_tensor_dtype(x), nbx_tensor_rank(x), nbx_tensor_shape(x));
//     }
//     static nbx_status on_cpu(nbx_op_call *c) {                     // fills it
//         const float *x = nbx_tensor_data(nbx_call_tensor(c, 0));
//         float *y = nbx_tensor_data(nbx_call_result(c, 0));
//         ...
//     }
//     const nbx_operator_definition scale = {.schema = "mylib::scale(Tensor x, float by=2.0) -> Tensor",
//                                            .infer = infer, .cpu = on_cpu};
//     status = nbx_operator_register(ctx, &scale);
#ifndef NBX_EXTENSION_H
#define NBX_EXTENSION_H

#include "nbx/call.h"

#ifdef __cplusplus
extern "C" {
#endif

// One call: its arguments, bound after the schema (defaults filled in), and its results.
typedef struct nbx_op_call nbx_op_call;

typedef struct nbx_operator_definition {
    const char *schema;                       // ATen's schema language, with a namespace
    nbx_status (*infer)(nbx_op_call *call);   // with kernels: describes every result
    nbx_status (*cpu)(nbx_op_call *call);     // fills them on the CPU. Runs again at each replay of a plan: keeps nothing
    nbx_status (*cuda)(nbx_op_call *call);    // or NULL: launches on nbx_call_stream. NULL: CUDA tensors are copied to the host
    nbx_status (*composite)(nbx_op_call *call);  // instead of the above: calls other operators, gives nbx_call_set_result
    bool random, effect;                      // never folded; never dropped
} nbx_operator_definition;

// Adds the operator for the whole process; it cannot be taken back. Schema text is copied. Tensors arrive with any strides: ask
// for nbx_tensor_is_contiguous, or take strides into account. A name the library knows without code (nbx ops --missing) is filled.
// Errors: ARGUMENT for a malformed schema, a name that has code already, a definition that is neither kernel nor composite.
NBX_API NBX_MUST_CHECK nbx_status nbx_operator_register(nbx_context *ctx, const nbx_operator_definition *definition);

// ---------------------------------------------------------------------------------------------- inside a call's functions
NBX_API nbx_context *nbx_call_context(const nbx_op_call *call);
NBX_API const nbx_value *nbx_call_argument(const nbx_op_call *call, int index);   // kind NONE: absent
NBX_API const nbx_tensor *nbx_call_tensor(const nbx_op_call *call, int index);    // NULL: absent
NBX_API int64_t nbx_call_int(const nbx_op_call *call, int index);    // of a number of any kind; floats are cut
NBX_API double nbx_call_float(const nbx_op_call *call, int index);   // of a number of any kind
// infer: result k is contiguous, of this dtype and shape, on the call's device.
NBX_API NBX_MUST_CHECK nbx_status nbx_call_new_result(nbx_op_call *call, int k, nbx_dtype dtype, int rank, const int64_t *shape);
// infer: the kernel wants so many bytes of scratch, aligned to 64, of undefined contents.
NBX_API void nbx_call_need_scratch(nbx_op_call *call, size_t bytes);
// Kernels: result k to fill, the scratch, the CUDA stream.
NBX_API nbx_tensor *nbx_call_result(const nbx_op_call *call, int k);
NBX_API void *nbx_call_scratch(const nbx_op_call *call);
NBX_API void *nbx_call_stream(const nbx_op_call *call);
// Composites: result k is this tensor (NULL fails with the context's message).
NBX_API NBX_MUST_CHECK nbx_status nbx_call_set_result(nbx_op_call *call, int k, const nbx_tensor *t);
// Fails the call with a message; the operator's name is put in front.
NBX_API nbx_status nbx_call_fail(nbx_op_call *call, nbx_status status, const char *format, ...) NBX_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif
#endif

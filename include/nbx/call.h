// The boxed call: any operator by ATen's name, with values of any kind.
//
//   const nbx_value args[] = {nbx_of_tensor(x), nbx_of_int(-1)};
//   const nbx_named_value keywords[] = {{"dtype", nbx_of_dtype(NBX_FLOAT64)}};
//   nbx_value y;
//   if (nbx_call(ctx, "aten::cumsum", args, 2, keywords, 1, &y, 1, NULL) == NBX_OK) ...y.as.tensor...
#ifndef NBX_CALL_H
#define NBX_CALL_H

#include "nbx/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nbx_generator nbx_generator;

typedef enum nbx_kind {
    NBX_KIND_NONE = 0,
    NBX_KIND_TENSOR,
    NBX_KIND_INT,  // also SymInt; a Scalar takes INT, FLOAT, BOOL or COMPLEX
    NBX_KIND_FLOAT,
    NBX_KIND_BOOL,
    NBX_KIND_COMPLEX,
    NBX_KIND_STRING,
    NBX_KIND_DTYPE,
    NBX_KIND_LAYOUT,  // as.integer: 0 strided; nothing else is supported
    NBX_KIND_DEVICE,
    NBX_KIND_MEMORY_FORMAT,
    NBX_KIND_GENERATOR,
    NBX_KIND_TENSORS,  // NBX_NONE inside stands for an absent one
    NBX_KIND_INTS,
    NBX_KIND_FLOATS,
    NBX_KIND_BOOLS,
    NBX_KIND_VALUES,   // a list of values of any kind (Scalar[], str[], nested lists)
} nbx_kind;

typedef struct nbx_value nbx_value;
struct nbx_value {
    int32_t kind;   // nbx_kind
    int32_t count;  // of a list
    union {
        const nbx_tensor *tensor;
        int64_t integer;  // INT, LAYOUT
        double real;      // FLOAT
        bool boolean;
        double complex[2];
        const char *string;
        nbx_dtype dtype;
        nbx_device device;
        nbx_memory_format memory_format;
        nbx_generator *generator;
        const nbx_tensor *const *tensors;
        const int64_t *ints;
        const double *floats;
        const bool *bools;
        const nbx_value *values;
    } as;
};

typedef struct nbx_named_value {
    const char *name;
    nbx_value value;
} nbx_named_value;

// Constructors. Lists are borrowed: they must live until the call returns.
static inline nbx_value nbx_of_none(void) {
    nbx_value v = {NBX_KIND_NONE, 0, {0}};
    return v;
}
#define NBX_OF_(NAME, KIND, TYPE, FIELD)                                                                               \
    static inline nbx_value nbx_of_##NAME(TYPE x) {                                                                    \
        nbx_value v = nbx_of_none();                                                                                   \
        v.kind = NBX_KIND_##KIND;                                                                                      \
        v.as.FIELD = x;                                                                                                \
        return v;                                                                                                      \
    }
NBX_OF_(tensor, TENSOR, const nbx_tensor *, tensor)  // NULL: a failed expression, passed through
NBX_OF_(int, INT, int64_t, integer)
NBX_OF_(float, FLOAT, double, real)
NBX_OF_(bool, BOOL, bool, boolean)
NBX_OF_(string, STRING, const char *, string)
NBX_OF_(device, DEVICE, nbx_device, device)
NBX_OF_(memory_format, MEMORY_FORMAT, nbx_memory_format, memory_format)
NBX_OF_(generator, GENERATOR, nbx_generator *, generator)
static inline nbx_value nbx_of_dtype(nbx_dtype dtype) {  // NBX_DTYPE_NONE gives none
    nbx_value v = nbx_of_none();
    v.kind = dtype == NBX_DTYPE_NONE ? NBX_KIND_NONE : NBX_KIND_DTYPE;
    v.as.dtype = dtype;
    return v;
}
static inline nbx_value nbx_of_complex(double re, double im) {
    nbx_value v = nbx_of_none();
    v.kind = NBX_KIND_COMPLEX;
    v.as.complex[0] = re;
    v.as.complex[1] = im;
    return v;
}
#define NBX_OF_LIST_(NAME, KIND, TYPE)                                                                                 \
    static inline nbx_value nbx_of_##NAME(TYPE list, int64_t count) {                                                  \
        nbx_value v = nbx_of_none();                                                                                   \
        v.kind = NBX_KIND_##KIND;                                                                                      \
        v.count = (int32_t)count;                                                                                      \
        v.as.NAME = list;                                                                                              \
        return v;                                                                                                      \
    }
NBX_OF_LIST_(tensors, TENSORS, const nbx_tensor *const *)
NBX_OF_LIST_(ints, INTS, const int64_t *)
NBX_OF_LIST_(floats, FLOATS, const double *)
NBX_OF_LIST_(bools, BOOLS, const bool *)
NBX_OF_LIST_(values, VALUES, const nbx_value *)

// -------------------------------------------------------------------------------------------------------------- find
typedef struct nbx_operator nbx_operator;

// Finds an operator: "aten::add.Tensor", "add.Tensor", "aten.add.Tensor", "torch.ops.aten.add.Tensor",
// "aten::relu" (or "relu.default"). NULL: not in the table. Known is not yet implemented: see nbx_operator_available.
NBX_API const nbx_operator *nbx_op_find(const char *name);
NBX_API bool nbx_operator_available(const nbx_operator *op, nbx_device_type device);  // on a device that this machine has
// How a call of the operator runs on a device of a type. For CUDA it is libnbx_cuda.so that tells, with or without a GPU.
typedef enum nbx_operator_way {
    NBX_RUNS_NOWHERE,      // no code, or no libnbx_cuda.so
    NBX_RUNS_KERNEL,       // a kernel of the device
    NBX_RUNS_OTHERS,       // calls other operators, each in its own way
    NBX_RUNS_NOTHING,      // a view: no element is touched
    NBX_RUNS_ON_HOST,      // arguments are copied to the host, results back; a program with it is not planned for the device
    NBX_RUNS_IN_PROGRAMS,  // see nbx_operator_in_programs
} nbx_operator_way;
NBX_API nbx_operator_way nbx_operator_runs(const nbx_operator *op, nbx_device_type device);
// true: it takes sub-graphs or computes on symbolic numbers; programs run it on any device, calls do not.
NBX_API bool nbx_operator_in_programs(const nbx_operator *op);
// Why the operator cannot have a meaning here ("it launches a Triton kernel ..."); NULL: it can.
NBX_API const char *nbx_operator_refusal(const nbx_operator *op);
NBX_API const char *nbx_operator_name(const nbx_operator *op);    // "aten::add.Tensor"
NBX_API const char *nbx_operator_schema(const nbx_operator *op);  // "aten::add.Tensor(Tensor self, ...) -> Tensor"
NBX_API size_t nbx_operator_count(void);
NBX_API const nbx_operator *nbx_operator_at(size_t index);        // in order of name; NULL past the end

// -------------------------------------------------------------------------------------------------------------- call
// Calls an operator. Positional values in schema order, trailing defaults may be left out; keywords by name.
//   results    receives one value per result of the schema (capacity results; missing room is an error)
//   count      receives how many (may be NULL)
// Tensors and lists in results belong to the innermost scope. Numbers are returned as INT, FLOAT, BOOL, COMPLEX. Operators that
// write an argument (add_, out= forms) return it among the results, as their schema says.
//   errors: UNKNOWN (no such name), UNSUPPORTED (no code here, or it has no meaning here: nbx_operator_refusal), ARGUMENT (too
//   many, missing, given twice, or of another kind than the schema's), DEVICE (tensors of several devices), and the operator's
//   own: SHAPE, DTYPE, INDEX, ARGUMENT, MEMORY
NBX_API NBX_MUST_CHECK nbx_status nbx_call(nbx_context *ctx, const char *name, const nbx_value *args, int arg_count,
                                           const nbx_named_value *keywords, int keyword_count, nbx_value *results,
                                           int capacity, int *count);
// The same for an operator that was found before.
NBX_API NBX_MUST_CHECK nbx_status nbx_call_operator(nbx_context *ctx, const nbx_operator *op, const nbx_value *args,
                                                    int arg_count, const nbx_named_value *keywords, int keyword_count,
                                                    nbx_value *results, int capacity, int *count);

// Generators: what torch.Generator().manual_seed(seed) is, for operators that take one. The caller owns it. NULL: out of memory.
// A generator of the CPU gives its stream on every device: for a GPU the numbers are drawn on the host and copied. One of a GPU
// gives the numbers of torch.Generator("cuda") there, and is none of the CPU's.
NBX_API nbx_generator *nbx_generator_create(nbx_context *ctx, uint64_t seed);  // of the CPU
NBX_API nbx_generator *nbx_generator_create_on(nbx_context *ctx, nbx_device device, uint64_t seed);
NBX_API void nbx_generator_destroy(nbx_generator *generator);
// The generator's state in the bytes of torch.Generator.get_state(): copies at most `size` of them (bytes may be NULL) and
// returns how many there are. set_state takes the same bytes back; FORMAT when they are none.
NBX_API size_t nbx_generator_get_state(const nbx_generator *generator, void *bytes, size_t size);
NBX_API NBX_MUST_CHECK nbx_status nbx_generator_set_state(nbx_context *ctx, nbx_generator *generator, const void *bytes, size_t size);

#ifdef __cplusplus
}
#endif
#endif

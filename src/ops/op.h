// The descriptor of an operator, and the record of one call: all that the author of an operator needs.
//
// An operator is one of three kinds.
//   kernel     infer describes the results (dtype, shape, strides; it touches no element), the door allocates them, then
//              the kernel of the device fills them. The call is what a recording keeps and a replay runs again.
//   view       infer gives results over the storage of an argument (out_view); there is no kernel.
//   composite  a function that calls other operators (nbx_do) and hands over results (out_tensor). Nothing of it is left
//              in a recording but the kernels it called.
// In-place and out= forms are derived by the door from the functional row (schemas.def says which from which).
#ifndef NBX_OPS_OP_H
#define NBX_OPS_OP_H

#include "nbx/extension.h"
#include "ops/schema.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef nbx_status (*nbx_op_fn)(nbx_op_call *call);
typedef struct nbx_epilogue nbx_epilogue;

typedef struct nbx_cost {
    double flops, bytes_read, bytes_written;
    size_t scratch_bytes;
} nbx_cost;

enum {
    NBX_OP_STRIDED_OUT = 1,   // the kernel writes results of any strides and dtype, also where an input lies with the very
                              // same strides: in-place and out= forms write directly. Otherwise: into a temporary, then copy_.
    NBX_OP_READS_DATA = 2,    // host code of infer or composite reads elements: cannot be recorded
    NBX_OP_READS_BACK = 4096 | NBX_OP_READS_DATA,  // the same, but of a few elements and with nbx_tensor_read, wherever they lie
    NBX_OP_RANDOM = 4,        // draws from a generator: never folded, never dropped
    NBX_OP_EFFECT = 8,        // writes an argument or checks something: never dropped
    NBX_OP_ANY_DEVICE = 16,   // arguments may lie on several devices (copy_, to); the door does not check them
    NBX_OP_ON_HOST = 64,      // meant to run on the host for every device (linear algebra through LAPACK): arguments are copied
                              // there, results back. So does, for the time being, every row that a device has no code for.
    NBX_OP_IN_PLACE = 32,     // the row itself is an in-place operator: its composite or kernel writes args and returns them
    NBX_OP_STRIDED_SAME = 128, // as STRIDED_OUT, but of the dtype that infer gave: what moves elements without looking at
                               // them. An out= of another dtype is refused, as ATen does there.
    NBX_OP_EXACT_OUT = 256,    // an out= of another dtype is refused, one of another shape becomes contiguous (ATen's generated out= forms)
    NBX_OP_RESTRIDE_OUT = 512, // an out= gets the strides of the result, whatever its own were
    NBX_OP_ANY_OUT = 1024,     // an out= of any dtype: casts that lose parts are taken, too
    NBX_OP_EXACT_DTYPE = 2048, // an out= of another dtype is refused
    NBX_OP_PACKED_OUT = 8192,  // an out= of another shape becomes contiguous
    NBX_OP_RESIZE_SELF = 16384, // in place, self becomes what the result is, shape and all
    NBX_OP_SHARED_SELF = 32768, // in place, elements of self may share memory: each gets the same, however often it is written
};

// What a call costs: its row's cost(), else the bytes of its tensors and one flop an element of its results.
void nbx_call_cost(const nbx_op_call *call, nbx_cost *cost);

// A weight in a form of the kernel's own, which whoever replays a recording may make once and hand to the call as `packed`
// (program/packed.c). The result has the same bits with it and without.
typedef struct nbx_packed_form {
    const nbx_tensor *weight;    // the argument that it is made of
    size_t bytes;
    int64_t pieces;              // in which it is made, so that the memory of what was read can be given back in between; 0: one
    int64_t layout[32];          // with the weight's memory and the instruction set, all that it depends on
} nbx_packed_form;

typedef struct nbx_packing {
    bool (*describe)(const nbx_op_call *call, nbx_packed_form *form);  // false: it would not serve this call. form is zeroed
    nbx_status (*make[3])(nbx_op_call *call, int64_t piece, int64_t pieces);  // one per ISA: fills a piece of call->packed, which
                                 // is 64-byte aligned; uses pool and scratch
} nbx_packing;

typedef struct nbx_op {
    const char *name;          // "aten::_softmax"; names, order, defaults and kinds come from the schema of that name
    nbx_op_fn infer;
    nbx_op_fn composite;
    void (*cost)(const nbx_op_call *call, nbx_cost *cost);  // NULL: bytes of the tensors, one flop an element
    nbx_op_fn cpu[3];          // one per ISA: NBX_CPU_KERNEL(f) or NBX_CPU_KERNEL_ONE(f)
    uint32_t flags;
    const void *data;          // of the family: for instance which loop of the elementwise engine
    const nbx_packing *packing;  // NULL: weights are used as they lie
    // NULL, or: does the kernel of the CPU run an epilogue on its one result, and is that faster than a call of its own? plain: the epilogue
    // is one addition and one clamping at most (epilogue.h).
    bool (*carries)(const nbx_op_call *call, bool plain);
} nbx_op;

// A kernel whose file includes cpu/simd.h is compiled once per ISA (f_baseline, f_avx2, f_avx512); others once.
#define NBX_CPU_DECLARE(f) nbx_status f##_baseline(nbx_op_call *), f##_avx2(nbx_op_call *), f##_avx512(nbx_op_call *)
#if defined(NBX_HAVE_ISA_AVX512) && defined(NBX_HAVE_ISA_AVX2) && defined(NBX_HAVE_ISA_BASELINE)
#define NBX_CPU_KERNEL(f) {f##_baseline, f##_avx2, f##_avx512}
#elif defined(NBX_HAVE_ISA_AVX512)
#define NBX_CPU_KERNEL(f) {f##_avx512, f##_avx512, f##_avx512}
#elif defined(NBX_HAVE_ISA_AVX2)
#define NBX_CPU_KERNEL(f) {f##_avx2, f##_avx2, f##_avx2}
#else
#define NBX_CPU_KERNEL(f) {f##_baseline, f##_baseline, f##_baseline}
#endif
#define NBX_CPU_KERNEL_ONE(f) {f, f, f}

// The record of one call. Everything a kernel needs is here; it allocates nothing and counts no references.
struct nbx_op_call {
    nbx_context *ctx;
    const nbx_op *op;
    const nbx_schema *schema;
    nbx_op_fn kernel;
    int arg_count, out_count;
    nbx_device device;         // where results go
    size_t scratch_bytes;      // infer sets it
    void *scratch;             // kernels use it; 64-byte aligned, contents undefined
    void *packed;              // NULL, or the weight as the row's packing made it
    nbx_epilogue *epilogue;    // NULL, or what is to be done to the result (epilogue.h); of recorded calls of rows that carry one
    nbx_pool *pool;            // for CPU kernels
    void *stream;              // for CUDA kernels
    size_t state_bytes;
    void *state;               // what infer or a first run keeps for the kernel: plain data (nbx_call_state)
    bool recorded;             // the call is kept and will run again
    bool plan_only;            // an elementwise kernel only fills its state
    bool restride_out;         // infer may say what NBX_OP_RESTRIDE_OUT says, of this call
    nbx_value out[NBX_MAX_RESULTS];
    nbx_tensor **list;         // the tensors of a Tensor[] result, in a block of the scope
    int list_count;
    nbx_value args[NBX_MAX_ARGS];  // in schema order, defaults filled in, kinds as the schema says
};

// ---------------------------------------------------------------------------------------------------------- arguments
static inline bool arg_is_none(const nbx_op_call *c, int i) { return c->args[i].kind == NBX_KIND_NONE; }
static inline const nbx_tensor *arg_tensor(const nbx_op_call *c, int i) {  // NULL for an absent optional
    return c->args[i].kind == NBX_KIND_TENSOR ? c->args[i].as.tensor : (const nbx_tensor *)0;
}
static inline int64_t arg_int(const nbx_op_call *c, int i) { return c->args[i].as.integer; }
static inline double arg_float(const nbx_op_call *c, int i) { return c->args[i].as.real; }
static inline bool arg_bool(const nbx_op_call *c, int i) { return c->args[i].as.boolean; }
static inline const char *arg_string(const nbx_op_call *c, int i) {  // NULL for an absent optional
    return c->args[i].kind == NBX_KIND_STRING ? c->args[i].as.string : (const char *)0;
}
static inline nbx_dtype arg_dtype(const nbx_op_call *c, int i) {  // NBX_DTYPE_NONE for an absent one
    return c->args[i].kind == NBX_KIND_DTYPE ? c->args[i].as.dtype : NBX_DTYPE_NONE;
}
static inline int64_t arg_int_or(const nbx_op_call *c, int i, int64_t absent) { return arg_is_none(c, i) ? absent : arg_int(c, i); }
static inline double arg_float_or(const nbx_op_call *c, int i, double absent) { return arg_is_none(c, i) ? absent : arg_float(c, i); }
// Lists: count in args[i].count, elements in args[i].as.ints / tensors / floats / bools / values (Scalar[]).
static inline const int64_t *arg_ints(const nbx_op_call *c, int i, int *count) {
    *count = c->args[i].kind == NBX_KIND_NONE ? 0 : c->args[i].count;
    return c->args[i].as.ints;
}
static inline const nbx_tensor *const *arg_tensors(const nbx_op_call *c, int i, int *count) {
    *count = c->args[i].kind == NBX_KIND_NONE ? 0 : c->args[i].count;
    return c->args[i].as.tensors;
}
// A Scalar (INT, FLOAT, BOOL or COMPLEX) as a number; complex gives its real part.
double nbx_scalar_to_double(const nbx_value *v);
int64_t nbx_scalar_to_int(const nbx_value *v);   // floats truncate, saturating
nbx_dtype nbx_scalar_dtype(const nbx_value *v);  // int64, float32 (default float), bool, complex64: category for promotion
static inline bool nbx_is_scalar_kind(int kind) { return kind >= NBX_KIND_INT && kind <= NBX_KIND_COMPLEX; }

// Wraps a negative dim for a rank (rank 0 counts as 1) and checks it; failing names operator and dim.
nbx_status nbx_call_dim(nbx_op_call *c, int64_t dim, int rank, int *wrapped);
// A list of dims as bits; absent or empty: all dims (if empty_is_all). Repeated dims fail.
nbx_status nbx_call_dims(nbx_op_call *c, int arg, int rank, bool empty_is_all, uint64_t *mask);
// Fails unless t's dtype is floating (or complex), saying so.
nbx_status nbx_call_need_float(nbx_op_call *c, const nbx_tensor *t, bool complex_too);
// The tensor that an out= or in-place form writes (the k-th of them); NULL in the functional form.
const nbx_tensor *nbx_call_target(const nbx_op_call *c, int k);
// Fails unless the target has the very dtype of the result, as ATen's structured operators do.
nbx_status nbx_call_need_target(nbx_op_call *c, int k, nbx_dtype dtype);

// ------------------------------------------------------------------------------------------------------------ results
// infer: describes result k. stride NULL: contiguous. Returns the descriptor (its storage comes later), NULL on failure.
nbx_tensor *out_new(nbx_op_call *c, int k, nbx_dtype dtype, int rank, const int64_t *shape, const int64_t *stride);
// The same with empty_like's rule for strides (preserve) after t.
nbx_tensor *out_like(nbx_op_call *c, int k, nbx_dtype dtype, const nbx_tensor *t);
// infer of views: result k is a view of base (offset in elements of dtype, absolute in the storage).
nbx_tensor *out_view(nbx_op_call *c, int k, const nbx_tensor *base, nbx_dtype dtype, int rank, const int64_t *shape,
                     const int64_t *stride, int64_t offset);
// Composites: result k is this tensor (a new reference is taken; NULL fails). An argument itself may be a result.
nbx_status out_tensor(nbx_op_call *c, int k, const nbx_tensor *t);
void out_none(nbx_op_call *c, int k);                        // an undefined tensor
void out_value(nbx_op_call *c, int k, nbx_value value);      // a number, bool, dtype (lists: in a scope block)
// A Tensor[] result: announce its length, then out_new / out_view / out_tensor with k = 0 ... count-1. Results in front of it
// are given before; it is the last one.
nbx_status out_list(nbx_op_call *c, int count);
// Kernels: result k.
static inline nbx_tensor *out_get(const nbx_op_call *c, int k) {
    return c->list ? c->list[k] : c->out[k].kind == NBX_KIND_TENSOR ? (nbx_tensor *)c->out[k].as.tensor : (nbx_tensor *)0;
}

// Plain bytes that stay with the call (zeroed); NULL fails the call. Once per call, in infer.
void *nbx_call_state(nbx_op_call *c, size_t bytes);

// --------------------------------------------------------------------------------------------------------- composites
// Calls an operator by name with positional values; returns its first tensor result, owned by the scope (the door closes
// the composite's scope itself). NULL arguments pass through as NULL, keeping the first message.
nbx_tensor *nbx_do(nbx_context *ctx, const char *name, int count, const nbx_value *args);
#define NBX_DO(ctx, name, ...)                                                                                         \
    nbx_do(ctx, name, (int)(sizeof((nbx_value[]){__VA_ARGS__}) / sizeof(nbx_value)), (nbx_value[]){__VA_ARGS__})
// The same with all results (numbers and lists too).
nbx_status nbx_do_many(nbx_context *ctx, const char *name, int count, const nbx_value *args, nbx_value *results, int capacity);
// Forwards the call to another operator with the same arguments; results become the call's. For aliases.
nbx_status nbx_forward(nbx_op_call *c, const char *name, int count, const nbx_value *args);
#define NBX_FORWARD(c, name, ...)                                                                                      \
    nbx_forward(c, name, (int)(sizeof((nbx_value[]){__VA_ARGS__}) / sizeof(nbx_value)), (nbx_value[]){__VA_ARGS__})
// A new contiguous tensor on a device, owned by the scope (recordings plan it like any result).
nbx_tensor *nbx_new(nbx_context *ctx, nbx_device device, nbx_dtype dtype, int rank, const int64_t *shape);
// A 0-dim wrapped number as a tensor argument, owned by the scope.
nbx_tensor *nbx_wrap_number(nbx_context *ctx, nbx_device device, const nbx_value *number);

// Short names for values in composites.
static inline nbx_value T(const nbx_tensor *t) {  // NBX_NONE and absent optionals become none: use T_OR_NONE for those
    return nbx_of_tensor(t);
}
static inline nbx_value T_OR_NONE(const nbx_tensor *t) { return t && !nbx_is_none(t) ? nbx_of_tensor(t) : nbx_of_none(); }
#define I(x) nbx_of_int(x)
#define F(x) nbx_of_float(x)
#define B(x) nbx_of_bool(x)
#define NIL nbx_of_none()

// ------------------------------------------------------------------------------------------------------------ promotion
// ATen's result_type over tensors (with and without dims, wrapped numbers) and scalars; NBX_DTYPE_NONE entries skipped.
typedef struct nbx_promotion { nbx_dtype dim, zero, wrapped; } nbx_promotion;
void nbx_promotion_start(nbx_promotion *p);
void nbx_promotion_tensor(nbx_promotion *p, const nbx_tensor *t);
void nbx_promotion_scalar(nbx_promotion *p, const nbx_value *v);
nbx_dtype nbx_promotion_result(const nbx_promotion *p);

// Broadcasts shape b into *rank/shape (in place). Failing names the operator and both shapes.
nbx_status nbx_broadcast(nbx_op_call *c, int *rank, int64_t *shape, int rank_b, const int64_t *shape_b);

// ------------------------------------------------------------------------------------------------------------- the table
// ops.def lists the arrays of rows, one line per family file: NBX_OPS(softmax) names `const nbx_op nbx_ops_softmax[]`,
// ended by a row without a name.
#define NBX_OPS_END {0}

typedef enum nbx_form { NBX_FORM_FUNCTIONAL, NBX_FORM_IN_PLACE, NBX_FORM_OUT } nbx_form;

struct nbx_operator {
    const char *text;             // schema text, as in schemas.def
    char *name;                   // "aten::add.Tensor"
    nbx_schema *schema;           // parsed on first use
    const nbx_op *op;             // the row that implements it; NULL: known, not implemented. For derived forms: the base's.
    const nbx_operator *base;     // the functional row an in-place or out= form is derived from
    nbx_form form;
    uint32_t tags;
    nbx_op_fn cuda;               // kernel of libnbx_cuda, filled when that is opened
};

// Runs a call at the one door. args are positional (arg_count of them), keywords by name; see nbx_call_operator.
nbx_status nbx_dispatch(nbx_context *ctx, const nbx_operator *op, const nbx_value *args, int arg_count,
                        const nbx_named_value *keywords, int keyword_count, nbx_value *results, int capacity, int *count);

#ifdef __cplusplus
}
#endif
#endif

// Contexts, statuses, dtypes, devices, scopes: what every other call needs first.
//
// Environment, read once by the library:
//   NBX_ISA            baseline, avx2 or avx512: the most that contexts use, whatever the machine has
//   NBX_DIRECT         1: programs run node by node, without plans (read when a session is made)
//   NBX_VERIFY_REPLAY  1: every replay of a plan is followed by a run without it, and compared byte for byte; a difference is an
//                      INTERNAL error (read when a session is made)
//   NBX_TRACE_FREE     N: a line on stderr for each storage of at least N bytes that is freed
#ifndef NBX_CONTEXT_H
#define NBX_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NBX_API __attribute__((visibility("default")))
#define NBX_MUST_CHECK __attribute__((warn_unused_result))
#define NBX_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define NBX_API
#define NBX_MUST_CHECK
#define NBX_PRINTF(text, first)
#endif

#define NBX_VERSION_MAJOR 0
#define NBX_VERSION_MINOR 1
#define NBX_VERSION_PATCH 0

// Version of the library that is loaded, as "0.1.0".
NBX_API const char *nbx_version(void);

// ---------------------------------------------------------------------------------------------------------- statuses
// A command returns a status; an expression returns a tensor, or NULL and leaves the status in the context.
typedef enum nbx_status {
    NBX_OK = 0,
    NBX_ERROR_ARGUMENT,        // a value no rule of the operator allows
    NBX_ERROR_SHAPE,           // shapes that do not fit together
    NBX_ERROR_DTYPE,           // a dtype the operator does not take
    NBX_ERROR_INDEX,           // an index or dim outside its range
    NBX_ERROR_MEMORY,          // the allocator refused; the message names the request
    NBX_ERROR_UNKNOWN,         // no operator of that name
    NBX_ERROR_UNSUPPORTED,     // known, but not available here (device, dtype, construct)
    NBX_ERROR_FORMAT,          // a file that breaks its format
    NBX_ERROR_IO,              // the system could not read or write
    NBX_ERROR_DEVICE,          // a fault on a device or in its driver
    NBX_ERROR_ASSERT,          // an assertion inside the program failed
    NBX_ERROR_DATA_DEPENDENT,  // the result's size or flow depends on values, which a recording has not
    NBX_ERROR_INTERNAL,        // our own mistake: please report it
} nbx_status;

// Short English text of a status; never NULL. What a status means to a caller: docs/errors.md.
NBX_API const char *nbx_status_text(nbx_status status);

// ------------------------------------------------------------------------------------------------------------ dtypes
typedef enum nbx_dtype {
    NBX_DTYPE_NONE = -1,  // no dtype given: the operator's own rule decides
    NBX_UINT8 = 0,
    NBX_INT8,
    NBX_INT16,
    NBX_INT32,
    NBX_INT64,
    NBX_FLOAT16,
    NBX_FLOAT32,
    NBX_FLOAT64,
    NBX_COMPLEX64,
    NBX_COMPLEX128,
    NBX_BOOL,
    NBX_BFLOAT16,
    NBX_UINT16,
    NBX_UINT32,
    NBX_UINT64,
    NBX_FLOAT8_E4M3FN,
    NBX_FLOAT8_E5M2,
    NBX_DTYPE_COUNT
} nbx_dtype;

NBX_API const char *nbx_dtype_name(nbx_dtype dtype);    // "float32"; "invalid" for what is none
NBX_API size_t nbx_dtype_bytes(nbx_dtype dtype);        // size of one element; 0 for what is none
NBX_API nbx_dtype nbx_dtype_parse(const char *name);    // "float32", "f32", "torch.float32"; NBX_DTYPE_NONE if unknown

// ----------------------------------------------------------------------------------------------------------- devices
typedef enum nbx_device_type { NBX_CPU = 0, NBX_CUDA = 1 } nbx_device_type;

typedef struct nbx_device {
    int16_t type;   // nbx_device_type
    int16_t index;  // ordinal of the device; 0 for the CPU
} nbx_device;

// Reads "cpu", "cuda", "cuda:1". false: not a device's name.
NBX_API bool nbx_device_parse(const char *text, nbx_device *device);

// Number of devices of a type that this process can use (1 for the CPU; 0 without driver or libnbx_cuda).
NBX_API int nbx_device_count(nbx_device_type type);
// Why a device cannot be used here: no libnbx_cuda.so, one of another version, no driver or one that is too old, no such index.
// NULL: it can.
NBX_API const char *nbx_device_problem(nbx_device device);

// ---------------------------------------------------------------------------------------------------------- contexts
// A context belongs to one thread at a time: device, threads, scopes, generator, last error.
typedef struct nbx_context nbx_context;

typedef struct nbx_options {
    nbx_device device;       // where operators without tensor arguments allocate, and programs run
    int threads;             // CPU threads an operator may use; 0: what the affinity mask and the cgroup quota allow
    const char *isa;         // "baseline", "avx2", "avx512" to lower the instruction set; NULL, an unknown name, or more than
                             // there is: the best this machine has. nbx_context_isa tells
    size_t memory_ceiling;   // bytes the context's storages may hold together; past it allocations fail with MEMORY. 0: no ceiling
    bool allow_tf32;         // products and convolutions of float32 on a GPU may round their factors to tf32 (11 bits of precision)
                             // for its tensor cores, as torch.backends.cuda.matmul.allow_tf32. The CPU takes no notice
} nbx_options;

// Creates a context; options may be NULL (the CPU, all it may use). NULL result: out of memory, or a device that is not there
// (nbx_device_problem says which).
NBX_API nbx_context *nbx_context_create(const nbx_options *options);
// Destroys it and releases every tensor that its scopes own. Tensors that were retained live on. NULL is fine.
NBX_API void nbx_context_destroy(nbx_context *ctx);

// Status of the first failed call since the last nbx_clear_error, and its message ("" when all is well).
// The first failure stays: later ones neither replace it nor add to it. The message is valid until nbx_clear_error.
NBX_API nbx_status nbx_last_status(const nbx_context *ctx);
NBX_API const char *nbx_last_message(const nbx_context *ctx);
NBX_API void nbx_clear_error(nbx_context *ctx);

NBX_API nbx_device nbx_context_device(const nbx_context *ctx);
NBX_API int nbx_context_threads(const nbx_context *ctx);
NBX_API const char *nbx_context_isa(const nbx_context *ctx);

// Waits for all work queued on the context's device; device-side faults (an index out of range: INDEX) surface here. On the CPU
// there is nothing to wait for: it returns nbx_last_status.
NBX_API NBX_MUST_CHECK nbx_status nbx_synchronize(nbx_context *ctx);

// Seeds the context's generator as torch.manual_seed does; rand, randn, dropout and the like draw from it: on the CPU PyTorch's
// numbers there, on a GPU those of PyTorch's CUDA generator.
NBX_API void nbx_manual_seed(nbx_context *ctx, uint64_t seed);
// Whether random operators without a generator of their own give the CPU's numbers on a GPU, too: drawn on the host and copied.
NBX_API void nbx_draw_on_cpu(nbx_context *ctx, bool on);

// ------------------------------------------------------------------------------------------------------------ scopes
// Operators give their results to the innermost open scope; the outermost is the context's own, which nbx_context_destroy
// closes. A loop that opens none keeps every result of every turn. Scopes nest and close in reverse order.
typedef struct nbx_scope {
    size_t mark;
} nbx_scope;

typedef struct nbx_tensor nbx_tensor;

NBX_API nbx_scope nbx_scope_open(nbx_context *ctx);
// Releases what the scope owns, lists of results included; `keep` (may be NULL) moves to the scope outside and is returned.
// To keep several tensors, nbx_retain them.
NBX_API nbx_tensor *nbx_scope_close(nbx_context *ctx, nbx_scope scope, nbx_tensor *keep);

#ifdef __cplusplus
}
#endif
#endif

// What a context holds, and how failures are reported.
#ifndef NBX_CORE_CONTEXT_H
#define NBX_CORE_CONTEXT_H

#include "core/tensor.h"
#include "nbx/call.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nbx_pool nbx_pool;          // cpu/pool.h
typedef struct nbx_recorder nbx_recorder;  // ops/record.h

struct nbx_context {
    nbx_device device;
    int isa;             // cpu/isa.h: 0 baseline, 1 AVX2, 2 AVX-512
    int threads;
    nbx_pool *pool;      // NULL with one thread
    nbx_recorder *recorder;  // not NULL: kernel calls are recorded instead of made
    nbx_generator *generator;  // the default one, made when first used (ops/random)
    void (*destroy_generator)(nbx_generator *generator);
    struct fft_cache *fft_cache;  // tables of the last transforms (ops/fft)
    void (*destroy_fft_cache)(struct fft_cache *cache);
    void *stream;        // of the CUDA backend, on device

    nbx_tensor **owned;  // what the open scopes own, innermost last
    size_t owned_count, owned_capacity;
    void **blocks;       // lists in results, freed with the scope that owns them
    size_t block_count, block_capacity;
    size_t depth;        // of nested operator calls, to stop runaway composites

    nbx_account *account;  // of the storages it has created
    bool allow_tf32;     // nbx_options
    bool clamp_half;     // casts to float16 clamp finite values to +-65504 (T6's protected mode)

    nbx_status status;   // of the first failure since nbx_clear_error
    char message[2048];
};

// Records the first failure (later ones keep it) and returns its status, to be returned on.
nbx_status nbx_fail(nbx_context *ctx, nbx_status status, const char *format, ...) NBX_PRINTF(3, 4);
// Puts text in front of the message of the failure on hand: "node 12: " ...
void nbx_fail_prefix(nbx_context *ctx, const char *format, ...) NBX_PRINTF(2, 3);
// The failure of an allocation of so many bytes for a purpose.
nbx_status nbx_fail_memory(nbx_context *ctx, size_t bytes, const char *what);

// Gives a reference to the innermost scope. On failure the reference is dropped and NULL returned. NULL passes through.
nbx_tensor *nbx_scope_own(nbx_context *ctx, nbx_tensor *t);
// Memory freed when the innermost scope closes. NULL: fails the context.
void *nbx_scope_alloc(nbx_context *ctx, size_t bytes);

// ---------------------------------------------------------------------------------------------------------- backends
// What a device's library offers to the core. One per device type, filled when libnbx_cuda is opened.
struct nbx_op_call;
typedef struct nbx_backend {
    int device_count;
    const char *problem;  // why there are none, as the driver says it
    // Fills data, owner and release of a storage that knows its device and bytes; memory is reused in stream order.
    nbx_status (*alloc)(nbx_context *ctx, nbx_storage *storage);
    nbx_status (*copy)(nbx_context *ctx, nbx_device to_device, void *to, nbx_device from_device, const void *from, size_t bytes);
    nbx_status (*fill)(nbx_context *ctx, int index, void *to, int byte, size_t bytes);
    nbx_status (*synchronize)(nbx_context *ctx);                // surfaces device faults
    bool (*reaches)(nbx_device device, const void *data);       // may kernels of the device read there?
    nbx_status (*open)(nbx_context *ctx);                       // streams of a new context
    void (*close)(nbx_context *ctx);
    nbx_status (*(*kernel)(const char *name))(struct nbx_op_call *call);  // kernel of an operator, NULL if it has none
    // Graphs of what walk launches, replayed as one. Buffers whose address changes between replays have the address
    // graph_stand_in gives them (as far aligned as the true one) during the walk, and their true ones at each launch.
    // graph_create gives NULL where the driver can't; nothing failed.
    void *(*graph_stand_in)(int buffer, const void *address);
    void *(*graph_create)(nbx_context *ctx, nbx_status (*walk)(void *arg), void *arg, void *const *stand_ins, int count);
    nbx_status (*graph_launch)(nbx_context *ctx, void *graph, void *const *addresses);
    void (*graph_destroy)(void *graph);
    // Readings of the device's clock in stream order; seconds between two after a synchronize.
    void *(*timer_create)(nbx_context *ctx, int stamps);
    nbx_status (*timer_stamp)(nbx_context *ctx, void *timer, int stamp);
    double (*timer_seconds)(void *timer, int from, int to);
    void (*timer_destroy)(void *timer);
    bool has_float64;
    int capability;                                             // 80, 90, ...
} nbx_backend;

// The backend of a device type, opened on first use; NULL for the CPU and when there is none.
const nbx_backend *nbx_backend_of(int device_type);
// The same without a device of that type: the library alone, which knows what it has kernels for. NULL: not found.
const nbx_backend *nbx_backend_library(int device_type);
// Why nbx_backend_of gives NULL; NULL: it does not.
const char *nbx_backend_problem(int device_type);

// Raw copies between any two devices (host pointers: device {NBX_CPU, 0}); waits when the host takes part.
nbx_status nbx_copy_bytes(nbx_context *ctx, nbx_device to_device, void *to, nbx_device from_device, const void *from,
                          size_t bytes);

#ifdef __cplusplus
}
#endif
#endif

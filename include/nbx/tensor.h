// Tensors: immutable descriptors over shared storage. A view is a new descriptor over the same storage. (In-place operators of
// views, such as t_ and squeeze_, and an out= argument of another shape change the descriptor they are given, as in PyTorch.)
// Shapes and strides count elements; a shape of rank 0 is one element, and its arrays may be NULL.
#ifndef NBX_TENSOR_H
#define NBX_TENSOR_H

#include "nbx/context.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NBX_MAX_RANK 64

// What an absent optional tensor argument is. (NULL is a failed expression: it passes through, with its message.)
NBX_API extern const nbx_tensor nbx_none_tensor;
#define NBX_NONE (&nbx_none_tensor)

typedef enum nbx_memory_format {
    NBX_CONTIGUOUS_FORMAT = 0,  // c10::MemoryFormat's order
    NBX_PRESERVE_FORMAT = 1,
    NBX_CHANNELS_LAST = 2,
    NBX_CHANNELS_LAST_3D = 3,
} nbx_memory_format;

// ------------------------------------------------------------------------------------------------------------- facts
NBX_API nbx_dtype nbx_tensor_dtype(const nbx_tensor *t);
NBX_API nbx_device nbx_tensor_device(const nbx_tensor *t);
NBX_API int nbx_tensor_rank(const nbx_tensor *t);
NBX_API const int64_t *nbx_tensor_shape(const nbx_tensor *t);    // [rank]
NBX_API const int64_t *nbx_tensor_strides(const nbx_tensor *t);  // [rank], in elements
NBX_API int64_t nbx_tensor_size(const nbx_tensor *t, int dim);   // negative dims count from the end; -1: out of range
NBX_API int64_t nbx_tensor_numel(const nbx_tensor *t);
NBX_API int64_t nbx_tensor_offset(const nbx_tensor *t);          // of the first element in its storage, in elements
NBX_API size_t nbx_tensor_nbytes(const nbx_tensor *t);           // numel x element size
NBX_API bool nbx_tensor_is_contiguous(const nbx_tensor *t, nbx_memory_format format);
NBX_API bool nbx_tensor_shares_storage(const nbx_tensor *a, const nbx_tensor *b);
NBX_API size_t nbx_tensor_storage_bytes(const nbx_tensor *t);
// Address of the first element; on a CUDA tensor a device address. NULL for tensors without elements.
NBX_API void *nbx_tensor_data(const nbx_tensor *t);

// --------------------------------------------------------------------------------------------------------- ownership
// Adds a reference that no scope releases; release undoes it. Both take NULL and NBX_NONE.
NBX_API nbx_tensor *nbx_retain(const nbx_tensor *t);
NBX_API void nbx_release(const nbx_tensor *t);

// ---------------------------------------------------------------------------------------------------------- creation
// All results belong to the innermost scope. NULL: the context says why.
//   errors of all: SHAPE (a rank above NBX_MAX_RANK, a negative size or stride, more bytes than any memory), DTYPE (none of the
//   table), MEMORY

// Contiguous, contents undefined, on the context's device.
NBX_API nbx_tensor *nbx_tensor_create(nbx_context *ctx, nbx_dtype dtype, int rank, const int64_t *shape);
// The same on a device and with strides (NULL: contiguous); the storage spans exactly what the strides reach.
NBX_API nbx_tensor *nbx_tensor_create_strided(nbx_context *ctx, nbx_device device, nbx_dtype dtype, int rank,
                                              const int64_t *shape, const int64_t *strides);
// Copies dense row-major elements from host memory to a new tensor on the context's device.
NBX_API nbx_tensor *nbx_tensor_from_host(nbx_context *ctx, nbx_dtype dtype, int rank, const int64_t *shape,
                                         const void *elements);
// Wraps memory that the caller owns, from its first byte on: storage_bytes of it, on the device named. `release(owner)` is
// called once, when the last view is gone (may be NULL), by whichever thread that is. On failure release is not called.
//   errors: SHAPE when shape and strides (NULL: contiguous) reach past storage_bytes
NBX_API nbx_tensor *nbx_tensor_wrap(nbx_context *ctx, nbx_device device, nbx_dtype dtype, int rank,
                                    const int64_t *shape, const int64_t *strides, void *data, size_t storage_bytes,
                                    void (*release)(void *owner), void *owner);
// Another descriptor over the same storage: strides and offset in elements of dtype, the offset from the storage's start (not
// base's). dtype may differ from base's; bytes are taken as they lie.
//   errors: SHAPE when an element would lie outside the storage
NBX_API nbx_tensor *nbx_tensor_view(nbx_context *ctx, const nbx_tensor *base, nbx_dtype dtype, int rank,
                                    const int64_t *shape, const int64_t *strides, int64_t offset);

// --------------------------------------------------------------------------------------------------------- transport
// A copy on another device (the same tensor if it is there already). A tensor without gaps keeps its strides, another the
// order of its dims, as .to(device) does.
NBX_API nbx_tensor *nbx_tensor_to_device(nbx_context *ctx, const nbx_tensor *t, nbx_device device);
// Writes all elements, row-major and dense, to host memory of nbx_tensor_nbytes bytes. Waits; device faults surface here.
NBX_API NBX_MUST_CHECK nbx_status nbx_tensor_read(nbx_context *ctx, const nbx_tensor *t, void *elements);
// Overwrites all elements from dense row-major host memory.
NBX_API NBX_MUST_CHECK nbx_status nbx_tensor_write(nbx_context *ctx, const nbx_tensor *t, const void *elements);

// Text of values, shape, dtype and device, at most `size` bytes with the final zero; returns the length it wanted. Waits, as
// nbx_tensor_read does.
NBX_API size_t nbx_tensor_format(nbx_context *ctx, const nbx_tensor *t, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif

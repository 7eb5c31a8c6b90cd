// Storage and tensors as the library itself sees them. Kernels read them as plain views: data, dtype, rank, shape, stride.
#ifndef NBX_CORE_TENSOR_H
#define NBX_CORE_TENSOR_H

#include "core/dtype.h"
#include "nbx/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// What the storages of one context hold together. Storages may outlive the context, so it is shared by count.
// Large blocks of host memory that were given back, to be used again: a fresh page costs more than to fill it.
typedef struct nbx_kept_block {
    void *data;
    size_t bytes;  // 0: empty
} nbx_kept_block;

#define NBX_KEPT_BLOCKS 8

typedef struct nbx_account {
    int refs;                     // atomic, like the next two
    size_t held_bytes, peak_bytes;
    size_t ceiling_bytes;         // 0: none; then no blocks are kept
    int busy;                     // atomic: somebody is at the kept blocks
    nbx_kept_block kept[NBX_KEPT_BLOCKS];
} nbx_account;

typedef struct nbx_storage nbx_storage;
struct nbx_storage {
    int refs;           // atomic, through nbx_storage_retain/release
    nbx_device device;
    size_t bytes;
    void *data;         // NULL: no elements, or a place of a plan that has none yet
    void (*release)(nbx_storage *storage);  // frees data; NULL for memory nobody frees
    void *owner;        // for release
    nbx_account *account;  // where its bytes are counted; NULL for memory that was wrapped
    size_t block_bytes;    // of a block to keep afterwards; 0: it is freed
    int64_t plan;       // index of the buffer in the plan being recorded, or -1
    bool constant;      // weights of a program that no run writes: forms made of them stay right
};

struct nbx_tensor {
    int refs;           // atomic, through nbx_retain/nbx_release
    uint8_t dtype;      // nbx_dtype
    bool wrapped;       // a wrapped number: 0-dim, raises a result's category only
    bool contiguous;    // row-major dense (size-1 dims ignored), true for empty tensors
    bool dense;         // non-overlapping and dense in some order of dims
    int16_t rank;
    int16_t capacity;   // dims that fit behind the struct
    int64_t numel;
    int64_t offset;     // in elements
    nbx_storage *storage;  // NULL for a result that infer described and nobody allocated yet
    int64_t *shape;     // [rank]
    int64_t *stride;    // [rank], in elements
    int64_t dims[];
};

static inline void *nbx_data(const nbx_tensor *t) {
    if (!t->numel) return t->storage->data;  // an empty tensor may have any offset
    return (char *)t->storage->data + t->offset * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
}
static inline nbx_device nbx_device_of(const nbx_tensor *t) { return t->storage->device; }
static inline bool nbx_is_none(const nbx_tensor *t) { return t == NBX_NONE; }

// ----------------------------------------------------------------------------------------------------------- storage
// A new storage with one reference. bytes 0 allocates nothing. NULL: fails the context.
nbx_storage *nbx_storage_create(nbx_context *ctx, nbx_device device, size_t bytes);
nbx_storage *nbx_storage_wrap(nbx_context *ctx, nbx_device device, size_t bytes, void *data,
                              void (*release)(nbx_storage *), void *owner);
// Gives it room for bytes, keeping what it holds: all tensors over it see the new memory.
nbx_status nbx_storage_grow(nbx_context *ctx, nbx_storage *s, size_t bytes);
nbx_account *nbx_account_create(size_t ceiling_bytes);  // one reference; NULL: no memory
void nbx_account_release(nbx_account *account);         // NULL is fine
void nbx_storage_retain(nbx_storage *s);
void nbx_storage_release(nbx_storage *s);  // NULL is fine

// ------------------------------------------------------------------------------------------------------- descriptors
// A descriptor with one reference that no scope owns; stride NULL: contiguous; storage may be NULL (then set later) and is
// retained. Checks rank, negative sizes and overflow, not the storage's extent. NULL: fails the context.
nbx_tensor *nbx_tensor_new(nbx_context *ctx, nbx_dtype dtype, int rank, const int64_t *shape, const int64_t *stride,
                           int64_t offset, nbx_storage *storage);
// Overwrites a descriptor's metadata (resize_, set_, unsqueeze_, ...), growing it if it must. storage NULL: keep.
// The tensor's address stays. false: out of memory (rank beyond what fits), the context says so.
bool nbx_tensor_become(nbx_context *ctx, nbx_tensor *t, nbx_dtype dtype, int rank, const int64_t *shape,
                       const int64_t *stride, int64_t offset, nbx_storage *storage);
// Bytes from the storage's start that shape, stride and offset reach (0 without elements); -1: overflow or negative.
int64_t nbx_extent_bytes(nbx_dtype dtype, int rank, const int64_t *shape, const int64_t *stride, int64_t offset);

// ---------------------------------------------------------------------------------------------------- shapes, strides
int64_t nbx_shape_numel(int rank, const int64_t *shape);  // -1 on overflow
bool nbx_shape_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b);
static inline bool nbx_same_shape(const nbx_tensor *a, const nbx_tensor *b) {
    return nbx_shape_equal(a->rank, a->shape, b->rank, b->shape);
}
// Bytes from the first element to element i, in row-major order of the first `rank` dims.
static inline int64_t nbx_element_offset(const nbx_tensor *t, int rank, int64_t i) {
    int64_t offset = 0;
    for (int d = rank - 1; d >= 0; d--) {
        offset += i % t->shape[d] * t->stride[d];
        i /= t->shape[d];
    }
    return offset * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
}
// Stride, in elements, along dim d of t broadcast to `rank` dims: 0 where it is repeated.
static inline int64_t nbx_broadcast_stride(const nbx_tensor *t, int rank, int d) {
    const int own = d - (rank - t->rank);
    return own < 0 || t->shape[own] == 1 ? 0 : t->stride[own];
}
void nbx_strides_contiguous(int rank, const int64_t *shape, int64_t *stride);
// Strides of a memory format (channels last needs rank 4, channels last 3d rank 5).
void nbx_strides_format(nbx_memory_format format, int rank, const int64_t *shape, int64_t *stride);
// The strides ATen gives empty_like(preserve): t's own if dense, else contiguous in t's order of strides.
void nbx_strides_preserve(const nbx_tensor *t, int64_t *stride);
bool nbx_is_contiguous_format(const nbx_tensor *t, nbx_memory_format format);
// ATen's suggest_memory_format: channels last (3d) if the strides say so, else contiguous.
nbx_memory_format nbx_suggest_memory_format(const nbx_tensor *t);
// ATen's computeStride for view(): strides of new_shape over t's memory without a copy. false: not possible.
bool nbx_strides_for_view(const nbx_tensor *t, int rank, const int64_t *shape, int64_t *stride);
// May the two share an element of memory (conservative)? Same storage and overlapping extents.
bool nbx_may_overlap(const nbx_tensor *a, const nbx_tensor *b);
// Do two elements of t share memory (an expanded dim of size > 1)?
bool nbx_has_internal_overlap(const nbx_tensor *t);

// "[2, 3]" into text of size bytes; returns text.
char *nbx_shape_text(int rank, const int64_t *shape, char *text, size_t size);
#define NBX_SHAPE_TEXT 256

#ifdef __cplusplus
}
#endif
#endif

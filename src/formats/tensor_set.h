// The set of named tensors that every reader fills, and the readers and writers themselves.
#ifndef NBX_FORMATS_TENSOR_SET_H
#define NBX_FORMATS_TENSOR_SET_H

#include "formats/bytes.h"
#include "nbx/formats.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

// Files may hold tensors of more dims than ours have; taking such a tensor out of the set is what fails.
#define NBX_FILE_RANK 255

// What a reader says about one tensor. All of it has been checked by the reader: the elements lie inside `owner`.
typedef struct nbx_placed {
    const char *name;
    size_t name_bytes;
    nbx_dtype dtype;
    int rank;
    int64_t shape[NBX_FILE_RANK];
    bool fortran;      // the first dim varies fastest
    bool swapped;      // big-endian elements
    nbx_bytes *owner;  // retained by the set
    char *data;
    size_t bytes;      // numel x element size
} nbx_placed;

// Adds a tensor; elements that are not aligned or not in our order of bytes are copied. Repeated names fail (FORMAT).
nbx_status nbx_tensors_add(nbx_context *ctx, nbx_tensors *set, const char *path, const nbx_placed *placed);
// Adds text; a repeated key fails.
nbx_status nbx_tensors_add_metadata(nbx_context *ctx, nbx_tensors *set, const char *path, const char *key, const char *text);

// numel x element size of a shape, or -1 when that is no size_t.
int64_t nbx_placed_bytes(nbx_dtype dtype, int rank, const int64_t *shape);

// What nbx_tensors_load does once the file is there. The bytes stay as long as the set or a tensor of it.
nbx_status nbx_tensors_read(nbx_context *ctx, const char *path, nbx_bytes *file, nbx_tensors **out);

// Readers of a whole file that is mapped. `path` is for messages.
nbx_status nbx_safetensors_read(nbx_context *ctx, nbx_tensors *set, const char *path, nbx_bytes *file);
nbx_status nbx_npz_read(nbx_context *ctx, nbx_tensors *set, const char *path, nbx_bytes *file);
// Reads one array in npy format that lies in a part of owner.
nbx_status nbx_npy_read(nbx_context *ctx, nbx_tensors *set, const char *path, const char *name, size_t name_bytes,
                        nbx_bytes *owner, char *data, size_t bytes);

// Writers. Elements come row-major and dense, one tensor at a time, from nbx_write_elements.
typedef struct nbx_to_write {
    const char *name;
    const nbx_tensor *tensor;
} nbx_to_write;
nbx_status nbx_safetensors_write(nbx_context *ctx, FILE *file, const char *path, const nbx_to_write *list, size_t count);
nbx_status nbx_npz_write(nbx_context *ctx, FILE *file, const char *path, const nbx_to_write *list, size_t count);
nbx_status nbx_npy_write(nbx_context *ctx, FILE *file, const char *path, const nbx_tensor *t);
// The header of t's npy form, of at most NBX_NPY_HEADER_BYTES bytes; returns its length, a multiple of 64.
#define NBX_NPY_HEADER_BYTES 2048
size_t nbx_npy_header(const nbx_tensor *t, char *header);

// Calls take(arg, bytes, count) with all elements of t, row-major and dense.
nbx_status nbx_read_elements(nbx_context *ctx, const nbx_tensor *t,
                             nbx_status (*take)(nbx_context *ctx, void *arg, const void *bytes, size_t count), void *arg);
// Writes bytes, failing ctx with the system's words.
nbx_status nbx_write_bytes(nbx_context *ctx, FILE *file, const char *path, const void *bytes, size_t count);
// Writes all elements of t.
nbx_status nbx_write_elements(nbx_context *ctx, FILE *file, const char *path, const nbx_tensor *t);

#ifdef __cplusplus
}
#endif
#endif

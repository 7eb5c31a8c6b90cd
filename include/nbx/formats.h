// Tensors in files: safetensors, npy and npz, read without a copy where the file allows it.
#ifndef NBX_FORMATS_H
#define NBX_FORMATS_H

#include "nbx/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a file holds: named tensors, and text by key. It may be read by several threads at once.
typedef struct nbx_tensors nbx_tensors;

// Reads a file of any of the three formats, told apart by its first bytes.
//   safetensors  the file is mapped; a tensor whose place is not aligned is copied. A complex tensor is a pair of reals in
//                the last dim under NAME#complex64 or NAME#complex128; it is found here as NAME, complex.
//   npz          stored members are mapped, deflated ones are unpacked (builds with zlib). "NAME.npy" is found as NAME.
//   npy          one tensor, called "arr_0" as numpy calls the first unnamed array. Both orders of elements and both orders
//                of bytes are read.
// Mapped memory is private to the process: a write into such a tensor does not reach the file.
//   errors: IO when it cannot be opened or read, FORMAT when it breaks its format (nothing of it is trusted: sizes, offsets,
//           overlaps and names are checked), UNSUPPORTED for element types that tensors have not, MEMORY
NBX_API NBX_MUST_CHECK nbx_status nbx_tensors_load(nbx_context *ctx, const char *path, nbx_tensors **out);
// Forgets the set. Tensors taken from it live on. NULL is fine.
NBX_API void nbx_tensors_destroy(nbx_tensors *set);

NBX_API size_t nbx_tensors_count(const nbx_tensors *set);
// Name of tensor `index`, in the order of the file (safetensors: of its header). NULL past the end.
NBX_API const char *nbx_tensors_name(const nbx_tensors *set, size_t index);
// The tensor of that name or place, on the CPU, owned by the innermost scope. NULL: there is none (ARGUMENT), or no memory.
NBX_API nbx_tensor *nbx_tensors_get(nbx_context *ctx, const nbx_tensors *set, const char *name);
NBX_API nbx_tensor *nbx_tensors_at(nbx_context *ctx, const nbx_tensors *set, size_t index);
// true when a tensor has that name.
NBX_API bool nbx_tensors_has(const nbx_tensors *set, const char *name);
// Text stored under a key (safetensors' __metadata__); NULL when there is none. It lives as long as the set.
NBX_API const char *nbx_tensors_metadata(const nbx_tensors *set, const char *key);

// Writes tensors (of any device, dtype and strides) to a file whose ending says the format: .safetensors, .npz (stored), or
// .npy (exactly one tensor; its name is not kept). A safetensors file gets the metadata key "order": its names, in order.
// It is written beside its place and moved there when it is complete, so tensors may be saved to the file they were loaded from,
// and a failure leaves the old file as it was (not so for devices, pipes, and in folders where no file can be made).
//   errors: ARGUMENT for another ending, a repeated name or several tensors for .npy; IO; MEMORY
NBX_API NBX_MUST_CHECK nbx_status nbx_tensors_save(nbx_context *ctx, const char *path, const char *const *names,
                                                   const nbx_tensor *const *tensors, size_t count);

#ifdef __cplusplus
}
#endif
#endif

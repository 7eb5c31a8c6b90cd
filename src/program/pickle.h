// The safe subset of Python's pickle format that torch.save writes: plain data, tensors and storages. Nothing is executed: a
// global is a pair of names, and the few functions that build tensors are imitated. Everything else is refused by name.
#ifndef NBX_PROGRAM_PICKLE_H
#define NBX_PROGRAM_PICKLE_H

#include "program/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nbx_pickle_kind {
    NBX_PICKLE_NONE,
    NBX_PICKLE_BOOL,
    NBX_PICKLE_INT,
    NBX_PICKLE_FLOAT,
    NBX_PICKLE_COMPLEX,
    NBX_PICKLE_TEXT,    // also bytes; not ended by zero, lies in the pickle
    NBX_PICKLE_TUPLE,
    NBX_PICKLE_LIST,
    NBX_PICKLE_DICT,    // items: key, value, key, value
    NBX_PICKLE_GLOBAL,  // module and name as two items of kind TEXT
    NBX_PICKLE_STORAGE,
    NBX_PICKLE_TENSOR,
    NBX_PICKLE_OTHER,   // a device, layout or slice: nothing a program needs
} nbx_pickle_kind;

typedef struct nbx_pickled nbx_pickled;

typedef struct nbx_pickled_storage {
    const char *key;    // entry data/KEY of the archive; ended by zero
    nbx_dtype dtype;    // NBX_DTYPE_NONE for UntypedStorage
    uint64_t bytes;
} nbx_pickled_storage;

typedef struct nbx_pickled_tensor {
    const nbx_pickled_storage *storage;
    nbx_dtype dtype;
    int rank;
    int64_t offset;     // in elements
    int64_t *shape, *strides;
} nbx_pickled_tensor;

struct nbx_pickled {
    uint32_t kind;      // nbx_pickle_kind
    uint32_t count;     // bytes of TEXT; elements of TUPLE and LIST; twice the members of DICT
    union {
        bool boolean;
        int64_t integer;
        double real;
        double complex[2];
        const char *text;
        nbx_pickled **items;
        nbx_pickled_storage *storage;
        nbx_pickled_tensor *tensor;
    } as;
    uint32_t capacity;  // of items
};

// Reads a pickle of size bytes at data, which must outlive the result; all values lie in the arena. Containers may hold each
// other in a circle: whoever walks them bounds the depth. NULL: fails ctx with FORMAT, or UNSUPPORTED for a global that is not
// in the subset; `label` names the file.
const nbx_pickled *nbx_pickle_read(nbx_context *ctx, nbx_arena *arena, const char *label, const void *data, size_t size);

#ifdef __cplusplus
}
#endif
#endif

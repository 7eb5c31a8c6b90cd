// Combining elements that meet at one place: what scatter_add, index_put(accumulate), index_reduce and the like do.
#ifndef NBX_OPS_COMBINE_H
#define NBX_OPS_COMBINE_H

#include "ops/op.h"
#include "ops/sort/keys.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NBX_SCATTER_SHORT = 32 };  // lines of an index in which a GPU looks for a later one of the same value by going through them

typedef enum nbx_combine { NBX_COMBINE_SET, NBX_COMBINE_ADD, NBX_COMBINE_MUL, NBX_COMBINE_MAX, NBX_COMBINE_MIN } nbx_combine;

// to[i] = to[i] op from[i], rounded to the dtype each time; strides in bytes. float16 and bfloat16 compute in float; bool adds
// as or and multiplies as and; NaN wins maximum and minimum.
typedef void (*nbx_combine_fn)(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t count);
// NULL: the dtype has no such operation (order of complex numbers; float8).
nbx_combine_fn nbx_combine_of(nbx_combine how, nbx_dtype dtype);
// The same to the elements of a table that an index names, steps in bytes: to[index[i]] = to[index[i]] op from[i].
typedef void (*nbx_combine_at_fn)(char *to, int64_t to_step, const int64_t *index, const char *from, int64_t from_step, int64_t count);
nbx_combine_at_fn nbx_combine_at_of(nbx_combine how, nbx_dtype dtype);
// What combining starts from: 0, 1, the least or the greatest value. 16 bytes.
void nbx_combine_identity(nbx_combine how, nbx_dtype dtype, void *element);
// to[i] = to[i] / count, integers rounded down.
void nbx_divide_run(nbx_dtype dtype, char *to, int64_t to_stride, int64_t divisor, int64_t count);
// Reads "sum", "prod", "mean", "amax", "amin" ("add" and "multiply" of the older scatter.reduce). false: none of them.
bool nbx_combine_parse(const char *name, nbx_combine *how, bool *mean);

// On a GPU longer lines of an index than this are sorted by place, so that many threads combine floats, each in order. Scratch for
// that: 32-bit keys, and what sorting takes.
enum { NBX_COMBINE_SHORT = 64 };
static inline size_t nbx_combine_sort_bytes(nbx_dtype dtype, int64_t lines, int64_t length) {
    if (nbx_dtype_is_integral(dtype, true) || length <= NBX_COMBINE_SHORT) return 0;
    return 512 + (size_t)(lines * length) * 4 + nbx_device_sort_bytes(lines, length);
}

#ifdef __cplusplus
}
#endif
#endif

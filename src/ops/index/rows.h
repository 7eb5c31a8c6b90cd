// Rows chosen by index tensors, read or written: the engine of index, index_put, index_select, embedding, index_add, ...
//
// One side is the table: some of its dims are indexed. The other side holds, for every entry of the broadcast index, a row:
// the dims of the table that are not indexed, some before and some after the dims of the index.
#ifndef NBX_OPS_ROWS_H
#define NBX_OPS_ROWS_H

#include "ops/index/combine.h"
#include "ops/sort/keys.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NBX_ROWS_INDICES = 16 };  // indexed dims at most

// Dims that both sides share, with the byte strides of each.
typedef struct nbx_row_dims {
    int rank;
    int64_t shape[NBX_MAX_RANK], table[NBX_MAX_RANK], rows[NBX_MAX_RANK];
} nbx_row_dims;

typedef struct nbx_rows {
    char *table, *rows;
    int width;                             // bytes of an element
    nbx_dtype dtype;
    bool wrap;                             // negative indices count from the end
    bool write;                            // rows go into the table, else the other way
    nbx_combine how;                       // how they meet what the table holds (write only)
    int count;                             // of index tensors
    const nbx_tensor *index[NBX_ROWS_INDICES];  // int32 or int64
    int dim[NBX_ROWS_INDICES];             // the dim of the table each of them indexes
    int64_t size[NBX_ROWS_INDICES], stride[NBX_ROWS_INDICES];  // of those dims; strides in bytes
    int index_rank;                        // the broadcast shape of the index
    int64_t index_shape[NBX_MAX_RANK], index_rows[NBX_MAX_RANK];
    int64_t index_stride[NBX_ROWS_INDICES][NBX_MAX_RANK];      // in bytes, 0 where broadcast
    nbx_row_dims before, after;
} nbx_rows;

// Plans self[indices] (NBX_NONE: a dim that is not indexed). Checks dtypes and broadcasts the index shapes. Fills all but
// the pointers and the strides of the rows; *rank and shape receive the shape of the rows' side.
nbx_status nbx_rows_plan(nbx_op_call *c, nbx_rows *r, const nbx_tensor *self, int count, const nbx_tensor *const *indices, int *rank,
                         int64_t *shape);
// One dim indexed by a tensor that counts as 1-D.
nbx_status nbx_rows_plan_dim(nbx_op_call *c, nbx_rows *r, const nbx_tensor *self, int dim, const nbx_tensor *index, int *rank, int64_t *shape);
// Strides of the rows' side in bytes, dims before, index, after.
void nbx_rows_strides(nbx_rows *r, const int64_t *bytes);
// Moves. Several rows for one place of the table arrive in the order of the index, whatever the number of threads.
// An index outside its dim fails the call, naming value and range.
nbx_status nbx_rows_run(nbx_op_call *c, nbx_rows *r);

// On a GPU the last one of several rows for one place is found beforehand: among few entries by comparing all of them, else by
// claiming a word for each place, or by sorting the entries where places are many times more.
typedef enum nbx_meeting { NBX_MEET_NEVER, NBX_MEET_FEW, NBX_MEET_CLAIMED, NBX_MEET_SORTED } nbx_meeting;
static inline nbx_meeting nbx_rows_meeting(int64_t entries, int64_t places) {
    if (entries <= 1 || places <= 1) return entries <= 1 ? NBX_MEET_NEVER : NBX_MEET_FEW;
    return entries <= 256 ? NBX_MEET_FEW : places <= 16 * entries ? NBX_MEET_CLAIMED : NBX_MEET_SORTED;
}
// Scratch: the place of each entry, whether it loses, and words or keys.
static inline size_t nbx_rows_meeting_heads(int64_t entries) { return ((size_t)entries * 9 + 255) / 256 * 256; }
static inline size_t nbx_rows_meeting_bytes(int64_t entries, int64_t places) {
    const nbx_meeting how = nbx_rows_meeting(entries, places);
    if (how == NBX_MEET_NEVER) return 0;
    return nbx_rows_meeting_heads(entries) + (how == NBX_MEET_CLAIMED ? (size_t)places * 4 : how == NBX_MEET_SORTED ? nbx_device_sort_bytes(1, entries) : 0);
}

#ifdef __cplusplus
}
#endif
#endif

// Keys: elements as unsigned integers whose order is that of sort. NaN is largest, and all NaN are equal; -0 equals 0.
#ifndef NBX_OPS_KEYS_H
#define NBX_OPS_KEYS_H

#include "ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

// Keys of count elements, stride in bytes. A key fits as many bits as the element has. falling: large elements come first.
void nbx_keys_run(nbx_dtype dtype, bool falling, const char *from, int64_t stride, int64_t count, uint64_t *keys);
// The element of a key. False for zeros and NaN, of which several share a key: look at the element itself.
bool nbx_key_element(nbx_dtype dtype, bool falling, uint64_t key, void *element);
// complex and float8 have no order.
bool nbx_keys_exist(nbx_dtype dtype);

// An element's place in the order: key in the upper half, index in the lower. No two are equal, so every way of sorting is stable.
typedef unsigned __int128 nbx_place;
static inline nbx_place nbx_place_of(uint64_t key, int64_t index) { return (nbx_place)key << 64 | (uint64_t)index; }
static inline int64_t nbx_place_index(nbx_place p) { return (int64_t)(uint64_t)p; }
// Puts the k smallest of count places in front (in any order), in expected linear time.
void nbx_places_select(nbx_place *places, int64_t count, int64_t k);
// Sorts a few places (heap sort).
void nbx_places_sort(nbx_place *places, int64_t count);

// The smallest k of a row by (key, index), sorted; fewer when count < k. Places has room for k.
typedef struct nbx_row {
    nbx_dtype dtype;
    bool falling;
    const char *data;
    int64_t stride;  // in bytes
} nbx_row;
int64_t nbx_row_smallest(const nbx_row *row, int64_t begin, int64_t end, int64_t k, nbx_place *places);
// Index of the element with rank k (0: first) in the order of the row; scratch has room for count places.
int64_t nbx_row_select(const nbx_row *row, int64_t count, int64_t k, nbx_place *scratch);

// A tensor's rows along a dim.
typedef struct nbx_row_walk {
    int rank;
    int64_t shape[NBX_MAX_RANK];   // of the other dims
    int64_t count, length, step;   // rows; elements of one; bytes between them
    int64_t stride[NBX_MAX_RANK];  // in bytes
} nbx_row_walk;
void nbx_row_walk_of(const nbx_tensor *t, int dim, nbx_row_walk *w);
int64_t nbx_row_offset(const nbx_row_walk *w, int64_t row);  // in bytes

// Scratch with which a GPU sorts rows: two arrays of keys and of places, two of what tiles of 4096 say of digits, the totals of
// 8 bytes' digits, and a block of tickets.
enum { NBX_SORT_TILE = 4096, NBX_DEVICE_TOPK = 2048 };  // up to so many of a row are selected without sorting it
// Parts of a row of which a GPU selects the first: enough blocks for few long rows.
enum { NBX_TOPK_PIECE = 8192 };
static inline int nbx_device_topk_parts(int64_t rows, int64_t length) {
    const int64_t wanted = rows > 0 && rows < 256 ? (512 + rows - 1) / rows : 1, most = length / (2 * NBX_TOPK_PIECE);
    return (int)(wanted < most ? wanted : most > 1 ? most : 1);
}
static inline size_t nbx_device_sort_bytes(int64_t rows, int64_t length) {
    const int64_t tiles = (length + NBX_SORT_TILE - 1) / NBX_SORT_TILE;
    const size_t bytes = (size_t)(rows * length) * 2 * (sizeof(uint64_t) + sizeof(uint32_t)) + (size_t)(rows * 256 * (2 * tiles + 8) + 256) * sizeof(uint32_t);
    return (bytes + 255) / 256 * 256 + 256;
}

#ifdef __cplusplus
}
#endif
#endif

// Keys of elements, places, and selection among them.
#include "ops/sort/keys.h"

#include "ops/shape/element.h"

#define BIT(n) ((uint64_t)1 << (n))

bool nbx_keys_exist(nbx_dtype dtype) { return !nbx_dtype_is_complex(dtype) && !nbx_dtype_is_float8(dtype); }

// Bits of a float of so many bits, infinity's bits as given: negative numbers turn round, positive ones pass them.
ELEMENT_INLINE uint64_t float_key(uint64_t bits, int width, uint64_t infinity) {
    const uint64_t sign = BIT(width - 1), all = sign | (sign - 1), size = bits & (sign - 1);
    if (size > infinity) return all;
    if (size == 0) return sign;
    return bits & sign ? ~bits & all : bits | sign;
}

ELEMENT_INLINE uint64_t key_of(nbx_dtype d, const char *p) {
    switch (d) {
    case NBX_BOOL: return element_get_u8(p) != 0;
    case NBX_UINT8: return element_get_u8(p);
    case NBX_INT8: return element_get_u8(p) ^ BIT(7);
    case NBX_INT16: return element_get_u16(p) ^ BIT(15);
    case NBX_UINT16: return element_get_u16(p);
    case NBX_INT32: return element_get_u32(p) ^ BIT(31);
    case NBX_UINT32: return element_get_u32(p);
    case NBX_INT64: return element_get_u64(p) ^ BIT(63);
    case NBX_FLOAT16: return float_key(element_get_u16(p), 16, 0x7c00);
    case NBX_BFLOAT16: return float_key(element_get_u16(p), 16, 0x7f80);
    case NBX_FLOAT32: return float_key(element_get_u32(p), 32, 0x7f800000);
    case NBX_FLOAT64: return float_key(element_get_u64(p), 64, 0x7ff0000000000000);
    default: return element_get_u64(p);
    }
}

static uint64_t width_mask(nbx_dtype d) { return ~(uint64_t)0 >> (64 - 8 * nbx_dtype_size(d)); }

ELEMENT_INLINE void keys_of(nbx_dtype d, uint64_t turn, const char *from, int64_t stride, int64_t count, uint64_t *keys) {
    for (int64_t i = 0; i < count; i++) keys[i] = key_of(d, from + i * stride) ^ turn;
}

void nbx_keys_run(nbx_dtype dtype, bool falling, const char *from, int64_t stride, int64_t count, uint64_t *keys) {
    const uint64_t turn = falling ? width_mask(dtype) : 0;
#define KEYS(D)                                                                                                        \
    case D:                                                                                                            \
        if (stride == (int64_t)nbx_dtype_size(dtype)) keys_of(D, turn, from, (int64_t)nbx_dtype_size(D), count, keys); \
        else keys_of(D, turn, from, stride, count, keys);                                                              \
        break;
    switch (dtype) {
        KEYS(NBX_BOOL)
        KEYS(NBX_UINT8)
        KEYS(NBX_INT8)
        KEYS(NBX_INT16)
        KEYS(NBX_UINT16)
        KEYS(NBX_INT32)
        KEYS(NBX_UINT32)
        KEYS(NBX_INT64)
        KEYS(NBX_FLOAT16)
        KEYS(NBX_BFLOAT16)
        KEYS(NBX_FLOAT32)
        KEYS(NBX_FLOAT64)
    default: keys_of(NBX_UINT64, turn, from, stride, count, keys); break;
    }
#undef KEYS
}

bool nbx_key_element(nbx_dtype dtype, bool falling, uint64_t key, void *element) {
    const size_t size = nbx_dtype_size(dtype);
    const uint64_t all = width_mask(dtype), sign = BIT(8 * size - 1);
    if (falling) key ^= all;
    if (nbx_dtype_is_float(dtype)) {
        if (key == all || key == sign) return false;
        key = key & sign ? key ^ sign : ~key & all;
    } else if (dtype != NBX_BOOL && nbx_dtype_is_signed(dtype)) {
        key ^= sign;
    }
    memcpy(element, &key, size);  // little-endian
    return true;
}

// -------------------------------------------------------------------------------------------------------------- places
static void sift_down(nbx_place *heap, int64_t at, int64_t count) {
    const nbx_place moving = heap[at];
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && heap[child + 1] > heap[child]) child++;
        if (heap[child] <= moving) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

static void make_heap(nbx_place *places, int64_t count) {
    for (int64_t i = count / 2 - 1; i >= 0; i--) sift_down(places, i, count);
}

static void unheap(nbx_place *places, int64_t count) {
    for (int64_t i = count - 1; i > 0; i--) {
        const nbx_place largest = places[0];
        places[0] = places[i];
        places[i] = largest;
        sift_down(places, 0, i);
    }
}

void nbx_places_sort(nbx_place *places, int64_t count) {
    if (count > 32) {
        make_heap(places, count);
        unheap(places, count);
        return;
    }
    for (int64_t i = 1; i < count; i++) {
        const nbx_place moving = places[i];
        int64_t at = i;
        for (; at > 0 && places[at - 1] > moving; at--) places[at] = places[at - 1];
        places[at] = moving;
    }
}

static void swap(nbx_place *a, nbx_place *b) {
    const nbx_place t = *a;
    *a = *b;
    *b = t;
}

// Quickselect; the pivot is the median of three, taken at places that no common input order defeats.
void nbx_places_select(nbx_place *places, int64_t count, int64_t k) {
    int64_t low = 0, high = count;
    uint64_t seed = 0x9e3779b97f4a7c15;
    while (high - low > 24) {
        nbx_place pivots[3];
        for (int i = 0; i < 3; i++) {
            seed = seed * 6364136223846793005 + 1442695040888963407;
            pivots[i] = places[low + (int64_t)((seed >> 33) % (uint64_t)(high - low))];
        }
        nbx_places_sort(pivots, 3);
        const nbx_place pivot = pivots[1];
        int64_t left = low, right = high - 1;
        while (left <= right) {
            while (places[left] < pivot) left++;
            while (places[right] > pivot) right--;
            if (left > right) break;
            swap(&places[left++], &places[right--]);
        }
        if (k <= right + 1) high = right + 1;
        else if (k >= left) low = left;
        else return;
    }
    nbx_places_sort(places + low, high - low);
}

// ----------------------------------------------------------------------------------------------------------------- rows
enum { BLOCK = 512 };

int64_t nbx_row_smallest(const nbx_row *row, int64_t begin, int64_t end, int64_t k, nbx_place *places) {
    uint64_t keys[BLOCK];
    int64_t held = 0;
    if (k == 0) return 0;
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t count = end - at < BLOCK ? end - at : BLOCK;
        nbx_keys_run(row->dtype, row->falling, row->data + at * row->stride, row->stride, count, keys);
        int64_t i = 0;
        for (; i < count && held < k; i++) {
            places[held++] = nbx_place_of(keys[i], at + i);
            if (held == k) make_heap(places, k);
        }
        uint64_t limit = held == k ? (uint64_t)(places[0] >> 64) : ~(uint64_t)0;
        for (; i < count; i++) {
            if (keys[i] >= limit) continue;  // equal keys come later, so they lose
            places[0] = nbx_place_of(keys[i], at + i);
            sift_down(places, 0, k);
            limit = (uint64_t)(places[0] >> 64);
        }
    }
    if (held < k) make_heap(places, held);
    unheap(places, held);
    return held;
}

int64_t nbx_row_select(const nbx_row *row, int64_t count, int64_t k, nbx_place *scratch) {
    uint64_t keys[BLOCK];
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t n = count - at < BLOCK ? count - at : BLOCK;
        nbx_keys_run(row->dtype, row->falling, row->data + at * row->stride, row->stride, n, keys);
        for (int64_t i = 0; i < n; i++) scratch[at + i] = nbx_place_of(keys[i], at + i);
    }
    nbx_places_select(scratch, count, k + 1);
    nbx_place found = scratch[0];
    for (int64_t i = 1; i <= k; i++) found = scratch[i] > found ? scratch[i] : found;
    return nbx_place_index(found);
}

void nbx_row_walk_of(const nbx_tensor *t, int dim, nbx_row_walk *w) {
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    w->rank = 0;
    w->count = 1;
    w->length = t->rank == 0 ? 1 : t->shape[dim];
    w->step = t->rank == 0 ? width : t->stride[dim] * width;
    for (int d = 0; d < t->rank; d++) {
        if (d == dim) continue;
        w->shape[w->rank] = t->shape[d];
        w->stride[w->rank++] = t->stride[d] * width;
        w->count *= t->shape[d];
    }
}

int64_t nbx_row_offset(const nbx_row_walk *w, int64_t row) {
    int64_t offset = 0;
    for (int d = w->rank - 1; d >= 0; d--) {
        offset += row % w->shape[d] * w->stride[d];
        row /= w->shape[d];
    }
    return offset;
}

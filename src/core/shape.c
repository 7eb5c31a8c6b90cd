// Shapes and strides: extents, memory formats, ATen's rules for views and for empty_like.
#include "core/tensor.h"

#include <stdio.h>
#include <string.h>

int64_t nbx_shape_numel(int rank, const int64_t *shape) {
    int64_t n = 1;
    for (int d = 0; d < rank; d++)
        if (shape[d] == 0) return 0;
    for (int d = 0; d < rank; d++)
        if (__builtin_mul_overflow(n, shape[d], &n)) return -1;
    return n;
}

bool nbx_shape_equal(int rank_a, const int64_t *a, int rank_b, const int64_t *b) {
    if (rank_a != rank_b) return false;
    for (int d = 0; d < rank_a; d++)
        if (a[d] != b[d]) return false;
    return true;
}

void nbx_strides_contiguous(int rank, const int64_t *shape, int64_t *stride) {
    uint64_t step = 1;  // unsigned: absurd shapes are refused later, by nbx_tensor_new
    for (int d = rank - 1; d >= 0; d--) {
        stride[d] = (int64_t)step;
        step *= (uint64_t)(shape[d] > 1 ? shape[d] : 1);
    }
}

static void strides_in_order(int rank, const int64_t *shape, const int *inner_first, int64_t *stride) {
    uint64_t step = 1;
    for (int i = 0; i < rank; i++) {
        const int d = inner_first[i];
        stride[d] = (int64_t)step;
        step *= (uint64_t)(shape[d] > 1 ? shape[d] : 1);
    }
}

void nbx_strides_format(nbx_memory_format format, int rank, const int64_t *shape, int64_t *stride) {
    static const int last[] = {1, 3, 2, 0}, last_3d[] = {1, 4, 3, 2, 0};
    if (format == NBX_CHANNELS_LAST && rank == 4) strides_in_order(rank, shape, last, stride);
    else if (format == NBX_CHANNELS_LAST_3D && rank == 5) strides_in_order(rank, shape, last_3d, stride);
    else nbx_strides_contiguous(rank, shape, stride);
}

// c10's infer_dense_strides' order: dims from inner to outer by stride, size-1 and expanded dims where they stand.
static int compare_dims(const int64_t *shape, const int64_t *stride, int a, int b) {
    if (stride[a] == 0 || stride[b] == 0) return 0;
    if (stride[a] != stride[b]) return stride[a] < stride[b] ? -1 : 1;
    return shape[a] > shape[b] ? 1 : 0;
}

void nbx_strides_preserve(const nbx_tensor *t, int64_t *stride) {
    if (t->dense) {
        memcpy(stride, t->stride, sizeof *stride * (size_t)t->rank);
        return;
    }
    int perm[NBX_MAX_RANK];
    for (int i = 0; i < t->rank; i++) perm[i] = t->rank - 1 - i;
    for (int i = 1; i < t->rank; i++) {
        int right = i;
        for (int left = i - 1; left >= 0; left--) {
            const int order = compare_dims(t->shape, t->stride, perm[left], perm[right]);
            if (order > 0) {
                const int swap = perm[left];
                perm[left] = perm[right];
                perm[right] = swap;
                right = left;
            } else if (order < 0) {
                break;
            }
        }
    }
    strides_in_order(t->rank, t->shape, perm, stride);
}

static bool channels_last_order(const nbx_tensor *t, const int *inner_first, int count) {
    int64_t least = 0;
    if (t->stride[1] == 0) return false;
    for (int i = 0; i < count; i++) {
        const int d = inner_first[i];
        if (t->shape[d] == 0 || t->stride[d] < least) return false;
        if (d == 0 && least == t->stride[1]) return false;  // N111: contiguous by preference
        least = t->stride[d];
        if (t->shape[d] > 1) least *= t->shape[d];
    }
    return true;
}

nbx_memory_format nbx_suggest_memory_format(const nbx_tensor *t) {
    static const int last[] = {1, 3, 2, 0}, last_3d[] = {1, 4, 3, 2, 0};
    if (t->rank == 4 && channels_last_order(t, last, 4)) return NBX_CHANNELS_LAST;
    if (t->rank == 5 && channels_last_order(t, last_3d, 5)) return NBX_CHANNELS_LAST_3D;
    return NBX_CONTIGUOUS_FORMAT;
}

bool nbx_is_contiguous_format(const nbx_tensor *t, nbx_memory_format format) {
    if (format == NBX_CONTIGUOUS_FORMAT || format == NBX_PRESERVE_FORMAT) return t->contiguous;
    if ((format == NBX_CHANNELS_LAST && t->rank != 4) || (format == NBX_CHANNELS_LAST_3D && t->rank != 5)) return false;
    if (t->numel == 0) return true;
    int64_t want[NBX_MAX_RANK];
    nbx_strides_format(format, t->rank, t->shape, want);
    for (int d = 0; d < t->rank; d++)
        if (t->shape[d] != 1 && t->stride[d] != want[d]) return false;
    return true;
}

bool nbx_strides_for_view(const nbx_tensor *t, int rank, const int64_t *shape, int64_t *stride) {
    if (t->numel == 0) {
        if (nbx_shape_equal(t->rank, t->shape, rank, shape)) memcpy(stride, t->stride, sizeof *stride * (size_t)rank);
        else nbx_strides_contiguous(rank, shape, stride);
        return true;
    }
    int view_d = rank - 1;
    int64_t chunk_stride = t->rank ? t->stride[t->rank - 1] : 1;
    int64_t tensor_numel = 1, view_numel = 1;
    if (t->rank == 0) {
        for (int d = 0; d < rank; d++) stride[d] = 1;
        return true;
    }
    for (int d = t->rank - 1; d >= 0; d--) {
        tensor_numel *= t->shape[d];
        if (d != 0 && (t->shape[d - 1] == 1 || t->stride[d - 1] == tensor_numel * chunk_stride)) continue;
        while (view_d >= 0 && (view_numel < tensor_numel || shape[view_d] == 1)) {
            stride[view_d] = view_numel * chunk_stride;
            view_numel *= shape[view_d];
            view_d--;
        }
        if (view_numel != tensor_numel) return false;
        if (d > 0) {
            chunk_stride = t->stride[d - 1];
            tensor_numel = view_numel = 1;
        }
    }
    return view_d == -1;
}

int64_t nbx_extent_bytes(nbx_dtype dtype, int rank, const int64_t *shape, const int64_t *stride, int64_t offset) {
    if (offset < 0) return -1;
    int64_t last = offset, step, bytes;
    for (int d = 0; d < rank; d++)
        if (shape[d] == 0) return 0;
    for (int d = 0; d < rank; d++) {
        if (shape[d] < 0 || (shape[d] > 1 && stride[d] < 0)) return -1;
        if (shape[d] <= 1) continue;
        if (__builtin_mul_overflow(shape[d] - 1, stride[d], &step) || __builtin_add_overflow(last, step, &last)) return -1;
    }
    if (__builtin_add_overflow(last, 1, &last) ||
        __builtin_mul_overflow(last, (int64_t)nbx_dtype_size(dtype), &bytes))
        return -1;
    return bytes;
}

bool nbx_may_overlap(const nbx_tensor *a, const nbx_tensor *b) {
    if (a->storage != b->storage || !a->numel || !b->numel) return false;
    const int64_t a_begin = a->offset * (int64_t)nbx_dtype_size((nbx_dtype)a->dtype);
    const int64_t b_begin = b->offset * (int64_t)nbx_dtype_size((nbx_dtype)b->dtype);
    const int64_t a_end = nbx_extent_bytes((nbx_dtype)a->dtype, a->rank, a->shape, a->stride, a->offset);
    const int64_t b_end = nbx_extent_bytes((nbx_dtype)b->dtype, b->rank, b->shape, b->stride, b->offset);
    return a_begin < b_end && b_begin < a_end;
}

bool nbx_has_internal_overlap(const nbx_tensor *t) {
    if (t->dense) return false;
    for (int d = 0; d < t->rank; d++)
        if (t->shape[d] > 1 && t->stride[d] == 0) return true;
    return false;
}

char *nbx_shape_text(int rank, const int64_t *shape, char *text, size_t size) {
    size_t at = 0;
    at += (size_t)snprintf(text, size, "[");
    for (int d = 0; d < rank && at < size; d++)
        at += (size_t)snprintf(text + at, size - at, d ? ", %lld" : "%lld", (long long)shape[d]);
    if (at < size) snprintf(text + at, size - at, "]");
    return text;
}

// Elements from one dtype into another, and numbers into elements.
#include "ops/shape/element.h"

#include "ops/shape/move.h"

ELEMENT_INLINE void convert(nbx_dtype to_dtype, void *to, nbx_dtype from_dtype, const void *from) {
    const bool from_int = nbx_dtype_is_integral(from_dtype, true), to_int = nbx_dtype_is_integral(to_dtype, true);
    if (from_int && to_int) {
        element_set_int(to_dtype, to, element_int(from_dtype, from));
    } else if (from_int && to_dtype != NBX_FLOAT64 && !nbx_dtype_is_complex(to_dtype)) {  // rounded once
        const int64_t x = element_int(from_dtype, from);
        element_set_float(to_dtype, to, from_dtype == NBX_UINT64 ? (float)(uint64_t)x : (float)x);
    } else {
        const double re = element_double(from_dtype, from), im = element_imag(from_dtype, from);
        if (to_dtype == NBX_BOOL) element_put_u8(to, re != 0 || im != 0);
        else element_set_double(to_dtype, to, re);
        element_set_imag(to_dtype, to, im);
    }
}

void nbx_convert_run(nbx_dtype to_dtype, char *to, int64_t to_stride, nbx_dtype from_dtype, const char *from, int64_t from_stride,
                     int64_t count) {
    if (to_dtype == from_dtype) {
        nbx_move_run_1d((int)nbx_dtype_size(to_dtype), count, to, to_stride, from, from_stride);
        return;
    }
    for (int64_t i = 0; i < count; i++) convert(to_dtype, to + i * to_stride, from_dtype, from + i * from_stride);
}

void nbx_convert_strided(nbx_move *m, nbx_dtype to_dtype, nbx_dtype from_dtype) {
    int64_t index[NBX_MAX_RANK] = {0};
    const int last = m->rank - 1;
    char *to = m->to;
    const char *from = m->from;
    for (int d = 0; d < m->rank; d++)
        if (m->shape[d] == 0) return;
    for (;;) {
        if (last < 0) nbx_convert_run(to_dtype, to, 0, from_dtype, from, 0, 1);
        else nbx_convert_run(to_dtype, to, m->to_stride[last], from_dtype, from, m->from_stride[last], m->shape[last]);
        int d = last - 1;
        for (; d >= 0; d--) {
            to += m->to_stride[d], from += m->from_stride[d];
            if (++index[d] < m->shape[d]) break;
            to -= m->shape[d] * m->to_stride[d], from -= m->shape[d] * m->from_stride[d];
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

void nbx_scalar_element(const nbx_value *scalar, nbx_dtype dtype, void *element) {
    if (scalar->kind == NBX_KIND_COMPLEX) {
        element_set_double(dtype, element, scalar->as.complex[0]);
        element_set_imag(dtype, element, scalar->as.complex[1]);
    } else if (nbx_dtype_is_integral(dtype, false) && scalar->kind != NBX_KIND_FLOAT) {
        element_set_int(dtype, element, nbx_scalar_to_int(scalar));
    } else {
        element_set_double(dtype, element, nbx_scalar_to_double(scalar));
    }
}

// Facts of dtypes (rows of dtypes.def) and ATen's type promotion.
#ifndef NBX_CORE_DTYPE_H
#define NBX_CORE_DTYPE_H

#include "nbx/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum nbx_category { NBX_CATEGORY_BOOL, NBX_CATEGORY_INTEGER, NBX_CATEGORY_FLOAT, NBX_CATEGORY_COMPLEX } nbx_category;

typedef struct nbx_dtype_row {
    const char *name, *numpy, *safetensors;
    uint8_t bytes, category, dlpack_code, dlpack_bits, program_code;
} nbx_dtype_row;

extern const nbx_dtype_row nbx_dtype_rows[NBX_DTYPE_COUNT];

static inline nbx_category nbx_dtype_category(nbx_dtype d) { return (nbx_category)nbx_dtype_rows[d].category; }
static inline size_t nbx_dtype_size(nbx_dtype d) { return nbx_dtype_rows[d].bytes; }
// None of these holds for NBX_DTYPE_NONE, which nbx_promote gives where there is no answer.
static inline bool nbx_dtype_is_float(nbx_dtype d) { return d >= 0 && nbx_dtype_rows[d].category == NBX_CATEGORY_FLOAT; }
static inline bool nbx_dtype_is_complex(nbx_dtype d) { return d >= 0 && nbx_dtype_rows[d].category == NBX_CATEGORY_COMPLEX; }
static inline bool nbx_dtype_is_integral(nbx_dtype d, bool with_bool) {
    return d >= 0 && (nbx_dtype_rows[d].category == NBX_CATEGORY_INTEGER || (with_bool && d == NBX_BOOL));
}
static inline bool nbx_dtype_is_float8(nbx_dtype d) { return d == NBX_FLOAT8_E4M3FN || d == NBX_FLOAT8_E5M2; }
static inline bool nbx_dtype_is_signed(nbx_dtype d) {
    return d != NBX_BOOL && d != NBX_UINT8 && d != NBX_UINT16 && d != NBX_UINT32 && d != NBX_UINT64;
}
static inline nbx_dtype nbx_dtype_to_real(nbx_dtype d) {  // complex64 -> float32, others unchanged
    return d == NBX_COMPLEX64 ? NBX_FLOAT32 : d == NBX_COMPLEX128 ? NBX_FLOAT64 : d;
}
static inline nbx_dtype nbx_dtype_to_complex(nbx_dtype d) {
    return d == NBX_FLOAT64 || d == NBX_COMPLEX128 ? NBX_COMPLEX128 : NBX_COMPLEX64;
}

// torch.promote_types for two dtypes; NBX_DTYPE_NONE where ATen has no answer (float8 or uint16/32/64 mixes).
nbx_dtype nbx_promote(nbx_dtype a, nbx_dtype b);
// torch.can_cast: may a result of `from` be stored in place into `to`? (category must not sink)
bool nbx_can_cast(nbx_dtype from, nbx_dtype to);

// From the codes of other worlds; NBX_DTYPE_NONE if there is none.
nbx_dtype nbx_dtype_from_program(int code);
nbx_dtype nbx_dtype_from_safetensors(const char *code, size_t length);
nbx_dtype nbx_dtype_from_numpy(const char *code, size_t length);

#ifdef __cplusplus
}
#endif
#endif

// The dtype table and type promotion.
#include "core/dtype.h"

#include <string.h>

const nbx_dtype_row nbx_dtype_rows[NBX_DTYPE_COUNT] = {
#define NBX_DTYPE(ENUM, name, bytes, category, numpy, safetensors, dlpack_code, dlpack_bits, program_code)             \
    [NBX_##ENUM] = {#name, numpy, safetensors, bytes, NBX_CATEGORY_##category, dlpack_code, dlpack_bits, program_code},
#include "core/dtypes.def"
#undef NBX_DTYPE
};

static bool valid(nbx_dtype d) { return (int)d >= 0 && d < NBX_DTYPE_COUNT; }

const char *nbx_dtype_name(nbx_dtype d) { return valid(d) ? nbx_dtype_rows[d].name : "invalid"; }

size_t nbx_dtype_bytes(nbx_dtype d) { return valid(d) ? nbx_dtype_rows[d].bytes : 0; }

static const struct {
    const char *name;
    nbx_dtype dtype;
} other_names[] = {
    {"float", NBX_FLOAT32},  {"f32", NBX_FLOAT32},     {"double", NBX_FLOAT64},  {"f64", NBX_FLOAT64},
    {"half", NBX_FLOAT16},   {"f16", NBX_FLOAT16},     {"bf16", NBX_BFLOAT16},   {"byte", NBX_UINT8},
    {"u8", NBX_UINT8},       {"char", NBX_INT8},       {"i8", NBX_INT8},         {"short", NBX_INT16},
    {"i16", NBX_INT16},      {"int", NBX_INT32},       {"i32", NBX_INT32},       {"long", NBX_INT64},
    {"i64", NBX_INT64},      {"cfloat", NBX_COMPLEX64}, {"cdouble", NBX_COMPLEX128},
};

nbx_dtype nbx_dtype_parse(const char *name) {
    if (!name) return NBX_DTYPE_NONE;
    if (strncmp(name, "torch.", 6) == 0) name += 6;
    for (int d = 0; d < NBX_DTYPE_COUNT; d++)
        if (strcmp(nbx_dtype_rows[d].name, name) == 0) return (nbx_dtype)d;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strcmp(other_names[i].name, name) == 0) return other_names[i].dtype;
    return NBX_DTYPE_NONE;
}

nbx_dtype nbx_dtype_from_program(int code) {
    for (int d = 0; d < NBX_DTYPE_COUNT; d++)
        if (nbx_dtype_rows[d].program_code == code) return (nbx_dtype)d;
    return NBX_DTYPE_NONE;
}

static bool same_code(const char *row, const char *code, size_t length) {
    return strlen(row) == length && length > 0 && memcmp(row, code, length) == 0;
}

nbx_dtype nbx_dtype_from_safetensors(const char *code, size_t length) {
    for (int d = 0; d < NBX_DTYPE_COUNT; d++)
        if (same_code(nbx_dtype_rows[d].safetensors, code, length)) return (nbx_dtype)d;
    return NBX_DTYPE_NONE;
}

nbx_dtype nbx_dtype_from_numpy(const char *code, size_t length) {
    char normal[8] = {0};
    if (length < 2 || length > sizeof normal - 1) return NBX_DTYPE_NONE;
    memcpy(normal, code, length);
    if (normal[0] == '=') normal[0] = '<';
    for (int d = 0; d < NBX_DTYPE_COUNT; d++) {
        const char *row = nbx_dtype_rows[d].numpy;
        if (row[1] != 'V' && same_code(row + 1, normal + 1, length - 1) &&
            (normal[0] == row[0] || nbx_dtype_rows[d].bytes == 1))
            return (nbx_dtype)d;
    }
    return NBX_DTYPE_NONE;
}

static bool is_barebones_unsigned(nbx_dtype d) { return d == NBX_UINT16 || d == NBX_UINT32 || d == NBX_UINT64; }

static nbx_dtype promote_integers(nbx_dtype a, nbx_dtype b) {
    const size_t bytes_a = nbx_dtype_size(a), bytes_b = nbx_dtype_size(b);
    if (a != NBX_UINT8 && b != NBX_UINT8) return bytes_a >= bytes_b ? a : b;
    const nbx_dtype other = a == NBX_UINT8 ? b : a;
    return other == NBX_INT8 ? NBX_INT16 : other;  // uint8 with int8 has no common byte
}

static nbx_dtype promote_floats(nbx_dtype a, nbx_dtype b) {
    if (nbx_dtype_size(a) == 2 && nbx_dtype_size(b) == 2) return NBX_FLOAT32;  // half with bfloat16
    return nbx_dtype_size(a) >= nbx_dtype_size(b) ? a : b;
}

nbx_dtype nbx_promote(nbx_dtype a, nbx_dtype b) {
    if (a == b) return a;
    if (!valid(a) || !valid(b)) return NBX_DTYPE_NONE;
    if (nbx_dtype_is_float8(a) || nbx_dtype_is_float8(b)) return NBX_DTYPE_NONE;
    const nbx_category ca = nbx_dtype_category(a), cb = nbx_dtype_category(b);
    if (ca != cb) {
        const nbx_dtype high = ca > cb ? a : b, low = ca > cb ? b : a;
        if (nbx_dtype_is_complex(high)) return low == NBX_FLOAT64 ? NBX_COMPLEX128 : high;
        return high;
    }
    if (is_barebones_unsigned(a) || is_barebones_unsigned(b)) return NBX_DTYPE_NONE;
    if (ca == NBX_CATEGORY_INTEGER) return promote_integers(a, b);
    if (ca == NBX_CATEGORY_FLOAT) return promote_floats(a, b);
    return NBX_COMPLEX128;
}

bool nbx_can_cast(nbx_dtype from, nbx_dtype to) {
    const nbx_category cf = nbx_dtype_category(from), ct = nbx_dtype_category(to);
    if (cf == NBX_CATEGORY_COMPLEX && ct != NBX_CATEGORY_COMPLEX) return false;
    if (cf == NBX_CATEGORY_FLOAT && (ct == NBX_CATEGORY_INTEGER || ct == NBX_CATEGORY_BOOL)) return false;
    return !(cf != NBX_CATEGORY_BOOL && ct == NBX_CATEGORY_BOOL);
}

// --mutate N: every case is called N times more with arguments changed at random, from nearly right to absurd. Any answer is
// right, result or error, as long as nothing crashes, hangs or calls itself an internal error, and results can be read.
#include "conform.h"

#include <math.h>
#include <string.h>

static uint64_t next(uint64_t *state) {  // splitmix64
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int below(uint64_t *state, int n) { return n > 0 ? (int)(next(state) % (uint64_t)n) : 0; }

static int64_t odd_int(uint64_t *state, int64_t old) {
    static const int64_t odd[] = {0, 1, -1, 2, 3, -2, 5, 7, 64, 65, 1000, INT32_MAX, (int64_t)INT32_MAX + 1, INT64_MAX, INT64_MIN, INT64_MAX / 8};
    switch (below(state, 4)) {
    case 0: return old == INT64_MAX ? old : old + 1;
    case 1: return old == INT64_MIN ? old : old - 1;
    default: return odd[below(state, below(state, 3) ? 8 : 16)];
    }
}

static double odd_float(uint64_t *state) {
    static const double odd[] = {0, -0.0, 1, -1, 0.5, 2, 1e-300, 1e300, -1e300, 65504, NAN, INFINITY, -INFINITY};
    return odd[below(state, 13)];
}

static nbx_dtype any_dtype(uint64_t *state) { return (nbx_dtype)below(state, NBX_DTYPE_COUNT); }

// ------------------------------------------------------------------------------------------------------------ tensors
// Another view of the same memory: a dim narrowed, widened by stride 0, added, dropped, swapped with another or reversed in role.
static const nbx_tensor *other_view(test_case *c, uint64_t *state, const nbx_tensor *t) {
    int rank = nbx_tensor_rank(t);
    int64_t shape[NBX_MAX_RANK], stride[NBX_MAX_RANK], offset = nbx_tensor_offset(t);
    memcpy(shape, nbx_tensor_shape(t), (size_t)rank * sizeof *shape);
    memcpy(stride, nbx_tensor_strides(t), (size_t)rank * sizeof *stride);
    const int d = below(state, rank), e = below(state, rank);
    switch (below(state, 7)) {
    case 0:
        if (rank && shape[d]) shape[d]--;
        break;
    case 1:
        if (rank && shape[d] > 1) shape[d]--, offset += stride[d];
        break;
    case 2:
        if (rank) shape[d] = 0;
        break;
    case 3:
        if (rank && shape[d] == 1) shape[d] = 1 + below(state, 5), stride[d] = 0;
        break;
    case 4:
        if (rank < 8) shape[rank] = 1, stride[rank] = 1, rank++;
        break;
    case 5:
        if (rank) offset += below(state, (int)shape[d]) * stride[d], memmove(shape + d, shape + d + 1, (size_t)(rank - d - 1) * sizeof *shape),
                  memmove(stride + d, stride + d + 1, (size_t)(rank - d - 1) * sizeof *stride), rank--;
        break;
    default:
        if (rank) {
            const int64_t size = shape[d], step = stride[d];
            shape[d] = shape[e], stride[d] = stride[e];
            shape[e] = size, stride[e] = step;
        }
        break;
    }
    return nbx_tensor_view(c->ctx, t, nbx_tensor_dtype(t), rank, shape, stride, offset);
}

// The same bytes, read as elements of another dtype: as many as there are.
static const nbx_tensor *other_dtype(test_case *c, uint64_t *state, const nbx_tensor *t) {
    const nbx_dtype dtype = any_dtype(state);
    const int64_t count = nbx_tensor_numel(t);
    if (count < 0 || count > 1 << 20) return t;
    unsigned char *bytes = case_alloc(c, (size_t)count * nbx_dtype_bytes(dtype) + 1);
    if (!bytes) return t;
    for (size_t i = 0; i < (size_t)count * nbx_dtype_bytes(dtype); i++) bytes[i] = (unsigned char)(dtype == NBX_BOOL ? i & 1 : next(state) & 0x3f);
    return nbx_tensor_from_host(c->ctx, dtype, nbx_tensor_rank(t), nbx_tensor_shape(t), bytes);
}

static const nbx_tensor *other_tensor(test_case *c, uint64_t *state, const nbx_tensor *t) {
    const nbx_tensor *changed = t;
    const int kind = below(state, 10);
    if (kind < 6) changed = other_view(c, state, t);
    else if (kind < 9) changed = other_dtype(c, state, t);
    else changed = NBX_NONE;
    nbx_clear_error(c->ctx);
    return changed ? changed : t;
}

// ------------------------------------------------------------------------------------------------------------- values
static void change_list(test_case *c, uint64_t *state, nbx_value *v) {
    if (below(state, 3) == 0) v->count = v->count ? below(state, v->count) : 0;  // shorter
    if (!v->count) return;
    const size_t bytes = (size_t)v->count * sizeof(nbx_value);
    void *copy = case_alloc(c, bytes);
    if (!copy) return;
    const int i = below(state, v->count);
    switch (v->kind) {
    case NBX_KIND_INTS:
        memcpy(copy, v->as.ints, (size_t)v->count * sizeof(int64_t));
        ((int64_t *)copy)[i] = odd_int(state, v->as.ints[i]);
        v->as.ints = copy;
        break;
    case NBX_KIND_FLOATS:
        memcpy(copy, v->as.floats, (size_t)v->count * sizeof(double));
        ((double *)copy)[i] = odd_float(state);
        v->as.floats = copy;
        break;
    case NBX_KIND_TENSORS:
        memcpy(copy, v->as.tensors, (size_t)v->count * sizeof(nbx_tensor *));
        if (v->as.tensors[i] != NBX_NONE) ((const nbx_tensor **)copy)[i] = other_tensor(c, state, v->as.tensors[i]);
        v->as.tensors = copy;
        break;
    default: break;
    }
}

static void change_value(test_case *c, uint64_t *state, nbx_value *v) {
    static const char *const words[] = {"", "mean", "sum", "none", "floor", "trunc", "reflect", "zzz", "fro", "linear", "same"};
    if (below(state, 12) == 0) {  // another kind altogether
        const nbx_value others[] = {nbx_of_none(),         nbx_of_int(odd_int(state, 0)), nbx_of_float(odd_float(state)),
                                    nbx_of_bool(true),     nbx_of_string("zzz"),          nbx_of_dtype(any_dtype(state)),
                                    nbx_of_complex(1, -1), nbx_of_ints(NULL, 0)};
        *v = others[below(state, 8)];
        return;
    }
    switch (v->kind) {
    case NBX_KIND_TENSOR:
        if (v->as.tensor != NBX_NONE) v->as.tensor = other_tensor(c, state, v->as.tensor);
        break;
    case NBX_KIND_INT: v->as.integer = odd_int(state, v->as.integer); break;
    case NBX_KIND_FLOAT: v->as.real = odd_float(state); break;
    case NBX_KIND_BOOL: v->as.boolean = !v->as.boolean; break;
    case NBX_KIND_STRING: v->as.string = words[below(state, 11)]; break;
    case NBX_KIND_DTYPE: v->as.dtype = any_dtype(state); break;
    case NBX_KIND_MEMORY_FORMAT: v->as.memory_format = (nbx_memory_format)below(state, 4); break;
    default: change_list(c, state, v); break;
    }
}

static bool touch(test_case *c, const nbx_value *v) {
    block b;
    if (v->kind == NBX_KIND_TENSOR && v->as.tensor != NBX_NONE) return nbx_tensor_numel(v->as.tensor) > 1 << 24 || block_of_tensor(c, v->as.tensor, &b);
    for (int i = 0; v->kind == NBX_KIND_TENSORS && i < v->count; i++) {
        const nbx_value element = nbx_of_tensor(v->as.tensors[i]);
        if (!touch(c, &element)) return false;
    }
    return true;
}

// Calls with the case's arguments, `changes` of them changed. The arguments themselves may be written by the call.
static bool call_changed(test_case *c, const nbx_operator *op, uint64_t *state) {
    const nbx_scope scope = nbx_scope_open(c->ctx);
    nbx_value *args = case_alloc(c, ((size_t)c->arg_count + 1) * sizeof *args);
    nbx_named_value *keywords = case_alloc(c, ((size_t)c->keyword_count + 1) * sizeof *keywords);
    if (!args || !keywords) return false;
    memcpy(args, c->args, (size_t)c->arg_count * sizeof *args);
    memcpy(keywords, c->keywords, (size_t)c->keyword_count * sizeof *keywords);
    const int all = c->arg_count + c->keyword_count;
    for (int n = all ? 1 + below(state, 3) : 0; n; n--) {
        const int i = below(state, all);
        change_value(c, state, i < c->arg_count ? &args[i] : &keywords[i - c->arg_count].value);
    }
    const int count = below(state, 10) ? c->arg_count : below(state, c->arg_count + 1);
    call_results r = {.count = 0};
    const nbx_status status = nbx_call_operator(c->ctx, op, args, count, keywords, c->keyword_count, r.values, MAX_RESULTS, &r.count);
    bool ok = true;
    if (status == NBX_ERROR_INTERNAL) ok = case_fail(c, "an internal error: %s", nbx_last_message(c->ctx));
    else if (status && !nbx_last_message(c->ctx)[0]) ok = case_fail(c, "an error without a message");
    for (int i = 0; !status && ok && i < r.count; i++) ok = touch(c, &r.values[i]);
    nbx_scope_close(c->ctx, scope, NULL);
    nbx_clear_error(c->ctx);
    return ok;
}

void mutate_case(test_case *c, const nbx_operator *op) {
    uint64_t state = c->options->seed * 1000003 + (uint64_t)c->result->index + ((uint64_t)c->result->file << 40);
    for (int i = 0; i < c->options->mutate; i++) {
        const size_t blocks = c->block_count;
        if (!call_changed(c, op, &state)) return;
        case_free_from(c, blocks);
    }
}

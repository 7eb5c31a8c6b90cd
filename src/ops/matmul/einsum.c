// einsum, tensordot, bilinear and _trilinear: permute the operands so that one batched product does the work.
#include <string.h>

#include "ops/compose.h"

#define LABELS 52
#define ELLIPSIS LABELS
#define MAX_OPERANDS 64

// ----------------------------------------------------------------------------------------------------- pair of operands
typedef struct dim_list {
    int count;
    int64_t dims[NBX_MAX_RANK];
    int64_t size;  // product of the sizes
} dim_list;

static void dim_append(dim_list *list, int dim, int64_t size) {
    list->dims[list->count++] = dim;
    list->size *= size;
}

static int join(int64_t *to, int at, const dim_list *list) {
    memcpy(to + at, list->dims, (size_t)list->count * sizeof *to);
    return at + list->count;
}

// Sum over `summed` of left * right, which have equal rank and sizes equal or 1; summed dims stay with size 1.
// The result is a permuted view of the batched product [both kept, left kept, summed] x [both kept, summed, right kept].
static nbx_tensor *product_of_pair(nbx_op_call *c, const nbx_tensor *left, const nbx_tensor *right, uint64_t summed) {
    nbx_context *ctx = c->ctx;
    if (!left || !right) return NULL;
    if (summed == 0) return do_mul(ctx, left, right);
    const int rank = left->rank;
    dim_list both = {.size = 1}, only_left = {.size = 1}, only_right = {.size = 1}, sum = {.size = 1};
    for (int i = 0; i < rank; i++) {
        const bool in_left = left->shape[i] != 1, in_right = right->shape[i] != 1;
        if (in_left && in_right && left->shape[i] != right->shape[i]) {
            nbx_call_fail(c, NBX_ERROR_SHAPE, "sizes %lld and %lld of a common dim differ", (long long)left->shape[i],
                          (long long)right->shape[i]);
            return NULL;
        }
        if (summed >> i & 1) {
            dim_append(&sum, i, in_left && in_right ? left->shape[i] : 1);
            if (in_left && !in_right) left = do_sum(ctx, left, 1, (int64_t[]){i}, true);
            if (in_right && !in_left) right = do_sum(ctx, right, 1, (int64_t[]){i}, true);
            if (!left || !right) return NULL;
        } else if (in_left && in_right) {
            dim_append(&both, i, left->shape[i]);
        } else if (in_left) {
            dim_append(&only_left, i, left->shape[i]);
        } else {
            dim_append(&only_right, i, right->shape[i]);
        }
    }
    // Operands change places when that puts the dims of the product in the order of the result.
    if (only_left.count && only_right.count && only_right.dims[only_right.count - 1] < only_left.dims[0]) {
        const nbx_tensor *t = left;
        const dim_list list = only_left;
        left = right, right = t;
        only_left = only_right, only_right = list;
    }
    int64_t order_left[NBX_MAX_RANK], order_right[NBX_MAX_RANK], order[NBX_MAX_RANK], back[NBX_MAX_RANK], shape[NBX_MAX_RANK];
    int n = join(order_left, 0, &both);
    n = join(order_left, n, &only_left);
    n = join(order_left, n, &sum);
    join(order_left, n, &only_right);
    n = join(order_right, 0, &both);
    n = join(order_right, n, &sum);
    n = join(order_right, n, &only_right);
    join(order_right, n, &only_left);
    n = join(order, 0, &both);
    n = join(order, n, &only_left);
    n = join(order, n, &sum);
    join(order, n, &only_right);
    for (int i = 0; i < rank; i++) {
        const int64_t dim = order[i];
        back[dim] = i;
        shape[i] = summed >> dim & 1 ? 1 : left->shape[dim] != 1 ? left->shape[dim] : right->shape[dim];
    }
    left = do_reshape(ctx, do_permute(ctx, left, rank, order_left), 3, (int64_t[]){both.size, only_left.size, sum.size});
    right = do_reshape(ctx, do_permute(ctx, right, rank, order_right), 3, (int64_t[]){both.size, sum.size, only_right.size});
    return do_permute(ctx, do_view(ctx, do_bmm(ctx, left, right), rank, shape), rank, back);
}

// ---------------------------------------------------------------------------------------------------------- equation
typedef struct equation {
    int operands;
    int label_count[MAX_OPERANDS];
    uint8_t labels[MAX_OPERANDS][NBX_MAX_RANK + 1];
    int uses[LABELS];           // how often a label occurs in the operands
    int place[LABELS];          // dim of a label in the common order, or -1
    int ellipsis_rank, ellipsis_place;
    int kept, rank;             // dims of the result, and with those summed over
} equation;

static int label_of(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    return -1;
}

// Reads the operands' part; *text ends at the arrow or at the end.
static nbx_status parse_operands(nbx_op_call *c, const char **text, equation *e) {
    bool ellipsis = false;
    const char *p = *text;
    int op = 0;
    for (; *p && !(p[0] == '-' && p[1] == '>'); p++) {
        if (*p == ' ') continue;
        if (*p == ',') {
            if (++op >= e->operands) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the equation names more than %d operands", e->operands);
            ellipsis = false;
            continue;
        }
        int label = label_of(*p);
        if (*p == '.') {
            if (ellipsis || p[1] != '.' || p[2] != '.')
                return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "operand %d: a dot outside one ellipsis", op);
            ellipsis = true, label = ELLIPSIS, p += 2;
        }
        if (label < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "operand %d: '%c' is not a letter", op, *p);
        if (e->label_count[op] > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "operand %d has too many labels", op);
        e->labels[op][e->label_count[op]++] = (uint8_t)label;
    }
    if (op != e->operands - 1)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the equation names %d operands, %d were given", op + 1, e->operands);
    *text = p;
    return NBX_OK;
}

// Counts labels and compares them with the ranks.
static nbx_status count_labels(nbx_op_call *c, const nbx_tensor *const *tensors, equation *e) {
    for (int i = 0; i < e->operands; i++) {
        int named = 0;
        for (int k = 0; k < e->label_count[i]; k++) {
            if (e->labels[i][k] == ELLIPSIS) continue;
            named++;
            e->uses[e->labels[i][k]]++;
        }
        const bool ellipsis = named < e->label_count[i];
        const int rank = tensors[i]->rank;
        if (ellipsis ? named > rank : named != rank)
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "operand %d has %d dims, the equation names %d", i, rank, named);
        if (ellipsis && rank - named > e->ellipsis_rank) e->ellipsis_rank = rank - named;
    }
    return NBX_OK;
}

// Gives every label its dim in the common order: those of the result first, then those summed over.
static nbx_status place_labels(nbx_op_call *c, const char *text, equation *e) {
    bool ellipsis = false;
    for (int i = 0; i < LABELS; i++) e->place[i] = -1;
    if (!*text) {
        ellipsis = true;
        e->rank = e->ellipsis_rank;
        for (int i = 0; i < LABELS; i++)
            if (e->uses[i] == 1) e->place[i] = e->rank++;
    } else {
        for (const char *p = text + 2; *p; p++) {
            if (*p == ' ') continue;
            if (*p == '.') {
                if (ellipsis || p[1] != '.' || p[2] != '.')
                    return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "result: a dot outside one ellipsis");
                ellipsis = true, p += 2;
                e->ellipsis_place = e->rank;
                e->rank += e->ellipsis_rank;
                continue;
            }
            const int label = label_of(*p);
            if (label < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "result: '%c' is not a letter", *p);
            if (e->uses[label] == 0 || e->place[label] >= 0)
                return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "result: '%c' is repeated or in no operand", *p);
            e->place[label] = e->rank++;
        }
    }
    e->kept = e->rank;
    if (!ellipsis) e->ellipsis_place = e->rank, e->rank += e->ellipsis_rank;
    for (int i = 0; i < LABELS; i++)
        if (e->uses[i] > 0 && e->place[i] < 0) e->place[i] = e->rank++;
    if (e->rank > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than %d labels", NBX_MAX_RANK);
    return NBX_OK;
}

// ------------------------------------------------------------------------------------------------------------- einsum
typedef struct sizes {
    int64_t size[NBX_MAX_RANK];  // of a dim of the common order, 1 until an operand says otherwise
    int count[NBX_MAX_RANK];     // operands in which it is not 1
} sizes;

static nbx_status note_size(nbx_op_call *c, sizes *s, int place, int64_t size) {
    if (size == 1) return NBX_OK;
    if (s->size[place] != 1 && s->size[place] != size)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "one label has sizes %lld and %lld", (long long)s->size[place], (long long)size);
    s->size[place] = size;
    s->count[place]++;
    return NBX_OK;
}

// The operand with its diagonals taken, all dims of the common order present, and in that order.
static nbx_tensor *align_operand(nbx_op_call *c, const equation *e, int index, const nbx_tensor *t, sizes *s) {
    int64_t order[NBX_MAX_RANK];
    const int rank = t->rank;
    int dim = 0;
    for (int i = 0; i < e->rank; i++) order[i] = -1;
    for (int k = 0; k < e->label_count[index]; k++) {
        const int label = e->labels[index][k];
        if (label == ELLIPSIS) {
            const int covered = rank - (e->label_count[index] - 1);
            for (int j = e->ellipsis_rank - covered; j < e->ellipsis_rank; j++) {
                if (note_size(c, s, e->ellipsis_place + j, t->shape[dim])) return NULL;
                order[e->ellipsis_place + j] = dim++;
            }
        } else if (order[e->place[label]] < 0) {
            if (note_size(c, s, e->place[label], t->shape[dim])) return NULL;
            order[e->place[label]] = dim++;
        } else {
            const int64_t first = order[e->place[label]];
            if (t->shape[dim] != t->shape[first]) {
                nbx_call_fail(c, NBX_ERROR_SHAPE, "operand %d: a repeated label has sizes %lld and %lld", index,
                              (long long)t->shape[first], (long long)t->shape[dim]);
                return NULL;
            }
            t = NBX_DO(c->ctx, "aten::diagonal", T(t), I(0), I(first), I(dim));
            t = NBX_DO(c->ctx, "aten::movedim.int", T(t), I(-1), I(first));
            if (!t) return NULL;
        }
    }
    for (int i = 0; i < e->rank; i++) {
        if (order[i] >= 0) continue;
        t = do_unsqueeze(c->ctx, t, dim);
        order[i] = dim++;
    }
    return do_permute(c->ctx, t, e->rank, order);
}

// Sums the dims of a mask, keeping them.
static nbx_tensor *sum_mask(nbx_context *ctx, nbx_tensor *t, uint64_t mask, int rank) {
    int64_t dims[NBX_MAX_RANK];
    int count = 0;
    for (int i = 0; i < rank; i++)
        if (mask >> i & 1) dims[count++] = i;
    return count ? do_sum(ctx, t, count, dims, true) : t;
}

// Multiplies a and b and sums what no other operand needs any more.
static nbx_tensor *contract(nbx_op_call *c, const equation *e, sizes *s, nbx_tensor *a, nbx_tensor *b) {
    uint64_t summed = 0, of_a = 0, of_b = 0;
    if (!a || !b) return NULL;
    for (int d = e->kept; d < e->rank; d++) {
        const uint64_t bit = (uint64_t)1 << d;
        if (a->shape[d] != 1 && b->shape[d] != 1) {
            if (--s->count[d] == 1) summed |= bit, s->count[d] = 0;
        } else if (s->count[d] == 1 && (a->shape[d] != 1 || b->shape[d] != 1)) {
            if (a->shape[d] != 1) of_a |= bit;
            else of_b |= bit;
            s->count[d] = 0;
        }
    }
    a = sum_mask(c->ctx, a, of_a, e->rank);
    b = sum_mask(c->ctx, b, of_b, e->rank);
    return product_of_pair(c, a, b, summed);
}

// Takes the operand at index out of the list.
static nbx_tensor *take(nbx_tensor **list, int *count, int index) {
    nbx_tensor *t = list[index];
    memmove(list + index, list + index + 1, (size_t)(*count - index - 1) * sizeof *list);
    --*count;
    return t;
}

static nbx_status contract_all(nbx_op_call *c, const equation *e, sizes *s, nbx_tensor **list) {
    int steps, count = e->operands;
    const int64_t *path = arg_ints(c, 2, &steps);
    const bool given = !arg_is_none(c, 2);
    if (given && steps != (count == 1 ? 1 : 2 * (count - 1)))
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the path has %d numbers for %d operands", steps, count);
    while (count > 1) {
        int64_t i = 0, j = 1;
        if (given) {
            i = path[0] < path[1] ? path[0] : path[1], j = path[0] < path[1] ? path[1] : path[0];
            path += 2;
            if (i < 0 || i == j || j >= count) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "the path names an operand that is not there");
        }
        nbx_tensor *b = take(list, &count, (int)j), *a = take(list, &count, (int)i), *y = contract(c, e, s, a, b);
        if (!y) return c->ctx->status;
        if (!given) memmove(list + 1, list, (size_t)count * sizeof *list);
        list[given ? count : 0] = y;
        count++;
    }
    return NBX_OK;
}

static nbx_status einsum(nbx_op_call *c) {
    equation e = {0};
    sizes s = {0};
    nbx_tensor *list[MAX_OPERANDS + 1];
    const nbx_tensor *const *tensors = arg_tensors(c, 1, &e.operands);
    const char *text = arg_string(c, 0);
    if (e.operands < 1 || e.operands > MAX_OPERANDS)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "between 1 and %d operands, found %d", MAX_OPERANDS, e.operands);
    nbx_status status = parse_operands(c, &text, &e);
    if (!status) status = count_labels(c, tensors, &e);
    if (!status) status = place_labels(c, text, &e);
    if (status) return status;
    for (int i = 0; i < e.rank; i++) s.size[i] = 1;
    for (int i = 0; i < e.operands; i++)
        if (!(list[i] = align_operand(c, &e, i, tensors[i], &s))) return c->ctx->status;
    status = contract_all(c, &e, &s, list);
    if (status) return status;
    if (e.kept == e.rank) return out_tensor(c, 0, list[0]);
    if (e.operands > 1) return out_tensor(c, 0, do_view(c->ctx, list[0], e.kept, list[0]->shape));
    int64_t dims[NBX_MAX_RANK];
    for (int i = e.kept; i < e.rank; i++) dims[i - e.kept] = i;
    return out_tensor(c, 0, do_sum(c->ctx, list[0], e.rank - e.kept, dims, false));
}

// ---------------------------------------------------------------------------------------------------------- tensordot
static nbx_status tensordot(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1);
    int count, count_b;
    const int64_t *dims_a = arg_ints(c, 2, &count), *dims_b = arg_ints(c, 3, &count_b);
    uint64_t mask_a = 0, mask_b = 0;
    if (count != count_b) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "dim lists of %d and %d entries", count, count_b);
    if (a->dtype != b->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "operands are %s and %s", nbx_dtype_name((nbx_dtype)a->dtype),
                             nbx_dtype_name((nbx_dtype)b->dtype));
    nbx_status status = count ? nbx_call_dims(c, 2, a->rank, false, &mask_a) : NBX_OK;
    if (!status && count) status = nbx_call_dims(c, 3, b->rank, false, &mask_b);
    if (status) return status;
    int64_t order_a[NBX_MAX_RANK], order_b[NBX_MAX_RANK], wrapped_a[NBX_MAX_RANK];
    int64_t shape[2 * NBX_MAX_RANK], inner = 1, rows = 1, cols = 1;
    int rank = 0, at_a = 0, at_b = count;
    for (int i = 0; i < count; i++) {
        int da, db;
        if ((status = nbx_call_dim(c, dims_a[i], a->rank, &da)) || (status = nbx_call_dim(c, dims_b[i], b->rank, &db))) return status;
        const int64_t sa = arg_tensor(c, 0)->shape[da], sb = arg_tensor(c, 1)->shape[db];
        order_b[i] = db, wrapped_a[i] = da;
        const nbx_value dtype = nbx_of_dtype((nbx_dtype)a->dtype);
        if (sb == 1) {
            a = NBX_DO(ctx, "aten::sum.dim_IntList", T(a), nbx_of_ints(&wrapped_a[i], 1), B(true), dtype);
        } else if (sa == 1) {
            b = NBX_DO(ctx, "aten::sum.dim_IntList", T(b), nbx_of_ints(&order_b[i], 1), B(true), dtype);
        } else if (sa != sb) {
            return nbx_call_fail(c, NBX_ERROR_SHAPE, "contracted dims have sizes %lld and %lld", (long long)sa, (long long)sb);
        } else {
            inner *= sa;
        }
        if (!a || !b) return ctx->status;
    }
    for (int i = 0; i < a->rank; i++)
        if (!(mask_a >> i & 1)) order_a[at_a++] = i, rows *= a->shape[i], shape[rank++] = a->shape[i];
    memcpy(order_a + at_a, wrapped_a, (size_t)count * sizeof *order_a);
    for (int i = 0; i < b->rank; i++)
        if (!(mask_b >> i & 1)) order_b[at_b++] = i, cols *= b->shape[i], shape[rank++] = b->shape[i];
    if (rank > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the result would have %d dims", rank);
    a = do_reshape(ctx, do_permute(ctx, a, a->rank, order_a), 2, (int64_t[]){rows, inner});
    b = do_reshape(ctx, do_permute(ctx, b, b->rank, order_b), 2, (int64_t[]){inner, cols});
    return out_tensor(c, 0, do_reshape(ctx, do_mm(ctx, a, b), rank, shape));
}

// ---------------------------------------------------------------------------------------------------------- trilinear
static uint64_t mask_of(const nbx_op_call *c, int arg) {
    int count;
    const int64_t *dims = arg_ints(c, arg, &count);
    uint64_t mask = 0;
    for (int i = 0; i < count; i++)
        if (dims[i] >= 0 && dims[i] < NBX_MAX_RANK) mask |= (uint64_t)1 << dims[i];
    return mask;
}

// Sum over the dims of `summed` of x[0] * x[1] * x[2], after each got dims of size 1 where its mask says.
static nbx_tensor *trilinear_of(nbx_op_call *c, const nbx_tensor *const *x, const uint64_t *expand, uint64_t summed, int rank) {
    const nbx_tensor *t[3] = {x[0], x[1], x[2]};
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < rank; i++)
            if (expand[k] >> i & 1) t[k] = do_unsqueeze(c->ctx, t[k], i);
        if (!t[k]) return NULL;
        if (t[k]->rank != rank) {
            nbx_call_fail(c, NBX_ERROR_SHAPE, "operand %d has %d dims after expansion, not %d", k + 1, t[k]->rank, rank);
            return NULL;
        }
    }
    const uint64_t early = summed & expand[2];
    nbx_tensor *y = product_of_pair(c, t[0], t[1], early);
    y = product_of_pair(c, y, t[2], summed & ~early);
    for (int i = rank - 1; i >= 0 && y; i--)
        if (summed >> i & 1) y = do_squeeze(c->ctx, y, i);
    return y;
}

static nbx_status trilinear(nbx_op_call *c) {
    const nbx_tensor *x[3] = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2)};
    const uint64_t expand[3] = {mask_of(c, 3), mask_of(c, 4), mask_of(c, 5)};
    const int rank = x[0]->rank + c->args[3].count;
    if (rank > NBX_MAX_RANK) return nbx_call_fail(c, NBX_ERROR_SHAPE, "%d dims", rank);
    if (arg_int(c, 7) < 0 || arg_int(c, 7) >= rank)
        return nbx_call_fail(c, NBX_ERROR_INDEX, "unroll_dim %lld is out of range for %d dims", (long long)arg_int(c, 7), rank);
    return out_tensor(c, 0, trilinear_of(c, x, expand, mask_of(c, 6), rank));
}

// y[..., o] = sum over i, j of input1[..., i] * weight[o, i, j] * input2[..., j] + bias[o]
static nbx_status bilinear(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1), *w = arg_tensor(c, 2), *bias = arg_tensor(c, 3);
    bool fits = a->rank == b->rank && a->rank >= 1 && w->rank == 3 && a->shape[a->rank - 1] == w->shape[1] &&
                b->shape[b->rank - 1] == w->shape[2] && (!bias || (bias->rank == 1 && bias->shape[0] == w->shape[0]));
    for (int i = 0; fits && i < a->rank - 1; i++) fits = a->shape[i] == b->shape[i];
    if (!fits) return nbx_call_fail(c, NBX_ERROR_SHAPE, "inputs, weight and bias do not fit together");
    if (b->dtype != a->dtype || w->dtype != a->dtype || (bias && bias->dtype != a->dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "inputs, weight and bias must have one dtype");
    int64_t shape[NBX_MAX_RANK], rows = 1;
    for (int i = 0; i < a->rank - 1; i++) rows *= shape[i] = a->shape[i];
    shape[a->rank - 1] = w->shape[0];
    const nbx_tensor *x[3] = {do_reshape(ctx, a, 2, (int64_t[]){rows, w->shape[1]}), w,
                              do_reshape(ctx, b, 2, (int64_t[]){rows, w->shape[2]})};
    if (!x[0] || !x[2]) return ctx->status;
    nbx_tensor *y = trilinear_of(c, x, (const uint64_t[]){1 << 1 | 1 << 3, 1 << 0, 1 << 1 | 1 << 2}, 1 << 2 | 1 << 3, 4);
    y = do_reshape(ctx, y, a->rank, shape);
    return out_tensor(c, 0, bias ? do_add(ctx, y, bias) : y);
}

const nbx_op nbx_ops_einsum[] = {
    {.name = "aten::einsum", .composite = einsum, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::tensordot", .composite = tensordot, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::_trilinear", .composite = trilinear, .flags = NBX_OP_EXACT_OUT},
    {.name = "aten::bilinear", .composite = bilinear, .flags = NBX_OP_EXACT_OUT},
    NBX_OPS_END,
};

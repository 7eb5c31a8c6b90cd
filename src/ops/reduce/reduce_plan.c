// Plans of reductions: which dims are walked in which order, by rows or by columns, and in how many pieces.
#include "ops/reduce/reduce.h"

enum {
    TASKS = 64,         // enough independent work for any machine we know
    PIECE_LEAST = 8192  // elements of a piece that are worth handing over (about 4 us)
};

reduce_domain reduce_domain_of(nbx_dtype dtype) {
    if (nbx_dtype_is_complex(dtype)) return REDUCE_COMPLEX;
    if (dtype == NBX_FLOAT64) return REDUCE_F64;
    return nbx_dtype_is_float(dtype) ? REDUCE_F32 : REDUCE_I64;
}

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

// Sorts dims by stride, fastest first; equal strides keep their order.
static void sort_dims(int count, int64_t *shape, int64_t *step, int64_t *to) {
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && magnitude(step[k]) < magnitude(step[k - 1]); k--) {
            const int64_t s = shape[k], t = step[k], o = to ? to[k] : 0;
            shape[k] = shape[k - 1], step[k] = step[k - 1];
            shape[k - 1] = s, step[k - 1] = t;
            if (to) to[k] = to[k - 1], to[k - 1] = o;
        }
}

static int merge_dims(int count, int64_t *shape, int64_t *step, int64_t *to) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (kept > 0 && step[i] == step[kept - 1] * shape[kept - 1] && (!to || to[i] == to[kept - 1] * shape[kept - 1])) {
            shape[kept - 1] *= shape[i];
            continue;
        }
        shape[kept] = shape[i], step[kept] = step[i];
        if (to) to[kept] = to[i];
        kept++;
    }
    return kept;
}

static bool orders_matter(const reduce_job *job) {
    return job->ordered || job->op == REDUCE_ARGMAX || job->op == REDUCE_ARGMIN;
}

static bool by_columns(const reduce_plan *p, const reduce_job *job) {
    if (p->kept == 0 || job->domain == REDUCE_COMPLEX) return false;
    if (p->reduced == 0) return true;
    const int64_t width = p->kept_shape[0], length = p->reduced_shape[0];
    if (magnitude(p->kept_step[0]) < magnitude(p->reduced_step[0])) return width >= 8 || width >= length;
    return length < 16 && width >= 2 * length;  // short rows: many of them side by side
}

// Columns side by side are read fastest a thousand and more at a time: there the rows are cut, too.
static void cut(reduce_plan *p) {
    const int64_t tasks = p->columns ? (p->kept_count + 63) / 64 : p->kept_count;
    const int64_t wide = p->columns ? REDUCE_WIDE_RESULTS / (p->kept_count + 1) : 0;
    p->pieces = 1;
    p->piece = p->reduced_count;
    if ((tasks >= TASKS && wide < 2) || tasks == 0) return;
    const int64_t wanted = TASKS / tasks > wide ? TASKS / tasks : wide, lanes = p->columns ? (p->kept_count < 64 ? p->kept_count : 64) : 1;
    const int64_t possible = p->reduced_count * lanes / PIECE_LEAST;
    const int64_t pieces = possible < wanted ? possible : wanted;
    if (pieces < 2) return;
    const int64_t unit = p->columns ? 8 : 512;
    p->piece = ((p->reduced_count + pieces - 1) / pieces + unit - 1) / unit * unit;
    p->pieces = (p->reduced_count + p->piece - 1) / p->piece;
}

void reduce_plan_make(reduce_plan *p, const reduce_job *job, int rank, const int64_t *shape, const int64_t *stride) {
    const int64_t bytes = (int64_t)nbx_dtype_size((nbx_dtype)job->in);
    int64_t to = 1;
    p->kept = p->reduced = 0;
    p->kept_count = p->reduced_count = 1;
    for (int d = rank - 1; d >= 0; d--) {  // last dim first: dim 0 of the plan is the fastest
        const bool reduced = job->mask >> d & 1;
        if (reduced) {
            p->reduced_count *= shape[d];
            if (shape[d] == 1) continue;
            p->reduced_shape[p->reduced] = shape[d];
            p->reduced_step[p->reduced++] = stride[d] * bytes;
        } else {
            p->kept_count *= shape[d];
            if (shape[d] == 1) continue;
            p->kept_shape[p->kept] = shape[d];
            p->kept_step[p->kept] = stride[d] * bytes;
            p->kept_to[p->kept++] = to;
            to *= shape[d];
        }
    }
    sort_dims(p->kept, p->kept_shape, p->kept_step, p->kept_to);
    p->kept = merge_dims(p->kept, p->kept_shape, p->kept_step, p->kept_to);
    if (!orders_matter(job)) sort_dims(p->reduced, p->reduced_shape, p->reduced_step, NULL);
    p->reduced = merge_dims(p->reduced, p->reduced_shape, p->reduced_step, NULL);
    p->columns = by_columns(p, job);
    cut(p);
}

// Four slots of 8 bytes for every piece of every result.
size_t reduce_scratch_bytes(const reduce_plan *p) {
    return p->pieces > 1 ? (size_t)(p->pieces * p->kept_count) * 32 : 0;
}

int64_t reduce_device_pieces(const reduce_plan *p) {
    const int64_t blocks = p->columns ? (p->kept_count + 255) / 256 : p->kept_count;  // without pieces
    const int64_t most = blocks > 0 ? 1024 / blocks : 1, possible = p->reduced_count / (p->columns ? 256 : 4096);
    const int64_t pieces = most < possible ? most : possible;
    return pieces > 1 ? pieces : 1;
}

int reduce_shape(const nbx_tensor *x, uint64_t mask, bool keepdim, int64_t *shape) {
    int rank = 0;
    for (int d = 0; d < x->rank; d++) {
        if (!(mask >> d & 1)) shape[rank++] = x->shape[d];
        else if (keepdim) shape[rank++] = 1;
    }
    return rank;
}

// ------------------------------------------------------------------------------------------------- arguments and targets
nbx_dtype reduce_sum_dtype(const nbx_op_call *c, const nbx_tensor *x, int dtype_arg) {
    const nbx_dtype asked = dtype_arg < 0 ? NBX_DTYPE_NONE : arg_dtype(c, dtype_arg);
    if (asked != NBX_DTYPE_NONE) return asked;
    const nbx_tensor *target = nbx_call_target(c, 0);
    if (target) return (nbx_dtype)target->dtype;
    return nbx_dtype_is_integral((nbx_dtype)x->dtype, true) ? NBX_INT64 : (nbx_dtype)x->dtype;
}

uint64_t reduce_all_dims(int rank) { return rank >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << rank) - 1; }

nbx_status reduce_one_dim(nbx_op_call *c, int arg, int rank, uint64_t *mask) {
    int dim;
    *mask = reduce_all_dims(rank);
    if (arg_is_none(c, arg)) return NBX_OK;
    const nbx_status status = nbx_call_dim(c, arg_int(c, arg), rank, &dim);
    if (status == NBX_OK) *mask = (uint64_t)1 << dim;
    return status;
}

nbx_status reduce_need_elements(nbx_op_call *c, const nbx_tensor *x, uint64_t mask, bool dims_given) {
    if (x->numel > 0) return NBX_OK;
    if (!dims_given) return nbx_call_fail(c, NBX_ERROR_SHAPE, "expected a dim to be given for a tensor without elements");
    for (int d = 0; d < x->rank; d++)
        if ((mask >> d & 1) && x->shape[d] == 0)
            return nbx_call_fail(c, NBX_ERROR_INDEX, "expected reduction dim %d to have non-zero size", d);
    return NBX_OK;
}

nbx_status reduce_describe(nbx_op_call *c, const nbx_tensor *x, reduce_job job, bool keepdim, nbx_dtype dtype0,
                           nbx_dtype dtype1) {
    int64_t shape[NBX_MAX_RANK];
    reduce_plan plan;
    if (nbx_dtype_is_float8((nbx_dtype)x->dtype) || nbx_dtype_is_float8((nbx_dtype)job.cast)) {
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name((nbx_dtype)x->dtype));
    }
    job.in = x->dtype;
    job.domain = (uint8_t)reduce_domain_of((nbx_dtype)job.cast);
    if (job.op == REDUCE_COUNT) job.domain = REDUCE_I64;
    if (job.domain == REDUCE_F32 && (job.op == REDUCE_PROD || job.op == REDUCE_POWER)) job.domain = REDUCE_F64;
    reduce_job *kept = nbx_call_state(c, sizeof job);
    if (!kept) return nbx_last_status(c->ctx);
    *kept = job;
    const int rank = reduce_shape(x, job.mask, keepdim, shape);
    nbx_status status = job.any_target ? NBX_OK : nbx_call_need_target(c, 0, dtype0);
    if (status == NBX_OK && !job.any_target && dtype1 != NBX_DTYPE_NONE) status = nbx_call_need_target(c, 1, dtype1);
    if (status != NBX_OK) return status;
    if (!out_new(c, 0, dtype0, rank, shape, NULL)) return nbx_last_status(c->ctx);
    if (dtype1 != NBX_DTYPE_NONE && !out_new(c, 1, dtype1, rank, shape, NULL)) return nbx_last_status(c->ctx);
    reduce_plan_make(&plan, kept, x->rank, x->shape, x->stride);
    c->scratch_bytes = c->device.type == NBX_CPU ? reduce_scratch_bytes(&plan) : (size_t)(reduce_device_pieces(&plan) * plan.kept_count) * 32;
    return NBX_OK;
}

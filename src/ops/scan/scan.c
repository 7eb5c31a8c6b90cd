// Running results along a dim: y[i] is that of x[0] ... x[i].
//   cumsum, cumprod(x, dim, dtype): integers give int64; floats are accumulated in double and rounded per element
//   cummax, cummin(x, dim): values and indices; the last of equal ones, NaN wins and stays
//   logcumsumexp(x, dim): floating point and complex only
//   results contiguous; source: aten::cumsum, cumprod, cummax, cummin, logcumsumexp
#include "ops/compose.h"
#include "ops/reduce/reduce.h"
#include "ops/scan/scan.h"

static scan_op op_of(const nbx_op_call *c) { return (scan_op)(uintptr_t)c->op->data; }

static nbx_status describe(nbx_op_call *c, nbx_dtype dtype, nbx_dtype second) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int dim = 0;  // cummax and cummin of no elements take any: ATen does not look at it there
    nbx_status status = second != NBX_DTYPE_NONE && x->numel == 0 ? NBX_OK : nbx_call_dim(c, arg_int(c, 1), x->rank, &dim);
    if (status == NBX_OK && nbx_dtype_is_float8(dtype)) status = nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name(dtype));
    if (status == NBX_OK) status = nbx_call_need_target(c, 0, dtype);
    if (status == NBX_OK && second != NBX_DTYPE_NONE) status = nbx_call_need_target(c, 1, second);
    if (status != NBX_OK) return status;
    scan_job *job = nbx_call_state(c, sizeof *job);
    if (!job) return nbx_last_status(c->ctx);
    reduce_domain domain = reduce_domain_of(dtype);
    if (domain == REDUCE_F32) domain = REDUCE_F64;
    *job = (scan_job){(uint8_t)op_of(c), (uint8_t)domain, x->dtype, (uint8_t)dtype, dim};
    if (!out_new(c, 0, dtype, x->rank, x->shape, NULL)) return nbx_last_status(c->ctx);
    if (second != NBX_DTYPE_NONE && !out_new(c, 1, second, x->rank, x->shape, NULL)) return nbx_last_status(c->ctx);
    const int64_t length = x->rank ? x->shape[dim] : 1, lines = length ? x->numel / length : 0, pieces = scan_pieces(job, lines, length);
    c->scratch_bytes = pieces > 1 ? (size_t)(pieces * lines) * 16 : 0;
    return NBX_OK;
}

static nbx_status infer_sum(nbx_op_call *c) { return describe(c, reduce_sum_dtype(c, arg_tensor(c, 0), 2), NBX_DTYPE_NONE); }

static nbx_status infer_extreme(nbx_op_call *c) {
    const nbx_dtype dtype = (nbx_dtype)arg_tensor(c, 0)->dtype;
    if (nbx_dtype_is_complex(dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "not implemented for %s", nbx_dtype_name(dtype));
    return describe(c, dtype, NBX_INT64);
}

static nbx_status infer_logcumsumexp(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    const nbx_status status = nbx_call_need_float(c, x, true);
    return status == NBX_OK ? describe(c, (nbx_dtype)x->dtype, NBX_DTYPE_NONE) : status;
}

#define SCAN(NAME, INFER, OP) {.name = NAME, .infer = INFER, .cpu = NBX_CPU_KERNEL(scan_cpu), .data = (const void *)(uintptr_t)OP}

const nbx_op nbx_ops_scan[] = {
    SCAN("aten::cumsum", infer_sum, SCAN_SUM),
    SCAN("aten::cumprod", infer_sum, SCAN_PROD),
    SCAN("aten::cummax", infer_extreme, SCAN_MAX),
    SCAN("aten::cummin", infer_extreme, SCAN_MIN),
    SCAN("aten::logcumsumexp", infer_logcumsumexp, SCAN_LOGSUMEXP),
    NBX_OPS_END,
};

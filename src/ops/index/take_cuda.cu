// take, put and sums by index on CUDA. Writes: the indices are sorted (stable), and a thread takes the elements of one target in
// the order in which they came, so results are the same from run to run: it adds them up, or the last one stays.
#include "ops/elementwise/engine.cuh"
#include "ops/sort/keys.cuh"

typedef struct take_call {
    flat table, index, values;
    nbx_fault_slot *fault;
    int op;
} take_call;

static __device__ __forceinline__ bool wrapped(const take_call &p, int64_t i, int64_t *at) {
    const int64_t given = *(const int64_t *)flat_at(p.index, i);
    *at = given < 0 ? given + p.table.count : given;
    if (*at >= 0 && *at < p.table.count) return true;
    raise_fault(p.fault, p.op, NBX_FAULT_INDEX, given, p.table.count);
    return false;
}

static __global__ void __launch_bounds__(FLAT_THREADS) take_elements(const __grid_constant__ take_call p) {
    const int64_t i = flat_item();
    int64_t at;
    if (i < p.index.count && wrapped(p, i, &at)) copy_element(p.table.width, flat_at(p.values, i), flat_at(p.table, at));
}

static __global__ void __launch_bounds__(FLAT_THREADS) put_last(const __grid_constant__ take_call p, const sorted_rows sorted) {
    const int64_t i = flat_item();
    if (i >= p.index.count || sorted.keys[i] == ~(uint64_t)0 || (i + 1 < p.index.count && sorted.keys[i + 1] == sorted.keys[i])) return;
    copy_element(p.table.width, flat_at(p.table, (int64_t)sorted.keys[i]), flat_at(p.values, sorted.places[i]));
}

static __global__ void __launch_bounds__(FLAT_THREADS) target_keys(const __grid_constant__ take_call p, uint64_t *keys) {
    const int64_t i = flat_item();
    int64_t at;
    if (i < p.index.count) keys[i] = wrapped(p, i, &at) ? (uint64_t)at : ~(uint64_t)0;
}

static __device__ __noinline__ void add_one(int dtype, char *to, const char *from) {
    switch (dtype) {
    case NBX_FLOAT64: *(double *)to += *(const double *)from; break;
    case NBX_FLOAT32:
    case NBX_FLOAT16:
    case NBX_BFLOAT16: ewc_store<float>(dtype, to, ewc_load<float>(dtype, to) + ewc_load<float>(dtype, from)); break;
    case NBX_COMPLEX64:
    case NBX_COMPLEX128: {
        const cdouble a = ewc_load<cdouble>(dtype, to), b = ewc_load<cdouble>(dtype, from);
        ewc_store<cdouble>(dtype, to, {a.re + b.re, a.im + b.im});
        break;
    }
    case NBX_BOOL: *to = *to || *from; break;
    default: ewc_store<int64_t>(dtype, to, (int64_t)((uint64_t)ewc_load<int64_t>(dtype, to) + (uint64_t)ewc_load<int64_t>(dtype, from))); break;
    }
}

static __global__ void __launch_bounds__(FLAT_THREADS) add_runs(const __grid_constant__ take_call p, const sorted_rows sorted) {
    const int64_t i = flat_item(), count = p.index.count;
    if (i >= count) return;
    const uint64_t key = sorted.keys[i];
    if (key == ~(uint64_t)0 || (i > 0 && sorted.keys[i - 1] == key)) return;
    char *to = flat_at(p.table, (int64_t)key);
    for (int64_t k = i; k < count && sorted.keys[k] == key; k++) add_one(p.table.dtype, to, flat_at(p.values, sorted.places[k]));
}

static nbx_status plan(nbx_op_call *c, const nbx_tensor *table, const nbx_tensor *index, const nbx_tensor *values, take_call *p) {
    nbx_status status = flat_of(c, table, &p->table);
    if (status == NBX_OK) status = flat_of(c, index, &p->index);
    if (status == NBX_OK) status = flat_of(c, values, &p->values);
    p->fault = nbx_cuda_fault_slot(c, &p->op);
    return status;
}

static nbx_status take_cuda(nbx_op_call *c) {
    take_call p;
    if (out_get(c, 0)->numel == 0) return NBX_OK;
    const nbx_status status = plan(c, arg_tensor(c, 0), arg_tensor(c, 1), out_get(c, 0), &p);
    if (status != NBX_OK) return status;
    take_elements<<<flat_blocks(p.index.count), FLAT_THREADS, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

// Sorted keys of so many, made by the caller in scratch behind the room for sorting.
static uint64_t *keys_in(nbx_op_call *c, int64_t count) { return (uint64_t *)((char *)c->scratch + nbx_device_sort_bytes(1, count)); }

static nbx_status sort_keys(nbx_op_call *c, uint64_t *keys, int64_t count, sorted_rows *sorted) {
    key_rows k = {};
    k.rows.data = (char *)keys, k.rows.dtype = NBX_UINT64, k.rows.width = 8, k.rows.count = 1;
    k.along.count = count, k.along.rank = 1, k.along.shape[0] = count, k.along.stride[0] = 8;
    return nbx_cuda_sort_rows(c, &k, c->scratch, sorted);
}

static nbx_status put_cuda(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *index = arg_tensor(c, 1), *source = arg_tensor(c, 2), *out = out_get(c, 0);
    take_call p;
    sorted_rows sorted;
    nbx_status status = NBX_OK;
    if (nbx_data(out) != nbx_data(self) || out->storage != self->storage) status = nbx_cuda_copy(c, out, self);
    if (status != NBX_OK || index->numel == 0) return status;
    status = plan(c, out, index, source, &p);
    if (status != NBX_OK) return status;
    const unsigned blocks = flat_blocks(p.index.count);
    uint64_t *keys = keys_in(c, p.index.count);
    target_keys<<<blocks, FLAT_THREADS, 0, stream_of(c)>>>(p, keys);
    status = sort_keys(c, keys, p.index.count, &sorted);
    if (status != NBX_OK) return status;
    if (arg_bool(c, 3)) add_runs<<<blocks, FLAT_THREADS, 0, stream_of(c)>>>(p, sorted);
    else put_last<<<blocks, FLAT_THREADS, 0, stream_of(c)>>>(p, sorted);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::take", take_cuda)
NBX_CUDA_KERNEL("aten::put", put_cuda)

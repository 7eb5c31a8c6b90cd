// lu_unpack on CUDA: a thread for each element of the factors, a block for each permutation, whose exchanges one thread makes in
// shared memory.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"

enum { ORDER_SHARED = 12288 };  // rows whose order fits shared memory; of more it lies in scratch

typedef struct unpack_call {
    flat lu, pivots;          // over the batch
    int64_t m, n, k, down, along, next_pivot;  // bytes between rows, columns and pivots
    char *p, *l, *u;          // dense
    int *orders;              // [batch][m]
    nbx_fault_slot *fault;
    int op;
} unpack_call;

static __global__ void __launch_bounds__(FLAT_THREADS) unpack_factors(const __grid_constant__ unpack_call c) {
    const int64_t item = flat_item(), width = c.lu.width;
    if (item >= c.lu.count * c.m * c.n) return;
    const int64_t row = quotient_of(item, c.n), j = item - row * c.n, index = quotient_of(row, c.m), i = row - index * c.m;
    const char *from = flat_at(c.lu, index) + i * c.down + j * c.along;
    const double zero[2] = {0, 0};
    if (j < c.k) {
        char *to = c.l + ((index * c.m + i) * c.k + j) * width;
        if (i == j) ewc_store<double>(c.lu.dtype, to, 1);
        else copy_element((int)width, to, j < i ? from : (const char *)zero);
    }
    if (i < c.k) copy_element((int)width, c.u + ((index * c.k + i) * c.n + j) * width, j >= i ? from : (const char *)zero);
}

// The matrix, zero so far, whose row exchanges the pivots list: A = P L U.
static __global__ void __launch_bounds__(FLAT_THREADS) unpack_order(const __grid_constant__ unpack_call c) {
    extern __shared__ int room[];
    const int64_t index = blockIdx.x;
    int *order = c.m <= ORDER_SHARED ? room : c.orders + index * c.m;
    for (int64_t i = threadIdx.x; i < c.m; i += FLAT_THREADS) order[i] = (int)i;
    __syncthreads();
    if (threadIdx.x == 0) {
        const char *from = flat_at(c.pivots, index);
        for (int64_t i = 0; i < c.k; i++) {
            const int other = *(const int *)(from + i * c.next_pivot) - 1;
            if (other < 0 || other >= c.m) {
                raise_fault(c.fault, c.op, NBX_FAULT_INDEX, other + 1, c.m + 1);
                break;
            }
            const int held = order[i];
            order[i] = order[other], order[other] = held;
        }
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < c.m; i += FLAT_THREADS) ewc_store<double>(c.lu.dtype, c.p + ((index * c.m + order[i]) * c.m + i) * c.lu.width, 1);
}

static uint64_t batch_of(const nbx_tensor *t, int inner) { return ((uint64_t)1 << (t->rank - inner)) - 1; }

static nbx_status lu_unpack_cuda(nbx_op_call *c) {
    const nbx_tensor *lu = arg_tensor(c, 0), *pivots = arg_tensor(c, 1);
    const bool factors = arg_bool(c, 2), order = arg_bool(c, 3);
    unpack_call p = {};
    nbx_status status = flat_of_dims(c, lu, batch_of(lu, 2), &p.lu);
    p.m = lu->shape[lu->rank - 2], p.n = lu->shape[lu->rank - 1], p.k = p.m < p.n ? p.m : p.n;
    p.down = lu->stride[lu->rank - 2] * p.lu.width, p.along = lu->stride[lu->rank - 1] * p.lu.width;
    const int64_t count = p.lu.count;
    if (count == 0 || status != NBX_OK) return status;
    if (order && p.m) {
        if (count > INT32_MAX) return nbx_call_fail(c, NBX_ERROR_SHAPE, "more than 2^31 matrices on CUDA");
        if (p.k > 0) {
            status = flat_of_dims(c, pivots, batch_of(pivots, 1), &p.pivots);
            p.next_pivot = pivots->stride[pivots->rank - 1] * (int64_t)sizeof(int);
        }
        p.p = (char *)nbx_data(out_get(c, 0));
        p.orders = (int *)c->scratch;
        p.fault = nbx_cuda_fault_slot(c, &p.op);
        if (status == NBX_OK) status = nbx_cuda_set_bytes(c, p.p, 0, (size_t)(count * p.m * p.m * p.lu.width));
        if (status != NBX_OK) return status;
        unpack_order<<<(unsigned)count, FLAT_THREADS, p.m <= ORDER_SHARED ? (size_t)p.m * sizeof(int) : 0, stream_of(c)>>>(p);
    }
    if (factors && p.k) {
        p.l = (char *)nbx_data(out_get(c, 1)), p.u = (char *)nbx_data(out_get(c, 2));
        unpack_factors<<<flat_blocks(count * p.m * p.n), FLAT_THREADS, 0, stream_of(c)>>>(p);
    }
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::lu_unpack", lu_unpack_cuda)

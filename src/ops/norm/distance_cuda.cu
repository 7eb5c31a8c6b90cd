// cdist and pdist on CUDA: a warp for every pair of rows; sums in double. embedding_renorm: a warp for every row.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"

#include <math.h>

typedef struct pair_call {
    flat a, b;  // over the batch, or the matrix itself
    char *out;
    double p;
    int64_t count, rows, others, length, a_row, a_step, b_row, b_step;
    bool triangle;  // pairs (i, j) of one matrix with i < j
} pair_call;

static __device__ __forceinline__ double pair_join(double p, double x, double y) {
    if (p != (double)INFINITY) return x + y;
    return x != x || x > y ? x : y;
}

// The p-norm of what a warp's lanes gather: one more number, then the root of all.
static __device__ __forceinline__ double norm_with(double p, double total, double d) {
    if (p == 2.0) return total + d * d;
    if (p == 1.0) return total + d;
    if (p == 0.0) return total + (d != 0.0 ? 1.0 : 0.0);
    return p == (double)INFINITY ? pair_join(p, d, total) : total + pow(d, p);
}
static __device__ __forceinline__ double norm_of_warp(double p, double total) {
    for (int step = 16; step > 0; step /= 2) total = pair_join(p, total, __shfl_xor_sync(~0u, total, step));
    return p == 2.0 ? sqrt(total) : p != 0.0 && p != 1.0 && p != (double)INFINITY ? pow(total, 1.0 / p) : total;
}

template <typename E> static __global__ void __launch_bounds__(FLAT_THREADS) distances(const __grid_constant__ pair_call c) {
    const int64_t pair = (int64_t)blockIdx.x * (FLAT_THREADS / 32) + threadIdx.x / 32;
    const int lane = (int)threadIdx.x & 31;
    if (pair >= c.count) return;
    int64_t i, j, batch = 0;
    if (c.triangle) {
        // pairs before row i: i n - i (i + 1) / 2; the root is corrected by a step where it was rounded
        const double m = (double)c.rows - 0.5;
        i = (int64_t)(m - sqrt(m * m - 2 * (double)pair - 1));
        if (i < 0) i = 0;
        while (i > 0 && i * c.rows - i * (i + 1) / 2 > pair) i--;
        while ((i + 1) * c.rows - (i + 1) * (i + 2) / 2 <= pair) i++;
        j = pair - (i * c.rows - i * (i + 1) / 2) + i + 1;
    } else {
        j = pair % c.others, i = pair / c.others % c.rows, batch = pair / c.others / c.rows;
    }
    const char *a = flat_at(c.a, batch) + i * c.a_row, *b = flat_at(c.b, batch) + j * c.b_row;
    double total = 0;
    for (int64_t k = lane; k < c.length; k += 32) {
        const double d = fabs((double)(*(const E *)(a + k * c.a_step) - *(const E *)(b + k * c.b_step)));
        total = norm_with(c.p, total, d);
    }
    total = norm_of_warp(c.p, total);
    if (lane == 0) ((E *)c.out)[pair] = (E)total;
}

static nbx_status launch(nbx_op_call *c, const pair_call &p) {
    const unsigned blocks = (unsigned)((p.count + FLAT_THREADS / 32 - 1) / (FLAT_THREADS / 32));
    if (out_get(c, 0)->dtype == NBX_FLOAT64) distances<double><<<blocks, FLAT_THREADS, 0, stream_of(c)>>>(p);
    else distances<float><<<blocks, FLAT_THREADS, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

static nbx_status cdist_cuda(nbx_op_call *c) {
    const nbx_tensor *a = arg_tensor(c, 0), *b = arg_tensor(c, 1), *out = out_get(c, 0);
    pair_call p = {};
    if (out->numel == 0) return NBX_OK;
    const int rank = out->rank - 2;
    nbx_tensor x = *a, y = *b;
    x.rank -= 2, y.rank -= 2;
    nbx_status status = flat_broadcast(c, &x, rank, out->shape, &p.a);
    if (status == NBX_OK) status = flat_broadcast(c, &y, rank, out->shape, &p.b);
    if (status != NBX_OK) return status;
    p.out = (char *)nbx_data(out), p.p = *(const double *)c->state, p.count = out->numel;
    p.rows = a->shape[a->rank - 2], p.others = b->shape[b->rank - 2], p.length = a->shape[a->rank - 1];
    p.a_row = a->stride[a->rank - 2] * p.a.width, p.a_step = a->stride[a->rank - 1] * p.a.width;
    p.b_row = b->stride[b->rank - 2] * p.b.width, p.b_step = b->stride[b->rank - 1] * p.b.width;
    return launch(c, p);
}

static nbx_status pdist_cuda(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *out = out_get(c, 0);
    pair_call p = {};
    if (out->numel == 0) return NBX_OK;
    flat_begin(&p.a, x);
    flat_begin(&p.b, x);
    p.out = (char *)nbx_data(out), p.p = *(const double *)c->state, p.count = out->numel, p.triangle = true;
    p.rows = x->shape[0], p.length = x->shape[1];
    p.a_row = p.b_row = x->stride[0] * p.a.width, p.a_step = p.b_step = x->stride[1] * p.a.width;
    return launch(c, p);
}

// -------------------------------------------------------------------------------------------------------- embedding_renorm
static __global__ void __launch_bounds__(FLAT_THREADS) name_rows(const __grid_constant__ flat indices, uint8_t *named, int64_t rows, nbx_fault_slot *fault, int op) {
    const int64_t i = flat_item();
    if (i >= indices.count) return;
    const int64_t index = ewc_load<int64_t>(indices.dtype, flat_at(indices, i));
    if (index < 0 || index >= rows) raise_fault(fault, op, NBX_FAULT_INDEX, index, rows);
    else named[index] = 1;
}

typedef struct renorm_call {
    const char *x;
    char *y;
    const uint8_t *named;
    int dtype;
    int64_t rows, length, x_row, x_step, y_row, y_step;  // in bytes
    double p, most;
} renorm_call;

static __global__ void __launch_bounds__(FLAT_THREADS) scale_rows(const __grid_constant__ renorm_call c) {
    const int64_t row = (int64_t)blockIdx.x * (FLAT_THREADS / 32) + threadIdx.x / 32;
    if (row >= c.rows) return;
    double scale = 1;
    if (c.named[row]) {
        double total = 0;
        for (int64_t k = threadIdx.x & 31; k < c.length; k += 32) {
            const double d = fabs(ewc_load<double>(c.dtype, c.x + row * c.x_row + k * c.x_step));
            total = norm_with(c.p, total, d);
        }
        total = norm_of_warp(c.p, total);
        if (total > c.most) scale = c.most / (total + 1e-7);
    }
    for (int64_t k = threadIdx.x & 31; k < c.length; k += 32)
        ewc_store<double>(c.dtype, c.y + row * c.y_row + k * c.y_step, ewc_load<double>(c.dtype, c.x + row * c.x_row + k * c.x_step) * scale);
}

static nbx_status embedding_renorm_cuda(nbx_op_call *c) {
    const nbx_tensor *table = arg_tensor(c, 0), *out = out_get(c, 0);
    const int64_t width = (int64_t)nbx_dtype_size((nbx_dtype)table->dtype);
    flat indices;
    int op;
    nbx_status status = flat_of(c, arg_tensor(c, 1), &indices);
    if (status == NBX_OK) status = nbx_cuda_set_bytes(c, c->scratch, 0, (size_t)table->shape[0]);
    if (status != NBX_OK) return status;
    nbx_fault_slot *fault = nbx_cuda_fault_slot(c, &op);
    if (indices.count) name_rows<<<flat_blocks(indices.count), FLAT_THREADS, 0, stream_of(c)>>>(indices, (uint8_t *)c->scratch, table->shape[0], fault, op);
    const renorm_call p = {(const char *)nbx_data(table), (char *)nbx_data(out), (const uint8_t *)c->scratch, table->dtype, table->shape[0], table->shape[1],
                           table->stride[0] * width, table->stride[1] * width, out->stride[0] * width, out->stride[1] * width, arg_float(c, 3), arg_float(c, 2)};
    if (out->numel == 0) return launch_status(c);
    scale_rows<<<flat_blocks(table->shape[0] * 32), FLAT_THREADS, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::embedding_renorm", embedding_renorm_cuda)
NBX_CUDA_KERNEL("aten::_cdist_forward", cdist_cuda)
NBX_CUDA_KERNEL("aten::cdist", cdist_cuda)
NBX_CUDA_KERNEL("aten::_euclidean_dist", cdist_cuda)
NBX_CUDA_KERNEL("aten::_pdist_forward", pdist_cuda)
NBX_CUDA_KERNEL("aten::pdist", pdist_cuda)

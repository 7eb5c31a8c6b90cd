// cdist and pdist on CUDA: a warp for every pair of rows; sums in double.
#include "cuda/flat.cuh"

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
        if (c.p == 2.0) total += d * d;
        else if (c.p == 1.0) total += d;
        else if (c.p == 0.0) total += d != 0.0 ? 1.0 : 0.0;
        else if (c.p == (double)INFINITY) total = pair_join(c.p, d, total);
        else total += pow(d, c.p);
    }
    for (int step = 16; step > 0; step /= 2) total = pair_join(c.p, total, __shfl_xor_sync(~0u, total, step));
    if (c.p == 2.0) total = sqrt(total);
    else if (c.p != 0.0 && c.p != 1.0 && c.p != (double)INFINITY) total = pow(total, 1.0 / c.p);
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

NBX_CUDA_KERNEL("aten::_cdist_forward", cdist_cuda)
NBX_CUDA_KERNEL("aten::cdist", cdist_cuda)
NBX_CUDA_KERNEL("aten::_euclidean_dist", cdist_cuda)
NBX_CUDA_KERNEL("aten::_pdist_forward", pdist_cuda)
NBX_CUDA_KERNEL("aten::pdist", pdist_cuda)

// nll_loss on CUDA: blocks sum pieces of 4096 items in double, a last block joins the pieces in order.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"

enum { LOSS_PIECE = 4096 };

typedef struct nll_call {
    flat x, target;      // x: its dims without the classes, beside those of target
    const char *weight;  // or NULL
    char *out, *total;
    double *sums;        // [pieces][2]: loss, weight
    int dtype;
    int64_t classes, class_step, weight_step, ignore, pieces;
    bool per_item, mean, zero_total;
    nbx_fault_slot *fault;
    int op;
} nll_call;

static __device__ __forceinline__ void block_sums(double *sum, double *weights) {
    __shared__ double room[2][FLAT_THREADS];
    room[0][threadIdx.x] = *sum, room[1][threadIdx.x] = *weights;
    __syncthreads();
    for (int step = FLAT_THREADS / 2; step > 0; step /= 2) {
        if ((int)threadIdx.x < step)
            for (int k = 0; k < 2; k++) room[k][threadIdx.x] += room[k][threadIdx.x + step];
        __syncthreads();
    }
    *sum = room[0][0], *weights = room[1][0];
}

static __global__ void __launch_bounds__(FLAT_THREADS) nll_pieces(const __grid_constant__ nll_call p) {
    double sum = 0, weights = 0;
    for (int j = 0; j < LOSS_PIECE / FLAT_THREADS; j++) {
        const int64_t i = (int64_t)blockIdx.x * LOSS_PIECE + j * FLAT_THREADS + threadIdx.x;
        if (i >= p.target.count) break;
        const int64_t y = ewc_load<int64_t>(p.target.dtype, flat_at(p.target, i));
        double loss = 0;
        if (y != p.ignore && (y < 0 || y >= p.classes)) {
            raise_fault(p.fault, p.op, NBX_FAULT_INDEX, y, p.classes);
        } else if (y != p.ignore) {
            const double w = p.weight ? ewc_load<double>(p.dtype, p.weight + y * p.weight_step) : 1.0;
            loss = -ewc_load<double>(p.dtype, flat_at(p.x, i) + y * p.class_step) * w;
            sum += loss, weights += w;
        }
        if (p.per_item) ewc_store<double>(p.dtype, p.out + i * p.x.width, loss);
    }
    block_sums(&sum, &weights);
    if (threadIdx.x == 0) p.sums[2 * blockIdx.x] = sum, p.sums[2 * blockIdx.x + 1] = weights;
}

static __global__ void __launch_bounds__(FLAT_THREADS) nll_total(const __grid_constant__ nll_call p) {
    double sum = 0, weights = 0;
    for (int64_t i = threadIdx.x; i < p.pieces; i += FLAT_THREADS) sum += p.sums[2 * i], weights += p.sums[2 * i + 1];
    block_sums(&sum, &weights);
    if (threadIdx.x != 0) return;
    if (!p.per_item) ewc_store<double>(p.dtype, p.out, p.mean ? sum / weights : sum);
    ewc_store<double>(p.dtype, p.total, p.zero_total ? 0.0 : weights);
}

static nbx_status nll_loss_cuda(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *target = arg_tensor(c, 1), *weight = arg_tensor(c, 2);
    const int64_t reduction = arg_int(c, 3);
    const int class_dim = x->rank > 1 ? 1 : 0;
    nll_call p = {};
    nbx_status status = flat_of_dims(c, x, ~((uint64_t)1 << class_dim), &p.x);
    if (status == NBX_OK) status = flat_of(c, target, &p.target);
    if (status != NBX_OK) return status;
    p.weight = weight ? (const char *)nbx_data(weight) : NULL;
    p.weight_step = weight && weight->rank ? weight->stride[0] * p.x.width : 0;
    p.out = (char *)nbx_data(out_get(c, 0)), p.total = (char *)nbx_data(out_get(c, 1));
    p.sums = (double *)c->scratch;
    p.dtype = x->dtype, p.classes = x->shape[class_dim], p.class_step = x->stride[class_dim] * p.x.width;
    p.ignore = arg_int(c, 4), p.pieces = (p.target.count + LOSS_PIECE - 1) / LOSS_PIECE;
    p.per_item = reduction == 0, p.mean = reduction == 1, p.zero_total = p.per_item && x->rank > 1;
    p.fault = nbx_cuda_fault_slot(c, &p.op);
    if (p.pieces) nll_pieces<<<(unsigned)p.pieces, FLAT_THREADS, 0, stream_of(c)>>>(p);
    nll_total<<<1, FLAT_THREADS, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::nll_loss_forward", nll_loss_cuda)
NBX_CUDA_KERNEL("aten::nll_loss2d_forward", nll_loss_cuda)

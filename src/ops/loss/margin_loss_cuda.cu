// Margin losses on CUDA: a block for each item, in double; a last thread joins the items in order.
#include "cuda/flat.cuh"
#include "ops/elementwise/engine.cuh"
#include "ops/loss/loss.h"

typedef struct margin_call {
    const char *x, *weight;  // weight or NULL
    const char *target;
    char *out;
    double *losses, p, margin;
    int64_t items, classes, item_step, class_step, weight_step, target_item, target_step;  // in bytes
    int64_t reduction;
    int dtype, width;
    nbx_fault_slot *fault;
    int op;
} margin_call;

static __device__ __forceinline__ double score(const margin_call &p, int64_t item, int64_t k) {
    return ewc_load<double>(p.dtype, p.x + item * p.item_step + k * p.class_step);
}
static __device__ __forceinline__ int64_t label(const margin_call &p, int64_t item, int64_t k) {
    return *(const int64_t *)(p.target + item * p.target_item + k * p.target_step);
}

static __device__ double block_sum(double sum) {
    __shared__ double room[FLAT_THREADS];
    room[threadIdx.x] = sum;
    __syncthreads();
    for (int step = FLAT_THREADS / 2; step > 0; step /= 2) {
        if ((int)threadIdx.x < step) room[threadIdx.x] += room[threadIdx.x + step];
        __syncthreads();
    }
    return room[0];
}

static __global__ void __launch_bounds__(FLAT_THREADS) one_label(const __grid_constant__ margin_call p) {
    const int64_t item = blockIdx.x, y = label(p, item, 0);
    const bool fits = y >= 0 && y < p.classes;
    if (!fits && threadIdx.x == 0) raise_fault(p.fault, p.op, NBX_FAULT_INDEX, y, p.classes);
    double sum = 0;
    if (fits) {
        const double own = score(p, item, y), w = p.weight ? ewc_load<double>(p.dtype, p.weight + y * p.weight_step) : 1.0;
        for (int64_t k = threadIdx.x; k < p.classes; k += FLAT_THREADS) {
            const double z = p.margin - own + score(p, item, k);
            if (k != y && z > 0) sum += (p.p == 1 ? z : z * z) * w;
        }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) p.losses[item] = sum / (double)p.classes;
}

static __global__ void __launch_bounds__(FLAT_THREADS) many_labels(const __grid_constant__ margin_call p) {
    const int64_t item = blockIdx.x;
    int64_t labels = p.classes;  // in front of the first negative one
    double sum = 0;
    for (int64_t k = p.classes - 1; k >= 0; k--) {
        const int64_t y = label(p, item, k);
        if (y < 0) labels = k;
        if (y >= -1 && y < p.classes) continue;
        if (threadIdx.x == 0) raise_fault(p.fault, p.op, NBX_FAULT_INDEX, y, p.classes);
        labels = 0;
    }
    for (int64_t k = threadIdx.x; k < p.classes; k += FLAT_THREADS) {
        bool is_label = false;
        for (int64_t j = 0; j < labels && !is_label; j++) is_label = label(p, item, j) == k;
        for (int64_t j = 0; j < labels && !is_label; j++) {
            const int64_t y = label(p, item, j);
            const double z = y < p.classes ? 1.0 - score(p, item, y) + score(p, item, k) : 0.0;
            if (z > 0) sum += z;
        }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) p.losses[item] = sum / (double)p.classes;
}

static __global__ void join_items(const __grid_constant__ margin_call p) {
    double sum = 0;
    for (int64_t i = 0; i < p.items; i++) {
        sum += p.losses[i];
        if (p.reduction == LOSS_NONE) ewc_store<double>(p.dtype, p.out + i * p.width, p.losses[i]);
    }
    if (p.reduction != LOSS_NONE) ewc_store<double>(p.dtype, p.out, p.reduction == LOSS_MEAN ? sum / (double)p.items : sum);
}

static nbx_status margin_loss(nbx_op_call *c, bool many) {
    const nbx_tensor *x = arg_tensor(c, 0), *target = arg_tensor(c, 1), *weight = many ? NULL : arg_tensor(c, 4);
    margin_call p = {};
    p.dtype = x->dtype, p.width = (int)nbx_dtype_size((nbx_dtype)x->dtype);
    p.x = (const char *)nbx_data(x), p.target = (const char *)nbx_data(target), p.out = (char *)nbx_data(out_get(c, 0)), p.losses = (double *)c->scratch;
    p.items = x->rank == 2 ? x->shape[0] : 1, p.classes = x->rank == 0 ? 1 : x->shape[x->rank - 1];
    p.item_step = x->rank == 2 ? x->stride[0] * p.width : 0, p.class_step = x->rank ? x->stride[x->rank - 1] * p.width : 0;
    p.target_item = target->rank == 2 || (target->rank == 1 && !many) ? target->stride[0] * 8 : 0;
    p.target_step = many && target->rank ? target->stride[target->rank - 1] * 8 : 0;
    if (weight) p.weight = (const char *)nbx_data(weight), p.weight_step = weight->rank ? weight->stride[0] * p.width : 0;
    if (!many) p.p = nbx_scalar_to_double(&c->args[2]), p.margin = nbx_scalar_to_double(&c->args[3]);
    p.reduction = arg_int(c, many ? 2 : 5);
    p.fault = nbx_cuda_fault_slot(c, &p.op);
    if (p.items > 0 && many) many_labels<<<(unsigned)p.items, FLAT_THREADS, 0, stream_of(c)>>>(p);
    else if (p.items > 0) one_label<<<(unsigned)p.items, FLAT_THREADS, 0, stream_of(c)>>>(p);
    join_items<<<1, 1, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

static nbx_status multi_margin_loss_cuda(nbx_op_call *c) { return margin_loss(c, false); }
static nbx_status multilabel_margin_loss_cuda(nbx_op_call *c) { return margin_loss(c, true); }

NBX_CUDA_KERNEL("aten::multi_margin_loss", multi_margin_loss_cuda)
NBX_CUDA_KERNEL("aten::multilabel_margin_loss", multilabel_margin_loss_cuda)

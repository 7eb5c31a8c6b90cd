// Margin losses and ctc_loss on CUDA: a block for each item, in double; a last thread joins the items in order.
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

// ------------------------------------------------------------------------------------------------------------------ ctc
enum { CTC_ITEMS = 64 };  // whose lengths travel with a launch

typedef struct ctc_call {
    const char *x;             // log probabilities
    flat targets;              // [all targets] or [batch, longest]
    double *losses, *alpha;    // alpha: two times of all symbols for each item
    char *kept;                // _ctc_loss: alpha of all times and items, else NULL
    int64_t times;
    int64_t time_step, item_step, class_step;  // in bytes
    int64_t classes, blank, symbols, per_item; // symbols of the longest; per_item: targets of an item, 0 where they are flat
    int dtype;
    bool zero_infinity, mean;
    int64_t first_item, first[CTC_ITEMS], input_length[CTC_ITEMS], target_length[CTC_ITEMS];
    nbx_fault_slot *fault;
    int op;
} ctc_call;

static __device__ __forceinline__ int64_t ctc_symbol(const ctc_call &p, int64_t first, int64_t k) {
    return k % 2 == 0 ? p.blank : ewc_load<int64_t>(p.targets.dtype, flat_at(p.targets, first + k / 2));
}

static __device__ double log_sum(double a, double b, double c) {
    const double most = fmax(fmax(a, b), c);
    if (most == -(double)INFINITY) return a + b + c;  // NaN if one is
    return log(exp(a - most) + exp(b - most) + exp(c - most)) + most;
}

// Forward variables of a time; past the item's symbols, and before its first time, -inf.
static __device__ __forceinline__ void keep_alpha(const ctc_call &p, int64_t item, int64_t time, const double *alpha, int64_t symbols) {
    if (!p.kept) return;
    char *to = p.kept + (item * p.times + time) * p.symbols * nbx_cuda_dtype_bytes(p.dtype);
    for (int64_t k = threadIdx.x; k < p.symbols; k += FLAT_THREADS)
        ewc_store<double>(p.dtype, to + k * nbx_cuda_dtype_bytes(p.dtype), k < symbols ? alpha[k] : -(double)INFINITY);
}

static __global__ void __launch_bounds__(FLAT_THREADS) ctc_items(const __grid_constant__ ctc_call p) {
    const int i = (int)blockIdx.x;
    const int64_t item = p.first_item + i, length = p.target_length[i], symbols = 2 * length + 1, first = p.per_item ? item * p.per_item : p.first[i];
    const char *x = p.x + item * p.item_step;
    double *before = p.alpha + item * 2 * p.symbols, *after = before + p.symbols, loss;
    bool right = true;
    for (int64_t k = threadIdx.x; k < length; k += FLAT_THREADS) {
        const int64_t y = ctc_symbol(p, first, 2 * k + 1);
        if (y >= 0 && y < p.classes) continue;
        right = false;
        raise_fault(p.fault, p.op, NBX_FAULT_INDEX, y, p.classes);
    }
    if (!__syncthreads_and(right)) return;
    const double none = -(double)INFINITY;
    if (p.input_length[i] > 0)
        for (int64_t k = threadIdx.x; k < symbols; k += FLAT_THREADS) before[k] = k < 2 ? ewc_load<double>(p.dtype, x + ctc_symbol(p, first, k) * p.class_step) : none;
    __syncthreads();
    for (int64_t time = 0; time < p.times; time++) keep_alpha(p, item, time, before, time == 0 && p.input_length[i] > 0 ? symbols : 0);
    for (int64_t time = 1; time < p.input_length[i]; time++) {
        for (int64_t k = threadIdx.x; k < symbols; k += FLAT_THREADS) {
            const int64_t own = ctc_symbol(p, first, k);
            const bool skips = k >= 2 && own != ctc_symbol(p, first, k - 2);
            after[k] = log_sum(before[k], k >= 1 ? before[k - 1] : none, skips ? before[k - 2] : none) + ewc_load<double>(p.dtype, x + time * p.time_step + own * p.class_step);
        }
        double *swap = before;
        before = after, after = swap;
        __syncthreads();
        keep_alpha(p, item, time, before, symbols);
    }
    if (threadIdx.x != 0) return;
    if (p.input_length[i] == 0) loss = length == 0 ? 0.0 : (double)INFINITY;
    else loss = -log_sum(before[symbols - 1], symbols > 1 ? before[symbols - 2] : none, none);
    if (p.zero_infinity && isinf(loss)) loss = 0;
    p.losses[item] = p.mean ? loss / (double)(length > 1 ? length : 1) : loss;
}

static nbx_status ctc_loss_cuda(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *targets = arg_tensor(c, 1);
    int batch;
    const int64_t *input_lengths = arg_ints(c, 2, &batch), *target_lengths = arg_ints(c, 3, &batch), width = (int64_t)nbx_dtype_size((nbx_dtype)x->dtype);
    ctc_call p = {};
    margin_call m = {};
    const nbx_status status = flat_of(c, targets, &p.targets);
    if (status != NBX_OK) return status;
    p.x = (const char *)nbx_data(x), p.dtype = x->dtype;
    p.losses = (double *)c->scratch, p.alpha = p.losses + batch;
    p.time_step = x->stride[0] * width, p.item_step = x->rank == 3 ? x->stride[1] * width : 0, p.class_step = x->stride[x->rank - 1] * width;
    p.classes = x->shape[x->rank - 1], p.blank = arg_int(c, 4), p.per_item = targets->rank == 2 ? targets->shape[1] : 0;
    const bool forward = c->out_count > 1;  // _ctc_loss: the sequences' losses as they are, and the forward variables
    if (forward && out_get(c, 1)->numel) p.kept = (char *)nbx_data(out_get(c, 1));
    p.times = x->shape[0];
    p.mean = !forward && arg_int(c, 5) == LOSS_MEAN, p.zero_infinity = !forward && arg_bool(c, 6);
    p.fault = nbx_cuda_fault_slot(c, &p.op);
    int64_t longest = 0, first = 0;
    for (int i = 0; i < batch; i++) longest = target_lengths[i] > longest ? target_lengths[i] : longest;
    p.symbols = 2 * longest + 1;
    for (int i = 0; i < batch; i++) {
        const int at = i % CTC_ITEMS;
        p.first[at] = first, p.input_length[at] = input_lengths[i], p.target_length[at] = target_lengths[i];
        first += target_lengths[i];
        if (at + 1 < CTC_ITEMS && i + 1 < batch) continue;
        p.first_item = i - at;
        ctc_items<<<(unsigned)(at + 1), FLAT_THREADS, 0, stream_of(c)>>>(p);
    }
    m.items = batch, m.losses = p.losses, m.reduction = forward ? (int64_t)LOSS_NONE : arg_int(c, 5), m.out = (char *)nbx_data(out_get(c, 0)), m.dtype = x->dtype, m.width = (int)width;
    if (out_get(c, 0)->numel) join_items<<<1, 1, 0, stream_of(c)>>>(m);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::_ctc_loss", ctc_loss_cuda)
NBX_CUDA_KERNEL("aten::ctc_loss.IntList", ctc_loss_cuda)
NBX_CUDA_KERNEL("aten::multi_margin_loss", multi_margin_loss_cuda)
NBX_CUDA_KERNEL("aten::multilabel_margin_loss", multilabel_margin_loss_cuda)

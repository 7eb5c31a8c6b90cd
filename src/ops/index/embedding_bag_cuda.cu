// embedding_bag on CUDA: a thread for each bag and column adds its rows in the order of the indices, in double. The gradient
// of embedding: indices are sorted, and the rows of one target are added up in the order in which they came.
#include "ops/elementwise/engine.cuh"
#include "ops/sort/keys.cuh"

enum { WEIGHT, INDICES, OFFSETS, SCALE_BY_FREQUENCY, MODE, SPARSE, SAMPLE_WEIGHTS, LAST_OFFSET, PADDING };
enum { SUM, MEAN, MAX };

typedef struct bag_call {
    flat indices, offsets, scale, map, sizes, largest;  // largest: the maximum's rows, or for means what sizes are
    const char *weight;
    char *out;
    int dtype, width, mode;
    int64_t rows, columns, row_step, column_step, out_row, out_column, bags, padding;
    bool scaled, mapped, largest_is_sizes;
    nbx_fault_slot *fault;
    int op;
} bag_call;

static __device__ __forceinline__ int64_t int_at(const flat &f, int64_t i) { return ewc_load<int64_t>(f.dtype, flat_at(f, i)); }
static __device__ __forceinline__ void set_int(const flat &f, int64_t i, int64_t x) { ewc_store<int64_t>(f.dtype, flat_at(f, i), x); }

// The indices of a bag, kept within bounds whatever the offsets are; those are checked apart.
static __device__ __forceinline__ void bag_range(const bag_call &p, int64_t bag, int64_t *begin, int64_t *end) {
    const int64_t count = p.indices.count;
    int64_t a = int_at(p.offsets, bag), b = bag + 1 < p.offsets.count ? int_at(p.offsets, bag + 1) : count;
    a = a < 0 ? 0 : a > count ? count : a;
    b = b < a ? a : b > count ? count : b;
    *begin = a, *end = b;
}

static __global__ void __launch_bounds__(FLAT_THREADS) check_bags(const __grid_constant__ bag_call p) {
    const int64_t i = flat_item();
    if (i < p.indices.count) {
        const int64_t row = int_at(p.indices, i);
        if (row < 0 || row >= p.rows) raise_fault(p.fault, p.op, NBX_FAULT_INDEX, row, p.rows);
    }
    if (i < p.offsets.count) {
        const int64_t at = int_at(p.offsets, i), before = i ? int_at(p.offsets, i - 1) : 0;
        if ((i == 0 && at != 0) || at < before || at > p.indices.count) raise_fault(p.fault, p.op, NBX_FAULT_INDEX, at, p.indices.count + 1);
    }
}

static __global__ void __launch_bounds__(FLAT_THREADS) sum_bags(const __grid_constant__ bag_call p) {
    const int64_t item = flat_item();
    if (item >= p.bags * p.columns) return;
    const int64_t bag = item / p.columns, column = item - bag * p.columns;
    int64_t begin, end, count = 0;
    double sum = 0;
    bag_range(p, bag, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t row = int_at(p.indices, i);
        if (row == p.padding || row < 0 || row >= p.rows) continue;
        const double x = ewc_load<double>(p.dtype, p.weight + row * p.row_step + column * p.column_step);
        if (p.mode != MAX) {
            sum += (p.scaled ? ewc_load<double>(p.dtype, flat_at(p.scale, i)) : 1.0) * x;
        } else if (count == 0 || x > sum) {  // a NaN stays where it is the first
            sum = x;
            set_int(p.largest, item, row);
        }
        count++;
    }
    ewc_store<double>(p.dtype, p.out + bag * p.out_row + column * p.out_column, p.mode == MEAN && count > 0 ? sum / (double)count : sum);
}

static __global__ void __launch_bounds__(FLAT_THREADS) describe_bags(const __grid_constant__ bag_call p) {
    const int64_t bag = flat_item();
    if (bag >= p.bags) return;
    int64_t begin, end, count = 0;
    bag_range(p, bag, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        count += int_at(p.indices, i) != p.padding;
        if (p.mapped) set_int(p.map, i, bag);
    }
    if (p.mode == SUM) return;
    set_int(p.sizes, bag, count);
    if (p.largest_is_sizes) set_int(p.largest, bag, count);
}

static __global__ void __launch_bounds__(FLAT_THREADS) zero_ints(const __grid_constant__ flat f) {
    const int64_t i = flat_item();
    if (i < f.count) set_int(f, i, 0);
}

static nbx_status embedding_bag_cuda(nbx_op_call *c) {
    const nbx_tensor *weight = arg_tensor(c, WEIGHT), *scale = arg_tensor(c, SAMPLE_WEIGHTS), *out = out_get(c, 0), *map = out_get(c, 1);
    bag_call p = {};
    nbx_status status = flat_of(c, arg_tensor(c, INDICES), &p.indices);
    if (status == NBX_OK) status = flat_of(c, arg_tensor(c, OFFSETS), &p.offsets);
    if (status == NBX_OK && scale) status = flat_of(c, scale, &p.scale);
    if (status == NBX_OK) status = flat_of(c, map, &p.map);
    if (status == NBX_OK) status = flat_of(c, out_get(c, 2), &p.sizes);
    if (status == NBX_OK) status = flat_of(c, out_get(c, 3), &p.largest);
    if (status != NBX_OK) return status;
    p.weight = (const char *)nbx_data(weight), p.out = (char *)nbx_data(out);
    p.dtype = weight->dtype, p.width = (int)nbx_dtype_size((nbx_dtype)weight->dtype), p.mode = (int)arg_int(c, MODE);
    p.rows = weight->shape[0], p.columns = weight->shape[1], p.row_step = weight->stride[0] * p.width, p.column_step = weight->stride[1] * p.width;
    p.out_row = out->stride[0] * p.width, p.out_column = out->stride[1] * p.width;
    p.bags = out->shape[0], p.padding = arg_int(c, PADDING);
    p.scaled = scale != NULL, p.mapped = map->numel > 0, p.largest_is_sizes = p.mode == MEAN;
    p.fault = nbx_cuda_fault_slot(c, &p.op);
    cudaStream_t stream = stream_of(c);
    const int64_t checks = p.indices.count > p.offsets.count ? p.indices.count : p.offsets.count;
    if (checks) check_bags<<<flat_blocks(checks), FLAT_THREADS, 0, stream>>>(p);
    if (p.sizes.count) zero_ints<<<flat_blocks(p.sizes.count), FLAT_THREADS, 0, stream>>>(p.sizes);
    if (p.largest.count) zero_ints<<<flat_blocks(p.largest.count), FLAT_THREADS, 0, stream>>>(p.largest);
    if (p.bags * p.columns) sum_bags<<<flat_blocks(p.bags * p.columns), FLAT_THREADS, 0, stream>>>(p);
    if (p.bags) describe_bags<<<flat_blocks(p.bags), FLAT_THREADS, 0, stream>>>(p);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::_embedding_bag", embedding_bag_cuda)
NBX_CUDA_KERNEL("aten::_embedding_bag_forward_only", embedding_bag_cuda)

// -------------------------------------------------------------------------------------------------------------- backward
typedef struct gradient_call {
    flat indices, rows;  // rows: of the gradient
    char *out;
    int dtype, width;
    int64_t size, columns, step, out_row, out_column, padding;
    bool by_frequency;
    nbx_fault_slot *fault;
    int op;
} gradient_call;

static __global__ void __launch_bounds__(FLAT_THREADS) gradient_keys(const __grid_constant__ gradient_call p, uint64_t *keys) {
    const int64_t i = flat_item();
    if (i >= p.indices.count) return;
    const int64_t row = int_at(p.indices, i);
    const bool known = row >= 0 && row < p.size, passed = row == p.padding;
    if (!known && !passed) raise_fault(p.fault, p.op, NBX_FAULT_INDEX, row, p.size);
    keys[i] = known && !passed ? (uint64_t)row : ~(uint64_t)0;
}

// A block column: 256 columns of the run that begins at blockIdx.x, if one does. C: the class of computing.
template <typename C> static __global__ void __launch_bounds__(FLAT_THREADS) add_gradients(const __grid_constant__ gradient_call p, const sorted_rows sorted) {
    const int64_t i = blockIdx.x, column = (int64_t)blockIdx.y * FLAT_THREADS + threadIdx.x;
    const uint64_t key = sorted.keys[i];
    if (key == ~(uint64_t)0 || (i > 0 && sorted.keys[i - 1] == key) || column >= p.columns) return;
    char *to = p.out + (int64_t)key * p.out_row + column * p.out_column;
    double room[2] = {0, 0};
    ewc_store<C>(p.dtype, room, C{});
    int64_t k = i;
    for (; k < p.indices.count && sorted.keys[k] == key; k++)
        ewc_store<C>(p.dtype, room, ewc_load<C>(p.dtype, room) + ewc_load<C>(p.dtype, flat_at(p.rows, sorted.places[k]) + column * p.step));
    C sum = ewc_load<C>(p.dtype, room);
    if constexpr (!ewc_class<C>::complex)
        if (p.by_frequency && k - i > 1) sum = ewc_class<C>::integral ? sum / (C)(k - i) - (C)(sum < 0 && (C)(sum / (C)(k - i)) * (C)(k - i) != sum) : sum / (C)(k - i);
    ewc_store<C>(p.dtype, to, sum);
}

static nbx_status dense_backward_cuda(nbx_op_call *c) {
    const nbx_tensor *grad = arg_tensor(c, 0), *out = out_get(c, 0);
    gradient_call p = {};
    sorted_rows sorted;
    const nbx_value zero = nbx_of_int(0);
    nbx_status status = nbx_cuda_fill(c, &zero, NULL);
    if (status == NBX_OK) status = flat_of(c, arg_tensor(c, 1), &p.indices);
    if (status == NBX_OK) status = flat_of_dims(c, grad, ~((uint64_t)1 << (grad->rank - 1)), &p.rows);
    if (status != NBX_OK || p.indices.count == 0) return status;
    p.dtype = grad->dtype, p.width = p.rows.width, p.out = (char *)nbx_data(out);
    p.size = out->shape[0], p.columns = out->shape[1], p.step = grad->stride[grad->rank - 1] * p.width;
    p.out_row = out->stride[0] * p.width, p.out_column = out->stride[1] * p.width;
    p.padding = arg_int(c, 3), p.by_frequency = arg_bool(c, 4);
    p.fault = nbx_cuda_fault_slot(c, &p.op);
    const int64_t count = p.indices.count;
    uint64_t *keys = (uint64_t *)((char *)c->scratch + nbx_device_sort_bytes(1, count));
    gradient_keys<<<flat_blocks(count), FLAT_THREADS, 0, stream_of(c)>>>(p, keys);
    key_rows k = {};
    k.rows.data = (char *)keys, k.rows.dtype = NBX_UINT64, k.rows.width = 8, k.rows.count = 1;
    k.along.count = count, k.along.rank = 1, k.along.shape[0] = count, k.along.stride[0] = 8;
    status = nbx_cuda_sort_rows(c, &k, c->scratch, &sorted);
    if (status != NBX_OK || p.columns == 0) return status == NBX_OK ? launch_status(c) : status;
    const dim3 grid((unsigned)count, flat_blocks(p.columns));
    const nbx_dtype d = (nbx_dtype)grad->dtype;
    if (nbx_dtype_is_complex(d)) add_gradients<cdouble><<<grid, FLAT_THREADS, 0, stream_of(c)>>>(p, sorted);
    else if (nbx_dtype_is_integral(d, true)) add_gradients<int64_t><<<grid, FLAT_THREADS, 0, stream_of(c)>>>(p, sorted);
    else if (d == NBX_FLOAT64) add_gradients<double><<<grid, FLAT_THREADS, 0, stream_of(c)>>>(p, sorted);
    else add_gradients<float><<<grid, FLAT_THREADS, 0, stream_of(c)>>>(p, sorted);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::embedding_dense_backward", dense_backward_cuda)

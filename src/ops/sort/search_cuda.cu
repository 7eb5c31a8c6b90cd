// searchsorted, bucketize and isin on CUDA: a thread searches for one value. isin sorts the test elements first.
#include "ops/elementwise/engine.cuh"
#include "ops/sort/keys.cuh"

// An element in the dtype that two operands have in common: bytes of that dtype in room.
static __device__ __noinline__ void to_common(int common, int own, const char *p, void *room) {
    const bool integral = common == NBX_BOOL || common == NBX_UINT8 || common == NBX_UINT16 || common == NBX_UINT32 || common == NBX_UINT64 ||
                          common == NBX_INT8 || common == NBX_INT16 || common == NBX_INT32 || common == NBX_INT64;
    if (integral) ewc_store<int64_t>(common, room, ewc_load<int64_t>(own, p));
    else ewc_store<double>(common, room, ewc_load<double>(own, p));
}

typedef struct search_call {
    flat sequence, values, sorter, out;  // sequence and sorter: over the rows
    int64_t length, step, sorter_step, per_row;
    int common, own;                     // dtypes: in common, of the values
    double number[2];                    // the value when values.data is NULL
    bool right, sorted, by_rows;
    nbx_fault_slot *fault;
    int op;
} search_call;

// Is x before the place of v? Integers of all dtypes but uint64 fit int64, floats double.
template <typename C> static __device__ __forceinline__ int64_t find(const search_call &p, const char *row, const char *sorter, C v, bool is_unsigned) {
    int64_t low = 0, high = p.length;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2, at = sorter ? *(const int64_t *)(sorter + middle * p.sorter_step) : middle;
        if (at < 0 || at >= p.length) {
            raise_fault(p.fault, p.op, NBX_FAULT_INDEX, at, p.length);
            return 0;
        }
        const char *from = row + at * p.step;
        double room[2];
        if (p.sequence.dtype != p.common) {
            to_common(p.common, p.sequence.dtype, from, room);
            from = (const char *)room;
        }
        const C x = ewc_load<C>(p.common, from);
        const bool greater = is_unsigned ? (uint64_t)x > (uint64_t)v : x > v;
        if (p.right ? !greater : !(greater || x == v)) low = middle + 1;
        else high = middle;
    }
    return low;
}

template <typename C> static __global__ void __launch_bounds__(FLAT_THREADS) search_values(const __grid_constant__ search_call p) {
    const int64_t item = flat_item();
    if (item >= p.out.count) return;
    const int64_t line = p.by_rows ? item / p.per_row : 0;
    double room[2];
    to_common(p.common, p.own, p.values.data ? flat_at(p.values, item) : (const char *)p.number, room);
    const char *row = flat_at(p.sequence, line), *sorter = p.sorted ? flat_at(p.sorter, line) : NULL;
    ewc_store<int64_t>(p.out.dtype, flat_at(p.out, item), find<C>(p, row, sorter, ewc_load<C>(p.common, room), p.common == NBX_UINT64));
}

static __global__ void __launch_bounds__(FLAT_THREADS) check_sorter(const __grid_constant__ flat sorter, int64_t length, nbx_fault_slot *fault, int op) {
    const int64_t item = flat_item();
    if (item >= sorter.count) return;
    const int64_t at = *(const int64_t *)flat_at(sorter, item);
    if (at < 0 || at >= length) raise_fault(fault, op, NBX_FAULT_INDEX, at, length);
}

static nbx_status rows_of(nbx_op_call *c, const nbx_tensor *t, flat *rows, int64_t *step) {  // along the last dim
    *step = t->stride[t->rank - 1] * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype);
    return flat_of_dims(c, t, ~((uint64_t)1 << (t->rank - 1)), rows);
}

static nbx_status search_cuda(nbx_op_call *c) {
    nbx_search s = {};
    search_call p = {};
    const nbx_tensor *out = out_get(c, 0);
    if (out->numel == 0) return NBX_OK;
    nbx_status status = nbx_search_plan(c, &s);
    if (status == NBX_OK) status = flat_of(c, out, &p.out);
    if (status == NBX_OK) status = rows_of(c, s.sequence, &p.sequence, &p.step);
    if (status == NBX_OK && s.values) status = flat_of(c, s.values, &p.values);
    if (status == NBX_OK && s.sorter) status = rows_of(c, s.sorter, &p.sorter, &p.sorter_step);
    if (status != NBX_OK) return status;
    p.length = s.length, p.per_row = s.per_row, p.by_rows = s.sequence->rank > 1;
    p.common = s.common, p.own = s.values ? (nbx_dtype)s.values->dtype : s.scalar_dtype;
    p.right = s.right, p.sorted = s.sorter != NULL;
    p.fault = nbx_cuda_fault_slot(c, &p.op);
    if (s.scalar) ew_store_number(s.scalar_dtype, p.number, s.scalar);
    if (s.sorter && s.sorter->numel) {
        flat all;
        status = flat_of(c, s.sorter, &all);
        if (status != NBX_OK) return status;
        check_sorter<<<flat_blocks(all.count), FLAT_THREADS, 0, stream_of(c)>>>(all, p.length, p.fault, p.op);
    }
    const unsigned blocks = flat_blocks(p.out.count);
    if (nbx_dtype_is_integral(s.common, true)) search_values<int64_t><<<blocks, FLAT_THREADS, 0, stream_of(c)>>>(p);
    else search_values<double><<<blocks, FLAT_THREADS, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

// ------------------------------------------------------------------------------------------------------------------ isin
typedef struct isin_call {
    flat elements, out;
    int common, own;
    double number[2], test[2];  // the element, or the only test, when a number
    const uint64_t *keys;       // sorted, of the tests
    int64_t count;
    bool invert;
} isin_call;

static __global__ void __launch_bounds__(FLAT_THREADS) test_keys(const __grid_constant__ flat tests, int common, uint64_t *keys) {
    const int64_t item = flat_item();
    double room[2];
    if (item >= tests.count) return;
    to_common(common, tests.dtype, flat_at(tests, item), room);
    keys[item] = key_of(common, (const char *)room);
}

static __device__ __forceinline__ bool is_nan_key(int common, uint64_t key) {
    const bool wide = common == NBX_FLOAT64, single = common == NBX_FLOAT32, half = common == NBX_FLOAT16 || common == NBX_BFLOAT16;
    return (wide && key == ~(uint64_t)0) || (single && key == 0xffffffffu) || (half && key == 0xffffu);
}

static __global__ void __launch_bounds__(FLAT_THREADS) find_elements(const __grid_constant__ isin_call p) {
    const int64_t item = flat_item();
    if (item >= p.out.count) return;
    double room[2];
    to_common(p.common, p.own, p.elements.data ? flat_at(p.elements, item) : (const char *)p.number, room);
    const uint64_t key = key_of(p.common, (const char *)room);
    bool found = false;
    if (!p.keys) {
        found = key_of(p.common, (const char *)p.test) == key;
    } else {
        int64_t low = 0, high = p.count;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (p.keys[middle] < key) low = middle + 1;
            else high = middle;
        }
        found = low < p.count && p.keys[low] == key;
    }
    *(uint8_t *)flat_at(p.out, item) = (found && !is_nan_key(p.common, key)) != p.invert;
}

static nbx_status isin_cuda(nbx_op_call *c) {
    nbx_membership m = {};
    isin_call p = {};
    const nbx_tensor *out = out_get(c, 0);
    if (out->numel == 0) return NBX_OK;
    nbx_status status = nbx_membership_plan(c, &m);
    if (status == NBX_OK) status = flat_of(c, out, &p.out);
    if (status == NBX_OK && m.elements) status = flat_of(c, m.elements, &p.elements);
    if (status != NBX_OK) return status;
    p.common = m.common, p.own = m.elements ? (nbx_dtype)m.elements->dtype : m.scalar_dtype;
    p.invert = m.invert;
    if (!m.elements) ew_store_number(m.scalar_dtype, p.number, m.scalar);
    cudaStream_t stream = stream_of(c);
    if (!m.tests) {
        ew_store_number(m.common, p.test, m.scalar);
    } else {
        // keys of the tests are sorted as uint64: the whole width, whatever the dtype
        flat tests;
        key_rows k = {};
        sorted_rows sorted;
        status = flat_of(c, m.tests, &tests);
        if (status != NBX_OK) return status;
        const int64_t count = tests.count;
        uint64_t *keys = (uint64_t *)((char *)c->scratch + nbx_device_sort_bytes(1, count));
        if (count) test_keys<<<flat_blocks(count), FLAT_THREADS, 0, stream>>>(tests, m.common, keys);
        k.rows.data = (char *)keys, k.rows.dtype = NBX_UINT64, k.rows.width = 8, k.rows.count = 1;
        k.along.count = count, k.along.rank = 1, k.along.shape[0] = count, k.along.stride[0] = 8;
        status = nbx_cuda_sort_rows(c, &k, c->scratch, &sorted);
        if (status != NBX_OK) return status;
        p.keys = sorted.keys, p.count = count;
    }
    find_elements<<<flat_blocks(p.out.count), FLAT_THREADS, 0, stream>>>(p);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::searchsorted.Tensor", search_cuda)
NBX_CUDA_KERNEL("aten::searchsorted.Scalar", search_cuda)
NBX_CUDA_KERNEL("aten::bucketize.Tensor", search_cuda)
NBX_CUDA_KERNEL("aten::bucketize.Scalar", search_cuda)
NBX_CUDA_KERNEL("aten::isin.Tensor_Tensor", isin_cuda)
NBX_CUDA_KERNEL("aten::isin.Tensor_Scalar", isin_cuda)
NBX_CUDA_KERNEL("aten::isin.Scalar_Tensor", isin_cuda)

// How a GPU works, for the authors of CUDA kernels: launches, streams, faults, registration.
//
// A kernel of an operator is `nbx_status softmax_cuda(nbx_op_call *c)`: host code that launches on the call's stream and
// returns launch_status(c). It reads arguments as on the CPU; nbx_data() gives device addresses; c->scratch is device
// memory. It does not synchronise and does not allocate. One line registers it under the name of the operator's row:
//     NBX_CUDA_KERNEL("aten::_softmax", softmax_cuda)
// For a composite row whose code reads data, the function registered here takes the composite's place on CUDA: it may
// allocate with nbx_new, set results with out_tensor and read back with nbx_tensor_read.
#ifndef NBX_CUDA_CUDA_H
#define NBX_CUDA_CUDA_H

#include "core/memory.h"
#include "ops/host.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

typedef struct nbx_cuda_row {
    const char *name;
    nbx_op_fn kernel;
    struct nbx_cuda_row *next;
} nbx_cuda_row;

void nbx_cuda_register(nbx_cuda_row *row);

#define NBX_CUDA_JOIN_(a, b) a##b
#define NBX_CUDA_JOIN(a, b) NBX_CUDA_JOIN_(a, b)
// FUNCTION may be a template with several arguments.
#define NBX_CUDA_KERNEL(NAME, ...)                                                                                \
    static nbx_cuda_row NBX_CUDA_JOIN(row_, __LINE__) = {NAME, __VA_ARGS__, NULL};                                        \
    __attribute__((constructor)) static void NBX_CUDA_JOIN(register_, __LINE__)(void) {                                \
        nbx_cuda_register(&NBX_CUDA_JOIN(row_, __LINE__));                                                             \
    }

// Facts of a device, read once.
typedef struct nbx_cuda_facts {
    char name[128];
    int sm_count, threads_per_sm, capability;  // 90 for 9.0
    size_t shared_bytes;       // a block may opt in to
    size_t l2_bytes, memory_bytes;
} nbx_cuda_facts;
const nbx_cuda_facts *nbx_cuda_device_facts(int index);

static inline cudaStream_t stream_of(const nbx_op_call *c) { return (cudaStream_t)c->stream; }

// The status of the launches just made on this thread.
nbx_status nbx_cuda_status(nbx_op_call *c, cudaError_t error);
static inline nbx_status launch_status(nbx_op_call *c) { return nbx_cuda_status(c, cudaPeekAtLastError()); }

#ifdef __CUDACC__
// Lets blocks of KERNEL use `bytes` of dynamic shared memory: asked once a device.
template <auto KERNEL> static inline void shared_limit(int bytes) {
    static uint64_t asked;
    int device = 0;
    cudaGetDevice(&device);
    const uint64_t bit = device < 64 ? (uint64_t)1 << device : 0;
    if (__atomic_load_n(&asked, __ATOMIC_ACQUIRE) & bit) return;
    if (cudaFuncSetAttribute(KERNEL, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) == cudaSuccess)
        __atomic_fetch_or(&asked, bit, __ATOMIC_RELEASE);
}
#endif

// A fault word per stream: kernels store a code, the host reports it at the next observation with the operator's name.
//   word 0: fault code (0 none), word 1: the operator's number, words 2-3: the offending value (int64)
enum { NBX_FAULT_INDEX = 1, NBX_FAULT_ASSERT = 2, NBX_FAULT_DIVISION = 3 };
struct nbx_fault_slot {
    int code, op;
    long long value, limit;
};
// Device address of the slot of the call's stream, and the number to store in `op` for this call.
nbx_fault_slot *nbx_cuda_fault_slot(nbx_op_call *c, int *op_number);

#ifdef __CUDACC__
// n / by of numbers that are not negative: in 32 bits where they fit, a fifth of the instructions.
static __device__ __forceinline__ int64_t quotient_of(int64_t n, int64_t by) {
    return (uint64_t)(n | by) >> 32 ? n / by : (int64_t)((uint32_t)n / (uint32_t)by);
}

static __device__ __forceinline__ void raise_fault(nbx_fault_slot *slot, int op, int code, long long value, long long limit) {
    if (atomicCAS(&slot->code, 0, code) == 0) {
        slot->op = op;
        slot->value = value;
        slot->limit = limit;
    }
}
#endif

// Streams and memory, used by backend.cu.
nbx_status nbx_cuda_alloc(nbx_context *ctx, nbx_storage *storage);
void nbx_cuda_forget_stream(int index, cudaStream_t stream);  // a stream ends: its cached blocks go back to the driver

// Copies, broadcast and cast, between tensors of the call's device; fills a call's result with one element (copy_cuda.cu).
nbx_status nbx_cuda_copy(nbx_op_call *c, const nbx_tensor *to, const nbx_tensor *from);
nbx_status nbx_cuda_fill(nbx_op_call *c, const nbx_value *number, const nbx_tensor *value);
// Sets bytes by a kernel: graphs are made of kernels only.
nbx_status nbx_cuda_set_bytes(nbx_op_call *c, void *to, int byte, size_t bytes);

// A product of matrices on the device (product_cuda.cu).
nbx_status nbx_cuda_product(nbx_op_call *c, const nbx_product *p);

// A descriptor of device memory for a plan: neither owned nor kept.
struct device_view {
    nbx_storage storage;
    int64_t shape[NBX_MAX_RANK], stride[NBX_MAX_RANK];
    alignas(nbx_tensor) char memory[sizeof(nbx_tensor)];
};
static inline const nbx_tensor *view_of(device_view *v, void *data, nbx_dtype dtype, int rank) {  // shape and stride are set
    v->storage.data = data;
    v->storage.device.type = NBX_CUDA;
    nbx_tensor *t = (nbx_tensor *)v->memory;
    t->storage = &v->storage;
    t->dtype = (uint8_t)dtype;
    t->wrapped = t->contiguous = t->dense = false;
    t->rank = (int16_t)rank;
    t->offset = 0;
    t->shape = v->shape;
    t->stride = v->stride;
    t->numel = 1;
    for (int d = 0; d < rank; d++) t->numel *= v->shape[d];
    return t;
}

// An absent element of a Tensor?[] argument, or an absent optional.
extern "C" bool nbx_tensor_absent(const nbx_tensor *t);

#endif

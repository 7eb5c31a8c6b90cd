// Assertions on CUDA: an element of zero writes the stream's fault.
#include "ops/elementwise/engine.cuh"

static __global__ void assert_true(const void *x, int dtype, nbx_fault_slot *fault, int op) {
    if (!ewc_truth(ewc_load<cdouble>(dtype, x))) raise_fault(fault, op, NBX_FAULT_ASSERT, 0, 0);
}

static nbx_status assert_cuda(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int op;
    nbx_fault_slot *fault = nbx_cuda_fault_slot(c, &op);
    assert_true<<<1, 1, 0, stream_of(c)>>>(nbx_data(x), x->dtype, fault, op);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::_assert_async", assert_cuda)
NBX_CUDA_KERNEL("aten::_assert_async.msg", assert_cuda)

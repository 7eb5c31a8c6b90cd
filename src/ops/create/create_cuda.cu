// Factories on CUDA: one element everywhere.
#include "cuda/cuda.h"

static nbx_status nothing_cuda(nbx_op_call *) { return NBX_OK; }
static nbx_status zeros_cuda(nbx_op_call *c) {
    const nbx_value zero = nbx_of_int(0);
    return nbx_cuda_fill(c, &zero, NULL);
}
static nbx_status ones_cuda(nbx_op_call *c) {
    const nbx_value one = nbx_of_int(1);
    return nbx_cuda_fill(c, &one, NULL);
}
template <int ARG> static nbx_status full_cuda(nbx_op_call *c) { return nbx_cuda_fill(c, &c->args[ARG], NULL); }

NBX_CUDA_KERNEL("aten::zeros", zeros_cuda)
NBX_CUDA_KERNEL("aten::ones", ones_cuda)
NBX_CUDA_KERNEL("aten::full", full_cuda<1>)
NBX_CUDA_KERNEL("aten::empty.memory_format", nothing_cuda)
NBX_CUDA_KERNEL("aten::empty_strided", nothing_cuda)
NBX_CUDA_KERNEL("aten::empty_permuted", nothing_cuda)
NBX_CUDA_KERNEL("aten::empty_like", nothing_cuda)
NBX_CUDA_KERNEL("aten::zeros_like", zeros_cuda)
NBX_CUDA_KERNEL("aten::ones_like", ones_cuda)
NBX_CUDA_KERNEL("aten::full_like", full_cuda<1>)
NBX_CUDA_KERNEL("aten::new_empty", nothing_cuda)
NBX_CUDA_KERNEL("aten::new_zeros", zeros_cuda)
NBX_CUDA_KERNEL("aten::new_ones", ones_cuda)
NBX_CUDA_KERNEL("aten::new_full", full_cuda<2>)
NBX_CUDA_KERNEL("aten::new_empty_strided", nothing_cuda)
NBX_CUDA_KERNEL("aten::scalar_tensor", full_cuda<0>)

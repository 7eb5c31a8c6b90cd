// Clusters (sm_90): neighbouring blocks of a grid that run at the same time and write into each other's shared memory. A row
// that is too long for one block is held by a cluster in shared memory, where bulk copies put it, so that it is read once; blocks
// are small enough for three a multiprocessor, of which one computes while others load and store. Measured for group_norm of 503 MB
// of float32 on an H200: 261 us; held in registers, two blocks a multiprocessor: 356; clusters that stay, and fetch their next row
// meanwhile: 430.
#ifndef NBX_CUDA_CLUSTER_CUH
#define NBX_CUDA_CLUSTER_CUH

#include "cuda/cuda.h"

// Beside __launch_bounds__: blocks of the kernel come in clusters of N. Portable code has none.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define NBX_CLUSTER(N) __cluster_dims__(N, 1, 1)
#else
#define NBX_CLUSTER(N)
#endif

// Whether the code of a kernel that a device runs was compiled with clusters, asked once per device: room holds what is known.
enum { CLUSTER_DEVICES = 64 };
static inline bool clusters_known(int (&room)[CLUSTER_DEVICES], int device, const void *kernel) {
    if (device < 0 || device >= CLUSTER_DEVICES) return false;
    if (room[device] == 0) {
        cudaFuncAttributes facts;
        const cudaError_t error = cudaFuncGetAttributes(&facts, kernel);
        if (error != cudaSuccess) cudaGetLastError();
        room[device] = error == cudaSuccess && facts.requiredClusterWidth > 0 ? 2 : 1;
    }
    return room[device] == 2;
}

static __device__ __forceinline__ void cluster_arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
static __device__ __forceinline__ void cluster_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Puts a number where `own` is in the shared memory of a block of the cluster.
static __device__ __forceinline__ void cluster_store(float *own, int block, float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"((uint32_t)__cvta_generic_to_shared(own)), "r"(block));
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
#else
    if (block == 0) *own = value;
#endif
}

// A slice of a row in shared memory: `count` words of 16 bytes, copied in PARTS parts of which each arrives on a barrier.
enum { SLICE_PARTS = 4, SLICE_BYTES = 73 * 1024 };  // three such blocks fit a multiprocessor
static __device__ __forceinline__ int slice_part(int count) { return (count + SLICE_PARTS - 1) / SLICE_PARTS; }

// By one thread; then the block meets.
static __device__ __forceinline__ void fetch_slice(uint4 *to, uint64_t *arrived, const uint4 *from, int count) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const int part = slice_part(count);
    for (int k = 0; k < SLICE_PARTS; k++) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"((uint32_t)__cvta_generic_to_shared(&arrived[k])) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int k = 0; k < SLICE_PARTS; k++) {
        const uint32_t barrier = (uint32_t)__cvta_generic_to_shared(&arrived[k]);
        const int begin = k * part, left = count - begin < part ? count - begin : part;
        const uint32_t bytes = left > 0 ? left * 16 : 0;
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
        if (bytes)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"((uint32_t)__cvta_generic_to_shared(to + begin)),
                         "l"(from + begin), "r"(bytes), "r"(barrier)
                         : "memory");
    }
#endif
}

// f(i) for every word of a slice, by THREADS threads: the first time as the parts arrive.
template <int THREADS, typename F> static __device__ __forceinline__ void first_over_slice(uint64_t *arrived, int count, F f) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    const int part = slice_part(count);
    for (int k = 0; k < SLICE_PARTS; k++) {
        asm volatile("{\n.reg .pred there;\nagain:\nmbarrier.try_wait.parity.shared.b64 there, [%0], 0;\n@!there bra again;\n}" ::"r"((uint32_t)__cvta_generic_to_shared(&arrived[k])) : "memory");
        const int end = (k + 1) * part < count ? (k + 1) * part : count;
#pragma unroll 4
        for (int i = k * part + (int)threadIdx.x; i < end; i += THREADS) f(i);
    }
#endif
}
template <int THREADS, typename F> static __device__ __forceinline__ void over_slice(int count, F f) {
#pragma unroll 4
    for (int i = (int)threadIdx.x; i < count; i += THREADS) f(i);
}

#endif

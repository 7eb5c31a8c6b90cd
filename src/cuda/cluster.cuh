// Clusters (sm_90): neighbouring blocks of a grid that run at the same time and write into each other's shared memory. A row
// that is too long for one block is held by a cluster in registers, so that it is read once. (Clusters that stay, and fetch their
// next row into shared memory meanwhile, were slower: 430 against 356 us for group_norm of 503 MB of float32 on an H200.)
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

// Keeps 16 bytes as they are: else the compiler remembers what they were widened to, in twice the registers.
static __device__ __forceinline__ void stay_packed(uint4 &w) { asm volatile("" : "+r"(w.x), "+r"(w.y), "+r"(w.z), "+r"(w.w)); }

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

#endif

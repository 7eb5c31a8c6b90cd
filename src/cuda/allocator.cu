// Device memory: a caching allocator, stream-ordered. A freed block may be used again at once by the stream that used it,
// since work on one stream runs in order; other streams never get it. Sizes are rounded to 512 bytes below 1 MiB and to
// 1/8 of the power of two above, so a run's few sizes meet again. cudaMalloc costs ~100 us, a block from the list ~50 ns.
#include "cuda/cuda.h"

#include <pthread.h>
#include <stdint.h>

enum { DEVICES = 64, CLASSES = 512 };

typedef struct block {
    struct block *next;
    void *data;
    size_t bytes;
    cudaStream_t stream;
    int device;
} block;

static struct {
    block *free_list[CLASSES];
    size_t held, used, peak;  // bytes taken from the driver; given out; largest given out
} devices[DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Threads stay on a device: asking for it is cheaper than setting it.
static void use_device(int device) {
    int current = -1;
    if (cudaGetDevice(&current) != cudaSuccess || current != device) cudaSetDevice(device);
}

static size_t rounded(size_t bytes) {
    if (bytes < (size_t)1 << 20) return (bytes + 511) & ~(size_t)511;
    const size_t step = ((size_t)1 << (63 - __builtin_clzll(bytes))) >> 3;
    return (bytes + step - 1) / step * step;
}

static int class_of(size_t bytes) {  // of a rounded size; equal sizes share a class, others rarely
    const int top = 63 - __builtin_clzll(bytes);
    return (int)((top * 8 + (int)(bytes >> (top > 3 ? top - 3 : 0) & 7)) % CLASSES);
}

static block *take(int device, size_t bytes, cudaStream_t stream) {
    for (block **at = &devices[device].free_list[class_of(bytes)]; *at; at = &(*at)->next)
        if ((*at)->bytes == bytes && (*at)->stream == stream) {
            block *b = *at;
            *at = b->next;
            return b;
        }
    return NULL;
}

// Gives cached blocks of a device back to the driver: all, or those of one stream. Call with the lock held.
static void trim(int device, cudaStream_t stream, bool all) {
    cudaDeviceSynchronize();
    for (int k = 0; k < CLASSES; k++)
        for (block **at = &devices[device].free_list[k]; *at;) {
            block *b = *at;
            if (!all && b->stream != stream) {
                at = &b->next;
                continue;
            }
            *at = b->next;
            cudaFree(b->data);
            devices[device].held -= b->bytes;
            nbx_free(b);
        }
}

static nbx_status refuse(nbx_context *ctx, int device, size_t bytes) {
    size_t free_bytes = 0, total = 0;
    cudaMemGetInfo(&free_bytes, &total);
    return nbx_fail(ctx, NBX_ERROR_MEMORY, "out of memory on cuda:%d: %zu bytes asked, %zu free of %zu, %zu held by tensors, %zu cached",
             device, bytes, free_bytes, total, devices[device].used, devices[device].held - devices[device].used);
}

static block *from_driver(int device, size_t bytes) {
    block *b = (block *)nbx_alloc(sizeof *b);
    if (!b) return NULL;
    cudaError_t error = cudaMalloc(&b->data, bytes);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        trim(device, 0, true);
        error = cudaMalloc(&b->data, bytes);
    }
    if (error != cudaSuccess) {
        cudaGetLastError();
        nbx_free(b);
        return NULL;
    }
    devices[device].held += bytes;
    return b;
}

static void release(nbx_storage *storage) {
    block *b = (block *)storage->owner;
    pthread_mutex_lock(&lock);
    const int k = class_of(b->bytes);
    devices[b->device].used -= b->bytes;
    b->next = devices[b->device].free_list[k];
    devices[b->device].free_list[k] = b;
    pthread_mutex_unlock(&lock);
}

nbx_status nbx_cuda_alloc(nbx_context *ctx, nbx_storage *storage) {
    const int device = storage->device.index;
    const size_t need = rounded(storage->bytes);
    cudaStream_t stream = (cudaStream_t)ctx->stream;
    const nbx_cuda_facts *facts = nbx_cuda_device_facts(device);
    if (!facts || need < storage->bytes || need > facts->memory_bytes)
        return nbx_fail(ctx, NBX_ERROR_MEMORY, "%zu bytes on cuda:%d: more than the device holds (%zu)", storage->bytes, device,
                        facts ? facts->memory_bytes : 0);
    use_device(device);
    pthread_mutex_lock(&lock);
    block *b = take(device, need, stream);
    if (!b) b = from_driver(device, need);
    if (b) {
        b->bytes = need;
        b->stream = stream;
        b->device = device;
        devices[device].used += need;
        if (devices[device].used > devices[device].peak) devices[device].peak = devices[device].used;
        storage->data = b->data;
        storage->owner = b;
        storage->release = release;
    }
    pthread_mutex_unlock(&lock);
    return b ? NBX_OK : refuse(ctx, device, storage->bytes);
}

void nbx_cuda_forget_stream(int device, cudaStream_t stream) {
    cudaSetDevice(device);
    pthread_mutex_lock(&lock);
    trim(device, stream, false);
    pthread_mutex_unlock(&lock);
}

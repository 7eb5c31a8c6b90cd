// The CUDA backend: devices, streams, copies, faults, the list of kernels.
#include "cuda/cuda.h"
#include "cuda/graph.h"

#include <pthread.h>
#include <string.h>

bool nbx_cuda_take_host(const nbx_host *table);

// ------------------------------------------------------------------------------------------------------------- kernels
static nbx_cuda_row *kernels;  // filled by constructors while the library loads, read only later

void nbx_cuda_register(nbx_cuda_row *row) {
    row->next = kernels;
    kernels = row;
}

static nbx_op_fn find_kernel(const char *name) {  // the registry asks once per operator and remembers
    for (const nbx_cuda_row *row = kernels; row; row = row->next)
        if (strcmp(row->name, name) == 0) return row->kernel;
    return NULL;
}

// ------------------------------------------------------------------------------------------------------------- devices
enum { DEVICES = 64 };
static nbx_cuda_facts facts[DEVICES];
static int device_count;

const nbx_cuda_facts *nbx_cuda_device_facts(int index) { return index >= 0 && index < device_count ? &facts[index] : NULL; }

static void read_facts(int index) {
    cudaDeviceProp p;
    if (cudaGetDeviceProperties(&p, index) != cudaSuccess) return;
    nbx_cuda_facts *f = &facts[index];
    memcpy(f->name, p.name, sizeof f->name - 1);
    f->sm_count = p.multiProcessorCount;
    f->threads_per_sm = p.maxThreadsPerMultiProcessor;
    f->capability = p.major * 10 + p.minor;
    f->shared_bytes = p.sharedMemPerBlockOptin;
    f->l2_bytes = (size_t)p.l2CacheSize;
    f->memory_bytes = p.totalGlobalMem;
}

// --------------------------------------------------------------------------------------------------- errors and faults
nbx_status nbx_cuda_status(nbx_op_call *c, cudaError_t error) {
    if (error == cudaSuccess) return NBX_OK;
    cudaGetLastError();
    const nbx_status status = error == cudaErrorMemoryAllocation ? NBX_ERROR_MEMORY : NBX_ERROR_DEVICE;
    return nbx_call_fail(c, status, "CUDA: %s", cudaGetErrorString(error));
}

static nbx_status failed(nbx_context *ctx, const char *what, cudaError_t error) {
    if (error == cudaSuccess) return NBX_OK;
    cudaGetLastError();
    return nbx_fail(ctx, NBX_ERROR_DEVICE, "CUDA: %s: %s", what, cudaGetErrorString(error));
}

// What a context keeps for its stream. ctx->stream is the stream itself; the slot is found by it.
typedef struct stream_state {
    struct stream_state *next;
    cudaStream_t stream;
    int device;
    nbx_fault_slot *slot;  // mapped host memory: kernels write it, the host reads it after a synchronize
    const char *ops[1024]; // names by the number a kernel was given
    unsigned op_count;
} stream_state;

static stream_state *streams;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned streams_changed;  // how often the list did

// A thread mostly asks for the stream it asked for before.
static stream_state *state_of(cudaStream_t stream) {
    static thread_local struct { cudaStream_t stream; stream_state *state; unsigned changed; } last;
    const unsigned changed = __atomic_load_n(&streams_changed, __ATOMIC_ACQUIRE);
    if (last.state && last.stream == stream && last.changed == changed) return last.state;
    pthread_mutex_lock(&streams_lock);
    stream_state *s = streams;
    while (s && s->stream != stream) s = s->next;
    last.stream = stream, last.state = s, last.changed = streams_changed;
    pthread_mutex_unlock(&streams_lock);
    return s;
}

nbx_fault_slot *nbx_cuda_fault_slot(nbx_op_call *c, int *op_number) {
    stream_state *s = state_of(stream_of(c));
    *op_number = 0;
    if (!s) return NULL;
    const unsigned n = s->op_count;
    for (unsigned i = 0; i < n && i < 1024; i++)
        if (s->ops[i] == c->op->name) {
            *op_number = (int)i;
            return s->slot;
        }
    s->ops[n % 1024] = c->op->name;
    *op_number = (int)(n % 1024);
    s->op_count = n + 1;
    return s->slot;
}

static nbx_status report_fault(nbx_context *ctx, stream_state *s) {
    if (!s || s->slot->code == 0) return NBX_OK;
    const nbx_fault_slot fault = *s->slot;
    memset(s->slot, 0, sizeof *s->slot);
    const char *op = s->ops[fault.op & 1023] ? s->ops[fault.op & 1023] : "a kernel";
    if (fault.code == NBX_FAULT_INDEX)
        return nbx_fail(ctx, NBX_ERROR_INDEX, "%s: index %lld is out of range for size %lld", op, fault.value, fault.limit);
    if (fault.code == NBX_FAULT_DIVISION) return nbx_fail(ctx, NBX_ERROR_ARGUMENT, "%s: integer division by zero", op);
    return nbx_fail(ctx, NBX_ERROR_ASSERT, "%s: assertion failed on the device", op);
}

static nbx_status synchronize(nbx_context *ctx) {
    const nbx_status status = failed(ctx, "synchronize", cudaStreamSynchronize((cudaStream_t)ctx->stream));
    return status == NBX_OK ? report_fault(ctx, state_of((cudaStream_t)ctx->stream)) : status;
}

// -------------------------------------------------------------------------------------------------------------- streams
static nbx_status open_context(nbx_context *ctx) {
    stream_state *s = (stream_state *)nbx_alloc(sizeof *s);
    if (!s) return nbx_fail(ctx, NBX_ERROR_MEMORY, "out of memory: %zu bytes for a stream", sizeof *s);
    memset(s, 0, sizeof *s);
    s->device = ctx->device.index;
    cudaError_t error = cudaSetDevice(s->device);
    if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess) error = cudaHostAlloc((void **)&s->slot, sizeof *s->slot, cudaHostAllocMapped | cudaHostAllocPortable);
    if (error != cudaSuccess) {
        if (s->stream) cudaStreamDestroy(s->stream);
        nbx_free(s);
        return failed(ctx, "open a stream", error);
    }
    memset(s->slot, 0, sizeof *s->slot);
    ctx->stream = s->stream;
    pthread_mutex_lock(&streams_lock);
    s->next = streams;
    streams = s;
    __atomic_add_fetch(&streams_changed, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&streams_lock);
    return NBX_OK;
}

static void close_context(nbx_context *ctx) {
    pthread_mutex_lock(&streams_lock);
    stream_state **at = &streams;
    while (*at && (*at)->stream != (cudaStream_t)ctx->stream) at = &(*at)->next;
    stream_state *s = *at;
    if (s) *at = s->next;
    __atomic_add_fetch(&streams_changed, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&streams_lock);
    if (!s) return;
    cudaStreamSynchronize(s->stream);
    nbx_cuda_forget_stream(s->device, s->stream);
    cudaStreamDestroy(s->stream);
    cudaFreeHost(s->slot);
    nbx_free(s);
    ctx->stream = NULL;
}

// --------------------------------------------------------------------------------------------------------------- copies
static nbx_status copy(nbx_context *ctx, nbx_device to_device, void *to, nbx_device from_device, const void *from, size_t bytes) {
    cudaStream_t stream = (cudaStream_t)ctx->stream;
    const bool to_host = to_device.type == NBX_CPU, from_host = from_device.type == NBX_CPU;
    cudaError_t error;
    if (!to_host && !from_host && to_device.index != from_device.index)
        error = cudaMemcpyPeerAsync(to, to_device.index, from, from_device.index, bytes, stream);
    else
        error = cudaMemcpyAsync(to, from, bytes, to_host ? cudaMemcpyDeviceToHost : from_host ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice, stream);
    if (error != cudaSuccess) return failed(ctx, "copy", error);
    return to_host || from_host ? synchronize(ctx) : NBX_OK;
}

static bool reaches(nbx_device device, const void *data) {
    cudaPointerAttributes facts;
    cudaSetDevice(device.index);
    if (cudaPointerGetAttributes(&facts, data) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    return facts.type != cudaMemoryTypeUnregistered && facts.devicePointer;
}

static nbx_status fill(nbx_context *ctx, int, void *to, int byte, size_t bytes) {
    return failed(ctx, "fill", cudaMemsetAsync(to, byte, bytes, (cudaStream_t)ctx->stream));
}

// --------------------------------------------------------------------------------------------------------------- timers
typedef struct timer {
    int count;
    cudaEvent_t *events;
} timer;

static void timer_destroy(void *at) {
    timer *t = (timer *)at;
    for (int i = 0; t->events && i < t->count; i++)
        if (t->events[i]) cudaEventDestroy(t->events[i]);
    nbx_free(t->events);
    nbx_free(t);
}

static void *timer_create(nbx_context *ctx, int stamps) {
    timer *t = (timer *)nbx_alloc_zero(sizeof *t);
    if (t) t->events = (cudaEvent_t *)nbx_alloc_zero(sizeof *t->events * (size_t)(stamps + 1));
    cudaError_t error = t && t->events ? cudaSuccess : cudaErrorMemoryAllocation;
    if (t) t->count = stamps;
    for (int i = 0; i < stamps && error == cudaSuccess; i++) error = cudaEventCreate(&t->events[i]);
    if (error == cudaSuccess) return t;
    if (t) timer_destroy(t);
    failed(ctx, "timer", error);
    return NULL;
}

static nbx_status timer_stamp(nbx_context *ctx, void *at, int stamp) {
    return failed(ctx, "timer", cudaEventRecord(((timer *)at)->events[stamp], (cudaStream_t)ctx->stream));
}

static double timer_seconds(void *at, int from, int to) {
    float milliseconds = 0;
    const timer *t = (const timer *)at;
    return cudaEventElapsedTime(&milliseconds, t->events[from], t->events[to]) == cudaSuccess ? 1e-3 * (double)milliseconds : 0;
}

// ---------------------------------------------------------------------------------------------------------------- entry
static nbx_backend backend;

const nbx_backend *nbx_cuda_backend(const nbx_host *host) {
    if (!nbx_cuda_take_host(host)) return NULL;
    const cudaError_t error = cudaGetDeviceCount(&device_count);  // no driver, one older than this CUDA, no GPU
    if (error != cudaSuccess) {
        cudaGetLastError();
        device_count = 0;
        backend.problem = cudaGetErrorString(error);
    }
    if (device_count > DEVICES) device_count = DEVICES;
    for (int i = 0; i < device_count; i++) read_facts(i);
    backend.device_count = device_count;
    backend.alloc = nbx_cuda_alloc;
    backend.copy = copy;
    backend.fill = fill;
    backend.synchronize = synchronize;
    backend.reaches = reaches;
    backend.open = open_context;
    backend.close = close_context;
    backend.kernel = find_kernel;
    backend.graph_stand_in = nbx_cuda_graph_stand_in;
    backend.graph_create = nbx_cuda_graph_create;
    backend.graph_launch = nbx_cuda_graph_launch;
    backend.graph_destroy = nbx_cuda_graph_destroy;
    backend.timer_create = timer_create;
    backend.timer_stamp = timer_stamp;
    backend.timer_seconds = timer_seconds;
    backend.timer_destroy = timer_destroy;
    backend.has_float64 = true;
    backend.capability = device_count ? facts[0].capability : 0;
    return &backend;
}

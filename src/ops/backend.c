// Backends: libnbx_cuda.so is opened on first use, from beside this library or program, or where the system's loader
// finds it, and is handed the functions it calls back.
#include "core/memory.h"
#include "ops/host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const nbx_backend *cuda;
static const char *cuda_problem;  // why it is NULL
static pthread_once_t cuda_once = PTHREAD_ONCE_INIT;

static nbx_status nbx_fail_text(nbx_context *ctx, nbx_status status, const char *text) { return nbx_fail(ctx, status, "%s", text); }
static nbx_status nbx_call_fail_text(nbx_op_call *c, nbx_status status, const char *text) { return nbx_call_fail(c, status, "%s", text); }
static bool nbx_tensor_absent(const nbx_tensor *t) { return !t || nbx_is_none(t); }

static const nbx_host host = {
    .abi = NBX_HOST_ABI,
#define NBX_HOST(type, name, params, args) .name = name,
#include "ops/host.def"
#undef NBX_HOST
};

static void *open_beside_us(const char *file) {
    Dl_info here;
    char path[4096];
    const char *slash = dladdr((const void *)&host, &here) && here.dli_fname ? strrchr(here.dli_fname, '/') : NULL;
    if (!slash) return NULL;
    const int length = snprintf(path, sizeof path, "%.*s/%s", (int)(slash - here.dli_fname), here.dli_fname, file);
    return length > 0 && (size_t)length < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

static void open_cuda(void) {
    void *library = open_beside_us("libnbx_cuda.so");
    if (!library) library = dlopen("libnbx_cuda.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) library = dlopen("libnbx_cuda.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        cuda_problem = "libnbx_cuda.so is not beside libnbx, nor where the system's loader looks";
        return;
    }
    nbx_backend_entry entry;
    *(void **)&entry = dlsym(library, "nbx_cuda_backend");
    if (entry) cuda = entry(&host);
    if (!cuda) cuda_problem = "libnbx_cuda.so belongs to another version of libnbx";
}

const nbx_backend *nbx_backend_library(int device_type) {
    if (device_type != NBX_CUDA) return NULL;
    pthread_once(&cuda_once, open_cuda);
    return cuda;
}

const nbx_backend *nbx_backend_of(int device_type) {
    const nbx_backend *backend = nbx_backend_library(device_type);
    return backend && backend->device_count > 0 ? backend : NULL;
}

const char *nbx_backend_problem(int device_type) {
    const nbx_backend *backend = nbx_backend_library(device_type);
    if (!backend) return device_type == NBX_CUDA ? cuda_problem : "there is no library for such devices";
    return backend->device_count > 0 ? NULL : backend->problem ? backend->problem : "the driver finds no GPU";
}

nbx_status nbx_copy_bytes(nbx_context *ctx, nbx_device to_device, void *to, nbx_device from_device, const void *from,
                          size_t bytes) {
    if (bytes == 0) return NBX_OK;
    if (to_device.type == NBX_CPU && from_device.type == NBX_CPU) {
        memcpy(to, from, bytes);
        return NBX_OK;
    }
    const int type = to_device.type == NBX_CPU ? from_device.type : to_device.type;
    const nbx_backend *backend = nbx_backend_of(type);
    if (!backend) return nbx_fail(ctx, NBX_ERROR_DEVICE, "copy of %zu bytes: no CUDA device is available", bytes);
    return backend->copy(ctx, to_device, to, from_device, from, bytes);
}

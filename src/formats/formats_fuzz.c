// Fuzz target: files of tensors (safetensors, npy, npz) read from memory, and every tensor they give touched.
#include "formats/tensor_set.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(nbx_context *ctx, const nbx_tensors *set) {
    volatile unsigned char sum = 0;
    for (size_t i = 0; i < nbx_tensors_count(set); i++) {
        const nbx_tensor *t = nbx_tensors_at(ctx, set, i);
        const unsigned char *bytes = t ? nbx_tensor_data(t) : NULL;
        for (size_t k = 0; bytes && k < nbx_tensor_nbytes(t); k++) sum = (unsigned char)(sum + bytes[k]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static nbx_context *ctx;
    const nbx_options options = {.threads = 1};
    if (!ctx) ctx = nbx_context_create(&options);
    const nbx_scope scope = nbx_scope_open(ctx);
    nbx_bytes *file = nbx_bytes_create(ctx, size, "fuzz");
    nbx_tensors *set = NULL;
    if (file && size) memcpy(file->data, data, size);
    if (file && !nbx_tensors_read(ctx, "fuzz", file, &set)) touch(ctx, set);
    nbx_tensors_destroy(set);
    nbx_bytes_release(file);
    nbx_scope_close(ctx, scope, NULL);
    nbx_clear_error(ctx);
    return 0;
}

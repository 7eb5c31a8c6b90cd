// Fuzz target: the ZIP reader. Every entry's bytes are read, and every entry is found by its name.
#include <stdlib.h>

#include "program/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static nbx_context *ctx;
    const nbx_options options = {.threads = 1};
    if (!ctx) ctx = nbx_context_create(&options);
    nbx_zip *zip = nbx_zip_open(ctx, "fuzz", data, size);
    for (size_t i = 0; zip && i < nbx_zip_count(zip); i++) {
        const nbx_zip_entry *entry = nbx_zip_at(zip, i);
        if (nbx_zip_find(zip, entry->name) != entry) abort();
        volatile uint32_t sum = entry->data ? nbx_crc32(entry->data, (size_t)entry->stored_bytes) : 0;
        (void)sum;
    }
    nbx_zip_close(zip);
    nbx_clear_error(ctx);
    return 0;
}

// Contexts: creation, the last error, devices.
#include "core/context.h"
#include "core/memory.h"
#include "cpu/isa.h"
#include "cpu/pool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *nbx_version(void) {
    return TEXT(NBX_VERSION_MAJOR) "." TEXT(NBX_VERSION_MINOR) "." TEXT(NBX_VERSION_PATCH);
}

const char *nbx_status_text(nbx_status status) {
    static const char *const texts[] = {
#define NBX_STATUS(ENUM, text) [NBX_##ENUM] = text,
#include "core/status.def"
#undef NBX_STATUS
    };
    return (unsigned)status < sizeof texts / sizeof *texts ? texts[status] : "unknown status";
}

bool nbx_device_parse(const char *text, nbx_device *device) {
    if (!text) return false;
    int index = 0, used = 0;
    if (strcmp(text, "cpu") == 0 || strcmp(text, "cpu:0") == 0) {
        *device = (nbx_device){NBX_CPU, 0};
        return true;
    }
    if (strcmp(text, "cuda") == 0) {
        *device = (nbx_device){NBX_CUDA, 0};
        return true;
    }
    if (sscanf(text, "cuda:%d%n", &index, &used) == 1 && text[used] == 0 && index >= 0 && index < 256) {
        *device = (nbx_device){NBX_CUDA, (int16_t)index};
        return true;
    }
    return false;
}

int nbx_device_count(nbx_device_type type) {
    if (type == NBX_CPU) return 1;
    const nbx_backend *backend = nbx_backend_of((int)type);
    return backend ? backend->device_count : 0;
}

const char *nbx_device_problem(nbx_device device) {
    if (device.type == NBX_CPU) return NULL;
    if (device.type != NBX_CUDA) return "a device of no known type";
    const char *problem = nbx_backend_problem(device.type);
    if (problem) return problem;
    return device.index >= 0 && device.index < nbx_device_count(NBX_CUDA) ? NULL : "there is no GPU of this index";
}

nbx_context *nbx_context_create(const nbx_options *options) {
    static const nbx_options defaults = {0};
    if (!options) options = &defaults;
    nbx_context *ctx = nbx_alloc_zero(sizeof *ctx);
    if (!ctx) return NULL;
    ctx->device = options->device;
    ctx->allow_tf32 = options->allow_tf32;
    ctx->account = nbx_account_create(options->memory_ceiling);
    if (!ctx->account) goto failed;
    const nbx_isa best = nbx_isa_best();
    const int wanted = options->isa ? (int)nbx_isa_parse(options->isa) : (int)best;
    ctx->isa = wanted >= 0 && wanted < (int)best ? wanted : (int)best;
    ctx->threads = options->threads > 0 ? options->threads : nbx_cpu_count();
    if (ctx->threads > 1) ctx->pool = nbx_pool_create(ctx->threads);
    if (ctx->threads > 1 && !ctx->pool) goto failed;
    if (ctx->device.type != NBX_CPU) {
        const nbx_backend *backend = nbx_backend_of(ctx->device.type);
        if (!backend || ctx->device.index < 0 || ctx->device.index >= backend->device_count || backend->open(ctx) != NBX_OK) goto failed;
    }
    return ctx;
failed:
    nbx_context_destroy(ctx);
    return NULL;
}

void nbx_context_destroy(nbx_context *ctx) {
    if (!ctx) return;
    nbx_scope_close(ctx, (nbx_scope){0}, NULL);
    if (ctx->device.type != NBX_CPU && ctx->stream) nbx_backend_of(ctx->device.type)->close(ctx);
    nbx_pool_destroy(ctx->pool);
    if (ctx->generator) ctx->destroy_generator(ctx->generator);
    if (ctx->fft_cache) ctx->destroy_fft_cache(ctx->fft_cache);
    nbx_account_release(ctx->account);
    nbx_free(ctx->owned);
    nbx_free(ctx->blocks);
    nbx_free(ctx);
}

nbx_status nbx_fail(nbx_context *ctx, nbx_status status, const char *format, ...) {
    if (ctx->status != NBX_OK) return ctx->status;
    ctx->status = status;
    va_list list;
    va_start(list, format);
    vsnprintf(ctx->message, sizeof ctx->message, format, list);
    va_end(list);
    return status;
}

void nbx_fail_prefix(nbx_context *ctx, const char *format, ...) {
    char old[sizeof ctx->message];
    memcpy(old, ctx->message, sizeof old);
    va_list list;
    va_start(list, format);
    const int used = vsnprintf(ctx->message, sizeof ctx->message, format, list);
    va_end(list);
    if (used >= 0 && (size_t)used < sizeof ctx->message)
        snprintf(ctx->message + used, sizeof ctx->message - (size_t)used, "%s", old);
}

nbx_status nbx_fail_memory(nbx_context *ctx, size_t bytes, const char *what) {
    return nbx_fail(ctx, NBX_ERROR_MEMORY, "out of memory: %zu bytes for a %s (%zu bytes held by this context)", bytes, what,
                    __atomic_load_n(&ctx->account->held_bytes, __ATOMIC_RELAXED));
}

nbx_status nbx_last_status(const nbx_context *ctx) { return ctx->status; }
const char *nbx_last_message(const nbx_context *ctx) { return ctx->status == NBX_OK ? "" : ctx->message; }
nbx_device nbx_context_device(const nbx_context *ctx) { return ctx->device; }
int nbx_context_threads(const nbx_context *ctx) { return ctx->threads; }

void nbx_clear_error(nbx_context *ctx) {
    ctx->status = NBX_OK;
    ctx->message[0] = 0;
}

const char *nbx_context_isa(const nbx_context *ctx) {
    static const char *const names[] = {"baseline", "avx2", "avx512"};
    return names[ctx->isa];
}

nbx_status nbx_synchronize(nbx_context *ctx) {
    return ctx->device.type == NBX_CPU ? ctx->status : nbx_backend_of(ctx->device.type)->synchronize(ctx);
}

// Mapped files and blocks with shared ownership.
#include "formats/bytes.h"

#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static nbx_bytes *bytes_new(nbx_context *ctx) {
    nbx_bytes *bytes = nbx_alloc_zero(sizeof *bytes);
    if (bytes) bytes->refs = 1;
    else nbx_fail_memory(ctx, sizeof *bytes, "a file");
    return bytes;
}

// Pipes and devices have no size and cannot be mapped; they are refused, like folders.
static bool map_file(nbx_context *ctx, int file, const char *path, nbx_bytes *bytes) {
    struct stat facts;
    if (fstat(file, &facts)) {
        nbx_fail(ctx, NBX_ERROR_IO, "%s: %s", path, strerror(errno));
        return false;
    }
    if (!S_ISREG(facts.st_mode)) {
        nbx_fail(ctx, NBX_ERROR_IO, "%s: not a regular file", path);
        return false;
    }
    bytes->mapped = true;
    if (!facts.st_size) return true;
    void *data = mmap(NULL, (size_t)facts.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
    if (data == MAP_FAILED) {
        nbx_fail(ctx, errno == ENOMEM ? NBX_ERROR_MEMORY : NBX_ERROR_IO, "%s: cannot be mapped: %s", path, strerror(errno));
        return false;
    }
    bytes->data = data;
    bytes->count = (size_t)facts.st_size;
    return true;
}

nbx_bytes *nbx_bytes_map(nbx_context *ctx, const char *path) {
    nbx_bytes *bytes = bytes_new(ctx);
    if (!bytes) return NULL;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // else a pipe without a writer is waited for
    if (file < 0) {
        nbx_fail(ctx, NBX_ERROR_IO, "%s: %s", path, strerror(errno));
        nbx_bytes_release(bytes);
        return NULL;
    }
    const bool ok = map_file(ctx, file, path, bytes);
    close(file);
    if (ok) return bytes;
    nbx_bytes_release(bytes);
    return NULL;
}

nbx_bytes *nbx_bytes_create(nbx_context *ctx, size_t count, const char *what) {
    nbx_bytes *bytes = bytes_new(ctx);
    if (!bytes || !count) return bytes;
    bytes->data = nbx_alloc_aligned(64, count);
    if (!bytes->data) {
        nbx_fail_memory(ctx, count, what);
        nbx_bytes_release(bytes);
        return NULL;
    }
    bytes->count = count;
    return bytes;
}

nbx_bytes *nbx_bytes_borrow(nbx_context *ctx, const void *data, size_t count) {
    nbx_bytes *bytes = bytes_new(ctx);
    if (!bytes) return NULL;
    bytes->borrowed = true;
    bytes->data = (char *)(uintptr_t)data;
    bytes->count = count;
    return bytes;
}

void nbx_bytes_rest(nbx_bytes *bytes) {
    if (bytes->mapped && bytes->data) (void)madvise(bytes->data, bytes->count, MADV_DONTNEED);
}

void nbx_bytes_rest_part(nbx_bytes *bytes, const void *data, size_t count) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)data + page - 1) / page * page,
                    end = ((uintptr_t)data + count) / page * page;
    if (bytes->mapped && begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

nbx_bytes *nbx_bytes_retain(nbx_bytes *bytes) {
    __atomic_add_fetch(&bytes->refs, 1, __ATOMIC_RELAXED);
    return bytes;
}

void nbx_bytes_release(nbx_bytes *bytes) {
    if (!bytes || __atomic_sub_fetch(&bytes->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (!bytes->mapped && !bytes->borrowed) nbx_free(bytes->data);
    else if (bytes->mapped && bytes->data) munmap(bytes->data, bytes->count);
    nbx_free(bytes);
}

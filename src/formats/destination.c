// Where a file is written: beside its place, and moved there when it is complete.
#include "formats/destination.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Devices, pipes, links to nowhere and what must not be written are left to fopen.
static bool can_be_replaced(const char *path, const struct stat *facts) { return S_ISREG(facts->st_mode) && access(path, W_OK) == 0; }

static bool name_beside(nbx_destination *d, const char *path) {
    static unsigned number;
    const unsigned mine = __atomic_add_fetch(&number, 1, __ATOMIC_RELAXED);
    if (!realpath(path, d->place) && snprintf(d->place, sizeof d->place, "%s", path) >= (int)sizeof d->place) return false;
    return snprintf(d->beside, sizeof d->beside, "%s.%ld.%u", d->place, (long)getpid(), mine) < (int)sizeof d->beside;
}

static FILE *open_beside(nbx_destination *d, const char *path) {
    struct stat facts;
    const bool exists = lstat(path, &facts) == 0;
    if (exists && (stat(path, &facts) || !can_be_replaced(path, &facts))) return NULL;
    if (!name_beside(d, path)) return NULL;
    const int handle = open(d->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (handle < 0) return NULL;
    FILE *file = !exists || fchmod(handle, facts.st_mode & 07777) == 0 ? fdopen(handle, "wb") : NULL;
    if (file) return file;
    close(handle);
    unlink(d->beside);
    return NULL;
}

bool nbx_destination_open(nbx_destination *d, const char *path) {
    d->file = open_beside(d, path);
    if (d->file) return true;
    d->beside[0] = 0;
    d->file = fopen(path, "wbe");
    return d->file != NULL;
}

nbx_status nbx_destination_close(nbx_context *ctx, nbx_destination *d, const char *path, nbx_status status) {
    if (fclose(d->file) && !status) status = nbx_fail(ctx, NBX_ERROR_IO, "%s: %s", path, strerror(errno));
    if (!d->beside[0]) return status;
    if (!status && rename(d->beside, d->place)) status = nbx_fail(ctx, NBX_ERROR_IO, "%s: %s", path, strerror(errno));
    if (status) unlink(d->beside);
    return status;
}

// A file that appears in its place when it is complete. What is written may lie in the very file, mapped, and cutting that off
// would end every process that reads it; and a full disk leaves the old file as it was.
#ifndef NBX_FORMATS_DESTINATION_H
#define NBX_FORMATS_DESTINATION_H

#include <limits.h>
#include <stdio.h>

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nbx_destination {
    char place[PATH_MAX];   // links followed
    char beside[PATH_MAX];  // "": written in place
    FILE *file;
} nbx_destination;

// false: errno says why.
bool nbx_destination_open(nbx_destination *d, const char *path);
// Closes the file; with status NBX_OK it takes its place, else it is removed. Returns that status, or IO with a message.
nbx_status nbx_destination_close(nbx_context *ctx, nbx_destination *d, const char *path, nbx_status status);

#ifdef __cplusplus
}
#endif
#endif

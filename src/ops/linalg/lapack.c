// Opens LAPACK once for the process and fills the table.
#include "ops/linalg/lapack.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static nbx_lapack table;
static bool complete;
static char problem[256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

// BLAS comes with LAPACK: dlsym also looks into what the library was linked with.
static bool fill(void *library, const char *real_name, const char *complex_name, void *field) {
    for (int type = 0; type < 4; type++) {
        const char *name = type < LAPACK_C ? real_name : complex_name;
        char symbol[16];
        if (!*name) continue;
        snprintf(symbol, sizeof symbol, "%c%s_", "sdcz"[type], name);
        void *found = dlsym(library, symbol);
        if (!found) {
            snprintf(problem, sizeof problem, "the LAPACK library has no %s", symbol);
            return false;
        }
        memcpy((char *)field + (size_t)type * sizeof found, &found, sizeof found);
    }
    return true;
}

static void open_lapack(void) {
    static const char *const names[] = {"liblapack.so.3", "libopenblas.so.0", "liblapack.so", "libopenblas.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(problem, sizeof problem, "needs LAPACK: install the Debian package liblapack3 or libopenblas0");
        return;
    }
#define NBX_LAPACK(field, real_name, complex_name, params)                                                             \
    if (!fill(library, real_name, complex_name, table.field)) return;
#include "ops/linalg/lapack.def"
#undef NBX_LAPACK
    complete = true;
}

const nbx_lapack *nbx_lapack_of(nbx_op_call *c) {
    pthread_once(&once, open_lapack);
    if (complete) return &table;
    nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "%s", problem);
    return NULL;
}

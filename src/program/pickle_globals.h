// Between the two halves of the pickle reader: the machine (pickle.c) and the functions it imitates (pickle_globals.c).
#ifndef NBX_PROGRAM_PICKLE_GLOBALS_H
#define NBX_PROGRAM_PICKLE_GLOBALS_H

#include "program/pickle.h"

typedef struct nbx_unpickler {
    nbx_context *ctx;
    nbx_arena *arena;
    const char *label;
    const uint8_t *begin, *at, *end;
    nbx_pickled **stack;
    size_t count, stack_capacity;
    size_t *marks;
    size_t mark_count, mark_capacity;
    nbx_pickled **memo;
    size_t memo_count, memo_capacity;
} nbx_unpickler;

nbx_pickled *nbx_pickle_new(nbx_unpickler *u, nbx_pickle_kind kind);  // NULL: fails the context
// What calling a global with a tuple of arguments gives. NULL: fails the context, naming the global.
nbx_pickled *nbx_pickle_call(nbx_unpickler *u, const nbx_pickled *function, const nbx_pickled *args);
// The storage that a persistent id stands for.
nbx_pickled *nbx_pickle_storage(nbx_unpickler *u, const nbx_pickled *id);

#endif

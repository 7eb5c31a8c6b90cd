// Memory of a loaded program that lives and dies as one: a list of blocks, filled from the front. And a map from names to
// numbers in it, for the tables of values, weights and symbols.
#ifndef NBX_PROGRAM_ARENA_H
#define NBX_PROGRAM_ARENA_H

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nbx_arena_block nbx_arena_block;
typedef struct nbx_arena {
    nbx_arena_block *blocks;
    size_t bytes;  // handed out so far
} nbx_arena;       // starts zeroed

// Zeroed memory, aligned to 16 bytes. NULL: fails ctx.
void *nbx_arena_alloc(nbx_context *ctx, nbx_arena *arena, size_t bytes);
// count x size, checked for overflow.
void *nbx_arena_array(nbx_context *ctx, nbx_arena *arena, size_t count, size_t size);
// A copy of length bytes with a zero behind them.
char *nbx_arena_text(nbx_context *ctx, nbx_arena *arena, const char *text, size_t length);
void nbx_arena_free(nbx_arena *arena);

typedef struct nbx_name_map {
    const char **names;  // [capacity], NULL: free
    int32_t *values;
    uint32_t capacity, count;
} nbx_name_map;          // starts zeroed; lives in an arena (growing leaves the old table behind)

// Adds a name (which must outlive the map). *value: set to `fresh` and true returned if it is new; else the value it has.
// Fails ctx with MEMORY, which the caller sees by its status.
typedef enum nbx_added { NBX_ADDED_NEW, NBX_ADDED_BEFORE, NBX_ADDED_FAILED } nbx_added;
nbx_added nbx_name_add(nbx_context *ctx, nbx_arena *arena, nbx_name_map *map, const char *name, int32_t fresh, int32_t *value);
int32_t nbx_name_find(const nbx_name_map *map, const char *name);  // -1: none

#ifdef __cplusplus
}
#endif
#endif

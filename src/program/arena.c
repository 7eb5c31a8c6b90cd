// Blocks double up to 1 MiB: a program of 20 nodes takes 8 KiB, one of 10 000 some 4 MiB in a few blocks.
#include "program/arena.h"

#include <string.h>

#include "core/memory.h"

enum { FIRST_BLOCK = 8192, LARGEST_BLOCK = 1 << 20 };

struct nbx_arena_block {
    nbx_arena_block *next;
    size_t used, size;
    _Alignas(16) char bytes[];
};

void *nbx_arena_alloc(nbx_context *ctx, nbx_arena *arena, size_t bytes) {
    nbx_arena_block *block = arena->blocks;
    if (bytes > SIZE_MAX / 2) return nbx_fail_memory(ctx, bytes, "a program"), NULL;
    bytes = (bytes + 15) & ~(size_t)15;
    if (!block || block->size - block->used < bytes) {
        size_t size = block ? block->size * 2 : FIRST_BLOCK;
        if (size > LARGEST_BLOCK) size = LARGEST_BLOCK;
        if (size < bytes) size = bytes;
        block = nbx_alloc_zero(sizeof *block + size);
        if (!block) return nbx_fail_memory(ctx, size, "a program"), NULL;
        block->next = arena->blocks;
        block->size = size;
        arena->blocks = block;
    }
    void *result = block->bytes + block->used;
    block->used += bytes;
    arena->bytes += bytes;
    return result;
}

void *nbx_arena_array(nbx_context *ctx, nbx_arena *arena, size_t count, size_t size) {
    if (count > SIZE_MAX / 2 / size) return nbx_fail_memory(ctx, SIZE_MAX, "a program"), NULL;
    return nbx_arena_alloc(ctx, arena, count * size);
}

char *nbx_arena_text(nbx_context *ctx, nbx_arena *arena, const char *text, size_t length) {
    char *copy = nbx_arena_alloc(ctx, arena, length + 1);
    if (copy) memcpy(copy, text, length);
    return copy;
}

void nbx_arena_free(nbx_arena *arena) {
    for (nbx_arena_block *block = arena->blocks, *next; block; block = next) {
        next = block->next;
        nbx_free(block);
    }
    memset(arena, 0, sizeof *arena);
}

// -------------------------------------------------------------------------------------------------------------- names
static uint32_t hash_name(const char *name) {
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    return h ^ h >> 15;
}

// The slot of a name, or the free one where it would go.
static uint32_t slot_of(const nbx_name_map *map, const char *name) {
    uint32_t slot = hash_name(name) & (map->capacity - 1);
    while (map->names[slot] && strcmp(map->names[slot], name) != 0) slot = (slot + 1) & (map->capacity - 1);
    return slot;
}

static bool grow(nbx_context *ctx, nbx_arena *arena, nbx_name_map *map) {
    nbx_name_map bigger = {NULL, NULL, map->capacity ? map->capacity * 2 : 32, map->count};
    bigger.names = nbx_arena_array(ctx, arena, bigger.capacity, sizeof *bigger.names);
    bigger.values = nbx_arena_array(ctx, arena, bigger.capacity, sizeof *bigger.values);
    if (!bigger.names || !bigger.values) return false;
    for (uint32_t i = 0; i < map->capacity; i++) {
        if (!map->names[i]) continue;
        const uint32_t slot = slot_of(&bigger, map->names[i]);
        bigger.names[slot] = map->names[i];
        bigger.values[slot] = map->values[i];
    }
    *map = bigger;
    return true;
}

nbx_added nbx_name_add(nbx_context *ctx, nbx_arena *arena, nbx_name_map *map, const char *name, int32_t fresh, int32_t *value) {
    if (map->count * 2 >= map->capacity && !grow(ctx, arena, map)) return NBX_ADDED_FAILED;
    const uint32_t slot = slot_of(map, name);
    if (map->names[slot]) return *value = map->values[slot], NBX_ADDED_BEFORE;
    map->names[slot] = name;
    map->values[slot] = *value = fresh;
    map->count++;
    return NBX_ADDED_NEW;
}

int32_t nbx_name_find(const nbx_name_map *map, const char *name) {
    if (!map->count) return -1;
    const uint32_t slot = slot_of(map, name);
    return map->names[slot] ? map->values[slot] : -1;
}

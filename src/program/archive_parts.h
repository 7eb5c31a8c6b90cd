// What archive.c (where things lie) and store.c (the tensors) share.
#ifndef NBX_PROGRAM_ARCHIVE_PARTS_H
#define NBX_PROGRAM_ARCHIVE_PARTS_H

#include "program/archive.h"
#include "program/zip.h"

typedef struct nbx_archive_model {
    const char *name;
    const nbx_zip_entry *text;        // the program's JSON
    const nbx_zip_entry *config[2];   // layout C: weights, constants; NULL: none
    const nbx_zip_entry *pickled[2];  // layouts A and B
    const nbx_zip_entry *samples;
} nbx_archive_model;

struct nbx_archive {
    nbx_bytes *bytes;
    nbx_arena arena;
    const char *label;
    const char *top;                  // "NAME/" of the top folder, "" in layout A
    nbx_zip *zip;
    nbx_archive_model *models;
    int model_count;
};

// Joins four parts of a path. NULL: fails ctx.
const char *nbx_archive_path(nbx_context *ctx, nbx_arena *arena, const char *top, const char *folder, const char *name,
                             const char *suffix);
// The entry TOP/folder/name+suffix; NULL: none, or *failed is set.
const nbx_zip_entry *nbx_archive_find(nbx_context *ctx, nbx_archive *archive, const char *folder, const char *name,
                                      const char *suffix, bool *failed);

#endif

// Archives and exported programs made in memory, for tests and measurements. Running out of memory ends the process.
#ifndef NBX_TESTS_MAKER_H
#define NBX_TESTS_MAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---------------------------------------------------------------------------------------------------------------- text
typedef struct maker_text {
    char *bytes;  // with a zero behind them
    size_t count, capacity;
} maker_text;     // starts zeroed

__attribute__((__format__(__printf__, 2, 3))) void maker_add(maker_text *t, const char *format, ...);
void maker_add_bytes(maker_text *t, const void *bytes, size_t count);
void maker_free(maker_text *t);
// A whole file; bytes is NULL when it cannot be read.
maker_text maker_read(const char *path);
bool maker_write(const char *path, const void *bytes, size_t count);

// ----------------------------------------------------------------------------------------------------------------- ZIP
typedef struct zip_maker {
    maker_text file, directory;
    int entries;
} zip_maker;  // starts zeroed

// A stored entry whose data starts at a multiple of 64, as PyTorch writes them.
void zip_maker_add(zip_maker *z, const char *name, const void *bytes, size_t count);
// The archive is then z->file.
void zip_maker_finish(zip_maker *z);

// ------------------------------------------------------------------------------------------------------------ programs
// An archive of layout C. dtype is a program's number: 7 float32, 5 int64. sizes: "2,3"; "" is a 0-dim tensor; a size that is
// no number is a symbol: "s0,3".
typedef struct program_maker {
    zip_maker zip;
    maker_text inputs, outputs, nodes, metas, input_specs, output_specs, config, ranges;
    int weights;
} program_maker;  // starts zeroed

void program_maker_input(program_maker *m, const char *name, int dtype, const char *sizes);
// A parameter, and its bytes. stride NULL: contiguous.
void program_maker_weight(program_maker *m, const char *name, int dtype, const char *sizes, const void *bytes, size_t count);
// results: "y" or "a b c"; "[a b]" is one Tensor[]. arguments: "self=x other=w dim=-1 eps=0.5 keepdim=true size=[1,2]
// tensors=(x,y) mode=\"mean\"": integers, floats (with a point), bools, lists of integers, lists of tensors, text, names of values.
void program_maker_node(program_maker *m, const char *target, const char *results, const char *arguments);
void program_maker_output(program_maker *m, const char *name, int dtype, const char *sizes);
// A buffer that is written into, as run_decompositions writes it: the output `name` is the new contents of weight `buffer`.
void program_maker_mutation(program_maker *m, const char *name, const char *buffer, int dtype, const char *sizes);
// The archive; everything else is freed.
maker_text program_maker_finish(program_maker *m);

#endif

// Weights in the forms that kernels want (nbx_packing in ops/op.h): made when a plan runs for the second time, so that neither
// loading nor a single run pays, and kept by the program, so that all plans and sessions share them. Their originals, if they
// lie in the mapped file, go back to the page cache: who still reads them reads them from there.
#ifndef NBX_PROGRAM_PACKED_H
#define NBX_PROGRAM_PACKED_H

#include <pthread.h>

#include "ops/record.h"

typedef struct nbx_packed_weight {
    const nbx_packing *packing;
    int isa;
    nbx_packed_form form;     // form.weight counts for its storage only, of which the list has a reference
    nbx_storage *of, *made;
} nbx_packed_weight;

typedef struct nbx_packed_weights {
    pthread_mutex_t lock;
    nbx_packed_weight *list;
    int count, capacity;
    size_t bytes;             // of what is made
} nbx_packed_weights;

bool nbx_packed_open(nbx_packed_weights *w);
void nbx_packed_close(nbx_packed_weights *w);  // after nbx_packed_open only

// Makes what is missing of the commands' weights as long as `room` bytes hold it all, and hands it to the commands. What cannot
// be made is left as it is: nothing fails.
void nbx_packed_use(nbx_context *ctx, nbx_packed_weights *w, nbx_recorder *r, size_t room);
// Bytes that the forms for a recording would take, and of mapped originals that nothing but them would then be read for.
void nbx_packed_measure(nbx_recorder *r, size_t *bytes, size_t *spared);

#endif

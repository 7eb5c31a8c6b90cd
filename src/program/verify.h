// NBX_VERIFY_REPLAY=1: every replay of a plan is compared with a run without one, byte for byte.
#ifndef NBX_PROGRAM_VERIFY_H
#define NBX_PROGRAM_VERIFY_H

#include "program/program_parts.h"

// One way to run: gives one value for each result, tensors with a reference each.
typedef nbx_status (*nbx_verify_run)(void *arg, nbx_value *results);

// Replays, puts everything a run may write (places[count], and the default generator) back to what it was, and runs directly.
// results are the direct run's. Fails with INTERNAL when a result or a place differs in one byte, naming it.
nbx_status nbx_verify_replay(nbx_context *ctx, const nbx_program *p, nbx_storage *const *places, int count, nbx_verify_run replay,
                             nbx_verify_run direct, void *arg, nbx_value *results);

#endif

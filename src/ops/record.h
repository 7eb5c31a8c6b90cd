// Recordings: the flat list of kernel calls that a program made, kept to be run again.
//
// While ctx->recorder is set, the door gives results planned storages (no memory) and appends kernel calls here instead of
// making them. nbx_recorder_plan then gives every planned storage its place in one arena (lifetimes -> offsets), and
// nbx_recorder_replay walks the list.
#ifndef NBX_OPS_RECORD_H
#define NBX_OPS_RECORD_H

#include "ops/op.h"

typedef struct nbx_recorded_buffer {
    nbx_storage *storage;   // retained
    int first, last;        // indices of the commands that use it; last = command count: outlives the run
    size_t offset;          // in the arena
    const char *made_by;    // operator name, for messages
    bool exposed;           // not in the arena: whoever replays sets storage->data
    bool unused;            // no command touches it any more
} nbx_recorded_buffer;

struct nbx_recorder {
    nbx_op_call **commands;
    int command_count, command_capacity;
    int *scratch;            // [command]: buffer of its scratch memory, or -1
    int at;                  // command of a replay that runs, or failed
    nbx_recorded_buffer *buffers;
    int buffer_count, buffer_capacity;
    size_t arena_bytes;
    size_t unplanned_bytes;  // sum of all buffers: what a run without a plan would hold at most
    nbx_storage *arena;
    const char *dependent;   // the operator whose result depends on data, when recording stopped there
};

nbx_recorder *nbx_recorder_create(nbx_context *ctx);
void nbx_recorder_destroy(nbx_recorder *r);

// The door's side.
nbx_storage *nbx_recorder_storage(nbx_context *ctx, nbx_device device, size_t bytes, const char *made_by);
nbx_status nbx_recorder_append(nbx_context *ctx, const nbx_op_call *call);

// Visits the tensors of a recorded call: arguments, then results, then those of its epilogue.
void nbx_recorder_tensors(const nbx_op_call *call, void (*visit)(void *arg, const nbx_tensor *t), void *arg);

// Marks a storage as alive after the last command (outputs, state).
void nbx_recorder_keep(nbx_recorder *r, const nbx_storage *storage);
// Takes a storage out of the arena: its address is set before each replay (a caller's input, a result handed out).
void nbx_recorder_expose(nbx_recorder *r, const nbx_storage *storage);
// Places all buffers (no memory yet): fills arena_bytes.
nbx_status nbx_recorder_plan(nbx_context *ctx, nbx_recorder *r);
// Gives the arena memory, and every planned storage its address.
nbx_status nbx_recorder_bind(nbx_context *ctx, nbx_recorder *r);
// The same in an arena of at least arena_bytes at base (64-byte aligned) that several recordings share. May be repeated.
void nbx_recorder_bind_at(nbx_context *ctx, nbx_recorder *r, void *base);
// Runs the commands in order; stops at the first that fails.
nbx_status nbx_recorder_replay(nbx_context *ctx, nbx_recorder *r);

#endif

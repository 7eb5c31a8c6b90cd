// The archives torch.export.save has written since PyTorch 2.2: where the program, its tensors and its sample inputs lie.
//
//   layout  PyTorch     program                              tensors
//   A       2.2 - 2.7   serialized_exported_program.json     serialized_state_dict.pt, serialized_constants.pt (torch.save)
//   B       2.8         TOP/models/NAME.json                 TOP/data/weights/NAME.pt, TOP/data/constants/NAME.pt (torch.save)
//   C       since 2.9   TOP/models/NAME.json                 TOP/data/weights/NAME_weights_config.json and one file a storage
//
// Tensors are used where they lie in the mapped file if they are aligned there (B and C), else copied (A).
#ifndef NBX_PROGRAM_ARCHIVE_H
#define NBX_PROGRAM_ARCHIVE_H

#include "core/context.h"
#include "formats/bytes.h"
#include "program/arena.h"
#include "program/pickle.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nbx_archive nbx_archive;
typedef struct nbx_store nbx_store;

// Reads the directory of the archive in `bytes`, of which it takes a reference. NULL: fails ctx. Undone by nbx_archive_close.
nbx_archive *nbx_archive_open(nbx_context *ctx, const char *label, nbx_bytes *bytes);
void nbx_archive_close(nbx_archive *archive);  // NULL is fine

int nbx_archive_model_count(const nbx_archive *archive);
const char *nbx_archive_model_name(const nbx_archive *archive, int model);  // "model"
// The JSON text of a model, its checksum checked; not ended by zero.
NBX_MUST_CHECK nbx_status nbx_archive_model_text(nbx_context *ctx, const nbx_archive *archive, int model, const char **text,
                                                 size_t *bytes);

// The weights (constants false) or constants of a model: tensors by name. An archive without any gives an empty store.
// NULL: fails ctx. Undone by nbx_store_close, which the tensors it gave survive.
nbx_store *nbx_store_open(nbx_context *ctx, const nbx_archive *archive, int model, bool constants);
void nbx_store_close(nbx_store *store);
bool nbx_store_has(const nbx_store *store, const char *name);
// A new reference to a stored tensor on a device; tensors of one storage share memory. NULL: fails ctx.
nbx_tensor *nbx_store_tensor(nbx_context *ctx, nbx_store *store, const char *name, nbx_device device);
// Bytes of all storages that were taken, and how many of them lie in the file itself.
size_t nbx_store_bytes(const nbx_store *store, size_t *mapped);

// Of the storages of a store: whether it lies in the mapped file, and then giving its pages back to the page cache. Only for
// storages that nobody writes.
bool nbx_store_is_mapped(const nbx_storage *storage);
void nbx_store_rest(const nbx_storage *storage);

// The pickled pair (args tuple, kwargs dict) of a model's sample inputs, in `arena`; NULL without failure: there is none.
// Tensors in it are made by nbx_samples_tensor. *samples is closed by nbx_samples_close.
typedef struct nbx_samples nbx_samples;
nbx_samples *nbx_samples_open(nbx_context *ctx, const nbx_archive *archive, int model);
void nbx_samples_close(nbx_samples *samples);
const nbx_pickled *nbx_samples_root(const nbx_samples *samples);
nbx_tensor *nbx_samples_tensor(nbx_context *ctx, nbx_samples *samples, const nbx_pickled_tensor *t);

#ifdef __cplusplus
}
#endif
#endif

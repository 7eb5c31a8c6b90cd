// A reader of ZIP archives that lie in memory (a mapped file, or an entry of another archive). Nothing is copied or unpacked:
// an entry is a range of bytes. All bounds are checked when the archive is opened.
#ifndef NBX_PROGRAM_ZIP_H
#define NBX_PROGRAM_ZIP_H

#include "nbx/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nbx_zip nbx_zip;

typedef struct nbx_zip_entry {
    const char *name;       // ended by zero; has no zero byte inside
    const uint8_t *data;    // the stored bytes; NULL when there are none
    uint64_t stored_bytes;  // as they lie in the archive
    uint64_t bytes;         // unpacked; equal to stored_bytes for method 0
    uint32_t crc;           // CRC-32 of the unpacked bytes
    uint16_t method;        // 0 stored, 8 deflated, ...
} nbx_zip_entry;

// Reads the directory of an archive of size bytes at data, which must outlive the reader. ZIP64 is read. Refused (FORMAT):
// several disks, encryption, repeated or empty names, entries that overlap each other or the directory, or that lie outside.
// `label` names the archive in messages. Undone by nbx_zip_close.
nbx_zip *nbx_zip_open(nbx_context *ctx, const char *label, const void *data, size_t size);
void nbx_zip_close(nbx_zip *zip);  // NULL is fine

size_t nbx_zip_count(const nbx_zip *zip);
const nbx_zip_entry *nbx_zip_at(const nbx_zip *zip, size_t index);          // in the directory's order
const nbx_zip_entry *nbx_zip_find(const nbx_zip *zip, const char *name);    // NULL: none

// FORMAT unless the entry is stored and its bytes have its checksum. Reads all of it: meant for text and pickles, not weights.
NBX_MUST_CHECK nbx_status nbx_zip_check(nbx_context *ctx, const char *label, const nbx_zip_entry *entry);
uint32_t nbx_crc32(const void *data, size_t size);

#ifdef __cplusplus
}
#endif
#endif

/* append_file.h: files that only grow, to a length that the ledger records; bytes that a killed writer left beyond it
 * are cut off. */
#ifndef TRACK_APPEND_FILE_H
#define TRACK_APPEND_FILE_H

#include "base/error.h"

#include <stdint.h>

/* Appends at *length, syncs, and advances *length. Makes the file when *length is 0, and then syncs its directory's
 * entry. STATUS_CORRUPT: the file is longer, so somebody else wrote to it, and was left as it is; STATUS_NOT_FOUND: it
 * is shorter, or gone. */
MUST_CHECK enum status append_file_write(const char *path, int64_t *length, const void *bytes, size_t size,
                                         struct error *error);

/* Cuts the file to `length`; *found: it exists and was not shorter. */
MUST_CHECK enum status append_file_cut(const char *path, int64_t length, bool *found, struct error *error);

/* Syncs the file's directory, so that making or removing the file is durable. */
MUST_CHECK enum status append_file_sync_directory(const char *path, struct error *error);

#endif

/* append_file.h: files that only grow, to a length that the ledger knows: what a killed writer left beyond it is cut
 * off. */
#ifndef TRACK_APPEND_FILE_H
#define TRACK_APPEND_FILE_H

#include "base/error.h"

#include <stdint.h>

/* Appends at *length, syncs, and moves *length on. Makes the file where *length is 0, with its directory's entry
 * synced. STATUS_CORRUPT: the file has another length, so somebody else wrote to it. */
MUST_CHECK enum status append_file_write(const char *path, int64_t *length, const void *bytes, size_t size,
                                         struct error *error);

/* Cuts the file to `length`; *found: it is there and was not shorter. */
MUST_CHECK enum status append_file_cut(const char *path, int64_t length, bool *found, struct error *error);

/* Syncs the directory that the file is in: a file made or removed there stays so. */
MUST_CHECK enum status append_file_sync_directory(const char *path, struct error *error);

#endif

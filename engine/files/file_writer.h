/* file_writer.h: replaces a file atomically: readers see either the old file or the whole new one, also after a crash.
 * Writes a temporary file in the same directory, then fsync, rename, fsync of the directory. The process should ignore
 * SIGXFSZ. */
#ifndef FILES_FILE_WRITER_H
#define FILES_FILE_WRITER_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct file_writer;

/* Begins a new version of `path`: a temporary file (.deltaq-*.tmp) beside it, which takes its place at
 * file_writer_commit and is removed by file_writer_close otherwise. With `bytes` > 0 that much space is reserved, so
 * that a full disk is noticed at once. The caller owns *out. STATUS_DISK_FULL (also past a file size limit),
 * STATUS_NOT_FOUND (no such directory), STATUS_FORBIDDEN, STATUS_INVALID (no file name), STATUS_IO,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status file_writer_open(const char *path, int64_t bytes, struct file_writer **out, struct error *error);

/* Like file_writer_open, but the temporary file has a fixed name (.deltaq-NAME.part) and file_writer_close keeps it, so
 * that a later writer of this path can continue it. *found: a temporary or finished file of `bytes` bytes (> 0) exists
 * and is continued; otherwise a new one begins. A file that a living writer still has, or that has another link, is
 * copied first, so that nothing else is changed; that writer's commit then gives STATUS_CONFLICT. Statuses of
 * file_writer_open. */
MUST_CHECK enum status file_writer_take_up(const char *path, int64_t bytes, struct file_writer **out, bool *found,
                                           struct error *error);
/* For a writer of file_writer_take_up: reads bytes that were written; makes them durable in the temporary file.
 * STATUS_CORRUPT (beyond the end), STATUS_IO. */
MUST_CHECK enum status file_writer_read(const struct file_writer *writer, int64_t offset, void *bytes, size_t size,
                                        struct error *error);
MUST_CHECK enum status file_writer_sync(struct file_writer *writer, struct error *error);

/* Writes behind the last append, or at any offset. After STATUS_DISK_FULL or STATUS_IO the writer can only be
 * closed. */
MUST_CHECK enum status file_writer_append(struct file_writer *writer, const void *bytes, size_t size,
                                          struct error *error);
MUST_CHECK enum status file_writer_write(struct file_writer *writer, int64_t offset, const void *bytes, size_t size,
                                         struct error *error);

/* Makes the content durable, renames it to `path` (over an older file) and makes the rename durable. The writer must
 * still be closed. STATUS_DISK_FULL, STATUS_IO: the old file stays unless the message says otherwise. */
MUST_CHECK enum status file_writer_commit(struct file_writer *writer, struct error *error);
void file_writer_close(struct file_writer *writer); /* NULL is fine */

/* Writes a small file in one call. */
MUST_CHECK enum status file_writer_put(const char *path, const void *bytes, size_t size, struct error *error);

#endif

/* file_writer.h: files written so that a reader sees the old one or the whole new one, also after a crash: a temporary
 * file in the same directory, fsync, rename, fsync of the directory. A process that writes should ignore SIGXFSZ. */
#ifndef FILES_FILE_WRITER_H
#define FILES_FILE_WRITER_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct file_writer;

/* Begins a new version of `path`: a temporary file (.deltaq-*.tmp) beside it, which takes its place at
 * file_writer_commit and is removed by file_writer_close otherwise. With `bytes` > 0 that much space is set aside, so
 * that a full disk shows at once. The caller owns *out. STATUS_DISK_FULL (also past a file size limit),
 * STATUS_NOT_FOUND (no such directory), STATUS_FORBIDDEN, STATUS_INVALID (no file name), STATUS_IO,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status file_writer_open(const char *path, int64_t bytes, struct file_writer **out, struct error *error);

/* The same with a temporary file of a fixed name (.deltaq-NAME.part), which file_writer_close leaves: a writer of this
 * path that follows a killed one goes on with it. *found: there was one of `bytes` bytes (> 0), or the finished file of
 * that size, which is the temporary one from here on; else a new one was begun. One writer a path. Statuses of
 * file_writer_open. */
MUST_CHECK enum status file_writer_take_up(const char *path, int64_t bytes, struct file_writer **out, bool *found,
                                           struct error *error);
/* Of such a writer: reads what was written; makes it durable where it is. STATUS_CORRUPT (beyond the end),
 * STATUS_IO. */
MUST_CHECK enum status file_writer_read(const struct file_writer *writer, int64_t offset, void *bytes, size_t size,
                                        struct error *error);
MUST_CHECK enum status file_writer_sync(struct file_writer *writer, struct error *error);

/* Writes at the end of what was appended so far, or at any offset. STATUS_DISK_FULL, STATUS_IO: close the writer
 * then. */
MUST_CHECK enum status file_writer_append(struct file_writer *writer, const void *bytes, size_t size,
                                          struct error *error);
MUST_CHECK enum status file_writer_write(struct file_writer *writer, int64_t offset, const void *bytes, size_t size,
                                         struct error *error);

/* Makes the content durable, then puts it in place (over an older `path`) and makes that durable. Still needs
 * file_writer_close. STATUS_DISK_FULL, STATUS_IO: the old file stands unless the message says otherwise. */
MUST_CHECK enum status file_writer_commit(struct file_writer *writer, struct error *error);
void file_writer_close(struct file_writer *writer); /* NULL is fine */

/* All of it in one call, for small files. */
MUST_CHECK enum status file_writer_put(const char *path, const void *bytes, size_t size, struct error *error);

#endif

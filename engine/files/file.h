/* file.h: regular files read without trust.
 * Reading is pread only, never a mapping: a file truncated by someone else is then an error and not a signal. Messages
 * carry the last component of a path, never more. What a guard of the process (file_guard.h) forbids is not opened. */
#ifndef FILES_FILE_H
#define FILES_FILE_H

#include "base/error.h"

#include <dirent.h>
#include <fcntl.h> /* AT_FDCWD */
#include <stdbool.h>
#include <stdint.h>

enum file_links { FILE_FOLLOW_LINKS, FILE_REFUSE_LINKS }; /* whether the last component may be a symbolic link */

struct file;

/* Opens `path`, relative to the directory descriptor `directory` (AT_FDCWD: the working directory; it is lent until
 * file_close). Anything but a regular file is refused without blocking on it, as is one of more than `limit` bytes.
 * The caller owns *out (file_close). An open file does not change, so threads may share it.
 * STATUS_NOT_FOUND, STATUS_FORBIDDEN, STATUS_INVALID (not a regular file, a link, forbidden by the guard),
 * STATUS_TOO_LARGE, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status file_open(int directory, const char *path, enum file_links links, int64_t limit,
                                 struct file **out, struct error *error);
void file_close(struct file *file); /* NULL is fine */

int64_t file_bytes(const struct file *file);    /* its size when it was opened */
const char *file_name(const struct file *file); /* last component of its path, made fit for messages; lent */

/* Reads exactly `bytes` bytes at `offset` into `out`. STATUS_CORRUPT when they reach past the size it was opened with,
 * STATUS_INPUT_CHANGED when the file has become shorter since, STATUS_IO. */
MUST_CHECK enum status file_read(const struct file *file, int64_t offset, void *out, size_t bytes, struct error *error);

/* Asks the kernel to read the span soon. A hint: cannot fail. */
void file_readahead(const struct file *file, int64_t offset, int64_t bytes);

/* Tells whether `path` leads to a directory. A path that leads to nothing counts as one: opening it asks the guard
 * before it tells why. STATUS_IO: the file system does not say. */
MUST_CHECK enum status file_is_directory(const char *path, bool *out, struct error *error);
/* Opens a directory whose files are to be opened or listed; the caller closes *out (close), -1 on failure.
 * STATUS_NOT_FOUND, STATUS_FORBIDDEN, STATUS_INVALID (forbidden by the guard), STATUS_IO. */
MUST_CHECK enum status file_directory(int directory, const char *path, int *out, struct error *error);
/* The same, to be read with readdir (closedir). Also STATUS_NO_MEMORY. */
MUST_CHECK enum status file_directory_list(const char *path, DIR **out, struct error *error);

/* STATUS_INPUT_CHANGED when the open file's size or modification time, or which file the path leads to, is not as at
 * file_open. */
MUST_CHECK enum status file_check_unchanged(const struct file *file, struct error *error);

/* Reads a whole file of at most `limit` bytes. The caller owns *out (memory_free), which has one more byte, a NUL, at
 * *bytes. Statuses of file_open and file_read. */
MUST_CHECK enum status file_read_all(int directory, const char *path, int64_t limit, char **out, size_t *bytes,
                                     struct error *error);

#endif

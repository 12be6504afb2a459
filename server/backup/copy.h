/* copy.h: copies files into a backup and out of it, and hashes them on the way. */
#ifndef BACKUP_COPY_H
#define BACKUP_COPY_H

#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

/* Copies the regular file `path` (relative) from below `from` to below `to`, makes the directories that it needs there,
 * keeps its time of change, and makes it durable. Appends {"path", "bytes", "sha256"} to `files` unless that is NULL.
 * With `sha256` (or NULL) the bytes must have that hash. STATUS_NOT_FOUND and STATUS_CORRUPT name the file. */
MUST_CHECK enum status copy_file(const char *from, const char *to, const char *path, const char *sha256, json_t *files,
                                 struct error *error);

/* The same for an open file, positioned at its beginning; `from` is the directory that messages name. */
MUST_CHECK enum status copy_open(int fd, const char *from, const char *to, const char *path, const char *sha256,
                                 json_t *files, struct error *error);

/* As copy_file for every file below the directory `path`; when `path` is a file, for it and the files beside it.
 * STATUS_UNSUPPORTED for what is neither file nor directory. */
MUST_CHECK enum status copy_tree(const char *from, const char *to, const char *path, json_t *files,
                                 struct error *error);

/* Size and SHA-256 of the regular file `path` below `directory`. Errors name it. */
MUST_CHECK enum status copy_digest(const char *directory, const char *path, int64_t *bytes, char sha256[65],
                                   struct error *error);
/* The same for an open file, from its position on. */
MUST_CHECK enum status copy_digest_open(int fd, int64_t *bytes, char sha256[65], struct error *error);
/* Appends such a row to `files`; `files` may be NULL. */
MUST_CHECK enum status copy_note(json_t *files, const char *path, int64_t bytes, const char *sha256,
                                 struct error *error);

/* Whether `path` exists below `directory`; a link is not followed. */
bool copy_is_there(const char *directory, const char *path);

/* *empty: the directory has no entries, or does not exist. STATUS_IO when that cannot be determined. */
MUST_CHECK enum status copy_is_empty(const char *directory, bool *empty, struct error *error);

#endif

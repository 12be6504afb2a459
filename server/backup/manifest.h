/* manifest.h: the contents of a backup. manifest.json is written last, so a directory without one is no backup, and a
 * killed backup never looks complete. */
#ifndef BACKUP_MANIFEST_H
#define BACKUP_MANIFEST_H

#include "base/error.h"

#include <jansson.h>

#define MANIFEST_NAME "manifest.json"
#define MANIFEST_DUMP "database.dump"
enum { MANIFEST_FORMAT = 1 };

/* Writes `manifest` with its own SHA-256 ("sha256", over the rest) into `directory`, completely or not at all. */
MUST_CHECK enum status manifest_write(const char *directory, json_t *manifest, struct error *error);

/* Reads the manifest of `directory`: {"format", "whole", "deltaq", "schema", "postgresql", "made_at", "data_directory",
 * "files": [{"path", "bytes", "sha256"}], "elsewhere": likewise}. Every file of `files` lies in the directory. Unless
 * it is whole, artifacts and checkpoints stayed in the data directory: the artifacts are `elsewhere`. The caller owns
 * *out. STATUS_NOT_FOUND: there is none; STATUS_CORRUPT: it is not what was written; STATUS_UNSUPPORTED: of a newer
 * deltaq. */
MUST_CHECK enum status manifest_read(const char *directory, json_t **out, struct error *error);

/* Reads every file of `files` below `directory`. STATUS_CORRUPT naming the first that is missing or differs. */
MUST_CHECK enum status manifest_verify(const json_t *files, const char *directory, struct error *error);

#endif

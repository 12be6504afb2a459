/* base.h: copies of a private database in its archive (postgres/archive.h), which a recovery begins from.
 *
 *   ARCHIVE/base/TIME/manifest.json, base.tar.gz, pg_wal.tar.gz, backup_manifest
 *
 * The database can be had as of any moment after the first of them was made. Only prune.h removes any. */
#ifndef BACKUP_BASE_H
#define BACKUP_BASE_H

#include "backup/base_list.h"
#include "postgres/connection.h"

#include <jansson.h>

/* Copies the database into `archive`, from which nothing is removed meanwhile. Statuses of tools_copy and archive_read,
 * whose errors name the archive. On failure nothing is left. */
MUST_CHECK enum status base_make(struct connection *connection, const char *conninfo, const char *archive,
                                 const char *data_directory, struct error *error);

/* The same, unless the archive has a copy. */
MUST_CHECK enum status base_ensure(struct connection *connection, const char *conninfo, const char *archive,
                                   const char *data_directory, struct error *error);

/* Converts "2026-11-23T15:04:05.5Z" to "2026-11-23 15:04:05.500000"; such texts sort by time. STATUS_INVALID. */
MUST_CHECK enum status base_read_time(const char *text, char out[BASE_TIME], struct error *error);

/* Finds the newest copy that was complete at `until` (base_read_time; NULL: the newest) and reads all of it. `path`
 * gets its directory; the caller owns *manifest. STATUS_NOT_FOUND: there is none, or none so early; STATUS_CORRUPT: it
 * is damaged. */
MUST_CHECK enum status base_find(const char *archive, const char *until, char *path, size_t size, json_t **manifest,
                                 struct error *error);

#endif

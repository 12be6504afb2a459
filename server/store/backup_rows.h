/* backup_rows.h: what a backup asks of the database, and what a restore sets right in it. */
#ifndef STORE_BACKUP_ROWS_H
#define STORE_BACKUP_ROWS_H

#include "postgres/connection.h"

/* Calls `use` while one snapshot of the database is held, which pg_dump can take on: `contents` (lent) is {"snapshot",
 * "schema", "postgresql", "made_at", "artifacts": [{"sha256", "bytes"}], "checkpoints": [path]}, everything as of that
 * snapshot; of the checkpoints those whose path begins with `prefix` and that are in no bucket. `use` may take hours:
 * runs go on meanwhile. Statuses of `use`. */
MUST_CHECK enum status backup_rows_read(struct connection *connection, const char *prefix,
                                        enum status (*use)(const json_t *contents, void *context, struct error *error),
                                        void *context, struct error *error);

/* Before and after a copy of the whole cluster: {"name" (of its directory, UTC), "schema", "postgresql", "made_at"
 * (UTC, with microseconds)}. The caller owns *out. */
MUST_CHECK enum status backup_rows_now(struct connection *connection, json_t **out, struct error *error);

/* STATUS_CONFLICT unless the database has no tables of ours. */
MUST_CHECK enum status backup_rows_check_empty(struct connection *connection, struct error *error);

/* Checkpoints whose path begins with `from` lie at `to` now; and statistics for the planner of queries, which no dump
 * has. */
MUST_CHECK enum status backup_rows_move(struct connection *connection, const char *from, const char *to,
                                        struct error *error);

#endif

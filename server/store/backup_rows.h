/* backup_rows.h: the queries of a backup, and the corrections that a restore makes in the database. */
#ifndef STORE_BACKUP_ROWS_H
#define STORE_BACKUP_ROWS_H

#include "postgres/connection.h"

/* Calls `use` while one snapshot of the database is held, which pg_dump can take on: `contents` (lent) is {"snapshot",
 * "schema", "postgresql", "made_at", "artifacts": [{"sha256", "bytes"}], "checkpoints": [path], "moved": [{"path",
 * "at"}]}, everything as of that snapshot; of the checkpoints those that are in no bucket and whose path begins with
 * `prefix`. "moved" are as of backup_rows_moved. `use` may take hours: runs go on meanwhile. Statuses of `use`. */
MUST_CHECK enum status backup_rows_read(struct connection *connection, const char *prefix,
                                        enum status (*use)(const json_t *contents, void *context, struct error *error),
                                        void *context, struct error *error);

/* Describes the database at this moment; called before and after a copy of the whole cluster is made. *out, which the
 * caller owns: {"name" (for the copy's directory, UTC), "schema", "postgresql", "made_at" (UTC, with microseconds)}. */
MUST_CHECK enum status backup_rows_now(struct connection *connection, json_t **out, struct error *error);

/* STATUS_CONFLICT when the database has any tables. */
MUST_CHECK enum status backup_rows_check_empty(struct connection *connection, struct error *error);

/* Rewrites the paths of checkpoints that begin with `from` to begin with `to`, and collects the planner's statistics,
 * which a dump does not contain. */
MUST_CHECK enum status backup_rows_move(struct connection *connection, const char *from, const char *to,
                                        struct error *error);

/* The checkpoints that runs wrote into a data directory and whose path does not begin with `prefix`, because it had
 * another path then, or is another machine's. *out, which the caller owns: [{"path", "at": "checkpoints/RUN/…"}]. */
MUST_CHECK enum status backup_rows_moved(struct connection *connection, const char *prefix, json_t **out,
                                         struct error *error);

/* The checkpoint whose path is `from` lies at `to`. */
MUST_CHECK enum status backup_rows_place(struct connection *connection, const char *from, const char *to,
                                         struct error *error);

#endif

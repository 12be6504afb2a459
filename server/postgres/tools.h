/* tools.h: PostgreSQL's own pg_dump, pg_restore, psql and pg_basebackup, the newest that are installed: a newer one
 * reads older servers. */
#ifndef POSTGRES_TOOLS_H
#define POSTGRES_TOOLS_H

#include "base/error.h"

/* The directory of the newest installed PostgreSQL that has `program`, into `out` [512]. False: there is none. */
bool tools_newest(const char *program, char out[512]);

/* Writes the database as `snapshot` (pg_export_snapshot, whose transaction is still open) sees it to the new file
 * `name` in `directory` (a descriptor), in pg_dump's custom format. `conninfo` may hold a password: no other user of
 * the machine sees it. STATUS_NOT_FOUND: no pg_dump is installed; STATUS_UNAVAILABLE, STATUS_DISK_FULL with what
 * pg_dump said. */
MUST_CHECK enum status tools_dump(const char *conninfo, const char *snapshot, int directory, const char *name,
                                  struct error *error);

/* Puts such a file into an empty database, in one transaction: all of it or nothing. `script`: the descriptor of an
 * empty file, for the database's SQL where pg_restore is too new for the server. Statuses as above. */
MUST_CHECK enum status tools_restore(const char *conninfo, int directory, const char *name, int script,
                                     struct error *error);

/* Copies the whole cluster into `directory` (a descriptor), which is empty: base.tar.gz, pg_wal.tar.gz with the log
 * that makes it consistent, backup_manifest. The cluster goes on meanwhile. Statuses as above. */
MUST_CHECK enum status tools_copy(const char *conninfo, int directory, struct error *error);

#endif

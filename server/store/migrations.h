/* migrations.h: the database schema: the steps sql/NNNN_name.sql, built into the binary. */
#ifndef STORE_MIGRATIONS_H
#define STORE_MIGRATIONS_H

#include "base/version.h"
#include "store/store.h"

/* Brings the schema up to this binary's, each step in a transaction under an advisory lock, so that several processes
 * may call it at once, and notes the engine revision; *applied (may be NULL) counts. STATUS_CONFLICT: the schema or the
 * revision is newer than the binary, or a released step was edited; the detail says which. */
MUST_CHECK enum status migrations_apply(struct connection *connection, int *applied, struct error *error);
/* STATUS_OK when schema and binary agree; STATUS_CONFLICT names the older one and says what to do. */
MUST_CHECK enum status migrations_check(struct connection *connection, struct error *error);
int migrations_latest(void);

/* The age of this deltaq relative to the database, by schema and engine revision (base/version.h). */
enum migrations_age { MIGRATIONS_EQUAL, MIGRATIONS_OLDER, MIGRATIONS_NEWER };
/* As migrations_check. On STATUS_CONFLICT *age says whether this deltaq is older (it can never use the database) or
 * newer (it can after `deltaq migrate`). */
MUST_CHECK enum status migrations_compare(struct connection *connection, enum migrations_age *age, struct error *error);
/* A condition that is true only for a deltaq of the database's schema and engine revision; `schema` is the parameter
 * that holds migrations_latest(). */
#define MIGRATIONS_FIT(schema)                               \
    " (select max(number) from schema_migrations) = " schema \
    " and (select revision from engine_revision) = " VERSION_TEXT(ENGINE_REVISION) " "
/* The number of the newest step that was applied; 0 for a database without our tables. */
MUST_CHECK enum status migrations_number(struct connection *connection, int *number, struct error *error);

#endif

/* migrations.h: the schema, sql/NNNN_name.sql inside the binary. */
#ifndef STORE_MIGRATIONS_H
#define STORE_MIGRATIONS_H

#include "base/version.h"
#include "store/store.h"

/* Brings the schema up to this binary's, each step in a transaction under an advisory lock, so that several processes
 * may call it at once, and notes the engine revision; *applied (may be NULL) counts. STATUS_CONFLICT: the schema or the
 * revision is newer than the binary, or a released step was edited; the detail says which. */
MUST_CHECK enum status migrations_apply(struct connection *connection, int *applied, struct error *error);
/* STATUS_OK when schema and binary agree; STATUS_CONFLICT, saying which is older and what to do. */
MUST_CHECK enum status migrations_check(struct connection *connection, struct error *error);
int migrations_latest(void);

/* How this deltaq stands to the database, by schema and engine revision (base/version.h). */
enum migrations_age { MIGRATIONS_EQUAL, MIGRATIONS_OLDER, MIGRATIONS_NEWER };
/* As migrations_check; on STATUS_CONFLICT *age says which of the two this deltaq is: an older one will never fit, a
 * newer one may after `deltaq migrate`. */
MUST_CHECK enum status migrations_compare(struct connection *connection, enum migrations_age *age, struct error *error);
/* A condition of a statement that only a deltaq of the database's schema and engine revision may carry out; `schema` is
 * the parameter that has migrations_latest(). */
#define MIGRATIONS_FIT(schema)                               \
    " (select max(number) from schema_migrations) = " schema \
    " and (select revision from engine_revision) = " VERSION_TEXT(ENGINE_REVISION) " "
/* The number of the newest step that was applied; 0 for a database without our tables. */
MUST_CHECK enum status migrations_number(struct connection *connection, int *number, struct error *error);

#endif

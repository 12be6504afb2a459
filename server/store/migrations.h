/* migrations.h: the schema, sql/NNNN_name.sql inside the binary. */
#ifndef STORE_MIGRATIONS_H
#define STORE_MIGRATIONS_H

#include "store/store.h"

/* Brings the schema up to this binary's, each step in a transaction under an advisory lock, so that several processes
 * may call it at once; *applied (may be NULL) counts. STATUS_CONFLICT: the schema is newer than the binary, or a
 * released step was edited; the detail says which. */
MUST_CHECK enum status migrations_apply(struct connection *connection, int *applied, struct error *error);
/* STATUS_OK when schema and binary agree; STATUS_CONFLICT, saying which is older and what to do. */
MUST_CHECK enum status migrations_check(struct connection *connection, struct error *error);
int migrations_latest(void);
/* The number of the newest step that was applied; 0 for a database without our tables. */
MUST_CHECK enum status migrations_number(struct connection *connection, int *number, struct error *error);

#endif

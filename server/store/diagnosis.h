/* diagnosis.h: the questions that `deltaq doctor` asks a database, whatever its schema. They change nothing. */
#ifndef STORE_DIAGNOSIS_H
#define STORE_DIAGNOSIS_H

#include "store/store.h"

enum { DIAGNOSIS_TEXT = 128 };

/* The role that the session has in the database, and the database's version. */
MUST_CHECK enum status diagnosis_who(struct connection *connection, char role[DIAGNOSIS_TEXT],
                                     char version[DIAGNOSIS_TEXT], struct error *error);

/* The database's clock: seconds since 1970. */
MUST_CHECK enum status diagnosis_clock(struct connection *connection, double *seconds, struct error *error);

/* Takes an advisory lock until the end of the transaction, or of the statement when there is no transaction; *got is
 * false when another session has it. */
MUST_CHECK enum status diagnosis_lock(struct connection *connection, const char *key, bool *got, struct error *error);

/* Runs an update that matches no row of the queue, to test the right to write. To be called in a transaction. */
MUST_CHECK enum status diagnosis_write(struct connection *connection, struct error *error);

/* For an empty database: *may: tables may be made in it; *read_only: it takes no writes at all. */
MUST_CHECK enum status diagnosis_may_make(struct connection *connection, bool *may, bool *read_only,
                                          struct error *error);

#endif

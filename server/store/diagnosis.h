/* diagnosis.h: what `deltaq doctor` asks a database, of whatever schema; nothing is changed. */
#ifndef STORE_DIAGNOSIS_H
#define STORE_DIAGNOSIS_H

#include "store/store.h"

enum { DIAGNOSIS_TEXT = 128 };

/* Whom the database takes us for, and its version. */
MUST_CHECK enum status diagnosis_who(struct connection *connection, char role[DIAGNOSIS_TEXT],
                                     char version[DIAGNOSIS_TEXT], struct error *error);

/* Its clock: seconds since 1970. */
MUST_CHECK enum status diagnosis_clock(struct connection *connection, double *seconds, struct error *error);

/* Takes an advisory lock for the transaction, or for the statement alone outside of one; *got: nobody else has it. */
MUST_CHECK enum status diagnosis_lock(struct connection *connection, const char *key, bool *got, struct error *error);

/* An update that changes no row of the queue, in a transaction. */
MUST_CHECK enum status diagnosis_write(struct connection *connection, struct error *error);

/* Of an empty database: whether tables may be made in it, and whether it takes no writes at all. */
MUST_CHECK enum status diagnosis_may_make(struct connection *connection, bool *may, bool *read_only,
                                          struct error *error);

#endif

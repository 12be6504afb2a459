/* connection.h: one session with PostgreSQL, through asynchronous libpq with a deadline for every call on our side. (A
 * stopped backend or a dead network never answers, and no timeout of the server notices that.)
 *
 * A connection opens at its first use and opens again by itself after a loss, with jittered backoff. While the database
 * is away every call fails at once with STATUS_UNAVAILABLE. One thread at a time. One table (sqlstate.c) turns SQLSTATE
 * into a status:
 *   unique violation, foreign key   STATUS_CONFLICT
 *   check violation, bad value      STATUS_INVALID
 *   class 53, disk                  STATUS_DISK_FULL
 *   classes 08 and 57P, deadline    STATUS_UNAVAILABLE
 *   anything else                   STATUS_INTERNAL
 * SQL text is always a literal and every value a parameter. */
#ifndef POSTGRES_CONNECTION_H
#define POSTGRES_CONNECTION_H

#include "base/error.h"
#include "postgres/rows.h"
#include "postgres/value.h"

#include <jansson.h>
#include <stdint.h>

struct connection;

/* `conninfo`: a PostgreSQL URL or keyword string; copied. Does not connect yet. The caller owns *out
 * (connection_free). STATUS_INVALID of conninfo_check. */
MUST_CHECK enum status connection_new(const char *conninfo, const char *application, struct connection **out,
                                      struct error *error);
void connection_free(struct connection *connection); /* NULL is fine; an open transaction rolls back */

/* The longest time for one statement, including connecting (0: the default, 5,000 ms; migrations need more). */
void connection_set_deadline(struct connection *connection, int milliseconds);

/* Before a statement's text: the session parses it once, and PostgreSQL may keep one plan for all values. Where a
 * statement comes often, costs less than to plan it, and is planned alike whatever its values. */
#define CONNECTION_KEEPS_PLAN "/* its plan is kept */ "

/* Any number of rows. On STATUS_OK the caller owns *out (rows_free). */
MUST_CHECK enum status connection_query(struct connection *connection, const char *sql, const struct value *values,
                                        size_t count, struct rows **out, struct error *error);
/* Exactly one row: none is STATUS_NOT_FOUND ("no such row": the caller says which), more is STATUS_INTERNAL. */
MUST_CHECK enum status connection_query_one(struct connection *connection, const char *sql, const struct value *values,
                                            size_t count, struct rows **out, struct error *error);
/* Exactly one row of one boolean column; NULL counts as false, and so does *out on failure. */
MUST_CHECK enum status connection_query_boolean(struct connection *connection, const char *sql,
                                                const struct value *values, size_t count, bool *out,
                                                struct error *error);
/* The same of an integer; NULL and failures give 0. */
MUST_CHECK enum status connection_query_integer(struct connection *connection, const char *sql,
                                                const struct value *values, size_t count, int64_t *out,
                                                struct error *error);
/* Exactly one row of one json column; the caller owns *out (json_decref). STATUS_NOT_FOUND for no row. */
MUST_CHECK enum status connection_query_json(struct connection *connection, const char *sql, const struct value *values,
                                             size_t count, json_t **out, struct error *error);
/* For statements without rows. *affected (may be NULL) is the number of rows that the statement changed. */
MUST_CHECK enum status connection_execute(struct connection *connection, const char *sql, const struct value *values,
                                          size_t count, int64_t *affected, struct error *error);
/* Several statements in one text, without parameters (a migration). */
MUST_CHECK enum status connection_script(struct connection *connection, const char *sql, struct error *error);

/* Runs `body` between BEGIN and COMMIT (READ COMMITTED); any other status than STATUS_OK from it rolls back and is
 * returned. Serialization failures and deadlocks run it again, at most 5 times with jitter: `body` must be repeatable.
 * When the connection is lost during COMMIT, *unknown (may be NULL) is set and STATUS_UNAVAILABLE returned: the
 * transaction may have been committed, so the caller must read before it sends anything again. Transactions do not
 * nest. */
MUST_CHECK enum status connection_transaction(struct connection *connection,
                                              enum status (*body)(struct connection *, void *context, struct error *),
                                              void *context, bool *unknown, struct error *error);
/* As connection_transaction, for reading: all statements of `body` see the database as of the first. */
MUST_CHECK enum status connection_snapshot(struct connection *connection,
                                           enum status (*body)(struct connection *, void *context, struct error *),
                                           void *context, struct error *error);

/* Notifications, which are hints. After connection_listen each session listens on `channel`. connection_socket: the
 * descriptor to poll for input, or -1 while there is no session. connection_notified: reads what has arrived; true if
 * there was any notification. */
MUST_CHECK enum status connection_listen(struct connection *connection, const char *channel, struct error *error);
int connection_socket(const struct connection *connection);
bool connection_notified(struct connection *connection);

#endif

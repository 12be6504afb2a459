/* session.h: libpq without blocking: opens a session and runs one statement in it, both with a deadline. Used by
 * connection.c. */
#ifndef POSTGRES_SESSION_H
#define POSTGRES_SESSION_H

#include "base/error.h"
#include "postgres/value.h"

#include <stdbool.h>
#include <stdint.h>

struct pg_conn; /* libpq's PGconn and struct pg_result */
struct pg_result;

/* Connects and sets the session up (time limits, UTC, formats). `deadline` is of clock_milliseconds. The caller owns
 * *out (PQfinish). STATUS_UNAVAILABLE with the reason. */
MUST_CHECK enum status session_open(const char *conninfo, const char *application, int64_t deadline,
                                    struct pg_conn **out, struct error *error);

/* What is sent. */
struct session_statement {
    const char *sql;
    const struct value_arguments *arguments; /* NULL: a script of several statements */
    const char *plan;                        /* the name of its plan, which the session keeps; NULL: it keeps none */
    bool prepare;                            /* makes that plan and executes nothing */
};

/* Sends the statement and waits for all of its results; *out is the last one, or the first that failed (PQclear).
 * STATUS_UNAVAILABLE: the session broke or the deadline passed; it must be closed. Errors of the statement itself stand
 * in *out. */
MUST_CHECK enum status session_run(struct pg_conn *session, const struct session_statement *statement, int64_t deadline,
                                   struct pg_result **out, struct error *error);

#endif

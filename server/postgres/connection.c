#include "postgres/connection.h"

#include "base/clock.h"
#include "postgres/conninfo.h"
#include "postgres/kept_plans.h"
#include "postgres/session.h"
#include "postgres/sqlstate.h"

#include <assert.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { DEADLINE_MS = 5000, BACKOFF_FIRST_MS = 50, BACKOFF_LAST_MS = 2000, TRIES_MOST = 5 };

struct connection {
    char *conninfo, *application; /* own */
    char *channel;                /* owns; NULL: listens to nothing */
    PGconn *session;              /* owns; NULL: none */
    struct kept_plans plans;      /* of the session */
    int deadline_ms;
    bool in_transaction;
    bool again;        /* a statement of the open transaction failed in a way that allows running the whole again */
    unsigned failures; /* consecutive failures to connect */
    int64_t retry_at;  /* of clock_milliseconds */
    bool notified;
    struct error last_failure;
};

static unsigned jitter(unsigned most)
{
    unsigned bits = 0;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != (ssize_t)sizeof bits) bits = (unsigned)clock_milliseconds();
    return bits % (most + 1);
}

static void pause_ms(unsigned milliseconds)
{
    const struct timespec time = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    (void)nanosleep(&time, NULL);
}

enum status connection_new(const char *conninfo, const char *application, struct connection **out, struct error *error)
{
    *out = NULL;
    const enum status status = conninfo_check(conninfo, error);
    if (status != STATUS_OK) return status;
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) goto no_memory;
    connection->deadline_ms = DEADLINE_MS;
    connection->conninfo = strdup(conninfo);
    connection->application = strdup(application);
    if (connection->conninfo == NULL || connection->application == NULL) goto no_memory;
    *out = connection;
    return STATUS_OK;
no_memory:
    connection_free(connection);
    return error_set(error, STATUS_NO_MEMORY, "no memory for a database connection");
}

static void drop_session(struct connection *connection)
{
    PQfinish(connection->session);
    connection->session = NULL;
    connection->plans.count = 0;
}

void connection_free(struct connection *connection)
{
    if (connection == NULL) return;
    drop_session(connection);
    free(connection->channel);
    free(connection->application);
    free(connection->conninfo);
    free(connection);
}

void connection_set_deadline(struct connection *connection, int milliseconds)
{
    connection->deadline_ms = milliseconds > 0 ? milliseconds : DEADLINE_MS;
}

static enum status listen_again(struct connection *connection, int64_t deadline, struct error *error)
{
    enum status status;
    PGresult *result = NULL;
    char statement[160],
        *name = PQescapeIdentifier(connection->session, connection->channel, strlen(connection->channel));
    if (name == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory to listen");
    (void)snprintf(statement, sizeof statement, "listen %s", name);
    PQfreemem(name);
    status = session_run(connection->session, &(struct session_statement){.sql = statement}, deadline, &result, error);
    PQclear(result);
    return status;
}

/* Closes a session that the server ended while it was idle. The socket shows end of file before anything is sent, so
 * opening another session loses nothing. Once a statement was sent its outcome may be unknown, and it is not sent
 * again. */
static void drop_if_ended(struct connection *connection)
{
    if (connection->session == NULL) return;
    struct pollfd descriptor = {.fd = PQsocket(connection->session), .events = POLLIN};
    /* The server's last message comes before the end of file, so reading goes on while there are bytes. */
    for (int i = 0; i < 8 && connection->session != NULL && poll(&descriptor, 1, 0) > 0; i++)
        if (PQconsumeInput(connection->session) == 0 || PQstatus(connection->session) != CONNECTION_OK)
            drop_session(connection);
}

static enum status ensure_session(struct connection *connection, int64_t deadline, struct error *error)
{
    enum status status;
    drop_if_ended(connection);
    if (connection->session != NULL) return STATUS_OK;
    if (clock_milliseconds() < connection->retry_at) {
        *error = connection->last_failure;
        return error->status;
    }
    status = session_open(connection->conninfo, connection->application, deadline, &connection->session, error);
    if (status == STATUS_OK && connection->channel != NULL) status = listen_again(connection, deadline, error);
    if (status == STATUS_OK) {
        connection->failures = 0;
        connection->retry_at = 0;
        connection->notified = true; /* notifications between the sessions are lost, so look */
        return STATUS_OK;
    }
    drop_session(connection);
    const unsigned doublings = connection->failures < 6 ? connection->failures : 6;
    unsigned delay = BACKOFF_FIRST_MS << doublings;
    if (delay > BACKOFF_LAST_MS) delay = BACKOFF_LAST_MS;
    connection->failures++;
    connection->retry_at = clock_milliseconds() + delay / 2 + jitter(delay / 2);
    connection->last_failure = *error;
    return status;
}

/* Sets the error of the statement. It names the constraint, which says more than PostgreSQL's sentence with the row's
 * values. */
static enum status failed(struct connection *connection, const PGresult *result, const struct sqlstate_row *row,
                          struct error *error)
{
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *constraint = PQresultErrorField(result, PG_DIAG_CONSTRAINT_NAME);
    if (row->lost) drop_session(connection);
    if (constraint != NULL) return error_set(error, row->status, "the database refuses it: constraint %s", constraint);
    return error_set(error, row->status, "%s: %s",
                     row->status == STATUS_UNAVAILABLE ? "the database is away" : "database",
                     message != NULL ? message : "no reason given");
}

/* Runs a statement; one whose plan is kept is prepared at its first time in the session. A refusal stands in *out. */
static enum status run_planned(struct connection *connection, const char *sql, const struct value_arguments *arguments,
                               int64_t deadline, PGresult **out, struct error *error)
{
    char name[KEPT_PLAN_NAME];
    const int place = arguments != NULL ? kept_plans_find(&connection->plans, sql, arguments) : -1;
    struct session_statement statement = {.sql = sql, .arguments = arguments};
    if (place < 0) return session_run(connection->session, &statement, deadline, out, error);
    kept_plans_name(place, name);
    statement.plan = name;
    if ((size_t)place == connection->plans.count) {
        statement.prepare = true;
        const enum status status = session_run(connection->session, &statement, deadline, out, error);
        if (status != STATUS_OK || PQresultStatus(*out) != PGRES_COMMAND_OK) return status;
        PQclear(*out);
        *out = NULL;
        kept_plans_enter(&connection->plans, sql, arguments);
        statement.prepare = false;
    }
    return session_run(connection->session, &statement, deadline, out, error);
}

/* Sends one statement. *again: it was rolled back and may be sent again. */
static enum status send_once(struct connection *connection, const char *sql, const struct value_arguments *arguments,
                             PGresult **out, bool *again, struct error *error)
{
    enum status status;
    const int64_t deadline = clock_milliseconds() + connection->deadline_ms;
    *out = NULL;
    *again = false;
    if (connection->in_transaction && connection->session == NULL)
        return error_set(error, STATUS_UNAVAILABLE, "the database session was lost within a transaction");
    if (!connection->in_transaction && (status = ensure_session(connection, deadline, error)) != STATUS_OK)
        return status;
    status = run_planned(connection, sql, arguments, deadline, out, error);
    if (status != STATUS_OK) {
        drop_session(connection);
        return status;
    }
    const ExecStatusType kind = PQresultStatus(*out);
    if (kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK || kind == PGRES_EMPTY_QUERY) return STATUS_OK;
    const struct sqlstate_row *row = sqlstate_find(PQresultErrorField(*out, PG_DIAG_SQLSTATE));
    *again = row->again;
    if (row->again) connection->again = true;
    status = failed(connection, *out, row, error);
    PQclear(*out);
    *out = NULL;
    return status;
}

static enum status run(struct connection *connection, const char *sql, const struct value *values, size_t count,
                       PGresult **out, bool *again, struct error *error)
{
    struct value_arguments arguments;
    enum status status = value_arguments_fill(&arguments, values, count, error);
    *out = NULL;
    *again = false;
    for (unsigned i = 0; status == STATUS_OK; i++) {
        status = send_once(connection, sql, &arguments, out, again, error);
        if (!*again || connection->in_transaction || i + 1 >= TRIES_MOST) break;
        pause_ms(jitter(10U << i));
        status = STATUS_OK;
    }
    value_arguments_reset(&arguments);
    return status;
}

enum status connection_query(struct connection *connection, const char *sql, const struct value *values, size_t count,
                             struct rows **out, struct error *error)
{
    PGresult *result;
    bool again;
    const enum status status = run(connection, sql, values, count, &result, &again, error);
    *out = rows_of(result);
    return status;
}

enum status connection_query_one(struct connection *connection, const char *sql, const struct value *values,
                                 size_t count, struct rows **out, struct error *error)
{
    enum status status = connection_query(connection, sql, values, count, out, error);
    if (status != STATUS_OK || rows_count(*out) == 1) return status;
    status = rows_count(*out) == 0
                 ? error_set(error, STATUS_NOT_FOUND, "no such row")
                 : error_set(error, STATUS_INTERNAL, "%d rows where one was expected", rows_count(*out));
    rows_free(*out);
    *out = NULL;
    return status;
}

enum status connection_query_boolean(struct connection *connection, const char *sql, const struct value *values,
                                     size_t count, bool *out, struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(connection, sql, values, count, &rows, error);
    *out = false;
    if (status != STATUS_OK) return status;
    *out = rows_boolean(rows, 0, 0);
    rows_free(rows);
    return STATUS_OK;
}

enum status connection_query_integer(struct connection *connection, const char *sql, const struct value *values,
                                     size_t count, int64_t *out, struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(connection, sql, values, count, &rows, error);
    *out = 0;
    if (status != STATUS_OK) return status;
    *out = rows_integer(rows, 0, 0);
    rows_free(rows);
    return STATUS_OK;
}

enum status connection_query_json(struct connection *connection, const char *sql, const struct value *values,
                                  size_t count, json_t **out, struct error *error)
{
    struct rows *rows;
    enum status status = connection_query_one(connection, sql, values, count, &rows, error);
    *out = NULL;
    if (status != STATUS_OK) return status;
    status = rows_json(rows, 0, 0, out, error);
    rows_free(rows);
    return status;
}

enum status connection_execute(struct connection *connection, const char *sql, const struct value *values, size_t count,
                               int64_t *affected, struct error *error)
{
    PGresult *result;
    bool again;
    const enum status status = run(connection, sql, values, count, &result, &again, error);
    if (affected != NULL) *affected = status == STATUS_OK ? strtoll(PQcmdTuples(result), NULL, 10) : 0;
    PQclear(result);
    return status;
}

enum status connection_script(struct connection *connection, const char *sql, struct error *error)
{
    PGresult *result;
    bool again;
    const enum status status = send_once(connection, sql, NULL, &result, &again, error);
    PQclear(result);
    return status;
}

static void rollback(struct connection *connection)
{
    struct error ignored;
    PGresult *result;
    bool again;
    connection->in_transaction = true; /* opens no new session: without a session there is nothing to roll back */
    if (connection->session != NULL && send_once(connection, "rollback", NULL, &result, &again, &ignored) == STATUS_OK)
        PQclear(result);
    else
        drop_session(connection);
    connection->in_transaction = false;
}

static enum status commit(struct connection *connection, bool *again, bool *unknown, struct error *error)
{
    PGresult *result;
    enum status status = send_once(connection, "commit", NULL, &result, again, error);
    if (status != STATUS_OK) {
        *unknown = connection->session == NULL;
        return status;
    }
    /* COMMIT of a transaction in which a statement failed answers ROLLBACK, without an error. */
    if (strcmp(PQcmdStatus(result), "COMMIT") != 0)
        status = error_set(error, STATUS_INTERNAL, "a transaction went on after one of its statements had failed");
    PQclear(result);
    return status;
}

enum status connection_transaction(struct connection *connection,
                                   enum status (*body)(struct connection *, void *context, struct error *),
                                   void *context, bool *unknown, struct error *error)
{
    enum status status;
    bool again, ignored;
    if (unknown == NULL) unknown = &ignored;
    assert(!connection->in_transaction);
    for (unsigned i = 0;; i++) {
        *unknown = again = false;
        if ((status = connection_script(connection, "begin", error)) != STATUS_OK) return status;
        connection->in_transaction = true;
        connection->again = false;
        status = body(connection, context, error);
        again = connection->again;
        if (status == STATUS_OK) status = commit(connection, &again, unknown, error);
        connection->in_transaction = false;
        if (status != STATUS_OK) rollback(connection);
        if (status == STATUS_OK || !again || i + 1 >= TRIES_MOST) return status;
        pause_ms(jitter(10U << i));
    }
}

struct snapshot {
    enum status (*body)(struct connection *, void *context, struct error *);
    void *context;
};

static enum status snapshot_body(struct connection *connection, void *context, struct error *error)
{
    const struct snapshot *snapshot = context;
    const enum status status =
        connection_script(connection, "set transaction isolation level repeatable read, read only", error);
    return status == STATUS_OK ? snapshot->body(connection, snapshot->context, error) : status;
}

enum status connection_snapshot(struct connection *connection,
                                enum status (*body)(struct connection *, void *context, struct error *), void *context,
                                struct error *error)
{
    struct snapshot snapshot = {body, context};
    return connection_transaction(connection, snapshot_body, &snapshot, NULL, error);
}

enum status connection_listen(struct connection *connection, const char *channel, struct error *error)
{
    const int64_t deadline = clock_milliseconds() + connection->deadline_ms;
    char *copy = strdup(channel);
    if (copy == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory to listen");
    free(connection->channel);
    connection->channel = copy;
    if (connection->session == NULL) return STATUS_OK; /* the next session will listen */
    const enum status status = listen_again(connection, deadline, error);
    if (status != STATUS_OK) drop_session(connection);
    return status;
}

int connection_socket(const struct connection *connection)
{
    return connection->session != NULL ? PQsocket(connection->session) : -1;
}

bool connection_notified(struct connection *connection)
{
    PGnotify *notification;
    bool notified = connection->notified;
    connection->notified = false;
    drop_if_ended(connection);
    if (connection->session == NULL) return notified;
    while ((notification = PQnotifies(connection->session)) != NULL) {
        PQfreemem(notification);
        notified = true;
    }
    return notified;
}

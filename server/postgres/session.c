#include "postgres/session.h"

#include "base/clock.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <string.h>

static enum status session_wait(PGconn *session, short events, int64_t deadline, struct error *error)
{
    for (;;) {
        struct pollfd descriptor = {.fd = PQsocket(session), .events = events};
        const int64_t left = deadline - clock_milliseconds();
        if (left <= 0) return error_set(error, STATUS_UNAVAILABLE, "the database did not answer in time");
        const int ready = poll(&descriptor, 1, (int)left);
        if (ready > 0) return STATUS_OK;
        if (ready < 0 && errno != EINTR) return error_set_errno(error, "cannot wait for the database");
    }
}

/* libpq's messages begin with the socket's path; the text after "failed: " is the reason and is enough. */
static enum status session_failed(PGconn *session, struct error *error)
{
    const char *message = PQerrorMessage(session), *failed = strstr(message, "failed: ");
    if (failed != NULL) message = failed + strlen("failed: ");
    if (message[0] == '\0') message = "the session ended";
    return error_set(error, STATUS_UNAVAILABLE, "the database is away: %.*s", (int)strcspn(message, "\n"), message);
}

static void ignore_notice(void *argument, const PGresult *result)
{
    (void)argument;
    (void)result;
}

static enum status session_connect(PGconn *session, int64_t deadline, struct error *error)
{
    enum status status;
    if (PQstatus(session) == CONNECTION_BAD) return session_failed(session, error);
    for (PostgresPollingStatusType state = PGRES_POLLING_WRITING; state != PGRES_POLLING_OK;
         state = PQconnectPoll(session)) {
        if (state == PGRES_POLLING_FAILED) return session_failed(session, error);
        status = session_wait(session, state == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

/* Sets the session up. */
static enum status session_configure(PGconn *session, int64_t deadline, struct error *error)
{
    /* set_config instead of `options`, because poolers refuse unknown startup parameters. jit is off because PostgreSQL
     * would compile statements whose estimated cost is high, which takes longer than running ours. */
    static const char settings[] =
        "select set_config('statement_timeout', '30s', false), set_config('lock_timeout', '3s', false),"
        " set_config('idle_in_transaction_session_timeout', '10s', false), set_config('tcp_user_timeout', '5s', false),"
        " set_config('timezone', 'UTC', false), set_config('datestyle', 'ISO, YMD', false),"
        " set_config('bytea_output', 'hex', false), set_config('extra_float_digits', '1', false),"
        " set_config('synchronous_commit', 'on', false), set_config('search_path', 'public', false),"
        " set_config('default_transaction_isolation', 'read committed', false), set_config('jit', 'off', false)";
    /* Who waits no longer (connection.c) closes the session, and the server then ends what it computes for it, whatever
     * the deadline was. A server whose system cannot tell that (Windows) refuses; statement_timeout is left. */
    static const char watch[] = "set client_connection_check_interval = '1s'";
    PGresult *result = NULL;
    enum status status = session_run(session, &(struct session_statement){.sql = settings}, deadline, &result, error);
    if (status == STATUS_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        status = error_set(error, STATUS_UNAVAILABLE, "the database refused our settings: %s",
                           PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    PQclear(result);
    if (status != STATUS_OK) return status;
    status = session_run(session, &(struct session_statement){.sql = watch}, deadline, &result, error);
    PQclear(result);
    return status;
}

enum status session_open(const char *conninfo, const char *application, int64_t deadline, PGconn **out,
                         struct error *error)
{
    /* A keyword here has precedence over the same one in conninfo. */
    const char *const keywords[] = {
        "dbname",          "fallback_application_name", "client_encoding",  "tcp_user_timeout",
        "keepalives_idle", "keepalives_interval",       "keepalives_count", NULL};
    const char *const values[] = {conninfo, application, "UTF8", "5000", "10", "3", "3", NULL};
    PGconn *session = PQconnectStartParams(keywords, values, 1);
    *out = NULL;
    if (session == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a database session");
    (void)PQsetNoticeReceiver(session, ignore_notice, NULL);
    enum status status = session_connect(session, deadline, error);
    if (status == STATUS_OK && PQsetnonblocking(session, 1) != 0) status = session_failed(session, error);
    if (status == STATUS_OK) status = session_configure(session, deadline, error);
    if (status == STATUS_OK)
        *out = session;
    else
        PQfinish(session);
    return status;
}

static int hand_over(PGconn *session, const struct session_statement *statement)
{
    const struct value_arguments *given = statement->arguments;
    if (given == NULL) return PQsendQuery(session, statement->sql);
    if (statement->plan == NULL)
        return PQsendQueryParams(session, statement->sql, given->count, given->types, given->values, given->lengths,
                                 given->formats, 0);
    if (statement->prepare) return PQsendPrepare(session, statement->plan, statement->sql, given->count, given->types);
    return PQsendQueryPrepared(session, statement->plan, given->count, given->values, given->lengths, given->formats,
                               0);
}

static enum status session_send(PGconn *session, const struct session_statement *statement, int64_t deadline,
                                struct error *error)
{
    enum status status;
    if (hand_over(session, statement) == 0) return session_failed(session, error);
    for (;;) {
        const int flushed = PQflush(session);
        if (flushed == 0) return STATUS_OK;
        if (flushed < 0) return session_failed(session, error);
        if ((status = session_wait(session, POLLIN | POLLOUT, deadline, error)) != STATUS_OK) return status;
        /* The server may stop reading until its own output is read. */
        if (PQconsumeInput(session) == 0) return session_failed(session, error);
    }
}

enum status session_run(PGconn *session, const struct session_statement *statement, int64_t deadline, PGresult **out,
                        struct error *error)
{
    PGresult *kept = NULL;
    enum status status = session_send(session, statement, deadline, error);
    *out = NULL;
    while (status == STATUS_OK) {
        while (status == STATUS_OK && PQisBusy(session)) {
            status = session_wait(session, POLLIN, deadline, error);
            if (status == STATUS_OK && PQconsumeInput(session) == 0) status = session_failed(session, error);
        }
        if (status != STATUS_OK) break;
        PGresult *next = PQgetResult(session);
        if (next == NULL) break;
        if (kept != NULL && PQresultStatus(kept) == PGRES_FATAL_ERROR) {
            PQclear(next);
        } else {
            PQclear(kept);
            kept = next;
        }
    }
    if (status == STATUS_OK && kept == NULL) status = session_failed(session, error);
    if (status == STATUS_OK)
        *out = kept;
    else
        PQclear(kept);
    return status;
}

#include "track/ledger_database.h"

#include "track/ledger.h"

#include <stdio.h>
#include <stdlib.h>

/* The meaning of SQLite's result codes; the first row that fits counts. */
static const struct meaning {
    int code;
    enum status status;
    const char *text;
} meanings[] = {
    {SQLITE_BUSY, STATUS_CONFLICT, "another process uses it"},
    {SQLITE_LOCKED, STATUS_CONFLICT, "another process uses it"},
    {SQLITE_NOTADB, STATUS_CORRUPT, "it is no ledger"},
    {SQLITE_CORRUPT, STATUS_CORRUPT, "it is damaged"},
    {SQLITE_FULL, STATUS_DISK_FULL, "the disk is full"},
    {SQLITE_NOMEM, STATUS_NO_MEMORY, "no memory"},
    {SQLITE_READONLY, STATUS_FORBIDDEN, "it may not be written"},
    {SQLITE_CANTOPEN, STATUS_NOT_FOUND, "it cannot be opened or made"},
    {SQLITE_OK, STATUS_IO, NULL}, /* any other */
};

static enum status fail(const struct ledger *ledger, int code, struct error *error)
{
    const struct meaning *row = meanings;
    while (row->code != SQLITE_OK && row->code != (code & 0xff)) row++;
    return error_set(error, row->status, "ledger: %s",
                     row->text != NULL ? row->text : sqlite3_errmsg(ledger->database));
}

enum status ledger_database_open(const char *path, struct ledger **out, struct error *error)
{
    struct ledger *ledger = calloc(1, sizeof *ledger);
    *out = ledger;
    if (ledger == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a ledger");
    const int code = sqlite3_open_v2(path, &ledger->database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (code != SQLITE_OK) return fail(ledger, code, error);
    /* Every commit is on disk before anything is sent, and the lock is held from the first read on. */
    return ledger_execute(
        ledger, "pragma synchronous = extra; pragma locking_mode = exclusive; begin exclusive; commit", error);
}

void ledger_close(struct ledger *ledger)
{
    if (ledger == NULL) return;
    (void)sqlite3_close(ledger->database);
    free(ledger);
}

enum status ledger_execute(struct ledger *ledger, const char *text, struct error *error)
{
    const int code = sqlite3_exec(ledger->database, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? STATUS_OK : fail(ledger, code, error);
}

enum status ledger_begin(struct ledger *ledger, struct error *error)
{
    return ledger_execute(ledger, "begin immediate", error);
}

enum status ledger_commit(struct ledger *ledger, struct error *error)
{
    return ledger_execute(ledger, "commit", error);
}

void ledger_rollback(struct ledger *ledger)
{
    (void)sqlite3_exec(ledger->database, "rollback", NULL, NULL, NULL);
}

enum status ledger_query_begin(struct ledger *ledger, struct ledger_query *query, const char *text, struct error *error)
{
    *query = (struct ledger_query){.ledger = ledger};
    const int code = sqlite3_prepare_v2(ledger->database, text, -1, &query->statement, NULL);
    return code == SQLITE_OK ? STATUS_OK : fail(ledger, code, error);
}

static enum status bound(struct ledger_query *query, int code, struct error *error)
{
    return code == SQLITE_OK ? STATUS_OK : fail(query->ledger, code, error);
}

enum status ledger_query_bind_text(struct ledger_query *query, int which, const char *text, struct error *error)
{
    return bound(query, sqlite3_bind_text(query->statement, which, text, -1, SQLITE_TRANSIENT), error);
}

enum status ledger_query_bind_integer(struct ledger_query *query, int which, int64_t value, struct error *error)
{
    return bound(query, sqlite3_bind_int64(query->statement, which, value), error);
}

enum status ledger_query_bind_real(struct ledger_query *query, int which, double value, struct error *error)
{
    return bound(query, sqlite3_bind_double(query->statement, which, value), error);
}

enum status ledger_query_row(struct ledger_query *query, bool *row, struct error *error)
{
    const int code = sqlite3_step(query->statement);
    *row = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? STATUS_OK : fail(query->ledger, code, error);
}

enum status ledger_query_run(struct ledger_query *query, struct error *error)
{
    bool row;
    return ledger_query_row(query, &row, error);
}

void ledger_query_again(struct ledger_query *query)
{
    (void)sqlite3_reset(query->statement);
}

void ledger_query_text(struct ledger_query *query, int column, char *out, size_t size)
{
    const unsigned char *text = sqlite3_column_text(query->statement, column);
    (void)snprintf(out, size, "%s", text != NULL ? (const char *)text : "");
}

int64_t ledger_query_integer(struct ledger_query *query, int column)
{
    return sqlite3_column_int64(query->statement, column);
}

double ledger_query_real(struct ledger_query *query, int column)
{
    return sqlite3_column_double(query->statement, column);
}

void ledger_query_end(struct ledger_query *query)
{
    (void)sqlite3_finalize(query->statement);
    query->statement = NULL;
}

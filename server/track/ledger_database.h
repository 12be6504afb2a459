/* ledger_database.h: the calls of SQLite that the ledger needs, with struct error. */
#ifndef TRACK_LEDGER_DATABASE_H
#define TRACK_LEDGER_DATABASE_H

#include "base/error.h"

#include <sqlite3.h>
#include <stdint.h>

struct ledger {
    sqlite3 *database; /* owned */
    bool shared;       /* ledger_open */
};

/* Opens or makes the file, locked for this process. The caller owns *out (ledger_close). Statuses of ledger_open. */
MUST_CHECK enum status ledger_database_open(const char *path, struct ledger **out, struct error *error);

MUST_CHECK enum status ledger_begin(struct ledger *ledger, struct error *error);
MUST_CHECK enum status ledger_commit(struct ledger *ledger, struct error *error);
void ledger_rollback(struct ledger *ledger);
MUST_CHECK enum status ledger_execute(struct ledger *ledger, const char *text, struct error *error);

struct ledger_query {
    struct ledger *ledger;
    sqlite3_stmt *statement; /* owned */
};

/* Call ledger_query_end in any case. Parameters count from 1, columns from 0. */
MUST_CHECK enum status ledger_query_begin(struct ledger *ledger, struct ledger_query *query, const char *text,
                                          struct error *error);
MUST_CHECK enum status ledger_query_bind_text(struct ledger_query *query, int which, const char *text,
                                              struct error *error);
MUST_CHECK enum status ledger_query_bind_integer(struct ledger_query *query, int which, int64_t value,
                                                 struct error *error);
MUST_CHECK enum status ledger_query_bind_real(struct ledger_query *query, int which, double value, struct error *error);
MUST_CHECK enum status ledger_query_run(struct ledger_query *query, struct error *error);
MUST_CHECK enum status ledger_query_row(struct ledger_query *query, bool *row, struct error *error);
void ledger_query_again(struct ledger_query *query); /* resets the statement, to be bound and run again */
void ledger_query_text(struct ledger_query *query, int column, char *out, size_t size);
int64_t ledger_query_integer(struct ledger_query *query, int column);
double ledger_query_real(struct ledger_query *query, int column);
void ledger_query_end(struct ledger_query *query);

#endif

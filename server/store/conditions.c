#include "store/conditions.h"

#define LOCK "(1668247140, hashtext($1))" /* "cond" in ASCII */

enum status condition_hold(struct connection *connection, const char *tag, bool *held, struct error *error)
{
    return connection_query_boolean(connection, "select pg_try_advisory_lock" LOCK, VALUES(value_text(tag)), held,
                                    error);
}

enum status condition_let_go(struct connection *connection, const char *tag, struct error *error)
{
    struct rows *rows;
    const enum status status =
        connection_query_one(connection, "select pg_advisory_unlock" LOCK, VALUES(value_text(tag)), &rows, error);
    if (status == STATUS_OK) rows_free(rows);
    return status;
}

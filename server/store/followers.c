#include "store/followers.h"

enum status follower_lock(struct connection *connection, const char *name, int64_t *after, struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(
        connection, "select after from followers where name = $1 for update", VALUES(value_text(name)), &rows, error);
    if (status != STATUS_OK) return status;
    *after = rows_integer(rows, 0, 0);
    rows_free(rows);
    return STATUS_OK;
}

enum status follower_advance(struct connection *connection, const char *name, int64_t after, struct error *error)
{
    return connection_execute(connection, CONNECTION_KEEPS_PLAN "update followers set after = $2 where name = $1",
                              VALUES(value_text(name), value_integer(after)), NULL, error);
}

#include "store/leftovers.h"

bool leftovers_artifact_is_recorded(struct connection *connection, const char *sha256)
{
    struct rows *rows;
    struct error ignored;
    if (connection_query_one(connection, "select exists (select 1 from artifacts where sha256 = $1)",
                             VALUES(value_text(sha256)), &rows, &ignored) != STATUS_OK)
        return true;
    const bool recorded = rows_boolean(rows, 0, 0);
    rows_free(rows);
    return recorded;
}

enum status leftovers_lock_run(struct connection *connection, const char *run, bool *known, bool *ended,
                               struct error *error)
{
    struct rows *rows;
    const enum status status =
        connection_query(connection, "select finished_at is not null from runs where id = $1 for update",
                         VALUES(value_text(run)), &rows, error);
    if (status != STATUS_OK) return status;
    *known = rows_count(rows) > 0;
    *ended = *known && rows_boolean(rows, 0, 0);
    rows_free(rows);
    return STATUS_OK;
}

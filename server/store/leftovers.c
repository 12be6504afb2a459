#include "store/leftovers.h"

bool leftovers_artifact_is_recorded(struct connection *connection, const char *sha256)
{
    bool recorded;
    struct error ignored;
    const enum status status =
        connection_query_boolean(connection, "select exists (select 1 from artifacts where sha256 = $1)",
                                 VALUES(value_text(sha256)), &recorded, &ignored);
    return status != STATUS_OK || recorded;
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

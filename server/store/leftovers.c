#include "store/leftovers.h"

enum status leftovers_unrecorded(struct connection *connection, const json_t *names, json_t **places,
                                 struct error *error)
{
    return connection_query_json(connection,
                                 "select coalesce(json_agg(w.place - 1), '[]')"
                                 " from json_array_elements_text($1::json) with ordinality as w (name, place)"
                                 " where not exists (select 1 from artifacts a where a.sha256 = w.name)",
                                 VALUES(value_json(names)), places, error);
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

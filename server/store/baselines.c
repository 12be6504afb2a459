#include "store/baselines.h"

enum status baseline_get(struct connection *connection, const char *key, json_t **document, struct error *error)
{
    const enum status status = connection_query_json(connection, "select document from baselines where key = $1",
                                                     VALUES(value_text(key)), document, error);
    return status == STATUS_NOT_FOUND ? error_set(error, status, "not measured yet") : status;
}

enum status baseline_put(struct connection *connection, const char *key, const json_t *document, struct error *error)
{
    return connection_execute(connection, "insert into baselines (key, document) values ($1, $2) on conflict (key) do nothing",
                              VALUES(value_text(key), value_json(document)), NULL, error);
}

#include "store/nodes.h"

enum status node_note(struct connection *connection, const char *node, const struct store_id *checkpoint,
                      const char *snapshot, struct error *error)
{
    return connection_execute(
        connection,
        "with had as (delete from node_lacks where node = $1 and checkpoint = $2)"
        " insert into node_checkpoints as n (node, checkpoint, snapshot) values ($1, $2, $3)"
        " on conflict (node, checkpoint) do update set snapshot = excluded.snapshot, used_at = clock_timestamp()"
        " where n.snapshot <> excluded.snapshot or n.used_at < clock_timestamp() - interval '1 minute'",
        VALUES(value_text(node), value_text(checkpoint->text), value_text(snapshot)), NULL, error);
}

enum status node_lacks(struct connection *connection, const char *node, const struct store_id *checkpoint,
                       struct error *error)
{
    return connection_execute(connection,
                              "with had as (delete from node_checkpoints where node = $1 and checkpoint = $2)"
                              " insert into node_lacks (node, checkpoint) values ($1, $2)"
                              " on conflict (node, checkpoint) do update set noted_at = clock_timestamp()",
                              VALUES(value_text(node), value_text(checkpoint->text)), NULL, error);
}

enum status node_snapshots(struct connection *connection, const char *node, json_t **keys, struct error *error)
{
    return connection_query_json(connection,
                                 "select coalesce(json_agg(distinct snapshot), '[]') from node_checkpoints"
                                 " where node = $1 and snapshot <> ''",
                                 VALUES(value_text(node)), keys, error);
}

enum status node_forget_snapshots(struct connection *connection, const char *node, const json_t *keys,
                                  struct error *error)
{
    return connection_execute(connection,
                              "delete from node_checkpoints where node = $1 and snapshot <> ''"
                              " and snapshot in (select json_array_elements_text($2::json))",
                              VALUES(value_text(node), value_json(keys)), NULL, error);
}

enum status nodes_prune(struct connection *connection, struct error *error)
{
    return connection_execute(
        connection,
        "with lacking as (delete from node_lacks where noted_at < clock_timestamp() - interval '1 day')"
        " delete from node_checkpoints where used_at < clock_timestamp() - interval '30 days'",
        NO_VALUES, NULL, error);
}

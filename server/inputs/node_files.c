#include "inputs/node_files.h"

#include "store/nodes.h"

#include <limits.h>
#include <stdio.h>

static bool knows_node(const struct run_context *context)
{
    return context->node != NULL && context->node[0] != '\0' && !context->planning;
}

void node_files_at_path(const struct run_context *context, const struct store_id *checkpoint, bool there)
{
    struct error ignored;
    if (!knows_node(context)) return;
    const enum status status = there ? node_note(context->connection, context->node, checkpoint, "", &ignored)
                                     : node_lacks(context->connection, context->node, checkpoint, &ignored);
    (void)status;
}

void node_files_fetched(const struct run_context *context, const struct store_id *checkpoint,
                        const struct fetch_result *found)
{
    struct error ignored;
    if (!knows_node(context)) return;
    enum status status = node_note(context->connection, context->node, checkpoint, found->key, &ignored);
    if (status == STATUS_OK && found->came > 0)
        status = node_files_check(context->connection, context->node, context->data_directory, &ignored);
    (void)status;
}

enum status node_files_check(struct connection *connection, const char *node, const char *data_directory,
                             struct error *error)
{
    char directory[PATH_MAX];
    json_t *keys = NULL;
    enum status status = node_snapshots(connection, node, &keys, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(directory, sizeof directory, "%s/hub", data_directory);
    for (size_t i = json_array_size(keys); i-- > 0;)
        if (hub_cache_there(directory, json_string_value(json_array_get(keys, i)))) (void)json_array_remove(keys, i);
    if (json_array_size(keys) > 0) status = node_forget_snapshots(connection, node, keys, error);
    json_decref(keys);
    return status;
}

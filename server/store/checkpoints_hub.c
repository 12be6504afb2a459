#include "store/checkpoints.h"

#include "store/checkpoint_document.h"
#include "store/run_unfinished.h"
#include "store/trajectories.h"

#include <stdio.h>
#include <stdlib.h>

enum status checkpoint_fill(struct connection *connection, const struct store_id *id,
                            const struct checkpoint_new *files, struct error *error)
{
    return connection_execute(
        connection,
        "update checkpoints set architecture = $2, parameters = $3, dtype = $4, bytes = $5, fingerprint = $6,"
        " files = $7, sha256 = $8,"
        " step = coalesce(step, $9), tokens = coalesce(tokens, $10), learning_rate = coalesce(learning_rate, $11)"
        " where id = $1 and fingerprint is null",
        VALUES(value_text(id->text), value_text(files->architecture), value_integer_or_null(files->parameters),
               value_text(files->dtype), value_integer_or_null(files->bytes), value_text(files->fingerprint),
               value_json(files->files), value_text(files->sha256), value_integer_or_null(files->step),
               value_integer_or_null(files->tokens), value_double_or_null(files->learning_rate)),
        NULL, error);
}

struct many {
    const char *trajectory;
    const json_t *rows;
    json_t *document; /* out */
};

static enum status insert_many_body(struct connection *connection, void *context, struct error *error)
{
    struct many *many = context;
    struct store_id trajectory;
    json_decref(many->document);
    many->document = NULL;
    const enum status status = trajectory_ensure(connection, many->trajectory, &trajectory, NULL, error);
    if (status != STATUS_OK) return status;
    return connection_query_json(
        connection,
        "with item as (select * from json_to_recordset($2::json) as x (name text, step bigint, tokens bigint,"
        " learning_rate double precision, source json, tags json)),"
        " old as (select c.name, c.source::jsonb = i.source::jsonb as same from item i join checkpoints c"
        " on c.trajectory = $1 and c.name = i.name),"
        " made as (insert into checkpoints (trajectory, name, step, tokens, learning_rate, source, tags)"
        " select $1, name, step, tokens, learning_rate, source, tags from item"
        " on conflict on constraint checkpoints_name_unique do nothing returning *)"
        " select json_build_object('registered', coalesce((select json_agg(" CHECKPOINT_DOCUMENT
        " order by c.number) from made c"
        " join trajectories t on t.id = c.trajectory), '[]'), 'existing', (select count(*) from old where same),"
        " 'different', coalesce((select json_agg(name order by name) from old where not same), '[]'))",
        VALUES(value_text(trajectory.text), value_json(many->rows)), &many->document, error);
}

enum status checkpoint_insert_many(struct connection *connection, const char *trajectory, const json_t *rows,
                                   json_t **document, struct error *error)
{
    struct many many = {.trajectory = trajectory, .rows = rows};
    return store_transaction(connection, insert_many_body, &many, &many.document, document, error);
}

enum status checkpoint_needs(struct connection *connection, struct checkpoint_need **out, size_t *count,
                             struct error *error)
{
    struct rows *rows;
    *out = NULL;
    *count = 0;
    enum status status = connection_query(
        connection,
        "select " CHECKPOINT_REMOTE ", coalesce(c.source ->> 'commit', ''), coalesce((c.source -> 'files')::text, ''),"
        " bool_or(r.state = 'running') from" RUN_UNFINISHED "r join run_inputs i on i.run = r.id"
        " join checkpoints c on c.id = i.checkpoint where " CHECKPOINT_REMOTE " is not null group by 1, 2, 3",
        NO_VALUES, &rows, error);
    if (status != STATUS_OK) return status;
    *out = calloc((size_t)rows_count(rows) + 1, sizeof **out);
    if (*out == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a list of checkpoints");
    for (int i = 0; status == STATUS_OK && i < rows_count(rows); i++) {
        struct checkpoint_need *need = &(*out)[(*count)++];
        (void)snprintf(need->repo, sizeof need->repo, "%s", rows_text(rows, i, 0));
        (void)snprintf(need->commit, sizeof need->commit, "%s", rows_text(rows, i, 1));
        (void)snprintf(need->files, sizeof need->files, "%s", rows_text(rows, i, 2));
        need->running = rows_boolean(rows, i, 3);
    }
    rows_free(rows);
    return status;
}

#include "store/health.h"

#include "store/checkpoints.h"
#include "store/trajectories.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys and homes are stored in this machine's byte order, which is little-endian on all that deltaq runs on. */
static enum status save_body(struct connection *connection, void *context, struct error *error)
{
    const struct health_new *new = context;
    struct rows *rows;
    enum status status = connection_query(connection, "select 1 from checkpoints where id = $1 for no key update",
                                          VALUES(value_text(new->checkpoint)), &rows, error);
    if (status != STATUS_OK) return status;
    if (rows_count(rows) == 0) status = error_set(error, STATUS_NOT_FOUND, "the checkpoint was deleted meanwhile");
    rows_free(rows);
    if (status != STATUS_OK) return status;
    status = connection_execute(connection, "delete from checkpoint_health where checkpoint = $1",
                                VALUES(value_text(new->checkpoint)), NULL, error);
    if (status != STATUS_OK) return status;
    status = connection_execute(
        connection,
        "insert into checkpoint_health (checkpoint, content, tensors, elements, nan, infinite, l1, l2, linf, kurtosis,"
        " outlier_share,"
        " previous, relative_l2, cosine, files, layers, keys, homes)"
        " select $1, d.sha256, d.tensor_count, d.elements, d.nan, d.infinite, d.l1, d.l2, d.linf, d.kurtosis,"
        " d.outlier_share,"
        " (select p.id from checkpoints p where p.id = d.previous), d.relative_l2, d.cosine, d.files, d.blocks, $3, $4"
        " from json_to_record($2::json) as d (sha256 text, tensor_count integer, elements bigint, nan bigint,"
        " infinite bigint,"
        " l1 double precision, l2 double precision, linf double precision, kurtosis double precision,"
        " outlier_share double precision,"
        " previous text, relative_l2 double precision, cosine double precision, files json, blocks json)",
        VALUES(value_text(new->checkpoint), value_json(new->document),
               value_bytes(new->keys, (size_t) new->matrices * sizeof *new->keys),
               value_bytes(new->homes, (size_t) new->matrices * sizeof *new->homes)),
        NULL, error);
    if (status != STATUS_OK) return status;
    return connection_execute(
        connection,
        "insert into tensor_health (checkpoint, place, matrix, name, dtype, layer, file, sha256, elements, nan,"
        " infinite, l1, l2,"
        " linf, mean, kurtosis, outliers, relative_l2, cosine)"
        " select $1, t.* from json_to_recordset($2::json) as t (place integer, matrix integer, name text, dtype text,"
        " layer integer,"
        " file text, sha256 text, elements bigint, nan bigint, infinite bigint, l1 double precision,"
        " l2 double precision,"
        " linf double precision, mean double precision, kurtosis double precision, outliers bigint,"
        " relative_l2 double precision,"
        " cosine double precision)",
        VALUES(value_text(new->checkpoint), value_json(new->tensors)), NULL, error);
}

enum status health_save(struct connection *connection, const struct health_new *health, struct error *error)
{
    struct health_new copy = *health;
    return connection_transaction(connection, save_body, &copy, NULL, error);
}

enum status health_get(struct connection *connection, const char *checkpoint, json_t **document, struct error *error)
{
    struct checkpoint *row = malloc(sizeof *row);
    *document = NULL;
    if (row == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a checkpoint");
    enum status status = checkpoint_find(connection, checkpoint, row, error);
    if (status == STATUS_OK) {
        status = connection_query_json(
            connection,
            "select json_build_object('checkpoint', h.checkpoint, 'sha256', h.content, 'tensor_count', h.tensors,"
            " 'elements', h.elements,"
            " 'nan', h.nan, 'infinite', h.infinite, 'l1', h.l1, 'l2', h.l2, 'linf', h.linf, 'kurtosis', h.kurtosis,"
            " 'outlier_share', h.outlier_share, 'previous', h.previous, 'relative_l2', h.relative_l2,"
            " 'cosine', h.cosine,"
            " 'files', h.files, 'blocks', h.layers, 'tensors',"
            " (select coalesce(json_agg(json_build_object('name', t.name, 'dtype', t.dtype,"
            " 'layer', t.layer, 'file', t.file, 'sha256', t.sha256, 'elements', t.elements, 'nan', t.nan,"
            " 'infinite', t.infinite,"
            " 'l1', t.l1, 'l2', t.l2, 'linf', t.linf, 'mean', t.mean, 'kurtosis', t.kurtosis, 'outliers', t.outliers,"
            " 'relative_l2', t.relative_l2, 'cosine', t.cosine) order by t.place), '[]') from tensor_health t"
            " where t.checkpoint = h.checkpoint),"
            " 'created_at', rfc3339(h.created_at)) from checkpoint_health h where h.checkpoint = $1",
            VALUES(value_text(row->id.text)), document, error);
        if (status == STATUS_NOT_FOUND)
            (void)error_set(error, status, "the weights of \"%.200s\" were not read yet: post a run of the kind health",
                            row->name);
    }
    free(row);
    return status;
}

static enum status read_measured(const struct rows *rows, int row, struct health_row *out, struct error *error)
{
    void *homes = NULL, *keys = NULL;
    size_t length = 0, homes_length = 0;
    enum status status;
    out->measured = !rows_null(rows, row, 4);
    if (!out->measured) return STATUS_OK;
    (void)snprintf(out->content, sizeof out->content, "%s", rows_text(rows, row, 4));
    (void)snprintf(out->previous.text, sizeof out->previous.text, "%s", rows_text(rows, row, 5));
    out->relative = rows_double(rows, row, 6);
    out->cosine = rows_double(rows, row, 7);
    out->not_finite = rows_integer(rows, row, 8);
    if ((status = rows_json(rows, row, 9, &out->files, error)) != STATUS_OK) return status;
    if ((status = rows_bytes(rows, row, 10, &keys, &length, error)) != STATUS_OK) return status;
    out->keys = keys;
    if ((status = rows_bytes(rows, row, 11, &homes, &homes_length, error)) != STATUS_OK) return status;
    out->homes = homes;
    out->matrices = (int64_t)(length / sizeof *out->keys);
    return STATUS_OK;
}

enum status health_of_trajectory(struct connection *connection, const char *trajectory, struct health_rows *out,
                                 struct error *error)
{
    struct store_id id;
    struct rows *rows;
    *out = (struct health_rows){0};
    enum status status = trajectory_resolve(connection, trajectory, &id, error);
    if (status != STATUS_OK) return status;
    status = connection_query(
        connection,
        "select c.id, c.name, coalesce(c.step, -1), coalesce(c.tokens, -1), h.content, h.previous, h.relative_l2,"
        " h.cosine, h.nan + h.infinite, h.files, h.keys, h.homes from checkpoints c"
        " left join checkpoint_health h on h.checkpoint = c.id where c.trajectory = $1"
        " order by coalesce(c.step, 9223372036854775807), c.number",
        VALUES(value_text(id.text)), &rows, error);
    if (status != STATUS_OK) return status;
    out->items = calloc((size_t)rows_count(rows) + 1, sizeof *out->items);
    if (out->items == NULL)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for %d checkpoints", rows_count(rows));
    for (int i = 0; status == STATUS_OK && i < rows_count(rows); i++) {
        struct health_row *row = &out->items[out->count++];
        (void)snprintf(row->id.text, sizeof row->id.text, "%s", rows_text(rows, i, 0));
        (void)snprintf(row->name, sizeof row->name, "%s", rows_text(rows, i, 1));
        row->step = rows_integer(rows, i, 2);
        row->tokens = rows_integer(rows, i, 3);
        status = read_measured(rows, i, row, error);
    }
    rows_free(rows);
    if (status != STATUS_OK) health_rows_reset(out);
    return status;
}

void health_rows_reset(struct health_rows *rows)
{
    for (int64_t i = 0; i < rows->count; i++) {
        json_decref(rows->items[i].files);
        free(rows->items[i].keys);
        free(rows->items[i].homes);
    }
    free(rows->items);
    *rows = (struct health_rows){0};
}

enum status health_trajectories(struct connection *connection, const char *const *references, size_t count,
                                json_t **out, struct error *error)
{
    json_t *asked = NULL;
    enum status status = store_texts(references, count, &asked, error);
    if (status == STATUS_OK)
        status = connection_query_json(
            connection,
            CONNECTION_KEEPS_PLAN "with asked as (select array(select json_array_elements_text($1::json)) as names)"
                                  " select coalesce(json_agg(t.id), '[]') from asked a join trajectories t"
                                  " on t.id = any (a.names) or t.name = any (a.names) where exists (select from"
                                  " checkpoints c join checkpoint_health h on h.checkpoint = c.id"
                                  " where c.trajectory = t.id)",
            VALUES(value_json(asked)), out, error);
    json_decref(asked);
    return status;
}

enum status health_matrix_names(struct connection *connection, const json_t *wanted, json_t **out, struct error *error)
{
    return connection_query_json(
        connection,
        "select coalesce(json_agg(t.name order by w.place), '[]') from json_array_elements($1::json)"
        " with ordinality as w (pair, place)"
        " left join tensor_health t on t.checkpoint = w.pair ->> 0 and t.matrix = (w.pair ->> 1)::integer",
        VALUES(value_json(wanted)), out, error);
}

enum status health_not_finite(struct connection *connection, const char *trajectory, const char *checkpoint,
                              int64_t most, json_t **out, struct error *error)
{
    return connection_query_json(
        connection,
        "select coalesce(json_agg(json_build_object('checkpoint', f.id, 'name', f.name, 'tensor', f.tensor,"
        " 'nan', f.nan,"
        " 'infinite', f.infinite) order by f.step nulls last, f.number, f.place), '[]')"
        " from (select c.id, c.name, c.step, c.number,"
        " x.place, x.name as tensor, x.nan, x.infinite from trajectories t join checkpoints c on c.trajectory = t.id"
        " join checkpoint_health h on h.checkpoint = c.id and h.nan + h.infinite > 0"
        " join tensor_health x on x.checkpoint = c.id and x.nan + x.infinite > 0 where (t.id = $1 or t.name = $1)"
        " and ($3::text is null or c.id = $3) order by c.step nulls last, c.number, x.place limit $2) f",
        VALUES(value_text(trajectory), value_integer(most), value_text(checkpoint)), out, error);
}

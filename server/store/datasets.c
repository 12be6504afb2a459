#include "store/datasets.h"

#include "store/list.h"
#include "store/unused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The definition's own fields follow the common ones, in the order in which they were given. */
#define DOCUMENT                                                                                                 \
    "(select json_object_agg(key, value order by place) from (select 1, 'id', to_json(d.id) union all select 2," \
    " 'name', to_json(d.name)"                                                                                   \
    " union all select 3, 'format', to_json(d.format) union all select 3 + e.place, e.key, e.value"              \
    " from json_each(d.definition)"                                                                              \
    " with ordinality as e (key, value, place) union all select 101, 'sequences', to_json(d.sequences)"          \
    " union all select 102, 'tokens', to_json(d.tokens) union all select 103, 'sha256', to_json(d.sha256)"       \
    " union all select 104, 'created_at', to_json(rfc3339(d.created_at))) as field (place, key, value))"
#define MATCH " d.id = $1 or d.name = $1 order by (d.id = $1) desc limit 1"

struct insertion {
    const struct dataset_new *dataset;
    enum store_outcome outcome; /* out */
    struct store_id id;         /* out */
};

static enum status compare(struct connection *connection, struct insertion *insertion, struct error *error)
{
    const struct dataset_new *new = insertion->dataset;
    struct rows *rows;
    const enum status status = connection_query_one(
        connection,
        "select id, format = $2 and definition::jsonb = $3::jsonb and coalesce(sha256, $4,"
        " '') = coalesce($4, sha256, '')"
        " and coalesce(fingerprint, $5, '') = coalesce($5, fingerprint, '') from datasets where name = $1",
        VALUES(value_text(new->name), value_text(new->format), value_json(new->definition), value_text(new->sha256),
               value_text(new->fingerprint)),
        &rows, error);
    if (status != STATUS_OK) return status;
    const bool same = rows_boolean(rows, 0, 1);
    insertion->id = store_id_of(rows);
    rows_free(rows);
    if (same) return STATUS_OK;
    return error_set(error, STATUS_CONFLICT, "another dataset is called \"%.200s\": choose another name", new->name);
}

/* A deleted dataset `g` that measurements still know by its name. */
#define STILL_MEASURED                                                                                     \
    " exists (select from run_inputs i join measurements m on m.run = i.run and m.dataset = g.name where " \
    "i.gone = g.id) "

/* Measurements know a dataset by its name, so a new one may have that of a deleted one only with the same data,
 * wherever it lies. Of large files and objects the first run tells (dataset_set_content). Reads after the insertion,
 * which waits for a deletion under way. */
static enum status check_gone(struct connection *connection, const struct dataset_new *new, struct error *error)
{
    bool other = false;
    const enum status status = connection_query_boolean(
        connection,
        "select exists (select from datasets_gone g where g.name = $1 and" STILL_MEASURED
        "and (g.format = $2 and g.definition::jsonb - 'path' - 'commit' = $3::jsonb - 'path' - 'commit' and"
        " case when g.sha256 is not null and $4::text is not null then g.sha256 = $4"
        " else coalesce(g.fingerprint, $5, '') = coalesce($5, g.fingerprint, '') end) is not true)",
        VALUES(value_text(new->name), value_text(new->format), value_json(new->definition), value_text(new->sha256),
               value_text(new->fingerprint)),
        &other, error);
    if (status != STATUS_OK || !other) return status;
    return error_set_at(
        error, STATUS_CONFLICT, "/name",
        "a deleted dataset was called \"%.200s\", its measurements are kept under that name, and this is"
        " not the same data: choose another name",
        new->name);
}

enum { CHUNK = (1 << 20) / sizeof(int32_t) }; /* numbers in a row; the schema has the same bound */

static const char *const part_names[DATASET_PARTS] = {"lengths", "tokens"};

static enum status insert_part(struct connection *connection, const struct insertion *insertion, enum dataset_part part,
                               int32_t *numbers, struct error *error)
{
    const struct dataset_sequences *from = insertion->dataset->sequences;
    enum status status = STATUS_OK;
    for (int64_t first = 0; first < from->counts[part] && status == STATUS_OK; first += CHUNK) {
        const int64_t left = from->counts[part] - first, count = left < CHUNK ? left : CHUNK;
        if ((status = from->read(from->owner, part, first, count, numbers, error)) != STATUS_OK) return status;
        status = connection_execute(connection,
                                    "insert into dataset_chunks (dataset, part, number, numbers)"
                                    " values ($1, $2, $3, $4)",
                                    VALUES(value_text(insertion->id.text), value_text(part_names[part]),
                                           value_integer(first / CHUNK),
                                           value_bytes(numbers, (size_t)count * sizeof *numbers)),
                                    NULL, error);
    }
    return status;
}

static enum status insert_sequences(struct connection *connection, const struct insertion *insertion,
                                    struct error *error)
{
    enum status status = STATUS_OK;
    int32_t *numbers = malloc(CHUNK * sizeof *numbers);
    if (numbers == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for sequences");
    for (int part = 0; part < DATASET_PARTS && status == STATUS_OK; part++)
        status = insert_part(connection, insertion, (enum dataset_part)part, numbers, error);
    free(numbers);
    return status;
}

static enum status insert_body(struct connection *connection, void *context, struct error *error)
{
    struct rows *rows;
    struct insertion *insertion = context;
    const struct dataset_new *new = insertion->dataset;
    const struct dataset_sequences *inline_ones = new->sequences;
    const int64_t *counts = inline_ones != NULL ? inline_ones->counts : NULL;
    enum status status = connection_query(
        connection,
        "insert into datasets (name, format, definition, sha256, sequences, tokens, fingerprint)"
        " values ($1, $2, $3, $4, $5, $6, $7) on conflict (name) do nothing returning id",
        VALUES(value_text(new->name), value_text(new->format), value_json(new->definition), value_text(new->sha256),
               value_integer_or_null(counts != NULL ? &counts[DATASET_PART_LENGTHS] : NULL),
               value_integer_or_null(counts != NULL ? &counts[DATASET_PART_TOKENS] : NULL),
               value_text(new->fingerprint)),
        &rows, error);
    if (status != STATUS_OK) return status;
    const bool made = rows_count(rows) == 1;
    if (made) insertion->id = store_id_of(rows);
    rows_free(rows);
    insertion->outcome = made ? STORE_CREATED : STORE_EXISTED;
    if (!made) return compare(connection, insertion, error);
    if ((status = check_gone(connection, new, error)) != STATUS_OK) return status;
    return inline_ones != NULL ? insert_sequences(connection, insertion, error) : STATUS_OK;
}

enum status dataset_insert(struct connection *connection, const struct dataset_new *dataset,
                           enum store_outcome *outcome, json_t **document, struct error *error)
{
    struct insertion insertion = {.dataset = dataset};
    const enum status status = connection_transaction(connection, insert_body, &insertion, NULL, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    *outcome = insertion.outcome;
    return dataset_get(connection, insertion.id.text, document, error);
}

enum status dataset_find(struct connection *connection, const char *reference, struct dataset *out, struct error *error)
{
    struct rows *rows;
    enum status status = connection_query_one(
        connection,
        "select d.id, d.name, d.format, coalesce(d.sha256, ''), d.definition, coalesce(d.fingerprint, ''),"
        " coalesce(d.sequences, 0), coalesce(d.tokens, 0) from datasets d where" MATCH,
        VALUES(value_text(reference)), &rows, error);
    memset(out, 0, sizeof *out);
    if (status == STATUS_NOT_FOUND) return store_unknown("dataset", reference, error);
    if (status != STATUS_OK) return status;
    out->id = store_id_of(rows);
    (void)snprintf(out->name, sizeof out->name, "%s", rows_text(rows, 0, 1));
    (void)snprintf(out->format, sizeof out->format, "%s", rows_text(rows, 0, 2));
    (void)snprintf(out->sha256, sizeof out->sha256, "%s", rows_text(rows, 0, 3));
    (void)snprintf(out->fingerprint, sizeof out->fingerprint, "%s", rows_text(rows, 0, 5));
    out->inline_sequences = strcmp(out->format, "sequences") == 0;
    out->counts[DATASET_PART_LENGTHS] = rows_integer(rows, 0, 6);
    out->counts[DATASET_PART_TOKENS] = rows_integer(rows, 0, 7);
    status = rows_json(rows, 0, 4, &out->definition, error);
    rows_free(rows);
    return status;
}

void dataset_reset(struct dataset *dataset)
{
    json_decref(dataset->definition);
    memset(dataset, 0, sizeof *dataset);
}

/* Reads chunk `number` into `out`, which has space for `most` numbers. *count: its length; 0: the chunk does not
 * exist. */
static enum status read_chunk(struct connection *connection, const struct store_id *id, enum dataset_part part,
                              int64_t number, int64_t most, int32_t *out, int64_t *count, struct error *error)
{
    struct rows *rows;
    void *bytes = NULL;
    size_t size = 0;
    *count = 0;
    enum status status = connection_query(
        connection, "select numbers from dataset_chunks where dataset = $1 and part = $2 and number = $3",
        VALUES(value_text(id->text), value_text(part_names[part]), value_integer(number)), &rows, error);
    if (status != STATUS_OK) return status;
    if (rows_count(rows) == 1) status = rows_bytes(rows, 0, 0, &bytes, &size, error);
    rows_free(rows);
    if (status == STATUS_OK && size / sizeof *out <= (size_t)most) {
        *count = (int64_t)(size / sizeof *out);
        if (size > 0) memcpy(out, bytes, size);
    }
    free(bytes);
    return status;
}

enum status dataset_numbers(struct connection *connection, const struct dataset *dataset, enum dataset_part part,
                            int32_t *out, struct error *error)
{
    const int64_t all = dataset->counts[part];
    int64_t count = 0, have = 0;
    enum status status = STATUS_OK;
    for (int64_t number = 0; have < all; number++, have += count) {
        status = read_chunk(connection, &dataset->id, part, number, all - have, out + have, &count, error);
        if (status != STATUS_OK) return status;
        if (count == 0) break;
    }
    if (have == all) return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "the dataset has %lld %s, %lld of them are there", (long long)all,
                     part_names[part], (long long)have);
}

enum status dataset_set_content(struct connection *connection, const struct store_id *id, const char *sha256,
                                struct error *error)
{
    return store_set_content(
        connection,
        "update datasets d set sha256 = $2 where id = $1 and (sha256 is null or sha256 = $2) and not exists"
        " (select from datasets_gone g where g.name = d.name and g.sha256 <> $2 and" STILL_MEASURED ")",
        id, sha256,
        "the data is not what was registered, or what was measured under this name: register it under another name",
        error);
}

enum status dataset_get(struct connection *connection, const char *reference, json_t **document, struct error *error)
{
    return store_get(connection, "select " DOCUMENT " from datasets d where" MATCH, "dataset", reference, document,
                     error);
}

static const struct list_order orders[] = LIST_ORDERS("datasets", "d", DOCUMENT);

enum status dataset_list(struct connection *connection, const struct list_filter *filter, const struct page *page,
                         json_t **document, struct error *error)
{
    return list_named(connection, orders, filter, page, document, error);
}

enum status dataset_name_measured(struct connection *connection, const char *reference, char out[STORE_NAME],
                                  struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(
        connection,
        CONNECTION_KEEPS_PLAN "select case when exists (select from datasets where name = $1) or exists"
                              " (select from series where dataset = $1) then $1::text"
                              " else coalesce((select name from datasets where id = $1), (select name from"
                              " datasets_gone where id = $1), '') end",
        VALUES(value_text(reference)), &rows, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(out, STORE_NAME, "%s", rows_text(rows, 0, 0));
    rows_free(rows);
    return STATUS_OK;
}

static const struct unused_kind kind = UNUSED_KIND("datasets", "dataset");

enum status dataset_delete(struct connection *connection, const char *reference, struct error *error)
{
    struct dataset dataset;
    enum status status = dataset_find(connection, reference, &dataset, error);
    if (status == STATUS_OK) status = unused_delete(connection, &kind, dataset.id.text, error);
    dataset_reset(&dataset);
    return status;
}

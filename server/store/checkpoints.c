#include "store/checkpoints.h"

#include "store/checkpoint_document.h"
#include "store/list.h"
#include "store/trajectories.h"
#include "store/unused.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOCUMENT CHECKPOINT_DOCUMENT
#define FROM     " from checkpoints c join trajectories t on t.id = c.trajectory"
#define FIELDS                                                                                                       \
    "c.id, c.trajectory, c.name, t.name, coalesce(c.path, ''), coalesce(c.sha256, ''), coalesce(c.fingerprint, '')," \
    " coalesce(c.architecture, ''), coalesce(c.step, -1), coalesce(c.tokens, -1), c.learning_rate,"                  \
    " coalesce(" CHECKPOINT_REMOTE                                                                                   \
    ", ''), coalesce(c.source ->> 'revision', ''), coalesce(c.source ->> 'commit', ''),"                             \
    " coalesce((c.source -> 'files')::text, ''), coalesce((c.source -> 'config')::text, '')"

/* An id has precedence over TRAJECTORY/NAME, and that over a bare name. */
static enum status resolve(struct connection *connection, const char *reference, struct store_id *id,
                           struct error *error)
{
    struct rows *rows;
    enum status status = connection_query(
        connection,
        CONNECTION_KEEPS_PLAN
        "select id, 0 from checkpoints where id = $1"
        " union all select c.id, 1" FROM
        " where t.name = split_part($1, '/', 1) and c.name = substr($1, strpos($1, '/') + 1) and strpos($1, '/') > 0"
        " union all select id, 2 from checkpoints where name = $1 order by 2 limit 2",
        VALUES(value_text(reference)), &rows, error);
    if (status != STATUS_OK) return status;
    if (rows_count(rows) == 0)
        status = store_unknown("checkpoint", reference, error);
    else if (rows_count(rows) == 2 && rows_integer(rows, 0, 1) == 2)
        status =
            error_set(error, STATUS_CONFLICT,
                      "several trajectories have a checkpoint \"%.200s\": give TRAJECTORY/NAME or the id", reference);
    else
        *id = store_id_of(rows);
    rows_free(rows);
    return status;
}

static void fill(const struct rows *rows, int row, struct checkpoint *out)
{
    (void)snprintf(out->id.text, sizeof out->id.text, "%s", rows_text(rows, row, 0));
    (void)snprintf(out->trajectory.text, sizeof out->trajectory.text, "%s", rows_text(rows, row, 1));
    (void)snprintf(out->name, sizeof out->name, "%s", rows_text(rows, row, 2));
    (void)snprintf(out->trajectory_name, sizeof out->trajectory_name, "%s", rows_text(rows, row, 3));
    (void)snprintf(out->path, sizeof out->path, "%s", rows_text(rows, row, 4));
    (void)snprintf(out->sha256, sizeof out->sha256, "%s", rows_text(rows, row, 5));
    (void)snprintf(out->fingerprint, sizeof out->fingerprint, "%s", rows_text(rows, row, 6));
    (void)snprintf(out->architecture, sizeof out->architecture, "%s", rows_text(rows, row, 7));
    out->step = rows_integer(rows, row, 8);
    out->tokens = rows_integer(rows, row, 9);
    out->learning_rate = rows_double(rows, row, 10);
    (void)snprintf(out->repo, sizeof out->repo, "%s", rows_text(rows, row, 11));
    (void)snprintf(out->revision, sizeof out->revision, "%s", rows_text(rows, row, 12));
    (void)snprintf(out->commit, sizeof out->commit, "%s", rows_text(rows, row, 13));
    (void)snprintf(out->files, sizeof out->files, "%s", rows_text(rows, row, 14));
    (void)snprintf(out->config, sizeof out->config, "%s", rows_text(rows, row, 15));
}

const char *checkpoint_config(const struct checkpoint *row)
{
    return row->config[0] != '\0' ? row->config : NULL;
}

struct insertion {
    const struct checkpoint_new *checkpoint;
    enum store_outcome outcome; /* out */
    struct store_id id;         /* out */
};

/* The run that makes the checkpoint; NULL: none does. */
static const char *maker_of(const struct checkpoint_new *new)
{
    return json_string_value(json_object_get(new->derived_from, "run"));
}

static enum status differs(const struct checkpoint_new *new, const struct rows *rows, struct error *error)
{
    const char *pointer = rows_text(rows, 0, 1);
    if (rows_boolean(rows, 0, 3) && pointer[0] == '\0')
        return error_set(error, STATUS_CONFLICT,
                         "an earlier attempt at this run left a checkpoint \"%.200s\" of other content (another kind of"
                         " device computes other bits): delete that checkpoint, then retry the run",
                         new->name);
    return error_set_at(error, STATUS_CONFLICT, pointer,
                        "a checkpoint \"%.200s\" %s is registered there: choose another name", new->name,
                        rows_text(rows, 0, 2));
}

/* Compares the stored checkpoint of that name with the given fields of the new one. The error's pointer is the first
 * field that differs, as in a request that makes a checkpoint. The source is not compared when the same run made both:
 * another attempt may have run on another machine. */
static enum status compare(struct connection *connection, const struct store_id *trajectory,
                           struct insertion *insertion, struct error *error)
{
    const struct checkpoint_new *new = insertion->checkpoint;
    struct rows *rows;
    const enum status status = connection_query_one(
        connection,
        "select id, pointer, case pointer when '/step' then 'with step ' || coalesce(step::text, 'unknown')"
        " when '/tokens' then 'with tokens ' || coalesce(tokens::text, 'unknown')"
        " when '/learning_rate' then 'with learning_rate ' || coalesce(learning_rate::text, 'unknown') when '/tags'"
        " then 'with other tags'"
        " when '' then 'of other content in the same files' else 'of another source' end, own"
        " from (select *, case when own then case when fingerprint <> $4 or sha256 <> $5 then '' end"
        " when source::jsonb -> 'path' is distinct from $3::jsonb -> 'path' then '/source/path'"
        " when source::jsonb -> 'config' is distinct from $3::jsonb -> 'config' then '/source/config'"
        " when source::jsonb <> $3::jsonb then '/source' when fingerprint <> $4 or sha256 <> $5 then ''"
        " when step is distinct from coalesce($6, step) then '/step' when tokens is distinct from coalesce($7, tokens)"
        " then '/tokens'"
        " when learning_rate is distinct from coalesce($8, learning_rate) then '/learning_rate'"
        " when tags::jsonb <> coalesce($9::jsonb, tags::jsonb) then '/tags' end as pointer"
        " from (select *, coalesce(derived_from ->> 'run' = $10, false) as own from checkpoints"
        " where trajectory = $1 and name = $2) stored) found",
        VALUES(value_text(trajectory->text), value_text(new->name), value_json(new->source),
               value_text(new->fingerprint), value_text(new->sha256), value_integer_or_null(new->step),
               value_integer_or_null(new->tokens), value_double_or_null(new->learning_rate), value_json(new->tags),
               value_text(maker_of(new))),
        &rows, error);
    if (status != STATUS_OK) return status;
    insertion->id = store_id_of(rows);
    const enum status told = rows_null(rows, 0, 1) ? STATUS_OK : differs(new, rows, error);
    rows_free(rows);
    return told;
}

/* Stores the path of the newest attempt at the run that made the checkpoint, because the machine of an earlier attempt
 * may be gone. A checkpoint in a bucket stays there. */
static enum status move(struct connection *connection, const struct insertion *insertion, struct error *error)
{
    const struct checkpoint_new *new = insertion->checkpoint;
    if (maker_of(new) == NULL) return STATUS_OK;
    return connection_execute(connection,
                              "update checkpoints set path = $2,"
                              " source = case when source ->> 'commit' is null then $3::json else source end"
                              " where id = $1 and derived_from ->> 'run' = $4 and (path is distinct from $2"
                              " or (source ->> 'commit' is null and source::jsonb <> $3::jsonb))",
                              VALUES(value_text(insertion->id.text), value_text(new->path), value_json(new->source),
                                     value_text(maker_of(new))),
                              NULL, error);
}

static enum status insert_body(struct connection *connection, void *context, struct error *error)
{
    enum status status;
    struct rows *rows;
    struct insertion *insertion = context;
    const struct checkpoint_new *new = insertion->checkpoint;
    struct store_id trajectory;
    if ((status = trajectory_ensure(connection, new->trajectory, &trajectory, NULL, error)) != STATUS_OK) return status;
    status = connection_query(
        connection,
        "insert into checkpoints (trajectory, name, step, tokens, learning_rate, source, path,"
        " architecture, parameters,"
        " dtype, bytes, fingerprint, files, sha256, derived_from, tags)"
        " values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, coalesce($16::json, '{}'))"
        " on conflict on constraint checkpoints_name_unique do nothing returning id",
        VALUES(value_text(trajectory.text), value_text(new->name), value_integer_or_null(new->step),
               value_integer_or_null(new->tokens), value_double_or_null(new->learning_rate), value_json(new->source),
               value_text(new->path), value_text(new->architecture), value_integer_or_null(new->parameters),
               value_text(new->dtype), value_integer_or_null(new->bytes), value_text(new->fingerprint),
               value_json(new->files), value_text(new->sha256), value_json(new->derived_from), value_json(new->tags)),
        &rows, error);
    if (status != STATUS_OK) return status;
    const bool made = rows_count(rows) == 1;
    if (made) insertion->id = store_id_of(rows);
    rows_free(rows);
    insertion->outcome = made ? STORE_CREATED : STORE_EXISTED;
    if (made) return STATUS_OK;
    status = compare(connection, &trajectory, insertion, error);
    return status == STATUS_OK ? move(connection, insertion, error) : status;
}

enum status checkpoint_insert(struct connection *connection, const struct checkpoint_new *checkpoint,
                              enum store_outcome *outcome, json_t **document, struct error *error)
{
    struct insertion insertion = {.checkpoint = checkpoint};
    const enum status status = connection_transaction(connection, insert_body, &insertion, NULL, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    *outcome = insertion.outcome;
    return checkpoint_get(connection, insertion.id.text, document, error);
}

enum status checkpoint_find(struct connection *connection, const char *reference, struct checkpoint *out,
                            struct error *error)
{
    struct store_id id;
    struct rows *rows;
    enum status status = resolve(connection, reference, &id, error);
    if (status != STATUS_OK) return status;
    status = connection_query_one(connection, CONNECTION_KEEPS_PLAN "select " FIELDS FROM " where c.id = $1",
                                  VALUES(value_text(id.text)), &rows, error);
    if (status == STATUS_NOT_FOUND) return store_unknown("checkpoint", reference, error);
    if (status != STATUS_OK) return status;
    fill(rows, 0, out);
    rows_free(rows);
    return STATUS_OK;
}

static enum status show(struct connection *connection, const char *sql, const char *reference, json_t **document,
                        struct error *error)
{
    struct store_id id;
    enum status status = resolve(connection, reference, &id, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    status = connection_query_json(connection, sql, VALUES(value_text(id.text)), document, error);
    return status == STATUS_NOT_FOUND ? store_unknown("checkpoint", reference, error) : status;
}

enum status checkpoint_get(struct connection *connection, const char *reference, json_t **document, struct error *error)
{
    return show(connection, "select " DOCUMENT FROM " where c.id = $1", reference, document, error);
}

enum status checkpoint_files(struct connection *connection, const char *reference, json_t **document,
                             struct error *error)
{
    return show(connection, "select c.files from checkpoints c where c.id = $1", reference, document, error);
}

#define NAMED   LIST_NAMED("c.name", "$4")
#define TAGGED  LIST_TAGGED("c.tags", "$5")
#define STEPS   LIST_STEPS("c.step", "$6", "$7")
#define CREATED LIST_CREATED("c.created_at", "$8", "$9")
#define FITS    " and ($3 = '' or c.trajectory = $3)" NAMED TAGGED STEPS CREATED
#define LISTED(behind, order, cursor)                                                                             \
    LIST_BY_CURSOR("", "select c.number, " DOCUMENT FROM " where ($2::bigint is null or " behind ")" FITS, order, \
                   cursor)
#define STEP      "coalesce(c.step, 9223372036854775807)" /* an index has it so */
#define BY_NUMBER "number::text"
#define BY_STEP   LIST_MARKED("coalesce(document ->> 'step', '')")
#define BY_NAME   LIST_MARKED("document ->> 'name'")
#define KEY_STEP  LIST_KEY(STEP "::text", "coalesce(c.step::text, '')", "checkpoints c")
#define KEY_NAME  LIST_KEY("name", "name", "checkpoints")
static const struct list_order orders[] = {
    {.name = "-created", .sql = LISTED("c.number < $2", "c.number desc", BY_NUMBER)},
    {.name = "created", .sql = LISTED("c.number > $2", "c.number", BY_NUMBER)},
    {.name = "step",
     .sql = LISTED("(" STEP ", c.number) > ($10::bigint, $2)", STEP ", c.number", BY_STEP),
     .key = KEY_STEP,
     .of_trajectory = true},
    {.name = "-step",
     .sql = LISTED("(" STEP ", c.number) < ($10::bigint, $2)", STEP " desc, c.number desc", BY_STEP),
     .key = KEY_STEP,
     .of_trajectory = true},
    {.name = "name",
     .sql = LISTED("(c.name, c.number) > ($10, $2)", "c.name, c.number", BY_NAME),
     .key = KEY_NAME,
     .of_trajectory = true},
    {.name = "-name",
     .sql = LISTED("(c.name, c.number) < ($10, $2)", "c.name desc, c.number desc", BY_NAME),
     .key = KEY_NAME,
     .of_trajectory = true},
    {0},
};

enum status checkpoint_list(struct connection *connection, const char *trajectory, const struct list_filter *filter,
                            const struct page *page, json_t **document, struct error *error)
{
    enum status status;
    struct store_id id = {""};
    struct list_cursor place;
    *document = NULL;
    status = list_cursor_find(connection, page, orders, trajectory != NULL, &place, error);
    if (status != STATUS_OK) return status;
    if (trajectory != NULL && (status = trajectory_resolve(connection, trajectory, &id, error)) != STATUS_OK)
        return status;
    return connection_query_json(
        connection, place.order->sql,
        VALUES(value_integer(place.limit), list_cursor_number(&place), value_text(id.text), value_text(filter->name),
               value_json(filter->tags), value_integer(filter->step_from), value_integer(filter->step_to),
               value_integer(filter->created_from), value_integer(filter->created_to), list_cursor_key(&place)),
        document, error);
}

enum status checkpoint_of_trajectory(struct connection *connection, const char *trajectory, struct checkpoint **out,
                                     size_t *count, struct error *error)
{
    enum status status;
    struct store_id id;
    struct rows *rows;
    *out = NULL;
    *count = 0;
    if ((status = trajectory_resolve(connection, trajectory, &id, error)) != STATUS_OK) return status;
    status = connection_query(connection,
                              "select " FIELDS FROM " where c.trajectory = $1 order by c.step nulls last, c.number",
                              VALUES(value_text(id.text)), &rows, error);
    if (status != STATUS_OK) return status;
    const size_t found = (size_t)rows_count(rows);
    *out = calloc(found + 1, sizeof **out);
    if (*out == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for %zu checkpoints", found);
    } else {
        for (size_t i = 0; i < found; i++) fill(rows, (int)i, &(*out)[i]);
        *count = found;
    }
    rows_free(rows);
    return status;
}

enum status checkpoint_before(struct connection *connection, const char *checkpoint, struct store_id *id,
                              struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query(
        connection,
        "select p.id from checkpoints c join checkpoints p on p.trajectory = c.trajectory and (p.path is not null"
        " or p.source ->> 'commit' is not null)"
        " and (coalesce(p.step, 9223372036854775807), p.number) < (coalesce(c.step, 9223372036854775807), c.number)"
        " where c.id = $1 order by coalesce(p.step, 9223372036854775807) desc, p.number desc limit 1",
        VALUES(value_text(checkpoint)), &rows, error);
    if (status != STATUS_OK) return status;
    *id = store_id_of(rows);
    rows_free(rows);
    return STATUS_OK;
}

enum status checkpoint_patch(struct connection *connection, const char *reference, const json_t *changes,
                             json_t **document, struct error *error)
{
    struct store_id id;
    /* Apart from the others, because a jsonb would print its numbers in another way than they were given. */
    const json_t *tags = json_object_get(changes, "tags");
    enum status status = resolve(connection, reference, &id, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    status = connection_execute(
        connection,
        "update checkpoints set name = coalesce($2::jsonb ->> 'name', name),"
        " step = case when $2::jsonb ? 'step' then ($2::jsonb ->> 'step')::bigint else step end,"
        " tokens = case when $2::jsonb ? 'tokens' then ($2::jsonb ->> 'tokens')::bigint else tokens end,"
        " learning_rate = case when $2::jsonb ? 'learning_rate' then ($2::jsonb ->> 'learning_rate')::double precision"
        " else learning_rate end,"
        " tags = case when $2::jsonb ? 'tags' then coalesce($3::json, '{}') else tags end where id = $1",
        VALUES(value_text(id.text), value_json(changes), value_json(json_is_null(tags) ? NULL : tags)), NULL, error);
    if (status == STATUS_CONFLICT)
        return error_set_at(error, STATUS_CONFLICT, "/name", "another checkpoint of the trajectory has this name");
    if (status != STATUS_OK) return status;
    return checkpoint_get(connection, id.text, document, error);
}

static const struct unused_kind kind = UNUSED_KIND("checkpoints", "checkpoint");

enum status checkpoint_delete(struct connection *connection, const char *reference, struct error *error)
{
    struct store_id id;
    const enum status status = resolve(connection, reference, &id, error);
    if (status != STATUS_OK) return status;
    return unused_delete(connection, &kind, id.text, error);
}

enum status checkpoint_set_content(struct connection *connection, const struct store_id *id, const char *sha256,
                                   struct error *error)
{
    return store_set_content(
        connection, "update checkpoints set sha256 = $2 where id = $1 and (sha256 is null or sha256 = $2)", id, sha256,
        "the weights are not the ones that were registered: register them under another name", error);
}

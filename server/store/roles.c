#include "store/roles.h"

#include <stdio.h>

/* When two processes make the role at once, the second one finds it and continues. */
#define MAKE(role)                                                                     \
    "do $$ begin if not exists (select from pg_roles where rolname = '" role "') then" \
    " create role " role " nologin; end if;"                                           \
    " exception when duplicate_object or unique_violation then null; end $$;"

static const char make_roles[] = MAKE("deltaq_server") MAKE("deltaq_worker") MAKE("deltaq_reader");

/* Tables that only the server reads: hashes of tokens, secrets of webhooks, answers to requests. */
#define SECRET " tokens, webhooks, webhook_deliveries, webhook_outcomes, idempotency_keys "
/* Tables that a worker writes: the queue, results, what it learns of checkpoints and datasets, and what triggers
 * write. */
#define WORKER_ADDS                                                                                              \
    " run_results, run_events, measurements, artifacts, task_questions, task_runs, task_items, checkpoints,"     \
    " trajectories, same_content, checkpoint_health, tensor_health, workers, series, newest, trajectory_counts," \
    " changes_pending, node_checkpoints, node_lacks "
#define WORKER_CHANGES                                                                                       \
    " runs, checkpoints, trajectories, datasets, workers, checkpoint_health, tensor_health, task_questions," \
    " task_runs, series, newest, trajectory_counts, node_checkpoints, node_lacks "
/* Tables that a worker deletes from: its own row, files that its node no longer has, and rows that are written anew. */
#define WORKER_REMOVES \
    " workers, node_checkpoints, node_lacks, checkpoint_health, tensor_health, newest, trajectory_counts "

static const char give_rights[] =
    "revoke all on all tables in schema public from deltaq_server, deltaq_worker, deltaq_reader;"
    "revoke all on all sequences in schema public from deltaq_server, deltaq_worker, deltaq_reader;"
    "grant usage on schema public to deltaq_server, deltaq_worker, deltaq_reader;"
    "grant select, insert, update, delete on all tables in schema public to deltaq_server;"
    "grant select on all sequences in schema public to deltaq_server;"
    "revoke insert, update, delete on schema_migrations, engine_revision from deltaq_server;"
    "grant select on all tables in schema public to deltaq_worker, deltaq_reader;"
    "revoke select on" SECRET "from deltaq_worker, deltaq_reader;"
    "grant insert on" WORKER_ADDS "to deltaq_worker;"
    "grant update on" WORKER_CHANGES "to deltaq_worker;"
    "grant delete on" WORKER_REMOVES "to deltaq_worker;";

static enum status can_make(struct connection *connection, bool *there, bool *may, struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(
        connection,
        "select (select count(*) = 3 from pg_roles where rolname in ('deltaq_server', 'deltaq_worker',"
        " 'deltaq_reader')),"
        " (select rolcreaterole or rolsuper from pg_roles where rolname = current_user)",
        NO_VALUES, &rows, error);
    if (status != STATUS_OK) return status;
    *there = rows_boolean(rows, 0, 0);
    *may = rows_boolean(rows, 0, 1);
    rows_free(rows);
    return STATUS_OK;
}

static enum status make_body(struct connection *connection, void *context, struct error *error)
{
    const bool *make = context;
    enum status status = *make ? connection_script(connection, make_roles, error) : STATUS_OK;
    return status == STATUS_OK ? connection_script(connection, give_rights, error) : status;
}

enum status roles_make(struct connection *connection, struct error *error)
{
    bool there, may, make;
    const enum status status = can_make(connection, &there, &may, error);
    if (status != STATUS_OK) return status;
    if (!there && !may)
        return error_set(error, STATUS_UNSUPPORTED,
                         "this user of the database may not make roles: it needs CREATEROLE, or somebody makes"
                         " deltaq_server, deltaq_worker and deltaq_reader (NOLOGIN) first");
    make = !there;
    return connection_transaction(connection, make_body, &make, NULL, error);
}

enum status roles_renew(struct connection *connection, struct error *error)
{
    bool there, may, make = false;
    const enum status status = can_make(connection, &there, &may, error);
    if (status != STATUS_OK || !there) return status;
    return connection_transaction(connection, make_body, &make, NULL, error);
}

/* Tables with the same owner as ours. Tables that somebody else keeps in the schema are ignored. */
#define OURS                                                                                                    \
    "with ours as (select oid, relname::text as name from pg_class where relnamespace = 'public'::regnamespace" \
    " and relkind in ('r', 'p', 'v') and relowner = (select relowner from pg_class where oid ="                 \
    " 'public.schema_migrations'::regclass)), wanted as ("
#define LACKING                                                                                               \
    ") select coalesce((array_agg(what || ' on ' || name order by name, what))[1], ''), count(*) from wanted" \
    " where not has_table_privilege(oid, what)"
#define LISTED(tables) " = any (regexp_split_to_array(btrim('" tables "'), ',\\s*')) "

static const char server_lacks[] =
    OURS "select oid, name, what from ours, unnest(array['select', 'insert', 'update', 'delete']) what"
         " where what = 'select' or name not in ('schema_migrations', 'engine_revision')" LACKING;
#define ALSO(what, tables) "union all select oid, name, '" what "' from ours where name" LISTED(tables)
#define WORKER_WANTS                                                                                         \
    "select oid, name, 'select' as what from ours where not name" LISTED(SECRET) ALSO("insert", WORKER_ADDS) \
        ALSO("update", WORKER_CHANGES) ALSO("delete", WORKER_REMOVES)
static const char worker_lacks[] = OURS WORKER_WANTS LACKING;

enum status roles_lacking(struct connection *connection, enum roles_part part, char *out, size_t size,
                          struct error *error)
{
    struct rows *rows;
    const char *sql = part == ROLES_SERVER ? server_lacks : worker_lacks;
    const enum status status = connection_query_one(connection, sql, NO_VALUES, &rows, error);
    out[0] = '\0';
    if (status != STATUS_OK) return status;
    const long long count = rows_integer(rows, 0, 1);
    if (count == 1) (void)snprintf(out, size, "%s", rows_text(rows, 0, 0));
    if (count > 1) (void)snprintf(out, size, "%s and %lld more", rows_text(rows, 0, 0), count - 1);
    rows_free(rows);
    return STATUS_OK;
}

#include "store/roles.h"

/* Two that make them at once: the second finds the first one's. */
#define MAKE(role)                                                                     \
    "do $$ begin if not exists (select from pg_roles where rolname = '" role "') then" \
    " create role " role " nologin; end if;"                                           \
    " exception when duplicate_object or unique_violation then null; end $$;"

static const char make_roles[] = MAKE("deltaq_server") MAKE("deltaq_worker") MAKE("deltaq_reader");

/* What nobody but the server reads: hashes of tokens, secrets of webhooks, answers to requests. */
#define SECRET " tokens, webhooks, webhook_deliveries, webhook_outcomes, idempotency_keys "
/* What a worker writes: the queue, results, what it learns of checkpoints and datasets, what triggers keep of it. */
#define WORKER_ADDS                                                                                                 \
    " run_results, run_events, measurements, artifacts, task_questions, task_runs, task_items, checkpoints,"        \
    " trajectories, checkpoint_health, tensor_health, workers, series, newest, trajectory_counts, changes_pending," \
    " node_checkpoints "
#define WORKER_CHANGES                                                                                       \
    " runs, checkpoints, trajectories, datasets, workers, checkpoint_health, tensor_health, task_questions," \
    " task_runs, series, newest, trajectory_counts, node_checkpoints "
/* Its own row, what its node has no more, and rows that it makes again of others. */
#define WORKER_REMOVES " workers, node_checkpoints, checkpoint_health, tensor_health, newest, trajectory_counts "

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

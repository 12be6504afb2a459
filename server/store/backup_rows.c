#include "store/backup_rows.h"

enum { MOVE_MILLISECONDS = 10 * 60 * 1000 };

struct reading {
    const char *prefix;
    enum status (*use)(const json_t *contents, void *context, struct error *error);
    void *context;
};

/* The checkpoints that runs wrote into a data directory and whose path does not begin with $1: the directory was at
 * another path then, or is another machine's. */
#define MOVED                                                                                                        \
    "(select coalesce(json_agg(json_build_object('path', path, 'at', substr(path, slash + 1)) order by path), '[]')" \
    " from (select path, strpos(path, '/checkpoints/' || (derived_from ->> 'run')) as slash from checkpoints"        \
    " where not starts_with(path, $1) and source ->> 'commit' is null) as written where slash > 0)"

/* All statements see one snapshot, and the session may be idle for as long as pg_dump works. */
static const char begin[] = "set transaction isolation level repeatable read, read only;"
                            " set local idle_in_transaction_session_timeout = 0";

static enum status read_body(struct connection *connection, void *context, struct error *error)
{
    const struct reading *reading = context;
    json_t *contents = NULL;
    enum status status = connection_script(connection, begin, error);
    if (status == STATUS_OK)
        status = connection_query_json(
            connection,
            "select json_build_object('snapshot', pg_export_snapshot(),"
            " 'schema', (select max(number) from schema_migrations), 'postgresql', current_setting('server_version'),"
            " 'made_at', to_char(now() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"'),"
            " 'artifacts', (select coalesce(json_agg(json_build_object('sha256', sha256, 'bytes', bytes)"
            " order by sha256), '[]') from (select distinct sha256, bytes from artifacts) as a),"
            " 'checkpoints', (select coalesce(json_agg(path order by path), '[]') from checkpoints"
            " where starts_with(path, $1) and source ->> 'commit' is null), 'moved', " MOVED ")",
            VALUES(value_text(reading->prefix)), &contents, error);
    if (status == STATUS_OK) status = reading->use(contents, reading->context, error);
    json_decref(contents);
    return status;
}

enum status backup_rows_read(struct connection *connection, const char *prefix,
                             enum status (*use)(const json_t *contents, void *context, struct error *error),
                             void *context, struct error *error)
{
    struct reading reading = {prefix, use, context};
    return connection_transaction(connection, read_body, &reading, NULL, error);
}

enum status backup_rows_now(struct connection *connection, json_t **out, struct error *error)
{
    return connection_query_json(
        connection,
        "select json_build_object("
        "'name', to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD\"T\"HH24MISS.MS\"Z\"'),"
        " 'schema', (select max(number) from schema_migrations), 'postgresql', current_setting('server_version'),"
        " 'made_at', to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'))",
        NO_VALUES, out, error);
}

enum status backup_rows_check_empty(struct connection *connection, struct error *error)
{
    int64_t tables;
    const enum status status = connection_query_integer(
        connection, "select count(*) from pg_tables where schemaname = 'public'", NO_VALUES, &tables, error);
    if (status != STATUS_OK || tables == 0) return status;
    return error_set(error, STATUS_CONFLICT, "the database has %lld tables already: a backup goes into an empty one",
                     (long long)tables);
}

enum status backup_rows_move(struct connection *connection, const char *from, const char *to, struct error *error)
{
    connection_set_deadline(connection, MOVE_MILLISECONDS);
    enum status status = connection_execute(
        connection,
        "update checkpoints set path = $2 || substr(path, length($1) + 1), source = case"
        " when starts_with(source ->> 'path', $1)"
        " then jsonb_set(source::jsonb, '{path}', to_jsonb($2 || substr(source ->> 'path', length($1) + 1)))::json"
        " else source end where starts_with(path, $1) and $1 <> $2",
        VALUES(value_text(from), value_text(to)), NULL, error);
    if (status == STATUS_OK) status = connection_script(connection, "analyze", error);
    connection_set_deadline(connection, 0);
    return status;
}

enum status backup_rows_moved(struct connection *connection, const char *prefix, json_t **out, struct error *error)
{
    return connection_query_json(connection, "select " MOVED, VALUES(value_text(prefix)), out, error);
}

enum status backup_rows_place(struct connection *connection, const char *from, const char *to, struct error *error)
{
    return connection_execute(
        connection,
        "update checkpoints set path = $2, source = case when source ->> 'path' = $1"
        " then jsonb_set(source::jsonb, '{path}', to_jsonb($2::text))::json else source end where path = $1",
        VALUES(value_text(from), value_text(to)), NULL, error);
}

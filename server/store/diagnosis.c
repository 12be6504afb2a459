#include "store/diagnosis.h"

#include <stdio.h>

enum status diagnosis_who(struct connection *connection, char role[DIAGNOSIS_TEXT], char version[DIAGNOSIS_TEXT],
                          struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(
        connection, "select current_user, current_setting('server_version')", NO_VALUES, &rows, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(role, DIAGNOSIS_TEXT, "%s", rows_text(rows, 0, 0));
    (void)snprintf(version, DIAGNOSIS_TEXT, "%s", rows_text(rows, 0, 1));
    rows_free(rows);
    return STATUS_OK;
}

enum status diagnosis_clock(struct connection *connection, double *seconds, struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(connection, "select extract(epoch from clock_timestamp())::float8",
                                                    NO_VALUES, &rows, error);
    if (status != STATUS_OK) return status;
    *seconds = rows_double(rows, 0, 0);
    rows_free(rows);
    return STATUS_OK;
}

enum status diagnosis_lock(struct connection *connection, const char *key, bool *got, struct error *error)
{
    return connection_query_boolean(connection, "select pg_try_advisory_xact_lock(hashtextextended($1, 0))",
                                    VALUES(value_text(key)), got, error);
}

static enum status write_body(struct connection *connection, void *context, struct error *error)
{
    (void)context;
    return connection_execute(connection, "update runs set priority = priority where false", NO_VALUES, NULL, error);
}

enum status diagnosis_write(struct connection *connection, struct error *error)
{
    return connection_transaction(connection, write_body, NULL, NULL, error);
}

enum status diagnosis_may_make(struct connection *connection, bool *may, bool *read_only, struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(connection,
                                                    "select has_schema_privilege('public', 'create'),"
                                                    " current_setting('transaction_read_only')::boolean",
                                                    NO_VALUES, &rows, error);
    if (status != STATUS_OK) return status;
    *may = rows_boolean(rows, 0, 0);
    *read_only = rows_boolean(rows, 0, 1);
    rows_free(rows);
    return STATUS_OK;
}

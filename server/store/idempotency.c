#include "store/idempotency.h"

#include <stdlib.h>
#include <string.h>

/* A claim: a new row, or one whose server died before it answered, or one that has expired. All in one statement, so
 * that of two equal requests at the same time one wins. */
static enum status claim(struct connection *connection, const char *scope, const char *key, const char *request_sha256,
                         bool *ours, struct error *error)
{
    int64_t affected;
    const enum status status = connection_execute(
        connection,
        "insert into idempotency_keys as k (scope, key, request_sha256) values ($1, $2, $3) on conflict (scope, key) do update"
        " set request_sha256 = excluded.request_sha256, claimed_at = clock_timestamp(), http_status = null, body = null, location = null"
        " where k.claimed_at < clock_timestamp() - interval '24 hours'"
        " or (k.http_status is null and k.request_sha256 = $3 and k.claimed_at < clock_timestamp() - interval '60 seconds')",
        VALUES(value_text(scope), value_text(key), value_text(request_sha256)), &affected, error);
    *ours = affected == 1;
    return status;
}

static char *copy(const struct rows *rows, int column)
{
    return rows_null(rows, 0, column) ? NULL : strdup(rows_text(rows, 0, column));
}

enum status idempotency_claim(struct connection *connection, const char *scope, const char *key,
                              const char *request_sha256, struct idempotency_answer *answer, struct error *error)
{
    bool ours;
    struct rows *rows;
    enum status status = claim(connection, scope, key, request_sha256, &ours, error);
    memset(answer, 0, sizeof *answer);
    if (status != STATUS_OK || ours) return status;
    status = connection_query_one(
        connection,
        "select request_sha256 = $3, http_status, body, location from idempotency_keys where scope = $1 and key = $2",
        VALUES(value_text(scope), value_text(key), value_text(request_sha256)), &rows, error);
    if (status == STATUS_NOT_FOUND)
        return error_set(error, STATUS_CONFLICT, "the first request with this key was given up just now; try again");
    if (status != STATUS_OK) return status;
    if (!rows_boolean(rows, 0, 0)) {
        status =
            error_set(error, STATUS_INVALID, "this Idempotency-Key was used for another request: choose a new one");
    } else if (rows_null(rows, 0, 1)) {
        status = error_set(error, STATUS_CONFLICT,
                           "the first request with this Idempotency-Key is being answered; try again");
    } else {
        answer->http_status = (int)rows_integer(rows, 0, 1);
        answer->body = copy(rows, 2);
        answer->location = copy(rows, 3);
    }
    rows_free(rows);
    return status;
}

enum status idempotency_store(struct connection *connection, const char *scope, const char *key, int http_status,
                              const char *body, const char *location, struct error *error)
{
    return connection_execute(
        connection,
        "update idempotency_keys set http_status = $3, body = $4, location = $5 where scope = $1 and key = $2",
        VALUES(value_text(scope), value_text(key), value_integer(http_status), value_text(body), value_text(location)),
        NULL, error);
}

enum status idempotency_forget(struct connection *connection, const char *scope, const char *key, struct error *error)
{
    return connection_execute(connection,
                              "delete from idempotency_keys where scope = $1 and key = $2 and http_status is null",
                              VALUES(value_text(scope), value_text(key)), NULL, error);
}

void idempotency_answer_reset(struct idempotency_answer *answer)
{
    free(answer->body);
    free(answer->location);
    memset(answer, 0, sizeof *answer);
}

enum status idempotency_expire(struct connection *connection, struct error *error)
{
    return connection_execute(connection,
                              "delete from idempotency_keys where claimed_at < clock_timestamp() - interval '24 hours'",
                              NO_VALUES, NULL, error);
}

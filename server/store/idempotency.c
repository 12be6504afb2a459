#include "store/idempotency.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSION "(select a.backend_start from pg_stat_activity a where a.pid = pg_backend_pid())"
#define MINE    "claimed_by = pg_backend_pid() and claimed_session = " SESSION
/* pg_stat_activity hides the start time of another role's session, so an unknown start does not count as gone. */
#define SESSION_IS_GONE                                                     \
    "not exists (select from pg_stat_activity a where a.pid = k.claimed_by" \
    " and coalesce(a.backend_start = k.claimed_session, true))"

/* Claims the key by inserting its row, or by taking over a row that has expired or whose server died before it
 * answered. It is one statement, so that one of two simultaneous equal requests wins. */
static enum status claim(struct connection *connection, const char *scope, const char *key, const char *request_sha256,
                         bool *ours, struct error *error)
{
    int64_t affected;
    const enum status status =
        connection_execute(connection,
                           "insert into idempotency_keys as k (scope, key, request_sha256, claimed_by, claimed_session)"
                           " values ($1, $2, $3, pg_backend_pid(), " SESSION ") on conflict (scope, key) do update"
                           " set request_sha256 = excluded.request_sha256, claimed_at = clock_timestamp(),"
                           " claimed_by = excluded.claimed_by, claimed_session = excluded.claimed_session,"
                           " http_status = null, body = null, location = null"
                           " where k.claimed_at < clock_timestamp() - interval '24 hours'"
                           " or (k.http_status is null and k.request_sha256 = $3 and (" SESSION_IS_GONE
                           " or k.claimed_at < clock_timestamp() - interval '60 seconds'))",
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

/* *kept: this session had the claim, and it had no answer yet. */
static enum status keep(struct connection *connection, const char *scope, const char *key,
                        const struct idempotency_answer *answer, bool *kept, struct error *error)
{
    int64_t affected = 0;
    const enum status status =
        connection_execute(connection,
                           "update idempotency_keys set http_status = $3, body = $4, location = $5"
                           " where scope = $1 and key = $2 and http_status is null and " MINE,
                           VALUES(value_text(scope), value_text(key), value_integer(answer->http_status),
                                  value_text(answer->body), value_text(answer->location)),
                           &affected, error);
    *kept = affected == 1;
    return status;
}

enum status idempotency_store(struct connection *connection, const char *scope, const char *key,
                              const struct idempotency_answer *answer, struct error *error)
{
    bool ignored; /* an answer that the request's own transaction has stored stays */
    return keep(connection, scope, key, answer, &ignored, error);
}

enum status idempotency_forget(struct connection *connection, const char *scope, const char *key, struct error *error)
{
    return connection_execute(
        connection, "delete from idempotency_keys where scope = $1 and key = $2 and http_status is null and " MINE,
        VALUES(value_text(scope), value_text(key)), NULL, error);
}

enum status idempotency_record_within(struct connection *connection, const struct idempotency_record *record,
                                      enum store_outcome outcome, const json_t *answer, struct error *error)
{
    bool kept;
    char location[128];
    if (record == NULL) return STATUS_OK;
    (void)snprintf(location, sizeof location, "%s%s", record->prefix, json_string_value(json_object_get(answer, "id")));
    const struct idempotency_answer text = {
        .http_status = outcome == STORE_CREATED ? record->created : record->existed,
        .body = record->render(answer),
        .location = location,
    };
    if (text.body == NULL) return error_set(error, STATUS_NO_MEMORY, "the answer could not be rendered as JSON");
    const enum status status = keep(connection, record->scope, record->key, &text, &kept, error);
    free(text.body);
    if (status != STATUS_OK || kept) return status;
    return error_set(error, STATUS_UNAVAILABLE,
                     "the claim on this Idempotency-Key was lost with the database's connection, and nothing was made: "
                     "repeat the request");
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

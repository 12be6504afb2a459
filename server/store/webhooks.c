#include "store/webhooks.h"

#include "store/list.h"

#include <stdio.h>
#include <string.h>

#define DOCUMENT                                                                                                \
    "json_build_object('id', w.id, 'url', w.url, 'events', w.events, 'after', w.after::text, 'tries', w.tries," \
    " 'created_at', rfc3339(w.created_at))"
#define LOCK  "select pg_advisory_xact_lock(2003132011, 0)"
#define MINE  " id = $1 and lease = $2 "
#define FREED " leased_until = null "

enum { PRUNE = 10000 };

void webhook_job_reset(struct webhook_job *job)
{
    json_decref(job->kinds);
    explicit_bzero(job, sizeof *job);
}

/* ---- the webhook ---- */

struct insertion {
    const struct webhook_new *new;
    json_t *document; /* out, owned by whoever made the insertion */
};

/* Whether there is space for one more. The lock lasts as long as the transaction, so that two do not take one place. */
static enum status check_count(struct connection *connection, struct error *error)
{
    int64_t count = 0;
    enum status status = connection_execute(connection, LOCK, NO_VALUES, NULL, error);
    if (status == STATUS_OK)
        status = connection_query_integer(connection, "select count(*) from webhooks", NO_VALUES, &count, error);
    if (status != STATUS_OK || count < WEBHOOKS_MOST) return status;
    return error_set(error, STATUS_CONFLICT,
                     "there are %d webhooks, the most that are kept: delete one that is not needed any more",
                     WEBHOOKS_MOST);
}

static enum status insert_body(struct connection *connection, void *context, struct error *error)
{
    struct insertion *insertion = context;
    const struct webhook_new *new = insertion->new;
    json_decref(insertion->document); /* of a try that was rolled back */
    insertion->document = NULL;
    enum status status = check_count(connection, error);
    if (status == STATUS_OK)
        status =
            connection_query_json(connection,
                                  "with w as (insert into webhooks (url, events, secret, after) select $1, $2, $3, last"
                                  " from change_log returning *) select " DOCUMENT " from w",
                                  VALUES(value_text(new->url), value_json(new->events), value_text(new->secret)),
                                  &insertion->document, error);
    if (status != STATUS_OK) return status;
    return idempotency_record_within(connection, new->record, STORE_CREATED, insertion->document, error);
}

enum status webhook_insert(struct connection *connection, const struct webhook_new *new, json_t **document,
                           struct error *error)
{
    struct insertion insertion = {.new = new};
    const enum status status = changes_number(connection, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    return store_transaction(connection, insert_body, &insertion, &insertion.document, document, error);
}

enum status webhook_get(struct connection *connection, const char *id, json_t **document, struct error *error)
{
    return store_get(connection, "select " DOCUMENT " from webhooks w where w.id = $1", "webhook", id, document, error);
}

enum status webhook_list(struct connection *connection, const struct page *page, json_t **document, struct error *error)
{
    int64_t limit, before;
    const enum status status = page_read(page, &limit, &before, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    return connection_query_json(connection,
                                 LIST_OF("select w.number, " DOCUMENT " from webhooks w where w.number < $2"),
                                 VALUES(value_integer(limit), value_integer(before)), document, error);
}

enum status webhook_delete(struct connection *connection, const char *id, struct error *error)
{
    int64_t affected;
    const enum status status =
        connection_execute(connection, "delete from webhooks where id = $1", VALUES(value_text(id)), &affected, error);
    return status == STATUS_OK && affected == 0 ? store_unknown("webhook", id, error) : status;
}

enum status webhook_deliveries(struct connection *connection, const char *id, const struct page *page,
                               json_t **document, struct error *error)
{
    int64_t limit, before;
    enum status status = page_read(page, &limit, &before, error);
    if (status == STATUS_OK) status = webhook_get(connection, id, document, error);
    if (status != STATUS_OK) return status;
    json_decref(*document);
    return connection_query_json(
        connection,
        LIST_OF("select d.number, json_build_object('event', d.event::text, 'kind', d.kind, 'try', d.try, 'at',"
                " rfc3339(d.at), 'seconds', d.seconds, 'http_status', d.http_status, 'outcome', d.outcome, 'error',"
                " d.error) from webhook_deliveries d where d.number < $2 and d.webhook = $3"),
        VALUES(value_integer(limit), value_integer(before), value_text(id)), document, error);
}

/* ---- delivering ---- */

/* "lost" says nothing of the address. */
#define LAST_OUTCOME                                                                             \
    "(select d.outcome from webhook_deliveries d where d.webhook = w.id and d.outcome <> 'lost'" \
    " order by d.number desc limit 1)"

/* Due at a moment that is further ahead than the longest delay (webhook_tried) is what was put off before the clock was
 * set back: it comes first. A lease that ends after two lengths was given before that, too. */
#define DUE " (w.due_at <= clock_timestamp() or w.due_at > clock_timestamp() + interval '2 hours') "
#define FREE                                                         \
    " (w.leased_until is null or w.leased_until < clock_timestamp()" \
    " or w.leased_until > clock_timestamp() + 2 * $1 * interval '1 second') "

enum status webhook_take(struct connection *connection, enum webhook_share share, double lease_seconds, bool *found,
                         struct webhook_job *out, struct error *error)
{
    struct rows *rows;
    *found = false;
    memset(out, 0, sizeof *out);
    enum status status = connection_query(
        connection,
        CONNECTION_KEEPS_PLAN
        "with candidate as materialized (select w.id from webhooks w, lateral (select " LAST_OUTCOME
        " as outcome) tried"
        " where" DUE "and" FREE
        "and w.after < (select last from change_log) and not ($2 and coalesce(tried.outcome <> 'delivered', false))"
        " order by $2 and tried.outcome is null, w.due_at <= clock_timestamp(), w.due_at, w.number limit 1"
        " for update of w skip locked)"
        " update webhooks w set lease = w.lease + 1, leased_until = clock_timestamp() + $1 * interval '1 second'"
        " from candidate c where w.id = c.id returning w.id, w.lease, w.after, w.tries, w.url, w.secret, w.events,"
        " json_array_length(w.events)",
        VALUES(value_double(lease_seconds), value_boolean(share == WEBHOOKS_HEALTHY)), &rows, error);
    if (status != STATUS_OK) return status;
    *found = rows_count(rows) == 1;
    if (*found) {
        out->id = store_id_of(rows);
        out->lease = rows_integer(rows, 0, 1);
        out->after = rows_integer(rows, 0, 2);
        out->tries = (int)rows_integer(rows, 0, 3);
        (void)snprintf(out->url, sizeof out->url, "%s", rows_text(rows, 0, 4));
        (void)snprintf(out->secret, sizeof out->secret, "%s", rows_text(rows, 0, 5));
        if (rows_integer(rows, 0, 7) > 0) status = rows_json(rows, 0, 6, &out->kinds, error);
    }
    rows_free(rows);
    return status;
}

enum status webhook_pass(struct connection *connection, const struct webhook_job *job, int64_t until, bool lost,
                         struct error *error)
{
    return connection_execute(
        connection,
        "with mine as (update webhooks set after = $3, tries = 0, due_at = clock_timestamp()," FREED "where" MINE
        "returning id) insert into webhook_deliveries (webhook, event, kind, try, outcome, error)"
        " select id, $3, '', 0, 'lost', 'changes up to this one were removed for their age before they were delivered'"
        " from mine where $4",
        VALUES(value_text(job->id.text), value_integer(job->lease), value_integer(until), value_boolean(lost)), NULL,
        error);
}

/* Delays double from a second to an hour: sixteen tries take about three hours. */
enum status webhook_tried(struct connection *connection, const struct webhook_job *job, const struct webhook_try *what,
                          struct error *error)
{
    const char *outcome = what->error == NULL                   ? "delivered"
                          : job->tries + 1 < WEBHOOK_TRIES_MOST ? "retry"
                                                                : "given_up";
    return connection_execute(
        connection,
        "with mine as (update webhooks set after = case when $8 = 'retry' then after else $3 end,"
        " tries = case when $8 = 'retry' then tries + 1 else 0 end, due_at = clock_timestamp() + case when $8 = 'retry'"
        " then (0.5 + random() / 2) * least(3600, power(2, tries)) * interval '1 second' else interval '0' end," FREED
        "where" MINE "returning id)"
        " insert into webhook_deliveries (webhook, event, kind, try, seconds, http_status, outcome, error)"
        " select id, $3, $4, $5, $6, nullif($7, 0), $8, $9 from mine",
        VALUES(value_text(job->id.text), value_integer(job->lease), value_integer(what->event), value_text(what->kind),
               value_integer(job->tries + 1), value_double(what->seconds), value_integer(what->http_status),
               value_text(outcome), value_text(what->error)),
        NULL, error);
}

enum status webhook_release(struct connection *connection, const struct webhook_job *job, struct error *error)
{
    return connection_execute(connection, "update webhooks set" FREED "where" MINE,
                              VALUES(value_text(job->id.text), value_integer(job->lease)), NULL, error);
}

enum status webhook_prune(struct connection *connection, int64_t days, bool *more, struct error *error)
{
    int64_t affected = 0;
    const enum status status =
        connection_execute(connection,
                           "delete from webhook_deliveries where number in (select number from webhook_deliveries"
                           " where at < clock_timestamp() - $1 * interval '1 day' order by number limit $2)",
                           VALUES(value_integer(days), value_integer(PRUNE)), &affected, error);
    *more = status == STATUS_OK && affected == PRUNE;
    return status;
}

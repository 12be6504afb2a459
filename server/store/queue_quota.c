#include "store/queue_quota.h"

/* Advisory locks of transactions (the keys are arbitrary). The lock of all requesters is taken first, so that two
 * transactions never wait for each other. */
#define LOCK_REQUESTER "select pg_advisory_xact_lock(1919250805, hashtext($1))"
#define LOCK_ALL       "select pg_advisory_xact_lock(1919905645, 0)"

static enum status count_waiting(struct connection *connection, struct queue_quota *quota, struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(
        connection,
        "select count(*), count(*) filter (where q.requester = $1),"
        " coalesce(bool_or(q.requester <> $1), false) or exists (select from tokens where id <> $1 and scope <> 'read'"
        " and revoked_at is null and (expires_at is null or expires_at > clock_timestamp()))"
        " from (select requester from runs where state = 'queued' limit 2 * $2::bigint) q",
        VALUES(value_text(quota->requester), value_integer(QUEUE_QUOTA_MOST)), &rows, error);
    if (status != STATUS_OK) return status;
    quota->counted = true;
    quota->all = rows_integer(rows, 0, 0);
    quota->mine = rows_integer(rows, 0, 1);
    quota->others = rows_boolean(rows, 0, 2);
    rows_free(rows);
    return STATUS_OK;
}

/* STATUS_OK when `more` runs may be added to those counted. */
static enum status judge(const struct queue_quota *quota, int64_t more, struct error *error)
{
    const int64_t mine = quota->mine + more, left = QUEUE_QUOTA_MOST - quota->all - more;
    if (left < 0)
        return error_set(error, STATUS_TOO_MANY,
                         "%d runs wait in the queue already; try again when some have ended, or cancel some",
                         QUEUE_QUOTA_MOST);
    if (quota->queued_most > 0 && mine > quota->queued_most)
        return error_set(error, STATUS_TOO_MANY,
                         "a token may have %lld runs waiting in the queue, and no more fit: send fewer at once, try"
                         " again when some have ended, or cancel some (--queue-per-token of the server is the bound)",
                         (long long)quota->queued_most);
    if (quota->queued_most == 0 && quota->others && mine > left)
        return error_set(error, STATUS_TOO_MANY,
                         "%lld runs of this token would wait and %lld of the queue's %d places be free: as others use"
                         " the server, a token may have no more waiting than stay free. Send fewer at once, try again"
                         " when some have ended, or cancel some (--queue-per-token of the server sets another bound)",
                         (long long)mine, (long long)left, QUEUE_QUOTA_MOST);
    return STATUS_OK;
}

enum status queue_quota_ask(struct connection *connection, struct queue_quota *quota, struct error *error)
{
    const enum status status = quota->counted ? STATUS_OK : count_waiting(connection, quota, error);
    return status == STATUS_OK ? judge(quota, 1, error) : status;
}

void queue_quota_add(struct queue_quota *quota, int64_t more)
{
    quota->all += more;
    quota->mine += more;
    quota->added += more;
}

enum status queue_quota_hold_all(struct connection *connection, struct error *error)
{
    return connection_execute(connection, LOCK_ALL, NO_VALUES, NULL, error);
}

/* The count is a separate statement after the locks, because a statement sees only what was committed before it
 * began. */
enum status queue_quota_hold(struct connection *connection, struct queue_quota *quota, struct error *error)
{
    enum status status = STATUS_OK;
    if (quota->added == 0) return STATUS_OK;
    if (!quota->counted) status = count_waiting(connection, quota, error);
    if (status == STATUS_OK && quota->all > QUEUE_QUOTA_MOST / 2) status = queue_quota_hold_all(connection, error);
    if (status == STATUS_OK)
        status = connection_execute(connection, LOCK_REQUESTER, VALUES(value_text(quota->requester)), NULL, error);
    if (status == STATUS_OK) status = count_waiting(connection, quota, error);
    return status == STATUS_OK ? judge(quota, 0, error) : status;
}

#include "store/queue_room.h"

/* Advisory locks of transactions ("requ", "room"). The lock of all requesters is taken first, so that two transactions
 * never wait for each other. */
#define LOCK_REQUESTER "select pg_advisory_xact_lock(1919250805, hashtext($1))"
#define LOCK_ALL       "select pg_advisory_xact_lock(1919905645, 0)"

static enum status count_waiting(struct connection *connection, struct queue_room *room, struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(
        connection,
        "select count(*), count(*) filter (where q.requester = $1),"
        " coalesce(bool_or(q.requester <> $1), false) or exists (select from tokens where id <> $1 and scope <> 'read'"
        " and revoked_at is null and (expires_at is null or expires_at > clock_timestamp()))"
        " from (select requester from runs where state = 'queued' limit 2 * $2::bigint) q",
        VALUES(value_text(room->requester), value_integer(QUEUE_ROOM_MOST)), &rows, error);
    if (status != STATUS_OK) return status;
    room->counted = true;
    room->all = rows_integer(rows, 0, 0);
    room->mine = rows_integer(rows, 0, 1);
    room->others = rows_boolean(rows, 0, 2);
    rows_free(rows);
    return STATUS_OK;
}

/* STATUS_OK when `more` runs may be added to those counted. */
static enum status judge(const struct queue_room *room, int64_t more, struct error *error)
{
    const int64_t mine = room->mine + more, left = QUEUE_ROOM_MOST - room->all - more;
    if (left < 0)
        return error_set(error, STATUS_TOO_MANY,
                         "%d runs wait in the queue already; try again when some have ended, or cancel some",
                         QUEUE_ROOM_MOST);
    if (room->queued_most > 0 && mine > room->queued_most)
        return error_set(error, STATUS_TOO_MANY,
                         "a token may have %lld runs waiting in the queue, and no more fit: send fewer at once, try"
                         " again when some have ended, or cancel some (--queue-per-token of the server is the bound)",
                         (long long)room->queued_most);
    if (room->queued_most == 0 && room->others && mine > left)
        return error_set(error, STATUS_TOO_MANY,
                         "%lld runs of this token would wait and %lld of the queue's %d places be free: as others use"
                         " the server, a token may have no more waiting than stay free. Send fewer at once, try again"
                         " when some have ended, or cancel some (--queue-per-token of the server sets another bound)",
                         (long long)mine, (long long)left, QUEUE_ROOM_MOST);
    return STATUS_OK;
}

enum status queue_room_ask(struct connection *connection, struct queue_room *room, struct error *error)
{
    const enum status status = room->counted ? STATUS_OK : count_waiting(connection, room, error);
    return status == STATUS_OK ? judge(room, 1, error) : status;
}

void queue_room_add(struct queue_room *room, int64_t more)
{
    room->all += more;
    room->mine += more;
    room->added += more;
}

enum status queue_room_hold_all(struct connection *connection, struct error *error)
{
    return connection_execute(connection, LOCK_ALL, NO_VALUES, NULL, error);
}

/* The count is a separate statement after the locks, because a statement sees only what was committed before it
 * began. */
enum status queue_room_hold(struct connection *connection, struct queue_room *room, struct error *error)
{
    enum status status = STATUS_OK;
    if (room->added == 0) return STATUS_OK;
    if (!room->counted) status = count_waiting(connection, room, error);
    if (status == STATUS_OK && room->all > QUEUE_ROOM_MOST / 2) status = queue_room_hold_all(connection, error);
    if (status == STATUS_OK)
        status = connection_execute(connection, LOCK_REQUESTER, VALUES(value_text(room->requester)), NULL, error);
    if (status == STATUS_OK) status = count_waiting(connection, room, error);
    return status == STATUS_OK ? judge(room, 0, error) : status;
}

#include "store/queue_room.h"

struct queue_room {
    int64_t all, mine; /* that wait; `all` is counted up to a little more than fit */
    bool others;       /* somebody else waits, or has a token to post runs with */
};

static enum status read_room(struct connection *connection, const char *requester, struct queue_room *out,
                             struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(
        connection,
        "select count(*), count(*) filter (where q.requester = $1),"
        " coalesce(bool_or(q.requester <> $1), false) or exists (select from tokens where id <> $1 and scope <> 'read'"
        " and revoked_at is null and (expires_at is null or expires_at > clock_timestamp()))"
        " from (select requester from runs where state = 'queued' limit 2 * $2::bigint) q",
        VALUES(value_text(requester), value_integer(QUEUE_ROOM_MOST)), &rows, error);
    if (status != STATUS_OK) return status;
    *out = (struct queue_room){
        .all = rows_integer(rows, 0, 0), .mine = rows_integer(rows, 0, 1), .others = rows_boolean(rows, 0, 2)};
    rows_free(rows);
    return STATUS_OK;
}

enum status queue_room_check(struct connection *connection, const char *requester, int64_t queued_most, int64_t more,
                             struct error *error)
{
    struct queue_room room;
    const enum status status = read_room(connection, requester, &room, error);
    if (status != STATUS_OK) return status;
    const int64_t mine = room.mine + more, left = QUEUE_ROOM_MOST - room.all - more;
    if (left < 0)
        return error_set(error, STATUS_TOO_MANY,
                         "%d runs wait in the queue already; try again when some have ended, or cancel some",
                         QUEUE_ROOM_MOST);
    if (queued_most > 0 && mine > queued_most)
        return error_set(error, STATUS_TOO_MANY,
                         "a token may have %lld runs waiting in the queue, and no more fit: send fewer at once, try"
                         " again when some have ended, or cancel some (--queue-per-token of the server is the bound)",
                         (long long)queued_most);
    if (queued_most == 0 && room.others && mine > left)
        return error_set(error, STATUS_TOO_MANY,
                         "%lld runs of this token would wait and %lld of the queue's %d places be free: as others use"
                         " the server, a token may have no more waiting than stay free. Send fewer at once, try again"
                         " when some have ended, or cancel some (--queue-per-token of the server sets another bound)",
                         (long long)mine, (long long)left, QUEUE_ROOM_MOST);
    return STATUS_OK;
}

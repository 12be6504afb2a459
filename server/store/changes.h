/* changes.h: the change log: runs, checkpoints, measurements, verdicts and alerts in the order in which they became
 * visible. sql/0014_changes.sql writes a change as pending in the transaction of what it tells of; changes_number gives
 * it its id, in one transaction at a time. So ids grow without holes, and whoever has read up to an id has missed
 * nothing below it, however late a writer committed. A restored database leaves one hole (changes_leave_lost). */
#ifndef STORE_CHANGES_H
#define STORE_CHANGES_H

#include "store/store.h"

/* The kinds of a change, in the schema's words; ends with NULL. */
extern const char *const change_kinds[];

/* The range of the log: its newest id, and the newest id among the changes that were removed for their age. `known`:
 * this log has told the reader's position. `unreadable`: the change at which a call of changes_read ended, because it
 * is no JSON that we can read; 0: none. */
struct change_span {
    int64_t last, pruned, unreadable;
    bool known;
};

struct change_query {
    int64_t after;              /* only changes with larger ids */
    const json_t *kinds;        /* array of texts; NULL: all */
    const json_t *trajectories; /* array of ids; NULL: all */
    int limit;
};

/* Gives ids to all that was committed before the call. Anyone may call it, at any time. */
MUST_CHECK enum status changes_number(struct connection *connection, struct error *error);

/* `after`: the reader's position, for `known`. */
MUST_CHECK enum status changes_span(struct connection *connection, int64_t after, struct change_span *out,
                                    struct error *error);

/* STATUS_GONE when a reader that has seen everything up to `after` cannot go on: later changes were already removed for
 * their age, or `after` was given by another log. 0 is the beginning of what is kept. */
MUST_CHECK enum status changes_check(const struct change_span *span, int64_t after, struct error *error);

/* Reads a text of digits as an id; `name` is the query field or header for the message. STATUS_INVALID. */
MUST_CHECK enum status changes_cursor(const char *text, const char *name, int64_t *out, struct error *error);

/* *items: [{"id", "kind", "data": {"at", …}}] by id, at most `limit`, owned by the caller (json_decref). *until: every
 * change up to this id was examined; while it is below span->last there is more to read. A call examines a few thousand
 * changes at most, however few of them fit the query. A change that cannot be read is passed over, so that nobody waits
 * for it for ever; the caller logs span->unreadable. */
MUST_CHECK enum status changes_read(struct connection *connection, const struct change_query *query,
                                    struct change_span *span, int64_t *until, json_t **items, struct error *error);

/* Lets a database that was just filled from a backup go on with ids a billion above its last, because the next ones
 * were given to other changes after the backup. So a reader that has seen those is told (changes_check) and not served
 * from the middle of what it lacks; one that has seen less goes on. */
MUST_CHECK enum status changes_leave_lost(struct connection *connection, struct error *error);

/* Removes changes that are older than `days`, at most 10,000 at a time; *more: old ones remain. */
MUST_CHECK enum status changes_prune(struct connection *connection, int64_t days, bool *more, struct error *error);

#endif

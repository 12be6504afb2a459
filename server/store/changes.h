/* changes.h: the change log: runs, checkpoints, measurements, verdicts and alerts in the order in which they became
 * visible. sql/0014_changes.sql writes a change as pending in the transaction of what it tells of; changes_number gives
 * it its id, in one transaction at a time. So ids grow without holes, and whoever has read up to an id has missed
 * nothing below it, however late a writer committed. */
#ifndef STORE_CHANGES_H
#define STORE_CHANGES_H

#include "store/store.h"

/* What a change tells of; ends with NULL. The same words as the schema's. */
extern const char *const change_kinds[];

/* Where the log stands: its newest id, and the newest that was removed for its age. */
struct change_span {
    int64_t last, pruned;
};

struct change_query {
    int64_t after;              /* only changes with larger ids */
    const json_t *kinds;        /* array of texts; NULL: all */
    const json_t *trajectories; /* array of ids; NULL: all */
    int limit;
};

/* Gives ids to all that was committed before the call. Anyone may call it, at any time. */
MUST_CHECK enum status changes_number(struct connection *connection, struct error *error);

MUST_CHECK enum status changes_span(struct connection *connection, struct change_span *out, struct error *error);

/* STATUS_GONE unless a reader that has seen everything up to `after` can go on from there: what followed was removed
 * for its age, or another log gave that id. 0 is the beginning of what is kept. */
MUST_CHECK enum status changes_check(const struct change_span *span, int64_t after, struct error *error);

/* A text of digits as an id, at query field or header `name`. STATUS_INVALID. */
MUST_CHECK enum status changes_cursor(const char *text, const char *name, int64_t *out, struct error *error);

/* *items: [{"id", "kind", "data": {"at", …}}] by id, at most `limit`, the caller's (json_decref). *until: everything up
 * to there was looked at; below span->last there is more to read. Looks at a few thousand changes at most, however few
 * fit the query. */
MUST_CHECK enum status changes_read(struct connection *connection, const struct change_query *query,
                                    struct change_span *span, int64_t *until, json_t **items, struct error *error);

/* Removes changes that are older than `days`, at most 10,000; *more: there are others. */
MUST_CHECK enum status changes_prune(struct connection *connection, int64_t days, bool *more, struct error *error);

#endif

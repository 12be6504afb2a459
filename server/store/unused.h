/* unused.h: deletes an input of runs (a checkpoint, a dataset), unless a run that has not ended needs it. */
#ifndef STORE_UNUSED_H
#define STORE_UNUSED_H

#include "postgres/connection.h"

struct unused_kind {
    const char *name;                /* for the message */
    const char *lock, *users, *text; /* statements on the id: lock its row, find a run that needs it, delete it */
};

#define UNUSED_KIND(table, column)                                                   \
    {                                                                                \
        column, "select 1 from " table " where id = $1 for update",                  \
            "select r.id from run_inputs i join runs r on r.id = i.run"              \
            " where i." column " = $1 and r.state in ('queued', 'running') limit 1", \
            "delete from " table " where id = $1"                                    \
    }

/* STATUS_CONFLICT names the run that needs it. */
MUST_CHECK enum status unused_delete(struct connection *connection, const struct unused_kind *kind, const char *id,
                                     struct error *error);

#endif

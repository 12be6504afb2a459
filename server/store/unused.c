#include "store/unused.h"

#include "postgres/rows.h"

struct deletion {
    const struct unused_kind *kind;
    const char *id;
};

/* The row is locked first. run_insert takes a key lock on it through its foreign key, so no run is inserted
 * meanwhile. */
static enum status delete_body(struct connection *connection, void *context, struct error *error)
{
    const struct deletion *deletion = context;
    const struct unused_kind *kind = deletion->kind;
    struct rows *rows;
    enum status status = connection_query(connection, kind->lock, VALUES(value_text(deletion->id)), &rows, error);
    if (status != STATUS_OK) return status;
    rows_free(rows);
    status = connection_query(connection, kind->users, VALUES(value_text(deletion->id)), &rows, error);
    if (status != STATUS_OK) return status;
    if (rows_count(rows) != 0)
        status = error_set(error, STATUS_CONFLICT, "run %s still needs this %s: cancel it first", rows_text(rows, 0, 0),
                           kind->name);
    rows_free(rows);
    if (status != STATUS_OK) return status;
    return connection_execute(connection, kind->text, VALUES(value_text(deletion->id)), NULL, error);
}

enum status unused_delete(struct connection *connection, const struct unused_kind *kind, const char *id,
                          struct error *error)
{
    struct deletion deletion = {kind, id};
    return connection_transaction(connection, delete_body, &deletion, NULL, error);
}

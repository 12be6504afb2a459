/* database.h: a few connections shared by the threads of the HTTP server. A handler takes one for as long as it asks
 * questions and gives it back. Thread-safe. */
#ifndef POSTGRES_DATABASE_H
#define POSTGRES_DATABASE_H

#include "postgres/connection.h"

struct database;

/* At most `size` sessions, opened when first used. The caller owns *out (database_free, when no connection is out). */
MUST_CHECK enum status database_new(const char *conninfo, const char *application, int size, struct database **out,
                                    struct error *error);
void database_free(struct database *database); /* NULL is fine */

/* Lends a connection, waiting at most 5 s for one: STATUS_UNAVAILABLE. Give it back from the same thread. */
MUST_CHECK enum status database_take(struct database *database, struct connection **out, struct error *error);
void database_give(struct database *database, struct connection *connection); /* NULL is fine */

const char *database_conninfo(const struct database *database); /* lent */

#endif

/* store.h: what all questions to the database share. One resource a file, one question a function; the first argument
 * is a connection; a handler has its own (application_connection).
 *
 * What code decides on comes as a struct. What is only shown comes as a JSON document already in the shape of the API,
 * built by the database: the caller owns it (json_decref). Lists come as {"items": [...], "next": CURSOR | null},
 * newest first; the handler makes an address of the cursor. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/error.h"
#include "postgres/connection.h"

#include <jansson.h>
#include <stdint.h>

/* An opaque id (a UUID's text today). */
struct store_id {
    char text[40];
};

struct page {
    int limit;          /* 1 to 1,000; 0: 100 */
    const char *cursor; /* from the page before; NULL: the first page. A bad one is STATUS_INVALID at "/cursor" */
    const char *sort;   /* name of an order, where a list has several; NULL: newest first */
};

/* What items of a list must be like. Lent. */
struct list_filter {
    const char *name;                 /* "*" stands for any text; NULL: any */
    const json_t *tags;               /* [{"key", "value" or null: any}]; NULL: any */
    int64_t step_from, step_to;       /* both belong to it; 0 and INT64_MAX: any */
    int64_t created_from, created_to; /* milliseconds since 1970, the second not part of it; 0 and INT64_MAX: any */
};
#define LIST_FILTER_ANY ((struct list_filter){.step_to = INT64_MAX, .created_to = INT64_MAX})

/* What an insertion under a name found. A different thing under the same name is STATUS_CONFLICT. */
enum store_outcome { STORE_CREATED, STORE_EXISTED };

/* PostgreSQL's notification channel for "there may be work" and "a run changed". A hint only. */
#define STORE_CHANNEL "deltaq"

/* A random id (version 4). */
struct store_id store_id_new(void);

/* The id in the first column of the first row; "" when there is no row. */
struct store_id store_id_of(const struct rows *rows);

/* The id that `sql` gives for `reference` ($1), an id or a name. STATUS_NOT_FOUND: the caller says of what. */
MUST_CHECK enum status store_resolve(struct connection *connection, const char *sql, const char *reference,
                                     struct store_id *id, struct error *error);

/* STATUS_OK when the database takes writes. A standby, or one set to read only, does not: STATUS_UNAVAILABLE. */
MUST_CHECK enum status store_check_writable(struct connection *connection, struct error *error);

/* Sends the hint; to be called after the commit, and its failure means nothing. */
void store_notify(struct connection *connection);

/* The page's limit within bounds, and its cursor as a number (INT64_MAX for the first page). For the list functions. */
MUST_CHECK enum status page_read(const struct page *page, int64_t *limit, int64_t *before, struct error *error);

#endif

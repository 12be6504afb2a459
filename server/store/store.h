/* store.h: conventions of all queries. One file for each resource, one function for each question. The first argument
 * is a connection; a handler has its own (application_connection). Data that code decides on comes as a struct. Data
 * that is only shown comes as a JSON document in the API's form, built by the database and owned by the caller
 * (json_decref). Lists are {"items": [...], "next": CURSOR | null}, newest first; the handler turns the cursor into an
 * address. */
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

/* Space for a name, which has up to 200 characters of up to four bytes each. One that a request gives or the server
 * makes has at most 200 bytes; a scan takes those of directories. */
enum { STORE_NAME = 4 * 200 + 1, STORE_NAME_GIVEN = 200 };

struct page {
    int limit;          /* 1 to 1,000; 0: the default, 100 */
    const char *cursor; /* from the page before; NULL: the first page. STATUS_INVALID at "/cursor" when it is
                         * malformed */
    const char *sort;   /* name of an order, for a list that has several; NULL: newest first */
};

/* Conditions on the items of a list. Lent. */
struct list_filter {
    const char *name;                 /* "*" stands for any text; NULL: any */
    const json_t *tags;               /* [{"key", "value" or null: any}]; NULL: any */
    int64_t step_from, step_to;       /* inclusive; 0 and INT64_MAX: any */
    int64_t created_from, created_to; /* milliseconds since 1970, from inclusive, to exclusive; 0 and INT64_MAX: any */
};
#define LIST_FILTER_ANY ((struct list_filter){.step_to = INT64_MAX, .created_to = INT64_MAX})

/* Whether an insertion made the object or found an equal one. A different object under the same name is
 * STATUS_CONFLICT. */
enum store_outcome { STORE_CREATED, STORE_EXISTED };

/* A name made of two: of `base` as many characters are left as fit beside the ASCII `ending`. */
void store_name_extend(const char *base, const char *ending, char out[STORE_NAME]);

/* PostgreSQL's notification channel for "there may be work" and "a run changed". A hint only. */
#define STORE_CHANNEL "deltaq"

/* A random id (version 4). */
struct store_id store_id_new(void);

/* The id in the first column of the first row; "" when there is no row. */
struct store_id store_id_of(const struct rows *rows);

/* The texts as a JSON array, which the caller owns. STATUS_NO_MEMORY. */
MUST_CHECK enum status store_texts(const char *const *texts, size_t count, json_t **out, struct error *error);

/* STATUS_NOT_FOUND: there is no `what` ("dataset") with that id or name. */
MUST_CHECK enum status store_unknown(const char *what, const char *reference, struct error *error);

/* The id, or the document, that `sql` returns for `reference` ($1), the id or name of a `what`. Status of
 * store_unknown. */
MUST_CHECK enum status store_resolve(struct connection *connection, const char *sql, const char *what,
                                     const char *reference, struct store_id *id, struct error *error);
MUST_CHECK enum status store_get(struct connection *connection, const char *sql, const char *what,
                                 const char *reference, json_t **document, struct error *error);

/* STATUS_OK when the database takes writes. STATUS_UNAVAILABLE for a standby or a read-only database. */
MUST_CHECK enum status store_check_writable(struct connection *connection, struct error *error);

/* Keeps the hash of what an input has: `sql` sets it ($2) in the row with the id ($1) unless that has another one.
 * STATUS_INPUT_CHANGED with the detail `changed` when it has. */
MUST_CHECK enum status store_set_content(struct connection *connection, const char *sql, const struct store_id *id,
                                         const char *sha256, const char *changed, struct error *error);

/* Runs `body` in a transaction that makes the document *made, a field of `context` that is NULL before. `body` releases
 * what an attempt that was rolled back made. *document: what was made, which the caller owns; NULL on failure. Statuses
 * of connection_transaction. */
MUST_CHECK enum status store_transaction(struct connection *connection,
                                         enum status (*body)(struct connection *connection, void *context,
                                                             struct error *error),
                                         void *context, json_t **made, json_t **document, struct error *error);

/* Sends the hint. Call it after the commit; its failure has no consequence. */
void store_notify(struct connection *connection);

/* For the list functions: the page's limit within bounds, and its cursor as a number (INT64_MAX for the first page). A
 * mark (list.h) may follow the number. */
MUST_CHECK enum status page_read(const struct page *page, int64_t *limit, int64_t *before, struct error *error);

/* The mark of the page's cursor; NULL: it has none. After page_read. */
const char *page_mark(const struct page *page);

#endif

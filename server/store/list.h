/* list.h: the SQL around every list. `inner` selects (number, document), with $1 the limit and $2 the cursor, and has
 * no order or limit of its own. The query fetches one row more than asked for, which tells whether there is a next
 * page; the cursor is the number of the last row shown. `first`: WITH queries, each followed by a comma, that `inner`
 * may use. */
#ifndef STORE_LIST_H
#define STORE_LIST_H

#include "store/store.h"

#define LIST_OF(inner)               LIST_BY("", inner, "1 desc")
#define LIST_BY(first, inner, order) LIST_BY_CURSOR(first, inner, order, "number::text")
#define LIST_BY_CURSOR(first, inner, order, cursor)                                                    \
    "with " first "page as (select row_number() over () as place, p.* from (" inner " order by " order \
    " limit $1 + 1) p (number, document))"                                                             \
    " select json_build_object('items',"                                                               \
    " coalesce((select json_agg(document order by place) from page where place <= $1), '[]'), 'next'," \
    " (select " cursor " from page where place = $1 and (select count(*) from page) > $1))"

/* An order by what a PATCH may change: behind its number a cursor has digits of a hash of what the row had, the member
 * of its document or `value`. Where it has another value by then, the next page is elsewhere in the order, and is
 * refused: rows would be missing. */
#define LIST_MARK(value)           "left(encode(sha256(convert_to(" value ", 'UTF8')), 'hex'), 8)"
#define LIST_MARKED(value)         "number || '.' || " LIST_MARK(value)
#define LIST_KEY(key, value, from) "select " key ", " LIST_MARK(value) " from " from " where number = $1"

/* Conditions of lists that are filtered; `n` is a parameter, "$4". */
#define LIST_NAMED(column, n)                                                         \
    " and (" n "::text is null or " column " like replace(replace(replace(replace(" n \
    ", '\\', '\\\\'), '%', '\\%'), '_', '\\_'), '*', '%'))"
#define LIST_CREATED(column, from, to)                                              \
    " and (" from " = 0 or " column " >= to_timestamp(" from " / 1000.0)) and (" to \
    " = 9223372036854775807 or " column " < to_timestamp(" to " / 1000.0))"
#define LIST_STEPS(column, from, to) \
    " and (" from " = 0 or " column " >= " from ") and (" to " = 9223372036854775807 or " column " <= " to ")"
#define LIST_TAGGED(column, n)                                                                              \
    " and not exists (select 1 from json_array_elements(" n                                                 \
    "::json) f where case when f ->> 'value' is null then " column " -> (f ->> 'key') is null else " column \
    " ->> (f ->> 'key') is distinct from f ->> 'value' end)"

/* One order of a list. The first of a table is the default. */
struct list_order {
    const char *name;       /* as `sort` has it; NULL ends a table */
    const char *sql;        /* the query of the list; $2 is null on the first page */
    const char *sql_narrow; /* the query of the list within one trajectory, where that is a different query */
    const char *key;        /* LIST_KEY of the order's value in row number $1, as text; NULL: the number itself */
    bool of_trajectory;     /* an index exists only within one trajectory */
};

/* The orders of rows that have a number and a unique name, `table` as `as` with the conditions `fits`; `place` is
 * the parameter of list_cursor_key. */
#define LIST_NAMED_BY(table, as, document, fits, behind, order, cursor)                                        \
    LIST_BY_CURSOR("",                                                                                         \
                   "select " as ".number, " document " from " table " " as " where ($2::bigint is null or " as \
                   "." behind ")" fits,                                                                        \
                   as "." order, cursor)
#define LIST_NAMED_KEY(table) LIST_KEY("name", "name", table)
#define LIST_NAMED_ORDERS(table, as, document, fits, place)                                              \
    {                                                                                                    \
        {.name = "-created",                                                                             \
         .sql = LIST_NAMED_BY(table, as, document, fits, "number < $2", "number desc", "number::text")}, \
            {.name = "created",                                                                          \
             .sql = LIST_NAMED_BY(table, as, document, fits, "number > $2", "number", "number::text")},  \
            {.name = "name",                                                                             \
             .sql = LIST_NAMED_BY(table, as, document, fits, "name > " place, "name",                    \
                                  LIST_MARKED("document ->> 'name'")),                                   \
             .key = LIST_NAMED_KEY(table)},                                                              \
            {.name = "-name",                                                                            \
             .sql = LIST_NAMED_BY(table, as, document, fits, "name < " place, "name desc",               \
                                  LIST_MARKED("document ->> 'name'")),                                   \
             .key = LIST_NAMED_KEY(table)},                                                              \
            {0},                                                                                         \
    }

/* The start of a page. */
struct list_cursor {
    const struct list_order *order;
    int64_t limit, number;
    bool first;           /* the first page: number and key are not set */
    char key[STORE_NAME]; /* "": the order has no key */
};

/* Finds the order that the page asks for, and what its cursor says. `within`: the list is of one trajectory.
 * STATUS_INVALID at "/sort", "/limit" and "/cursor"; at "/cursor" also when the row that it names is gone, or has
 * another place in the order. */
MUST_CHECK enum status list_cursor_find(struct connection *connection, const struct page *page,
                                        const struct list_order *orders, bool within, struct list_cursor *out,
                                        struct error *error);

/* The cursor as parameter $2, and as the key of its order. */
struct value list_cursor_number(const struct list_cursor *cursor);
struct value list_cursor_key(const struct list_cursor *cursor);

/* The orders of a list that is filtered by name and creation alone, for list_named. */
#define LIST_ORDERS(table, as, document)                                                                            \
    LIST_NAMED_ORDERS(table, as, document, LIST_NAMED(as ".name", "$3") LIST_CREATED(as ".created_at", "$4", "$5"), \
                      "$6")

/* A page of such a list. Statuses of list_cursor_find. */
MUST_CHECK enum status list_named(struct connection *connection, const struct list_order *orders,
                                  const struct list_filter *filter, const struct page *page, json_t **document,
                                  struct error *error);

#endif

#include "store/list.h"

#include <stdio.h>
#include <string.h>

static enum status find_order(const struct page *page, const struct list_order *orders, bool within,
                              const struct list_order **out, struct error *error)
{
    char all[200] = "";
    *out = orders;
    if (page->sort == NULL) return STATUS_OK;
    while ((*out)->name != NULL && strcmp((*out)->name, page->sort) != 0) (*out)++;
    if ((*out)->name != NULL && (within || !(*out)->of_trajectory)) return STATUS_OK;
    if ((*out)->name != NULL)
        return error_set_at(error, STATUS_INVALID, "/sort", "goes with trajectory: by %s within one alone", page->sort);
    for (size_t i = 0; orders[i].name != NULL; i++) {
        const size_t used = strlen(all);
        (void)snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", orders[i].name);
    }
    return error_set_at(error, STATUS_INVALID, "/sort", "must be one of %s, found \"%.60s\"", all, page->sort);
}

enum status list_cursor_find(struct connection *connection, const struct page *page, const struct list_order *orders,
                             bool within, struct list_cursor *out, struct error *error)
{
    struct rows *rows;
    enum status status = find_order(page, orders, within, &out->order, error);
    if (status == STATUS_OK) status = page_read(page, &out->limit, &out->number, error);
    out->first = page->cursor == NULL || page->cursor[0] == '\0';
    out->key[0] = '\0';
    if (status != STATUS_OK || out->first || out->order->key == NULL) return status;
    status = connection_query(connection, out->order->key, VALUES(value_integer(out->number)), &rows, error);
    if (status != STATUS_OK) return status;
    const char *mark = page_mark(page);
    if (rows_count(rows) == 0 || rows_null(rows, 0, 0) || (mark != NULL && strcmp(rows_text(rows, 0, 1), mark) != 0))
        status = error_set_at(error, STATUS_INVALID, "/cursor",
                              "what the page before ended with is gone, not in this order, or has moved in it: begin"
                              " again without it");
    else
        (void)snprintf(out->key, sizeof out->key, "%s", rows_text(rows, 0, 0));
    rows_free(rows);
    return status;
}

struct value list_cursor_number(const struct list_cursor *cursor)
{
    return value_integer_or_null(cursor->first ? NULL : &cursor->number);
}

struct value list_cursor_key(const struct list_cursor *cursor)
{
    return value_text(cursor->key[0] == '\0' ? NULL : cursor->key);
}

enum status list_named(struct connection *connection, const struct list_order *orders, const struct list_filter *filter,
                       const struct page *page, json_t **document, struct error *error)
{
    struct list_cursor cursor;
    const enum status status = list_cursor_find(connection, page, orders, false, &cursor, error);
    *document = NULL;
    if (status != STATUS_OK) return status;
    return connection_query_json(connection, cursor.order->sql,
                                 VALUES(value_integer(cursor.limit), list_cursor_number(&cursor),
                                        value_text(filter->name), value_integer(filter->created_from),
                                        value_integer(filter->created_to), list_cursor_key(&cursor)),
                                 document, error);
}

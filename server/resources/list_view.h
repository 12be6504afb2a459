/* list_view.h: selects the fields of a list's items: all, those that `fields` names, or those of `view=summary`. */
#ifndef RESOURCES_LIST_VIEW_H
#define RESOURCES_LIST_VIEW_H

#include "http/request.h"

enum { LIST_FIELDS_MOST = 32 };

struct list_field {
    const char *name; /* of the document; NULL ends a table */
    bool summary;     /* part of view=summary */
};

struct list_view {
    const struct list_field *fields[LIST_FIELDS_MOST]; /* in the requested order */
    size_t count;                                      /* 0: all */
    bool summary;
};

/* Reads `fields` and `view` of the request. STATUS_INVALID for a name that the table lacks or that occurs twice, for an
 * unknown view, and when both are given. */
MUST_CHECK enum status list_view_read(const struct request *request, const struct list_field *table,
                                      struct list_view *out, struct error *error);

/* Whether items show the field `name`. */
bool list_view_has(const struct list_view *view, const char *name);

/* Removes all other fields from the page's items. An item need not have every field: datasets do not. */
MUST_CHECK enum status list_view_apply(const struct list_view *view, json_t *page, struct error *error);

#endif

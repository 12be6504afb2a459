#include "resources/list_view.h"

#include <stdio.h>
#include <string.h>

static enum status unknown(const struct list_field *table, const char *from, size_t length, struct error *error)
{
    char all[400] = "";
    for (size_t i = 0; table[i].name != NULL; i++) {
        const size_t used = strlen(all);
        (void)snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", table[i].name);
    }
    return request_query_fault(error, "fields", "no field \"%.*s\"; there are %s", (int)(length < 60 ? length : 60),
                               from, all);
}

static enum status add(const struct list_field *table, const char *from, size_t length, struct list_view *out,
                       struct error *error)
{
    const struct list_field *field = table;
    while (field->name != NULL && (strlen(field->name) != length || memcmp(field->name, from, length) != 0)) field++;
    if (field->name == NULL) return unknown(table, from, length, error);
    if (out->count > 0 && list_view_has(out, field->name))
        return request_query_fault(error, "fields", "\"%s\" comes twice", field->name);
    out->fields[out->count++] = field; /* each at most once, so there is space for all of a table */
    return STATUS_OK;
}

enum status list_view_read(const struct request *request, const struct list_field *table, struct list_view *out,
                           struct error *error)
{
    enum status status = STATUS_OK;
    const char *list = request_query(request, "fields"), *view = request_query(request, "view");
    *out = (struct list_view){.summary = view != NULL && strcmp(view, "summary") == 0};
    if (view != NULL && !out->summary && strcmp(view, "full") != 0)
        return request_query_fault(error, "view", "must be full or summary, found \"%.60s\"", view);
    if (list != NULL && view != NULL)
        return request_query_fault(error, "view", "goes without fields: these say already what is shown");
    for (size_t i = 0; out->summary && table[i].name != NULL; i++)
        if (table[i].summary) out->fields[out->count++] = &table[i];
    for (const char *from = list; from != NULL && status == STATUS_OK;) {
        const size_t length = strcspn(from, ",");
        status = add(table, from, length, out, error);
        from = from[length] == ',' ? from + length + 1 : NULL;
    }
    return status;
}

bool list_view_has(const struct list_view *view, const char *name)
{
    for (size_t i = 0; i < view->count; i++)
        if (strcmp(view->fields[i]->name, name) == 0) return true;
    return view->count == 0;
}

enum status list_view_apply(const struct list_view *view, json_t *page, struct error *error)
{
    size_t i;
    json_t *item, *items = json_object_get(page, "items");
    if (view->count == 0) return STATUS_OK;
    json_array_foreach(items, i, item)
    {
        json_t *chosen = json_object();
        bool good = chosen != NULL;
        for (size_t k = 0; good && k < view->count; k++) {
            json_t *value = json_object_get(item, view->fields[k]->name);
            good = value == NULL || json_object_set(chosen, view->fields[k]->name, value) == 0;
        }
        if (json_array_set_new(items, i, chosen) != 0 || !good)
            return error_set(error, STATUS_NO_MEMORY, "no memory for a list");
    }
    return STATUS_OK;
}

#include "resources/answer.h"

#include "base/buffer.h"
#include "base/words.h"
#include "kinds/metrics.h"
#include "schema/form.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ADDRESS_MAX = 8192, PAGE_MAX = 1000, TAGS_MAX = 16 };

enum status answer_faults(struct response *response, const struct faults *faults, struct error *error)
{
    for (size_t i = 0; i < faults_kept(faults); i++)
        response_add_error(response, faults->items[i].pointer, faults->items[i].detail);
    return faults_status(faults, error);
}

enum status answer_body(const struct request *request, struct response *response, const struct param *table,
                        size_t size, struct schema_filled *out, struct error *error)
{
    struct faults faults = {0};
    const enum status status = schema_fill(table, size, request->body, "", &faults, out, error);
    return faults.count > 0 ? answer_faults(response, &faults, error) : status;
}

enum status answer_no_fields(const struct request *request, struct response *response, struct error *error)
{
    static const struct param none[] = {{0}};
    struct schema_filled filled = {0};
    if (request->body == NULL) return STATUS_OK;
    const enum status status = answer_body(request, response, none, 0, &filled, error);
    schema_filled_reset(&filled);
    return status;
}

enum status answer_changes(const struct request *request, struct response *response, const struct param *table,
                           size_t size, json_t **changes, struct error *error)
{
    struct schema_filled filled = {0};
    json_t *given = json_copy(request->body), *value;
    const char *field;
    *changes = NULL;
    if (given == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a document");
    const enum status status = answer_body(request, response, table, size, &filled, error);
    json_object_foreach(given, field, value)(void) json_object_set(given, field, json_object_get(request->body, field));
    schema_filled_reset(&filled);
    if (status == STATUS_OK)
        *changes = given;
    else
        json_decref(given);
    return status;
}

enum status answer_check_name(const char *name, const char *pointer, struct error *error)
{
    const size_t length = strlen(name);
    const char *what = pointer[0] == '\0' ? "the name in the address " : "";
    if (length == 0 || length > STORE_NAME_GIVEN)
        return error_set_at(error, STATUS_INVALID, pointer, "%smust have 1 to %d bytes, found %zu", what,
                            STORE_NAME_GIVEN, length);
    if (form_name.fits(name)) return STATUS_OK;
    return error_set_at(error, STATUS_INVALID, pointer, "%s%s", what, form_name.wanted);
}

enum status answer_check_metric(const char *name, const char *field, struct error *error)
{
    if (metrics_find(name) != NULL) return STATUS_OK;
    const char *nearest = metrics_nearest(name);
    if (nearest != NULL)
        return request_query_fault(error, field, "no measured number is named \"%.60s\"; did you mean \"%s\"?", name,
                                   nearest);
    return request_query_fault(
        error, field,
        "no measured number is named \"%.60s\"; GET /v1/curves/metrics lists those measured here, /openapi.yaml "
        "all (Metric)",
        name);
}

const char *const answer_table_names[] = {"json", "csv", NULL};
const char *const answer_table_types[] = {"application/json", "text/csv", NULL};

/* "json, csv" */
static void list(const char *const *names, char out[200])
{
    out[0] = '\0';
    for (; *names != NULL; names++) words_add(out, 200, "%s", *names);
}

enum status answer_form(const struct request *request, const char *const *names, const char *const *types, int *out,
                        struct error *error)
{
    const char *format = request_query(request, "format");
    char known[200];
    for (int i = 0; format != NULL && names[i] != NULL; i++)
        if (strcmp(format, names[i]) == 0) {
            *out = i;
            return STATUS_OK;
        }
    list(format != NULL ? names : types, known);
    if (format != NULL)
        return request_query_fault(error, "format", "must be one of %s, found \"%.60s\"", known, format);
    *out = request_prefer(request, types);
    return *out >= 0 ? STATUS_OK
                     : error_set(error, STATUS_NOT_ACCEPTABLE, "there are %s, and Accept takes none of them", known);
}

enum status answer_query_boolean(const struct request *request, const char *field, bool *out, struct error *error)
{
    const char *value = request_query(request, field);
    *out = value != NULL && strcmp(value, "true") == 0;
    if (value == NULL || *out || strcmp(value, "false") == 0) return STATUS_OK;
    return request_query_fault(error, field, "must be true or false, found \"%.60s\"", value);
}

enum status answer_accepts(const struct request *request, struct error *error)
{
    static const char *const types[] = {"application/json", NULL};
    if (request_prefer(request, types) == 0) return STATUS_OK;
    return error_set(error, STATUS_NOT_ACCEPTABLE, "lists are application/json, which Accept does not take");
}

enum status answer_page(const struct request *request, struct page *out, struct error *error)
{
    const enum status status = answer_accepts(request, error);
    return status == STATUS_OK ? answer_page_of(request, out, error) : status;
}

enum status answer_page_of(const struct request *request, struct page *out, struct error *error)
{
    int64_t limit = 0;
    const enum status status = request_query_integer(request, "limit", 100, 1, PAGE_MAX, &limit, error);
    *out = (struct page){
        .limit = (int)limit, .cursor = request_query(request, "cursor"), .sort = request_query(request, "sort")};
    return status;
}

enum status answer_tags(const struct request *request, json_t **out, struct error *error)
{
    const char *tag;
    for (size_t i = 0; (tag = request_query_at(request, "tag", i)) != NULL; i++) {
        const size_t length = strcspn(tag, ":");
        if (length == 0 || i == TAGS_MAX)
            return request_query_fault(error, "tag", "expected KEY or KEY:VALUE, at most %d times", TAGS_MAX);
        if (*out == NULL) *out = json_array();
        json_t *value = tag[length] == ':' ? json_string(tag + length + 1) : json_null();
        if (json_array_append_new(*out, json_pack("{ss% so}", "key", tag, length, "value", value)) != 0)
            return error_set(error, STATUS_NO_MEMORY, "no memory for a filter");
    }
    return STATUS_OK;
}

/* ".690" as milliseconds; further digits are dropped. Moves *at behind them. */
static int64_t read_fraction(const char **at)
{
    int64_t milliseconds = 0;
    if (**at != '.' || !isdigit((unsigned char)(*at)[1])) return 0;
    (*at)++;
    for (int64_t unit = 100; isdigit((unsigned char)**at); unit /= 10) milliseconds += unit * (*(*at)++ - '0');
    return milliseconds;
}

/* "Z" or an offset like "+02:00", at the end of a text. */
static bool read_zone(const char *at, int64_t *seconds)
{
    struct tm offset = {0};
    *seconds = 0;
    if (strcmp(at, "Z") == 0) return true;
    if ((at[0] != '+' && at[0] != '-') || strlen(at) != strlen("+02:00")) return false;
    const char *end = strptime(at + 1, "%H:%M", &offset);
    *seconds = (at[0] == '-' ? -60 : 60) * (int64_t)(offset.tm_hour * 60 + offset.tm_min);
    return end != NULL && *end == '\0';
}

/* A day, or a time of RFC 3339, as milliseconds since 1970; -1: neither, or before. */
static int64_t read_time(const char *text)
{
    struct tm given = {0};
    int64_t milliseconds = 0, offset = 0;
    const bool day = strchr(text, 'T') == NULL;
    const char *end = strptime(text, day ? "%Y-%m-%d" : "%Y-%m-%dT%H:%M:%S", &given);
    if (end != NULL && !day) milliseconds = read_fraction(&end);
    if (end == NULL || (day ? *end != '\0' : !read_zone(end, &offset))) return -1;
    struct tm read = given;
    const int64_t seconds = (int64_t)timegm(&read);
    if (read.tm_mday != given.tm_mday || read.tm_sec != given.tm_sec || seconds < offset) return -1;
    return (seconds - offset) * 1000 + milliseconds;
}

enum status answer_time(const struct request *request, const char *field, int64_t fallback, int64_t *out,
                        struct error *error)
{
    const char *text = request_query(request, field);
    *out = fallback;
    if (text == NULL) return STATUS_OK;
    const int64_t read = read_time(text);
    if (read < 0)
        return request_query_fault(error, field,
                                   "expected a day (2026-01-31) or a time (2026-01-31T12:00:00Z, 2026-01-31T12:00:00.5"
                                   "%%2B02:00: a + is written %%2B) from 1970 on, found \"%.40s\"",
                                   text);
    *out = read;
    return STATUS_OK;
}

enum status answer_filter(const struct request *request, struct list_filter *out, json_t **tags, struct error *error)
{
    *out = (struct list_filter){.name = request_query(request, "name")};
    *tags = NULL;
    enum status status = request_query_integer(request, "step_from", 0, 0, INT64_MAX, &out->step_from, error);
    if (status == STATUS_OK)
        status = request_query_integer(request, "step_to", INT64_MAX, 0, INT64_MAX, &out->step_to, error);
    if (status == STATUS_OK) status = answer_time(request, "created_from", 0, &out->created_from, error);
    if (status == STATUS_OK) status = answer_time(request, "created_to", INT64_MAX, &out->created_to, error);
    if (status == STATUS_OK) status = answer_tags(request, tags, error);
    out->tags = *tags;
    return status;
}

/* Appends &NAME=VALUE, escaped. */
static enum status add_query(const char *name, const char *value, struct buffer *out, struct error *error)
{
    const size_t most = 3 * (strlen(name) + strlen(value)) + 1;
    char *escaped = malloc(most);
    if (escaped == NULL) return error_no_memory(error, "an address");
    buffer_puts(out, "&");
    enum status status = response_escape_segment(name, escaped, most, error);
    if (status == STATUS_OK) buffer_printf(out, "%s=", escaped);
    if (status == STATUS_OK) status = response_escape_segment(value, escaped, most, error);
    if (status == STATUS_OK) buffer_puts(out, escaped);
    free(escaped);
    return status;
}

/* The request's address with another cursor. No longer than the address of a request may be, since a request is what it
 * is for. */
static enum status next_address(const struct request *request, const char *cursor, struct buffer *out,
                                struct error *error)
{
    char value[1024];
    enum status status = response_escape_segment(cursor, value, sizeof value, error);
    buffer_printf(out, "%s?cursor=%s", request->path, value);
    for (size_t i = 0; i < request->query_count && status == STATUS_OK; i++)
        if (strcmp(request->query[i].name, "cursor") != 0)
            status = add_query(request->query[i].name, request->query[i].value, out, error);
    if (status == STATUS_OK && out->status == STATUS_TOO_LARGE)
        return error_set(error, STATUS_TOO_LARGE, "the address of the next page would be longer than %d bytes",
                         ADDRESS_MAX);
    return status == STATUS_OK ? buffer_status(out, "an address", error) : status;
}

enum status answer_next(struct response *response, const struct request *request, json_t *page, struct error *error)
{
    struct buffer address, link;
    const char *cursor = json_string_value(json_object_get(page, "next"));
    if (cursor == NULL) return STATUS_OK;
    buffer_init(&address, ADDRESS_MAX);
    buffer_init(&link, ADDRESS_MAX + sizeof "<>; rel=\"next\"");
    enum status status = next_address(request, cursor, &address, error);
    if (status == STATUS_OK) {
        buffer_printf(&link, "<%s>; rel=\"next\"", address.bytes);
        status = buffer_status(&link, "an address", error);
    }
    if (status == STATUS_OK) status = response_header(response, "Link", link.bytes, error);
    if (status == STATUS_OK && json_object_set_new(page, "next", json_string(address.bytes)) != 0)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a list");
    buffer_reset(&address);
    buffer_reset(&link);
    return status;
}

enum status answer_list(struct response *response, const struct request *request, json_t *page, struct error *error)
{
    const enum status status = answer_next(response, request, page, error);
    if (status == STATUS_OK) return response_json(response, 200, page, error);
    json_decref(page);
    return status;
}

enum status answer_view(struct response *response, const struct request *request, const struct list_view *view,
                        json_t *page, struct error *error)
{
    const enum status status = list_view_apply(view, page, error);
    if (status == STATUS_OK) return answer_list(response, request, page, error);
    json_decref(page);
    return status;
}

enum status answer_list_request(const struct request *request, const struct list_field *table, struct list_request *out,
                                struct error *error)
{
    *out = (struct list_request){0};
    enum status status = answer_page(request, &out->page, error);
    if (status == STATUS_OK) status = list_view_read(request, table, &out->view, error);
    return status == STATUS_OK ? answer_filter(request, &out->filter, &out->tags, error) : status;
}

enum status answer_listed(struct response *response, const struct request *request, struct list_request *asked,
                          enum status status, json_t *document, struct error *error)
{
    json_decref(asked->tags);
    return status == STATUS_OK ? answer_view(response, request, &asked->view, document, error) : status;
}

enum status answer_made(struct response *response, int http_status, const char *prefix, json_t *document,
                        struct error *error)
{
    struct buffer location;
    buffer_init(&location, ADDRESS_MAX);
    buffer_printf(&location, "%s%s", prefix, json_string_value(json_object_get(document, "id")));
    enum status status = buffer_status(&location, "an address", error);
    if (status == STATUS_OK) status = response_header(response, "Location", location.bytes, error);
    buffer_reset(&location);
    if (status == STATUS_OK) return response_json(response, http_status, document, error);
    json_decref(document);
    return status;
}

enum status answer_changed(struct response *response, struct connection *connection, enum status status,
                           json_t *document, struct error *error)
{
    if (status != STATUS_OK) return status;
    store_notify(connection);
    return response_json(response, 202, document, error);
}

enum status answer_found(struct response *response, struct connection *connection,
                         enum status (*get)(struct connection *connection, const char *reference, json_t **document,
                                            struct error *error),
                         const char *reference, struct error *error)
{
    json_t *document = NULL;
    const enum status status = get(connection, reference, &document, error);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

enum status answer_empty(struct response *response, enum status status)
{
    if (status == STATUS_OK) response_empty(response, 204);
    return status;
}

enum status answer_deleted(struct response *response, struct connection *connection, enum status status)
{
    if (status == STATUS_OK) store_notify(connection);
    return answer_empty(response, status);
}

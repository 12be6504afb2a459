/* GET /v1/measurements: a wide table. JSON has a page of rows; NDJSON and CSV have all, unless a limit is given. With
 * updated_since it has the rows that changed since, in that order. */
#include "base/buffer.h"
#include "http/json_answer.h"
#include "kinds/metrics.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/csv.h"
#include "resources/handlers.h"
#include "resources/measurement_fields.h"
#include "resources/series_query.h"
#include "store/changes.h"
#include "store/measurement_table.h"
#include "json/written.h"

#include <stdlib.h>
#include <string.h>

enum { METRICS_MAX = 32, PAGE_WHOLE = 1000 };

enum form { FORM_JSON, FORM_NDJSON, FORM_CSV };

static const char *const types[] = {"application/json", "application/x-ndjson", "text/csv", NULL};
static const char *const forms[] = {[FORM_JSON] = "json", [FORM_NDJSON] = "ndjson", [FORM_CSV] = "csv", NULL};

/* The state of a request. */
struct table {
    int form;    /* enum form */
    bool chosen; /* of the columns, by `fields` */
    const char *trajectories[SERIES_QUERY_TRAJECTORIES];
    json_t *columns, *metrics, *shown, *tags; /* owned; metrics that select the rows, and those that are read of them */
    struct measurement_filter filter;
    struct measurement_selection selection;
    struct measurement_column *places; /* owned: of the columns */
    json_t *labels;                    /* owned: {SERIES: LABEL} */
    bool updates;                      /* only rows that changed after the change `since` */
    int64_t since;
};

static void table_reset(struct table *table)
{
    json_decref(table->columns);
    json_decref(table->metrics);
    json_decref(table->shown);
    json_decref(table->tags);
    json_decref(table->labels);
    free(table->places);
    measurement_selection_reset(&table->selection);
}

/* NULL where `metric` is not given. */
static enum status read_metrics(const struct request *request, json_t **metrics, struct error *error)
{
    const char *name;
    json_t *wanted = NULL;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && (name = request_query_at(request, "metric", i)) != NULL; i++) {
        if (i == METRICS_MAX) {
            status = request_query_fault(error, "metric", "at most %d at once", METRICS_MAX);
        } else if (metrics_find(name) != NULL && !metrics_measured(name)) {
            status = request_query_fault(error, "metric",
                                         "\"%.60s\" is a property of the checkpoint, which no run"
                                         " measures: every row has it as a column",
                                         name);
        } else if ((status = answer_check_metric(name, "metric", error)) == STATUS_OK) {
            if (wanted == NULL) wanted = json_array();
            if (json_array_append_new(wanted, json_string(name)) != 0)
                status = error_no_memory(error, "a table of measurements");
        }
    }
    *metrics = wanted;
    return status;
}

/* `metric` selects the rows, else the metrics among the columns do. Rows have the numbers of both. */
static enum status choose_metrics(const struct request *request, struct table *table, struct error *error)
{
    const enum status status = read_metrics(request, &table->metrics, error);
    if (status != STATUS_OK) return status;
    if (table->metrics == NULL)
        table->metrics = json_incref(table->shown);
    else if (table->shown == NULL)
        table->shown = json_incref(table->metrics);
    else if (json_array_extend(table->shown, table->metrics) != 0)
        return error_no_memory(error, "a table of measurements");
    return STATUS_OK;
}

static enum status read_sort(const struct request *request, bool *descending, struct error *error)
{
    const char *sort = request_query(request, "sort");
    *descending = sort != NULL && strcmp(sort, "-step") == 0;
    if (sort != NULL && !*descending && strcmp(sort, "step") != 0)
        return request_query_fault(error, "sort", "must be one of step, -step, found \"%.60s\"", sort);
    if (sort == NULL || request_query(request, "updated_since") == NULL) return STATUS_OK;
    return request_query_fault(error, "sort", "goes without updated_since: changes come in the order of changes");
}

static enum status read_filter(struct connection *connection, const struct request *request, struct table *table,
                               struct error *error)
{
    struct measurement_filter *filter = &table->filter;
    enum status status = series_query_filter(connection, request, &filter->series, error);
    if (status == STATUS_OK)
        status = series_query_trajectories(request, table->trajectories, &filter->trajectory_count, error);
    if (status == STATUS_OK)
        status = request_query_integer(request, "step_from", 0, 0, INT64_MAX, &filter->step_from, error);
    if (status == STATUS_OK)
        status = request_query_integer(request, "step_to", INT64_MAX, 0, INT64_MAX, &filter->step_to, error);
    if (status == STATUS_OK) status = answer_time(request, "measured_from", 0, &filter->measured_from, error);
    if (status == STATUS_OK) status = answer_time(request, "measured_to", INT64_MAX, &filter->measured_to, error);
    if (status == STATUS_OK) status = read_sort(request, &filter->descending, error);
    if (status == STATUS_OK) status = choose_metrics(request, table, error);
    if (status == STATUS_OK) status = answer_tags(request, &table->tags, error);
    if (status != STATUS_OK) return status;
    filter->trajectories = table->trajectories;
    filter->checkpoint = request_query(request, "checkpoint");
    filter->name = request_query(request, "name");
    filter->metrics = table->metrics;
    filter->shown = table->shown;
    filter->tags = table->tags;
    return STATUS_OK;
}

/* Everything committed so far belongs to the answer, so the pending changes get their ids first. */
static enum status read_since(struct connection *connection, const struct request *request, struct table *table,
                              struct error *error)
{
    const char *since = request_query(request, "updated_since");
    table->updates = since != NULL;
    if (since == NULL) return STATUS_OK;
    const enum status status = changes_cursor(since, "updated_since", &table->since, error);
    return status == STATUS_OK ? changes_number(connection, error) : status;
}

static enum status read_page(struct connection *connection, const struct table *table, const struct page *page,
                             json_t **document, struct error *error)
{
    return table->updates ? measurement_updates(connection, &table->selection, page, table->since, document, error)
                          : measurement_page(connection, &table->selection, page, document, error);
}

/* Reads the labels of all series, and, when the request names no columns, all existing metrics. */
static enum status read_series(struct connection *connection, struct table *table, struct error *error)
{
    json_t *found = NULL;
    enum status status = measurement_series(connection, &table->selection, &found, error);
    if (status != STATUS_OK) return status;
    table->labels = json_incref(json_object_get(found, "labels"));
    if (!table->chosen) status = measurement_fields_add(table->columns, json_object_get(found, "metrics"), error);
    json_decref(found);
    return status == STATUS_OK ? measurement_fields_place(table->columns, &table->places, error) : status;
}

/* The row as it is shown: its columns in order, null where it has no value. */
static json_t *shown(const struct table *table, json_t *row)
{
    const size_t columns = json_array_size(table->columns);
    json_t *out = json_object();
    (void)json_object_set(row, "label",
                          json_object_get(table->labels, json_string_value(json_object_get(row, "series"))));
    for (size_t i = 0; i < columns; i++) {
        json_t *value = measurement_field(row, &table->places[i]);
        if (json_object_set_new(out, table->places[i].name, value != NULL ? json_incref(value) : json_null()) == 0)
            continue;
        json_decref(out);
        return NULL;
    }
    return out;
}

static void append_row(const struct table *table, const json_t *row, struct buffer *out)
{
    const size_t columns = json_array_size(table->columns);
    for (size_t i = 0; i < columns && table->form == FORM_CSV; i++) {
        json_t *value = json_object_get(row, table->places[i].name);
        char *text = json_is_object(value) ? written_json(value, JSON_COMPACT) : NULL;
        json_t *string = text != NULL ? json_string(text) : json_incref(value);
        csv_field(out, string, i + 1 < columns ? ',' : '\r');
        json_decref(string);
        free(text);
    }
    if (table->form == FORM_NDJSON) {
        char *text = json_answer_dump(row);
        buffer_puts(out, text != NULL ? text : "");
        if (text == NULL) out->status = STATUS_NO_MEMORY;
        free(text);
    }
    buffer_puts(out, "\n");
}

/* Takes the store's page. Its rows are appended to `out` as text; with `out` NULL they replace the page's items. */
static enum status show_page(const struct table *table, json_t *page, struct buffer *out, struct error *error)
{
    size_t i, k;
    json_t *rows, *row, *items = json_array();
    json_array_foreach(json_object_get(page, "items"), i, rows)
    {
        json_array_foreach(rows, k, row)
        {
            json_t *made = shown(table, row);
            if (made == NULL) {
                json_decref(items);
                return error_no_memory(error, "a table of measurements");
            }
            if (out != NULL) {
                append_row(table, made, out);
                json_decref(made);
            } else if (json_array_append_new(items, made) != 0) {
                json_decref(items);
                return error_no_memory(error, "a table of measurements");
            }
        }
    }
    return json_object_set_new(page, "items", items) == 0 ? STATUS_OK
                                                          : error_no_memory(error, "a table of measurements");
}

static void append_head(const struct table *table, struct buffer *out)
{
    size_t i;
    json_t *column;
    if (table->form != FORM_CSV) return;
    json_array_foreach(table->columns, i, column)
    {
        buffer_puts(out, i > 0 ? "," : "");
        buffer_puts(out, json_string_value(column));
    }
    buffer_puts(out, "\r\n");
}

/* Writes all pages from the requested one on, or only that one when a limit was given. */
static enum status answer_text(struct connection *connection, const struct request *request, struct response *response,
                               const struct table *table, struct page *page, struct error *error)
{
    const bool whole = request_query(request, "limit") == NULL;
    char cursor[40] = "";
    struct buffer out;
    enum status status;
    bool more;
    buffer_init(&out, CSV_MAX);
    append_head(table, &out);
    if (whole) page->limit = PAGE_WHOLE;
    do {
        json_t *document = NULL;
        status = read_page(connection, table, page, &document, error);
        if (status == STATUS_OK) status = show_page(table, document, &out, error);
        const char *next = json_string_value(json_object_get(document, "next"));
        more = whole && status == STATUS_OK && next != NULL && out.status == STATUS_OK;
        if (more) {
            (void)snprintf(cursor, sizeof cursor, "%s", next);
            page->cursor = cursor;
        } else if (status == STATUS_OK) {
            status = answer_next(response, request, document, error);
            if (status == STATUS_OK && table->updates)
                status = response_header(response, "Deltaq-Cursor",
                                         json_string_value(json_object_get(document, "cursor")), error);
        }
        json_decref(document);
    } while (more);
    if (status == STATUS_OK && out.status == STATUS_TOO_LARGE)
        status = error_set(
            error, STATUS_TOO_LARGE,
            "the table is larger than %d MiB: name the columns with fields=, narrow it, or take pages with limit=",
            CSV_MAX >> 20);
    if (status == STATUS_OK)
        return csv_answer_as(response, table->form == FORM_CSV ? "text/csv; charset=utf-8" : types[FORM_NDJSON], &out,
                             error);
    buffer_reset(&out);
    return status;
}

struct reading {
    const struct request *request;
    struct response *response;
    struct table *table;
};

/* Labels distinguish the series that exist, so labels and rows must be of the same moment. */
static enum status answer_table(struct connection *connection, void *context, struct error *error)
{
    const struct reading *reading = context;
    const struct request *request = reading->request;
    struct table *table = reading->table;
    struct page page;
    json_t *document = NULL;
    enum status status = answer_page_of(request, &page, error);
    if (status == STATUS_OK) status = measurement_select(connection, &table->filter, &table->selection, error);
    if (status == STATUS_OK) status = read_series(connection, table, error);
    if (status == STATUS_OK) status = response_header(reading->response, "Vary", "Accept", error);
    if (status != STATUS_OK) return status;
    if (table->form != FORM_JSON) return answer_text(connection, request, reading->response, table, &page, error);
    status = read_page(connection, table, &page, &document, error);
    if (status == STATUS_OK) status = show_page(table, document, NULL, error);
    if (status == STATUS_OK) (void)json_object_del(document, "found");
    if (status == STATUS_OK) return answer_list(reading->response, request, document, error);
    json_decref(document);
    return status;
}

enum status measurements_get(struct http_context *context, const struct request *request, struct response *response,
                             struct error *error)
{
    const char *fields = request_query(request, "fields");
    struct table table = {.chosen = fields != NULL};
    struct connection *connection = application_connection(context);
    enum status status = answer_form(request, forms, types, &table.form, error);
    if (status == STATUS_OK) status = measurement_fields_read(fields, &table.columns, &table.shown, error);
    if (status == STATUS_OK) status = read_filter(connection, request, &table, error);
    if (status == STATUS_OK) status = read_since(connection, request, &table, error);
    if (status == STATUS_OK)
        status = connection_snapshot(connection, answer_table, &(struct reading){request, response, &table}, error);
    table_reset(&table);
    return status;
}

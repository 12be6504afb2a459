#include "resources/measurement_fields.h"

#include "base/buffer.h"
#include "http/request.h"
#include "kinds/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 80, LIST_MOST = 4096 };

/* Fields of every row, as measurement_page has them. */
static const char *const names[] = {
    "trajectory",   "trajectory_id", "checkpoint",     "checkpoint_name", "step",   "tokens",      "learning_rate",
    "tags",         "series",        "label",          "method_label",    "method", "bits",        "dataset",
    "evaluated_on", "protocol_id",   "calibration_id", "calibrated_on",   "run",    "measured_at",
};
enum { NAMES = sizeof names / sizeof names[0] };

/* Suffixes of the items of a metric's [value, low, high]. */
static const char *const parts[] = {"", "_low", "_high"};
enum { PARTS = sizeof parts / sizeof parts[0] };

static bool names_row(const char *column)
{
    for (size_t i = 0; i < NAMES; i++)
        if (strcmp(names[i], column) == 0) return true;
    return false;
}

/* Whether a column's name ends as number `part` of a metric does; what is before goes into `metric`. */
static bool cut(const char *column, size_t part, char metric[NAME_SIZE])
{
    const size_t length = strlen(column), tail = strlen(parts[part]);
    if (length >= NAME_SIZE || length <= tail || strcmp(column + length - tail, parts[part]) != 0) return false;
    (void)snprintf(metric, NAME_SIZE, "%.*s", (int)(length - tail), column);
    return true;
}

/* Splits a column's name: its metric goes into `metric`; returns the index of its number, -1 when no metric that runs
 * measure has such a column. */
static int split(const char *column, char metric[NAME_SIZE])
{
    for (int i = PARTS - 1; i >= 0; i--)
        if (cut(column, (size_t)i, metric) && metrics_measured(metric)) return i;
    return -1;
}

static bool holds(const json_t *list, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) if (strcmp(json_string_value(item), name) == 0) return true;
    return false;
}

static enum status unknown(const char *name, struct error *error)
{
    char all[300] = "", metric[NAME_SIZE];
    const char *nearest = metrics_nearest(name);
    /* It is no measurement, so it has no interval, and to select rows by it would leave none. */
    for (size_t i = 1; i < PARTS; i++)
        if (cut(name, i, metric) && metrics_find(metric) != NULL && !metrics_measured(metric))
            return request_query_fault(error, "fields",
                                       "no column \"%.60s\": %s is a property of the checkpoint, without an interval",
                                       name, metric);
    for (size_t i = 0; i < NAMES; i++) {
        const size_t used = strlen(all);
        (void)snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    if (nearest != NULL)
        return request_query_fault(error, "fields", "no column \"%.60s\"; did you mean \"%s\"?", name, nearest);
    return request_query_fault(
        error, "fields",
        "no column \"%.60s\"; there are %s, and each metric of GET /v1/metrics, also with _low and _high", name, all);
}

static enum status add_column(const char *name, json_t *columns, json_t *metrics, struct error *error)
{
    char metric[NAME_SIZE];
    if (holds(columns, name)) return request_query_fault(error, "fields", "\"%.60s\" comes twice", name);
    const bool row = names_row(name);
    if (!row && split(name, metric) < 0) return unknown(name, error);
    if (json_array_append_new(columns, json_string(name)) != 0) return error_no_memory(error, "columns");
    if (row || holds(metrics, metric)) return STATUS_OK;
    return json_array_append_new(metrics, json_string(metric)) == 0 ? STATUS_OK : error_no_memory(error, "columns");
}

static enum status read_list(const char *list, json_t *columns, json_t *metrics, struct error *error)
{
    enum status status = STATUS_OK;
    for (const char *from = list; status == STATUS_OK;) {
        const size_t length = strcspn(from, ",");
        char name[NAME_SIZE];
        (void)snprintf(name, sizeof name, "%.*s", (int)(length < LIST_MOST ? length : LIST_MOST), from);
        status = add_column(name, columns, metrics, error);
        if (from[length] == '\0') break;
        from += length + 1;
    }
    return status;
}

enum status measurement_fields_read(const char *list, json_t **columns, json_t **metrics, struct error *error)
{
    enum status status = STATUS_OK;
    *columns = json_array();
    *metrics = json_array();
    if (*columns == NULL || *metrics == NULL) status = error_no_memory(error, "columns");
    for (size_t i = 0; list == NULL && i < NAMES && status == STATUS_OK; i++)
        if (json_array_append_new(*columns, json_string(names[i])) != 0) status = error_no_memory(error, "columns");
    if (list != NULL && status == STATUS_OK) status = read_list(list, *columns, *metrics, error);
    if (status != STATUS_OK) {
        json_decref(*columns);
        *columns = NULL;
    }
    if (status != STATUS_OK || json_array_size(*metrics) == 0) {
        json_decref(*metrics);
        *metrics = NULL;
    }
    return status;
}

enum status measurement_fields_add(json_t *columns, const json_t *wanted, struct error *error)
{
    struct metric all[METRICS_MOST];
    const size_t count = metrics_list(all);
    for (size_t i = 0; i < count; i++) {
        if (!holds(wanted, all[i].about->name)) continue;
        for (size_t k = 0; k < PARTS; k++)
            if (json_array_append_new(columns, json_sprintf("%s%s", all[i].about->name, parts[k])) != 0)
                return error_no_memory(error, "columns");
    }
    return STATUS_OK;
}

enum status measurement_fields_place(const json_t *columns, struct measurement_column **out, struct error *error)
{
    size_t i;
    json_t *column;
    char metric[NAME_SIZE];
    struct measurement_column *made = calloc(json_array_size(columns) + 1, sizeof *made);
    *out = made;
    if (made == NULL) return error_no_memory(error, "columns");
    json_array_foreach(columns, i, column)
    {
        made[i].name = json_string_value(column);
        if (names_row(made[i].name)) continue;
        made[i].part = (size_t)split(made[i].name, metric);
        made[i].metric = metrics_find(metric)->name;
    }
    return STATUS_OK;
}

json_t *measurement_field(const json_t *row, const struct measurement_column *column)
{
    if (column->metric == NULL) return json_object_get(row, column->name);
    return json_array_get(json_object_get(json_object_get(row, "values"), column->metric), column->part);
}

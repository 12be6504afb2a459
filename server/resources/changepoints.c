#include "eval/changepoint.h"

#include "base/memory.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "store/curves.h"

#include <math.h>
#include <string.h>

/* The test of one series takes some hundredths of a second; testing all series would take minutes. */
enum { SERIES_MAX = 200 };
#define ALARM 0.05

/* Points of one series by rising x; points whose number is not finite are left out. */
struct series {
    double *x, *y;
    size_t *places; /* indexes in the document's list */
    int64_t count;
};

static void series_reset(struct series *series)
{
    memory_free(series->x);
    memory_free(series->y);
    memory_free(series->places);
}

static enum status series_take(const json_t *points, double from, struct series *out, struct error *error)
{
    const int64_t room = (int64_t)json_array_size(points);
    size_t i;
    json_t *point;
    enum status status = memory_new(room, sizeof *out->x, "series", &out->x, error);
    if (status == STATUS_OK) status = memory_new(room, sizeof *out->y, "series", &out->y, error);
    if (status == STATUS_OK) status = memory_new(room, sizeof *out->places, "series", &out->places, error);
    if (status != STATUS_OK) return status;
    json_array_foreach(points, i, point)
    {
        const json_t *x = json_object_get(point, "x"), *y = json_object_get(point, "y");
        if (!json_is_number(x) || !json_is_number(y)) continue;
        if (json_number_value(x) < from) continue;
        if (out->count > 0 && json_number_value(x) <= out->x[out->count - 1]) continue;
        out->x[out->count] = json_number_value(x);
        out->y[out->count] = json_number_value(y);
        out->places[out->count++] = i;
    }
    return STATUS_OK;
}

static json_t *end_of(const json_t *points, const struct series *series, int64_t i)
{
    const json_t *point = json_array_get(points, series->places[i]);
    return json_pack("{sO sO? sO?}", "x", json_object_get(point, "x"), "checkpoint",
                     json_object_get(point, "checkpoint"), "checkpoint_name",
                     json_object_get(point, "checkpoint_name"));
}

static json_t *change_of(const json_t *points, const struct series *series, const struct changepoint *found)
{
    static const char *const words[CHANGEPOINT_KINDS] = {"level", "slope"};
    return json_pack("{ss so so s[f f] sf}", "kind", words[found->kind], "after", end_of(points, series, found->after),
                     "before", end_of(points, series, found->after + 1), "interval", series->x[found->low],
                     series->x[found->high + 1], "size", found->size);
}

/* Describes the series, its test, and its change if there is one; `tests` is the number of simultaneous tests. */
static enum status describe(const json_t *given, double from, int64_t tests, json_t *out, struct error *error)
{
    static const char *const fields[] = {"trajectory", "label",       "method",         "bits",
                                         "dataset",    "protocol_id", "calibration_id", "calibrated_on"};
    const json_t *points = json_object_get(given, "points");
    struct series series = {.x = NULL};
    struct changepoint found;
    json_t *row = json_object();
    enum status status = row == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a series")
                                     : series_take(points, from, &series, error);
    if (status == STATUS_OK) status = changepoint_find(series.x, series.y, series.count, &found, error);
    if (status == STATUS_OK) {
        const bool tested = isfinite(found.p);
        const double adjusted = fmin(1, found.p * (double)tests);
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
            (void)json_object_set(row, fields[i], json_object_get(given, fields[i]));
        (void)json_object_set_new(row, "points", json_integer(series.count));
        (void)json_object_set_new(row, "p_value", tested ? json_real(found.p) : json_null());
        (void)json_object_set_new(row, "adjusted_p_value", tested ? json_real(adjusted) : json_null());
        (void)json_object_set_new(row, "change",
                                  tested && adjusted <= ALARM ? change_of(points, &series, &found) : json_null());
        if (json_array_append(out, row) != 0) status = error_set(error, STATUS_NO_MEMORY, "no memory for a series");
    }
    json_decref(row);
    series_reset(&series);
    return status;
}

static enum status read_query(const struct request *request, const char **trajectory, struct curve_query *query,
                              int64_t *from, struct error *error)
{
    const char *x = request_query(request, "x");
    int64_t bits = 0;
    enum status status = request_query_integer(request, "bits", 0, 0, 64, &bits, error);
    if (status == STATUS_OK) status = request_query_integer(request, "from", 0, 0, INT64_C(1) << 53, from, error);
    if (status != STATUS_OK) return status;
    if (x != NULL && strcmp(x, "step") != 0 && strcmp(x, "tokens") != 0)
        return request_query_fault(error, "x", "must be one of step, tokens, found \"%.60s\"", x);
    *trajectory = request_parameter(request, "trajectory");
    *query = (struct curve_query){
        .trajectories = trajectory,
        .trajectory_count = 1,
        .metric = request_query(request, "metric"),
        .axis = x != NULL && strcmp(x, "tokens") == 0 ? CURVE_TOKENS : CURVE_STEP,
        .method = request_query(request, "method"),
        .dataset = request_query(request, "dataset"),
        .protocol = request_query(request, "protocol"),
        .calibration = request_query(request, "calibration"),
        .bits = (int)bits,
    };
    if (query->metric == NULL) query->metric = "delta";
    return answer_check_metric(query->metric, "metric", error);
}

/* *count: how many series have enough points for a test. */
static enum status count_tests(const json_t *list, double from, int64_t *count, struct error *error)
{
    enum status status = STATUS_OK;
    *count = 0;
    for (size_t i = 0; i < json_array_size(list) && status == STATUS_OK; i++) {
        struct series series = {.x = NULL};
        status = series_take(json_object_get(json_array_get(list, i), "points"), from, &series, error);
        *count += series.count >= CHANGEPOINT_LEAST;
        series_reset(&series);
    }
    return status;
}

static enum status make_document(const json_t *curves, double from, const struct monitor *monitor, json_t **out,
                                 struct error *error)
{
    const json_t *series = json_object_get(curves, "series");
    int64_t tests;
    json_t *rows = json_array();
    enum status status = count_tests(series, from, &tests, error);
    if (rows == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a series");
    if (status == STATUS_OK && json_array_size(series) > SERIES_MAX)
        status = error_set(error, STATUS_INVALID, "%zu series, at most %d at once: name method, bits or protocol",
                           json_array_size(series), SERIES_MAX);
    for (size_t i = 0; i < json_array_size(series) && status == STATUS_OK; i++) {
        status = monitor_check(monitor, error);
        if (status == STATUS_OK) status = describe(json_array_get(series, i), from, tests, rows, error);
    }
    if (status == STATUS_OK)
        *out = json_pack("{sO sO sO}", "metric", json_object_get(curves, "metric"), "x", json_object_get(curves, "x"),
                         "series", rows);
    if (status == STATUS_OK && *out == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a series");
    json_decref(rows);
    return status;
}

enum status changepoints_get(struct http_context *context, const struct request *request, struct response *response,
                             struct error *error)
{
    const char *trajectory;
    struct curve_query query;
    int64_t from = 0;
    json_t *curves = NULL, *document = NULL;
    enum status status = read_query(request, &trajectory, &query, &from, error);
    if (status == STATUS_OK) status = curve_read(application_connection(context), &query, &curves, error);
    if (status == STATUS_OK) status = make_document(curves, (double)from, request->monitor, &document, error);
    json_decref(curves);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

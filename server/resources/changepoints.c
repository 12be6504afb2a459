#include "kinds/changepoints.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "resources/series_query.h"
#include "store/curves.h"

#include <string.h>

/* The test of one series takes some hundredths of a second; testing all series would take minutes. */
enum { SERIES_MAX = 200 };

/* Describes the series, its test, and its change if there is one. */
static enum status describe(const json_t *given, double from, struct changepoints_tests *tests, json_t *out,
                            struct error *error)
{
    static const char *const fields[] = {"trajectory",     "label",        "method_label", "method",
                                         "bits",           "dataset",      "evaluated_on", "protocol_id",
                                         "calibration_id", "calibrated_on"};
    const json_t *points = json_object_get(given, "points");
    struct changepoints_series series;
    json_t *row = json_object();
    enum status status = row == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a series")
                                     : changepoints_take(points, from, &series, error);
    if (status == STATUS_OK) {
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
            (void)json_object_set(row, fields[i], json_object_get(given, fields[i]));
        status = changepoints_test(points, &series, tests, row, error);
        if (status == STATUS_OK && json_array_append(out, row) != 0)
            status = error_set(error, STATUS_NO_MEMORY, "no memory for a series");
        changepoints_reset(&series);
    }
    json_decref(row);
    return status;
}

static enum status read_query(struct connection *connection, const struct request *request, const char **trajectory,
                              struct curve_query *query, int64_t *from, struct error *error)
{
    const char *x = request_query(request, "x");
    enum status status = request_query_integer(request, "from", 0, 0, INT64_C(1) << 53, from, error);
    if (status != STATUS_OK) return status;
    if (x != NULL && strcmp(x, "step") != 0 && strcmp(x, "tokens") != 0)
        return request_query_fault(error, "x", "must be one of step, tokens, found \"%.60s\"", x);
    *trajectory = request_parameter(request, "trajectory");
    *query = (struct curve_query){
        .trajectories = trajectory,
        .trajectory_count = 1,
        .metric = request_query(request, "metric"),
        .axis = x != NULL && strcmp(x, "tokens") == 0 ? CURVE_TOKENS : CURVE_STEP,
    };
    if (query->metric == NULL) query->metric = "delta";
    status = series_query_filter(connection, request, &query->series, error);
    if (status == STATUS_OK) status = answer_check_metric(query->metric, "metric", error);
    return status == STATUS_OK ? series_query_fits(request, &query->series, "metric", query->metric, error) : status;
}

static enum status make_document(const json_t *curves, double from, const struct monitor *monitor, json_t **out,
                                 struct error *error)
{
    const json_t *series = json_object_get(curves, "series");
    struct changepoints_tests tests;
    json_t *rows = json_array();
    enum status status = changepoints_tests_of(series, from, &tests, error);
    if (rows == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a series");
    if (status == STATUS_OK && json_array_size(series) > SERIES_MAX)
        status = error_set(error, STATUS_INVALID, "%zu series, at most %d at once: name method, bits or protocol",
                           json_array_size(series), SERIES_MAX);
    for (size_t i = 0; i < json_array_size(series) && status == STATUS_OK; i++) {
        status = monitor_check(monitor, error);
        if (status == STATUS_OK) status = describe(json_array_get(series, i), from, &tests, rows, error);
    }
    if (status == STATUS_OK)
        *out = json_pack("{sO sO sO}", "metric", json_object_get(curves, "metric"), "x", json_object_get(curves, "x"),
                         "series", rows);
    if (status == STATUS_OK && *out == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a series");
    changepoints_tests_reset(&tests);
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
    struct connection *connection = application_connection(context);
    enum status status = read_query(connection, request, &trajectory, &query, &from, error);
    if (status == STATUS_OK) status = curve_read(connection, &query, &curves, error);
    if (status == STATUS_OK) status = make_document(curves, (double)from, request->monitor, &document, error);
    json_decref(curves);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

#include "store/curve_points.h"

#include "kinds/integrity.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/csv.h"
#include "resources/curve_text.h"
#include "resources/handlers.h"
#include "resources/series_query.h"
#include "store/checkpoints.h"

#include <stdlib.h>
#include <string.h>

enum { POINTS_LEAST = 4, POINTS_MAX = 100000 };

static enum status answer_csv(struct response *response, const json_t *document, const json_t *flags,
                              struct error *error)
{
    static const char *const series_fields[] = {"trajectory", "label", "method", "bits", "dataset"};
    static const char *const point_fields[] = {"x", "y", "low", "high", "checkpoint", "run"};
    struct buffer out;
    size_t i, j;
    json_t *series, *point, *flag;
    size_t f;
    buffer_init(&out, CSV_MAX);
    buffer_puts(&out,
                "trajectory,label,method,bits,dataset,x,y,low,high,checkpoint,run,flags,protocol_id,calibration_id,"
                "checkpoint_name,step,evaluated_on,calibrated_on\r\n");
    json_array_foreach(json_object_get(document, "series"), i, series)
    {
        json_array_foreach(json_object_get(series, "points"), j, point)
        {
            for (size_t k = 0; k < 5; k++) csv_field(&out, json_object_get(series, series_fields[k]), ',');
            for (size_t k = 0; k < 6; k++) csv_field(&out, json_object_get(point, point_fields[k]), ',');
            json_array_foreach(json_object_get(flags, json_string_value(json_object_get(point, "checkpoint"))), f, flag)
            {
                if (f > 0) buffer_puts(&out, " ");
                buffer_puts(&out, json_string_value(flag));
            }
            buffer_puts(&out, ",");
            csv_field(&out, json_object_get(series, "protocol_id"), ',');
            csv_field(&out, json_object_get(series, "calibration_id"), ',');
            csv_field(&out, json_object_get(point, "checkpoint_name"), ',');
            csv_field(&out, json_object_get(point, "step"), ',');
            csv_field(&out, json_object_get(series, "evaluated_on"), ',');
            csv_field(&out, json_object_get(series, "calibrated_on"), '\r');
            buffer_puts(&out, "\n");
        }
    }
    return csv_answer(response, &out, error);
}

static enum status read_axis(const char *name, enum curve_axis *out, struct error *error)
{
    static const char *const names[] = {
        [CURVE_STEP] = "step", [CURVE_TOKENS] = "tokens", [CURVE_LEARNING_RATE] = "learning_rate"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (name == NULL || strcmp(names[i], name) == 0) {
            *out = (enum curve_axis)i;
            return STATUS_OK;
        }
    return request_query_fault(error, "x", "must be one of step, tokens, learning_rate, found \"%.60s\"", name);
}

/* At least four points: the first, the last, and the lowest and highest of one part. */
static enum status read_points(const struct request *request, int64_t *out, struct error *error)
{
    const enum status status = request_query_integer(request, "points", 0, 0, POINTS_MAX, out, error);
    if (status != STATUS_OK || *out == 0 || *out >= POINTS_LEAST) return status;
    return request_query_fault(error, "points", "expected 0 for all, or at least %d", POINTS_LEAST);
}

static enum status read_query(struct connection *connection, const struct request *request, struct curve_query *query,
                              const char **trajectories, struct error *error)
{
    enum status status = series_query_filter(connection, request, &query->series, error);
    if (status == STATUS_OK) status = series_query_trajectories(request, trajectories, &query->trajectory_count, error);
    if (status == STATUS_OK) status = read_axis(request_query(request, "x"), &query->axis, error);
    if (status == STATUS_OK) status = read_points(request, &query->points, error);
    if (status != STATUS_OK) return status;
    if (query->trajectory_count == 0)
        return request_query_fault(error, "trajectory", "is missing: ?trajectory=NAME, as often as needed");
    query->trajectories = trajectories;
    query->metric = request_query(request, "metric");
    if (query->metric == NULL) query->metric = "delta";
    status = answer_check_metric(query->metric, "metric", error);
    return status == STATUS_OK ? series_query_fits(request, &query->series, "metric", query->metric, error) : status;
}

/* `id` is written where one is named, and lent to the query. */
static enum status read_checkpoint(struct connection *connection, const struct request *request, struct store_id *id,
                                   struct curve_query *query, struct error *error)
{
    const char *reference = request_query(request, "checkpoint");
    if (reference == NULL) return STATUS_OK;
    struct checkpoint *found = malloc(sizeof *found);
    enum status status = found == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a checkpoint")
                                       : checkpoint_find(connection, reference, found, error);
    if (status == STATUS_OK) {
        *id = found->id;
        query->checkpoint = id->text;
    }
    free(found);
    return status;
}

enum status curves_get(struct http_context *context, const struct request *request, struct response *response,
                       struct error *error)
{
    int type = 0;
    const char *trajectories[SERIES_QUERY_TRAJECTORIES];
    struct curve_query query = {0};
    struct store_id checkpoint;
    struct curve_points points = {0};
    json_t *document = NULL, *flags = NULL;
    struct connection *connection = application_connection(context);
    enum status status = read_query(connection, request, &query, trajectories, error);
    if (status == STATUS_OK) status = answer_form(request, answer_table_names, answer_table_types, &type, error);
    if (status == STATUS_OK) status = read_checkpoint(connection, request, &checkpoint, &query, error);
    if (status == STATUS_OK) status = curve_open(connection, &query, &points, &document, error);
    if (status == STATUS_OK && points.count > 0)
        status = integrity_flags(connection, query.trajectories, query.trajectory_count, &flags, error);
    if (status == STATUS_OK) status = response_header(response, "Vary", "Accept", error);
    if (status == STATUS_OK && type == 0) status = curve_text_answer(response, document, &points, flags, error);
    if (status == STATUS_OK && type == 1) status = curve_attach(document, &points, error);
    if (status == STATUS_OK && type == 1) status = answer_csv(response, document, flags, error);
    curve_points_reset(&points);
    json_decref(document);
    json_decref(flags);
    return status;
}

enum status curves_metrics(struct http_context *context, const struct request *request, struct response *response,
                           struct error *error)
{
    json_t *document = NULL;
    (void)request;
    const enum status status = curve_metrics(application_connection(context), &document, error);
    return status == STATUS_OK ? response_json(response, 200, json_pack("{so}", "metrics", document), error) : status;
}

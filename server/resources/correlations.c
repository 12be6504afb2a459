#include "base/memory.h"
#include "kinds/metrics.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/correlation_report.h"
#include "resources/csv.h"
#include "resources/handlers.h"
#include "resources/series_query.h"
#include "schema/result_render.h"
#include "store/curves.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PAIRS_MAX = 5000 /* each is taken into 50 samples */, CHECKED_EVERY = 64, SERIES_LEAST = 3 /* pairs */ };

struct question {
    struct curve_pairs_query query;
    const char *trajectories[SERIES_QUERY_TRAJECTORIES];
    int64_t seed;
};

/* A metric, or what every checkpoint has. */
static enum status read_axis(const char *name, const char *field, struct error *error)
{
    if (name == NULL) return request_query_fault(error, field, "is missing: ?x=METRIC&y=METRIC");
    if (strcmp(name, "step") == 0 || strcmp(name, "tokens") == 0) return STATUS_OK;
    return answer_check_metric(name, field, error);
}

static enum status read_protocol_x(const struct request *request, struct curve_pairs_query *query, struct error *error)
{
    query->protocol_x = request_query(request, "protocol_x");
    if (query->protocol_x == NULL || metrics_measured(query->x)) return STATUS_OK;
    return request_query_fault(error, "protocol_x", "means nothing for x=%.60s, which no evaluation measures",
                               query->x);
}

static enum status read_question(struct connection *connection, const struct request *request, struct question *out,
                                 struct error *error)
{
    struct curve_pairs_query *query = &out->query;
    enum status status = series_query_filter(connection, request, &query->series, error);
    if (status == STATUS_OK) status = request_query_integer(request, "seed", 0, 0, INT64_C(1) << 53, &out->seed, error);
    if (status == STATUS_OK)
        status = series_query_trajectories(request, out->trajectories, &query->trajectory_count, error);
    if (status != STATUS_OK) return status;
    query->trajectories = out->trajectories;
    query->x = request_query(request, "x");
    query->y = request_query(request, "y");
    status = read_axis(query->x, "x", error);
    query->most = PAIRS_MAX + 1;
    if (status == STATUS_OK) status = read_axis(query->y, "y", error);
    if (status == STATUS_OK) status = series_query_fits(request, &query->series, "y", query->y, error);
    return status == STATUS_OK ? read_protocol_x(request, query, error) : status;
}

/* Arrays of what engine/eval/correlation.h asks for, [count]. */
struct points {
    double *x, *y;
    int64_t *trajectory, *unit, *budget;
    int64_t count, trajectories, units;
};

static void points_reset(struct points *points)
{
    memory_free(points->x);
    memory_free(points->y);
    memory_free(points->trajectory);
    memory_free(points->unit);
    memory_free(points->budget);
}

static enum status points_new(int64_t count, struct points *out, struct error *error)
{
    double **numbers[] = {&out->x, &out->y};
    int64_t **integers[] = {&out->trajectory, &out->unit, &out->budget};
    enum status status = STATUS_OK;
    *out = (struct points){.count = count};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && status == STATUS_OK; i++)
        status = memory_new(count, sizeof(double), "pairs", numbers[i], error);
    for (size_t i = 0; i < sizeof integers / sizeof integers[0] && status == STATUS_OK; i++)
        status = memory_new(count, sizeof(int64_t), "pairs", integers[i], error);
    return status;
}

static bool same(const json_t *a, const json_t *b, const char *field)
{
    return json_equal(json_object_get(a, field), json_object_get(b, field)) != 0;
}

/* What points have in common: a text, and the number of the first that had it. */
static int64_t number_of(json_t *known, const char *text, int64_t fresh, struct error *error)
{
    const json_t *found = json_object_get(known, text);
    if (found != NULL) return json_integer_value(found);
    if (json_object_set_new(known, text, json_integer(fresh)) == 0) return fresh;
    (void)error_set(error, STATUS_NO_MEMORY, "no memory for a correlation");
    return -1;
}

/* The numbers of unit and budget are those of the first point with the same; a budget is tokens of one series. */
static enum status points_key(const json_t *list, size_t first, json_t *known, struct points *out, int64_t i,
                              struct error *error)
{
    const json_t *point = json_array_get(list, first + (size_t)i);
    const json_t *before = i > 0 ? json_array_get(list, first + (size_t)i - 1) : NULL;
    const json_t *tokens = json_object_get(point, "tokens");
    char budget[64];
    out->unit[i] = number_of(json_object_get(known, "units"), json_string_value(json_object_get(point, "unit")),
                             out->units, error);
    if (out->unit[i] < 0) return error->status;
    if (out->unit[i] == out->units) out->units++;
    if (before == NULL || !same(point, before, "series") || !same(point, before, "trajectory")) out->trajectories++;
    out->trajectory[i] = out->trajectories - 1;
    out->budget[i] = -1;
    if (json_is_null(tokens)) return STATUS_OK;
    (void)snprintf(budget, sizeof budget, "%lld %lld", (long long)json_integer_value(tokens),
                   (long long)json_integer_value(json_object_get(point, "series")));
    out->budget[i] = number_of(json_object_get(known, "budgets"), budget, i, error);
    return out->budget[i] < 0 ? error->status : STATUS_OK;
}

static enum status points_take(const json_t *list, size_t first, size_t count, const struct monitor *monitor,
                               struct points *out, struct error *error)
{
    json_t *known = json_pack("{s{} s{}}", "units", "budgets");
    enum status status = points_new((int64_t)count, out, error);
    if (known == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a correlation");
    for (int64_t i = 0; i < out->count && status == STATUS_OK; i++) {
        if (i % CHECKED_EVERY == 0 && (status = monitor_check(monitor, error)) != STATUS_OK) break;
        const json_t *point = json_array_get(list, first + (size_t)i);
        out->x[i] = json_number_value(json_object_get(point, "x"));
        out->y[i] = json_number_value(json_object_get(point, "y"));
        status = points_key(list, first, known, out, i, error);
    }
    json_decref(known);
    return status;
}

static const char *note_of(const struct correlation *values, const struct correlation *within, int64_t series)
{
    if (series > 1)
        return "several series (method, evaluation, calibration) are not pooled: \"series\" has each one's own, "
               "\"within\" and \"differences\" are about each one's own means";
    if (values->n < 3) return "fewer than three checkpoints have both: no correlation";
    if (!isfinite(values->pearson)) return "one of the two does not vary: no correlation";
    if (!isfinite(values->low) || !isfinite(values->high))
        return "no interval of the values: fewer than five independent trajectories (branches and averages belong to "
               "their trunk), and the points of one share its trend; \"differences\" is about changes from checkpoint "
               "to checkpoint. Two series that share a trend go together though neither causes the other";
    if (!isfinite(within->low) && within->units < CORRELATION_UNITS_LEAST)
        return "no interval of what is left within trajectories: fewer than five independent trajectories have two "
               "checkpoints or more, and nothing is left of a single one";
    if (within->shared == 0 && within->units > 1)
        return "no two trajectories have checkpoints of the same tokens: \"within\" is about each one's own mean, and "
               "a trend that they share is left in it";
    return NULL;
}

/* Describes the points [first, first + count) of the list, which belong to `series` series. Values of several series
 * are not pooled. */
static enum status describe(const json_t *list, size_t first, size_t count, int64_t series,
                            const struct monitor *monitor, struct correlation_numbers *out, struct error *error)
{
    struct points points = {0};
    enum status status = points_take(list, first, count, monitor, &points, error);
    const struct correlation_points given = {points.x,      points.y,     points.trajectory, points.unit,
                                             points.budget, points.count, points.units};
    if (status == STATUS_OK) status = correlation_measure(&given, CORRELATION_VALUES, &out->values, error);
    if (status == STATUS_OK) status = monitor_check(monitor, error);
    if (status == STATUS_OK) status = correlation_measure(&given, CORRELATION_WITHIN, &out->within, error);
    if (status == STATUS_OK) status = correlation_measure(&given, CORRELATION_DIFFERENCES, &out->differences, error);
    if (status == STATUS_OK) {
        if (series > 1) out->values = correlation_without_numbers(out->values.n, out->values.units);
        out->note = note_of(&out->values, &out->within, series);
    }
    points_reset(&points);
    return status;
}

static const char *text_of(const json_t *point, const char *field)
{
    return json_string_value(json_object_get(point, field));
}

/* The identity of a point's series. The point lends the texts. */
static struct correlation_identity identity_of(const json_t *point)
{
    const json_t *bits = json_object_get(point, "bits");
    return (struct correlation_identity){
        .label = text_of(point, "label"),
        .method = text_of(point, "method"),
        .dataset = text_of(point, "dataset"),
        .protocol = text_of(point, "protocol_id"),
        .calibration = text_of(point, "calibration_id"),
        .calibrated_on = text_of(point, "calibrated_on"),
        .label_x = text_of(point, "label_x"),
        .dataset_x = text_of(point, "dataset_x"),
        .protocol_x = text_of(point, "protocol_id_x"),
        .calibration_x = text_of(point, "calibration_id_x"),
        .bits = json_integer_value(bits),
        .has_bits = json_is_integer(bits),
    };
}

/* Where the series of the point `first` ends: the points come sorted by series. */
static size_t series_end(const json_t *points, size_t first)
{
    const json_t *point = json_array_get(points, first);
    size_t end = first + 1;
    while (end < json_array_size(points) && same(point, json_array_get(points, end), "series")) end++;
    return end;
}

static enum status describe_series(const json_t *points, const struct monitor *monitor, struct correlation_report *out,
                                   struct error *error)
{
    const size_t count = json_array_size(points);
    int64_t series = 0;
    for (size_t first = 0; first < count; first = series_end(points, first)) series++;
    enum status status = memory_new(series, sizeof *out->series, "correlations", &out->series, error);
    for (size_t first = 0, end; first < count && status == STATUS_OK; first = end) {
        struct correlation_series *one = &out->series[out->series_count++];
        end = series_end(points, first);
        one->identity = identity_of(json_array_get(points, first));
        status = describe(points, first, end - first, 1, monitor, &one->numbers, error);
    }
    return status;
}

/* The pairs of the series that can have a correlation of their own, and the number of these series; all pairs where no
 * series can. What is left out does not depend on the numbers, so that it does not bias those of the others. */
static enum status choose_pairs(const json_t *points, json_t **out, int64_t *series, struct error *error)
{
    const size_t count = json_array_size(points);
    size_t longest = 0;
    bool good = (*out = json_array()) != NULL;
    *series = 0;
    for (size_t first = 0, end; first < count; first = end) {
        end = series_end(points, first);
        if (end - first > longest) longest = end - first;
    }
    for (size_t first = 0, end; good && first < count; first = end) {
        end = series_end(points, first);
        if (longest >= SERIES_LEAST && end - first < SERIES_LEAST) continue;
        for (size_t i = first; good && i < end; i++) good = json_array_append(*out, json_array_get(points, i)) == 0;
        (*series)++;
    }
    return good ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a correlation");
}

/* Takes `points`. */
static enum status make_document(const struct question *question, json_t *points, const struct monitor *monitor,
                                 json_t **out, struct error *error)
{
    struct correlation_report report = {.x = question->query.x, .y = question->query.y, .points = points};
    json_t *chosen = NULL;
    int64_t series = 0;
    *out = NULL;
    enum status status = describe_series(points, monitor, &report, error);
    if (status == STATUS_OK) status = choose_pairs(points, &chosen, &series, error);
    report.left_out = (int64_t)(json_array_size(points) - json_array_size(chosen));
    if (status == STATUS_OK)
        status = describe(chosen, 0, json_array_size(chosen), series, monitor, &report.numbers, error);
    if (status == STATUS_OK) status = result_render(&correlation_report_shape, &report, out, error);
    memory_free(report.series);
    json_decref(chosen);
    json_decref(points);
    return status;
}

static enum status answer_csv(struct response *response, json_t *points, struct error *error)
{
    static const char *const fields[] = {"trajectory",  "checkpoint_name", "checkpoint", "label",   "x",
                                         "y",           "run_x",           "run_y",      "label_x", "protocol_id_x",
                                         "protocol_id", "calibration_id"};
    enum { FIELDS = sizeof fields / sizeof fields[0] };
    struct buffer out;
    json_t *point;
    size_t i;
    buffer_init(&out, CSV_MAX);
    for (size_t k = 0; k < FIELDS; k++) buffer_printf(&out, "%s%s", k > 0 ? "," : "", fields[k]);
    buffer_puts(&out, "\r\n");
    json_array_foreach(points, i, point)
    {
        for (size_t k = 0; k < FIELDS; k++)
            csv_field(&out, json_object_get(point, fields[k]), k + 1 < FIELDS ? ',' : '\r');
        buffer_puts(&out, "\n");
    }
    json_decref(points);
    return csv_answer(response, &out, error);
}

enum status correlations_get(struct http_context *context, const struct request *request, struct response *response,
                             struct error *error)
{
    int type = 0;
    struct question question = {0};
    json_t *points = NULL, *document = NULL;
    enum status status = read_question(application_connection(context), request, &question, error);
    if (status == STATUS_OK) status = answer_form(request, answer_table_names, answer_table_types, &type, error);
    if (status == STATUS_OK) status = curve_pairs(application_connection(context), &question.query, &points, error);
    if (status == STATUS_OK && json_array_size(points) > PAIRS_MAX)
        status = error_set(error, STATUS_INVALID, "more than %d pairs: name trajectories, method or bits", PAIRS_MAX);
    if (status == STATUS_OK) status = response_header(response, "Vary", "Accept", error);
    if (status != STATUS_OK) {
        json_decref(points);
        return status;
    }
    if (type == 1) return answer_csv(response, points, error);
    status = make_document(&question, points, request->monitor, &document, error);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

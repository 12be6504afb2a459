#include "base/memory.h"
#include "eval/correlation.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/csv.h"
#include "resources/handlers.h"
#include "store/curves.h"

#include <math.h>
#include <string.h>

enum { TRAJECTORIES_MAX = 32, PAIRS_MAX = 5000 /* each is drawn some 2,000 times */ };

struct question {
    struct curve_pairs_query query;
    const char *trajectories[TRAJECTORIES_MAX];
    int64_t seed;
};

/* A metric, or what every checkpoint has. */
static enum status read_axis(const char *name, const char *field, struct error *error)
{
    if (name == NULL) return request_query_fault(error, field, "is missing: ?x=METRIC&y=METRIC");
    if (strcmp(name, "step") == 0 || strcmp(name, "tokens") == 0) return STATUS_OK;
    return answer_check_metric(name, field, error);
}

static enum status read_question(const struct request *request, struct question *out, struct error *error)
{
    struct curve_pairs_query *query = &out->query;
    int64_t bits = 0;
    enum status status = request_query_integer(request, "bits", 0, 0, 64, &bits, error);
    if (status == STATUS_OK) status = request_query_integer(request, "seed", 0, 0, INT64_C(1) << 53, &out->seed, error);
    if (status != STATUS_OK) return status;
    for (const char *name; (name = request_query_at(request, "trajectory", query->trajectory_count)) != NULL;) {
        if (query->trajectory_count == TRAJECTORIES_MAX)
            return request_query_fault(error, "trajectory", "at most %d at once", TRAJECTORIES_MAX);
        out->trajectories[query->trajectory_count++] = name;
    }
    query->trajectories = out->trajectories;
    query->x = request_query(request, "x");
    query->y = request_query(request, "y");
    status = read_axis(query->x, "x", error);
    if (status == STATUS_OK) status = read_axis(query->y, "y", error);
    if (status != STATUS_OK) return status;
    query->method = request_query(request, "method");
    query->dataset = request_query(request, "dataset");
    query->protocol = request_query(request, "protocol");
    query->calibration = request_query(request, "calibration");
    query->bits = (int)bits;
    return STATUS_OK;
}

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *interval(double low, double high)
{
    return isfinite(low) && isfinite(high) ? json_pack("[ff]", low, high) : json_null();
}

/* Of the points [first, first + count) of the list, as an object with n, pearson, spearman and their intervals. */
static enum status correlate(const json_t *points, size_t first, size_t count, int64_t seed, json_t **out,
                             struct error *error)
{
    struct correlation found;
    double *x = NULL, *y = NULL;
    enum status status = memory_new((int64_t)count, sizeof *x, "pairs", &x, error);
    *out = NULL;
    if (status == STATUS_OK) status = memory_new((int64_t)count, sizeof *y, "pairs", &y, error);
    for (size_t i = 0; i < count && status == STATUS_OK; i++) {
        const json_t *point = json_array_get(points, first + i);
        x[i] = json_number_value(json_object_get(point, "x"));
        y[i] = json_number_value(json_object_get(point, "y"));
    }
    if (status == STATUS_OK) status = correlation_measure(x, y, (int64_t)count, (uint64_t)seed, &found, error);
    if (status == STATUS_OK) {
        *out = json_pack("{sI so so so so}", "n", (json_int_t)count, "pearson", number(found.pearson), "spearman",
                         number(found.spearman), "interval", interval(found.low, found.high), "spearman_interval",
                         interval(found.spearman_low, found.spearman_high));
        if (*out == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a correlation");
    }
    memory_free(x);
    memory_free(y);
    return status;
}

static const char *label_at(const json_t *points, size_t i)
{
    return json_string_value(json_object_get(json_array_get(points, i), "label"));
}

/* The points come sorted by label: each label's own correlation. */
static enum status correlate_labels(const json_t *points, int64_t seed, json_t *series, struct error *error)
{
    const size_t count = json_array_size(points);
    for (size_t first = 0, last; first < count; first = last) {
        json_t *row = NULL;
        for (last = first + 1; last < count && strcmp(label_at(points, first), label_at(points, last)) == 0;) last++;
        const enum status status = correlate(points, first, last - first, seed, &row, error);
        if (status != STATUS_OK) return status;
        if (json_object_set_new(row, "label", json_string(label_at(points, first))) != 0 ||
            json_array_append_new(series, row) != 0)
            return error_set(error, STATUS_NO_MEMORY, "no memory for a correlation");
    }
    return STATUS_OK;
}

static void add_note(json_t *document, size_t count, size_t labels)
{
    const char *note = NULL;
    if (count < 3)
        note = "fewer than three checkpoints have both: no correlation";
    else if (json_is_null(json_object_get(document, "pearson")))
        note = "one of the two does not vary: no correlation";
    else if (labels > 1)
        note = "ways of quantizing are pooled: series has each one's own, method and bits pick one";
    if (note != NULL) (void)json_object_set_new(document, "note", json_string(note));
}

/* Takes `points`. */
static enum status make_document(const struct question *question, json_t *points, json_t **out, struct error *error)
{
    const size_t count = json_array_size(points);
    json_t *series = json_array();
    enum status status = series == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a correlation") : STATUS_OK;
    if (status == STATUS_OK && count > PAIRS_MAX)
        status =
            error_set(error, STATUS_INVALID,
                      "%zu pairs, at most %d can be resampled: name trajectories, method or bits", count, PAIRS_MAX);
    if (status == STATUS_OK) status = correlate(points, 0, count, question->seed, out, error);
    if (status == STATUS_OK) status = correlate_labels(points, question->seed, series, error);
    if (status == STATUS_OK) {
        (void)json_object_set_new(*out, "x", json_string(question->query.x));
        (void)json_object_set_new(*out, "y", json_string(question->query.y));
        (void)json_object_set(*out, "series", series);
        (void)json_object_set(*out, "points", points);
        add_note(*out, count, json_array_size(series));
    } else {
        json_decref(*out);
        *out = NULL;
    }
    json_decref(series);
    json_decref(points);
    return status;
}

static enum status answer_csv(struct response *response, json_t *points, struct error *error)
{
    static const char *const fields[] = {"trajectory", "checkpoint_name", "checkpoint", "label", "x", "y"};
    enum { FIELDS = sizeof fields / sizeof fields[0] };
    struct buffer out;
    json_t *point;
    size_t i;
    buffer_init(&out, CSV_MAX);
    buffer_puts(&out, "trajectory,checkpoint_name,checkpoint,label,x,y\r\n");
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
    static const char *const types[] = {"application/json", "text/csv", NULL};
    struct question question = {0};
    json_t *points = NULL, *document = NULL;
    const int type = request_prefer(request, types);
    enum status status = read_question(request, &question, error);
    if (status == STATUS_OK && type < 0)
        status = error_set(error, STATUS_UNSUPPORTED, "no such representation: Accept application/json or text/csv");
    if (status == STATUS_OK) status = curve_pairs(application_connection(context), &question.query, &points, error);
    if (status == STATUS_OK) status = response_header(response, "Vary", "Accept", error);
    if (status != STATUS_OK) {
        json_decref(points);
        return status;
    }
    if (type == 1) return answer_csv(response, points, error);
    status = make_document(&question, points, &document, error);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

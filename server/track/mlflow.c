/* MLflow through its REST interface: an experiment for each trajectory, a run for each series, step = the checkpoint's
 * step. MLflow only appends, a failed batch may be stored in part, and creating a run twice makes two runs. So a run
 * has a tag by which it is found, and after a write without an answer the history of its metrics shows which points
 * arrived. A changed number is appended with its later time, and MLflow shows the latest. */
#include "client/client.h"
#include "track/exporter.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API "/api/2.0/mlflow/"

/* MLflow accepts 1,000 metrics and 1 MB in a batch; one of our metrics has at most about 250 bytes. */
enum { MOST_METRICS = 1000, HISTORY_PAGE = 1000 };

static const char tag_name[] = "deltaq.series";

struct mlflow {
    struct client *client;
    char trajectory[LEDGER_NAME], experiment[LEDGER_ID]; /* the experiment that was looked up last */
};

/* Credentials as MLflow's own client takes them: a user with a password before a token. */
static enum status sign_in(struct mlflow *mlflow, const char *destination, struct error *error)
{
    const char *name = getenv("MLFLOW_TRACKING_USERNAME"), *password = getenv("MLFLOW_TRACKING_PASSWORD");
    const bool user = name != NULL && name[0] != '\0' && password != NULL && password[0] != '\0';
    const char *token = user ? NULL : getenv("MLFLOW_TRACKING_TOKEN");
    const enum status status = client_new(destination, token, NULL, &mlflow->client, error);
    return status == STATUS_OK && user ? client_user(mlflow->client, name, password, error) : status;
}

static enum status mlflow_open(const char *destination, void **state, struct error *error)
{
    struct mlflow *mlflow = calloc(1, sizeof *mlflow);
    *state = mlflow;
    if (mlflow == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a tracker");
    return sign_in(mlflow, destination, error);
}

static void mlflow_close(void *state)
{
    struct mlflow *mlflow = state;
    if (mlflow != NULL) client_free(mlflow->client);
    free(mlflow);
}

/* ---- requests ---- */

/* Takes `body`. */
static enum status call(struct mlflow *mlflow, const char *method, const char *path, json_t *body,
                        struct client_reply *reply, struct error *error)
{
    const struct client_request request = {.method = method, .path = path, .body = body};
    struct error cause;
    const enum status status = client_call(mlflow->client, &request, reply, &cause);
    json_decref(body);
    if (status == STATUS_OK) return STATUS_OK;
    return error_set(error, status, "MLflow: %.400s", cause.detail);
}

static bool has_code(const struct client_reply *reply, const char *code)
{
    const char *found = json_string_value(json_object_get(reply->document, "error_code"));
    return found != NULL && strcmp(found, code) == 0;
}

/* The text at a path of names in the answer, or "". */
static const char *answer_text(const struct client_reply *reply, const char *first, const char *second,
                               const char *third)
{
    const json_t *value = json_object_get(reply->document, first);
    if (second != NULL) value = json_object_get(value, second);
    if (third != NULL) value = json_object_get(value, third);
    const char *text = json_string_value(value);
    return text != NULL ? text : "";
}

/* MLflow writes 64-bit numbers as numbers or as texts. */
static int64_t answer_integer(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_string(value) ? strtoll(json_string_value(value), NULL, 10) : json_integer_value(value);
}

/* ---- where a stream is stored ---- */

static enum status get_experiment(struct mlflow *mlflow, const char *name, bool *found, struct error *error)
{
    struct buffer path = {0};
    struct client_reply reply = {0};
    buffer_puts(&path, API "experiments/get-by-name?experiment_name=");
    client_escape(&path, name);
    enum status status = buffer_status(&path, "an address", error);
    if (status == STATUS_OK) status = call(mlflow, "GET", path.bytes, NULL, &reply, error);
    *found = status == STATUS_OK;
    if (*found) {
        (void)snprintf(mlflow->experiment, sizeof mlflow->experiment, "%s",
                       answer_text(&reply, "experiment", "experiment_id", NULL));
        if (strcmp(answer_text(&reply, "experiment", "lifecycle_stage", NULL), "deleted") == 0)
            status = error_set(error, STATUS_CONFLICT,
                               "MLflow: the experiment \"%.200s\" was deleted: restore it, or "
                               "delete it for good",
                               name);
    } else if (has_code(&reply, "RESOURCE_DOES_NOT_EXIST")) {
        status = STATUS_OK;
    }
    client_reply_reset(&reply);
    buffer_reset(&path);
    return status;
}

static enum status make_experiment(struct mlflow *mlflow, const char *name, struct error *error)
{
    struct client_reply reply;
    bool found;
    enum status status = call(mlflow, "POST", API "experiments/create", json_pack("{ss}", "name", name), &reply, error);
    if (status == STATUS_OK)
        (void)snprintf(mlflow->experiment, sizeof mlflow->experiment, "%s",
                       answer_text(&reply, "experiment_id", NULL, NULL));
    const bool raced = status != STATUS_OK && has_code(&reply, "RESOURCE_ALREADY_EXISTS");
    client_reply_reset(&reply);
    if (!raced) return status;
    status = get_experiment(mlflow, name, &found, error);
    if (status != STATUS_OK || found) return status;
    return error_set(error, STATUS_UNAVAILABLE, "MLflow: the experiment \"%.200s\" was made and removed meanwhile",
                     name);
}

static enum status find_experiment(struct mlflow *mlflow, const char *name, struct error *error)
{
    bool found;
    if (strcmp(mlflow->trajectory, name) == 0) return STATUS_OK;
    enum status status = get_experiment(mlflow, name, &found, error);
    if (status == STATUS_OK && !found) status = make_experiment(mlflow, name, error);
    if (status == STATUS_OK) (void)snprintf(mlflow->trajectory, sizeof mlflow->trajectory, "%s", name);
    return status;
}

/* The stream's identity in the tag: trajectory and series; the series' id contains no quotes. */
static void make_tag(const struct ledger_stream *stream, char out[2 * LEDGER_NAME])
{
    (void)snprintf(out, 2 * (size_t)LEDGER_NAME, "%s/%s", stream->trajectory_id, stream->series);
}

/* stream->place stays "" when there is no run. */
static enum status search_run(struct mlflow *mlflow, struct ledger_stream *stream, struct error *error)
{
    char tag[2 * LEDGER_NAME], filter[3 * LEDGER_NAME];
    struct client_reply reply;
    make_tag(stream, tag);
    (void)snprintf(filter, sizeof filter, "tags.`%s` = '%s'", tag_name, tag);
    json_t *body = json_pack("{s[s] ss si}", "experiment_ids", mlflow->experiment, "filter", filter, "max_results", 1);
    const enum status status = call(mlflow, "POST", API "runs/search", body, &reply, error);
    const json_t *run = json_array_get(json_object_get(reply.document, "runs"), 0);
    const char *id = json_string_value(json_object_get(json_object_get(run, "info"), "run_id"));
    if (status == STATUS_OK && id != NULL) (void)snprintf(stream->place, sizeof stream->place, "%s", id);
    client_reply_reset(&reply);
    return status;
}

static enum status finish_run(struct mlflow *mlflow, const char *run, int64_t time, struct error *error)
{
    struct client_reply reply;
    json_t *body = json_pack("{ss ss sI}", "run_id", run, "status", "FINISHED", "end_time", (json_int_t)time);
    const enum status status = call(mlflow, "POST", API "runs/update", body, &reply, error);
    client_reply_reset(&reply);
    return status;
}

static enum status make_run(struct mlflow *mlflow, struct ledger_stream *stream, int64_t time, struct error *error)
{
    char tag[2 * LEDGER_NAME];
    struct client_reply reply;
    make_tag(stream, tag);
    json_t *body = json_pack("{ss ss sI s[{ssss}{ssss}]}", "experiment_id", mlflow->experiment, "run_name",
                             stream->name, "start_time", (json_int_t)time, "tags", "key", tag_name, "value", tag, "key",
                             "deltaq.trajectory", "value", stream->trajectory);
    const enum status status = call(mlflow, "POST", API "runs/create", body, &reply, error);
    if (status == STATUS_OK)
        (void)snprintf(stream->place, sizeof stream->place, "%s", answer_text(&reply, "run", "info", "run_id"));
    client_reply_reset(&reply);
    if (status != STATUS_OK) return status;
    return finish_run(mlflow, stream->place, time, error); /* a finished run still accepts later points */
}

static enum status find_run(struct mlflow *mlflow, struct ledger_stream *stream, int64_t time, struct error *error)
{
    if (stream->place[0] != '\0') return STATUS_OK;
    enum status status = find_experiment(mlflow, stream->trajectory, error);
    if (status == STATUS_OK) status = search_run(mlflow, stream, error);
    if (status == STATUS_OK && stream->place[0] == '\0') status = make_run(mlflow, stream, time, error);
    return status;
}

/* ---- points ---- */

static enum status mlflow_write(void *state, struct ledger_stream *stream, const struct ledger_batch *batch, bool anew,
                                struct error *error)
{
    struct mlflow *mlflow = state;
    struct client_reply reply;
    json_t *metrics = json_array();
    (void)anew;
    enum status status = find_run(mlflow, stream, batch->points[0].time_ms, error);
    for (int64_t i = 0; status == STATUS_OK && i < batch->count; i++) {
        const struct ledger_point *point = &batch->points[i];
        json_t *metric = json_pack("{ss sf sI sI}", "key", point->metric, "value", point->value, "timestamp",
                                   (json_int_t)point->time_ms, "step", (json_int_t)point->step);
        if (json_array_append_new(metrics, metric) != 0)
            status = error_set(error, STATUS_NO_MEMORY, "no memory for a batch");
    }
    json_t *body = json_pack("{ss so}", "run_id", stream->place, "metrics", metrics);
    if (status != STATUS_OK) {
        json_decref(body);
        return status;
    }
    status = call(mlflow, "POST", API "runs/log-batch", body, &reply, error);
    client_reply_reset(&reply);
    return status;
}

/* Marks the points of `metric` that a page of its history contains. */
static void mark_arrived(const json_t *page, const char *metric, const struct ledger_batch *batch, bool *arrived)
{
    size_t index;
    const json_t *entry;
    json_array_foreach(json_object_get(page, "metrics"), index, entry)
    {
        const int64_t step = answer_integer(entry, "step"), time = answer_integer(entry, "timestamp");
        const double value = json_number_value(json_object_get(entry, "value"));
        for (int64_t i = 0; i < batch->count; i++) {
            const struct ledger_point *point = &batch->points[i];
            const bool same =
                point->step == step && point->time_ms == time && !(point->value < value) && !(point->value > value);
            if (!arrived[i] && same && strcmp(point->metric, metric) == 0) {
                arrived[i] = true;
                break; /* one entry is one point, also when two checkpoints have the same step */
            }
        }
    }
}

static enum status look_up(struct mlflow *mlflow, const struct ledger_stream *stream, const char *metric,
                           const struct ledger_batch *batch, bool *arrived, struct error *error)
{
    char token[512] = "";
    enum status status = STATUS_OK;
    do {
        struct buffer path = {0};
        struct client_reply reply = {0};
        buffer_printf(&path, API "metrics/get-history?run_id=%s&max_results=%d&metric_key=", stream->place,
                      HISTORY_PAGE);
        client_escape(&path, metric);
        if (token[0] != '\0') buffer_puts(&path, "&page_token=");
        client_escape(&path, token);
        status = buffer_status(&path, "an address", error);
        if (status == STATUS_OK) status = call(mlflow, "GET", path.bytes, NULL, &reply, error);
        if (status == STATUS_OK) mark_arrived(reply.document, metric, batch, arrived);
        (void)snprintf(token, sizeof token, "%s", answer_text(&reply, "next_page_token", NULL, NULL));
        client_reply_reset(&reply);
        buffer_reset(&path);
    } while (status == STATUS_OK && token[0] != '\0');
    return status;
}

static bool is_first_of_metric(const struct ledger_batch *batch, int64_t at)
{
    for (int64_t i = 0; i < at; i++)
        if (strcmp(batch->points[i].metric, batch->points[at].metric) == 0) return false;
    return true;
}

static enum status mlflow_reconcile(void *state, struct ledger_stream *stream, const struct ledger_batch *batch,
                                    bool *arrived, struct error *error)
{
    struct mlflow *mlflow = state;
    enum status status = STATUS_OK;
    if (stream->place[0] == '\0') { /* killed before the run's id was stored: the run may exist and have the points */
        status = find_experiment(mlflow, stream->trajectory, error);
        if (status == STATUS_OK) status = search_run(mlflow, stream, error);
    }
    if (status != STATUS_OK || stream->place[0] == '\0') return status;
    for (int64_t i = 0; status == STATUS_OK && i < batch->count; i++)
        if (is_first_of_metric(batch, i))
            status = look_up(mlflow, stream, batch->points[i].metric, batch, arrived, error);
    return status;
}

const struct exporter exporter_mlflow = {
    .name = "mlflow",
    .help = "An MLflow server (MLFLOW_TRACKING_TOKEN, or _USERNAME and _PASSWORD)",
    .destination = "URL",
    .most = MOST_METRICS,
    .open = mlflow_open,
    .write = mlflow_write,
    .reconcile = mlflow_reconcile,
    .close = mlflow_close,
};

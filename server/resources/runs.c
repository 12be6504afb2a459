#include "store/runs.h"

#include "base/words.h"
#include "kinds/kind.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "resources/waiting.h"
#include "runs/prepare.h"
#include "runs/requirements.h"

#include <stdio.h>
#include <string.h>

enum { KINDS_TEXT = 200 };

struct run_body {
    int kind;
    const char *params;
    bool force, dry_run;
    int64_t priority;
    struct requirements requires;
};

const struct param runs_post_body[] = {
    {.name = "kind",
     .type = PARAM_CHOICE,
     .offset = offsetof(struct run_body, kind),
     .choices = kind_names,
     .help = "What to do"},
    {.name = "params",
     .type = PARAM_JSON,
     .offset = offsetof(struct run_body, params),
     .fallback = "{}",
     .help = "Its parameters"},
    {.name = "force",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct run_body, force),
     .fallback = "false",
     .help = "A new run even if an equal one was measured"},
    {.name = "dry_run",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct run_body, dry_run),
     .fallback = "false",
     .help = "Make no run: answer what it would need"},
    {.name = "priority",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct run_body, priority),
     .fallback = "0",
     .minimum = -1000,
     .maximum = 1000,
     .help = "Larger goes first"},
    {.name = "requires",
     .type = PARAM_OBJECT,
     .schema = "Requirements",
     .offset = offsetof(struct run_body, requires),
     .fallback = "null",
     .nullable = true,
     .children = requirements_params,
     .help = "Requirements on its worker; the run waits for one that meets them"},
    {0},
};

static enum status check_state(const char *state, struct error *error)
{
    static const char *const states[] = {"queued", "running", "succeeded", "failed", "cancelled"};
    if (state == NULL) return STATUS_OK;
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++)
        if (strcmp(states[i], state) == 0) return STATUS_OK;
    return request_query_fault(error, "state",
                               "must be one of queued, running, succeeded, failed, cancelled, found \"%.60s\"", state);
}

static enum status check_kind(const char *word, struct error *error)
{
    char known[KINDS_TEXT] = "";
    if (word == NULL || kind_find(kinds, word) != NULL) return STATUS_OK;
    for (const struct kind *const *kind = kinds; *kind != NULL; kind++)
        words_add(known, sizeof known, "%s", (*kind)->name);
    return request_query_fault(error, "kind", "must be one of %s, found \"%.60s\"", known, word);
}

/* The result in a summary has only numbers, words and intervals (run_list). */
static const struct list_field fields[] = {
    {"id", true},
    {"kind", true},
    {"state", true},
    {"params", true},
    {"requires", false},
    {"waiting", true},
    {"checkpoint_name", true},
    {"names", true},
    {"trajectory", true},
    {"result", true},
    {"error", true},
    {"progress", true},
    {"attempt", false},
    {"worker", false},
    {"device", false},
    {"created_at", true},
    {"started_at", false},
    {"finished_at", true},
    {"usage", true},
    {"sweep", true},
    {"cancel_requested", false},
    {"requester", false},
    {0},
};

enum status runs_list(struct http_context *context, const struct request *request, struct response *response,
                      struct error *error)
{
    struct run_filter filter = {
        .kind = request_query(request, "kind"),
        .state = request_query(request, "state"),
        .checkpoint = request_query(request, "checkpoint"),
        .trajectory = request_query(request, "trajectory"),
        .sweep = request_query(request, "sweep"),
    };
    struct list_request asked;
    json_t *document = NULL;
    enum status status = answer_list_request(request, fields, &asked, error);
    filter.list = asked.filter;
    if (status == STATUS_OK) status = check_state(filter.state, error);
    if (status == STATUS_OK) status = check_kind(filter.kind, error);
    if (status == STATUS_OK && !list_view_has(&asked.view, "result")) filter.result = RUN_RESULT_NONE;
    if (status == STATUS_OK && asked.view.summary) filter.result = RUN_RESULT_SUMMARY;
    if (status == STATUS_OK) status = run_list(application_connection(context), &filter, &asked.page, &document, error);
    return answer_listed(response, request, &asked, status, document, error);
}

enum status runs_get(struct http_context *context, const struct request *request, struct response *response,
                     struct error *error)
{
    return waiting_get(context, request, response, &waiting_for_run, request_parameter(request, "run"), error);
}

enum status runs_post(struct http_context *context, const struct request *request, struct response *response,
                      struct error *error)
{
    struct connection *connection = application_connection(context);
    const struct application *application = application_of(context);
    struct schema_filled filled = {0};
    struct faults faults = {0};
    struct prepared_run run = {0};
    struct idempotency_record record;
    enum store_outcome outcome = STORE_CREATED;
    json_t *document = NULL, *requires = NULL;
    enum status status;
    if (waiting_resume(context, request, response, &waiting_for_run, &status, error)) return status;
    status = answer_body(request, response, runs_post_body, sizeof(struct run_body), &filled, error);
    if (status != STATUS_OK) return status;
    const struct run_body *body = filled.params;
    if (body->dry_run && !request->working) {
        schema_filled_reset(&filled);
        response_to_work(response);
        return STATUS_OK;
    }
    status = prepare_run(connection, kinds[body->kind], json_object_get(request->body, "params"), application->roots,
                         application->data_directory, !body->dry_run, &faults, &run, error);
    if (faults.count > 0) status = answer_faults(response, &faults, error);
    struct run_new row = {0};
    if (status == STATUS_OK) status = requirements_make(json_object_get(request->body, "requires"), &requires, error);
    if (status == STATUS_OK) {
        row = prepare_row(&run);
        row.force = body->force;
        status = requirements_put(requires, &row, error);
    }
    if (status == STATUS_OK) status = prepare_check_vacant(&run, &row, error);
    const bool dry_run = body->dry_run;
    if (status == STATUS_OK && dry_run) {
        struct dry_run_place place;
        status = application_dry_run_place(context, request->monitor, &place, error);
        if (status == STATUS_OK) status = dry_run_of_run(&place, &run, &document, error);
    } else if (status == STATUS_OK) {
        row.priority = (int)body->priority;
        row.requester = request->principal.name;
        row.queued_most = application->queue_per_token;
        row.record = application_record(request, "/v1/runs/", 202, 200, &record);
        status = run_insert(connection, &row, &outcome, &document, error);
    }
    prepare_reset(&run);
    json_decref(requires);
    schema_filled_reset(&filled);
    if (status != STATUS_OK) return status;
    if (dry_run) return response_json(response, 200, document, error);
    store_notify(connection);
    return waiting_made(request, response, &waiting_for_run, outcome == STORE_CREATED ? 202 : 200, document, error);
}

enum status runs_cancel(struct http_context *context, const struct request *request, struct response *response,
                        struct error *error)
{
    json_t *document = NULL;
    struct connection *connection = application_connection(context);
    enum status status = answer_no_fields(request, response, error);
    if (status == STATUS_OK) status = run_cancel(connection, request_parameter(request, "run"), &document, error);
    return answer_changed(response, connection, status, document, error);
}

enum status runs_retry(struct http_context *context, const struct request *request, struct response *response,
                       struct error *error)
{
    json_t *document = NULL;
    struct connection *connection = application_connection(context);
    const int64_t queued_most = application_of(context)->queue_per_token;
    enum status status = answer_no_fields(request, response, error);
    if (status == STATUS_OK)
        status = run_retry(connection, request_parameter(request, "run"), queued_most, &document, error);
    return answer_changed(response, connection, status, document, error);
}

enum status runs_delete(struct http_context *context, const struct request *request, struct response *response,
                        struct error *error)
{
    struct connection *connection = application_connection(context);
    return answer_deleted(response, connection, run_delete(connection, request_parameter(request, "run"), error));
}

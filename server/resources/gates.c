#include "store/gates.h"

#include "follow/gate_rules.h"
#include "follow/verdict.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "schema/form.h"
#include "store/trajectories.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RULES_MAX = 32, WAIT_MAX = 60 };

struct gate_body {
    const char *name, *trajectory;
    struct param_list rules;
};

const struct param gates_post_body[] = {
    {.name = "name",
     .type = PARAM_STRING,
     .offset = offsetof(struct gate_body, name),
     .maximum = 200,
     .form = &form_name,
     .help = "Unique name"},
    {.name = "trajectory",
     .type = PARAM_STRING,
     .offset = offsetof(struct gate_body, trajectory),
     .maximum = 200,
     .form = &form_name,
     .help = "Id or name of the trajectory whose checkpoints it judges"},
    {.name = "rules",
     .type = PARAM_LIST,
     .offset = offsetof(struct gate_body, rules),
     .minimum = 1,
     .maximum = RULES_MAX,
     .item = &gate_rule,
     .help = "All of them must pass"},
    {0},
};

static const struct list_field fields[] = {
    {"id", true}, {"name", true}, {"trajectory", true}, {"rules", false}, {"created_at", true}, {0},
};

enum status gates_list(struct http_context *context, const struct request *request, struct response *response,
                       struct error *error)
{
    struct list_request asked;
    json_t *document = NULL;
    enum status status = answer_list_request(request, fields, &asked, error);
    if (status == STATUS_OK)
        status = gate_list(application_connection(context), asked.filter.name, &asked.page, &document, error);
    return answer_listed(response, request, &asked, status, document, error);
}

enum status gates_get(struct http_context *context, const struct request *request, struct response *response,
                      struct error *error)
{
    return answer_found(response, application_connection(context), gate_get, request_parameter(request, "gate"), error);
}

enum status gates_delete(struct http_context *context, const struct request *request, struct response *response,
                         struct error *error)
{
    return answer_empty(response,
                        gate_delete(application_connection(context), request_parameter(request, "gate"), error));
}

enum status gates_post(struct http_context *context, const struct request *request, struct response *response,
                       struct error *error)
{
    struct connection *connection = application_connection(context);
    struct schema_filled filled = {0};
    struct faults faults = {0};
    struct store_id trajectory;
    enum store_outcome outcome = STORE_CREATED;
    json_t *document = NULL;
    enum status status = answer_body(request, response, gates_post_body, sizeof(struct gate_body), &filled, error);
    if (status != STATUS_OK) return status;
    const struct gate_body *body = filled.params;
    gate_rules_check(json_object_get(request->body, "rules"), "/rules", &faults);
    status = trajectory_resolve(connection, body->trajectory, &trajectory, error);
    if (status == STATUS_NOT_FOUND) faults_add(&faults, "/trajectory", "no trajectory \"%.200s\"", body->trajectory);
    if (faults.count > 0)
        status = answer_faults(response, &faults, error);
    else if (status == STATUS_OK)
        status = gate_insert(connection, body->name, trajectory.text, json_object_get(request->body, "rules"), &outcome,
                             &document, error);
    schema_filled_reset(&filled);
    if (status != STATUS_OK) return status;
    return answer_made(response, outcome == STORE_CREATED ? 201 : 200, "/v1/gates/", document, error);
}

/* Looks for the name in the gate's trajectory first, because a bare name means that one. */
static enum status find_checkpoint(struct connection *connection, const struct gate_row *gate, const char *reference,
                                   struct checkpoint *out, struct error *error)
{
    char *full = NULL;
    if (asprintf(&full, "%s/%s", gate->trajectory_name, reference) < 0)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a name");
    enum status status = checkpoint_find(connection, full, out, error);
    free(full);
    if (status == STATUS_NOT_FOUND) status = checkpoint_find(connection, reference, out, error);
    if (status != STATUS_OK || strcmp(out->trajectory.text, gate->trajectory.text) == 0) return status;
    return request_query_fault(error, "checkpoint",
                               "is one of trajectory \"%.100s\"; the gate judges those of \"%.100s\"",
                               out->trajectory_name, gate->trajectory_name);
}

static enum status make_verdict(struct connection *connection, const char *gate, const char *checkpoint,
                                json_t **document, struct error *error)
{
    struct gate_row row = {0};
    struct checkpoint *found = malloc(sizeof *found);
    enum status status = found == NULL ? error_set(error, STATUS_NO_MEMORY, "no memory for a checkpoint")
                                       : gate_find(connection, gate, &row, error);
    if (status == STATUS_OK) status = find_checkpoint(connection, &row, checkpoint, found, error);
    if (status == STATUS_OK) status = verdict_make(connection, &row, found, NULL, document, error);
    gate_row_reset(&row);
    free(found);
    return status;
}

enum status gates_verdict(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    const char *checkpoint = request_query(request, "checkpoint");
    int64_t seconds = 0;
    json_t *document = NULL;
    enum status status = request_query_integer(request, "wait", 0, 0, WAIT_MAX, &seconds, error);
    if (status == STATUS_OK && checkpoint == NULL)
        status = request_query_fault(error, "checkpoint", "is missing: id, name or TRAJECTORY/NAME");
    if (status == STATUS_OK)
        status = make_verdict(application_connection(context), request_parameter(request, "gate"), checkpoint,
                              &document, error);
    if (status != STATUS_OK) return status;
    const char *verdict = json_string_value(json_object_get(document, "verdict"));
    if (seconds == 0 || request->wait_over || strcmp(verdict, "pending") != 0)
        return response_json(response, 200, document, error);
    json_decref(document);
    response_wait(response, "changes", (double)seconds);
    return STATUS_OK;
}

#include "inputs/task_files.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "store/task_items.h"

/* A task of the program, a subject of one, or what runs have asked. */
static enum status check_task(struct connection *connection, const char *task, struct error *error)
{
    char known[TASK_FILES_NAMES];
    bool asked = task == NULL || task_files_named(task, known);
    const enum status status = asked ? STATUS_OK : task_items_known(connection, task, &asked, error);
    if (status != STATUS_OK || asked) return status;
    return request_query_fault(
        error, "task", "no task is named \"%.60s\"; there are %s, and the subjects that runs asked", task, known);
}

static enum status check_label(struct connection *connection, const char *label, struct error *error)
{
    bool known = label == NULL;
    const enum status status = known ? STATUS_OK : task_items_label_known(connection, label, &known, error);
    if (status != STATUS_OK || known) return status;
    return request_query_fault(error, "label",
                               "nothing was measured under the label \"%.60s\"; GET /v1/measurements has those there"
                               " are as method_label",
                               label);
}

enum status flips_get(struct http_context *context, const struct request *request, struct response *response,
                      struct error *error)
{
    struct task_flips_query query = {0};
    json_t *document = NULL;
    enum status status = request_query_integer(request, "limit", 50, 1, 1000, &query.limit, error);
    if (status == STATUS_OK) status = request_query_integer(request, "shots", -1, 0, 32, &query.shots, error);
    if (status != STATUS_OK) return status;
    query.trajectory = request_query(request, "trajectory");
    query.task = request_query(request, "task");
    query.label = request_query(request, "label");
    query.protocol = request_query(request, "protocol");
    query.calibration = request_query(request, "calibration");
    if (query.trajectory == NULL) return request_query_fault(error, "trajectory", "is missing: ?trajectory=NAME");
    status = check_task(application_connection(context), query.task, error);
    if (status == STATUS_OK) status = check_label(application_connection(context), query.label, error);
    if (status != STATUS_OK) return status;
    status = task_items_flips(application_connection(context), &query, &document, error);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

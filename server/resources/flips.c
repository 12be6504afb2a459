#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "store/task_items.h"

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
    status = task_items_flips(application_connection(context), &query, &document, error);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

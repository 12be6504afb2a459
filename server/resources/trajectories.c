#include "store/trajectories.h"
#include "kinds/integrity.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "resources/scan.h"

enum status trajectories_list(struct http_context *context, const struct request *request, struct response *response,
                              struct error *error)
{
    struct page page;
    json_t *document = NULL;
    enum status status = answer_page(request, NULL, &page, error);
    if (status == STATUS_OK) status = trajectory_list(application_connection(context), &page, &document, error);
    return status == STATUS_OK ? answer_list(response, request, document, error) : status;
}

enum status trajectories_get(struct http_context *context, const struct request *request, struct response *response,
                             struct error *error)
{
    json_t *document = NULL;
    const enum status status =
        trajectory_get(application_connection(context), request_parameter(request, "trajectory"), &document, error);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

enum status trajectories_integrity(struct http_context *context, const struct request *request, struct response *response,
                                   struct error *error)
{
    json_t *document = NULL;
    const enum status status =
        integrity_document(application_connection(context), request_parameter(request, "trajectory"), &document, error);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

struct scan_body {
    const char *path;
    bool watch;
};

const struct param trajectories_scan_body[] = {
    {.name = "path",
     .type = PARAM_STRING,
     .offset = offsetof(struct scan_body, path),
     .maximum = 4000,
     .help = "Directory below a root; every checkpoint below it is registered"},
    {.name = "watch",
     .type = PARAM_BOOLEAN,
     .offset = offsetof(struct scan_body, watch),
     .fallback = "false",
     .help = "Goes on registering what appears; not supported yet"},
    {0},
};

enum status trajectories_scan(struct http_context *context, const struct request *request, struct response *response,
                              struct error *error)
{
    struct schema_filled filled = {0};
    const struct scan_body *body;
    json_t *document = NULL;
    const char *trajectory = request_parameter(request, "trajectory");
    enum status status = answer_check_name(trajectory, "", error);
    if (status == STATUS_OK) status = answer_body(request, response, trajectories_scan_body, sizeof *body, &filled, error);
    if (status != STATUS_OK) return status;
    body = filled.params;
    if (body->watch)
        status = error_set_at(error, STATUS_UNSUPPORTED, "/watch",
                              "directories are not watched yet; scan again when there are new checkpoints");
    else
        status = scan_directory(application_connection(context), application_of(context)->roots, trajectory, body->path, &document,
                                error);
    schema_filled_reset(&filled);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

#include "kinds/artifact_file.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "store/runs.h"

enum status run_artifacts_list(struct http_context *context, const struct request *request, struct response *response,
                               struct error *error)
{
    json_t *document = NULL;
    const enum status status =
        run_artifacts(application_connection(context), request_parameter(request, "run"), &document, error);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

enum status run_artifacts_get(struct http_context *context, const struct request *request, struct response *response,
                              struct error *error)
{
    struct run_artifact artifact;
    int file = -1;
    enum status status = run_artifact_find(application_connection(context), request_parameter(request, "run"),
                                           request_parameter(request, "artifact"), &artifact, error);
    if (status == STATUS_OK)
        status =
            artifact_file_open(&application_of(context)->artifact_place, artifact.sha256, artifact.bytes, &file, error);
    return status == STATUS_OK
               ? response_file(response, artifact.media_type, file, artifact.bytes, artifact.sha256, error)
               : status;
}

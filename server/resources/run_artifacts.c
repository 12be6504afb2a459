#include "kinds/artifact_file.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "store/runs.h"

#include <fcntl.h>

static const struct list_field fields[] = {
    {"name", true}, {"bytes", true}, {"sha256", false}, {"media_type", false}, {0},
};

enum status run_artifacts_list(struct http_context *context, const struct request *request, struct response *response,
                               struct error *error)
{
    struct list_view view;
    json_t *document = NULL;
    enum status status = list_view_read(request, fields, &view, error);
    if (status == STATUS_OK)
        status = run_artifacts(application_connection(context), request_parameter(request, "run"), &document, error);
    return status == STATUS_OK ? answer_view(response, request, &view, document, error) : status;
}

/* HEAD and 304 send no body, so the file is /dev/null. */
static enum status open_headers_only(int *file, struct error *error)
{
    *file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return *file >= 0 ? STATUS_OK : error_set_errno(error, "opening /dev/null");
}

/* A file that must come from a bucket is fetched on a thread for such work, and stops when the client has left. */
enum status run_artifacts_get(struct http_context *context, const struct request *request, struct response *response,
                              struct error *error)
{
    struct run_artifact artifact;
    struct artifact_place place = application_of(context)->artifact_place;
    int file = -1;
    place.monitor = request->presence;
    enum status status = run_artifact_find(application_connection(context), request_parameter(request, "run"),
                                           request_parameter(request, "artifact"), &artifact, error);
    if (status != STATUS_OK) return status;
    const bool here = place.store == NULL || artifact_file_here(&place, artifact.sha256);
    if (!here && !request_wants_body(request, artifact.sha256)) {
        status = open_headers_only(&file, error);
    } else if (!here && !request->working) {
        response_to_work(response);
        return STATUS_OK;
    } else {
        status = artifact_file_open(&place, artifact.sha256, artifact.bytes, &file, error);
    }
    return status == STATUS_OK
               ? response_file(response, artifact.media_type, file, artifact.bytes, artifact.sha256, error)
               : status;
}

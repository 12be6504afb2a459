#include "hub/hub.h"
#include "kinds/artifact_store.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "store/runs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum status run_artifacts_list(struct http_context *context, const struct request *request, struct response *response,
                               struct error *error)
{
    json_t *document = NULL;
    const enum status status =
        run_artifacts(application_connection(context), request_parameter(request, "run"), &document, error);
    return status == STATUS_OK ? response_json(response, 200, document, error) : status;
}

/* What a worker on another machine has made. */
static enum status answer_stored(const struct application *application, const struct run_artifact *artifact,
                                 struct response *response, struct error *error)
{
    int file = -1;
    enum status status = hub_enter(application->hub, error);
    if (status != STATUS_OK) return status;
    status = artifact_store_get(application->artifact_store, artifact->sha256, artifact->bytes,
                                application->data_directory, &file, error);
    hub_leave(application->hub);
    return status == STATUS_OK
               ? response_file(response, artifact->media_type, file, artifact->bytes, artifact->sha256, error)
               : status;
}

/* The file's name is the hash that was computed when it was published: nothing of the request is in the path. */
enum status run_artifacts_get(struct http_context *context, const struct request *request, struct response *response,
                              struct error *error)
{
    struct run_artifact artifact;
    struct stat found;
    char path[PATH_MAX];
    const enum status status = run_artifact_find(application_connection(context), request_parameter(request, "run"),
                                                 request_parameter(request, "artifact"), &artifact, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(path, sizeof path, "%s/artifacts/%s", application_of(context)->data_directory, artifact.sha256);
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0 && errno == ENOENT && application_of(context)->artifact_store != NULL)
        return answer_stored(application_of(context), &artifact, response, error);
    if (file < 0) return error_set_errno(error, "opening the artifact");
    if (fstat(file, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size != artifact.bytes) {
        (void)close(file);
        return error_set(error, STATUS_CORRUPT,
                         "the artifact on disk is not the one that was published; retry the run");
    }
    return response_file(response, artifact.media_type, file, artifact.bytes, artifact.sha256, error);
}

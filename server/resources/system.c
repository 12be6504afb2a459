#include "base/buffer.h"
#include "base/version.h"
#include "http/prometheus.h"
#include "http/server.h"
#include "postgres/embedded.h"
#include "resources/answer.h"
#include "resources/application.h"
#include "resources/handlers.h"
#include "resources/service_metrics.h"
#include "store/migrations.h"
#include "store/workers.h"

#include <sys/statvfs.h>

enum {
    METRICS_MAX = 4 << 20,
    DISK_LEAST = 16 << 20 /* bytes: a segment of PostgreSQL's log */
};

/* Answers that the process is alive, and nothing else. */
enum status system_health(struct http_context *context, const struct request *request, struct response *response,
                          struct error *error)
{
    (void)context, (void)request;
    return response_json(response, 200, json_pack("{ss ss}", "status", "ok", "version", DELTAQ_VERSION), error);
}

/* Checks that the disk of the data directory has space for what a small request writes. */
static enum status check_disk(const char *directory, struct error *error)
{
    struct statvfs disk;
    if (statvfs(directory, &disk) != 0) return error_set_errno(error, "the data directory");
    const uint64_t left = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (left >= DISK_LEAST) return STATUS_OK;
    return error_set(error, STATUS_UNAVAILABLE,
                     "the disk of the data directory has %llu bytes left, fewer than %d: free some space",
                     (unsigned long long)left, DISK_LEAST);
}

/* Ready: the database answers, has this binary's schema and takes writes, and the disk has space. The number of workers
 * is shown, but does not count. */
enum status system_ready(struct http_context *context, const struct request *request, struct response *response,
                         struct error *error)
{
    json_t *workers = NULL;
    struct error why = {0};
    const struct application *application = application_of(context);
    enum status status = STATUS_OK;
    (void)request;
    if (application->embedded != NULL) status = embedded_state(application->embedded, &why);
    if (status == STATUS_OK) status = migrations_check(application_connection(context), &why);
    if (status == STATUS_OK) status = store_check_writable(application_connection(context), &why);
    if (status == STATUS_OK) status = worker_list(application_connection(context), &workers, &why);
    if (status != STATUS_OK) return error_set(error, STATUS_UNAVAILABLE, "database: %s", why.detail);
    if ((status = check_disk(application->data_directory, error)) != STATUS_OK) {
        json_decref(workers);
        return status;
    }
    const size_t count = json_array_size(json_object_get(workers, "items"));
    json_decref(workers);
    return response_json(response, 200,
                         json_pack("{ss ss sI}", "status", "ready", "database", "ok", "workers", (json_int_t)count),
                         error);
}

enum status system_metrics(struct http_context *context, const struct request *request, struct response *response,
                           struct error *error)
{
    struct buffer out;
    size_t length;
    (void)request;
    buffer_init(&out, METRICS_MAX);
    http_server_metrics(context->server, &out);
    service_metrics_render(application_of(context)->metrics, application_connection(context), &out);
    const enum status status = buffer_status(&out, "metrics", error);
    char *text = buffer_take(&out, &length);
    if (status == STATUS_OK) return response_take(response, 200, PROMETHEUS_TYPE, text, length, error);
    return status;
}

static const struct list_field fields[] = {
    {"id", true},
    {"host", true},
    {"pid", true},
    {"boot_id", false},
    {"slurm_job", false},
    {"device", true},
    {"device_state", false},
    {"labels", false},
    {"threads", true},
    {"memory_bytes", true},
    {"blas", false},
    {"version", true},
    {"engine_revision", false},
    {"started_at", true},
    {"seen_at", true},
    {"run", true},
    {"run_kind", true},
    {"run_checkpoint", true},
    {0},
};

enum status system_workers(struct http_context *context, const struct request *request, struct response *response,
                           struct error *error)
{
    struct list_view view;
    json_t *document = NULL;
    enum status status = answer_accepts(request, error);
    if (status == STATUS_OK) status = list_view_read(request, fields, &view, error);
    if (status == STATUS_OK) status = worker_list(application_connection(context), &document, error);
    return status == STATUS_OK ? answer_view(response, request, &view, document, error) : status;
}

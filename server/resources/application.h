/* application.h: the state that all handlers share, and the hooks that connect HTTP to the database. */
#ifndef RESOURCES_APPLICATION_H
#define RESOURCES_APPLICATION_H

#include "http/server.h"
#include "kinds/artifact_file.h"
#include "postgres/connection.h"
#include "runs/dry_run.h"
#include "store/idempotency.h"

struct embedded;
struct hub;
struct service_metrics;

struct application { /* lent for the life of the server; it never changes */
    const char *conninfo;
    const char *data_directory;
    const struct roots *roots;
    struct embedded *embedded;  /* NULL with a DATABASE_URL */
    double watch_quiet_seconds; /* watcher_options */
    const struct hub *hub;
    struct artifact_place artifact_place;
    const char *device;          /* device of the workers here, for plans; NULL: the devices that they found */
    int64_t memory_bytes;        /* host memory that a run may take; 0: what is free */
    int64_t device_memory_bytes; /* device memory that a worker may take; 0: what is free */
    int threads;                 /* threads of a worker; 0: one for each processor */
    bool allow_private_webhooks;
    int64_t queue_per_token; /* run_new.queued_most of posted runs */
    struct service_metrics *metrics;
};

/* The handler's own connection. */
struct connection *application_connection(struct http_context *context);
const struct application *application_of(const struct http_context *context);
/* The place for which a dry run plans: the workers of this server. */
MUST_CHECK enum status application_dry_run_place(struct http_context *context, const struct monitor *monitor,
                                                 struct dry_run_place *out, struct error *error);
/* The place for reading inputs of runs, without a device. */
struct dry_run_place application_reading_place(struct http_context *context, const struct monitor *monitor);

/* For http_options: a connection for each thread; tokens; answers kept for Idempotency-Key; locks for If-Match. */
enum status application_thread_open(void *application, void **thread, struct error *error);
void application_thread_close(void *application, void *thread);
enum status application_authorize(void *thread, const char *token, enum scope scope, struct principal *principal,
                                  struct error *error);
enum status application_authorize_again(void *thread, struct http_reader *readers, size_t count, struct error *error);
extern const struct idempotency_hooks application_idempotency;
extern const struct condition_hooks application_conditions;

/* Fills *out for a request with an Idempotency-Key and returns its address; NULL without one. Lent by the request. */
const struct idempotency_record *application_record(const struct request *request, const char *prefix, int created,
                                                    int existed, struct idempotency_record *out);

#endif

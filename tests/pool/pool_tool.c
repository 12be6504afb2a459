/* pool_tool.c: parts of the product as commands, for the tests beside it. `serve DIR WORKERS` is a server without HTTP;
 * its workers know only the kinds below, which do nothing but what a test asks of them. */
#include "inputs/roots.h"
#include "kinds/artifacts.h"
#include "kinds/kind.h"
#include "pool/supervisor.h"
#include "pool/worker.h"
#include "postgres/cluster.h"
#include "postgres/embedded.h"
#include "store/migrations.h"
#include "store/runs.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- kinds ---- */

struct pace {
    int64_t steps, step_ms, seed;
    const char *end; /* "ok", "fail", "again", "large", "crash", "hang", "deaf", "read" */
};

static const struct param pace_params[] = {
    {.name = "steps",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct pace, steps),
     .fallback = "3",
     .maximum = 1000000},
    {.name = "step_ms",
     .type = PARAM_INTEGER,
     .offset = offsetof(struct pace, step_ms),
     .fallback = "10",
     .maximum = 1000000},
    {.name = "seed", .type = PARAM_INTEGER, .offset = offsetof(struct pace, seed), .fallback = "0", .maximum = 1e9},
    {.name = "end", .type = PARAM_STRING, .offset = offsetof(struct pace, end), .fallback = "\"ok\""},
    {0},
};

static void pause_ms(int64_t milliseconds)
{
    const struct timespec time = {.tv_sec = milliseconds / 1000, .tv_nsec = (milliseconds % 1000) * 1000000};
    (void)nanosleep(&time, NULL);
}

static enum status leave_artifact(const struct run_context *context, const struct pace *pace, struct error *error)
{
    struct artifact_writer *writer;
    char text[64];
    const int length = snprintf(text, sizeof text, "seed %lld\n", (long long)pace->seed);
    enum status status = artifact_open(context->artifacts, "seed.txt", "text/plain", &writer, error);
    if (status != STATUS_OK) return status;
    if ((status = artifact_write(writer, text, (size_t)length, error)) != STATUS_OK) {
        artifact_abandon(writer);
        return status;
    }
    return artifact_publish(writer, error);
}

/* 3 MiB a tenth of a second for three seconds, as of a slow file system; the monitor hears nothing of it. */
static void read_slowly(void)
{
    static char bytes[3 << 20];
    const int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 30 && read(zeros, bytes, sizeof bytes) > 0; i++) pause_ms(100);
    (void)close(zeros);
}

static enum status pace_execute(const struct run_context *context, const void *params, json_t **result,
                                struct measurements *out, struct error *error)
{
    const struct pace *pace = params;
    enum status status;
    for (int64_t i = 0; i < pace->steps; i++) {
        if ((status = monitor_check(context->monitor, error)) != STATUS_OK && strcmp(pace->end, "deaf") != 0)
            return status;
        monitor_progress(context->monitor, i, pace->steps, "step");
        pause_ms(pace->step_ms);
    }
    monitor_log(context->monitor, "attempt %d did %lld steps", context->attempt, (long long)pace->steps);
    if (strcmp(pace->end, "fail") == 0) return error_set(error, STATUS_INVALID, "asked to fail");
    if (strcmp(pace->end, "again") == 0) return error_set(error, STATUS_IO, "asked to fail for a while");
    if (strcmp(pace->end, "large") == 0 && context->memory_bytes < 2 << 20)
        return error_set(error, STATUS_TOO_LARGE, "it needs 2 MiB");
    if (strcmp(pace->end, "large on the device") == 0 && context->device_memory_bytes < 2 << 20) {
        (void)error_set(error, STATUS_TOO_LARGE, "it needs 2 MiB");
        error->of_device = true;
        return error->status;
    }
    if (strcmp(pace->end, "crash") == 0) abort();
    while (strcmp(pace->end, "hang") == 0) pause_ms(1000);
    if (strcmp(pace->end, "read") == 0) read_slowly();
    if ((status = leave_artifact(context, pace, error)) != STATUS_OK) return status;
    struct measurement item = {.metric = "loss", .value = (double)pace->seed, .low = NAN, .high = NAN};
    if ((status = measurements_add(out, &item, error)) != STATUS_OK) return status;
    *result = json_pack("{s:I, s:I}", "seed", (json_int_t)pace->seed, "epoch", (json_int_t)context->epoch);
    return *result != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for a result");
}

static const struct kind kind_pace = {.name = "pace",
                                      .help = "For tests",
                                      .params = pace_params,
                                      .params_size = sizeof(struct pace),
                                      .execute = pace_execute};
static const struct kind *const test_kinds[] = {&kind_pace, NULL};

/* ---- commands ---- */

static int complain(const struct error *error)
{
    (void)fprintf(stderr, "%s: %s\n", status_info(error->status)->name, error->detail);
    return 1;
}

static int say_ready(const struct embedded *embedded)
{
    (void)printf("ready %d %s\n", (int)embedded_pid(embedded), embedded_conninfo(embedded));
    return fflush(stdout);
}

static int64_t ballast(void)
{
    return getenv("POOL_BALLAST") != NULL ? strtoll(getenv("POOL_BALLAST"), NULL, 10) : 1 << 20;
}

static int run_cluster(const char *directory)
{
    struct error error;
    struct embedded *embedded;
    sigset_t set;
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    const struct embedded_options options = {.data_directory = directory, .ballast_bytes = ballast()};
    supervisor_block_signals(false);
    if (embedded_start(&options, &embedded, &error) != STATUS_OK) return complain(&error);
    (void)say_ready(embedded);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    while (sigtimedwait(&set, NULL, &pause) != SIGTERM) embedded_tick(embedded);
    embedded_stop(embedded);
    return 0;
}

static int run_migrate(const char *conninfo)
{
    struct error error;
    struct connection *connection;
    int applied = 0;
    enum status status = connection_new(conninfo, "pool_tool", &connection, &error);
    if (status == STATUS_OK) status = migrations_apply(connection, &applied, &error);
    if (status == STATUS_OK) status = migrations_check(connection, &error);
    connection_free(connection);
    if (status != STATUS_OK) return complain(&error);
    return printf("applied %d\n", applied) < 0;
}

static double number_from(const char *variable)
{
    return getenv(variable) != NULL ? strtod(getenv(variable), NULL) : 0;
}

static int run_worker(const char *directory)
{
    static const char *const none[] = {NULL};
    const struct roots roots = {.paths = none};
    json_t *labels = getenv("POOL_LABELS") != NULL ? json_loads(getenv("POOL_LABELS"), 0, NULL) : NULL;
    const int64_t device_memory = (int64_t)number_from("POOL_DEVICE_MEMORY");
    const struct worker_options options = {.conninfo = getenv("DATABASE_URL"),
                                           .data_directory = directory,
                                           .roots = &roots,
                                           .device = device_memory > 0 ? "cuda:0" : "cpu",
                                           .device_memory_bytes = device_memory,
                                           .device_state = {.state = "in_use", .memory_bytes = device_memory},
                                           .labels = labels,
                                           .memory_bytes = (int64_t)number_from("POOL_MEMORY"),
                                           .threads = 1,
                                           .kinds = test_kinds,
                                           .lease_seconds = number_from("POOL_LEASE"),
                                           .stall_seconds = number_from("POOL_STALL"),
                                           .limit_seconds = number_from("POOL_LIMIT"),
                                           .idle_seconds = number_from("POOL_IDLE"),
                                           .cleanup_seconds = number_from("POOL_CLEANUP"),
                                           .owner = getenv("DELTAQ_WORKER_ID")};
    const int status = worker_run(&options);
    json_decref(labels);
    return status;
}

static int run_serve(const char *directory, int workers)
{
    struct error error;
    struct embedded *embedded = NULL;
    struct supervisor *supervisor = NULL;
    const struct embedded_options database = {.data_directory = directory, .ballast_bytes = ballast()};
    const char *const arguments[] = {"worker", directory, NULL};
    supervisor_block_signals(false);
    if (embedded_start(&database, &embedded, &error) != STATUS_OK) return complain(&error);
    const struct supervisor_options options = {
        .workers = workers, .arguments = arguments, .conninfo = embedded_conninfo(embedded), .embedded = embedded};
    int status = run_migrate(embedded_conninfo(embedded));
    if (status == 0 && supervisor_start(&options, &supervisor, &error) != STATUS_OK) status = complain(&error);
    if (status == 0) {
        (void)say_ready(embedded);
        (void)supervisor_run(supervisor);
    }
    supervisor_stop(supervisor);
    embedded_stop(embedded);
    return status;
}

static int call_run(const char *conninfo, const char *verb, const char *what)
{
    struct error error;
    enum store_outcome outcome = STORE_EXISTED;
    struct connection *connection;
    json_t *document = NULL, *params = NULL;
    enum status status = connection_new(conninfo, "pool_tool", &connection, &error);
    if (status == STATUS_OK && strcmp(verb, "submit") == 0) {
        params = json_loads(what, 0, NULL);
        json_t *requires = json_incref(json_object_get(params, "requires"));
        (void)json_object_del(params, "requires");
        const struct run_new run = {.kind = "pace", .params = params, .requires = requires};
        status = run_insert(connection, &run, &outcome, &document, &error);
        json_decref(requires);
    } else if (status == STATUS_OK && strcmp(verb, "cancel") == 0) {
        status = run_cancel(connection, what, &document, &error);
    } else if (status == STATUS_OK && strcmp(verb, "retry") == 0) {
        status = run_retry(connection, what, 0, &document, &error);
    } else if (status == STATUS_OK) {
        status = run_get(connection, what, &document, &error);
    }
    if (status == STATUS_OK) (void)json_dumpf(document, stdout, 0);
    json_decref(params);
    json_decref(document);
    connection_free(connection);
    return status == STATUS_OK ? 0 : complain(&error);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "cluster") == 0) return run_cluster(argv[2]);
    if (argc == 3 && strcmp(argv[1], "migrate") == 0) return run_migrate(argv[2]);
    if (argc == 3 && strcmp(argv[1], "worker") == 0) return run_worker(argv[2]);
    if (argc == 4 && strcmp(argv[1], "serve") == 0) return run_serve(argv[2], (int)strtol(argv[3], NULL, 10));
    if (argc == 4) return call_run(argv[2], argv[1], argv[3]);
    (void)fprintf(
        stderr,
        "usage: pool_tool cluster DIR | migrate URL | worker DIR | serve DIR WORKERS | submit|get|cancel|retry URL"
        " WHAT\n");
    return 2;
}

#include "backend/cpu/blas_choice.h"
#include "cli/command.h"
#include "cli/device_choice.h"
#include "cli/place.h"
#include "hub/hub.h"
#include "kinds/artifact_store.h"
#include "log/log.h"
#include "pool/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

static const struct option_row worker_options[] = {
    PLACE_DATA_DIR,
    PLACE_ROOT,
    PLACE_DATABASE_URL,
    PLACE_ACCESS,
    {"--threads", "N", "DELTAQ_THREADS", "0", OPTION_ONCE, "Threads of the engine; 0: one for each processor"},
    PLACE_DEVICE,
    PLACE_MEMORY,
    PLACE_DEVICE_MEMORY,
    PLACE_LABEL,
    PLACE_AFFINITY_GRACE,
    PLACE_SAVE_EVERY,
    {"--time-limit", "SECONDS", "DELTAQ_TIME_LIMIT", "0", OPTION_ONCE,
     "End before so much time has passed; its run goes on elsewhere from the last saved block; 0: no limit"},
    {"--until", "TIME", "DELTAQ_UNTIL", NULL, OPTION_ONCE,
     "The same as a moment: 2026-11-22T23:00:00Z, or seconds since 1970"},
    {"--idle-exit", "SECONDS", "DELTAQ_IDLE_EXIT", "0", OPTION_ONCE,
     "End after so long without a run; 0: wait for ever"},
    {"--cleanup-after", "SECONDS", "DELTAQ_CLEANUP_AFTER", "600", OPTION_ONCE,
     "Look so long after the start, and then every hour, for files that ended runs left"},
    /* set by `serve`: how many of its workers use the CPU when the devices that `auto` found fail */
    {"--on-cpu", "N", NULL, "1", OPTION_ONCE, NULL},
    /* from `serve`, whose key may lie below a root: it is no input (secret_files.h) */
    {"--tls-key", "FILE", "DELTAQ_TLS_KEY", NULL, OPTION_ONCE, NULL},
    PLACE_LOG_FORMAT,
    PLACE_LOG_LEVEL,
    {0},
};

/* Reads `text` as a time and returns the seconds until then. */
static enum status read_until(const char *text, double *seconds, struct error *error)
{
    struct tm parts = {0};
    char *end = NULL;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    const long long number = strtoll(text, &end, 10);
    if ((rest == NULL || *rest != '\0') && (end == text || *end != '\0'))
        return error_set(error, STATUS_INVALID,
                         "--until must be a time like 2026-11-22T23:00:00Z or seconds since 1970, found \"%.60s\"",
                         text);
    *seconds = difftime(rest != NULL ? timegm(&parts) : (time_t)number, time(NULL));
    if (*seconds > 0) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "--until: %.60s is past", text);
}

static enum status read_limits(const struct options *options, struct worker_options *out, struct error *error)
{
    enum { YEAR = 366 * 86400 };
    int64_t limit, idle, cleanup;
    double until = 0;
    const char *text = options_text(options, "--until");
    enum status status = options_integer(options, "--time-limit", 0, YEAR, &limit, error);
    if (status == STATUS_OK) status = options_integer(options, "--idle-exit", 0, YEAR, &idle, error);
    if (status == STATUS_OK) status = options_integer(options, "--cleanup-after", 0, YEAR, &cleanup, error);
    if (status == STATUS_OK && text != NULL) status = read_until(text, &until, error);
    if (status != STATUS_OK) return status;
    out->limit_seconds = limit > 0 && (until <= 0 || (double)limit < until) ? (double)limit : until;
    out->idle_seconds = (double)idle;
    out->cleanup_seconds = (double)cleanup;
    return STATUS_OK;
}

/* The last check before anything is made, because it takes a second or two where there is a device. */
static enum status choose_device(const struct options *options, char device[PLACE_DEVICE_NAME],
                                 struct worker_options *out, json_t **selftest, struct error *error)
{
    const char *slot = getenv("DELTAQ_WORKER_SLOT"); /* set by the supervisor, whose workers share the devices */
    const char *faults = getenv("DELTAQ_DEVICE_FAULTS");
    struct device_choosing how = {.which = slot != NULL ? strtol(slot, NULL, 10) : 0,
                                  .faults = faults != NULL ? (int)strtol(faults, NULL, 10) : -1};
    enum status status = options_integer(options, "--on-cpu", 0, INT64_MAX, &how.on_cpu, error);
    if (status == STATUS_OK)
        status =
            device_choice_make(options_text(options, "--device"), &how, device, &out->device_state, selftest, error);
    const int64_t limit = out->device_memory_bytes;
    if (limit > 0 && limit < out->device_state.memory_bytes) out->device_state.memory_bytes = limit;
    return status;
}

/* Checks everything before anything is made. */
static enum status fill(const struct options *options, char data_directory[PLACE_PATH], struct place_roots *roots,
                        char attached[512], char device[PLACE_DEVICE_NAME], struct worker_options *out, json_t **labels,
                        json_t **selftest, struct error *error)
{
    int64_t threads = 0;
    enum status status;
    *out = (struct worker_options){
        .data_directory = data_directory, .device = device, .kinds = kinds, .owner = getenv("DELTAQ_WORKER_ID")};
    if ((status = place_check(options, error)) != STATUS_OK) return status;
    if ((status = options_integer(options, "--threads", 0, 1024, &threads, error)) != STATUS_OK) return status;
    out->threads = (int)threads;
    if ((status = read_limits(options, out, error)) != STATUS_OK) return status;
    if ((status = place_affinity_grace(options, &out->grace_seconds, error)) != STATUS_OK) return status;
    if ((status = place_save_every(options, &out->save_seconds, error)) != STATUS_OK) return status;
    if ((status = place_labels(options, labels, error)) != STATUS_OK) return status;
    out->labels = *labels;
    if ((status = place_memory(options, &out->memory_bytes, error)) != STATUS_OK) return status;
    if ((status = place_device_memory(options, &out->device_memory_bytes, error)) != STATUS_OK) return status;
    if ((status = choose_device(options, device, out, selftest, error)) != STATUS_OK) return status;
    if ((status = place_data_directory(options, data_directory, error)) != STATUS_OK) return status;
    if ((status = place_roots(options, data_directory, roots, error)) != STATUS_OK) return status;
    out->roots = &roots->roots;
    out->conninfo = options_text(options, "--database-url");
    if (out->conninfo != NULL) return STATUS_OK;
    out->conninfo = attached;
    return place_embedded_attach(data_directory, attached, 512, error);
}

/* Called before the first thread, and before any backend is made. */
static enum status choose_products(struct worker_blas *out, struct error *error)
{
    struct blas_choice choice;
    char text[BLAS_CHOICE_TEXT];
    const enum status status = blas_choice_make(BLAS_CHOICE_SECONDS, &choice, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(out->verdict, sizeof out->verdict, "%s", blas_choice_verdict(&choice));
    (void)snprintf(out->library, sizeof out->library, "%s", choice.library);
    (void)snprintf(out->core, sizeof out->core, "%s", choice.core);
    (void)snprintf(out->reason, sizeof out->reason, "%s%s%s%s", choice.reason,
                   choice.reason[0] != '\0' && choice.units[0] != '\0' ? "; " : "",
                   choice.units[0] != '\0' ? "bf16 units are not used: " : "", choice.units);
    blas_choice_describe(&choice, text, sizeof text);
    log_info(LOG_COMPONENT_WORKER, "products: %s", text);
    return STATUS_OK;
}

static int worker_command_run(const struct options *options)
{
    static const struct rlimit no_core = {0};
    char data_directory[PLACE_PATH], attached[512], device[PLACE_DEVICE_NAME];
    struct place_roots roots = {0};
    struct worker_options how;
    struct worker_blas blas = {0};
    struct hub *hub = NULL;
    struct artifact_store *artifact_store = NULL;
    json_t *labels = NULL, *selftest = NULL;
    struct error error;
    int exit_status;
    (void)umask(077);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    enum status status = place_log(options, &error);
    if (status == STATUS_OK)
        status = fill(options, data_directory, &roots, attached, device, &how, &labels, &selftest, &error);
    if (status == STATUS_OK) status = choose_products(&blas, &error);
    how.blas = &blas;
    if (status == STATUS_OK) status = place_hub(options, data_directory, &hub, &error);
    if (status == STATUS_OK) status = place_artifacts(options, hub, &artifact_store, &error);
    how.hub = hub;
    how.artifact_store = artifact_store;
    if (status == STATUS_OK) place_guard(&roots);
    if (status != STATUS_OK) log_error(LOG_COMPONENT_WORKER_START, "%s", error.detail);
    exit_status = status == STATUS_OK ? worker_run(&how) : status == STATUS_DEVICE ? WORKER_EXIT_DEVICE : 1;
    artifact_store_free(artifact_store);
    json_decref(labels);
    json_decref(selftest);
    hub_free(hub);
    place_roots_reset(&roots);
    return exit_status;
}

const struct command command_worker = {.name = "worker",
                                       .usage = "",
                                       .help = "Run one worker beside those of `serve`, here or on another machine",
                                       .options = worker_options,
                                       .run = worker_command_run};

#include "pool/job.h"

#include "kinds/artifacts.h"
#include "pool/sweep.h"
#include "schema/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINES_MOST = 1000, STACK_BYTES = 16 << 20 };

struct job {
    /* Set before the thread starts. */
    struct worker_options options; /* lent pointers */
    struct leased_run run;         /* owns */
    struct connection *connection; /* lent */
    struct team *team;             /* lent */
    int wake;
    char *work_directory; /* owns */
    pthread_t thread;

    pthread_mutex_t mutex; /* over: */
    enum status stop;      /* STATUS_OK: go on */
    char stop_detail[128];
    bool ended;
    uint64_t moves, version;
    struct queue_progress progress;
    double first_at;    /* when the first progress came, and where it stood: for the estimate */
    int64_t first_done; /* -1: none yet */
    json_t *lines;      /* owns */

    /* Written by the engine thread before `ended`, read after it. */
    enum status status;
    struct error error;
    json_t *result;
    struct measurements measurements;
    struct task_items items;
    struct artifacts *artifacts;
    struct queue_usage usage;
};

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- the monitor: called by the engine ---- */

static void note_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    struct job *job = owner;
    const double now = seconds_now();
    (void)pthread_mutex_lock(&job->mutex);
    job->moves++;
    if (job->progress.done != done || job->progress.total != total || strcmp(job->progress.unit, unit) != 0) {
        job->version++;
        if (job->first_done < 0 || done < job->first_done || job->progress.total != total) {
            job->first_at = now;
            job->first_done = done;
        }
        job->progress.done = done;
        job->progress.total = total;
        (void)snprintf(job->progress.unit, sizeof job->progress.unit, "%s", unit);
        const int64_t since = done - job->first_done;
        job->progress.eta_seconds =
            since > 0 && total >= done ? (now - job->first_at) / (double)since * (double)(total - done) : NAN;
    }
    (void)pthread_mutex_unlock(&job->mutex);
}

/* A line that is no UTF-8 is refused by jansson and left out. When the database is away for long the oldest lines are kept. */
static void note_line(void *owner, const char *line)
{
    struct job *job = owner;
    (void)pthread_mutex_lock(&job->mutex);
    job->moves++;
    if (json_array_size(job->lines) < LINES_MOST) (void)json_array_append_new(job->lines, json_string(line));
    (void)pthread_mutex_unlock(&job->mutex);
}

static enum status check_stop(void *owner, struct error *error)
{
    struct job *job = owner;
    (void)pthread_mutex_lock(&job->mutex);
    job->moves++;
    const enum status stop = job->stop;
    if (stop != STATUS_OK) (void)error_set(error, stop, "%s", job->stop_detail);
    (void)pthread_mutex_unlock(&job->mutex);
    return stop;
}

/* ---- the engine thread ---- */

/* The kernel's high-water mark of resident memory, which "5" in clear_refs sets back to what is resident now. */
static void reset_peak(void)
{
    const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, "5", 1) != 1) (void)0;
    (void)close(fd);
}

static int64_t peak_host_bytes(void)
{
    char line[128];
    long long kibibytes = -1;
    FILE *file = fopen("/proc/self/status", "re");
    if (file == NULL) return -1;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0) kibibytes = strtoll(line + 6, NULL, 10);
    (void)fclose(file);
    return kibibytes < 0 ? -1 : kibibytes * 1024;
}

static enum status make_work_directory(struct job *job, struct error *error)
{
    char *tmp = NULL;
    enum status status = STATUS_OK;
    if (asprintf(&tmp, "%s/tmp", job->options.data_directory) < 0) tmp = NULL;
    if (tmp == NULL || asprintf(&job->work_directory, "%s/" SWEEP_WORK_PREFIX "%s", tmp, job->run.lease.run.text) < 0) {
        job->work_directory = NULL;
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a path");
    } else if ((mkdir(tmp, 0700) != 0 && errno != EEXIST) || (mkdir(job->work_directory, 0700) != 0 && errno != EEXIST)) {
        status = error_set_errno(error, "cannot make the run's work directory");
    }
    free(tmp);
    return status;
}

static enum status execute(struct job *job, const struct kind *kind, const void *params, struct error *error)
{
    const struct monitor monitor = {.owner = job, .progress = note_progress, .log = note_line, .check = check_stop};
    const struct kind_context context = {
        .run = job->run.lease.run.text,
        .epoch = job->run.lease.epoch,
        .attempt = job->run.attempt,
        .monitor = &monitor,
        .connection = job->connection,
        .data_directory = job->options.data_directory,
        .work_directory = job->work_directory,
        .roots = job->options.roots,
        .device = job->options.device,
        .threads = job->options.threads,
        .team = job->team,
        .artifacts = job->artifacts,
        .items = &job->items,
        .hub = job->options.hub,
    };
    const enum status status = kind->execute(&context, params, &job->result, &job->measurements, error);
    if (status == STATUS_OK && job->result == NULL)
        return error_set(error, STATUS_INTERNAL, "the kind %s gave no result", kind->name);
    return status;
}

static enum status carry_out(struct job *job, struct error *error)
{
    enum status status;
    struct schema_filled filled = {0};
    const struct kind *kind = kind_find(job->options.kinds, job->run.kind);
    if (kind == NULL) return error_set(error, STATUS_UNSUPPORTED, "this worker does not know runs of the kind %s", job->run.kind);
    if ((status = make_work_directory(job, error)) != STATUS_OK) goto done;
    if ((status = artifacts_new(job->options.data_directory, job->run.lease.run.text, job->run.lease.epoch, &job->artifacts,
                                error)) != STATUS_OK)
        goto done;
    /* Checked again: what stands in the database may be older than this binary. */
    if ((status = schema_fill(kind->params, kind->params_size, job->run.params, "/params", NULL, &filled, error)) != STATUS_OK)
        goto done;
    status = execute(job, kind, filled.params, error);
done:
    schema_filled_reset(&filled);
    return status;
}

static void *engine_main(void *argument)
{
    struct job *job = argument;
    const uint64_t one = 1;
    const double began = seconds_now();
    reset_peak();
    job->status = carry_out(job, &job->error);
    job->usage =
        (struct queue_usage){.seconds = seconds_now() - began, .peak_host_bytes = peak_host_bytes(), .peak_device_bytes = -1};
    (void)pthread_mutex_lock(&job->mutex);
    job->ended = true;
    (void)pthread_mutex_unlock(&job->mutex);
    if (write(job->wake, &one, sizeof one) != sizeof one) return NULL; /* the main thread looks four times a second anyway */
    return NULL;
}

/* ---- the main thread's side ---- */

static void job_destroy(struct job *job)
{
    leased_run_reset(&job->run);
    json_decref(job->lines);
    json_decref(job->result);
    measurements_reset(&job->measurements);
    task_items_reset(&job->items);
    artifacts_free(job->artifacts);
    free(job->work_directory);
    (void)pthread_mutex_destroy(&job->mutex);
    free(job);
}

enum status job_start(const struct worker_options *options, struct leased_run *run, struct connection *connection,
                      struct team *team, int wake, struct job **out, struct error *error)
{
    pthread_attr_t attributes;
    struct job *job = calloc(1, sizeof *job);
    *out = NULL;
    if (job == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a run");
    (void)pthread_mutex_init(&job->mutex, NULL);
    job->options = *options;
    job->run = *run;
    *run = (struct leased_run){0};
    job->connection = connection;
    job->team = team;
    job->wake = wake;
    job->first_done = -1;
    job->progress.eta_seconds = NAN;
    job->lines = json_array();
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    const int failure = job->lines == NULL ? ENOMEM : pthread_create(&job->thread, &attributes, engine_main, job);
    (void)pthread_attr_destroy(&attributes);
    if (failure != 0) {
        *run = job->run; /* stays the caller's */
        job->run = (struct leased_run){0};
        job_destroy(job);
        return error_set(error, STATUS_NO_MEMORY, "cannot start the engine thread: %s", strerror(failure));
    }
    *out = job;
    return STATUS_OK;
}

const struct lease *job_lease(const struct job *job)
{
    return &job->run.lease;
}

void job_stop(struct job *job, enum status status, const char *detail)
{
    (void)pthread_mutex_lock(&job->mutex);
    if (job->stop == STATUS_OK) {
        job->stop = status;
        (void)snprintf(job->stop_detail, sizeof job->stop_detail, "%s", detail);
    }
    (void)pthread_mutex_unlock(&job->mutex);
}

void job_look(struct job *job, struct job_view *view)
{
    (void)pthread_mutex_lock(&job->mutex);
    *view = (struct job_view){.ended = job->ended, .moves = job->moves, .version = job->version, .progress = job->progress};
    (void)pthread_mutex_unlock(&job->mutex);
}

json_t *job_lines(struct job *job)
{
    json_t *lines = NULL;
    (void)pthread_mutex_lock(&job->mutex);
    if (json_array_size(job->lines) > 0) {
        json_t *empty = json_array();
        if (empty != NULL) {
            lines = job->lines;
            job->lines = empty;
        }
    }
    (void)pthread_mutex_unlock(&job->mutex);
    return lines;
}

void job_put_back(struct job *job, json_t *lines)
{
    (void)pthread_mutex_lock(&job->mutex);
    (void)json_array_extend(lines, job->lines);
    json_decref(job->lines);
    job->lines = lines;
    (void)pthread_mutex_unlock(&job->mutex);
}

void job_outcome(struct job *job, struct job_outcome *out)
{
    *out = (struct job_outcome){.status = job->status, .error = job->error};
    out->result.result = job->result;
    out->result.measurements = &job->measurements;
    out->result.items = &job->items;
    if (job->artifacts != NULL) out->result.artifacts = artifacts_items(job->artifacts, &out->result.artifact_count);
    out->result.usage = job->usage;
}

void job_free(struct job *job)
{
    if (job == NULL) return;
    (void)pthread_join(job->thread, NULL);
    job_destroy(job);
}

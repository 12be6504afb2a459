#include "pool/job.h"

#include "kinds/artifacts.h"
#include "pool/gate.h"
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

/* A run of the job. */
struct seat {
    struct job *job;
    struct leased_run run; /* owns */
    char *work_directory;  /* owns */

    /* Under the job's mutex. */
    enum status stop; /* STATUS_OK: go on */
    char stop_detail[128];
    bool ended;
    uint64_t version;
    struct queue_progress progress;
    double first_at;    /* when the first progress came, and where it stood: for the estimate */
    int64_t first_done; /* -1: none yet */
    json_t *lines;      /* owns */

    /* The engine thread's alone. */
    struct monitor monitor;
    struct schema_filled filled;

    /* Written by the engine thread before `ended`, read after it. */
    enum status status;
    struct error error;
    bool given_back;
    json_t *result;
    struct measurements measurements;
    struct task_items items;
    struct artifacts *artifacts;
    struct queue_usage usage;
    double work; /* by the run's plan */
};

struct job {
    struct worker_options options; /* lent pointers */
    struct connection *connection; /* lent */
    struct team *team;             /* lent */
    const struct gate *gate;       /* lent */
    int wake;
    double began;
    int64_t device_bytes; /* as in struct kind_context */
    pthread_t thread;
    pthread_mutex_t mutex;
    uint64_t moves; /* under the mutex */
    size_t count;
    struct seat seats[]; /* owns */
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
    struct seat *seat = owner;
    const double now = seconds_now();
    (void)pthread_mutex_lock(&seat->job->mutex);
    seat->job->moves++;
    if (seat->progress.done != done || seat->progress.total != total || strcmp(seat->progress.unit, unit) != 0) {
        seat->version++;
        if (seat->first_done < 0 || done < seat->first_done || seat->progress.total != total) {
            seat->first_at = now;
            seat->first_done = done;
        }
        seat->progress.done = done;
        seat->progress.total = total;
        (void)snprintf(seat->progress.unit, sizeof seat->progress.unit, "%s", unit);
        const int64_t since = done - seat->first_done;
        seat->progress.eta_seconds =
            since > 0 && total >= done ? (now - seat->first_at) / (double)since * (double)(total - done) : NAN;
    }
    (void)pthread_mutex_unlock(&seat->job->mutex);
    const struct gate_place place = {seat->run.kind, seat->run.lease.run.text, seat->run.lease.epoch, unit, done};
    gate_pass(seat->job->gate, &place, &seat->monitor);
}

/* A line that is no UTF-8 is refused by jansson and left out. When the database is away for long the oldest lines are kept. */
static void note_line(void *owner, const char *line)
{
    struct seat *seat = owner;
    (void)pthread_mutex_lock(&seat->job->mutex);
    seat->job->moves++;
    if (json_array_size(seat->lines) < LINES_MOST) (void)json_array_append_new(seat->lines, json_string(line));
    (void)pthread_mutex_unlock(&seat->job->mutex);
}

static enum status check_stop(void *owner, struct error *error)
{
    struct seat *seat = owner;
    (void)pthread_mutex_lock(&seat->job->mutex);
    seat->job->moves++;
    const enum status stop = seat->stop;
    if (stop != STATUS_OK) (void)error_set(error, stop, "%s", seat->stop_detail);
    (void)pthread_mutex_unlock(&seat->job->mutex);
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

static enum status make_work_directory(struct seat *seat, struct error *error)
{
    char *tmp = NULL;
    enum status status = STATUS_OK;
    if (asprintf(&tmp, "%s/tmp", seat->job->options.data_directory) < 0) tmp = NULL;
    if (tmp == NULL || asprintf(&seat->work_directory, "%s/" SWEEP_WORK_PREFIX "%s", tmp, seat->run.lease.run.text) < 0) {
        seat->work_directory = NULL;
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a path");
    } else if ((mkdir(tmp, 0700) != 0 && errno != EEXIST) || (mkdir(seat->work_directory, 0700) != 0 && errno != EEXIST)) {
        status = error_set_errno(error, "cannot make the run's work directory");
    }
    free(tmp);
    return status;
}

/* The main thread sees the end of this run; the engine thread touches it no more. */
static void seat_end(struct seat *seat, enum status status, const struct error *error)
{
    const uint64_t one = 1;
    seat->status = status;
    if (status != STATUS_OK) seat->error = *error;
    seat->usage = (struct queue_usage){.seconds = seconds_now() - seat->job->began,
                                       .peak_host_bytes = peak_host_bytes(),
                                       .peak_device_bytes = seat->job->device_bytes,
                                       .work = seat->work};
    (void)pthread_mutex_lock(&seat->job->mutex);
    seat->ended = true;
    (void)pthread_mutex_unlock(&seat->job->mutex);
    if (write(seat->job->wake, &one, sizeof one) != sizeof one) return; /* the main thread looks four times a second anyway */
}

static struct kind_context context_of(struct seat *seat)
{
    struct job *job = seat->job;
    seat->monitor = (struct monitor){.owner = seat, .progress = note_progress, .log = note_line, .check = check_stop};
    return (struct kind_context){
        .run = seat->run.lease.run.text,
        .epoch = seat->run.lease.epoch,
        .attempt = seat->run.attempt,
        .monitor = &seat->monitor,
        .connection = job->connection,
        .data_directory = job->options.data_directory,
        .work_directory = seat->work_directory,
        .roots = job->options.roots,
        .device = job->options.device,
        .threads = job->options.threads,
        .team = job->team,
        .artifacts = seat->artifacts,
        .items = &seat->items,
        .hub = job->options.hub,
        .memory_bytes = job->options.memory_bytes,
        .device_bytes = &job->device_bytes,
        .work = &seat->work,
    };
}

static enum status prepare(struct seat *seat, const struct kind *kind, struct error *error)
{
    enum status status;
    if (kind == NULL) return error_set(error, STATUS_UNSUPPORTED, "this worker does not know runs of the kind %s", seat->run.kind);
    if ((status = make_work_directory(seat, error)) != STATUS_OK) return status;
    if ((status = artifacts_new(seat->job->options.data_directory, seat->run.lease.run.text, seat->run.lease.epoch,
                                &seat->artifacts, error)) != STATUS_OK)
        return status;
    /* Checked again: what stands in the database may be older than this binary. */
    return schema_fill(kind->params, kind->params_size, seat->run.params, "/params", NULL, &seat->filled, error);
}

static void execute(struct seat *seat, const struct kind *kind)
{
    struct error error;
    const struct kind_context context = context_of(seat);
    enum status status = kind->execute(&context, seat->filled.params, &seat->result, &seat->measurements, &error);
    if (status == STATUS_OK && seat->result == NULL)
        status = error_set(&error, STATUS_INTERNAL, "the kind %s gave no result", kind->name);
    seat_end(seat, status, &error);
}

static void member_ended(struct kind_member *member)
{
    struct seat *seat = member->owner;
    seat->result = member->result;
    seat->given_back = member->given_back;
    if (member->status == STATUS_OK && member->result == NULL)
        member->status = error_set(&member->error, STATUS_INTERNAL, "the kind %s gave no result", seat->run.kind);
    seat_end(seat, member->status, &member->error);
}

/* kind_member structs lie in a row for the kind. */
static void execute_together(const struct kind *kind, struct seat **seats, size_t count)
{
    struct error error;
    struct kind_member *members = calloc(count, sizeof *members);
    if (members == NULL) (void)error_set(&error, STATUS_NO_MEMORY, "no memory for %zu runs", count);
    for (size_t i = 0; i < count; i++) {
        struct seat *seat = seats[i];
        if (members == NULL) {
            seat_end(seat, STATUS_NO_MEMORY, &error);
            continue;
        }
        members[i] = (struct kind_member){.context = context_of(seat),
                                          .params = seat->filled.params,
                                          .measurements = &seat->measurements,
                                          .owner = seat,
                                          .ended = member_ended};
        note_line(seat, "executed together with others that differ in their recipe: one walk over the model serves all");
    }
    if (members != NULL) kind->together(members, count);
    free(members);
}

static void *engine_main(void *argument)
{
    struct job *job = argument;
    const struct kind *kind = kind_find(job->options.kinds, job->seats[0].run.kind);
    struct seat *ready[WORKER_TOGETHER];
    size_t count = 0;
    job->began = seconds_now();
    job->device_bytes = -1;
    reset_peak();
    for (size_t i = 0; i < job->count; i++) {
        struct seat *seat = &job->seats[i];
        const enum status status = prepare(seat, kind, &seat->error);
        if (status == STATUS_OK)
            ready[count++] = seat;
        else
            seat_end(seat, status, &seat->error);
    }
    if (count == 1) execute(ready[0], kind);
    if (count > 1) execute_together(kind, ready, count);
    return NULL;
}

/* ---- the main thread's side ---- */

static void job_destroy(struct job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        struct seat *seat = &job->seats[i];
        leased_run_reset(&seat->run);
        schema_filled_reset(&seat->filled);
        json_decref(seat->lines);
        json_decref(seat->result);
        measurements_reset(&seat->measurements);
        task_items_reset(&seat->items);
        artifacts_free(seat->artifacts);
        free(seat->work_directory);
    }
    (void)pthread_mutex_destroy(&job->mutex);
    free(job);
}

enum status job_start(const struct worker_options *options, struct leased_run *runs, size_t count, struct connection *connection,
                      struct team *team, const struct gate *gate, int wake, struct job **out, struct error *error)
{
    pthread_attr_t attributes;
    struct job *job = calloc(1, sizeof *job + count * sizeof job->seats[0]);
    bool lines = true;
    *out = NULL;
    if (job == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a run");
    (void)pthread_mutex_init(&job->mutex, NULL);
    job->options = *options;
    job->connection = connection;
    job->team = team;
    job->gate = gate;
    job->wake = wake;
    job->count = count;
    for (size_t i = 0; i < count; i++) {
        struct seat *seat = &job->seats[i];
        seat->job = job;
        seat->run = runs[i];
        seat->first_done = -1;
        seat->progress.eta_seconds = NAN;
        seat->lines = json_array();
        lines = lines && seat->lines != NULL;
    }
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    const int failure = lines ? pthread_create(&job->thread, &attributes, engine_main, job) : ENOMEM;
    (void)pthread_attr_destroy(&attributes);
    if (failure != 0) {
        for (size_t i = 0; i < count; i++) job->seats[i].run = (struct leased_run){0}; /* they stay the caller's */
        job_destroy(job);
        return error_set(error, STATUS_NO_MEMORY, "cannot start the engine thread: %s", strerror(failure));
    }
    for (size_t i = 0; i < count; i++) runs[i] = (struct leased_run){0};
    *out = job;
    return STATUS_OK;
}

size_t job_count(const struct job *job)
{
    return job->count;
}

const struct lease *job_lease(const struct job *job, size_t number)
{
    return &job->seats[number].run.lease;
}

void job_stop(struct job *job, size_t number, enum status status, const char *detail)
{
    struct seat *seat = &job->seats[number];
    (void)pthread_mutex_lock(&job->mutex);
    if (seat->stop == STATUS_OK) {
        seat->stop = status;
        (void)snprintf(seat->stop_detail, sizeof seat->stop_detail, "%s", detail);
    }
    (void)pthread_mutex_unlock(&job->mutex);
}

void job_look(struct job *job, size_t number, struct job_view *view)
{
    const struct seat *seat = &job->seats[number];
    (void)pthread_mutex_lock(&job->mutex);
    *view = (struct job_view){.ended = seat->ended, .moves = job->moves, .version = seat->version, .progress = seat->progress};
    (void)pthread_mutex_unlock(&job->mutex);
}

json_t *job_lines(struct job *job, size_t number)
{
    struct seat *seat = &job->seats[number];
    json_t *lines = NULL;
    (void)pthread_mutex_lock(&job->mutex);
    if (json_array_size(seat->lines) > 0) {
        json_t *empty = json_array();
        if (empty != NULL) {
            lines = seat->lines;
            seat->lines = empty;
        }
    }
    (void)pthread_mutex_unlock(&job->mutex);
    return lines;
}

void job_put_back(struct job *job, size_t number, json_t *lines)
{
    struct seat *seat = &job->seats[number];
    (void)pthread_mutex_lock(&job->mutex);
    (void)json_array_extend(lines, seat->lines);
    json_decref(seat->lines);
    seat->lines = lines;
    (void)pthread_mutex_unlock(&job->mutex);
}

void job_outcome(struct job *job, size_t number, struct job_outcome *out)
{
    struct seat *seat = &job->seats[number];
    *out = (struct job_outcome){.status = seat->status, .error = seat->error, .given_back = seat->given_back};
    out->result.result = seat->result;
    out->result.measurements = &seat->measurements;
    out->result.items = &seat->items;
    if (seat->artifacts != NULL) out->result.artifacts = artifacts_items(seat->artifacts, &out->result.artifact_count);
    out->result.usage = seat->usage;
}

void job_free(struct job *job)
{
    if (job == NULL) return;
    (void)pthread_join(job->thread, NULL);
    job_destroy(job);
}

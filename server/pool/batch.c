#include "pool/batch.h"

#include "base/clock.h"
#include "kinds/artifact_file.h"
#include "kinds/artifacts.h"
#include "pool/cleanup.h"
#include "pool/gate.h"
#include "pool/resume.h"
#include "schema/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINES_MOST = 1000, STACK_BYTES = 16 << 20 };

/* A leased run of the batch, on the engine thread. */
struct leased_member {
    struct leased_batch *batch;
    struct leased_run run; /* owns */
    char *work_directory;  /* owns */

    /* Under the batch's mutex. */
    enum status stop; /* STATUS_OK: go on */
    bool paused;
    char stop_detail[128];
    bool ended;
    uint64_t version;
    struct queue_progress progress;
    double first_at;    /* when the first progress came, and its value: for the estimate */
    int64_t first_done; /* -1: none yet */
    json_t *lines;      /* owns */

    /* Used by the engine thread only. */
    struct monitor monitor;
    struct artifact_place artifact_place;
    struct schema_filled filled;
    bool resumes; /* its saved state is uploaded, under `resume_number` */
    size_t resume_number;

    /* Written by the engine thread before `ended`, read after it. */
    enum status status;
    struct error error;
    bool given_back;
    json_t *result;
    struct measurements measurements;
    struct task_items items;
    struct artifacts *artifacts;
    struct queue_usage usage;
    double work;   /* work by the run's plan */
    bool uploaded; /* the bucket has saved state of the run */
};

struct leased_batch {
    struct worker_options options; /* lent pointers */
    struct connection *connection; /* lent */
    struct team *team;             /* lent */
    const struct gate *gate;       /* lent */
    int wake;
    double began;
    int64_t device_bytes; /* as in struct run_context */
    struct error device_fault;
    struct resume *resume; /* the engine thread's, owned; NULL: nothing is uploaded */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t resumed; /* a member is no longer paused, or is stopped */
    uint64_t moves;         /* under the mutex */
    bool draining;          /* under the mutex: the worker stops and all runs return to the queue */
    size_t count;
    struct leased_member members[]; /* owns */
};

/* ---- the monitor: called by the engine ---- */

static void note_progress(void *owner, int64_t done, int64_t total, const char *unit)
{
    struct leased_member *member = owner;
    const double now = clock_seconds();
    (void)pthread_mutex_lock(&member->batch->mutex);
    member->batch->moves++;
    if (member->progress.done != done || member->progress.total != total || strcmp(member->progress.unit, unit) != 0) {
        member->version++;
        if (member->first_done < 0 || done < member->first_done || member->progress.total != total) {
            member->first_at = now;
            member->first_done = done;
        }
        member->progress.done = done;
        member->progress.total = total;
        (void)snprintf(member->progress.unit, sizeof member->progress.unit, "%s", unit);
        const int64_t since = done - member->first_done;
        member->progress.eta_seconds =
            since > 0 && total >= done ? (now - member->first_at) / (double)since * (double)(total - done) : NAN;
    }
    (void)pthread_mutex_unlock(&member->batch->mutex);
    const struct gate_progress place = {member->run.kind, member->run.lease.run.text, member->run.lease.epoch, unit,
                                        done};
    gate_pass(member->batch->gate, &place, &member->monitor);
}

/* jansson refuses a line that is not UTF-8, so it is dropped. When the database is unavailable for long, the oldest
 * lines are kept. */
static void note_line(void *owner, const char *line)
{
    struct leased_member *member = owner;
    (void)pthread_mutex_lock(&member->batch->mutex);
    member->batch->moves++;
    if (json_array_size(member->lines) < LINES_MOST) (void)json_array_append_new(member->lines, json_string(line));
    (void)pthread_mutex_unlock(&member->batch->mutex);
}

static enum status check_stop(void *owner, struct error *error)
{
    struct leased_member *member = owner;
    (void)pthread_mutex_lock(&member->batch->mutex);
    member->batch->moves++;
    while (member->paused && member->stop == STATUS_OK)
        (void)pthread_cond_wait(&member->batch->resumed, &member->batch->mutex);
    const enum status stop = member->stop;
    if (stop != STATUS_OK) (void)error_set(error, stop, "%s", member->stop_detail);
    (void)pthread_mutex_unlock(&member->batch->mutex);
    return stop;
}

/* ---- the engine thread ---- */

/* Resets the kernel's high-water mark of resident memory to the present value ("5" in clear_refs). */
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

static enum status make_work_directory(struct leased_member *member, struct error *error)
{
    char *tmp = NULL;
    enum status status = STATUS_OK;
    if (asprintf(&tmp, "%s/tmp", member->batch->options.data_directory) < 0) tmp = NULL;
    if (tmp == NULL ||
        asprintf(&member->work_directory, "%s/" CLEANUP_WORK_PREFIX "%s", tmp, member->run.lease.run.text) < 0) {
        member->work_directory = NULL;
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a path");
    } else if (mkdir(tmp, 0700) != 0 && errno != EEXIST) {
        status = error_set_errno(error, "cannot make the run's work directory");
    } else if (mkdir(member->work_directory, 0700) != 0) { /* there: an earlier attempt made it */
        if (errno == EEXIST)
            cleanup_unfinished(member->batch->options.data_directory, member->run.lease.run.text);
        else
            status = error_set_errno(error, "cannot make the run's work directory");
    }
    free(tmp);
    return status;
}

/* After a fault of the device, a failed run has failed because of the device, whatever error it met in the device's
 * data. */
static enum status blame(const struct leased_batch *batch, enum status status, const struct error **error)
{
    const bool own = status != STATUS_OK && status != STATUS_CANCELLED && status != STATUS_LEASE_LOST;
    if (!own || batch->device_fault.status != STATUS_DEVICE) return status;
    *error = &batch->device_fault;
    return STATUS_DEVICE;
}

/* Must run before the end is published, because the files, here and in the bucket, are removed then. */
static void end_uploads(struct leased_member *member)
{
    if (!member->resumes) return;
    (void)pthread_mutex_lock(&member->batch->mutex);
    const bool last = member->batch->draining && member->status == STATUS_LEASE_LOST;
    (void)pthread_mutex_unlock(&member->batch->mutex);
    member->uploaded = resume_end(member->batch->resume, member->resume_number, last);
}

/* Publishes the end of the run to the main thread; the engine thread does not use the run afterwards. */
static void member_end(struct leased_member *member, enum status status, const struct error *error)
{
    const uint64_t one = 1;
    member->status = status = blame(member->batch, status, &error);
    if (status != STATUS_OK) member->error = *error;
    end_uploads(member);
    member->usage = (struct queue_usage){.seconds = clock_seconds() - member->batch->began,
                                         .peak_host_bytes = peak_host_bytes(),
                                         .peak_device_bytes = member->batch->device_bytes,
                                         .work = member->work};
    (void)pthread_mutex_lock(&member->batch->mutex);
    member->ended = true;
    (void)pthread_mutex_unlock(&member->batch->mutex);
    if (write(member->batch->wake, &one, sizeof one) != sizeof one)
        return; /* the main thread looks four times a second anyway */
}

static struct run_context context_of(struct leased_member *member)
{
    struct leased_batch *batch = member->batch;
    member->artifact_place = (struct artifact_place){.data_directory = batch->options.data_directory,
                                                     .store = batch->options.artifact_store,
                                                     .monitor = &member->monitor};
    return (struct run_context){
        .run = member->run.lease.run.text,
        .epoch = member->run.lease.epoch,
        .attempt = member->run.attempt,
        .monitor = &member->monitor,
        .connection = batch->connection,
        .data_directory = batch->options.data_directory,
        .work_directory = member->work_directory,
        .roots = batch->options.roots,
        .node = batch->options.node,
        .device = batch->options.device,
        .save_seconds = batch->options.save_seconds,
        .threads = batch->options.threads,
        .team = batch->team,
        .artifacts = member->artifacts,
        .artifact_place = &member->artifact_place,
        .items = &member->items,
        .hub = batch->options.hub,
        .memory_bytes = batch->options.memory_bytes,
        .device_memory_bytes = batch->options.device_memory_bytes,
        .device_bytes = &batch->device_bytes,
        .device_fault = &batch->device_fault,
        .work = &member->work,
    };
}

/* Fetches the state that an earlier attempt left on another node, and starts uploads of new state. */
static enum status begin_uploads(struct leased_member *member, const struct kind *kind, struct error *error)
{
    struct leased_batch *batch = member->batch;
    const struct resume_place place = {.store = batch->options.artifact_store,
                                       .run = member->run.lease.run.text,
                                       .epoch = member->run.lease.epoch,
                                       .directory = member->work_directory,
                                       .resumes = kind->resumes};
    enum status status = STATUS_OK;
    if (place.store == NULL || place.resumes == NULL) return STATUS_OK;
    if (batch->resume == NULL) status = resume_new(batch->count, batch->options.save_seconds, &batch->resume, error);
    if (status == STATUS_OK)
        status = resume_add(batch->resume, &place, &member->monitor, &member->resume_number, error);
    member->resumes = status == STATUS_OK;
    return status;
}

static enum status prepare(struct leased_member *member, const struct kind *kind, struct error *error)
{
    enum status status;
    member->monitor =
        (struct monitor){.owner = member, .progress = note_progress, .log = note_line, .check = check_stop};
    if (kind == NULL)
        return error_set(error, STATUS_UNSUPPORTED, "this worker does not know runs of the kind %s", member->run.kind);
    if ((status = make_work_directory(member, error)) != STATUS_OK) return status;
    if ((status = begin_uploads(member, kind, error)) != STATUS_OK) return status;
    if ((status = artifacts_new(member->batch->options.data_directory, member->run.lease.run.text,
                                member->run.lease.epoch, member->batch->options.artifact_store, &member->monitor,
                                &member->artifacts, error)) != STATUS_OK)
        return status;
    /* Checked again, because the parameters in the database may be older than this binary. */
    return schema_fill(kind->params, kind->params_size, member->run.params, "/params", NULL, &member->filled, error);
}

static void execute(struct leased_member *member, const struct kind *kind)
{
    struct error error;
    const struct run_context context = context_of(member);
    enum status status = kind->execute(&context, member->filled.params, &member->result, &member->measurements, &error);
    if (status == STATUS_OK && member->result == NULL)
        status = error_set(&error, STATUS_INTERNAL, "the kind %s gave no result", kind->name);
    member_end(member, status, &error);
}

static void kind_ended(struct kind_member *given)
{
    struct leased_member *member = given->owner;
    member->result = given->result;
    member->given_back = given->given_back;
    if (given->status == STATUS_OK && given->result == NULL)
        given->status = error_set(&given->error, STATUS_INTERNAL, "the kind %s gave no result", member->run.kind);
    member_end(member, given->status, &given->error);
}

static void execute_batch(const struct kind *kind, struct kind_member *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct leased_member *member = members[i].owner;
        members[i].context = context_of(member);
        members[i].params = member->filled.params;
        members[i].measurements = &member->measurements;
        note_line(member, "executed in a batch with others that differ in their method: one forward pass serves all");
    }
    kind->execute_batch(members, count);
}

static void *engine_main(void *argument)
{
    struct leased_batch *batch = argument;
    const struct kind *kind = kind_find(batch->options.kinds, batch->members[0].run.kind);
    struct kind_member ready[WORKER_BATCH_MOST] = {{.status = STATUS_OK}};
    size_t count = 0;
    batch->began = clock_seconds();
    batch->device_bytes = -1;
    reset_peak();
    for (size_t i = 0; i < batch->count; i++) {
        struct leased_member *member = &batch->members[i];
        const enum status status = prepare(member, kind, &member->error);
        if (status == STATUS_OK)
            ready[count++] = (struct kind_member){.owner = member, .ended = kind_ended};
        else
            member_end(member, status, &member->error);
    }
    if (count == 1) execute(ready[0].owner, kind);
    if (count > 1) execute_batch(kind, ready, count);
    resume_free(batch->resume);
    return NULL;
}

/* ---- the main thread's side ---- */

static void batch_destroy(struct leased_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct leased_member *member = &batch->members[i];
        leased_run_reset(&member->run);
        schema_filled_reset(&member->filled);
        json_decref(member->lines);
        json_decref(member->result);
        measurements_reset(&member->measurements);
        task_items_reset(&member->items);
        artifacts_free(member->artifacts);
        free(member->work_directory);
    }
    (void)pthread_cond_destroy(&batch->resumed);
    (void)pthread_mutex_destroy(&batch->mutex);
    free(batch);
}

enum status batch_start(const struct worker_options *options, struct leased_run *runs, size_t count,
                        struct connection *connection, struct team *team, const struct gate *gate, int wake,
                        struct leased_batch **out, struct error *error)
{
    pthread_attr_t attributes;
    struct leased_batch *batch = calloc(1, sizeof *batch + count * sizeof batch->members[0]);
    bool lines = true;
    *out = NULL;
    if (batch == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a run");
    (void)pthread_mutex_init(&batch->mutex, NULL);
    (void)pthread_cond_init(&batch->resumed, NULL);
    batch->options = *options;
    batch->connection = connection;
    batch->team = team;
    batch->gate = gate;
    batch->wake = wake;
    batch->count = count;
    for (size_t i = 0; i < count; i++) {
        struct leased_member *member = &batch->members[i];
        member->batch = batch;
        member->run = runs[i];
        member->first_done = -1;
        member->progress.eta_seconds = NAN;
        member->lines = json_array();
        lines = lines && member->lines != NULL;
    }
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    const int failure = lines ? pthread_create(&batch->thread, &attributes, engine_main, batch) : ENOMEM;
    (void)pthread_attr_destroy(&attributes);
    if (failure != 0) {
        for (size_t i = 0; i < count; i++) batch->members[i].run = (struct leased_run){0}; /* they stay the caller's */
        batch_destroy(batch);
        return error_set(error, STATUS_NO_MEMORY, "cannot start the engine thread: %s", strerror(failure));
    }
    for (size_t i = 0; i < count; i++) runs[i] = (struct leased_run){0};
    *out = batch;
    return STATUS_OK;
}

size_t batch_count(const struct leased_batch *batch)
{
    return batch->count;
}

const struct lease *batch_lease(const struct leased_batch *batch, size_t number)
{
    return &batch->members[number].run.lease;
}

void batch_stop(struct leased_batch *batch, size_t number, enum status status, const char *detail)
{
    struct leased_member *member = &batch->members[number];
    (void)pthread_mutex_lock(&batch->mutex);
    if (member->stop == STATUS_OK) {
        member->stop = status;
        (void)snprintf(member->stop_detail, sizeof member->stop_detail, "%s", detail);
    }
    (void)pthread_cond_broadcast(&batch->resumed);
    (void)pthread_mutex_unlock(&batch->mutex);
}

void batch_drain(struct leased_batch *batch)
{
    (void)pthread_mutex_lock(&batch->mutex);
    batch->draining = true;
    (void)pthread_mutex_unlock(&batch->mutex);
    for (size_t i = 0; i < batch->count; i++) batch_stop(batch, i, STATUS_LEASE_LOST, "the worker is stopping");
}

void batch_pause(struct leased_batch *batch, size_t number, bool paused)
{
    (void)pthread_mutex_lock(&batch->mutex);
    batch->members[number].paused = paused;
    (void)pthread_cond_broadcast(&batch->resumed);
    (void)pthread_mutex_unlock(&batch->mutex);
}

void batch_look(struct leased_batch *batch, size_t number, struct batch_view *view)
{
    const struct leased_member *member = &batch->members[number];
    (void)pthread_mutex_lock(&batch->mutex);
    *view = (struct batch_view){
        .ended = member->ended, .moves = batch->moves, .version = member->version, .progress = member->progress};
    (void)pthread_mutex_unlock(&batch->mutex);
}

json_t *batch_lines(struct leased_batch *batch, size_t number)
{
    struct leased_member *member = &batch->members[number];
    json_t *lines = NULL;
    (void)pthread_mutex_lock(&batch->mutex);
    if (json_array_size(member->lines) > 0) {
        json_t *empty = json_array();
        if (empty != NULL) {
            lines = member->lines;
            member->lines = empty;
        }
    }
    (void)pthread_mutex_unlock(&batch->mutex);
    return lines;
}

void batch_put_back(struct leased_batch *batch, size_t number, json_t *lines)
{
    struct leased_member *member = &batch->members[number];
    (void)pthread_mutex_lock(&batch->mutex);
    (void)json_array_extend(lines, member->lines);
    json_decref(member->lines);
    member->lines = lines;
    (void)pthread_mutex_unlock(&batch->mutex);
}

void batch_outcome(struct leased_batch *batch, size_t number, struct batch_outcome *out)
{
    struct leased_member *member = &batch->members[number];
    *out = (struct batch_outcome){.status = member->status,
                                  .error = member->error,
                                  .given_back = member->given_back,
                                  .uploaded = member->uploaded};
    out->result.result = member->result;
    out->result.measurements = &member->measurements;
    out->result.items = &member->items;
    if (member->artifacts != NULL)
        out->result.artifacts = artifacts_items(member->artifacts, &out->result.artifact_count);
    out->result.usage = member->usage;
}

bool batch_free(struct leased_batch *batch)
{
    if (batch == NULL) return true;
    (void)pthread_join(batch->thread, NULL);
    bool good = batch->device_fault.status != STATUS_DEVICE;
    for (size_t i = 0; i < batch->count; i++) good = good && batch->members[i].status != STATUS_DEVICE;
    batch_destroy(batch);
    return good;
}

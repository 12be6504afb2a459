#include "base/clock.h"
#include "base/machine.h"
#include "kinds/resume_store.h"
#include "log/log.h"
#include "pool/cleanup.h"
#include "pool/worker_state.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_STALLED = 70 };
static const double STALL_SECONDS = 600, WATCH_SECONDS = 1;
enum { READ_LEAST = 8 << 20 };          /* bytes read from files in that time that prove that an engine is alive */
static const double BUCKET_SECONDS = 5; /* for all of a batch: queued runs wait, and a stop */
static const double FLUSH_SECONDS = 0.5, RETRY_SECONDS = 0.5, LOST_SECONDS = 60;
/* After this fraction of the lease without a successful beat, a worker pauses its runs until it knows whether they are
 * still its own. tests/pool builds without it, to test the database's fence alone. */
#ifndef WORKER_GRACE
#define WORKER_GRACE (2.0 / 3)
#endif

double worker_now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_BOOTTIME, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void worker_say(const char *what, const struct error *error)
{
    log_error(LOG_COMPONENT_WORKER, "%s: %s", what, error->detail);
}

const struct lease *worker_lease_of(const struct worker *worker, const struct held_member *member)
{
    return batch_lease(worker->batch, member->number);
}

/* ---- Holding it ---- */

/* After two thirds of a lease without a beat the engine waits for the next one: its work is not lost if the run is
 * still ours, and nothing is written if the run is another worker's. */
static void doubt(struct worker *worker, struct held_member *member)
{
    const bool doubted = worker_now() - member->renewed_at > worker->lease_seconds * WORKER_GRACE;
    if (doubted == member->doubted) return;
    member->doubted = doubted;
    batch_pause(worker->batch, member->number, doubted);
    const char *run = worker_lease_of(worker, member)->run.text;
    log_line(&(struct log_about){.level = LOG_LEVEL_WARNING, .component = LOG_COMPONENT_WORKER, .run = run},
             "run %s %s", run, doubted ? "waits: the database did not answer for two thirds of the lease" : "goes on");
}

static void lose(struct worker *worker, struct held_member *member, const char *why)
{
    if (member->lost) return;
    member->lost = true;
    member->lost_at = worker_now();
    batch_stop(worker->batch, member->number, STATUS_LEASE_LOST, why);
    const char *run = worker_lease_of(worker, member)->run.text;
    log_line(&(struct log_about){.level = LOG_LEVEL_ERROR, .component = LOG_COMPONENT_WORKER, .run = run},
             "lease lost on run %s: %s", run, why);
}

static void heed(struct worker *worker, struct held_member *member, enum status status, bool cancel)
{
    if (status == STATUS_LEASE_LOST) lose(worker, member, "the run belongs to another worker, or has ended");
    if (status != STATUS_OK || !cancel || member->cancelling) return;
    member->cancelling = true;
    batch_stop(worker->batch, member->number, STATUS_CANCELLED, "the run was cancelled");
}

static void beat(struct worker *worker, struct held_member *member, const struct batch_view *view)
{
    struct error error;
    bool cancel;
    const double sent_at = worker_now();
    const enum status status = queue_beat(worker->connection, worker_lease_of(worker, member), worker->lease_seconds,
                                          view->version > 0 ? &view->progress : NULL, &cancel, &error);
    member->peek_at = sent_at + WORKER_POLL_SECONDS;
    member->flush_at = sent_at + FLUSH_SECONDS;
    member->beat_at = sent_at + RETRY_SECONDS;
    if (status == STATUS_OK) {
        member->renewed_at = sent_at;
        member->beat_at = sent_at + worker->lease_seconds / 3;
        member->version_written = view->version;
    }
    heed(worker, member, status, cancel);
}

static void peek(struct worker *worker, struct held_member *member)
{
    struct error error;
    bool cancel;
    member->peek_at = worker_now() + WORKER_POLL_SECONDS;
    const enum status status = queue_peek(worker->connection, worker_lease_of(worker, member), &cancel, &error);
    heed(worker, member, status, cancel);
}

static void flush_log(struct worker *worker, struct held_member *member)
{
    struct error error;
    json_t *lines = batch_lines(worker->batch, member->number);
    if (lines == NULL) return;
    const enum status status = queue_log(worker->connection, worker_lease_of(worker, member), lines, &error);
    if (status == STATUS_OK || status == STATUS_LEASE_LOST)
        json_decref(lines);
    else
        batch_put_back(worker->batch, member->number, lines);
    heed(worker, member, status, false);
}

/* The engine has not called its monitor for too long. No part of this process can be relied on to stop it, so the
 * process ends. */
static void give_up(struct worker *worker, double seconds)
{
    struct error error;
    char evidence[160];
    (void)snprintf(evidence, sizeof evidence, "the engine stood still for %.0f s; its worker process was ended",
                   seconds);
    log_error(LOG_COMPONENT_WORKER, "%s", evidence);
    for (size_t i = 0; i < batch_count(worker->batch); i++) {
        const struct held_member *member = &worker->members[i];
        if (!member->done && !member->lost &&
            queue_stalled(worker->connection, worker_lease_of(worker, member), evidence, &error) != STATUS_OK)
            worker_say("cannot say so", &error);
    }
    if (worker_gone(worker->connection, &worker->identity.id, &error) != STATUS_OK) _exit(EXIT_STALLED);
    _exit(EXIT_STALLED);
}

/* Whether files were read since the last sign of life: reading a large tensor from a slow file system may take longer
 * than the allowed silence, and does not call the monitor. This thread's own reads of /proc are far smaller. */
static bool reads_on(const struct worker *worker)
{
    return machine_bytes_read() - worker->read_seen >= READ_LEAST;
}

/* When the whole process stood still (its host was suspended, or it was stopped), the engine is not to blame: the time
 * between two looks counts as WATCH_SECONDS at most. */
static void watch_engine(struct worker *worker, const struct held_member *member, const struct batch_view *view)
{
    const double time = worker_now(), passed = time - worker->watched_at;
    const double limit = worker->options.stall_seconds > 0 ? worker->options.stall_seconds : STALL_SECONDS;
    if (view->moves != worker->moves_seen || member->doubted || reads_on(worker)) {
        worker->moves_seen = view->moves;
        worker->read_seen = machine_bytes_read();
        worker->silence = 0;
    } else {
        worker->silence += passed < WATCH_SECONDS ? passed : WATCH_SECONDS;
    }
    worker->watched_at = time;
    if (worker->silence > limit) give_up(worker, worker->silence);
    if (member->lost && time - member->lost_at > LOST_SECONDS) give_up(worker, time - member->lost_at);
}

/* ---- The end ---- */

/* Whether this fault puts the device aside: then the device is the cause, and not a run. */
static bool puts_aside(const struct worker *worker)
{
    return !worker->device_proven && worker->identity.device_state.faults + 1 >= WORKER_FAULTS_MOST;
}

/* Sends the outcome of the run. STATUS_LEASE_LOST: another process decides it. */
static enum status send_result(struct worker *worker, const struct lease *lease, const struct batch_outcome *outcome,
                               struct error *error)
{
    const enum status status = queue_finish(worker->connection, lease, &outcome->result, error);
    /* a run that did not use the device proves nothing about it */
    if (status == STATUS_OK && outcome->result.usage.peak_device_bytes >= 0) worker->device_proven = true;
    if (status == STATUS_OK || status == STATUS_LEASE_LOST || status_info(status)->retry) return status;
    const struct error cause = *error; /* the database refuses the result of the kind, which fails the run */
    return queue_fail(worker->connection, lease, &cause, &outcome->result, error);
}

/* Whether another worker may have the memory or files that this one lacks: then the run returns to the queue. */
static enum status send_elsewhere(struct worker *worker, const struct lease *lease, const struct batch_outcome *outcome,
                                  bool *elsewhere, struct error *error)
{
    const struct error *cause = &outcome->error;
    *elsewhere = false;
    if (outcome->status == STATUS_TOO_LARGE)
        return queue_too_large(worker->connection, lease, &worker->identity, cause, elsewhere, error);
    if (outcome->status == STATUS_NOT_FOUND)
        return queue_elsewhere(worker->connection, lease, &worker->identity, cause->detail, elsewhere, error);
    return STATUS_OK;
}

static enum status send_end(struct worker *worker, const struct held_member *member, struct error *error)
{
    struct batch_outcome outcome;
    bool elsewhere;
    const struct lease *lease = worker_lease_of(worker, member);
    batch_outcome(worker->batch, member->number, &outcome);
    if (outcome.status == STATUS_OK) return send_result(worker, lease, &outcome, error);
    if (member->cancelling && outcome.status == STATUS_CANCELLED)
        return queue_cancelled(worker->connection, lease, &outcome.result, error);
    const enum status status = send_elsewhere(worker, lease, &outcome, &elsewhere, error);
    if (status != STATUS_OK || elsewhere) return status;
    if (outcome.given_back || (worker->stopping && outcome.status == STATUS_LEASE_LOST) ||
        (outcome.status == STATUS_DEVICE && puts_aside(worker)))
        return queue_release(worker->connection, lease, error);
    return queue_fail(worker->connection, lease, &outcome.error, &outcome.result, error);
}

/* Files that cannot be put aside now, because the database is unavailable, are removed within the hour. */
static void clean_up(struct worker *worker, struct held_member *member)
{
    struct error error;
    struct batch_outcome outcome;
    const struct lease *lease = worker_lease_of(worker, member);
    bool ended = false;
    batch_outcome(worker->batch, member->number, &outcome);
    if (cleanup_run(worker->connection, worker->options.data_directory, lease->run.text, &ended, &error) != STATUS_OK)
        worker_say("cannot clean up after a run", &error);
    member->uploaded = ended && outcome.uploaded;
}

/* Asks again whether the run has ended, because it may have been retried since. */
static enum status remove_uploaded(struct worker *worker, const struct held_member *member, double until,
                                   struct error *error)
{
    const struct lease *lease = worker_lease_of(worker, member);
    bool ended = false;
    const enum status status =
        cleanup_run(worker->connection, worker->options.data_directory, lease->run.text, &ended, error);
    if (status != STATUS_OK || !ended) return status;
    return resume_store_remove(worker->options.artifact_store, lease->run.text, lease->epoch, until, error);
}

/* Called when no lease is held any more, because a bucket or a file system may be slow: while this thread waits for it,
 * it renews none. What remains is removed within the hour (cleanup_bucket, cleanup_all). */
static void remove_all(struct worker *worker)
{
    struct error error;
    enum status status = STATUS_OK;
    const double until = clock_seconds() + BUCKET_SECONDS;
    for (size_t i = 0; i < batch_count(worker->batch) && status == STATUS_OK; i++)
        if (worker->members[i].uploaded) status = remove_uploaded(worker, &worker->members[i], until, &error);
    if (status != STATUS_OK) worker_say("cannot remove from the bucket what runs went on from", &error);
    for (size_t i = 0; i < batch_count(worker->batch); i++)
        cleanup_remove(worker->options.data_directory, worker_lease_of(worker, &worker->members[i])->run.text);
}

/* Tries to commit the end until it is committed or the lease is lost. After a failure it first asks whether the end had
 * been committed. */
static void end_run(struct worker *worker, struct held_member *member)
{
    struct error error;
    bool open = true;
    enum status status = STATUS_OK;
    if (member->lost) {
        member->done = true;
        return;
    }
    if (worker_now() < member->end_at) return;
    flush_log(worker, member);
    if (member->unsure) status = queue_outcome(worker->connection, worker_lease_of(worker, member), &open, &error);
    if (status == STATUS_OK && open) status = send_end(worker, member, &error);
    if (status != STATUS_OK && status != STATUS_LEASE_LOST) {
        member->unsure = true;
        member->end_at = worker_now() + RETRY_SECONDS;
        return;
    }
    if (status == STATUS_OK) clean_up(worker, member);
    store_notify(worker->connection);
    member->done = true;
}

static void hold_member(struct worker *worker, struct held_member *member, bool hinted)
{
    struct batch_view view;
    batch_look(worker->batch, member->number, &view);
    if (!member->lost) doubt(worker, member);
    if (!member->lost) {
        const double time = worker_now();
        const bool flush = time >= member->flush_at;
        if (time >= member->beat_at || ((flush || view.ended) && view.version != member->version_written))
            beat(worker, member, &view);
        else if (hinted || time >= member->peek_at)
            peek(worker, member);
        if (flush && !member->lost) flush_log(worker, member);
        if (flush) member->flush_at = worker_now() + FLUSH_SECONDS;
        doubt(worker, member);
    }
    if (view.ended)
        end_run(worker, member);
    else
        watch_engine(worker, member, &view);
}

void worker_hold(struct worker *worker, bool hinted)
{
    bool done = true;
    for (size_t i = 0; i < batch_count(worker->batch); i++) {
        struct held_member *member = &worker->members[i];
        if (!member->done) hold_member(worker, member, hinted);
        done = done && member->done;
    }
    if (!done) return;
    remove_all(worker);
    worker->broken = !batch_free(worker->batch);
    worker->batch = NULL;
    worker->lease_at = 0;
}

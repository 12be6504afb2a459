#include "base/machine.h"
#include "kinds/resume_store.h"
#include "log/log.h"
#include "pool/cleanup.h"
#include "pool/worker_state.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_STALLED = 70 };
static const double STALL_SECONDS = 600;
enum { READ_LEAST = 8 << 20 }; /* bytes of files in that time that show that an engine lives */
static const double FLUSH_SECONDS = 0.5, RETRY_SECONDS = 0.5, LOST_SECONDS = 60;
/* Without a successful beat for this part of the lease a worker pauses its runs until it knows whether they are still
 * its own. tests/pool builds without it, to hold the fence of the database alone to its promise. */
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

/* Between two thirds of a lease without a beat and the next one that comes through the engine waits: what it has is not
 * lost when the run is still ours, and nothing is written when it is another's. */
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

/* The engine has not called its monitor for too long: nothing in this process can be trusted to end, so the process
 * does. */
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

/* Whether files were read since the last sign of life: a large tensor on a slow file system takes longer than an engine
 * may stand still, and nobody calls the monitor meanwhile. What this thread itself reads of /proc is far less. */
static bool reads_on(const struct worker *worker)
{
    return machine_bytes_read() - worker->read_seen >= READ_LEAST;
}

static void watch_engine(struct worker *worker, const struct held_member *member, const struct batch_view *view)
{
    const double time = worker_now();
    const double limit = worker->options.stall_seconds > 0 ? worker->options.stall_seconds : STALL_SECONDS;
    if (view->moves != worker->moves_seen || member->doubted || reads_on(worker)) {
        worker->moves_seen = view->moves;
        worker->read_seen = machine_bytes_read();
        worker->moved_at = time;
    }
    if (time - worker->moved_at > limit) give_up(worker, time - worker->moved_at);
    if (member->lost && time - member->lost_at > LOST_SECONDS) give_up(worker, time - member->lost_at);
}

/* ---- The end ---- */

/* Whether this fault is the one after which the device is put aside: then it is to blame, and no run. */
static bool puts_aside(const struct worker *worker)
{
    return !worker->device_proven && worker->identity.device_state.faults + 1 >= WORKER_FAULTS_MOST;
}

/* Sends what the run came to. STATUS_LEASE_LOST: it is not ours to say. */
static enum status send_result(struct worker *worker, const struct lease *lease, const struct batch_outcome *outcome,
                               struct error *error)
{
    const enum status status = queue_finish(worker->connection, lease, &outcome->result, error);
    /* one that asked nothing of the device says nothing of it */
    if (status == STATUS_OK && outcome->result.usage.peak_device_bytes >= 0) worker->device_proven = true;
    if (status == STATUS_OK || status == STATUS_LEASE_LOST || status_info(status)->retry) return status;
    const struct error cause = *error; /* the database refuses what the kind gave: that is how the run ends */
    return queue_fail(worker->connection, lease, &cause, &outcome->result.usage, error);
}

/* Whether another worker may have what this one lacks, memory or files: then the run goes back to the queue. */
static enum status send_elsewhere(struct worker *worker, const struct lease *lease, const struct batch_outcome *outcome,
                                  bool *elsewhere, struct error *error)
{
    const char *evidence = outcome->error.detail;
    *elsewhere = false;
    if (outcome->status == STATUS_TOO_LARGE)
        return queue_too_large(worker->connection, lease, &worker->identity, evidence, elsewhere, error);
    if (outcome->status == STATUS_NOT_FOUND)
        return queue_elsewhere(worker->connection, lease, &worker->identity, evidence, elsewhere, error);
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
        return queue_cancelled(worker->connection, lease, &outcome.result.usage, error);
    const enum status status = send_elsewhere(worker, lease, &outcome, &elsewhere, error);
    if (status != STATUS_OK || elsewhere) return status;
    if (outcome.given_back || (worker->stopping && outcome.status == STATUS_LEASE_LOST) ||
        (outcome.status == STATUS_DEVICE && puts_aside(worker)))
        return queue_release(worker->connection, lease, error);
    return queue_fail(worker->connection, lease, &outcome.error, &outcome.result.usage, error);
}

/* What is not removed now, because the database or the bucket is away, is removed within the hour. */
static void clean_up(struct worker *worker, const struct held_member *member)
{
    struct error error;
    struct batch_outcome outcome;
    const struct lease *lease = worker_lease_of(worker, member);
    bool ended = false;
    batch_outcome(worker->batch, member->number, &outcome);
    if (cleanup_run(worker->connection, worker->options.data_directory, lease->run.text, &ended, &error) != STATUS_OK)
        worker_say("cannot clean up after a run", &error);
    if (ended && outcome.uploaded &&
        resume_store_remove(worker->options.artifact_store, lease->run.text, lease->epoch, &error) != STATUS_OK)
        worker_say("cannot remove from the bucket what a run went on from", &error);
}

/* Tries to commit the end until it stands or the lease is lost. After a failure it is asked first whether it had been
 * committed. */
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
    worker->broken = !batch_free(worker->batch);
    worker->batch = NULL;
    worker->lease_at = 0;
}

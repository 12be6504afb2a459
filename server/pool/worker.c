#include "pool/worker.h"

#include "base/machine.h"
#include "base/team.h"
#include "log/log.h"
#include "pool/batch.h"
#include "pool/cleanup.h"
#include "pool/drain.h"
#include "pool/gate.h"
#include "pool/identity.h"
#include "pool/unused_artifacts.h"
#include "pool/worker_state.h"
#include "store/migrations.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

/* The main thread's loop: step() does everything that is due; then poll waits for a notification, a signal, the end of
 * the batch, or the next thing due. Times are seconds on CLOCK_BOOTTIME, which continues while the host is suspended,
 * so that a worker notices a lease that expired meanwhile. */

enum { EXIT_STOPPED = 0, EXIT_CANNOT_START = 1, EXIT_OLDER = 78 };
static const double BUSY_SECONDS = 0.25, HOUSEKEEPING_SECONDS = 10, CLEANUP_SECONDS = 3600, AGAIN_SECONDS = 60,
                    OVERDUE_LOOK_SECONDS = 2;
static const double STOP_SECONDS = 8;
static const double SLICE_SECONDS = 2; /* of a clean-up, for which queued runs wait */
/* Fractions of a lease. A gap of OUTAGE and two polls between two answers of the database (or a host suspended for that
 * long) is an outage. For AFTER_OUTAGE the worker then rescues no runs, because other workers may be alive and need
 * time to renew. So it does when the database's clock was set by CLOCK_SET or more: by that clock all leases are over
 * then, or none is for long. An answer that is late by as much only puts rescues off. */
static const double OUTAGE = 0.6, AFTER_OUTAGE = 0.5, CLOCK_SET = 0.2;

/* Between 0.75 and 1.25 times `seconds`, so that a thousand workers do not ask at the same time. */
static double jittered(double seconds)
{
    uint16_t bits = 0;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != sizeof bits) bits = (uint16_t)getpid();
    return seconds * (0.75 + 0.5 * bits / 65536.0);
}

/* ---- taking work ---- */

/* A worker of another version than the database's takes no runs, also when the database was upgraded while it ran. A
 * newer worker waits for the upgrade; an older one ends. */
static bool fits_database(struct worker *worker)
{
    struct error error;
    enum migrations_age age;
    const enum status status = migrations_compare(worker->connection, &age, &error);
    if (status == STATUS_OK) return true;
    worker->refused = status == STATUS_CONFLICT && age == MIGRATIONS_OLDER;
    if (status == STATUS_UNAVAILABLE || (!worker->refused && worker_now() < worker->said_at)) return false;
    worker->said_at = worker_now() + AGAIN_SECONDS;
    worker_say("takes no work", &error);
    return false;
}

/* True when the database has our version and the worker is in the table of workers. */
static bool ready(struct worker *worker)
{
    struct error error;
    if (worker->registered) return true;
    if (!fits_database(worker)) return false;
    const enum status status = worker_register(worker->connection, &worker->identity, &error);
    worker->registered = status == STATUS_OK;
    if (!worker->registered && status != STATUS_UNAVAILABLE) worker_say("cannot take work", &error);
    return worker->registered;
}

static void take_batch(struct worker *worker, struct leased_run *runs, size_t count, double sent_at)
{
    struct error error;
    if (batch_start(&worker->options, runs, count, worker->engine_connection, worker->team, worker->gate, worker->wake,
                    &worker->batch, &error) != STATUS_OK) {
        struct error ignored;
        worker_say("cannot start a run", &error);
        for (size_t i = 0; i < count; i++) {
            if (queue_release(worker->connection, &runs[i].lease, &ignored) != STATUS_OK)
                worker_say("cannot give it back", &ignored);
            leased_run_reset(&runs[i]);
        }
        worker->lease_at = worker_now() + HOUSEKEEPING_SECONDS;
        return;
    }
    worker->watched_at = sent_at;
    worker->silence = 0;
    worker->moves_seen = 0;
    worker->read_seen = machine_bytes_read();
    for (size_t i = 0; i < count; i++)
        worker->members[i] = (struct held_member){
            .number = i,
            .renewed_at = sent_at,
            .beat_at = sent_at + worker->lease_seconds / 3,
            .peek_at = sent_at + WORKER_POLL_SECONDS,
            .flush_at = sent_at,
        };
}

/* Leases the other members of a run's batch; when that fails the run is executed alone. */
static size_t seek_members(struct worker *worker, struct leased_run *runs)
{
    struct error error;
    size_t count = 0;
    const struct kind *kind = kind_find(worker->options.kinds, runs[0].kind);
    if (kind == NULL || kind->execute_batch == NULL) return 0;
    const enum status status =
        queue_lease_members(worker->connection, &worker->identity, &runs[0].lease, worker->lease_seconds,
                            WORKER_BATCH_MOST - 1, runs + 1, &count, &error);
    if (status != STATUS_OK && status != STATUS_UNAVAILABLE)
        worker_say("cannot ask for the other members of a batch", &error);
    return count;
}

static bool aside(const struct worker *worker)
{
    return strcmp(worker->identity.device_state.state, "aside") == 0;
}

static void seek_work(struct worker *worker)
{
    struct leased_run runs[WORKER_BATCH_MOST];
    struct error error;
    bool found;
    const double sent_at = worker_now();
    worker->lease_at = sent_at + jittered(WORKER_POLL_SECONDS);
    if (!drain_may_lease(&worker->drain, sent_at) || !ready(worker) || aside(worker)) return;
    const enum status status = queue_lease(worker->connection, &worker->identity, worker->kinds, worker->kind_count,
                                           worker->lease_seconds, &found, &runs[0], &error);
    if (status != STATUS_OK) {
        if (status != STATUS_UNAVAILABLE) worker_say("cannot ask for work", &error);
        return;
    }
    if (!found) return;
    const size_t others = seek_members(worker, runs);
    take_batch(worker, runs, 1 + others, sent_at);
}

/* Call it when the database has answered, whose clock is `clock`. True when there was no recent outage, and the clock
 * was not set. */
static bool steady(struct worker *worker, double clock)
{
    const double time = worker_now(), ahead = clock - time;
    if (worker->answered_at <= 0 ||
        time - worker->answered_at > worker->lease_seconds * OUTAGE + 2 * WORKER_POLL_SECONDS ||
        fabs(ahead - worker->clock_ahead) > worker->lease_seconds * CLOCK_SET)
        worker->steady_since = time;
    worker->answered_at = time;
    worker->clock_ahead = ahead;
    return time - worker->steady_since >= worker->lease_seconds * AFTER_OUTAGE;
}

static void keep_house(struct worker *worker)
{
    struct error error;
    int rescued = 0;
    double clock = worker->clock_ahead + worker_now();
    worker->housekeeping_at =
        worker_now() +
        jittered(worker->lease_seconds / 3 < HOUSEKEEPING_SECONDS ? worker->lease_seconds / 3 : HOUSEKEEPING_SECONDS);
    if (worker->registered) {
        bool listed;
        if (worker_seen(worker->connection, &worker->identity.id, &listed, &clock, &error) != STATUS_OK) return;
        worker->registered = listed; /* who took this process for dead may have removed it */
    }
    if (!ready(worker)) return;
    if (!fits_database(worker)) return;
    if (!steady(worker, clock)) return;
    if (queue_rescue(worker->connection, worker->lease_seconds, &rescued, &error) != STATUS_OK) return;
    if (rescued > 0)
        log_warning(LOG_COMPONENT_WORKER, "rescued %d run%s of workers that are gone", rescued,
                    rescued == 1 ? "" : "s");
}

/* ---- clean-up ---- */

static void begin_cleanup(struct worker *worker)
{
    struct error error;
    worker->cleaned = 0;
    cleanup_note(worker->options.data_directory);
    enum status status =
        cleanup_all(worker->connection, worker->options.node, worker->options.data_directory, &worker->cleaned, &error);
    if (status == STATUS_OK) status = cleanup_artifacts(worker->options.data_directory, &worker->unused, &error);
    if (status != STATUS_OK) worker_say("cannot clean up the data directory", &error);
    if (worker->options.artifact_store != NULL &&
        cleanup_bucket(worker->connection, worker->options.artifact_store, &worker->cleaned, &error) != STATUS_OK)
        worker_say("cannot remove from the bucket what runs that have ended went on from", &error);
}

static void end_cleanup(struct worker *worker)
{
    unused_artifacts_free(worker->unused);
    worker->unused = NULL;
    worker->cleanup_at = worker_now() + jittered(CLEANUP_SECONDS);
    if (worker->cleaned > 0) log_info(LOG_COMPONENT_WORKER, "removed %d leftovers", worker->cleaned);
}

/* Whether a signal or a notification is waiting to be read. */
static bool is_called(const struct worker *worker)
{
    struct pollfd descriptors[] = {{.fd = worker->signals, .events = POLLIN},
                                   {.fd = connection_socket(worker->connection), .events = POLLIN}};
    return poll(descriptors, 2, 0) > 0;
}

/* Removes unused artifacts, at least a part of them, for `seconds` or until something comes. True when all were looked
 * at. */
static bool clean_slice(struct worker *worker, double seconds)
{
    struct error error;
    const double end = worker_now() + seconds;
    bool done = worker->unused == NULL;
    while (!done) {
        if (unused_artifacts_remove(worker->unused, worker->connection, &done, &worker->cleaned, &error) != STATUS_OK) {
            worker_say("cannot remove unused artifacts", &error);
            return true;
        }
        if (is_called(worker) || worker_now() >= end) break;
    }
    return done;
}

/* A worker of a short job ends before its own time to clean up, and does so where all others did too. */
static bool should_clean(struct worker *worker)
{
    const double time = worker_now();
    if (time >= worker->cleanup_at) return true;
    if (time < worker->overdue_at) return false;
    worker->overdue_at = time + jittered(AGAIN_SECONDS);
    return cleanup_overdue(worker->options.data_directory);
}

/* Called between runs, because it may take longer than a lease may go without a beat. What a slice leaves is for the
 * next call. After a notification, which may be of a run, the slice is one part. */
static void clean_up(struct worker *worker, bool hinted)
{
    if (!worker->registered) return;
    if (worker->unused == NULL) {
        if (!should_clean(worker)) return;
        begin_cleanup(worker);
    }
    if (clean_slice(worker, hinted ? 0 : SLICE_SECONDS)) end_cleanup(worker);
}

/* ---- stopping ---- */

static void begin_stop(struct worker *worker)
{
    if (!worker->stopping) worker->stop_at = worker_now();
    worker->stopping = true;
    if (worker->batch != NULL) batch_drain(worker->batch);
}

static void read_signals(struct worker *worker)
{
    struct signalfd_siginfo info;
    while (read(worker->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        worker->stops++;
        begin_stop(worker);
    }
}

static void heed_drain(struct worker *worker)
{
    const enum drain_reason reason = drain_due(&worker->drain, worker_now(), worker->batch != NULL);
    if (worker->stopping || reason == DRAIN_NOT) return;
    log_info(LOG_COMPONENT_WORKER, "ends: %s", drain_words(reason));
    begin_stop(worker);
}

/* The engine did not reach its next step in time: the run returns to the queue, and the process ends with the
 * engine. */
static void leave_engine(struct worker *worker)
{
    struct error error;
    for (size_t i = 0; i < batch_count(worker->batch); i++) {
        const struct held_member *member = &worker->members[i];
        if (!member->done && !member->lost &&
            queue_release(worker->connection, worker_lease_of(worker, member), &error) != STATUS_OK)
            worker_say("cannot give the run back", &error);
    }
    if (worker->registered && worker_gone(worker->connection, &worker->identity.id, &error) != STATUS_OK)
        _exit(EXIT_STOPPED);
    _exit(EXIT_STOPPED);
}

/* The process has lost its device. It ends without closing anything, because a driver may hang in that. */
static _Noreturn void leave_device(struct worker *worker)
{
    struct error error;
    log_error(LOG_COMPONENT_WORKER, "ends: its device %s broke down, and only a new process can use it",
              worker->options.device);
    if (worker_gone(worker->connection, &worker->identity.id, &error) != STATUS_OK)
        worker_say("cannot say goodbye", &error);
    _exit(worker->device_proven ? WORKER_EXIT_DEVICE_LATER : WORKER_EXIT_DEVICE);
}

static bool may_exit(struct worker *worker)
{
    if (!worker->stopping && !worker->refused) return false;
    if (worker->batch == NULL) return true;
    if (!worker->stopping) return false;
    if (worker->stops > 1 || worker_now() - worker->stop_at > STOP_SECONDS) leave_engine(worker);
    return false;
}

static int poll_milliseconds(const struct worker *worker)
{
    double wait = worker->lease_at - worker_now();
    if (worker->batch != NULL)
        wait = worker->lease_seconds / 12 < BUSY_SECONDS ? worker->lease_seconds / 12 : BUSY_SECONDS;
    if (wait < 0) return 0;
    return (int)(wait * 1000) + 1;
}

static void wait_for_something(struct worker *worker, bool *hinted)
{
    uint64_t ignored;
    struct pollfd descriptors[] = {{.fd = worker->signals, .events = POLLIN},
                                   {.fd = worker->wake, .events = POLLIN},
                                   {.fd = connection_socket(worker->connection), .events = POLLIN}};
    if (poll(descriptors, 3, poll_milliseconds(worker)) < 0 && errno != EINTR) *hinted = false;
    if ((descriptors[1].revents & POLLIN) != 0 && read(worker->wake, &ignored, sizeof ignored) < 0) *hinted = false;
    *hinted = connection_notified(worker->connection);
}

static int work(struct worker *worker)
{
    struct error error;
    bool hinted = true;
    for (;;) {
        read_signals(worker);
        heed_drain(worker);
        if (worker->batch != NULL) worker_hold(worker, hinted);
        if (worker->broken) leave_device(worker);
        if (may_exit(worker)) break;
        if (worker->batch == NULL && !worker->stopping) clean_up(worker, hinted);
        if (worker->batch == NULL && !worker->stopping && (hinted || worker_now() >= worker->lease_at))
            seek_work(worker);
        if (worker_now() >= worker->housekeeping_at && !worker->stopping) keep_house(worker);
        wait_for_something(worker, &hinted);
    }
    if (worker->registered && worker_gone(worker->connection, &worker->identity.id, &error) != STATUS_OK)
        worker_say("cannot say goodbye", &error);
    return worker->refused ? EXIT_OLDER : EXIT_STOPPED;
}

static enum status prepare(struct worker *worker, struct error *error)
{
    enum status status;
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* before the first thread, because threads inherit the mask */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit on file sizes fails with an error instead */
    if (worker->options.conninfo == NULL) return error_set(error, STATUS_INVALID, "no database: give DATABASE_URL");
    worker->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    worker->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (worker->signals < 0 || worker->wake < 0) return error_set_errno(error, "cannot make a descriptor for signals");
    for (; worker->options.kinds[worker->kind_count] != NULL && worker->kind_count < WORKER_KINDS_MOST;
         worker->kind_count++)
        worker->kinds[worker->kind_count] = worker->options.kinds[worker->kind_count]->name;
    if ((status = gate_new(&worker->gate, error)) != STATUS_OK) return status;
    if (worker->gate != NULL)
        log_warning(LOG_COMPONENT_WORKER, "DELTAQ_TEST_GATE is set, which is for tests: runs may be held");
    if ((status = team_new(worker->options.threads, &worker->team, error)) != STATUS_OK) return status;
    if ((status = connection_new(worker->options.conninfo, "deltaq worker", &worker->connection, error)) != STATUS_OK)
        return status;
    if ((status = connection_new(worker->options.conninfo, "deltaq engine", &worker->engine_connection, error)) !=
        STATUS_OK)
        return status;
    return connection_listen(worker->connection, STORE_CHANNEL, error);
}

int worker_run(const struct worker_options *options)
{
    struct error error;
    struct worker worker = {.options = *options, .signals = -1, .wake = -1};
    int status = EXIT_CANNOT_START;
    worker.lease_seconds = options->lease_seconds > 0 ? options->lease_seconds : QUEUE_LEASE_SECONDS;
    worker.identity.pid = (int)getpid();
    worker.cleanup_at = worker_now() + jittered(options->cleanup_seconds);
    worker.overdue_at = worker_now() + jittered(OVERDUE_LOOK_SECONDS);
    drain_init(&worker.drain, worker_now(), options->limit_seconds, options->idle_seconds);
    if (prepare(&worker, &error) == STATUS_OK) {
        identity_read(options, team_size(worker.team), &worker.identity);
        worker.options.node = worker.identity.node.text;
        if (aside(&worker)) log_error(LOG_COMPONENT_WORKER, "takes no runs: %s", worker.identity.device_state.reason);
        status = work(&worker);
    } else {
        worker_say("cannot start", &error);
    }
    unused_artifacts_free(worker.unused);
    connection_free(worker.engine_connection);
    connection_free(worker.connection);
    team_free(worker.team);
    gate_free(worker.gate);
    if (worker.wake >= 0) (void)close(worker.wake);
    if (worker.signals >= 0) (void)close(worker.signals);
    return status;
}

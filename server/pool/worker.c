#include "pool/worker.h"

#include "base/machine.h"
#include "base/team.h"
#include "log/log.h"
#include "pool/batch.h"
#include "pool/cleanup.h"
#include "pool/drain.h"
#include "pool/gate.h"
#include "pool/identity.h"
#include "store/migrations.h"

#include <errno.h>
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

/* How the main thread spends its time: step() looks at everything that is due and returns; then poll waits for a
 * notification, a signal, the end of the batch, or the next thing due. Times are seconds on CLOCK_BOOTTIME: it goes on
 * while the host is suspended, so a worker that wakes up after its lease knows. */

enum { EXIT_STOPPED = 0, EXIT_CANNOT_START = 1, EXIT_STALLED = 70, EXIT_OLDER = 78, KINDS_MOST = 64 };
static const double STALL_SECONDS = 600;
enum { READ_LEAST = 8 << 20 }; /* bytes of files in that time that show that an engine lives */
static const double POLL_SECONDS = 1, BUSY_SECONDS = 0.25, FLUSH_SECONDS = 0.5, HOUSEKEEPING_SECONDS = 10,
                    RETRY_SECONDS = 0.5, CLEANUP_SECONDS = 3600, AGAIN_SECONDS = 60;
/* Without a successful beat for this part of the lease a worker pauses its runs until it knows whether they are still
 * its own. tests/pool builds without it, to hold the fence of the database alone to its promise. */
#ifndef WORKER_GRACE
#define WORKER_GRACE (2.0 / 3)
#endif
static const double STOP_SECONDS = 8, LOST_SECONDS = 60;
/* In parts of a lease. A gap of so much, and two polls, between two signs of life from the database (or a host that was
 * suspended for so long) is an outage, after which a worker rescues nobody for a while: the others may live, and have
 * time for a beat. */
static const double OUTAGE = 0.6, AFTER_OUTAGE = 0.5;

/* A leased run of the batch, as the main thread holds it. */
struct held_member {
    size_t number;                     /* in the batch */
    double renewed_at;                 /* when the last successful beat was *sent* */
    double beat_at, peek_at, flush_at; /* next */
    uint64_t version_written;
    bool cancelling, lost;
    bool doubted; /* no beat came through for long: paused until one does, or the lease is lost */
    double lost_at;
    bool unsure;   /* an end of the lease was sent and its outcome is not known */
    double end_at; /* when to try again */
    bool done;     /* its end stands, or is not ours to say */
};

struct worker {
    struct worker_options options;
    struct worker_identity identity;
    struct connection *connection, *engine_connection;
    struct team *team;
    struct gate *gate; /* NULL but in tests */
    const char *kinds[KINDS_MOST];
    size_t kind_count;
    int signals, wake;
    double lease_seconds;

    bool registered;
    bool refused;   /* it is older than the database */
    double said_at; /* when it may next say why it takes no work */
    struct drain drain;
    bool stopping;
    int stops;                                    /* signals to stop so far */
    double stop_at;                               /* when it began to stop */
    double lease_at, housekeeping_at, cleanup_at; /* next */
    double answered_at;                           /* when housekeeping last reached the database */
    double steady_since;                          /* since when it has, without an outage */

    struct leased_batch *batch; /* NULL: idle */
    struct held_member members[WORKER_BATCH_MOST];
    uint64_t moves_seen;
    int64_t read_seen; /* machine_bytes_read at moved_at */
    double moved_at;
};

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_BOOTTIME, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Between 0.75 and 1.25 of it, so that a thousand workers do not ask together. */
static double jittered(double seconds)
{
    uint16_t bits = 0;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != sizeof bits) bits = (uint16_t)getpid();
    return seconds * (0.75 + 0.5 * bits / 65536.0);
}

static void say(const char *what, const struct error *error)
{
    log_error(LOG_COMPONENT_WORKER, "%s: %s", what, error->detail);
}

/* ---- taking work ---- */

/* A worker of another version than the database's takes nothing, also when the database was upgraded behind it. One
 * that is newer waits for that; one that is older ends. */
static bool fits_database(struct worker *worker)
{
    struct error error;
    enum migrations_age age;
    const enum status status = migrations_compare(worker->connection, &age, &error);
    if (status == STATUS_OK) return true;
    worker->refused = status == STATUS_CONFLICT && age == MIGRATIONS_OLDER;
    if (status == STATUS_UNAVAILABLE || (!worker->refused && now() < worker->said_at)) return false;
    worker->said_at = now() + AGAIN_SECONDS;
    say("takes no work", &error);
    return false;
}

/* True when the database is of our version and we stand in the table of workers. */
static bool ready(struct worker *worker)
{
    struct error error;
    if (worker->registered) return true;
    if (!fits_database(worker)) return false;
    const enum status status = worker_register(worker->connection, &worker->identity, &error);
    worker->registered = status == STATUS_OK;
    if (!worker->registered && status != STATUS_UNAVAILABLE) say("cannot take work", &error);
    return worker->registered;
}

static const struct lease *lease_of(const struct worker *worker, const struct held_member *member)
{
    return batch_lease(worker->batch, member->number);
}

static void take_batch(struct worker *worker, struct leased_run *runs, size_t count, double sent_at)
{
    struct error error;
    if (batch_start(&worker->options, runs, count, worker->engine_connection, worker->team, worker->gate, worker->wake,
                    &worker->batch, &error) != STATUS_OK) {
        struct error ignored;
        say("cannot start a run", &error);
        for (size_t i = 0; i < count; i++) {
            if (queue_release(worker->connection, &runs[i].lease, &ignored) != STATUS_OK)
                say("cannot give it back", &ignored);
            leased_run_reset(&runs[i]);
        }
        worker->lease_at = now() + HOUSEKEEPING_SECONDS;
        return;
    }
    worker->moved_at = sent_at;
    worker->moves_seen = 0;
    worker->read_seen = machine_bytes_read();
    for (size_t i = 0; i < count; i++)
        worker->members[i] = (struct held_member){
            .number = i,
            .renewed_at = sent_at,
            .beat_at = sent_at + worker->lease_seconds / 3,
            .peek_at = sent_at + POLL_SECONDS,
            .flush_at = sent_at,
        };
}

/* The other members of a run's batch; without them it goes alone. */
static size_t seek_members(struct worker *worker, struct leased_run *runs)
{
    struct error error;
    size_t count = 0;
    const struct kind *kind = kind_find(worker->options.kinds, runs[0].kind);
    if (kind == NULL || kind->execute_batch == NULL) return 0;
    const enum status status =
        queue_lease_members(worker->connection, &worker->identity, &runs[0].lease, worker->lease_seconds,
                            WORKER_BATCH_MOST - 1, runs + 1, &count, &error);
    if (status != STATUS_OK && status != STATUS_UNAVAILABLE) say("cannot ask for the other members of a batch", &error);
    return count;
}

static void seek_work(struct worker *worker)
{
    struct leased_run runs[WORKER_BATCH_MOST];
    struct error error;
    bool found;
    const double sent_at = now();
    worker->lease_at = sent_at + jittered(POLL_SECONDS);
    if (!drain_may_lease(&worker->drain, sent_at) || !ready(worker)) return;
    const enum status status = queue_lease(worker->connection, &worker->identity, worker->kinds, worker->kind_count,
                                           worker->lease_seconds, &found, &runs[0], &error);
    if (status != STATUS_OK) {
        if (status != STATUS_UNAVAILABLE) say("cannot ask for work", &error);
        return;
    }
    if (!found) return;
    const size_t others = seek_members(worker, runs);
    take_batch(worker, runs, 1 + others, sent_at);
}

/* Called when the database has answered. */
static bool steady(struct worker *worker)
{
    const double time = now();
    if (worker->answered_at <= 0 || time - worker->answered_at > worker->lease_seconds * OUTAGE + 2 * POLL_SECONDS)
        worker->steady_since = time;
    worker->answered_at = time;
    return time - worker->steady_since >= worker->lease_seconds * AFTER_OUTAGE;
}

static void keep_house(struct worker *worker)
{
    struct error error;
    int rescued = 0;
    worker->housekeeping_at =
        now() +
        jittered(worker->lease_seconds / 3 < HOUSEKEEPING_SECONDS ? worker->lease_seconds / 3 : HOUSEKEEPING_SECONDS);
    if (!worker->registered || worker_seen(worker->connection, &worker->identity.id, &error) != STATUS_OK) return;
    if (!fits_database(worker)) return;
    if (!steady(worker)) return;
    if (queue_rescue(worker->connection, worker->lease_seconds, &rescued, &error) != STATUS_OK) return;
    if (rescued > 0) log_warning(LOG_COMPONENT_WORKER, "rescued %d runs of workers that are gone", rescued);
}

/* Between two runs, since it may take longer than a lease can go without a beat. */
static void clean_up(struct worker *worker)
{
    struct error error;
    int removed = 0;
    if (!worker->registered || now() < worker->cleanup_at) return;
    worker->cleanup_at = now() + jittered(CLEANUP_SECONDS);
    if (cleanup_all(worker->connection, worker->options.data_directory, &removed, &error) != STATUS_OK)
        say("cannot clean up the data directory", &error);
    else if (removed > 0)
        log_info(LOG_COMPONENT_WORKER, "removed %d leftovers", removed);
}

/* ---- holding it ---- */

/* Between two thirds of a lease without a beat and the next one that comes through the engine waits: what it has is not
 * lost when the run is still ours, and nothing is written when it is another's. */
static void doubt(struct worker *worker, struct held_member *member)
{
    const bool doubted = now() - member->renewed_at > worker->lease_seconds * WORKER_GRACE;
    if (doubted == member->doubted) return;
    member->doubted = doubted;
    batch_pause(worker->batch, member->number, doubted);
    const char *run = lease_of(worker, member)->run.text;
    log_line(&(struct log_about){.level = LOG_LEVEL_WARNING, .component = LOG_COMPONENT_WORKER, .run = run},
             "run %s %s", run, doubted ? "waits: the database did not answer for two thirds of the lease" : "goes on");
}

static void lose(struct worker *worker, struct held_member *member, const char *why)
{
    if (member->lost) return;
    member->lost = true;
    member->lost_at = now();
    batch_stop(worker->batch, member->number, STATUS_LEASE_LOST, why);
    const char *run = lease_of(worker, member)->run.text;
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
    const double sent_at = now();
    const enum status status = queue_beat(worker->connection, lease_of(worker, member), worker->lease_seconds,
                                          view->version > 0 ? &view->progress : NULL, &cancel, &error);
    member->peek_at = sent_at + POLL_SECONDS;
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
    member->peek_at = now() + POLL_SECONDS;
    const enum status status = queue_peek(worker->connection, lease_of(worker, member), &cancel, &error);
    heed(worker, member, status, cancel);
}

static void flush_log(struct worker *worker, struct held_member *member)
{
    struct error error;
    json_t *lines = batch_lines(worker->batch, member->number);
    if (lines == NULL) return;
    const enum status status = queue_log(worker->connection, lease_of(worker, member), lines, &error);
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
            queue_stalled(worker->connection, lease_of(worker, member), evidence, &error) != STATUS_OK)
            say("cannot say so", &error);
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
    const double time = now();
    const double limit = worker->options.stall_seconds > 0 ? worker->options.stall_seconds : STALL_SECONDS;
    if (view->moves != worker->moves_seen || member->doubted || reads_on(worker)) {
        worker->moves_seen = view->moves;
        worker->read_seen = machine_bytes_read();
        worker->moved_at = time;
    }
    if (time - worker->moved_at > limit) give_up(worker, time - worker->moved_at);
    if (member->lost && time - member->lost_at > LOST_SECONDS) give_up(worker, time - member->lost_at);
}

/* ---- the end ---- */

/* Sends what the run came to. STATUS_LEASE_LOST: it is not ours to say. */
static enum status send_end(struct worker *worker, const struct held_member *member, struct error *error)
{
    struct batch_outcome outcome;
    const struct lease *lease = lease_of(worker, member);
    batch_outcome(worker->batch, member->number, &outcome);
    if (outcome.status == STATUS_OK) {
        const enum status status = queue_finish(worker->connection, lease, &outcome.result, error);
        if (status == STATUS_OK || status == STATUS_LEASE_LOST || status_info(status)->retry) return status;
        outcome.error = *error; /* the database refuses what the kind gave: that is how the run ends */
        return queue_fail(worker->connection, lease, &outcome.error, &outcome.result.usage, error);
    }
    if (member->cancelling && outcome.status == STATUS_CANCELLED)
        return queue_cancelled(worker->connection, lease, &outcome.result.usage, error);
    if (outcome.status == STATUS_TOO_LARGE) {
        bool elsewhere;
        const enum status status =
            queue_too_large(worker->connection, lease, &worker->identity, outcome.error.detail, &elsewhere, error);
        if (status != STATUS_OK || elsewhere) return status;
    }
    if (outcome.given_back || (worker->stopping && outcome.status == STATUS_LEASE_LOST))
        return queue_release(worker->connection, lease, error);
    return queue_fail(worker->connection, lease, &outcome.error, &outcome.result.usage, error);
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
    if (now() < member->end_at) return;
    flush_log(worker, member);
    if (member->unsure) status = queue_outcome(worker->connection, lease_of(worker, member), &open, &error);
    if (status == STATUS_OK && open) status = send_end(worker, member, &error);
    if (status != STATUS_OK && status != STATUS_LEASE_LOST) {
        member->unsure = true;
        member->end_at = now() + RETRY_SECONDS;
        return;
    }
    /* What is not removed now, because the database went away, is removed within the hour. */
    if (status == STATUS_OK && cleanup_run(worker->connection, worker->options.data_directory,
                                           lease_of(worker, member)->run.text, &error) != STATUS_OK)
        say("cannot clean up after a run", &error);
    store_notify(worker->connection);
    member->done = true;
}

static void hold_member(struct worker *worker, struct held_member *member, bool hinted)
{
    struct batch_view view;
    batch_look(worker->batch, member->number, &view);
    if (!member->lost) doubt(worker, member);
    if (!member->lost) {
        const double time = now();
        const bool flush = time >= member->flush_at;
        if (time >= member->beat_at || ((flush || view.ended) && view.version != member->version_written))
            beat(worker, member, &view);
        else if (hinted || time >= member->peek_at)
            peek(worker, member);
        if (flush && !member->lost) flush_log(worker, member);
        if (flush) member->flush_at = now() + FLUSH_SECONDS;
        doubt(worker, member);
    }
    if (view.ended)
        end_run(worker, member);
    else
        watch_engine(worker, member, &view);
}

static void hold_batch(struct worker *worker, bool hinted)
{
    bool done = true;
    for (size_t i = 0; i < batch_count(worker->batch); i++) {
        struct held_member *member = &worker->members[i];
        if (!member->done) hold_member(worker, member, hinted);
        done = done && member->done;
    }
    if (!done) return;
    batch_free(worker->batch);
    worker->batch = NULL;
    worker->lease_at = 0;
}

/* ---- stopping ---- */

static void begin_stop(struct worker *worker)
{
    if (!worker->stopping) worker->stop_at = now();
    worker->stopping = true;
    for (size_t i = 0; worker->batch != NULL && i < batch_count(worker->batch); i++)
        batch_stop(worker->batch, i, STATUS_LEASE_LOST, "the worker is stopping");
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
    const enum drain_reason reason = drain_due(&worker->drain, now(), worker->batch != NULL);
    if (worker->stopping || reason == DRAIN_NOT) return;
    log_info(LOG_COMPONENT_WORKER, "ends: %s", drain_words(reason));
    begin_stop(worker);
}

/* The engine did not come to its next step in time: the run goes back without it, and the process ends with it. */
static void leave_engine(struct worker *worker)
{
    struct error error;
    for (size_t i = 0; i < batch_count(worker->batch); i++) {
        const struct held_member *member = &worker->members[i];
        if (!member->done && !member->lost &&
            queue_release(worker->connection, lease_of(worker, member), &error) != STATUS_OK)
            say("cannot give the run back", &error);
    }
    if (worker->registered && worker_gone(worker->connection, &worker->identity.id, &error) != STATUS_OK)
        _exit(EXIT_STOPPED);
    _exit(EXIT_STOPPED);
}

static bool may_exit(struct worker *worker)
{
    if (!worker->stopping && !worker->refused) return false;
    if (worker->batch == NULL) return true;
    if (!worker->stopping) return false;
    if (worker->stops > 1 || now() - worker->stop_at > STOP_SECONDS) leave_engine(worker);
    return false;
}

static int poll_milliseconds(const struct worker *worker)
{
    double wait = worker->lease_at - now();
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
        if (worker->batch != NULL) hold_batch(worker, hinted);
        if (may_exit(worker)) break;
        if (worker->batch == NULL && !worker->stopping) clean_up(worker);
        if (worker->batch == NULL && !worker->stopping && (hinted || now() >= worker->lease_at)) seek_work(worker);
        if (now() >= worker->housekeeping_at && !worker->stopping) keep_house(worker);
        wait_for_something(worker, &hinted);
    }
    if (worker->registered && worker_gone(worker->connection, &worker->identity.id, &error) != STATUS_OK)
        say("cannot say goodbye", &error);
    return worker->refused ? EXIT_OLDER : EXIT_STOPPED;
}

static enum status prepare(struct worker *worker, struct error *error)
{
    enum status status;
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* before the first thread: all of them inherit it */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit of files' sizes fails, and says so */
    if (worker->options.conninfo == NULL) return error_set(error, STATUS_INVALID, "no database: give DATABASE_URL");
    worker->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    worker->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (worker->signals < 0 || worker->wake < 0) return error_set_errno(error, "cannot make a descriptor for signals");
    for (; worker->options.kinds[worker->kind_count] != NULL && worker->kind_count < KINDS_MOST; worker->kind_count++)
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
    drain_init(&worker.drain, now(), options->limit_seconds, options->idle_seconds);
    if (prepare(&worker, &error) == STATUS_OK) {
        identity_read(options, team_size(worker.team), &worker.identity);
        status = work(&worker);
    } else {
        say("cannot start", &error);
    }
    connection_free(worker.engine_connection);
    connection_free(worker.connection);
    team_free(worker.team);
    gate_free(worker.gate);
    if (worker.wake >= 0) (void)close(worker.wake);
    if (worker.signals >= 0) (void)close(worker.signals);
    return status;
}

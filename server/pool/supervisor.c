#include "pool/supervisor.h"

#include "base/clock.h"
#include "log/log.h"
#include "pool/worker.h"
#include "postgres/child.h"
#include "postgres/embedded.h"
#include "store/queue.h"
#include "store/workers.h"

#include <errno.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    BACKOFF_FIRST_MS = 200,
    BACKOFF_LAST_MS = 10000,
    FAST_MS = 10000,
    STOP_MS = 10000,
    HURRIED_MS = 1000,
    BURIALS_MOST = 64,
    ARGUMENTS_MOST = 256
};

struct slot {
    pid_t pid; /* 0: none */
    struct store_id owner;
    int failures; /* consecutive short lives */
    int faults;   /* consecutive workers that ended because of their device, without a successful run between */
    int64_t started_at, start_at;
};

/* A dead worker whose leases must still be released; the database may be unavailable when it dies. */
struct burial {
    struct store_id owner;
    enum queue_death death;
    char evidence[96];
};

struct supervisor {
    struct supervisor_options options;
    struct connection *connection;
    struct slot *slots; /* the workers' slots, then that of the other process */
    int slot_count;
    struct burial burials[BURIALS_MOST];
    int burial_count;
    int signals;
    bool stopping, searched;
    int64_t ticked_at;
};

static sigset_t watched(bool hangup)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGCHLD);
    if (hangup) (void)sigaddset(&set, SIGHUP);
    return set;
}

void supervisor_block_signals(bool hangup)
{
    const sigset_t set = watched(hangup);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
}

/* ---- starting a worker ---- */

/* The environment of a worker, made before the fork: ours, with the database, and the worker's id and number. *out and
 * the four texts are owned. */
static enum status worker_environment(const struct supervisor *supervisor, const struct slot *slot, char ***out,
                                      struct error *error)
{
    size_t count = 0, kept = 0;
    char *database = NULL, *owner = NULL, *number = NULL, *faults = NULL;
    while (environ[count] != NULL) count++;
    char **variables = calloc(count + 5, sizeof *variables);
    if (variables == NULL || asprintf(&database, "DATABASE_URL=%s", supervisor->options.conninfo) < 0 ||
        asprintf(&owner, "DELTAQ_WORKER_ID=%s", slot->owner.text) < 0 ||
        asprintf(&number, "DELTAQ_WORKER_SLOT=%d", (int)(slot - supervisor->slots)) < 0 ||
        asprintf(&faults, "DELTAQ_DEVICE_FAULTS=%d", slot->faults) < 0) {
        free(variables);
        free(database);
        free(owner);
        free(number);
        return error_set(error, STATUS_NO_MEMORY, "no memory to start a worker");
    }
    variables[kept++] = database;
    variables[kept++] = owner;
    variables[kept++] = number;
    variables[kept++] = faults;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "DATABASE_URL=", 13) != 0 && strncmp(environ[i], "DELTAQ_WORKER_ID=", 17) != 0 &&
            strncmp(environ[i], "DELTAQ_WORKER_SLOT=", 19) != 0 &&
            strncmp(environ[i], "DELTAQ_DEVICE_FAULTS=", 21) != 0)
            variables[kept++] = environ[i];
    *out = variables;
    return STATUS_OK;
}

static _Noreturn void become_worker(const struct supervisor *supervisor, char **arguments, char **variables,
                                    pid_t parent)
{
    sigset_t none;
    (void)sigemptyset(&none);
    for (int i = 1; i < SIGRTMIN; i++)
        if (i != SIGKILL && i != SIGSTOP) (void)signal(i, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
    (void)setpgid(0, 0); /* Ctrl-C in a terminal reaches the supervisor only */
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() != parent) _exit(127);
    (void)execve(supervisor->options.executable, arguments, variables);
    _exit(127);
}

static void start_worker(struct supervisor *supervisor, struct slot *slot)
{
    struct error error;
    char **variables = NULL, *arguments[ARGUMENTS_MOST] = {NULL};
    const pid_t parent = getpid();
    slot->owner = store_id_new();
    slot->started_at = clock_milliseconds();
    if (worker_environment(supervisor, slot, &variables, &error) != STATUS_OK) {
        slot->start_at = clock_milliseconds() + BACKOFF_LAST_MS;
        return;
    }
    union {
        const char *constant;
        char *plain;
    } word = {.constant = supervisor->options.executable};
    arguments[0] = word.plain;
    const bool worker = slot - supervisor->slots < supervisor->options.workers;
    const char *const *words = worker ? supervisor->options.arguments : supervisor->options.beside;
    for (size_t i = 0; i < ARGUMENTS_MOST - 2 && words[i] != NULL; i++) {
        word.constant = words[i];
        arguments[i + 1] = word.plain;
    }
    slot->pid = fork();
    if (slot->pid == 0) become_worker(supervisor, arguments, variables, parent);
    if (slot->pid < 0) {
        slot->pid = 0;
        slot->start_at = clock_milliseconds() + BACKOFF_LAST_MS;
    }
    free(variables[0]);
    free(variables[1]);
    free(variables[2]);
    free(variables[3]);
    free(variables);
}

/* ---- the dead ---- */

static void note_death(struct supervisor *supervisor, const struct store_id *owner, enum queue_death death,
                       const char *evidence)
{
    if (supervisor->burial_count == BURIALS_MOST) {
        log_error(LOG_COMPONENT_SUPERVISOR,
                  "too many dead workers at once: runs of worker %s wait for the end of its lease", owner->text);
        return;
    }
    struct burial *burial = &supervisor->burials[supervisor->burial_count++];
    burial->owner = *owner;
    burial->death = death;
    (void)snprintf(burial->evidence, sizeof burial->evidence, "%s", evidence);
}

static void bury(struct supervisor *supervisor)
{
    struct error error;
    while (supervisor->burial_count > 0) {
        const struct burial *burial = &supervisor->burials[supervisor->burial_count - 1];
        if (queue_release_dead(supervisor->connection, &burial->owner, burial->death, burial->evidence, NULL, &error) !=
            STATUS_OK)
            return;
        if (worker_gone(supervisor->connection, &burial->owner, &error) != STATUS_OK) return;
        supervisor->burial_count--;
    }
}

/* A device that was put aside stays so until the server is restarted, because nothing tells whether it was repaired. */
static void note_fault(struct supervisor *supervisor, struct slot *slot, int end)
{
    const int code = WIFEXITED(end) ? WEXITSTATUS(end) : 0;
    if (slot->faults >= WORKER_FAULTS_MOST) return;
    slot->faults = code == WORKER_EXIT_DEVICE ? slot->faults + 1 : code == WORKER_EXIT_DEVICE_LATER;
    if (slot->faults == WORKER_FAULTS_MOST)
        log_error(LOG_COMPONENT_SUPERVISOR,
                  "the device of worker %d broke down %d times in a row: it is put aside until the server is restarted",
                  (int)(slot - supervisor->slots), slot->faults);
}

static void note_end(struct supervisor *supervisor, struct slot *slot, int end)
{
    char evidence[96];
    int64_t delay = BACKOFF_FIRST_MS;
    child_describe_end(end, evidence, sizeof evidence);
    if (!supervisor->stopping)
        log_error(LOG_COMPONENT_SUPERVISOR, "%s process %d ended: %s",
                  slot - supervisor->slots < supervisor->options.workers ? "worker" : "launcher", (int)slot->pid,
                  evidence);
    note_death(supervisor, &slot->owner, QUEUE_CRASHED, evidence);
    note_fault(supervisor, slot, end);
    slot->pid = 0;
    slot->failures = clock_milliseconds() - slot->started_at < FAST_MS ? slot->failures + 1 : 0;
    for (int i = 1; i < slot->failures && delay < BACKOFF_LAST_MS; i++) delay *= 2;
    slot->start_at = clock_milliseconds() + (delay < BACKOFF_LAST_MS ? delay : BACKOFF_LAST_MS);
}

/* Finds workers of an earlier server on this host whose death nobody reported: the host has booted since, or their
 * process is gone. A process that only looks dead from here merely loses its runs through the fence. */
static void search_dead(struct supervisor *supervisor)
{
    struct error error;
    json_t *gone = NULL;
    size_t i;
    json_t *id;
    if (worker_dead_here(supervisor->connection, &gone, &error) != STATUS_OK) return;
    json_array_foreach(gone, i, id)
    {
        struct store_id owner;
        (void)snprintf(owner.text, sizeof owner.text, "%s", json_string_value(id));
        note_death(supervisor, &owner, QUEUE_VANISHED, "its process was gone when the server started");
    }
    json_decref(gone);
    supervisor->searched = true;
}

/* As process 1 of a container we inherit orphans; children that somebody here waits for are not reaped. */
static void reap_orphans(const struct supervisor *supervisor)
{
    siginfo_t info;
    for (;;) {
        memset(&info, 0, sizeof info);
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
        bool ours = supervisor->options.embedded != NULL && info.si_pid == embedded_pid(supervisor->options.embedded);
        for (int i = 0; i < supervisor->slot_count; i++) ours = ours || info.si_pid == supervisor->slots[i].pid;
        if (ours || waitpid(info.si_pid, NULL, WNOHANG) != info.si_pid) return;
    }
}

/* ---- the loop ---- */

static void step(struct supervisor *supervisor)
{
    if (supervisor->options.embedded != NULL) embedded_tick(supervisor->options.embedded);
    for (int i = 0; i < supervisor->slot_count; i++) {
        struct slot *slot = &supervisor->slots[i];
        int end;
        if (slot->pid != 0 && waitpid(slot->pid, &end, WNOHANG) == slot->pid) note_end(supervisor, slot, end);
        if (slot->pid == 0 && !supervisor->stopping && clock_milliseconds() >= slot->start_at)
            start_worker(supervisor, slot);
    }
    if (getpid() == 1) reap_orphans(supervisor);
    if (!supervisor->searched) search_dead(supervisor);
    bury(supervisor);
    if (supervisor->options.tick == NULL || supervisor->stopping || clock_milliseconds() - supervisor->ticked_at < 1000)
        return;
    supervisor->ticked_at = clock_milliseconds();
    supervisor->options.tick(supervisor->options.context);
}

/* The timeout of poll: short while something is due soon. */
static int poll_ms(const struct supervisor *supervisor)
{
    struct error ignored;
    if (supervisor->burial_count > 0 || supervisor->stopping) return 50;
    if (supervisor->options.embedded != NULL && embedded_state(supervisor->options.embedded, &ignored) != STATUS_OK)
        return 50;
    for (int i = 0; i < supervisor->slot_count; i++)
        if (supervisor->slots[i].pid == 0) return 50;
    return 1000;
}

/* Returns 0, or the signal to stop. */
static int wait_for_signal(const struct supervisor *supervisor)
{
    struct signalfd_siginfo info;
    struct pollfd descriptor = {.fd = supervisor->signals, .events = POLLIN};
    int stop = 0;
    bool hangup = false;
    if (poll(&descriptor, 1, poll_ms(supervisor)) <= 0) return 0;
    while (read(supervisor->signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo == SIGHUP)
            hangup = true;
        else if (info.ssi_signo != SIGCHLD)
            stop = (int)info.ssi_signo;
    if (hangup && !supervisor->stopping) supervisor->options.hangup(supervisor->options.context);
    return stop;
}

enum status supervisor_start(const struct supervisor_options *options, struct supervisor **out, struct error *error)
{
    enum status status;
    const sigset_t set = watched(options->hangup != NULL);
    struct supervisor *supervisor = calloc(1, sizeof *supervisor);
    *out = NULL;
    if (supervisor == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the supervisor");
    supervisor->options = *options;
    if (options->executable == NULL) supervisor->options.executable = "/proc/self/exe";
    supervisor->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    supervisor->slot_count = options->workers + (options->beside != NULL);
    supervisor->slots = calloc((size_t)supervisor->slot_count + 1, sizeof *supervisor->slots);
    if (supervisor->signals < 0 || supervisor->slots == NULL) {
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the supervisor");
        goto failed;
    }
    if ((status = connection_new(options->conninfo, "deltaq supervisor", &supervisor->connection, error)) != STATUS_OK)
        goto failed;
    step(supervisor);
    *out = supervisor;
    return STATUS_OK;
failed:
    supervisor->slot_count = 0;
    supervisor_stop(supervisor);
    return status;
}

int supervisor_run(struct supervisor *supervisor)
{
    for (;;) {
        const int stop = wait_for_signal(supervisor);
        if (stop != 0) return stop;
        step(supervisor);
    }
}

static int signal_workers(const struct supervisor *supervisor, int signal)
{
    int alive = 0;
    for (int i = 0; i < supervisor->slot_count; i++) {
        if (supervisor->slots[i].pid == 0) continue;
        alive++;
        if (signal != 0) (void)kill(supervisor->slots[i].pid, signal);
    }
    return alive;
}

void supervisor_stop(struct supervisor *supervisor)
{
    if (supervisor == NULL) return;
    supervisor->stopping = true;
    int64_t end = clock_milliseconds() + STOP_MS;
    for (int alive = signal_workers(supervisor, SIGTERM); alive > 0; alive = signal_workers(supervisor, 0)) {
        if (wait_for_signal(supervisor) != 0 && end > clock_milliseconds() + HURRIED_MS) {
            end = clock_milliseconds() + HURRIED_MS;
            (void)signal_workers(supervisor, SIGTERM); /* a second signal: the workers do not wait for the engine */
        }
        if (clock_milliseconds() > end) (void)signal_workers(supervisor, SIGKILL);
        step(supervisor);
    }
    connection_free(supervisor->connection);
    if (supervisor->signals >= 0) (void)close(supervisor->signals);
    free(supervisor->slots);
    free(supervisor);
}

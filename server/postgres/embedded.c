#include "postgres/embedded.h"

#include "base/clock.h"
#include "log/log.h"
#include "postgres/archive_segments.h"
#include "postgres/child.h"
#include "postgres/cluster.h"
#include "postgres/cluster_lock.h"
#include "postgres/leftovers.h"
#include "postgres/session.h"

#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    BALLAST_BYTES = 64 << 20,
    BACKOFF_FIRST_MS = 200,
    BACKOFF_LAST_MS = 10000,
    FAST_FAILURE_MS = 10000, /* an end sooner than this after the start counts towards `degraded` */
    FAST_FAILURES_MOST = 5,
    START_TRIES = 3,
    START_MS = 120000, /* crash recovery of a large log */
    RECOVERY_MS = INT32_MAX,
    SPACE_CHECK_MS = 30000,
    FULL_BYTES = 32 << 20 /* with less, a segment that does not compress, and its successor, would not fit */
};

struct embedded {
    struct cluster cluster;
    int lock;
    char conninfo[256];
    int64_t ballast_bytes;
    pid_t pid;                              /* 0: not running */
    bool answering;                         /* a session could be opened since the start */
    int failures;                           /* fast ones in a row */
    int64_t started_at, start_at, space_at; /* of clock_milliseconds; start_at: not before */
    pthread_mutex_t mutex;                  /* over `state`, which other threads read */
    struct error state;
};

static void set_state(struct embedded *embedded, const struct error *state)
{
    (void)pthread_mutex_lock(&embedded->mutex);
    embedded->state = *state;
    (void)pthread_mutex_unlock(&embedded->mutex);
}

enum status embedded_state(struct embedded *embedded, struct error *error)
{
    (void)pthread_mutex_lock(&embedded->mutex);
    *error = embedded->state;
    (void)pthread_mutex_unlock(&embedded->mutex);
    return error->status;
}

const char *embedded_conninfo(const struct embedded *embedded)
{
    return embedded->conninfo;
}

pid_t embedded_pid(const struct embedded *embedded)
{
    return embedded->pid;
}

/* ---- ballast: space that is released on a full disk, enough for recovery to write its log ---- */

static void ballast_drop(struct embedded *embedded)
{
    if (unlinkat(embedded->cluster.home, "ballast", 0) == 0)
        log_error(LOG_COMPONENT_DATABASE, "the disk is full: gave the ballast back");
}

static void ballast_keep(struct embedded *embedded)
{
    struct statvfs space;
    struct stat file;
    if (embedded->ballast_bytes == 0 || fstatvfs(embedded->cluster.home, &space) != 0) return;
    const uint64_t available = (uint64_t)space.f_bavail * space.f_frsize,
                   all = (uint64_t)space.f_blocks * space.f_frsize;
    if (available < all / 10) {
        log_warning(LOG_COMPONENT_DATABASE, "less than 10 %% of the data directory's file system is free");
        return;
    }
    if (fstatat(embedded->cluster.home, "ballast", &file, AT_SYMLINK_NOFOLLOW) == 0 ||
        available < 4 * (uint64_t)embedded->ballast_bytes)
        return;
    const int fd = openat(embedded->cluster.home, "ballast", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return;
    const bool whole = posix_fallocate(fd, 0, (off_t)embedded->ballast_bytes) == 0;
    (void)close(fd);
    if (!whole) (void)unlinkat(embedded->cluster.home, "ballast", 0);
}

/* ---- the life of the postmaster ---- */

static void schedule(struct embedded *embedded)
{
    int64_t delay = BACKOFF_FIRST_MS;
    for (int i = 1; i < embedded->failures && delay < BACKOFF_LAST_MS; i++) delay *= 2;
    if (delay > BACKOFF_LAST_MS || embedded->failures > FAST_FAILURES_MOST) delay = BACKOFF_LAST_MS;
    embedded->start_at = clock_milliseconds() + delay;
}

static void note_end(struct embedded *embedded, int end)
{
    struct error why;
    char text[96];
    const bool fast = clock_milliseconds() - embedded->started_at < FAST_FAILURE_MS;
    embedded->pid = 0;
    embedded->answering = false;
    embedded->failures = fast ? embedded->failures + 1 : 1;
    if (cluster_diagnose(&embedded->cluster, &why) == STATUS_DISK_FULL) ballast_drop(embedded);
    child_describe_end(end, text, sizeof text);
    log_error(LOG_COMPONENT_DATABASE, "PostgreSQL ended (%s): %s%s", text, why.detail,
              embedded->failures > FAST_FAILURES_MOST ? "; degraded, trying again every 10 s" : "");
    set_state(embedded, &why);
    schedule(embedded);
}

static void try_start(struct embedded *embedded)
{
    struct error error;
    /* Backends whose postmaster was killed end by themselves, unless they are stopped. Killing them is safe, because
     * crash recovery follows in any case. */
    if (leftovers_signal(embedded->cluster.data, SIGKILL) > 0) {
        embedded->start_at = clock_milliseconds() + 100;
        return;
    }
    if (leftovers_clear(embedded->cluster.data, &error) != STATUS_OK ||
        cluster_start(&embedded->cluster, &embedded->pid, &error) != STATUS_OK) {
        embedded->failures++;
        set_state(embedded, &error);
        schedule(embedded);
        return;
    }
    embedded->started_at = clock_milliseconds();
    embedded->answering = false;
}

static void try_answer(struct embedded *embedded)
{
    struct error error;
    PGconn *session;
    if (session_open(embedded->conninfo, "deltaq start", clock_milliseconds() + 1000, &session, &error) != STATUS_OK)
        return;
    PQfinish(session);
    embedded->answering = true;
    set_state(embedded, &(struct error){.status = STATUS_OK});
}

/* Segments that cannot be archived stay in pg_wal and finally fill the disk. */
static void look_at_archive(const struct embedded *embedded)
{
    const struct archive *archive = &embedded->cluster.archive;
    struct statvfs space;
    if (archive->wal < 0 || embedded->cluster.recovery != NULL) return;
    const int waiting = archive_segments_waiting(embedded->cluster.data);
    if (waiting < ARCHIVE_LAG) return;
    const bool full = fstatvfs(archive->wal, &space) == 0 && (uint64_t)space.f_bavail * space.f_frsize < FULL_BYTES;
    log_warning(LOG_COMPONENT_DATABASE, "%d segments of 16 MiB wait to be archived into %s: %s", waiting,
                archive->directory, full ? "it is full" : "pg/postgres.log in the data directory says why");
}

void embedded_tick(struct embedded *embedded)
{
    int end;
    if (embedded->pid != 0 && waitpid(embedded->pid, &end, WNOHANG) == embedded->pid) note_end(embedded, end);
    if (embedded->pid == 0 && clock_milliseconds() >= embedded->start_at) try_start(embedded);
    if (embedded->pid != 0 && !embedded->answering) try_answer(embedded);
    if (clock_milliseconds() < embedded->space_at) return;
    embedded->space_at = clock_milliseconds() + SPACE_CHECK_MS;
    cluster_rotate_log(&embedded->cluster);
    if (embedded->answering) ballast_keep(embedded);
    look_at_archive(embedded);
}

static enum status wait_until_it_answers(struct embedded *embedded, struct error *error)
{
    const bool recovers = embedded->cluster.recovery != NULL;
    const struct timespec pause = {.tv_nsec = (recovers ? 250 : 15) * 1000 * 1000}; /* each try is a line of its log */
    const int64_t end = clock_milliseconds() + (recovers ? RECOVERY_MS : START_MS);
    struct child_wait wait =
        child_wait_start(recovers ? "replaying the archive"
                                  : "waiting for the private database to answer: after a crash, or on a slow disk, it "
                                    "takes longer");
    for (;;) {
        embedded_tick(embedded);
        child_wait_tick(&wait);
        if (embedded->answering) return STATUS_OK;
        if (embedded->failures >= (recovers ? 1 : START_TRIES)) return embedded_state(embedded, error);
        if (clock_milliseconds() > end)
            return error_set(error, STATUS_UNAVAILABLE, "the database does not answer %d s after its start",
                             START_MS / 1000);
        (void)nanosleep(&pause, NULL);
    }
}

/* PGHOSTADDR, which would have precedence over the socket, and PGOPTIONS of the environment are for other databases. */
static void make_conninfo(const struct cluster *cluster, char *out, size_t size)
{
    (void)snprintf(out, size, "host='%s' port=5432 user=deltaq dbname=deltaq hostaddr='' options=''",
                   cluster->socket_directory);
}

enum status embedded_attach(const char *data_directory, char *conninfo, size_t size, struct error *error)
{
    struct cluster cluster;
    const enum status status = cluster_open(data_directory, NULL, &cluster, error);
    if (status == STATUS_OK) make_conninfo(&cluster, conninfo, size);
    cluster_reset(&cluster);
    return status;
}

enum status embedded_start(const struct embedded_options *options, struct embedded **out, struct error *error)
{
    enum status status;
    struct embedded *embedded = calloc(1, sizeof *embedded);
    *out = NULL;
    if (embedded == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the database");
    (void)pthread_mutex_init(&embedded->mutex, NULL);
    embedded->lock = -1;
    embedded->ballast_bytes = options->ballast_bytes < 0 ? BALLAST_BYTES : options->ballast_bytes;
    (void)error_set(&embedded->state, STATUS_UNAVAILABLE, "the database is starting");
    if ((status = cluster_open(options->data_directory, options->binaries, &embedded->cluster, error)) != STATUS_OK)
        goto failed;
    make_conninfo(&embedded->cluster, embedded->conninfo, sizeof embedded->conninfo);
    if ((status = cluster_lock_take(embedded->cluster.home, "lock", &embedded->lock, error)) != STATUS_OK) goto failed;
    cluster_rotate_log(&embedded->cluster);
    status = cluster_ensure(&embedded->cluster, options->data_directory, options->archive, options->recovery, error);
    if (status != STATUS_OK) goto failed;
    if ((status = leftovers_clear(embedded->cluster.data, error)) != STATUS_OK) goto failed;
    if ((status = wait_until_it_answers(embedded, error)) != STATUS_OK) goto failed;
    if (options->recovery != NULL) archive_close(&embedded->cluster.archive); /* another database's */
    embedded->cluster.recovery = NULL;
    ballast_keep(embedded);
    *out = embedded;
    return STATUS_OK;
failed:
    embedded_stop(embedded);
    return status;
}

/* True when it ended within the time. */
static bool wait_for_end(struct embedded *embedded, int64_t milliseconds)
{
    static const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
    const int64_t end = clock_milliseconds() + milliseconds;
    for (;;) {
        int ignored;
        const pid_t got = waitpid(embedded->pid, &ignored, WNOHANG);
        if (got == embedded->pid || (got < 0 && errno == ECHILD)) return true;
        if (clock_milliseconds() >= end) return false;
        (void)nanosleep(&pause, NULL);
    }
}

void embedded_stop(struct embedded *embedded)
{
    /* SIGINT is PostgreSQL's fast stop. SIGTERM would wait for clients for ever. */
    static const struct {
        int signal, milliseconds;
    } steps[] = {{SIGINT, 8000}, {SIGQUIT, 4000}, {SIGKILL, 60000}};
    if (embedded == NULL) return;
    for (size_t i = 0; embedded->pid != 0 && i < sizeof steps / sizeof steps[0]; i++) {
        if (i > 0) log_warning(LOG_COMPONENT_DATABASE, "PostgreSQL does not stop: sending signal %d", steps[i].signal);
        (void)kill(embedded->pid, steps[i].signal);
        if (wait_for_end(embedded, steps[i].milliseconds)) embedded->pid = 0;
    }
    cluster_lock_drop(embedded->lock);
    cluster_reset(&embedded->cluster);
    (void)pthread_mutex_destroy(&embedded->mutex);
    free(embedded);
}

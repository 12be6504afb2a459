/* queue_scale.c: the queue's own statements under many workers: how long they take, how many a second the database
 * serves, what it computes for them. No run computes anything, and there is no process for each worker: `--sessions`
 * threads, a database session each, act for `--workers` workers in turn. Every worker holds a run all the time, as busy
 * workers do. A turn is what a worker asks for a run of twenty seconds: twenty beats with progress, a line of log, two
 * times of housekeeping, the end with a result and a measurement, and the lease of the next run.
 *
 *   queue_scale [--workers N] [--runs N] [--seconds N] [--sessions N]   one row
 *   queue_scale --series                                               docs/scale.md
 *
 * Its private database lies below $TMPDIR and is removed. Exits with 1 when a statement failed or a run was leased
 * twice under one epoch. */
#include "postgres/embedded.h"
#include "store/migrations.h"
#include "store/queue.h"

#include <dirent.h>
#include <ftw.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BEATS = 20, HOUSE = 2, SESSIONS_MOST = 100, TIMES_MOST = 1 << 20, LEASE = 3600 };
enum operation { LEASED, BEAT, FINISHED, OTHER, OPERATIONS };

struct one { /* a worker */
    struct worker_identity identity;
    struct leased_run run;
};

struct session {
    pthread_t thread;
    const char *conninfo;
    struct one *workers; /* lent */
    size_t count, first, step;
    double until; /* 0: each of its workers leases once */
    double *times[OPERATIONS];
    size_t timed[OPERATIONS];
    size_t turns, empty;
    enum status status;
    struct error error;
};

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The status, and what the call took since `began`. */
static bool done(struct session *session, enum operation operation, double began, enum status status)
{
    if (session->timed[operation] < TIMES_MOST) session->times[operation][session->timed[operation]++] = now() - began;
    session->status = status;
    return status == STATUS_OK;
}

/* ---- a worker's turn ---- */

static bool lease(struct session *session, struct connection *connection, struct one *one)
{
    static const char *const kinds[] = {"scale"};
    bool found;
    const double began = now();
    leased_run_reset(&one->run);
    if (!done(session, LEASED, began,
              queue_lease(connection, &one->identity, kinds, 1, LEASE, &found, &one->run, &session->error)))
        return false;
    session->empty += !found;
    return true;
}

static bool hold(struct session *session, struct connection *connection, struct one *one)
{
    bool cancel, listed;
    int rescued;
    double clock = 0;
    json_t *lines = json_pack("[s]", "half of it is done");
    bool good = lines != NULL;
    for (int i = 0; i < BEATS && good; i++) {
        const struct queue_progress progress = {.done = i, .total = BEATS, .unit = "step", .eta_seconds = BEATS - i};
        const double began = now();
        good = done(session, BEAT, began,
                    queue_beat(connection, &one->run.lease, LEASE, &progress, &cancel, &session->error));
    }
    for (int i = 0; i < HOUSE && good; i++) {
        good =
            done(session, OTHER, now(), worker_seen(connection, &one->identity.id, &listed, &clock, &session->error)) &&
            done(session, OTHER, now(), queue_rescue(connection, LEASE, &rescued, &session->error));
    }
    if (good) good = done(session, OTHER, now(), queue_log(connection, &one->run.lease, lines, &session->error));
    json_decref(lines);
    return good;
}

static bool finish(struct session *session, struct connection *connection, struct one *one)
{
    struct measurements measured = {0};
    const struct measurement item = {.metric = "loss", .value = 3.0, .low = NAN, .high = NAN};
    json_t *result = json_pack("{s:f}", "loss", 3.0);
    bool good = result != NULL && measurements_add(&measured, &item, &session->error) == STATUS_OK;
    const struct queue_result all = {
        .result = result, .measurements = &measured, .usage = {.seconds = 20, .peak_device_bytes = -1}};
    const double began = now();
    if (good) good = done(session, FINISHED, began, queue_finish(connection, &one->run.lease, &all, &session->error));
    measurements_reset(&measured);
    json_decref(result);
    return good;
}

static bool turn(struct session *session, struct connection *connection, struct one *one)
{
    if (one->run.lease.run.text[0] != '\0' && (!hold(session, connection, one) || !finish(session, connection, one)))
        return false;
    session->turns++;
    return lease(session, connection, one);
}

static void *work(void *context)
{
    struct session *session = context;
    struct connection *connection = NULL;
    session->status = connection_new(session->conninfo, "queue_scale", &connection, &session->error);
    bool going = session->status == STATUS_OK;
    if (session->until > 0) {
        for (size_t i = session->first; going && now() < session->until;
             i = i + session->step < session->count ? i + session->step : session->first)
            going = turn(session, connection, &session->workers[i]);
    } else {
        for (size_t i = session->first; going && i < session->count; i += session->step) {
            session->status = worker_register(connection, &session->workers[i].identity, &session->error);
            going = session->status == STATUS_OK && lease(session, connection, &session->workers[i]);
        }
    }
    connection_free(connection);
    return NULL;
}

/* ---- the database ---- */

static const char fill[] =
    "insert into runs (kind, requester, checkpoint, run_at)"
    " select 'scale', case when i % 10 = 0 then 'token-' || i % 70"
    " else 'large' end, (select id from checkpoints where step = i % 200),"
    " clock_timestamp() - interval '1 hour' + i * interval '1 millisecond' from generate_series(1, $1::bigint) i";

static enum status run_sql(struct connection *connection, const char *sql, int64_t number, struct error *error)
{
    return strstr(sql, "$1") != NULL ? connection_execute(connection, sql, VALUES(value_integer(number)), NULL, error)
                                     : connection_execute(connection, sql, NO_VALUES, NULL, error);
}

/* Checkpoints that lie on a few nodes each, once. */
static enum status lay_out(struct connection *connection, struct error *error)
{
    static const char *const statements[] = {
        "insert into trajectories (name) values ('t')",
        "insert into checkpoints (trajectory, name, step, source, path) select t.id, 's' || s, s, '{\"path\": \"/x\"}',"
        " '/x' from trajectories t, generate_series(0, 199) s",
        "insert into node_checkpoints (node, checkpoint, snapshot) select 'node-' || n, c.id, '' from checkpoints c,"
        " generate_series(0, 124) n where (n + c.step) % 40 = 0",
    };
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof statements / sizeof statements[0] && status == STATUS_OK; i++)
        status = run_sql(connection, statements[i], 0, error);
    return status;
}

/* So many runs wait, and nobody holds one. */
static enum status prepare(struct connection *connection, int64_t runs, struct error *error)
{
    static const char *const statements[] = {
        "delete from workers",
        "delete from runs",
        fill,
        "insert into run_specs (run, params) select id, '{}' from runs",
        "vacuum analyze",
    };
    enum status status = STATUS_OK;
    connection_set_deadline(connection, 300000);
    for (size_t i = 0; i < sizeof statements / sizeof statements[0] && status == STATUS_OK; i++)
        status = run_sql(connection, statements[i], runs, error);
    return status;
}

static enum status leased_twice(struct connection *connection, int64_t *twice, struct error *error)
{
    struct rows *rows;
    const enum status status = connection_query_one(
        connection,
        "select count(*) from (select run, epoch from run_events where data ->> 'to' = 'running' group by 1, 2"
        " having count(*) > 1) t",
        NO_VALUES, &rows, error);
    if (status != STATUS_OK) return status;
    *twice = rows_integer(rows, 0, 0);
    rows_free(rows);
    return status;
}

/* Seconds of processor that the database's processes have had, those that have ended too: children of its first one. */
static double database_seconds(pid_t postmaster)
{
    DIR *directory = opendir("/proc");
    double ticks = 0;
    for (const struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char path[300], line[1024];
        int parent;
        unsigned long user, system;
        long ended_user, ended_system;
        (void)snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        if (file == NULL) continue;
        const char *rest = fgets(line, sizeof line, file) != NULL ? strrchr(line, ')') : NULL;
        if (rest != NULL && sscanf(rest, ") %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld", &parent, &user,
                                   &system, &ended_user, &ended_system) == 5) {
            if (parent == (int)postmaster) ticks += (double)(user + system);
            if (strtol(entry->d_name, NULL, 10) == postmaster) ticks += (double)(ended_user + ended_system);
        }
        (void)fclose(file);
    }
    if (directory != NULL) (void)closedir(directory);
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

/* ---- a row ---- */

struct scale {
    int64_t workers, runs, seconds, sessions;
};

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of all sessions' times of an operation, in milliseconds. */
static void percentiles(const struct session *sessions, size_t count, enum operation operation, double *p50,
                        double *p99)
{
    size_t all = 0;
    for (size_t i = 0; i < count; i++) all += sessions[i].timed[operation];
    double *times = calloc(all + 1, sizeof *times);
    *p50 = *p99 = NAN;
    if (times == NULL || all == 0) {
        free(times);
        return;
    }
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(times + at, sessions[i].times[operation], sessions[i].timed[operation] * sizeof *times);
        at += sessions[i].timed[operation];
    }
    qsort(times, all, sizeof *times, compare);
    *p50 = 1000 * times[all / 2];
    *p99 = 1000 * times[all * 99 / 100];
    free(times);
}

static bool run_sessions(struct session *sessions, size_t count, double until)
{
    bool good = true;
    for (size_t i = 0; i < count; i++) {
        sessions[i].until = until;
        sessions[i].turns = sessions[i].empty = 0;
        memset(sessions[i].timed, 0, sizeof sessions[i].timed);
        if (pthread_create(&sessions[i].thread, NULL, work, &sessions[i]) != 0) exit(1);
    }
    for (size_t i = 0; i < count; i++) {
        (void)pthread_join(sessions[i].thread, NULL);
        if (sessions[i].status != STATUS_OK && good)
            (void)fprintf(stderr, "%s: %s\n", status_info(sessions[i].status)->name, sessions[i].error.detail);
        good = good && sessions[i].status == STATUS_OK;
    }
    return good;
}

static void say(const struct scale *scale, const struct session *sessions, double seconds, double database)
{
    const size_t count = (size_t)scale->sessions;
    double p50[OPERATIONS], p99[OPERATIONS];
    size_t turns = 0, empty = 0;
    for (size_t i = 0; i < count; i++) {
        turns += sessions[i].turns;
        empty += sessions[i].empty;
    }
    for (int i = 0; i < OPERATIONS; i++) percentiles(sessions, count, (enum operation)i, &p50[i], &p99[i]);
    /* A lease asks twice; an end is a transaction of five statements. */
    const double statements = (double)turns * (2 + BEATS + 2 * HOUSE + 1 + 5);
    (void)printf("| %lld | %lld | %.1f / %.1f | %.1f / %.1f | %.1f / %.1f | %.0f | %.0f | %.2f | %.1f |\n",
                 (long long)scale->workers, (long long)scale->runs, p50[LEASED], p99[LEASED], p50[BEAT], p99[BEAT],
                 p50[FINISHED], p99[FINISHED], (double)turns / seconds, statements / seconds, database / seconds,
                 turns > 0 ? 1000 * database / (double)turns : NAN);
    (void)fflush(stdout);
    if (empty > 0) (void)fprintf(stderr, "%zu leases found nothing\n", empty);
}

static bool measure(const struct scale *scale, struct embedded *embedded, struct connection *connection)
{
    struct error error;
    int64_t twice = 0;
    const size_t count = (size_t)scale->sessions;
    struct one *workers = calloc((size_t)scale->workers, sizeof *workers);
    struct session *sessions = calloc(count, sizeof *sessions);
    bool good = workers != NULL && sessions != NULL;
    for (int64_t i = 0; good && i < scale->workers; i++) {
        workers[i].identity = (struct worker_identity){
            .id = store_id_new(), .boot_id = "b", .device = "cpu", .pid = 1, .threads = 1, .grace_seconds = 2};
        (void)snprintf(workers[i].identity.node.text, sizeof workers[i].identity.node.text, "node-%lld",
                       (long long)i / 8);
    }
    for (size_t i = 0; good && i < count; i++) {
        sessions[i] = (struct session){.conninfo = embedded_conninfo(embedded), .workers = workers, .first = i};
        sessions[i].count = (size_t)scale->workers;
        sessions[i].step = count;
        for (int j = 0; good && j < OPERATIONS; j++)
            good = (sessions[i].times[j] = calloc(TIMES_MOST, sizeof(double))) != NULL; /* touched as it fills */
    }
    if (good && prepare(connection, scale->runs, &error) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", error.detail);
        good = false;
    }
    good = good && run_sessions(sessions, count, 0);
    const double began = now(), before = database_seconds(embedded_pid(embedded));
    good = good && run_sessions(sessions, count, now() + (double)scale->seconds);
    if (good) say(scale, sessions, now() - began, database_seconds(embedded_pid(embedded)) - before);
    good = good && leased_twice(connection, &twice, &error) == STATUS_OK && twice == 0;
    if (twice > 0) (void)fprintf(stderr, "%lld leases twice\n", (long long)twice);
    for (int64_t i = 0; workers != NULL && i < scale->workers; i++) leased_run_reset(&workers[i].run);
    for (size_t i = 0; sessions != NULL && i < count; i++)
        for (int j = 0; j < OPERATIONS; j++) free(sessions[i].times[j]);
    free(sessions);
    free(workers);
    return good;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)where;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

static bool measure_all(const struct scale *scales, size_t count, const char *directory)
{
    struct error error;
    struct embedded *embedded = NULL;
    struct connection *connection = NULL;
    const struct embedded_options options = {.data_directory = directory, .ballast_bytes = 0};
    enum status status = embedded_start(&options, &embedded, &error);
    if (status == STATUS_OK) status = connection_new(embedded_conninfo(embedded), "queue_scale", &connection, &error);
    if (status == STATUS_OK) status = migrations_apply(connection, NULL, &error);
    if (status == STATUS_OK) status = lay_out(connection, &error);
    if (status != STATUS_OK) (void)fprintf(stderr, "%s\n", error.detail);
    (void)printf("| workers | runs waiting | lease ms p50 / p99 | beat | finish | runs/s | statements/s | cores |"
                 " core ms a run |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    bool good = status == STATUS_OK;
    for (size_t i = 0; i < count && good; i++) good = measure(&scales[i], embedded, connection);
    connection_free(connection);
    embedded_stop(embedded);
    return good;
}

static bool read_options(int argc, char **argv, struct scale *out)
{
    const struct {
        const char *flag;
        int64_t *number, most;
    } rows[] = {{"--workers", &out->workers, 100000},
                {"--runs", &out->runs, 10000000},
                {"--seconds", &out->seconds, 3600},
                {"--sessions", &out->sessions, SESSIONS_MOST}};
    for (int i = 1; i + 1 < argc; i += 2) {
        bool known = false;
        for (size_t j = 0; j < sizeof rows / sizeof rows[0]; j++)
            if (strcmp(argv[i], rows[j].flag) == 0) {
                *rows[j].number = strtoll(argv[i + 1], NULL, 10);
                known = *rows[j].number > 0 && *rows[j].number <= rows[j].most;
            }
        if (!known) return false;
    }
    if (out->sessions > out->workers) out->sessions = out->workers;
    return argc % 2 == 1;
}

int main(int argc, char **argv)
{
    static const struct scale series[] = {
        {10, 10000, 6, 10}, {100, 10000, 6, 16}, {1000, 10000, 6, 16}, {1000, 3000, 6, 16}, {1000, 100000, 6, 16}};
    struct scale one = {.workers = 20, .runs = 200, .seconds = 2, .sessions = 8};
    const bool all = argc == 2 && strcmp(argv[1], "--series") == 0;
    char directory[4096];
    const char *top = getenv("TMPDIR");
    if (!all && !read_options(argc, argv, &one)) {
        (void)fprintf(stderr, "usage: queue_scale --series | [--workers N] [--runs N] [--seconds N] [--sessions N]\n");
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(directory, sizeof directory, "%s/deltaq-scale-XXXXXX", top != NULL ? top : "/tmp");
    if (mkdtemp(directory) == NULL) return 1;
    const bool good =
        all ? measure_all(series, sizeof series / sizeof series[0], directory) : measure_all(&one, 1, directory);
    (void)nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return good ? 0 : 1;
}

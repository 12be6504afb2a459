#include "pool/resume.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double EVERY_SECONDS = 60, LOOK_SECONDS = 1, SHARE = 20, RETRY_SECONDS = 60;

struct resumed_run {
    struct resume *resume;
    const struct monitor *log; /* lent: the run's own */
    struct monitor monitor;    /* for background uploads: stops them when the run has ended */
    struct resume_published published;
    char said[sizeof((struct error){0}.detail)]; /* of the last failure */

    /* Under the mutex. */
    bool active, ending, found;
    double look_at;
};

struct resume {
    double every;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool started, quit;
    const struct resumed_run *busy; /* the run whose state the thread is uploading */
    size_t count, most;
    struct resumed_run runs[];
};

static enum status check_ending(void *owner, struct error *error)
{
    struct resumed_run *run = owner;
    (void)pthread_mutex_lock(&run->resume->mutex);
    const bool ending = run->ending;
    (void)pthread_mutex_unlock(&run->resume->mutex);
    return ending ? error_set(error, STATUS_CANCELLED, "the run has ended") : STATUS_OK;
}

/* Uploads without holding the mutex. Returns the seconds until the next upload. */
static double publish(struct resumed_run *run, const struct monitor *monitor, double every)
{
    struct error error;
    bool done = false;
    const double began = clock_seconds();
    const enum status status = resume_store_publish(&run->published, monitor, &done, &error);
    const double took = clock_seconds() - began;
    if (status == STATUS_CANCELLED) return 0;
    if (status != STATUS_OK && strcmp(run->said, error.detail) != 0) {
        (void)snprintf(run->said, sizeof run->said, "%s", error.detail);
        monitor_log(run->log, "what this run saves is not uploaded, so it goes on only on this machine: %s",
                    error.detail);
    }
    if (status != STATUS_OK) return RETRY_SECONDS;
    if (!done) return LOOK_SECONDS;
    run->said[0] = '\0';
    return took * SHARE > every ? took * SHARE : every;
}

/* ---- the thread ---- */

/* The run whose turn it is, or NULL; *wait: seconds until the next turn. */
static struct resumed_run *next_run(struct resume *resume, double *wait)
{
    const double now = clock_seconds();
    struct resumed_run *first = NULL;
    for (size_t i = 0; i < resume->count; i++) {
        struct resumed_run *run = &resume->runs[i];
        if (run->active && !run->ending && (first == NULL || run->look_at < first->look_at)) first = run;
    }
    *wait = first != NULL ? first->look_at - now : EVERY_SECONDS;
    return first != NULL && *wait <= 0 ? first : NULL;
}

static void wait_for(struct resume *resume, double seconds)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t nanoseconds = until.tv_nsec + (int64_t)(seconds * 1e9);
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    (void)pthread_cond_timedwait(&resume->changed, &resume->mutex, &until);
}

static void *upload_main(void *argument)
{
    struct resume *resume = argument;
    (void)pthread_mutex_lock(&resume->mutex);
    while (!resume->quit) {
        double wait;
        struct resumed_run *run = next_run(resume, &wait);
        if (run == NULL) {
            wait_for(resume, wait);
            continue;
        }
        resume->busy = run;
        (void)pthread_mutex_unlock(&resume->mutex);
        const double pause = publish(run, &run->monitor, resume->every);
        (void)pthread_mutex_lock(&resume->mutex);
        resume->busy = NULL;
        run->look_at = clock_seconds() + pause;
        (void)pthread_cond_broadcast(&resume->changed);
    }
    (void)pthread_mutex_unlock(&resume->mutex);
    return NULL;
}

static void start(struct resume *resume, const struct monitor *log)
{
    if (resume->started) return;
    resume->started = pthread_create(&resume->thread, NULL, upload_main, resume) == 0;
    if (!resume->started)
        monitor_log(log, "what this run saves is not uploaded, so it goes on only on this machine: no thread for it");
}

/* ---- for the engine thread ---- */

enum status resume_new(size_t most, double every, struct resume **out, struct error *error)
{
    pthread_condattr_t attributes;
    struct resume *resume = calloc(1, sizeof *resume + most * sizeof resume->runs[0]);
    *out = NULL;
    if (resume == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory to upload what runs save");
    resume->every = every > 0 ? every : EVERY_SECONDS;
    resume->most = most;
    (void)pthread_mutex_init(&resume->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&resume->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    *out = resume;
    return STATUS_OK;
}

enum status resume_add(struct resume *resume, const struct resume_place *place, const struct monitor *monitor,
                       size_t *number, struct error *error)
{
    bool found = false;
    *number = resume->count;
    if (resume->count == resume->most) return error_set(error, STATUS_INTERNAL, "more runs than a batch has");
    struct resumed_run *run = &resume->runs[*number];
    memset(run, 0, sizeof *run); /* a run that used the entry before leaves nothing in it */
    run->published.place = *place;
    const enum status status = resume_store_fetch(&run->published, monitor, &found, error);
    if (status == STATUS_CANCELLED || status == STATUS_LEASE_LOST ||
        (status != STATUS_OK && status_info(status)->retry))
        return status;
    if (status != STATUS_OK)
        monitor_log(monitor, "what an earlier attempt uploaded is left where it is: %s", error->detail);
    (void)pthread_mutex_lock(&resume->mutex);
    run->resume = resume;
    run->log = monitor;
    run->monitor = (struct monitor){.owner = run, .check = check_ending};
    run->active = true;
    run->found = found;
    run->look_at = clock_seconds() + resume->every;
    resume->count++;
    (void)pthread_cond_broadcast(&resume->changed);
    (void)pthread_mutex_unlock(&resume->mutex);
    start(resume, monitor);
    return STATUS_OK;
}

bool resume_end(struct resume *resume, size_t number, bool last)
{
    struct resumed_run *run = &resume->runs[number];
    (void)pthread_mutex_lock(&resume->mutex);
    run->ending = !last; /* the upload of a run that returns to the queue may finish */
    run->active = false;
    while (resume->busy == run) (void)pthread_cond_wait(&resume->changed, &resume->mutex);
    (void)pthread_mutex_unlock(&resume->mutex);
    if (last) (void)publish(run, NULL, resume->every);
    return run->found || run->published.number > 0;
}

void resume_free(struct resume *resume)
{
    if (resume == NULL) return;
    (void)pthread_mutex_lock(&resume->mutex);
    resume->quit = true;
    (void)pthread_cond_broadcast(&resume->changed);
    (void)pthread_mutex_unlock(&resume->mutex);
    if (resume->started) (void)pthread_join(resume->thread, NULL);
    (void)pthread_cond_destroy(&resume->changed);
    (void)pthread_mutex_destroy(&resume->mutex);
    free(resume);
}

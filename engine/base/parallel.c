#include "base/parallel.h"

#include "base/memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* A loop is published under `mutex` by raising `generation`; threads take indices from `next` and the last one to leave signals
 * `finished`. Idle threads sleep: a worker that waits for work must not burn a core. */
struct team {
    pthread_mutex_t mutex;
    pthread_cond_t wake, finished;
    uint64_t generation;
    int busy; /* threads still inside the current loop */
    bool stop;
    bool running; /* a loop is under way: an inner one runs alone */
    int64_t count;
    _Atomic int64_t next;
    void (*body)(void *context, int64_t i, int thread);
    void *context;
    int started; /* threads beyond the caller */
    struct helper {
        struct team *team;
        int index;
        pthread_t thread;
    } helpers[];
};

static void team_work(struct team *team, int thread)
{
    for (;;) {
        const int64_t i = atomic_fetch_add_explicit(&team->next, 1, memory_order_relaxed);
        if (i >= team->count) return;
        team->body(team->context, i, thread);
    }
}

static void *helper_main(void *argument)
{
    const struct helper *helper = argument;
    struct team *team = helper->team;
    uint64_t seen = 0;
    pthread_mutex_lock(&team->mutex);
    for (;;) {
        while (!team->stop && team->generation == seen) pthread_cond_wait(&team->wake, &team->mutex);
        if (team->stop) break;
        seen = team->generation;
        pthread_mutex_unlock(&team->mutex);
        team_work(team, helper->index);
        pthread_mutex_lock(&team->mutex);
        if (--team->busy == 0) pthread_cond_signal(&team->finished);
    }
    pthread_mutex_unlock(&team->mutex);
    return NULL;
}

static int processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : (int)online;
}

enum status team_new(int threads, struct team **out, struct error *error)
{
    *out = NULL;
    if (threads <= 0) threads = processors();
    struct team *team = calloc(1, sizeof *team + (size_t)(threads - 1) * sizeof team->helpers[0]);
    if (team == NULL) return error_set(error, STATUS_NO_MEMORY, "thread team: out of memory");
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->wake, NULL);
    pthread_cond_init(&team->finished, NULL);
    for (int i = 0; i < threads - 1; i++) {
        team->helpers[i].team = team;
        team->helpers[i].index = i + 1;
        if (pthread_create(&team->helpers[i].thread, NULL, helper_main, &team->helpers[i]) != 0) {
            team_free(team);
            return error_set(error, STATUS_NO_MEMORY, "thread team: cannot start thread %d of %d", i + 2, threads);
        }
        team->started++;
    }
    *out = team;
    return STATUS_OK;
}

void team_free(struct team *team)
{
    if (team == NULL) return;
    pthread_mutex_lock(&team->mutex);
    team->stop = true;
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->mutex);
    for (int i = 0; i < team->started; i++) pthread_join(team->helpers[i].thread, NULL);
    pthread_cond_destroy(&team->finished);
    pthread_cond_destroy(&team->wake);
    pthread_mutex_destroy(&team->mutex);
    free(team);
}

int team_size(const struct team *team)
{
    return team == NULL ? 1 : team->started + 1;
}

static void run_alone(int64_t count, void (*body)(void *context, int64_t i, int thread), void *context)
{
    for (int64_t i = 0; i < count; i++) body(context, i, 0);
}

void team_run(struct team *team, int64_t count, void (*body)(void *context, int64_t i, int thread), void *context)
{
    if (team == NULL || team->started == 0 || count <= 1) {
        run_alone(count, body, context);
        return;
    }
    pthread_mutex_lock(&team->mutex);
    if (team->running) {
        pthread_mutex_unlock(&team->mutex);
        run_alone(count, body, context);
        return;
    }
    team->running = true;
    team->count = count;
    team->body = body;
    team->context = context;
    atomic_store_explicit(&team->next, 0, memory_order_relaxed);
    team->busy = team->started;
    team->generation++;
    pthread_cond_broadcast(&team->wake);
    pthread_mutex_unlock(&team->mutex);
    team_work(team, 0);
    pthread_mutex_lock(&team->mutex);
    while (team->busy > 0) pthread_cond_wait(&team->finished, &team->mutex);
    team->running = false;
    pthread_mutex_unlock(&team->mutex);
}

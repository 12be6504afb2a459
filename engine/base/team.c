#include "base/team.h"

#include "base/clock.h"
#include "base/memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* A loop is published in `gate`: a generation that grows with every loop, whether the gate is open, and how many
 * helpers are inside. A helper enters an open gate by compare-and-swap; body, context and count do not change while it
 * is inside. The caller closes the gate when no index is left and waits only for the helpers inside, not for helpers
 * that the system has not scheduled yet.
 *
 * Training runs thousands of loops of some ten microseconds a second, so a helper spins on the gate for
 * SPIN_NANOSECONDS after a loop before it sleeps. It spins no longer, because an idle worker must not burn a core.
 * Sleep and wake-up go through `mutex`. */
enum { SPIN_NANOSECONDS = 50000, SPIN_BATCH = 16 };

#define GATE_OPEN       (UINT64_C(1) << 31)
#define GATE_INSIDE     (GATE_OPEN - 1)
#define GATE_GENERATION (UINT64_C(1) << 32) /* adds one to the generation */

struct team {
    _Atomic uint64_t gate;
    _Atomic int64_t next; /* the index to take next */
    atomic_bool running;  /* a loop is running: nested loops run on their caller alone */
    atomic_bool stop;
    int64_t count;
    void (*body)(void *context, int64_t i, int thread);
    void *context;
    int64_t spin_nanoseconds;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t wake, finished;
    int sleeping; /* helpers that wait for `wake` */
    int started;  /* threads beyond the caller */
    struct helper {
        struct team *team;
        int index;
        pthread_t thread;
    } helpers[];
};

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb"); /* a pause of some cycles; `yield` is none on most */
#endif
}

/* Spins until ready() is true or SPIN_NANOSECONDS have passed. */
static bool spin(struct team *team, bool (*ready)(struct team *team, uint64_t generation), uint64_t generation)
{
    if (ready(team, generation)) return true;
    const int64_t end = team->spin_nanoseconds > 0 ? clock_nanoseconds() + team->spin_nanoseconds : 0;
    while (team->spin_nanoseconds > 0 && clock_nanoseconds() < end)
        for (int i = 0; i < SPIN_BATCH; i++) {
            if (ready(team, generation)) return true;
            relax();
        }
    return false;
}

static void team_work(struct team *team, int thread)
{
    for (;;) {
        const int64_t i = atomic_fetch_add_explicit(&team->next, 1, memory_order_relaxed);
        if (i >= team->count) return;
        team->body(team->context, i, thread);
    }
}

/* True when a loop newer than `generation` is open, or the team stops. */
static bool work_ready(struct team *team, uint64_t generation)
{
    const uint64_t gate = atomic_load_explicit(&team->gate, memory_order_acquire);
    return ((gate & GATE_OPEN) != 0 && gate / GATE_GENERATION != generation) || atomic_load(&team->stop);
}

/* False when the loop closed before this helper got in. */
static bool gate_enter(struct team *team, uint64_t *generation)
{
    uint64_t gate = atomic_load_explicit(&team->gate, memory_order_relaxed);
    do {
        if ((gate & GATE_OPEN) == 0) return false;
    } while (!atomic_compare_exchange_weak_explicit(&team->gate, &gate, gate + 1, memory_order_acquire,
                                                    memory_order_relaxed));
    *generation = gate / GATE_GENERATION;
    return true;
}

static void gate_leave(struct team *team)
{
    const uint64_t before = atomic_fetch_sub_explicit(&team->gate, 1, memory_order_release);
    if ((before & GATE_OPEN) != 0 || (before & GATE_INSIDE) != 1) return;
    pthread_mutex_lock(&team->mutex); /* the caller may have gone to sleep waiting for this */
    pthread_cond_signal(&team->finished);
    pthread_mutex_unlock(&team->mutex);
}

static void *helper_main(void *argument)
{
    const struct helper *helper = argument;
    struct team *team = helper->team;
    uint64_t seen = 0;
    for (;;) {
        if (!spin(team, work_ready, seen)) {
            pthread_mutex_lock(&team->mutex);
            team->sleeping++;
            while (!work_ready(team, seen)) pthread_cond_wait(&team->wake, &team->mutex);
            team->sleeping--;
            pthread_mutex_unlock(&team->mutex);
        }
        if (atomic_load(&team->stop)) return NULL;
        if (!gate_enter(team, &seen)) continue;
        team_work(team, helper->index);
        gate_leave(team);
    }
}

static int processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : (int)online;
}

int team_threads(int threads)
{
    return threads > 0 ? threads : processors();
}

enum status team_new(int threads, struct team **out, struct error *error)
{
    *out = NULL;
    threads = team_threads(threads);
    struct team *team = calloc(1, sizeof *team + (size_t)(threads - 1) * sizeof team->helpers[0]);
    if (team == NULL) return error_set(error, STATUS_NO_MEMORY, "thread team: out of memory");
    pthread_mutex_init(&team->mutex, NULL);
    pthread_cond_init(&team->wake, NULL);
    pthread_cond_init(&team->finished, NULL);
    team->spin_nanoseconds = threads <= processors() ? SPIN_NANOSECONDS : 0;
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
    atomic_store(&team->stop, true);
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

/* Opens the gate and wakes as many sleepers as there is work for. */
static void gate_open(struct team *team)
{
    atomic_store_explicit(&team->next, 0, memory_order_relaxed);
    pthread_mutex_lock(&team->mutex);
    atomic_fetch_add_explicit(&team->gate, GATE_GENERATION | GATE_OPEN, memory_order_release);
    for (int64_t i = 0; i < team->sleeping && i < team->count - 1; i++) pthread_cond_signal(&team->wake);
    pthread_mutex_unlock(&team->mutex);
}

static bool nobody_inside(struct team *team, uint64_t generation)
{
    (void)generation;
    return (atomic_load_explicit(&team->gate, memory_order_acquire) & GATE_INSIDE) == 0;
}

static void gate_close(struct team *team)
{
    atomic_fetch_and_explicit(&team->gate, ~GATE_OPEN, memory_order_relaxed);
    if (spin(team, nobody_inside, 0)) return;
    pthread_mutex_lock(&team->mutex);
    while (!nobody_inside(team, 0)) pthread_cond_wait(&team->finished, &team->mutex);
    pthread_mutex_unlock(&team->mutex);
}

void team_run(struct team *team, int64_t count, void (*body)(void *context, int64_t i, int thread), void *context)
{
    if (team == NULL || team->started == 0 || count <= 1 || atomic_exchange(&team->running, true)) {
        run_alone(count, body, context);
        return;
    }
    team->count = count;
    team->body = body;
    team->context = context;
    gate_open(team);
    team_work(team, 0);
    gate_close(team);
    atomic_store_explicit(&team->running, false, memory_order_release);
}

#include "http/reaper.h"

#include "base/clock.h"
#include "http/late_bytes.h"
#include "http/transfer.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

enum { TICK_MILLISECONDS = 100, CROWDED_MILLISECONDS = 500 };

struct reaper_entry {
    struct reaper_entry *previous, *next;
    int descriptor;
    int64_t deadline_ms; /* 0: none */
    int64_t waits_ms;    /* since when it waits for a head; 0: it does not */
    bool lingers;        /* once it is closed */
    struct transfer transfer;
};

struct reaper {
    pthread_mutex_t mutex;
    pthread_cond_t stopped;
    pthread_t thread;
    struct reaper_entry *first;
    struct late_bytes *late;
    unsigned count, crowded;
    void (*tick)(void *closure);
    void *closure;
    bool stopping, joined;
};

struct reaper_entry *reaper_add(struct reaper *reaper, int descriptor, int64_t milliseconds)
{
    struct reaper_entry *entry = calloc(1, sizeof *entry);
    if (entry == NULL) return NULL;
    entry->descriptor = descriptor;
    entry->waits_ms = clock_milliseconds();
    entry->deadline_ms = entry->waits_ms + milliseconds;
    pthread_mutex_lock(&reaper->mutex);
    reaper->count++;
    entry->next = reaper->first;
    if (entry->next != NULL) entry->next->previous = entry;
    reaper->first = entry;
    pthread_mutex_unlock(&reaper->mutex);
    return entry;
}

void reaper_remove(struct reaper *reaper, struct reaper_entry *entry)
{
    if (entry == NULL) return;
    pthread_mutex_lock(&reaper->mutex);
    reaper->count--;
    if (entry->previous != NULL)
        entry->previous->next = entry->next;
    else
        reaper->first = entry->next;
    if (entry->next != NULL) entry->next->previous = entry->previous;
    pthread_mutex_unlock(&reaper->mutex);
    if (entry->lingers) late_bytes_expect(reaper->late, entry->descriptor, clock_milliseconds());
    free(entry);
}

void reaper_deadline(struct reaper *reaper, struct reaper_entry *entry, int64_t milliseconds)
{
    if (entry == NULL) return;
    pthread_mutex_lock(&reaper->mutex);
    entry->deadline_ms = milliseconds < 0 ? 0 : clock_milliseconds() + milliseconds;
    entry->transfer = (struct transfer){0};
    pthread_mutex_unlock(&reaper->mutex);
}

void reaper_waits(struct reaper *reaper, struct reaper_entry *entry, bool waits)
{
    if (entry == NULL) return;
    pthread_mutex_lock(&reaper->mutex);
    entry->waits_ms = waits ? clock_milliseconds() : 0;
    pthread_mutex_unlock(&reaper->mutex);
}

void reaper_extend(struct reaper *reaper, struct reaper_entry *entry, int64_t milliseconds)
{
    if (entry == NULL) return;
    pthread_mutex_lock(&reaper->mutex);
    if (entry->deadline_ms) entry->deadline_ms += milliseconds;
    pthread_mutex_unlock(&reaper->mutex);
}

void reaper_lingers(struct reaper *reaper, struct reaper_entry *entry)
{
    if (entry == NULL) return;
    pthread_mutex_lock(&reaper->mutex);
    entry->lingers = true;
    pthread_mutex_unlock(&reaper->mutex);
}

/* Whether a crowd has no space for it: it asks nothing, or its body or answer hardly moves. What has no deadline is
 * with a handler, or an event stream, and waits for us. */
static bool is_idle(struct reaper_entry *entry, int64_t now)
{
    uint64_t bytes;
    if (entry->waits_ms != 0) return now - entry->waits_ms > CROWDED_MILLISECONDS;
    return entry->deadline_ms != 0 && transfer_bytes(entry->descriptor, &bytes) &&
           transfer_is_slow(&entry->transfer, bytes, now);
}

/* Shuts overdue connections down; the mutex is held, so no entry's descriptor can be closed and reused meanwhile. */
static void reap(struct reaper *reaper)
{
    const int64_t now = clock_milliseconds();
    const bool crowded = reaper->count > reaper->crowded;
    for (struct reaper_entry *entry = reaper->first; entry != NULL; entry = entry->next) {
        const bool late = entry->deadline_ms != 0 && entry->deadline_ms <= now;
        if (!crowded) entry->transfer = (struct transfer){0};
        if (!late && !(crowded && is_idle(entry, now))) continue;
        (void)shutdown(entry->descriptor, SHUT_RDWR);
        entry->deadline_ms = entry->waits_ms = 0;
    }
}

static void *run(void *closure)
{
    struct reaper *reaper = closure;
    pthread_mutex_lock(&reaper->mutex);
    while (!reaper->stopping) {
        const int64_t next = clock_milliseconds() + TICK_MILLISECONDS;
        const struct timespec until = {.tv_sec = next / 1000, .tv_nsec = (next % 1000) * 1000000};
        (void)pthread_cond_timedwait(&reaper->stopped, &reaper->mutex, &until);
        reap(reaper);
        pthread_mutex_unlock(&reaper->mutex);
        late_bytes_discard(reaper->late, clock_milliseconds());
        reaper->tick(reaper->closure);
        pthread_mutex_lock(&reaper->mutex);
    }
    pthread_mutex_unlock(&reaper->mutex);
    return NULL;
}

enum status reaper_start(void (*tick)(void *closure), void *closure, unsigned crowded, struct reaper **out,
                         struct error *error)
{
    pthread_condattr_t attributes;
    struct reaper *reaper = calloc(1, sizeof *reaper);
    *out = NULL;
    if (reaper == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for the reaper");
    const enum status status = late_bytes_new(&reaper->late, error);
    if (status != STATUS_OK) {
        free(reaper);
        return status;
    }
    reaper->tick = tick;
    reaper->closure = closure;
    reaper->crowded = crowded;
    (void)pthread_mutex_init(&reaper->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&reaper->stopped, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    if (pthread_create(&reaper->thread, NULL, run, reaper) != 0) {
        reaper->joined = true;
        reaper_free(reaper);
        return error_set(error, STATUS_NO_MEMORY, "cannot start the reaper's thread");
    }
    *out = reaper;
    return STATUS_OK;
}

void reaper_stop(struct reaper *reaper)
{
    if (reaper == NULL || reaper->joined) return;
    pthread_mutex_lock(&reaper->mutex);
    reaper->stopping = true;
    pthread_cond_signal(&reaper->stopped);
    pthread_mutex_unlock(&reaper->mutex);
    (void)pthread_join(reaper->thread, NULL);
    reaper->joined = true;
}

void reaper_free(struct reaper *reaper)
{
    if (reaper == NULL) return;
    reaper_stop(reaper);
    while (reaper->first != NULL) {
        struct reaper_entry *entry = reaper->first;
        reaper->first = entry->next;
        free(entry);
    }
    late_bytes_free(reaper->late);
    (void)pthread_cond_destroy(&reaper->stopped);
    (void)pthread_mutex_destroy(&reaper->mutex);
    free(reaper);
}

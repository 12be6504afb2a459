#include "http/waiters.h"

#include "base/clock.h"
#include "http/connection.h"
#include "http/exchange.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* wakes that are remembered for requests about to park; how often the clients are checked */
enum { RECENT = 256, LOOK_MILLISECONDS = 500 };

struct waiters {
    pthread_mutex_t mutex;
    struct exchange *first;
    unsigned count;
    uint64_t sequence; /* number of wakes so far */
    int64_t look_ms;   /* when to check next whether clients have left */
    bool ended;
    void (*release)(struct exchange *exchange);
    char recent[RECENT][TOPIC_SIZE]; /* topic of wake number n at n % RECENT; "" is all topics */
};

enum status waiters_new(void (*release)(struct exchange *exchange), struct waiters **out, struct error *error)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for waiting requests");
    (void)pthread_mutex_init(&(*out)->mutex, NULL);
    (*out)->release = release;
    return STATUS_OK;
}

void waiters_free(struct waiters *waiters)
{
    if (waiters == NULL) return;
    (void)pthread_mutex_destroy(&waiters->mutex);
    free(waiters);
}

uint64_t waiters_sequence(struct waiters *waiters)
{
    pthread_mutex_lock(&waiters->mutex);
    const uint64_t sequence = waiters->sequence;
    pthread_mutex_unlock(&waiters->mutex);
    return sequence;
}

static bool topic_matches(const char *woken, const char *topic)
{
    return !woken[0] || strcmp(woken, topic) == 0;
}

/* Whether the topic was woken after number `seen`; the mutex is held. */
static bool woken_since(const struct waiters *waiters, const char *topic, uint64_t seen)
{
    if (waiters->sequence - seen > RECENT) return true; /* forgotten: look again */
    for (uint64_t i = seen; i < waiters->sequence; i++)
        if (topic_matches(waiters->recent[i % RECENT], topic)) return true;
    return false;
}

void waiters_park(struct waiters *waiters, struct exchange *exchange)
{
    pthread_mutex_lock(&waiters->mutex);
    const bool at_once = waiters->ended || woken_since(waiters, exchange->response.topic, exchange->wakes_seen);
    if (!at_once) {
        exchange->next = waiters->first;
        waiters->first = exchange;
        waiters->count++;
    }
    pthread_mutex_unlock(&waiters->mutex);
    if (at_once) waiters->release(exchange);
}

static bool overdue(const struct exchange *exchange, int64_t now)
{
    return exchange->left || (exchange->deadline_ms && exchange->deadline_ms <= now) ||
           (exchange->retry_ms && exchange->retry_ms <= now);
}

/* Marks the exchanges whose client has left; the mutex is held. A parked request is suspended, so its socket is still
 * open. */
static void look_for_left(struct waiters *waiters, int64_t now)
{
    if (now < waiters->look_ms) return;
    waiters->look_ms = now + LOOK_MILLISECONDS;
    for (struct exchange *exchange = waiters->first; exchange != NULL; exchange = exchange->next)
        exchange->left = connection_left(connection_descriptor(exchange->connection));
}

/* Releases the requests that wait for `topic` (NULL: none), and those whose deadline is before `now` (0: none) or whose
 * client has left. */
static void waiters_release(struct waiters *waiters, const char *topic, int64_t now)
{
    struct exchange *released = NULL;
    pthread_mutex_lock(&waiters->mutex);
    if (now != 0) look_for_left(waiters, now);
    for (struct exchange **link = &waiters->first; *link != NULL;) {
        struct exchange *exchange = *link;
        const bool go =
            (topic != NULL && topic_matches(topic, exchange->response.topic)) || (now && overdue(exchange, now));
        if (!go) {
            link = &exchange->next;
            continue;
        }
        *link = exchange->next;
        waiters->count--;
        exchange->next = released;
        released = exchange;
    }
    pthread_mutex_unlock(&waiters->mutex);
    while (released != NULL) {
        struct exchange *exchange = released;
        released = exchange->next;
        exchange->next = NULL;
        waiters->release(exchange);
    }
}

void waiters_wake(struct waiters *waiters, const char *topic)
{
    pthread_mutex_lock(&waiters->mutex);
    (void)snprintf(waiters->recent[waiters->sequence % RECENT], TOPIC_SIZE, "%s", topic != NULL ? topic : "");
    waiters->sequence++;
    pthread_mutex_unlock(&waiters->mutex);
    waiters_release(waiters, topic != NULL ? topic : "", 0);
}

void waiters_tick(struct waiters *waiters)
{
    waiters_release(waiters, NULL, clock_milliseconds());
}

unsigned waiters_count(struct waiters *waiters)
{
    pthread_mutex_lock(&waiters->mutex);
    const unsigned count = waiters->count;
    pthread_mutex_unlock(&waiters->mutex);
    return count;
}

void waiters_end(struct waiters *waiters)
{
    pthread_mutex_lock(&waiters->mutex);
    waiters->ended = true;
    pthread_mutex_unlock(&waiters->mutex);
    waiters_release(waiters, "", 0);
}

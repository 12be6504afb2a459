#include "http/permits.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct holder {
    char client[PERMITS_CLIENT];
    unsigned count; /* 0: nobody's row */
};

struct permits {
    pthread_mutex_t mutex;
    const char *what;
    unsigned limit, share, taken;
    struct holder holders[]; /* one for each permit */
};

enum status permits_new(unsigned limit, const char *what, struct permits **out, struct error *error)
{
    struct permits *permits = calloc(1, sizeof *permits + limit * sizeof permits->holders[0]);
    *out = permits;
    if (permits == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for %s", what);
    (void)pthread_mutex_init(&permits->mutex, NULL);
    permits->what = what;
    permits->limit = limit;
    permits->share = (limit + 1) / 2;
    return STATUS_OK;
}

void permits_free(struct permits *permits)
{
    if (permits == NULL) return;
    (void)pthread_mutex_destroy(&permits->mutex);
    free(permits);
}

/* The client's row, else a free one, else NULL. Linear: rows are few, and looked at when a stream or a wait begins. */
static struct holder *find(struct permits *permits, const char *client)
{
    struct holder *unused = NULL;
    for (unsigned i = 0; i < permits->limit; i++) {
        struct holder *holder = &permits->holders[i];
        if (holder->count > 0 && strcmp(holder->client, client) == 0) return holder;
        if (holder->count == 0 && unused == NULL) unused = holder;
    }
    return unused;
}

enum status permits_take(struct permits *permits, const char *client, struct error *error)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&permits->mutex);
    struct holder *holder = find(permits, client);
    if (holder != NULL && holder->count >= permits->share) {
        status = error_set(error, STATUS_TOO_MANY,
                           "this token (or address, without one) has %u %s, half of all %u, and may have no more: end "
                           "one of them or try again later",
                           holder->count, permits->what, permits->limit);
    } else if (holder == NULL || permits->taken >= permits->limit) {
        status = error_set(error, STATUS_UNAVAILABLE, "there are %u %s, which is the most; try again later",
                           permits->taken, permits->what);
    } else {
        if (holder->count == 0) (void)snprintf(holder->client, sizeof holder->client, "%s", client);
        holder->count++;
        permits->taken++;
    }
    pthread_mutex_unlock(&permits->mutex);
    return status;
}

void permits_give(struct permits *permits, const char *client)
{
    pthread_mutex_lock(&permits->mutex);
    struct holder *holder = find(permits, client);
    if (holder != NULL && holder->count > 0) {
        holder->count--;
        permits->taken--;
    }
    pthread_mutex_unlock(&permits->mutex);
}

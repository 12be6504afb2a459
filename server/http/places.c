#include "http/places.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct holder {
    char client[PLACES_CLIENT];
    unsigned count; /* 0: nobody's row */
};

struct places {
    pthread_mutex_t mutex;
    const char *what;
    unsigned limit, share, taken;
    struct holder holders[]; /* one for each place */
};

enum status places_new(unsigned limit, const char *what, struct places **out, struct error *error)
{
    struct places *places = calloc(1, sizeof *places + limit * sizeof places->holders[0]);
    *out = places;
    if (places == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for %s", what);
    (void)pthread_mutex_init(&places->mutex, NULL);
    places->what = what;
    places->limit = limit;
    places->share = (limit + 1) / 2;
    return STATUS_OK;
}

void places_free(struct places *places)
{
    if (places == NULL) return;
    (void)pthread_mutex_destroy(&places->mutex);
    free(places);
}

/* The client's row, else a free one, else NULL. Linear: rows are few, and looked at when a stream or a wait begins. */
static struct holder *find(struct places *places, const char *client)
{
    struct holder *unused = NULL;
    for (unsigned i = 0; i < places->limit; i++) {
        struct holder *holder = &places->holders[i];
        if (holder->count > 0 && strcmp(holder->client, client) == 0) return holder;
        if (holder->count == 0 && unused == NULL) unused = holder;
    }
    return unused;
}

enum status places_take(struct places *places, const char *client, struct error *error)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&places->mutex);
    struct holder *holder = find(places, client);
    if (holder != NULL && holder->count >= places->share) {
        status = error_set(error, STATUS_TOO_MANY,
                           "this token (or address, without one) has %u %s, half of all %u, and may have no more: end "
                           "one of them or try again later",
                           holder->count, places->what, places->limit);
    } else if (holder == NULL || places->taken >= places->limit) {
        status = error_set(error, STATUS_UNAVAILABLE, "there are %u %s, which is the most; try again later",
                           places->taken, places->what);
    } else {
        if (holder->count == 0) (void)snprintf(holder->client, sizeof holder->client, "%s", client);
        holder->count++;
        places->taken++;
    }
    pthread_mutex_unlock(&places->mutex);
    return status;
}

void places_give(struct places *places, const char *client)
{
    pthread_mutex_lock(&places->mutex);
    struct holder *holder = find(places, client);
    if (holder != NULL && holder->count > 0) {
        holder->count--;
        places->taken--;
    }
    pthread_mutex_unlock(&places->mutex);
}

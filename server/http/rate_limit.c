#include "http/rate_limit.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1024, MICROSECONDS = 1000000 };

/* The generic cell rate algorithm: the state of a bucket is the time when it will be full again. */
struct bucket {
    unsigned char key[RATE_LIMIT_KEY];
    int64_t full_at; /* microseconds; a time in the past: the row is free, or its bucket is full */
};

struct rate_limit {
    pthread_mutex_t mutex;
    int64_t interval, depth; /* microseconds for one request, and for a whole bucket */
    struct bucket buckets[ROWS];
};

static enum status make(int64_t interval, int64_t depth, struct rate_limit **out, struct error *error)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory for the limits of clients");
    (void)pthread_mutex_init(&(*out)->mutex, NULL);
    (*out)->interval = interval;
    (*out)->depth = depth;
    return STATUS_OK;
}

enum status rate_limit_new(int rate, struct rate_limit **out, struct error *error)
{
    const int64_t interval = MICROSECONDS / rate;
    return make(interval, (int64_t)RATE_LIMIT_BURST_SECONDS * rate * interval, out, error);
}

enum status rate_limit_new_rare(int seconds, struct rate_limit **out, struct error *error)
{
    const int64_t interval = (int64_t)seconds * MICROSECONDS;
    return make(interval, interval, out, error);
}

void rate_limit_free(struct rate_limit *limit)
{
    if (limit == NULL) return;
    (void)pthread_mutex_destroy(&limit->mutex);
    free(limit);
}

/* The key's own row, else the row whose bucket is full soonest. Linear: 1,024 rows of 24 bytes take about a
 * microsecond. */
static struct bucket *find(struct rate_limit *limit, const unsigned char key[RATE_LIMIT_KEY])
{
    struct bucket *soonest = &limit->buckets[0];
    for (size_t i = 0; i < ROWS; i++) {
        struct bucket *bucket = &limit->buckets[i];
        if (memcmp(bucket->key, key, RATE_LIMIT_KEY) == 0) return bucket;
        if (bucket->full_at < soonest->full_at) soonest = bucket;
    }
    memcpy(soonest->key, key, RATE_LIMIT_KEY);
    soonest->full_at = 0;
    return soonest;
}

int rate_limit_take(struct rate_limit *limit, const unsigned char key[RATE_LIMIT_KEY], int64_t now)
{
    now *= 1000;
    (void)pthread_mutex_lock(&limit->mutex);
    struct bucket *bucket = find(limit, key);
    const int64_t full_at = (bucket->full_at > now ? bucket->full_at : now) + limit->interval;
    const int64_t wait = full_at - now - limit->depth;
    if (wait <= 0) bucket->full_at = full_at;
    (void)pthread_mutex_unlock(&limit->mutex);
    return wait <= 0 ? 0 : (int)((wait + MICROSECONDS - 1) / MICROSECONDS);
}

/* rate_limit.h: token buckets. Each key (a client's address, a token) may send `rate` requests a second on average, and
 * BURST_SECONDS' worth at once after a pause. Memory is bounded by a fixed table: a new key replaces the one whose
 * bucket will be full soonest, so that a key which was just refused stays known longest. Any thread. */
#ifndef HTTP_RATE_LIMIT_H
#define HTTP_RATE_LIMIT_H

#include "base/error.h"

#include <stdint.h>

struct rate_limit;

enum { RATE_LIMIT_BURST_SECONDS = 20, RATE_LIMIT_KEY = 16, RATE_LIMIT_MOST = 100000 };

/* The caller owns *out (rate_limit_free). `rate` is 1 to RATE_LIMIT_MOST. STATUS_NO_MEMORY. */
MUST_CHECK enum status rate_limit_new(int rate, struct rate_limit **out, struct error *error);
void rate_limit_free(struct rate_limit *limit); /* NULL is fine */

/* A limit of one request in `seconds` (1 to 3600), without a burst. */
MUST_CHECK enum status rate_limit_new_rare(int seconds, struct rate_limit **out, struct error *error);

/* Returns 0 and counts the request, or the seconds until one would be let through. `now` in milliseconds, never
 * falling. */
int rate_limit_take(struct rate_limit *limit, const unsigned char key[RATE_LIMIT_KEY], int64_t now);

#endif

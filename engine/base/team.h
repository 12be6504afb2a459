/* team.h: a fixed team of threads that share loops. One loop at a time. An inner call runs on its own
 * thread alone, with `thread` 0: loops that may be nested take no scratch by thread. What a task computes may not
 * depend on the number of threads: same request, same bits. */
#ifndef BASE_TEAM_H
#define BASE_TEAM_H

#include "base/error.h"

#include <stdint.h>

struct team;

/* A team of `threads` (the caller counts as one; 0: one for each processor this process may run on).
 * The caller owns *out (team_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status team_new(int threads, struct team **out, struct error *error);
int team_threads(int threads);          /* as many as it then has */
void team_free(struct team *team);      /* NULL is fine */
int team_size(const struct team *team); /* 1 for NULL */

/* Calls body(context, i, thread) for i in [0, count), each once, in any order, from the team's threads; returns when
 * all are done. `thread` is in [0, team_size): it may choose scratch, never a result. A NULL team runs on the
 * caller. */
void team_run(struct team *team, int64_t count, void (*body)(void *context, int64_t i, int thread), void *context);

#endif

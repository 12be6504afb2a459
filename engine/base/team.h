/* team.h: a fixed team of threads that share loops, one loop at a time. A nested call runs on its calling thread alone,
 * with `thread` 0, so loops that may be nested use no scratch memory by thread. The result of a task may not depend on
 * the number of threads: the same request gives bit-for-bit identical results. */
#ifndef BASE_TEAM_H
#define BASE_TEAM_H

#include "base/error.h"

#include <stdint.h>

struct team;

/* A team of `threads`, including the caller; 0: one for each processor that this process may use. The caller owns *out
 * (team_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status team_new(int threads, struct team **out, struct error *error);
int team_threads(int threads);          /* the number that team_new would use */
void team_free(struct team *team);      /* NULL is fine */
int team_size(const struct team *team); /* 1 for NULL */

/* Calls body(context, i, thread) once for each i in [0, count), in any order, from the team's threads; returns when all
 * calls have returned. `thread` is in [0, team_size): it may choose scratch memory, never a result. A NULL team runs
 * everything on the caller. */
void team_run(struct team *team, int64_t count, void (*body)(void *context, int64_t i, int thread), void *context);

#endif

/* trajectories.h: the ordered checkpoints of one training run. A reference is an id or a name.
 * Document: id, name, checkpoints (count), first_step, last_step, last_tokens, runs (count by state), watch,
 * watch_state, created_at. */
#ifndef STORE_TRAJECTORIES_H
#define STORE_TRAJECTORIES_H

#include "store/store.h"

/* Finds or makes the trajectory called `name`. */
MUST_CHECK enum status trajectory_ensure(struct connection *connection, const char *name, struct store_id *id,
                                         enum store_outcome *outcome, struct error *error);
/* STATUS_NOT_FOUND. */
MUST_CHECK enum status trajectory_resolve(struct connection *connection, const char *reference, struct store_id *id,
                                          struct error *error);
MUST_CHECK enum status trajectory_get(struct connection *connection, const char *reference, json_t **document,
                                      struct error *error);
MUST_CHECK enum status trajectory_list(struct connection *connection, const struct page *page, json_t **document,
                                       struct error *error);
/* The directory that a scan goes on watching; NULL ends it. */
MUST_CHECK enum status trajectory_set_watch(struct connection *connection, const char *reference, const char *path,
                                            struct error *error);
/* Stores the state of the watch of `path`, for people. Does nothing when another path is watched by now. */
MUST_CHECK enum status trajectory_set_watch_state(struct connection *connection, const char *id, const char *path,
                                                  const json_t *state, struct error *error);
/* [{"id", "name", "watch"}] of all that are watched. */
MUST_CHECK enum status trajectory_watched(struct connection *connection, json_t **document, struct error *error);

#endif

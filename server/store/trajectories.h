/* trajectories.h: the ordered checkpoints of one training run. A reference is an id or a name.
 * Document: id, name, checkpoints (count), first_step, last_step, last_tokens, newest, runs (count by state), watch,
 * watch_state, notes, archived, created_at. */
#ifndef STORE_TRAJECTORIES_H
#define STORE_TRAJECTORIES_H

#include "store/store.h"

/* Finds the trajectory called `name`, or makes it. */
MUST_CHECK enum status trajectory_ensure(struct connection *connection, const char *name, struct store_id *id,
                                         enum store_outcome *outcome, struct error *error);
/* STATUS_NOT_FOUND. */
MUST_CHECK enum status trajectory_resolve(struct connection *connection, const char *reference, struct store_id *id,
                                          struct error *error);
/* Resolves several references: *out, which the caller owns, is an array of ids in the same order, of one
 * that is named twice once. STATUS_NOT_FOUND. */
MUST_CHECK enum status trajectory_resolve_all(struct connection *connection, const char *const *references,
                                              size_t count, json_t **out, struct error *error);
MUST_CHECK enum status trajectory_get(struct connection *connection, const char *reference, json_t **document,
                                      struct error *error);
/* Lists the trajectories that are archived, or those that are not. */
MUST_CHECK enum status trajectory_list(struct connection *connection, bool archived, const struct list_filter *filter,
                                       const struct page *page, json_t **document, struct error *error);
/* `changes` may contain "name", "notes" (null removes them) and "archived". A new name is STATUS_CONFLICT when another
 * trajectory has it, a run that has not ended needs the trajectory, or a directory is watched for it. */
MUST_CHECK enum status trajectory_patch(struct connection *connection, const char *reference, const json_t *changes,
                                        json_t **document, struct error *error);
/* Deletes the trajectory with its checkpoints, their measurements and its gates; files and runs stay. STATUS_CONFLICT
 * while a run that has not ended needs it or a directory is watched for it. Takes about 25 seconds for 100,000
 * checkpoints. */
MUST_CHECK enum status trajectory_delete(struct connection *connection, const char *reference, struct error *error);
/* Sets the directory that is watched for new checkpoints; NULL ends the watch. */
MUST_CHECK enum status trajectory_set_watch(struct connection *connection, const char *reference, const char *path,
                                            struct error *error);
/* Stores the state of the watch of `path`, which people read. Does nothing when another path is being watched. */
MUST_CHECK enum status trajectory_set_watch_state(struct connection *connection, const char *id, const char *path,
                                                  const json_t *state, struct error *error);
/* [{"id", "name", "watch"}] of all trajectories with a watched directory. */
MUST_CHECK enum status trajectory_watched(struct connection *connection, json_t **document, struct error *error);

#endif

/* nodes.h: which node has the files of which checkpoints. A node is a data directory, identified by the id in it
 * (pool/identity.h): machines that share the directory share its cache. Workers note what they have read, and
 * queue_lease prefers runs whose files are near. That is only a hint: without it, or when it is wrong, a run waits two
 * seconds longer or a checkpoint is fetched twice. Missing files are more than a hint: they send a run to another node
 * (queue_elsewhere). */
#ifndef STORE_NODES_H
#define STORE_NODES_H

#include "store/store.h"

/* Notes that the node has the files of the checkpoint: `snapshot` of its cache (hub/hub_cache.h), or "" when they lie
 * at the registered path. Writes at most once a minute. STATUS_CONFLICT: the checkpoint was deleted. */
MUST_CHECK enum status node_note(struct connection *connection, const char *node, const struct store_id *checkpoint,
                                 const char *snapshot, struct error *error);
/* Notes that the node lacks the files: its workers take no run that needs them for ten minutes, or until the node has
 * them. */
MUST_CHECK enum status node_lacks(struct connection *connection, const char *node, const struct store_id *checkpoint,
                                  struct error *error);
/* *keys: the array of snapshots that the node is known to have. */
MUST_CHECK enum status node_snapshots(struct connection *connection, const char *node, json_t **keys,
                                      struct error *error);
/* Forgets that the node has these snapshots. */
MUST_CHECK enum status node_forget_snapshots(struct connection *connection, const char *node, const json_t *keys,
                                             struct error *error);
/* Removes notes that no worker has renewed for a month, and notes of missing files that are older than a day. */
MUST_CHECK enum status nodes_prune(struct connection *connection, struct error *error);

#endif

/* nodes.h: which checkpoints' files lie where. A node is a data directory, by the id in it (pool/identity.h): machines
 * that share one share its cache. Workers write what they have read; queue_lease prefers runs whose files are near. All
 * of it is a hint: without it, or when it is wrong, a run waits two seconds longer or a checkpoint is fetched twice.
 * What a node lacks is no hint: a run goes to another node by it (queue_elsewhere). */
#ifndef STORE_NODES_H
#define STORE_NODES_H

#include "store/store.h"

/* The node has the files of the checkpoint: `snapshot` of its cache (hub/hub_cache.h), or "" where they lie at the path
 * that they were registered with. Written at most once a minute. STATUS_CONFLICT: the checkpoint was deleted. */
MUST_CHECK enum status node_note(struct connection *connection, const char *node, const struct store_id *checkpoint,
                                 const char *snapshot, struct error *error);
/* It was found to lack them: its workers take no run that needs them for ten minutes, or until it has them. */
MUST_CHECK enum status node_lacks(struct connection *connection, const char *node, const struct store_id *checkpoint,
                                  struct error *error);
/* The snapshots that it is said to have: an array of keys. */
MUST_CHECK enum status node_snapshots(struct connection *connection, const char *node, json_t **keys,
                                      struct error *error);
/* Of these keys it has none any more. */
MUST_CHECK enum status node_forget_snapshots(struct connection *connection, const char *node, const json_t *keys,
                                             struct error *error);
/* Removes what no worker of any node has read for a month, and what was lacking a day ago. */
MUST_CHECK enum status nodes_prune(struct connection *connection, struct error *error);

#endif

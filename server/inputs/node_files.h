/* node_files.h: tells the queue which checkpoints' files are on this node (store/nodes.h), and which have been evicted.
 * What goes wrong here is told nobody: a hint is missing. */
#ifndef INPUTS_NODE_FILES_H
#define INPUTS_NODE_FILES_H

#include "hub/fetch.h"
#include "inputs/run_context.h"

/* The files of the checkpoint were opened at their path (or made there), or were not there. */
void node_files_at_path(const struct run_context *context, const struct store_id *checkpoint, bool there);
/* They are in the cache; when some came over the network, others may have made room for them. */
void node_files_fetched(const struct run_context *context, const struct store_id *checkpoint,
                        const struct fetch_result *found);
/* Forgets the snapshots that the cache below `data_directory` has no more. */
MUST_CHECK enum status node_files_check(struct connection *connection, const char *node, const char *data_directory,
                                        struct error *error);

#endif

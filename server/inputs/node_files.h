/* node_files.h: tells the queue which checkpoints' files are on this node (store/nodes.h), and which were evicted.
 * Failures are ignored: only a hint is missing then. */
#ifndef INPUTS_NODE_FILES_H
#define INPUTS_NODE_FILES_H

#include "hub/fetch.h"
#include "inputs/run_context.h"

/* Notes that the files of the checkpoint were opened at their path (or made there), or that they were missing. */
void node_files_at_path(const struct run_context *context, const struct store_id *checkpoint, bool there);
/* Notes that they are in the cache; when some were downloaded, others may have been evicted for them. */
void node_files_fetched(const struct run_context *context, const struct store_id *checkpoint,
                        const struct fetch_result *found);
/* Forgets the snapshots that are no longer in the cache below `data_directory`. */
MUST_CHECK enum status node_files_check(struct connection *connection, const char *node, const char *data_directory,
                                        struct error *error);

#endif

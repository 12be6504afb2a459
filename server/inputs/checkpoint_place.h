/* checkpoint_place.h: where the files of a checkpoint lie. One that was registered by its path lies there. One of the
 * hub or of a bucket lies in the cache of the machine that reads it, below $DATA/hub: a worker fetches it when it is
 * not there, and what is open is not evicted; a machine on which a run made it has it at its path. Whoever reads files
 * of a checkpoint gets their path here and keeps the place open meanwhile; row->path alone is not enough. */
#ifndef INPUTS_CHECKPOINT_PLACE_H
#define INPUTS_CHECKPOINT_PLACE_H

#include "hub/fetch.h"
#include "inputs/run_context.h"
#include "store/checkpoints.h"

struct roots;

struct checkpoint_place {
    char path[4096];             /* canonical: a directory, or one weights file */
    struct hub_cache_hold *hold; /* keeps eviction away; NULL for paths */
};

/* For execute: fetches first what is not here, with progress in bytes. What the first fetch tells of a checkpoint
 * (architecture, sizes, fingerprint) goes into its row and into *row. STATUS_NOT_FOUND: its path leads nowhere here,
 * which is noted, so that the run goes to another node (queue_elsewhere). Statuses of fetch_run and of the store. The
 * caller closes *out. */
MUST_CHECK enum status checkpoint_place_open(const struct run_context *context, struct checkpoint *row,
                                             struct checkpoint_place *out, struct error *error);

/* For check and for requests, which cannot wait for a download: STATUS_INVALID at `pointer` when the files are not
 * here, with advice. The caller closes *out. */
MUST_CHECK enum status checkpoint_place_find(const struct roots *roots, const char *data_directory,
                                             const struct checkpoint *row, const char *pointer,
                                             struct checkpoint_place *out, struct error *error);

void checkpoint_place_close(struct checkpoint_place *place); /* {0} is fine */

/* For the kind fetch: fetch_run with the context's hub and monitor, sparing what runs need. */
MUST_CHECK enum status checkpoint_place_fetch(const struct run_context *context, const struct fetch_request *request,
                                              struct fetch_result *out, struct error *error);
/* What the files at `path` tell of a checkpoint of the hub, into its row, if nothing stands there yet. */
MUST_CHECK enum status checkpoint_place_fill(struct connection *connection, struct checkpoint *row, const char *path,
                                             struct error *error);

/* Whether the checkpoint is one that can be read: by its path, or by what is known of its place on the hub. */
bool checkpoint_place_known(const struct checkpoint *row);

#endif

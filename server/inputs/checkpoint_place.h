/* checkpoint_place.h: finds the files of a checkpoint. One that was registered by its path is at that path. One of the
 * hub or of a bucket is in the cache of the machine that reads it, below $DATA/hub: a worker fetches it when it is not
 * there, and open places are not evicted. On a machine where a run made the checkpoint it is at its path. Code that
 * reads files of a checkpoint must get their path here and keep the place open meanwhile; row->path is not enough. */
#ifndef INPUTS_CHECKPOINT_PLACE_H
#define INPUTS_CHECKPOINT_PLACE_H

#include "hub/fetch.h"
#include "inputs/run_context.h"
#include "store/checkpoints.h"

struct roots;

struct checkpoint_place {
    char path[4096];             /* canonical: a directory, or one weights file */
    struct hub_cache_hold *hold; /* prevents eviction; NULL for paths */
};

/* For execute: fetches missing files first, with progress in bytes. The properties that a first fetch reveals
 * (architecture, sizes, fingerprint) are stored in the checkpoint's row and in *row. STATUS_NOT_FOUND: its path does
 * not exist here, which is noted, so that the run goes to another node (queue_elsewhere). Statuses of fetch_run and of
 * the store. The caller closes *out. */
MUST_CHECK enum status checkpoint_place_open(const struct run_context *context, struct checkpoint *row,
                                             struct checkpoint_place *out, struct error *error);

/* For check and for requests, which cannot wait for a download: STATUS_INVALID at `pointer`, with advice, when the
 * files are not here. The caller closes *out. */
MUST_CHECK enum status checkpoint_place_find(const struct roots *roots, const char *data_directory,
                                             const struct checkpoint *row, const char *pointer,
                                             struct checkpoint_place *out, struct error *error);

/* For what execute and plan of a kind have in common: checkpoint_place_open, or checkpoint_place_find when the context
 * is for planning. */
MUST_CHECK enum status checkpoint_place_for_run(const struct run_context *context, struct checkpoint *row,
                                                const char *pointer, struct checkpoint_place *out, struct error *error);

void checkpoint_place_close(struct checkpoint_place *place); /* {0} is fine */

/* For the kind fetch: fetch_run with the context's hub and monitor; files that runs need are not evicted. */
MUST_CHECK enum status checkpoint_place_fetch(const struct run_context *context, const struct fetch_request *request,
                                              struct fetch_result *out, struct error *error);
/* Stores the properties that the files at `path` reveal about a fetched checkpoint in its row, if they are not known
 * yet. */
MUST_CHECK enum status checkpoint_place_fill(struct connection *connection, struct checkpoint *row, const char *path,
                                             struct error *error);

/* Whether the checkpoint can be read: by its path, or by its place on the hub or in a bucket. */
bool checkpoint_place_known(const struct checkpoint *row);

#endif

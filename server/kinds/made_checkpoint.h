/* made_checkpoint.h: registers a checkpoint that a run has written below $DATA/checkpoints/RUN. Where artifacts go into
 * a bucket (--artifacts), all files of its directory go there first, as PREFIX/checkpoints/RUN/NAME-CONTENT/FILE, and
 * that is its source: every node reads it. The node that made it goes on reading its own files. */
#ifndef KINDS_MADE_CHECKPOINT_H
#define KINDS_MADE_CHECKPOINT_H

#include "inputs/checkpoint_place.h"

/* $DATA/checkpoints/RUN, which is made: below a root of every server that has this data directory. STATUS_IO. */
MUST_CHECK enum status made_checkpoint_directory(const struct run_context *context, char *out, size_t size,
                                                 struct error *error);

/* `row` has the directory as its path and derived_from with the run; what the files tell of it is filled in. One that
 * an earlier attempt at the run registered is found again (checkpoint_insert), and not uploaded again. An upload that
 * was interrupted goes on with the files that are missing. Where the directory is not here, because an attempt on
 * another node made it, what that registered is found (STATUS_INPUT_CHANGED: it was deleted). Statuses of
 * artifact_store_put, bucket_ask and checkpoint_files_register. */
MUST_CHECK enum status made_checkpoint_register(const struct run_context *context, const struct checkpoint_new *row,
                                                struct store_id *id, struct error *error);

/* The training.state beside a checkpoint whose files came out of a bucket into `place`: fetched on its own, since only
 * who continues the checkpoint needs it and it is twice as large as the weights. *out is the file, or {0} where the
 * place has all that there is. The caller closes it. Statuses of fetch_run. */
MUST_CHECK enum status made_checkpoint_state(const struct run_context *context, const struct checkpoint *row,
                                             const struct checkpoint_place *place, struct checkpoint_place *out,
                                             struct error *error);

#endif

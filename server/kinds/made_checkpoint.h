/* made_checkpoint.h: registers a checkpoint that a run has written below $DATA/checkpoints/RUN. When artifacts go into
 * a bucket (--artifacts), all files of the checkpoint's directory are uploaded first, as
 * PREFIX/checkpoints/RUN/NAME-CONTENT/FILE, and this place becomes the checkpoint's source, so that every node can read
 * it. The node that made it keeps reading its own files. */
#ifndef KINDS_MADE_CHECKPOINT_H
#define KINDS_MADE_CHECKPOINT_H

#include "inputs/checkpoint_place.h"

/* Makes $DATA/checkpoints/RUN, which is below a root of every server that has this data directory. STATUS_IO. */
MUST_CHECK enum status made_checkpoint_directory(const struct run_context *context, char *out, size_t size,
                                                 struct error *error);

/* Registers a checkpoint. `row` has the directory as its path, and derived_from with the run; the other members are
 * read from the files. A checkpoint that an earlier attempt at the run registered is found again (checkpoint_insert)
 * and not uploaded again. An interrupted upload continues with the missing files. When the directory is not on this
 * node, because an attempt on another one made it, that attempt's checkpoint is returned (STATUS_INPUT_CHANGED: it was
 * deleted). Statuses of artifact_store_put, bucket_ask and checkpoint_files_register. */
MUST_CHECK enum status made_checkpoint_register(const struct run_context *context, const struct checkpoint_new *row,
                                                struct store_id *id, struct error *error);

/* Opens the training.state beside a checkpoint whose files came from a bucket into `place`. It is fetched separately
 * because it is twice as large as the weights and only a run that continues the checkpoint needs it. *out is the file,
 * or {0} when `place` has all files. The caller closes it. Statuses of fetch_run. */
MUST_CHECK enum status made_checkpoint_state(const struct run_context *context, const struct checkpoint *row,
                                             const struct checkpoint_place *place, struct checkpoint_place *out,
                                             struct error *error);

/* The document of the train run that wrote a checkpoint: a new reference, NULL when it was written otherwise or the run
 * is not known. */
MUST_CHECK enum status made_checkpoint_run(struct connection *connection, const char *checkpoint, json_t **out,
                                           struct error *error);

#endif

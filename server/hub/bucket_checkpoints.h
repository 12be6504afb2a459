/* bucket_checkpoints.h: finds the directories of a bucket that are checkpoints. */
#ifndef HUB_BUCKET_CHECKPOINTS_H
#define HUB_BUCKET_CHECKPOINTS_H

#include "hub/repository.h"

struct bucket_checkpoint {
    char place[OBJECTS_PLACE_MOST + 8]; /* "s3://bucket/prefix/step1000" */
    char commit[NAMES_COMMIT];          /* of bucket_files.h */
    double age;                         /* seconds since the last of its files changed, by the server's clock */
    bool whole;                         /* no shard is missing, by the number that the names of the shards tell */
};

/* Finds what fetch_run would take as a checkpoint, in `place` itself and in the directories below it: weights in one
 * format with a config.json beside them, or a single GGUF file; sorted by place. Statuses of listing_make;
 * STATUS_TOO_LARGE for a place longer than OBJECTS_PLACE_MOST. *out is malloc'ed and the caller's. */
MUST_CHECK enum status bucket_checkpoints_find(const struct repository_caller *caller, const char *place,
                                               struct bucket_checkpoint **out, size_t *count, struct error *error);

#endif

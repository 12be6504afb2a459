/* quantize_kept.h: where a stream of hidden states stands between two blocks, in one file that is replaced as a whole:
 * what an attempt that follows a killed one goes on from. For quantize.c and its tests. */
#ifndef QUANTIZE_QUANTIZE_KEPT_H
#define QUANTIZE_QUANTIZE_KEPT_H

#include "quant/sequential.h"

enum { QUANTIZE_KEPT_STREAMS = 2 };

struct quantize_kept {
    uint64_t fingerprint; /* of what decides the numbers: files with another one are not read */
    int64_t layer;        /* the block that comes next */
    int64_t end_bits, end_weights;
    int64_t layer_count; /* of the summaries so far */
    struct layer_summary *layers;
    int64_t stream_count;
    struct hidden *streams[QUANTIZE_KEPT_STREAMS]; /* lent */
};

/* Writes `path`, durable. STATUS_DISK_FULL, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status quantize_kept_write(const char *path, struct backend *backend, const struct quantize_kept *kept,
                                           struct error *error);

/* Reads `path` into *kept, whose fingerprint, streams and layers (room for *layer_count, NULL: none are wanted) are
 * given. *found false when there is no such file, or not one of this fingerprint and shape with a good checksum; what
 * is in the streams is then no longer known. STATUS_NO_MEMORY. */
MUST_CHECK enum status quantize_kept_read(const char *path, struct backend *backend, struct quantize_kept *kept,
                                          bool *found, struct error *error);

#endif

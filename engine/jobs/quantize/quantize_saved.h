/* quantize_saved.h: streams of hidden states between two blocks, saved in one file. When a run is killed, the next
 * attempt goes on from there. The file is replaced as a whole. For quantize.c and its tests. */
#ifndef QUANTIZE_QUANTIZE_SAVED_H
#define QUANTIZE_QUANTIZE_SAVED_H

#include "quant/sequential.h"

enum { QUANTIZE_SAVED_STREAMS = 2 };

struct quantize_saved {
    uint64_t fingerprint; /* of everything that the numbers depend on: files with another one are not read */
    int64_t layer;        /* the block that comes next */
    int64_t end_bits, end_weights;
    int64_t layer_count; /* of the summaries so far */
    struct layer_summary *layers;
    int64_t stream_count;
    struct hidden *streams[QUANTIZE_SAVED_STREAMS]; /* lent */
};

/* Writes `path`, durable. STATUS_DISK_FULL, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status quantize_saved_write(const char *path, struct backend *backend,
                                            const struct quantize_saved *kept, struct error *error);

/* Reads `path` into *kept. The caller gives its fingerprint and streams, and layers with space for layer_count of them
 * (NULL: none are wanted). *found is false when there is no such file, or when its fingerprint, shape or checksum is
 * another; the streams are then undefined. STATUS_NO_MEMORY. */
MUST_CHECK enum status quantize_saved_read(const char *path, struct backend *backend, struct quantize_saved *kept,
                                           bool *found, struct error *error);

#endif

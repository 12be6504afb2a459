/* weights_writer.h: writes the weights of a checkpoint into a directory, tensor by tensor: as one model.safetensors, as
 * shards with an index if that file would be large, or as model.gguf. */
#ifndef WEIGHTS_WEIGHTS_WRITER_H
#define WEIGHTS_WEIGHTS_WRITER_H

#include "formats/gguf/gguf_writer.h"
#include "formats/safetensors/safetensors_writer.h"

#define WEIGHTS_WRITER_SHARD_BYTES INT64_C(5000000000)

struct weights_writer_target {
    const char *directory;
    int64_t shard_bytes;              /* of tensors in a file, unless one is larger; WEIGHTS_WRITER_SHARD_BYTES */
    const struct gguf_metadata *gguf; /* NULL: safetensors */
    bool kept; /* continues what a killed writer of the same target and entries left (file_slots.h) */
};

struct weights_writer;

/* `entries` are only read during the call. The caller owns *out (weights_writer_close). Statuses of
 * safetensors_writer_open and gguf_writer_open. */
MUST_CHECK enum status weights_writer_open(const struct weights_writer_target *target,
                                           const struct safetensors_entry *entries, int64_t count,
                                           struct weights_writer **out, struct error *error);

/* Like safetensors_writer_f32 and safetensors_writer_bytes. */
MUST_CHECK enum status weights_writer_f32(struct weights_writer *writer, int64_t index, const float *values,
                                          int64_t count, struct error *error);
MUST_CHECK enum status weights_writer_bytes(struct weights_writer *writer, int64_t index, const void *bytes,
                                            int64_t size, struct error *error);

/* For a kept target: whether an entry is complete; empties an entry, to be written again; durably notes which entries
 * are complete. */
bool weights_writer_full(const struct weights_writer *writer, int64_t index);
void weights_writer_rewind(struct weights_writer *writer, int64_t index);
MUST_CHECK enum status weights_writer_save(struct weights_writer *writer, struct error *error);

/* The file that stands for all in messages: the weights, or the index of their shards. Lent. */
const char *weights_writer_name(const struct weights_writer *writer);

/* Makes the files durable and puts them in place, the index last. */
MUST_CHECK enum status weights_writer_commit(struct weights_writer *writer, struct error *error);
/* Releases the writer; files without a commit are removed, unless they are kept. NULL is fine. */
void weights_writer_close(struct weights_writer *writer);

#endif

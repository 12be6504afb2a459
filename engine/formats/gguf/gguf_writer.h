/* gguf_writer.h: writes one GGUF file, version 3, little endian (gguf.h reads them): metadata, then tensors, each in
 * chunks. Nothing appears at the path before gguf_writer_commit has made all of it durable; an abandoned writer leaves
 * nothing behind. */
#ifndef GGUF_GGUF_WRITER_H
#define GGUF_GGUF_WRITER_H

#include "base/buffer.h"
#include "formats/safetensors/safetensors_writer.h" /* struct safetensors_entry */

#include <stddef.h>

/* Pairs of key and value in the file's encoding. Start with {0}; gguf_metadata_reset. A failure (no memory) is kept and
 * reported when the file is opened. */
struct gguf_metadata {
    struct buffer pairs;
    uint64_t count;
};

void gguf_metadata_text(struct gguf_metadata *metadata, const char *key, const char *value);
void gguf_metadata_integer(struct gguf_metadata *metadata, const char *key, uint32_t value);
void gguf_metadata_number(struct gguf_metadata *metadata, const char *key, float value);
void gguf_metadata_boolean(struct gguf_metadata *metadata, const char *key, bool value);
/* An array: its head, then each of `count` values. */
void gguf_metadata_texts(struct gguf_metadata *metadata, const char *key, int64_t count);
void gguf_metadata_texts_add(struct gguf_metadata *metadata, const char *value, size_t size);
void gguf_metadata_integers(struct gguf_metadata *metadata, const char *key, const int32_t *values, int64_t count);
void gguf_metadata_numbers(struct gguf_metadata *metadata, const char *key, const float *values, int64_t count);
void gguf_metadata_reset(struct gguf_metadata *metadata);

struct gguf_writer;

/* Begins the file at `path` with these tensors: F32, F16, BF16 or blocks (Q8_0, Q4_0, Q4_1) along the last axis.
 * `entries` are only read during the call. `kept`: continues what a killed writer of the same file left (file_slots.h).
 * The caller owns *out (gguf_writer_close). STATUS_INVALID (an unsupported type or shape), STATUS_DISK_FULL (the whole
 * size is reserved at once), STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status gguf_writer_open(const char *path, const struct gguf_metadata *metadata,
                                        const struct safetensors_entry *entries, int64_t count, bool kept,
                                        struct gguf_writer **out, struct error *error);
/* Appends bytes to entry `index`. STATUS_INVALID (more than it holds), STATUS_DISK_FULL, STATUS_IO. */
MUST_CHECK enum status gguf_writer_bytes(struct gguf_writer *writer, int64_t index, const void *bytes, int64_t size,
                                         struct error *error);
/* For a kept file: file_slots_full, file_slots_rewind, file_slots_save. */
bool gguf_writer_full(const struct gguf_writer *writer, int64_t index);
void gguf_writer_rewind(struct gguf_writer *writer, int64_t index);
MUST_CHECK enum status gguf_writer_save(struct gguf_writer *writer, struct error *error);

/* Makes the file durable and puts it in place. STATUS_INVALID when an entry is not complete; STATUS_DISK_FULL,
 * STATUS_IO. */
MUST_CHECK enum status gguf_writer_commit(struct gguf_writer *writer, struct error *error);
void gguf_writer_close(struct gguf_writer *writer); /* NULL is fine */

#endif

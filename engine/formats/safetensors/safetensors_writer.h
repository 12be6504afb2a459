/* safetensors_writer.h: writes one .safetensors file tensor by tensor. Nothing appears at the path before
 * safetensors_writer_commit has made all of it durable; an abandoned writer leaves nothing behind. */
#ifndef SAFETENSORS_SAFETENSORS_WRITER_H
#define SAFETENSORS_SAFETENSORS_WRITER_H

#include "base/error.h"
#include "tensor/dtype.h"

#include <stdbool.h>
#include <stdint.h>

struct safetensors_entry {
    const char *name;
    enum dtype dtype;
    int rank;
    const int64_t *shape; /* [rank] */
};

struct safetensors_writer;

/* Begins the file at `path` with these tensors; metadata is {"format":"pt"}. Wide dtypes come first in the file, so
 * that every tensor is aligned to its element. `entries` are only read during the call. The caller owns *out
 * (safetensors_writer_close). STATUS_INVALID (a name twice or unusable, a bad shape), STATUS_DISK_FULL (the whole size
 * is reserved at once), STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status safetensors_writer_open(const char *path, const struct safetensors_entry *entries, int64_t count,
                                               struct safetensors_writer **out, struct error *error);

/* Like safetensors_writer_open, but continues the file of a killed writer of the same path and entries (file_slots.h);
 * its full entries need not be written again. */
MUST_CHECK enum status safetensors_writer_take_up(const char *path, const struct safetensors_entry *entries,
                                                  int64_t count, struct safetensors_writer **out, struct error *error);

/* Size of the file of these tensors. Statuses of safetensors_writer_open, except those of the disk. */
MUST_CHECK enum status safetensors_writer_measure(const struct safetensors_entry *entries, int64_t count,
                                                  int64_t *bytes, struct error *error);

/* Appends `count` values to entry `index`, converted to its dtype (nearest even). Entries may be written in any order,
 * each in any number of chunks. STATUS_INVALID (more than its shape holds, a dtype that is no float), STATUS_DISK_FULL,
 * STATUS_IO. */
MUST_CHECK enum status safetensors_writer_f32(struct safetensors_writer *writer, int64_t index, const float *values,
                                              int64_t count, struct error *error);
/* Appends bytes that are stored unchanged. */
MUST_CHECK enum status safetensors_writer_bytes(struct safetensors_writer *writer, int64_t index, const void *bytes,
                                                int64_t size, struct error *error);

/* For writers of safetensors_writer_take_up: file_slots_full, file_slots_rewind, file_slots_save. */
bool safetensors_writer_full(const struct safetensors_writer *writer, int64_t index);
void safetensors_writer_rewind(struct safetensors_writer *writer, int64_t index);
MUST_CHECK enum status safetensors_writer_save(struct safetensors_writer *writer, struct error *error);

/* Makes the file durable and puts it in place. STATUS_INVALID when an entry is not complete; STATUS_DISK_FULL,
 * STATUS_IO. */
MUST_CHECK enum status safetensors_writer_commit(struct safetensors_writer *writer, struct error *error);
/* Releases the writer. Without a commit the file is removed, unless a later writer may take it up. NULL is fine. */
void safetensors_writer_close(struct safetensors_writer *writer);

#endif

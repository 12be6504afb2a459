/* safetensors.h: read-only access to one .safetensors file: u64 length (little endian), JSON header, raw tensor bytes.
 * The file is read with pread and never mapped. An open file does not change, so threads may share it. */
#ifndef SAFETENSORS_SAFETENSORS_H
#define SAFETENSORS_SAFETENSORS_H

#include "files/file.h"
#include "formats/safetensors/safetensors_header.h"

struct safetensors;

/* Opens `path` below the descriptor `directory` (see file_open) and checks all of its header. The caller owns *out.
 * Statuses of file_open and safetensors_header_new; STATUS_CORRUPT when file and header disagree. */
MUST_CHECK enum status safetensors_open(int directory, const char *path, struct safetensors **out, struct error *error);
void safetensors_close(struct safetensors *file); /* NULL is fine */

int64_t safetensors_count(const struct safetensors *file);
/* The tensor at `index`, in [0, count), in ascending byte order of names; lent until safetensors_close. */
void safetensors_tensor(const struct safetensors *file, int64_t index, struct safetensors_tensor *out);
/* Index of the tensor `name`, -1 when there is none. O(log count). */
int64_t safetensors_find(const struct safetensors *file, const char *name);

/* Elements [first, first + count) of a tensor, flattened row-major, as float32 (rounded to nearest even from F64).
 * Converts in bounded chunks; allocates nothing. Values that are not finite pass through. STATUS_INVALID (span outside
 * the tensor), STATUS_UNSUPPORTED (not a floating point dtype we convert), STATUS_INPUT_CHANGED, STATUS_IO. */
MUST_CHECK enum status safetensors_read_f32(const struct safetensors *file, int64_t index, int64_t first, int64_t count,
                                            float *out, struct error *error);

/* Bytes [first, first + bytes) of a tensor as stored (little endian); BOOL bytes must be 0 or 1. STATUS_INVALID,
 * STATUS_CORRUPT, STATUS_INPUT_CHANGED, STATUS_IO. */
MUST_CHECK enum status safetensors_read_bytes(const struct safetensors *file, int64_t index, int64_t first,
                                              int64_t bytes, void *out, struct error *error);

/* Asks the kernel to read a tensor soon. */
void safetensors_readahead(const struct safetensors *file, int64_t index);

const struct file *safetensors_file(const struct safetensors *file); /* lent: its name, size, whether it changed */

#endif

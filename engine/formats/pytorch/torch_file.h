/* torch_file.h: read-only access to the tensors of a file that torch.save wrote (PyTorch 1.6 and later: a zip archive
 * of one pickle and a stored entry for each storage). Nothing of the file is executed. The file is read with pread and
 * never mapped; an open file does not change, so threads may share it. */
#ifndef PYTORCH_TORCH_FILE_H
#define PYTORCH_TORCH_FILE_H

#include "files/file.h"
#include "formats/pytorch/torch_state.h"

struct torch_file;

/* Opens `path` below the descriptor `directory` (see file_open); reads the archive's directory and the pickle, no
 * tensor. The file's content decides its format, not its name. The caller owns *out. Statuses of file_open, zip_open,
 * pickle_read and torch_state_read; STATUS_UNSUPPORTED for files of before PyTorch 1.6, TorchScript, pointers of
 * git-lfs and other things with these endings. */
MUST_CHECK enum status torch_file_open(int directory, const char *path, struct torch_file **out, struct error *error);
void torch_file_close(struct torch_file *file); /* NULL is fine */

const struct torch_state *torch_file_state(const struct torch_file *file); /* lent */
const struct file *torch_file_file(const struct torch_file *file); /* lent: its name, size, whether it changed */

/* Whether the elements of a tensor are not contiguous in the file. */
bool torch_file_scattered(const struct torch_file *file, int64_t index);

/* Elements [first, first + count) of a tensor, flattened row-major, as float32. Allocates nothing. STATUS_INVALID (span
 * outside the tensor), STATUS_UNSUPPORTED (not a floating point dtype), STATUS_INPUT_CHANGED, STATUS_IO. */
MUST_CHECK enum status torch_file_read_f32(const struct torch_file *file, int64_t index, int64_t first, int64_t count,
                                           float *out, struct error *error);
/* Bytes [first, first + bytes) of a tensor that is not scattered, as stored (little endian). STATUS_INVALID,
 * STATUS_INPUT_CHANGED, STATUS_IO. */
MUST_CHECK enum status torch_file_read_bytes(const struct torch_file *file, int64_t index, int64_t first, int64_t bytes,
                                             void *out, struct error *error);
/* Asks the kernel to read a tensor soon. */
void torch_file_readahead(const struct torch_file *file, int64_t index);

#endif

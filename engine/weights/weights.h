/* weights.h: the tensors of a checkpoint, which may be: one .safetensors file, one file of torch.save (.bin, .pt,
 * .pth), one .gguf (or the first part of a split one); or a directory in the Hugging Face layout with
 * model.safetensors, or with model.safetensors.index.json and its shards, or likewise with pytorch_model.bin, or with a
 * single file of weights. Container formats are rows of a table in weights.c. Open weights do not change; threads may
 * share them and read at the same time. */
#ifndef WEIGHTS_WEIGHTS_H
#define WEIGHTS_WEIGHTS_H

#include "base/error.h"
#include "tensor/dtype.h"

#include <stdint.h>

struct weights;

/* Lent until weights_close. */
struct weights_tensor {
    const char *name;
    enum dtype dtype;
    int rank;
    const int64_t *shape; /* [rank], row-major */
    int64_t elements;
    int64_t bytes;  /* as stored */
    int file;       /* index of its file, for weights_file; filled by weights_tensor */
    bool scattered; /* not contiguous in the file: a small span is read a few numbers at a time */
    bool plain;     /* weights_read_bytes reads it */
};

/* Training progress recorded in the files; -1: unknown. */
struct weights_progress {
    int64_t step, tokens;
};

struct weights_file {
    const char *name; /* in weights_directory; no slash */
    int64_t bytes;
};

/* Opens the checkpoint at `path`. Every header is checked, every tensor of an index is in the shard that it names, and
 * no shard has a tensor that the index lacks. The caller owns *out (weights_close).
 * STATUS_NOT_FOUND (nothing there, or a missing shard), STATUS_INVALID (several files and no index), STATUS_UNSUPPORTED
 * (a feature of the format that deltaq does not read; the detail says what to do), STATUS_CORRUPT, STATUS_FORBIDDEN,
 * STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status weights_open(const char *path, struct weights **out, struct error *error);
void weights_close(struct weights *weights); /* NULL is fine */

/* Whether a file called `name` may hold a whole checkpoint; a directory may have several of these: .pt, .pth, .gguf.
 * False for files that trainers put beside the weights (optimizer.pt) and for later parts of a split .gguf. */
bool weights_file_is_whole(const char *name);

/* Directory of the files: where config.json and tokenizer.json lie. Absolute only if `path` was; not for messages.
 * Lent. */
const char *weights_directory(const struct weights *weights);

int64_t weights_count(const struct weights *weights);
/* The tensor at `index`, in [0, count), in ascending byte order of names. */
void weights_tensor(const struct weights *weights, int64_t index, struct weights_tensor *out);
/* Index of the tensor `name`, -1 when there is none. O(log count). */
int64_t weights_find(const struct weights *weights, const char *name);

/* Elements [first, first + count) of tensor `index`, flattened row-major, as float32. Allocates nothing. Values that
 * are not finite pass through. STATUS_INVALID (span outside the tensor), STATUS_UNSUPPORTED (not a floating point
 * dtype), STATUS_INPUT_CHANGED, STATUS_IO. */
MUST_CHECK enum status weights_read_f32(const struct weights *weights, int64_t index, int64_t first, int64_t count,
                                        float *out, struct error *error);
/* Bytes [first, first + bytes) of a `plain` tensor: its elements as stored, row-major. Allocates nothing.
 * STATUS_INVALID (span outside the tensor), STATUS_CORRUPT, STATUS_INPUT_CHANGED, STATUS_IO. */
MUST_CHECK enum status weights_read_bytes(const struct weights *weights, int64_t index, int64_t first, int64_t bytes,
                                          void *out, struct error *error);
/* Asks the kernel to read a tensor soon; returns at once. */
void weights_readahead(const struct weights *weights, int64_t index);

int64_t weights_bytes(const struct weights *weights); /* of all tensors, as stored */
/* The dtype of most elements; *mixed (may be NULL): there are other dtypes too. */
enum dtype weights_dtype(const struct weights *weights, bool *mixed);

/* The configuration that the weight files themselves contain, as the text of a config.json; lent. NULL: none. */
const char *weights_config(const struct weights *weights);
/* Sets a configuration given from outside: a JSON object whose keys override those of config.json; copied. */
MUST_CHECK enum status weights_give_config(struct weights *weights, const char *text, struct error *error);
const char *weights_given_config(const struct weights *weights); /* lent; NULL: nothing */
void weights_progress(const struct weights *weights, struct weights_progress *out);

/* The files of the weights (tensor files, then the index if there is one), to be hashed or compared. */
int weights_file_count(const struct weights *weights);
void weights_file(const struct weights *weights, int index, struct weights_file *out);

/* STATUS_INPUT_CHANGED when a file's size, modification time or identity is not what it was at weights_open. */
MUST_CHECK enum status weights_check_unchanged(const struct weights *weights, struct error *error);

#endif

/* weights.h: the tensors of a checkpoint, wherever they lie: one .safetensors file, one of torch.save (.bin, .pt,
 * .pth), one .gguf (or the first part of a split one);
 * or a directory in the Hugging Face layout with model.safetensors, or with model.safetensors.index.json and its
 * shards, or the same with pytorch_model.bin, or with one file of weights alone. Container formats are rows of a table
 * in weights.c. Open weights do not change; threads may share them and read at the same time. */
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
    int64_t bytes; /* as stored */
    int file;      /* the one it lies in, for weights_file; filled by weights_tensor */
};

/* What the files say of the training beside the tensors; -1: nothing. */
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
 * (what a format can hold and deltaq does not read; the detail says what to do), STATUS_CORRUPT, STATUS_FORBIDDEN,
 * STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status weights_open(const char *path, struct weights **out, struct error *error);
void weights_close(struct weights *weights); /* NULL is fine */

/* Whether a file called `name` may hold a whole checkpoint, of which a directory may have several: .pt, .pth, .gguf,
 * and none of those that trainers put beside the weights (optimizer.pt) nor later parts of a split .gguf. */
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
/* Asks the kernel to read a tensor soon; returns at once. */
void weights_readahead(const struct weights *weights, int64_t index);

int64_t weights_bytes(const struct weights *weights); /* of all tensors, as stored */
/* The dtype that most elements have; *mixed (may be NULL) tells whether there are others. */
enum dtype weights_dtype(const struct weights *weights, bool *mixed);

/* What the files themselves say of their model, as the text of a config.json; lent. NULL: nothing. */
const char *weights_config(const struct weights *weights);
/* Notes what was said of the model from outside, a JSON object whose keys go before those of config.json; copied. */
MUST_CHECK enum status weights_give_config(struct weights *weights, const char *text, struct error *error);
const char *weights_given_config(const struct weights *weights); /* lent; NULL: nothing */
void weights_progress(const struct weights *weights, struct weights_progress *out);

/* The files that make up the weights (tensor files, then the index if there is one), to be hashed or compared. */
int weights_file_count(const struct weights *weights);
void weights_file(const struct weights *weights, int index, struct weights_file *out);

/* STATUS_INPUT_CHANGED when a file's size, modification time or identity is not what it was at weights_open. */
MUST_CHECK enum status weights_check_unchanged(const struct weights *weights, struct error *error);

#endif

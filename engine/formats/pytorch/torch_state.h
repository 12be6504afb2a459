/* torch_state.h: finds the weights in a pickle of torch.save: a state dict, alone or inside a training state. */
#ifndef PYTORCH_TORCH_STATE_H
#define PYTORCH_TORCH_STATE_H

#include "formats/pytorch/pickle.h"
#include "formats/pytorch/strided.h"
#include "formats/pytorch/zip.h"

struct torch_tensor {
    char *name; /* owned; valid UTF-8 without control characters; prefixes of wrappers are removed */
    enum dtype dtype;
    int rank;
    int64_t shape[STRIDED_RANK_MAX], stride[STRIDED_RANK_MAX];
    int64_t elements;
    int64_t offset; /* of its first element in the file, in bytes */
};

struct torch_state {
    struct torch_tensor *tensors; /* owned; in ascending byte order of names */
    int64_t count;
    int64_t step, tokens; /* from the training state around the weights; -1: unknown */
};

/* Finds the state dict in `pickle`: the root, or the value that a trainer calls "state_dict", "model", …, at most four
 * levels down. Prefixes that torch.compile, DDP, FSDP, DeepSpeed and Lightning add to names are removed. Every tensor
 * must lie in an entry "data/KEY" of `zip` below `folder`, which is exactly as long as the tensor's storage. `name`
 * names the file in messages. The caller resets *out, also on failure. STATUS_INVALID (no state dict, or several),
 * STATUS_CORRUPT, STATUS_UNSUPPORTED (dtypes that deltaq does not have, shards of FSDP), STATUS_NO_MEMORY. */
MUST_CHECK enum status torch_state_read(const char *name, const struct pickle *pickle, const struct zip *zip,
                                        const char *folder, struct torch_state *out, struct error *error);
void torch_state_reset(struct torch_state *state);

#endif

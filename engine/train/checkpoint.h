/* checkpoint.h: writes what a training run has reached as a directory in the Hugging Face layout: model.safetensors,
 * config.json, tokenizer.json when there is a tokenizer, deltaq's own training.json, and training.state when the run
 * may be continued from here. The directory appears whole under its name, durable, or not at all. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "tensor/dtype.h"
#include "tokenizer/tokenizer.h"
#include "train/state.h"

struct checkpoint {
    const char *directory; /* the new directory's path; its parent exists */
    const char *config;    /* text of config.json */
    size_t config_size;
    const struct tokenizer *tokenizer; /* NULL: none */
    enum dtype dtype;                  /* DTYPE_F32 or DTYPE_BF16 */
    uint64_t seed;
    struct state_checkpoint reached;
    const struct state *state;         /* NULL: no training.state */
    const struct optimizer *optimizer; /* likewise */
    const struct ema *ema; /* goes into training.state; the record of an averaged checkpoint is of it; NULL: none */
};

/* Writes it; a directory of that name is replaced (a run that resumes may come by again). STATUS_DISK_FULL, STATUS_IO,
 * STATUS_NOT_FOUND (no parent), STATUS_NO_MEMORY: nothing is left behind then. */
MUST_CHECK enum status checkpoint_write(const struct checkpoint *checkpoint, const struct parameters *parameters,
                                        struct error *error);

/* Removes a directory of plain files. Ignores what is not there. */
void checkpoint_remove(const char *directory);

#endif

/* checkpoint.h: writes the present state of a training run as a directory in the Hugging Face layout:
 * model.safetensors, config.json, tokenizer.json if there is a tokenizer, deltaq's own training.json, and
 * training.state if runs may continue from here. The directory appears under its name complete and durable, or not at
 * all. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "tensor/dtype.h"
#include "tokenizer/tokenizer.h"
#include "train/state.h"

struct checkpoint {
    const char *directory; /* the new directory's path; its parent exists */
    const char *config;    /* text of config.json; a type of weights that it names becomes `dtype` in the file */
    size_t config_size;
    const struct tokenizer *tokenizer; /* NULL: none */
    enum dtype dtype;                  /* DTYPE_F32 or DTYPE_BF16 */
    uint64_t seed;
    struct state_checkpoint reached;
    const struct state *state;         /* NULL: no training.state */
    const struct optimizer *optimizer; /* likewise */
    const struct ema *ema; /* goes into training.state; the record of an averaged checkpoint is of it; NULL: none */
};

/* Writes the checkpoint; a directory of that name is replaced (a resumed run may write it again). Several attempts may
 * write it at once: the last one's stays. STATUS_DISK_FULL, STATUS_IO, STATUS_NOT_FOUND (no parent), STATUS_NO_MEMORY:
 * no files are left. */
MUST_CHECK enum status checkpoint_write(const struct checkpoint *checkpoint, const struct parameters *parameters,
                                        struct error *error);

/* Renames `temporary` to `directory`, beside it or elsewhere on the file system, and makes the name durable. An older
 * directory of that name is exchanged with it and then removed; it stays if `temporary` is missing
 * (STATUS_NOT_FOUND). */
MUST_CHECK enum status checkpoint_publish(const char *temporary, const char *directory, struct error *error);

/* Removes a directory of plain files. A missing one is fine. */
void checkpoint_remove(const char *directory);

#endif

/* checkpoint_files.h: reads what the files of a checkpoint tell, and registers it; for POST, for scans and for training
 * runs. */
#ifndef INPUTS_CHECKPOINT_FILES_H
#define INPUTS_CHECKPOINT_FILES_H

#include "base/error.h"
#include "inputs/hash.h"
#include "model/model.h"
#include "store/checkpoints.h"

struct checkpoint_files {
    char architecture[64], dtype[16], fingerprint[HASH_TEXT],
        sha256[HASH_TEXT]; /* sha256 "": too large to hash at once */
    int64_t parameters, bytes;
    json_t *files; /* owned: [{"name", "bytes"}] */
    /* From the training state beside the weights; -1, NaN: not known. */
    int64_t step, tokens;
    double learning_rate;
};

/* Reads the headers, the configuration and the training state at `path` (canonical; a directory, or one weights file
 * with config.json beside it). `config` (may be NULL): JSON text whose keys go before those of config.json. Statuses of
 * model_open. The caller resets *out. `monitor` (may be NULL) may stop the hashing; when it says that it takes too long
 * (STATUS_TOO_LARGE), the hash is left to the first run, as that of larger files. */
MUST_CHECK enum status checkpoint_files_read(const char *path, const char *config, const struct monitor *monitor,
                                             struct checkpoint_files *out, struct error *error);
void checkpoint_files_reset(struct checkpoint_files *files);

/* Hash the headers, sizes and samples of the content, and the whole content. Both cover the weight files, config.json
 * and the configuration given beside it. `monitor` (may be NULL) is told the bytes read and may stop the hashing. */
MUST_CHECK enum status checkpoint_files_fingerprint(const struct model *model, char out[HASH_TEXT],
                                                    struct error *error);
MUST_CHECK enum status checkpoint_files_content(const struct model *model, const struct monitor *monitor,
                                                char out[HASH_TEXT], struct error *error);

/* Reads the files at `row`->path and inserts the checkpoint. Step, tokens and learning rate that are NULL in `row` come
 * from the training state, else from `guess` (may be NULL); for a published run the rate may come from public_rate.h.
 * row->source is {"path": row->path} when NULL; its "config", if any, overrides config.json. A source with a "commit"
 * is registered without a path, unless a run made the checkpoint (row->derived_from). */
struct checkpoint_guess {
    int64_t step, tokens; /* -1: none */
};
MUST_CHECK enum status checkpoint_files_register(struct connection *connection, const struct checkpoint_new *row,
                                                 const struct checkpoint_guess *guess, const struct monitor *monitor,
                                                 enum store_outcome *outcome, json_t **document, struct error *error);

#endif

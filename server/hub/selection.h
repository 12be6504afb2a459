/* selection.h: the files of a repository that a checkpoint needs. A repository may hold the same weights in several
 * formats, and other files. */
#ifndef HUB_SELECTION_H
#define HUB_SELECTION_H

#include "hub/repository.h"

/* Moves the selected files to the front of `files` and counts them: those of `names` [name_count], or, without names,
 * the weights at the top in one format (safetensors before others), config.json, the tokenizer and the training state.
 * STATUS_NOT_FOUND (a name that is not there), STATUS_UNSUPPORTED (no weights that are known by their names),
 * STATUS_TOO_LARGE. */
MUST_CHECK enum status selection_make(struct repository_file *files, size_t count, const char *const *names,
                                      size_t name_count, size_t *wanted, struct error *error);

#endif

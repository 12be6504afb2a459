/* config_files.h: what makes a directory of weights one that others load: the configuration and the tokenizer of the
 * checkpoint that the weights come from. */
#ifndef JOBS_CONFIG_FILES_H
#define JOBS_CONFIG_FILES_H

#include "base/plan.h"
#include "weights/weights.h"

/* Writes them into `directory`. `config` (may be NULL) is a JSON object whose members go before those of config.json.
 * Where config.json is not all that is said of the source, as with GGUF, the new one says it. Statuses of
 * recognise_text, file_read_all and file_writer_put. */
MUST_CHECK enum status config_files_write(const struct weights *source, const char *directory, const char *config,
                                          struct error *error);
/* What that takes, reads and writes, onto a plan; nothing is written. */
MUST_CHECK enum status config_files_plan(const struct weights *source, const char *config, struct run_plan *plan,
                                         struct error *error);

#endif

/* config_files.h: writes the configuration files (weights/configuration_files.h) of new weights: those of the
 * checkpoint that these come from. */
#ifndef JOBS_CONFIG_FILES_H
#define JOBS_CONFIG_FILES_H

#include "base/plan.h"
#include "weights/weights.h"

/* Writes them into `directory`. `config` (may be NULL) is a JSON object whose members override those of config.json. If
 * config.json is not the only source of the configuration, as with GGUF, the new file contains all of it. Statuses of
 * recognise_text, file_read_all and file_writer_put. */
MUST_CHECK enum status config_files_write(const struct weights *source, const char *directory, const char *config,
                                          struct error *error);
/* Adds the memory, reads and writes of config_files_write to a plan; writes nothing. */
MUST_CHECK enum status config_files_plan(const struct weights *source, const char *config, struct run_plan *plan,
                                         struct error *error);

#endif

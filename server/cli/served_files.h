/* served_files.h: the files that `serve` gives as they are. */
#ifndef CLI_SERVED_FILES_H
#define CLI_SERVED_FILES_H

#include "cli/options.h"
#include "http/static_files.h"

/* The dashboard (--static, or what lies beside the binary), what `make static` fetches for it, and openapi.yaml.
 * Without them the API is served all the same. The caller owns *out. Statuses of static_files_load, naming the
 * directory. */
MUST_CHECK enum status served_files_load(const struct options *options, struct static_files **out, struct error *error);

#endif

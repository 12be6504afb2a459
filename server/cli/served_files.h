/* served_files.h: the files that `serve` sends unchanged. */
#ifndef CLI_SERVED_FILES_H
#define CLI_SERVED_FILES_H

#include "cli/options.h"
#include "http/static_files.h"

/* Loads the dashboard (--static, or the directory beside the binary), the libraries that `make static` fetches for it,
 * and openapi.yaml. Without them the API is still served. The caller owns *out. Statuses of static_files_load, with the
 * directory's name. */
MUST_CHECK enum status served_files_load(const struct options *options, struct static_files **out, struct error *error);

#endif

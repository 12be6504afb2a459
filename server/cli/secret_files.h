/* secret_files.h: the files with keys and passwords that this process, or what it starts, reads: they may lie below a
 * root, and are no input for a client. */
#ifndef CLI_SECRET_FILES_H
#define CLI_SECRET_FILES_H

#include "cli/options.h"

enum { SECRET_FILES_MOST = 12 };

/* Fills paths[0 … SECRET_FILES_MOST], which ends with NULL: --tls-key, what --database-url names, and what libraries of
 * object storage, PostgreSQL and the hub read by the environment or in the home directory, there or not. The caller
 * owns each (free). STATUS_NO_MEMORY. */
MUST_CHECK enum status secret_files_list(const struct options *options, char *paths[SECRET_FILES_MOST + 1],
                                         struct error *error);

#endif

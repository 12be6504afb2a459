/* secret_files.h: files and directories with keys and passwords that this process, what it starts, or other programs of
 * its user read: they may lie below a root (a server started at home has it as one), and are no input for a client. */
#ifndef CLI_SECRET_FILES_H
#define CLI_SECRET_FILES_H

#include "cli/options.h"

enum { SECRET_FILES_MOST = 88 };

/* Fills paths[0 … SECRET_FILES_MOST], which ends with NULL: --tls-key, what --database-url names, and where libraries
 * and common programs (ssh, git, kubectl, clouds) keep such, by the environment and in the home directory, there or
 * not. The caller owns each (free). STATUS_INVALID: there are more; STATUS_NO_MEMORY. */
MUST_CHECK enum status secret_files_list(const struct options *options, char *paths[SECRET_FILES_MOST + 1],
                                         struct error *error);

#endif

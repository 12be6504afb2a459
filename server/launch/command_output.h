/* command_output.h: runs programs of a batch system with a deadline, without a shell: their arguments are passed
 * unchanged. */
#ifndef LAUNCH_COMMAND_OUTPUT_H
#define LAUNCH_COMMAND_OUTPUT_H

#include "base/error.h"

enum { COMMAND_OUTPUT_BYTES = 1 << 20, COMMAND_OUTPUT_SECONDS = 60 };

/* Runs words[0], which is searched in PATH, with `input` (NULL: none; at most 32 KiB) as its standard input. *out: its
 * standard output, owned by the caller (free). STATUS_UNAVAILABLE, with its standard error in the detail, when it
 * cannot be run, fails, writes too much or takes longer than a minute. */
MUST_CHECK enum status command_output(const char *const *words, const char *input, char **out, struct error *error);

#endif

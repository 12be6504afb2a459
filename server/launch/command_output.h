/* command_output.h: programs of a batch system, run with a deadline: no shell, words as they are. */
#ifndef LAUNCH_COMMAND_OUTPUT_H
#define LAUNCH_COMMAND_OUTPUT_H

#include "base/error.h"

enum { COMMAND_OUTPUT_BYTES = 1 << 20 };

/* Runs words[0], looked for in PATH, with `input` (NULL: none; at most 32 KiB) as its standard input. *out: what it
 * wrote to its standard output, the caller's (free). STATUS_UNAVAILABLE with what it said on stderr when it cannot be
 * run, fails, writes too much or takes longer than a minute. */
MUST_CHECK enum status command_output(const char *const *words, const char *input, char **out, struct error *error);

#endif

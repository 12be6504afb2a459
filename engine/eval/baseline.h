/* baseline.h: the full-precision hidden states of evaluation tokens after the last block, kept in a file. The next
 * quantization of the same checkpoint on the same tokens needs no full-precision walk: losses, divergence and agreement
 * follow from these states alone. What must be equal for a file to serve is the caller's matter: it names the file by
 * it. */
#ifndef EVAL_BASELINE_H
#define EVAL_BASELINE_H

#include "model/hidden.h"

/* Fills `hidden` [tokens, d] from `path`; *found false (and STATUS_OK) when there is no such file, or not one of this
 * shape with a good checksum: it is then computed and kept anew. STATUS_NO_MEMORY. */
MUST_CHECK enum status baseline_load(const char *path, struct hidden *hidden, bool *found, struct error *error);

/* Keeps `hidden` as `path`, replacing it as a whole. STATUS_DISK_FULL, STATUS_IO: nothing is left behind; a run can go
 * on. */
MUST_CHECK enum status baseline_save(const char *path, struct hidden *hidden, struct error *error);

#endif

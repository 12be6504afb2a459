/* baseline.h: the full-precision hidden states of evaluation tokens after the last block, kept in a file. The next
 * quantization of the same checkpoint on the same tokens needs no full-precision pass: losses, divergence and agreement
 * follow from these states alone. The caller decides what must be equal for a file to be reused, and names the file by
 * it. */
#ifndef EVAL_BASELINE_H
#define EVAL_BASELINE_H

#include "model/hidden.h"

/* Fills `hidden` [tokens, d] from `path`. *found is false (and the status STATUS_OK) when there is no such file, or not
 * one of this shape with a correct checksum; the states must then be computed and saved. STATUS_NO_MEMORY. */
MUST_CHECK enum status baseline_load(const char *path, struct hidden *hidden, bool *found, struct error *error);

/* Writes `hidden` to `path`, replacing the file as a whole. STATUS_DISK_FULL, STATUS_IO: no file is left; the run can
 * go on. */
MUST_CHECK enum status baseline_save(const char *path, struct hidden *hidden, struct error *error);

#endif

/* scan.h: registers every checkpoint below a directory. */
#ifndef RESOURCES_SCAN_H
#define RESOURCES_SCAN_H

#include "postgres/connection.h"

/* Registers what it finds at `path` (below a root) and in its subdirectories, at most SCAN_DEPTH deep, under `trajectory`. A
 * checkpoint's name is its path below the directory with "-" for "/"; step, tokens and learning rate come from the training state
 * beside it, else from the name (step1000, checkpoint-500, ckpt_100, iter_0002000, step1000-tokens3B). Answers
 * {"registered": [documents], "existing": n, "failed": [{"path", "status", "detail"}]}: one broken checkpoint does not stop the
 * others. STATUS_INVALID (path; nothing there that looks like a checkpoint; more than SCAN_MOST). */
MUST_CHECK enum status scan_directory(struct connection *connection, const char *const *roots, const char *trajectory,
                                      const char *path, json_t **document, struct error *error);

enum { SCAN_DEPTH = 4, SCAN_MOST = 2000 };

/* What a name says: -1 where it says nothing. */
void scan_read_name(const char *name, int64_t *step, int64_t *tokens);

#endif

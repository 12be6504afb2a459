/* roots.h: the directories that paths in requests must lie below. */
#ifndef INPUTS_ROOTS_H
#define INPUTS_ROOTS_H

#include "base/error.h"

/* Resolves `path` (absolute, or relative to the first root that has it) through all symbolic links to the canonical
 * path of something that exists below one of `roots` (ends with NULL), into `out`. Opened once from the root's
 * descriptor with RESOLVE_BENEATH, so that what was checked is what is there. STATUS_INVALID at `pointer` with one of
 * two answers: one for all that leads out of the roots, whether it is there or not; one for what leads into them and is
 * absent, forbidden or not a regular file or directory. Also STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status roots_resolve(const char *const *roots, const char *path, const char *pointer, char *out,
                                     size_t size, struct error *error);

/* The symbolic links in `directory` (canonical) must lead below a root too; the first that does not is STATUS_INVALID
 * at `pointer`. */
MUST_CHECK enum status roots_check_links(const char *const *roots, const char *directory, const char *pointer,
                                         struct error *error);

#endif

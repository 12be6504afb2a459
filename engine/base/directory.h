/* directory.h: the paths of what directories hold; makes directories together with missing parents, and removes them
 * with their content. */
#ifndef BASE_DIRECTORY_H
#define BASE_DIRECTORY_H

#include "base/error.h"

#include <limits.h>
#include <sys/types.h>

/* DIRECTORY/NAME into `out`. STATUS_INVALID, with the detail `too_long`, when that takes more than PATH_MAX bytes. */
MUST_CHECK enum status directory_path(const char *directory, const char *name, const char *too_long, char out[PATH_MAX],
                                      struct error *error);

/* Makes every missing directory above `path`: all components up to its last slash. Returns 0, or -1 with errno, like
 * mkdir(2). */
int directory_make_above(const char *path, mode_t mode);

/* Removes `name` below the descriptor `at` (or AT_FDCWD): a file, or a directory with its content. Links are removed
 * and not followed. An entry that cannot be removed stays, and so do its parent directories. */
void directory_remove(int at, const char *name);

#endif

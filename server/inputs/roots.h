/* roots.h: the directories that paths in requests must lie below. */
#ifndef INPUTS_ROOTS_H
#define INPUTS_ROOTS_H

#include "base/error.h"

#include <stdbool.h>

/* Everything is lent. */
struct roots {
    const char *const *paths; /* ends with NULL */
    /* What the server keeps in this directory for itself (its database, backups, work directories, the hub's cache but
     * for complete snapshots) is closed to requests, whichever root it lies below. NULL: nothing is closed. */
    const char *data_directory;
    /* Files and directories with keys and passwords, there or not, wherever they lie: closed as well. Ends with NULL,
     * at most ROOTS_SECRETS_MOST; NULL: none. */
    const char *const *secrets;
};
enum { ROOTS_SECRETS_MOST = 96 };

/* Whether canonical `path` is, or lies in, what the server keeps for itself. Directories are told by their inodes, so
 * that another mount of them is closed as well. */
bool roots_closed(const struct roots *roots, const char *path);

/* Resolves `path` (absolute, or relative to the first root that has it) through all symbolic links to the canonical
 * path of something that exists below one of `roots` and is not closed, into `out`. Opened once from the root's
 * descriptor without following links (beneath.h), so that it was there at that moment; what is there when it is read,
 * roots_check_open judges. STATUS_INVALID at `pointer` with one of
 * three answers: one for all that leads out of the roots and one for what is closed, whether it is there or not; one
 * for what leads into them and is absent, forbidden or not a regular file or directory. Also STATUS_IO,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status roots_resolve(const struct roots *roots, const char *path, const char *pointer, char *out,
                                     size_t size, struct error *error);

/* The symbolic links in `directory` (canonical) must lead below a root too, to what is not closed, and no file in it
 * may be one of the secrets; the first that does not is STATUS_INVALID at `pointer`. */
MUST_CHECK enum status roots_check_links(const struct roots *roots, const char *directory, const char *pointer,
                                         struct error *error);

/* Whether what is open may be read: the check of a file_guard (which has what the arguments are). Its path, as the
 * kernel has it, lies below a root and is not closed, or it is the server's own and was asked for in the data
 * directory. STATUS_INVALID with the first two answers of roots_resolve, also for a path that leads out and has nothing
 * there; STATUS_INPUT_CHANGED: it has lost its name already. */
MUST_CHECK enum status roots_check_open(const struct roots *roots, int directory, const char *path, int descriptor,
                                        struct error *error);

#endif

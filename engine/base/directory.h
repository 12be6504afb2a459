/* directory.h: directories made with those above them, and removed with what is in them. */
#ifndef BASE_DIRECTORY_H
#define BASE_DIRECTORY_H

#include <sys/types.h>

/* Makes every directory above `path` that is missing: `path` up to its last slash. 0, or -1 with errno, as mkdir(2). */
int directory_make_above(const char *path, mode_t mode);

/* Removes `name` below the descriptor `at` (or AT_FDCWD), a directory with all that is in it or a file. Links are
 * removed and not followed. What cannot be removed stays, and what it is in. */
void directory_remove(int at, const char *name);

#endif

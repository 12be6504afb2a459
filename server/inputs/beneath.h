/* beneath.h: opening what lies below a directory without leaving it. */
#ifndef INPUTS_BENEATH_H
#define INPUTS_BENEATH_H

/* Opens `path`, names with single slashes between them ("a/b", or "." for the directory itself), from the descriptor
 * `base` of a directory, with O_PATH. Each name is looked up in the directory that the one before it opened, and no
 * symbolic link is followed, so no name leads out of `base`, whatever is exchanged meanwhile. A link at the end is
 * opened itself. The caller closes the result. -1 with errno: EINVAL (an empty name, "..", or one that is too long),
 * ENOTDIR (a link or a file before the end), and those of openat. */
int beneath_open(int base, const char *path);

#endif

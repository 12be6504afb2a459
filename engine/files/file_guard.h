/* file_guard.h: which files and directories this process reads where paths come from others.
 * A server checks a path that it is given, but what lies at a path may be exchanged until it is opened. So the guard
 * judges what is open, and whatever reads by name (file_open, file_directory) asks it. Without a guard, as in tests and
 * in commands that read what their own user names, everything is allowed. */
#ifndef FILES_FILE_GUARD_H
#define FILES_FILE_GUARD_H

#include "base/error.h"

struct file_guard {
    const void *context; /* lent */
    /* Whether `descriptor`, which was opened as `path` from the directory `directory` (as for openat), may be read.
     * `descriptor` -1: nothing could be opened, which may be told only if the path may. An error's text is what
     * follows the file's name in a sentence. Called by several threads at once. */
    enum status (*check)(const void *context, int directory, const char *path, int descriptor, struct error *error);
};

/* Puts the process under `guard` (lent until it is replaced) before anything is read for others; NULL ends it. The one
 * setting of the process beside `watched`, and meant to be one, as umask and limits are: a guard that every reader had
 * to be handed would be absent in the one that was forgotten, and this one cannot be. */
void file_guard_set(const struct file_guard *guard);

/* What the guard says; `shown` is the file's name for messages. STATUS_OK without a guard. */
MUST_CHECK enum status file_guard_check(int directory, const char *path, int descriptor, const char *shown,
                                        struct error *error);

#endif

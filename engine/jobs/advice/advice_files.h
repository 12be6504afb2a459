/* advice_files.h: the places of branches in a run's work directory. For advice.c. */
#ifndef ADVICE_ADVICE_FILES_H
#define ADVICE_ADVICE_FILES_H

#include "base/error.h"

#include <limits.h>

/* DIRECTORY/NAME into `out`. STATUS_INVALID (too long). */
MUST_CHECK enum status advice_files_path(const char *directory, const char *name, char out[PATH_MAX],
                                         struct error *error);

/* advice_files_path, which also makes the directory if it is missing. Also STATUS_IO, STATUS_DISK_FULL. */
MUST_CHECK enum status advice_files_make(const char *directory, const char *name, char out[PATH_MAX],
                                         struct error *error);

/* Removes DIRECTORY/NAME with its content. Entries that cannot be removed stay until the work directory is removed. */
void advice_files_remove(const char *directory, const char *name);

#endif

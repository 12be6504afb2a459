#include "jobs/advice/advice_files.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum status advice_files_path(const char *directory, const char *name, char out[PATH_MAX], struct error *error)
{
    if (snprintf(out, PATH_MAX, "%s/%s", directory, name) < PATH_MAX) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "a work directory's path is too long");
}

enum status advice_files_make(const char *directory, const char *name, char out[PATH_MAX], struct error *error)
{
    const enum status status = advice_files_path(directory, name, out, error);
    if (status != STATUS_OK) return status;
    if (mkdir(out, 0700) == 0 || errno == EEXIST) return STATUS_OK;
    return error_set_errno(error, "making the directory of a branch");
}

void advice_files_remove(const char *directory, const char *name)
{
    char path[PATH_MAX];
    char *paths[] = {path, NULL};
    struct error ignored;
    if (advice_files_path(directory, name, path, &ignored) != STATUS_OK) return;
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (const FTSENT *entry; tree != NULL && (entry = fts_read(tree)) != NULL;) {
        if (entry->fts_info == FTS_DP)
            (void)rmdir(entry->fts_accpath);
        else if (entry->fts_info != FTS_D)
            (void)unlink(entry->fts_accpath);
    }
    if (tree != NULL) (void)fts_close(tree);
}

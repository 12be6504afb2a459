#include "jobs/advice/advice_files.h"

#include "base/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum status advice_files_path(const char *directory, const char *name, char out[PATH_MAX], struct error *error)
{
    return directory_path(directory, name, "a work directory's path is too long", out, error);
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
    struct error ignored;
    if (advice_files_path(directory, name, path, &ignored) == STATUS_OK) directory_remove(AT_FDCWD, path);
}

#include "base/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum status directory_path(const char *directory, const char *name, const char *too_long, char out[PATH_MAX],
                           struct error *error)
{
    if (snprintf(out, PATH_MAX, "%s/%s", directory, name) < PATH_MAX) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "%s", too_long);
}

int directory_make_above(const char *path, mode_t mode)
{
    char above[PATH_MAX];
    if (snprintf(above, sizeof above, "%s", path) >= (int)sizeof above) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (char *slash = strchr(above + (above[0] == '/'), '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(above, mode) != 0 && errno != EEXIST) return -1;
        *slash = '/';
    }
    return 0;
}

/* Tries to open each entry as a directory, because not every file system tells the kind of an entry. */
void directory_remove(int at, const char *name)
{
    if (unlinkat(at, name, 0) == 0) return;
    const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    for (const struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            directory_remove(dirfd(directory), entry->d_name);
    if (directory != NULL)
        (void)closedir(directory);
    else if (fd >= 0)
        (void)close(fd);
    (void)unlinkat(at, name, AT_REMOVEDIR);
}

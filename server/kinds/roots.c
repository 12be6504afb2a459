#include "kinds/roots.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static enum status outside(const char *pointer, struct error *error)
{
    return error_set_at(error, STATUS_INVALID, pointer,
                        "no such file or directory below the server's roots; start the server with --root for where it lies");
}

/* What follows `root` in `path` when `path` is root itself or lies below it, without the slash; else NULL. */
static const char *below(const char *root, const char *path)
{
    size_t length = strlen(root);
    while (length > 0 && root[length - 1] == '/') length--;
    if (strncmp(root, path, length) != 0) return NULL;
    if (path[length] == '\0') return ".";
    if (path[length] != '/') return NULL;
    while (path[length] == '/') length++;
    return path[length] == '\0' ? "." : path + length;
}

/* Opens canonical `path` from the descriptor of `root`. No symbolic link is left in either, so any that is met came in between. */
static bool open_below(const char *root, const char *path)
{
    char canonical[PATH_MAX];
    struct stat found;
    bool good = false;
    if (realpath(root, canonical) == NULL || below(canonical, path) == NULL) return false;
    const int base = open(canonical, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (base < 0) return false;
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    const int file = (int)syscall(SYS_openat2, base, below(canonical, path), &how, sizeof how);
    if (file >= 0) {
        good = fstat(file, &found) == 0 && (S_ISREG(found.st_mode) || S_ISDIR(found.st_mode));
        (void)close(file);
    }
    (void)close(base);
    return good;
}

static bool resolve(const char *const *roots, const char *path, char *canonical)
{
    if (realpath(path, canonical) == NULL) return false;
    for (; *roots != NULL; roots++)
        if (open_below(*roots, canonical)) return true;
    return false;
}

enum status roots_resolve(const char *const *roots, const char *path, const char *pointer, char *out, size_t size,
                          struct error *error)
{
    char canonical[PATH_MAX], joined[PATH_MAX];
    bool good = false;
    if (path[0] == '/') {
        good = resolve(roots, path, canonical);
    } else {
        for (const char *const *root = roots; *root != NULL && !good; root++) {
            const int length = snprintf(joined, sizeof joined, "%s/%s", *root, path);
            good = length < (int)sizeof joined && resolve(roots, joined, canonical);
        }
    }
    if (!good || strlen(canonical) >= size) return outside(pointer, error);
    memcpy(out, canonical, strlen(canonical) + 1);
    return STATUS_OK;
}

enum status roots_check_links(const char *const *roots, const char *directory, const char *pointer, struct error *error)
{
    char path[PATH_MAX], canonical[PATH_MAX];
    struct stat entry_status;
    enum status status = STATUS_OK;
    DIR *stream = opendir(directory);
    if (stream == NULL) return outside(pointer, error);
    for (const struct dirent *entry; status == STATUS_OK && (entry = readdir(stream)) != NULL;) {
        if (fstatat(dirfd(stream), entry->d_name, &entry_status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISLNK(entry_status.st_mode))
            continue;
        const int length = snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (length >= (int)sizeof path || !resolve(roots, path, canonical)) status = outside(pointer, error);
    }
    (void)closedir(stream);
    return status;
}

#include "inputs/roots.h"

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

/* The two faults of a path. Neither names one: what the request said stands at the pointer, and the server's own is not
 * told. */
static enum status absent(const char *pointer, struct error *error)
{
    return error_set_at(
        error, STATUS_INVALID, pointer,
        "no such file or directory below the server's roots: the path leads into one of them, and then nowhere");
}

static enum status outside(const char *pointer, struct error *error)
{
    return error_set_at(error, STATUS_INVALID, pointer,
                        "lies outside the server's roots; start the server with --root for where it lies");
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

/* Opens canonical `path` from the descriptor of `root`. No symbolic link is left in either, so any that is met came in
 * between. */
static bool open_below(const char *root, const char *path)
{
    char canonical[PATH_MAX];
    struct stat found;
    bool good = false;
    if (realpath(root, canonical) == NULL || below(canonical, path) == NULL) return false;
    const int base = open(canonical, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (base < 0) return false;
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
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

/* Whether what is there of `path`, from the left, ends below a root. Of a path that leads out it says the same whether
 * there is something or not. */
static bool leads_in(const char *const *roots, const char *path)
{
    char part[PATH_MAX], canonical[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part) return false;
    while (realpath(part, canonical) == NULL) {
        char *slash = strrchr(part, '/');
        if (slash == NULL) return false;
        slash[slash == part ? 1 : 0] = '\0'; /* "/" is there at last */
    }
    for (; *roots != NULL; roots++) {
        char root[PATH_MAX];
        if (realpath(*roots, root) != NULL && below(root, canonical) != NULL) return true;
    }
    return false;
}

enum status roots_resolve(const char *const *roots, const char *path, const char *pointer, char *out, size_t size,
                          struct error *error)
{
    char canonical[PATH_MAX], joined[PATH_MAX];
    bool good = false, inside = true;
    if (path[0] == '/') {
        good = resolve(roots, path, canonical);
        inside = leads_in(roots, path);
    } else {
        for (const char *const *root = roots; *root != NULL && !good; root++) {
            const int length = snprintf(joined, sizeof joined, "%s/%s", *root, path);
            good = length < (int)sizeof joined && resolve(roots, joined, canonical);
            inside = inside && length < (int)sizeof joined && leads_in(roots, joined); /* out of one of them: said so */
        }
    }
    if (!good) return inside ? absent(pointer, error) : outside(pointer, error);
    if (strlen(canonical) >= size) return error_set_at(error, STATUS_INVALID, pointer, "the path is too long");
    memcpy(out, canonical, strlen(canonical) + 1);
    return STATUS_OK;
}

enum status roots_check_links(const char *const *roots, const char *directory, const char *pointer, struct error *error)
{
    char path[PATH_MAX], canonical[PATH_MAX];
    struct stat entry_status;
    enum status status = STATUS_OK;
    DIR *stream = opendir(directory);
    if (stream == NULL)
        return error_set_at(error, STATUS_INVALID, pointer, "cannot list the directory: %s", strerror(errno));
    for (const struct dirent *entry; status == STATUS_OK && (entry = readdir(stream)) != NULL;) {
        if (fstatat(dirfd(stream), entry->d_name, &entry_status, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISLNK(entry_status.st_mode))
            continue;
        const int length = snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (length >= (int)sizeof path || !resolve(roots, path, canonical))
            status = error_set_at(
                error, STATUS_INVALID, pointer,
                "a link in the directory leads to no file or directory below the server's roots: mend it, or "
                "start the server with --root for where it leads");
    }
    (void)closedir(stream);
    return status;
}

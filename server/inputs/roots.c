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

/* The faults of a path. Neither names one: what the request said stands at the pointer, and the server's own is not
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

static enum status kept(const char *pointer, struct error *error)
{
    return error_set_at(error, STATUS_INVALID, pointer,
                        "lies in what the server keeps for itself (in its data directory, or files with its keys and "
                        "passwords): copy elsewhere what is to be read from there");
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

/* What the server keeps below the data directory for itself; of the hub's cache complete snapshots are open. What runs
 * leave there to be read (artifacts, checkpoints) is not named. tests/http/test_closed.py looks for what is missing. */
static const struct {
    const char *name, *open;
} closed[] = {{"pg", NULL},          {"backups", NULL},    {"tmp", NULL}, {"devices", NULL},
              {"first-token", NULL}, {"hub", "snapshots"}, {"log", NULL}};
enum { CLOSED = sizeof closed / sizeof closed[0], SECRETS_MOST = 16 };

static bool is_same(const struct stat *left, const struct stat *right)
{
    return left->st_dev == right->st_dev && left->st_ino == right->st_ino;
}

/* Those of `closed` that are there, by number; the others have inode 0. */
static void look_at_closed(const char *data_directory, struct stat out[CLOSED])
{
    char path[PATH_MAX];
    for (int i = 0; i < CLOSED; i++)
        if ((size_t)snprintf(path, sizeof path, "%s/%s", data_directory, closed[i].name) >= sizeof path ||
            stat(path, &out[i]) != 0)
            out[i] = (struct stat){0};
}

/* Whether what lies in directory number `i` below the name at `rest` ("" for the directory itself) is closed. */
static bool closes(int i, const char *rest)
{
    const size_t length = strcspn(rest, "/");
    return closed[i].open == NULL || strlen(closed[i].open) != length || strncmp(rest, closed[i].open, length) != 0;
}

struct secrets {
    struct stat found[SECRETS_MOST];
    int count;
};

/* Anew for each request: a renewed key is another file. */
static void look_at_secrets(const struct roots *roots, struct secrets *out)
{
    out->count = 0;
    for (const char *const *path = roots->secrets; path != NULL && *path != NULL && out->count < SECRETS_MOST; path++)
        out->count += stat(*path, &out->found[out->count]) == 0;
}

static bool is_secret(const struct secrets *secrets, const struct stat *found)
{
    for (int i = 0; i < secrets->count; i++)
        if (is_same(&secrets->found[i], found)) return true;
    return false;
}

bool roots_closed(const struct roots *roots, const char *path)
{
    char part[PATH_MAX];
    struct stat own[CLOSED], found;
    struct secrets secrets;
    look_at_secrets(roots, &secrets);
    if (secrets.count > 0 && stat(path, &found) == 0 && is_secret(&secrets, &found)) return true;
    if (roots->data_directory == NULL) return false;
    const size_t length = strlen(path);
    if (length >= sizeof part) return true;
    look_at_closed(roots->data_directory, own);
    memcpy(part, path, length + 1);
    for (size_t end = length; end > 0; end--) { /* the path, and all directories above it */
        if (part[end] != '\0' && part[end] != '/') continue;
        part[end] = '\0';
        if (stat(part, &found) != 0) return true;
        for (int i = 0; i < CLOSED; i++)
            if (own[i].st_ino != 0 && is_same(&own[i], &found) && closes(i, end < length ? path + end + 1 : ""))
                return true;
    }
    return false;
}

static bool resolve(const struct roots *roots, const char *path, char *canonical)
{
    if (realpath(path, canonical) == NULL || roots_closed(roots, canonical)) return false;
    for (const char *const *root = roots->paths; *root != NULL; root++)
        if (open_below(*root, canonical)) return true;
    return false;
}

/* Where the longest existing prefix of a path leads. */
enum end { END_OUTSIDE, END_INSIDE, END_CLOSED };

/* The answer for a path outside the roots, or to a closed place, does not reveal whether the file exists. */
static enum end leads_to(const struct roots *roots, const char *path)
{
    char part[PATH_MAX], canonical[PATH_MAX], top[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part) return END_OUTSIDE;
    while (realpath(part, canonical) == NULL) {
        char *slash = strrchr(part, '/');
        if (slash == NULL) return END_OUTSIDE;
        slash[slash == part ? 1 : 0] = '\0'; /* "/" is there at last */
    }
    for (const char *const *root = roots->paths; *root != NULL; root++)
        if (realpath(*root, top) != NULL && below(top, canonical) != NULL)
            return roots_closed(roots, canonical) ? END_CLOSED : END_INSIDE;
    return END_OUTSIDE;
}

static enum status not_found(enum end end, const char *pointer, struct error *error)
{
    return end == END_OUTSIDE  ? outside(pointer, error)
           : end == END_CLOSED ? kept(pointer, error)
                               : absent(pointer, error);
}

enum status roots_resolve(const struct roots *roots, const char *path, const char *pointer, char *out, size_t size,
                          struct error *error)
{
    char canonical[PATH_MAX], joined[PATH_MAX];
    bool good = false;
    enum end end = END_INSIDE;
    if (path[0] == '/') {
        good = resolve(roots, path, canonical);
        if (!good) end = leads_to(roots, path);
    } else {
        for (const char *const *root = roots->paths; *root != NULL && !good; root++) {
            const bool fits = (size_t)snprintf(joined, sizeof joined, "%s/%s", *root, path) < sizeof joined;
            good = fits && resolve(roots, joined, canonical);
            if (!good && end == END_INSIDE) /* the first that is not, is said */
                end = fits ? leads_to(roots, joined) : END_OUTSIDE;
        }
    }
    if (!good) return not_found(end, pointer, error);
    if (strlen(canonical) >= size) return error_set_at(error, STATUS_INVALID, pointer, "the path is too long");
    memcpy(out, canonical, strlen(canonical) + 1);
    return STATUS_OK;
}

enum status roots_check_links(const struct roots *roots, const char *directory, const char *pointer,
                              struct error *error)
{
    char path[PATH_MAX], canonical[PATH_MAX];
    struct stat entry_status;
    struct secrets secrets;
    enum status status = STATUS_OK;
    look_at_secrets(roots, &secrets);
    DIR *stream = opendir(directory);
    if (stream == NULL)
        return error_set_at(error, STATUS_INVALID, pointer, "cannot list the directory: %s", strerror(errno));
    for (const struct dirent *entry; status == STATUS_OK && (entry = readdir(stream)) != NULL;) {
        if (fstatat(dirfd(stream), entry->d_name, &entry_status, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (is_secret(&secrets, &entry_status))
            status = error_set_at(error, STATUS_INVALID, pointer,
                                  "a file in the directory has keys or passwords of the server: move it elsewhere");
        if (!S_ISLNK(entry_status.st_mode)) continue;
        const int length = snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (length >= (int)sizeof path || !resolve(roots, path, canonical))
            status = error_set_at(
                error, STATUS_INVALID, pointer,
                "a link in the directory leads to no file or directory below the server's roots that may be read: mend "
                "it, or start the server with --root for where it leads");
    }
    (void)closedir(stream);
    return status;
}

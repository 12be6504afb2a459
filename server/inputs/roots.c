#include "inputs/roots.h"

#include "files/file.h"
#include "inputs/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    const int file = beneath_open(base, below(canonical, path));
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
              {"first-token", NULL}, {"hub", "snapshots"}, {"log", NULL}, {"cleaned", NULL}};
enum { CLOSED = sizeof closed / sizeof closed[0] };

/* Where runs leave what is to be read. */
static const char *const left_by_runs[] = {"artifacts", "checkpoints"};
enum { LEFT_BY_RUNS = sizeof left_by_runs / sizeof left_by_runs[0] };

/* A file or directory, whatever it is called. */
struct identity {
    dev_t device;
    ino_t inode; /* 0: none */
};

static struct identity identity_of(const struct stat *found)
{
    return (struct identity){found->st_dev, found->st_ino};
}

static bool is_same(struct identity left, struct identity right)
{
    return left.inode != 0 && left.device == right.device && left.inode == right.inode;
}

/* What is closed, looked up anew for each question: a renewed key is another file. */
struct closures {
    struct identity own[CLOSED]; /* those of `closed` that are there */
    struct identity secrets[ROOTS_SECRETS_MOST];
    int secret_count;
};

static void look_up(const struct roots *roots, struct closures *out)
{
    char path[PATH_MAX];
    struct stat found;
    *out = (struct closures){.secret_count = 0};
    for (int i = 0; i < CLOSED && roots->data_directory != NULL; i++)
        if ((size_t)snprintf(path, sizeof path, "%s/%s", roots->data_directory, closed[i].name) < sizeof path &&
            stat(path, &found) == 0)
            out->own[i] = identity_of(&found);
    for (const char *const *secret = roots->secrets;
         secret != NULL && *secret != NULL && out->secret_count < ROOTS_SECRETS_MOST; secret++)
        if (stat(*secret, &found) == 0) out->secrets[out->secret_count++] = identity_of(&found);
}

static bool is_secret(const struct closures *closures, const struct stat *found)
{
    for (int i = 0; i < closures->secret_count; i++)
        if (is_same(closures->secrets[i], identity_of(found))) return true;
    return false;
}

/* Whether what lies in directory number `i` below the name at `rest` ("" for the directory itself) is closed. Names
 * with a dot in what is open are of snapshots that are being made or evicted (hub_cache.h), which lack files. */
static bool closes(int i, const char *rest)
{
    const size_t length = strcspn(rest, "/");
    if (closed[i].open == NULL || strlen(closed[i].open) != length || strncmp(rest, closed[i].open, length) != 0)
        return true;
    return rest[length] == '/' && rest[length + 1] == '.';
}

bool roots_closed(const struct roots *roots, const char *path)
{
    char part[PATH_MAX];
    struct closures closures;
    struct stat found;
    const size_t length = strlen(path);
    if (length >= sizeof part) return true;
    look_up(roots, &closures);
    memcpy(part, path, length + 1);
    for (size_t end = length; end > 0; end--) { /* the path, and all directories above it */
        if (part[end] != '\0' && part[end] != '/') continue;
        part[end] = '\0';
        if (stat(part, &found) != 0 || is_secret(&closures, &found)) return true;
        for (int i = 0; i < CLOSED; i++)
            if (is_same(closures.own[i], identity_of(&found)) && closes(i, end < length ? path + end + 1 : ""))
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

/* The answer for a path outside the roots, or in a closed place, does not reveal whether the file exists. Nor does that
 * for a link to nothing: glibc's realpath leaves what it could not find or enter in `canonical`. */
static enum end leads_to(const struct roots *roots, const char *path)
{
    char part[PATH_MAX], canonical[PATH_MAX], top[PATH_MAX];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part) return END_OUTSIDE;
    while (realpath(part, canonical) == NULL) {
        if (errno == ENOENT || errno == EACCES) memcpy(part, canonical, sizeof part);
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
    struct closures closures;
    struct error cause;
    DIR *stream = NULL;
    enum status status = file_directory_list(directory, &stream, &cause);
    if (status != STATUS_OK) return error_set_at(error, STATUS_INVALID, pointer, "%s", cause.detail);
    look_up(roots, &closures);
    for (const struct dirent *entry; status == STATUS_OK && (entry = readdir(stream)) != NULL;) {
        if (fstatat(dirfd(stream), entry->d_name, &entry_status, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (S_ISREG(entry_status.st_mode) && is_secret(&closures, &entry_status))
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

/* ---- what is open ---- */

/* The path that a symbolic link of /proc stands for. */
static bool read_proc(const char *link, char out[PATH_MAX])
{
    const ssize_t length = readlink(link, out, PATH_MAX);
    if (length <= 0 || length >= PATH_MAX) return false;
    out[length] = '\0';
    return out[0] == '/';
}

static bool path_of(int descriptor, char out[PATH_MAX])
{
    char link[40];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    return read_proc(link, out);
}

/* The absolute path that `path` is from the descriptor `directory`, as it is written. */
static bool path_from(int directory, const char *path, char out[PATH_MAX])
{
    char from[PATH_MAX] = "";
    if (path[0] != '/' && !(directory == AT_FDCWD ? read_proc("/proc/self/cwd", from) : path_of(directory, from)))
        return false;
    return snprintf(out, PATH_MAX, "%s%s%s", from, path[0] != '/' ? "/" : "", path) < PATH_MAX;
}

/* What is opened: `asked` as it is written, `real` as the kernel has it ("": nothing is open). */
struct opened {
    char asked[PATH_MAX], real[PATH_MAX];
    bool inner; /* from the descriptor of a directory, which was judged when it was opened */
};

/* Whether it was asked for in the place `name` of the data directory, which may be a link, and lies in there. */
static bool is_in_place(const char *data_directory, const char *name, const struct opened *opened)
{
    char place[PATH_MAX], canonical[PATH_MAX];
    if (snprintf(place, sizeof place, "%s/%s", data_directory, name) >= PATH_MAX || realpath(place, canonical) == NULL)
        return false;
    const bool asked =
        below(place, opened->asked) != NULL || (opened->inner && below(canonical, opened->asked) != NULL);
    return asked && (opened->real[0] == '\0' || below(canonical, opened->real) != NULL);
}

/* Whether it is one of the process's own descriptors, by its name: an artifact that was opened or fetched. */
static bool is_descriptor(const char *asked)
{
    static const char descriptors[] = "/proc/self/fd/";
    const size_t length = sizeof descriptors - 1;
    return strncmp(asked, descriptors, length) == 0 && asked[length] != '\0' &&
           asked[length + strspn(asked + length, "0123456789")] == '\0';
}

/* What the server and its runs made in the data directory, which nobody else writes into, is read by them at the paths
 * that they made up. No path of a request is such a one: it was resolved, and found open. */
static bool is_own(const struct roots *roots, const struct opened *opened)
{
    const char *data = roots->data_directory;
    bool own = is_descriptor(opened->asked);
    if (data == NULL) return own;
    for (int i = 0; i < CLOSED && !own; i++) own = is_in_place(data, closed[i].name, opened);
    for (int i = 0; i < LEFT_BY_RUNS && !own; i++) own = is_in_place(data, left_by_runs[i], opened);
    return own;
}

/* Where the open file or directory at `real` lies. */
static enum end lies_in(const struct roots *roots, int descriptor, const char *real)
{
    char top[PATH_MAX];
    struct closures closures;
    struct stat found;
    for (const char *const *root = roots->paths; *root != NULL; root++) {
        if (realpath(*root, top) == NULL || below(top, real) == NULL) continue;
        look_up(roots, &closures); /* the file itself by its descriptor, since its name may be another's by now */
        const bool kept = fstat(descriptor, &found) != 0 || is_secret(&closures, &found) || roots_closed(roots, real);
        return kept ? END_CLOSED : END_INSIDE;
    }
    return END_OUTSIDE;
}

/* Whether `real` is what the kernel calls a file that has lost that name since it was opened. */
static bool is_gone(const char *real)
{
    static const char mark[] = " (deleted)";
    struct stat found;
    const size_t length = strlen(real), ending = sizeof mark - 1;
    return length > ending && strcmp(real + length - ending, mark) == 0 && stat(real, &found) != 0;
}

enum status roots_check_open(const struct roots *roots, int directory, const char *path, int descriptor,
                             struct error *error)
{
    struct opened opened = {.inner = path[0] != '/' && directory != AT_FDCWD};
    if (!path_from(directory, path, opened.asked) || (descriptor >= 0 && !path_of(descriptor, opened.real)))
        return error_set(error, STATUS_INVALID,
                         "cannot be read: where it lies is asked of /proc, which does not tell (mount it)");
    if (is_own(roots, &opened)) return STATUS_OK;
    if (descriptor >= 0 && is_gone(opened.real))
        return error_set(error, STATUS_INPUT_CHANGED, "was replaced or removed while it was opened: try again");
    const enum end end = descriptor >= 0 ? lies_in(roots, descriptor, opened.real) : leads_to(roots, opened.asked);
    return end == END_INSIDE ? STATUS_OK : not_found(end, "", error);
}

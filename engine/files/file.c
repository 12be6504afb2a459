#include "files/file.h"

#include "base/memory.h"
#include "files/file_guard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* READ_MAX: machine_bytes_read counts a read when it has ended, so reads are short even on a slow file system. */
enum { SHOWN_MAX = 80, READ_MAX = 4 << 20 };

struct file {
    int descriptor;
    int directory; /* lent */
    char *path;    /* owned */
    enum file_links links;
    struct stat opened;
    char shown[SHOWN_MAX];
};

/* Last component of `path`, with '?' for bytes that a log or a JSON document cannot hold. */
static void show(const char *path, char shown[SHOWN_MAX])
{
    const char *slash = strrchr(path, '/');
    (void)snprintf(shown, SHOWN_MAX, "%s", slash != NULL && slash[1] ? slash + 1 : path);
    for (char *at = shown; *at; at++)
        if (*at < ' ' || *at > '~') *at = '?';
}

static enum status refuse(const char *what, const char *shown, struct error *error)
{
    char action[SHOWN_MAX + 32];
    (void)snprintf(action, sizeof action, "%s %s", what, shown);
    return error_set_errno(error, action);
}

/* Opens `path` with `flags`, and asks the guard whether that was allowed. The guard is first to speak, also of what
 * cannot be opened: of a file elsewhere nothing else is told. -1 in *descriptor with errno: it cannot be opened. */
static enum status open_guarded(int directory, const char *path, int flags, const char *shown, int *descriptor,
                                struct error *error)
{
    do *descriptor = openat(directory, path, flags | O_RDONLY | O_CLOEXEC);
    while (*descriptor < 0 && errno == EINTR);
    const int reason = errno;
    const enum status status = file_guard_check(directory, path, *descriptor, shown, error);
    errno = reason;
    return status;
}

static enum status open_checked(struct file *file, int64_t limit, struct error *error)
{
    /* O_NONBLOCK: opening a FIFO waits for nobody. */
    const int flags = O_NONBLOCK | O_NOCTTY | (file->links == FILE_REFUSE_LINKS ? O_NOFOLLOW : 0);
    const enum status status = open_guarded(file->directory, file->path, flags, file->shown, &file->descriptor, error);
    if (status != STATUS_OK) return status;
    if (file->descriptor < 0 && (errno == ENXIO || errno == ELOOP))
        return error_set(error, STATUS_INVALID, "%s is not a regular file", file->shown);
    if (file->descriptor < 0) return refuse("cannot open", file->shown, error);
    if (fstat(file->descriptor, &file->opened) != 0) return refuse("cannot examine", file->shown, error);
    if (!S_ISREG(file->opened.st_mode))
        return error_set(error, STATUS_INVALID, "%s is not a regular file", file->shown);
    if (file->opened.st_size > limit)
        return error_set(error, STATUS_TOO_LARGE, "%s has %lld bytes, at most %lld are accepted", file->shown,
                         (long long)file->opened.st_size, (long long)limit);
    return STATUS_OK;
}

enum status file_open(int directory, const char *path, enum file_links links, int64_t limit, struct file **out,
                      struct error *error)
{
    enum status status = STATUS_OK;
    *out = NULL;
    struct file *file = calloc(1, sizeof *file);
    char *copy = strdup(path);
    if (file == NULL || copy == NULL) {
        free(file);
        free(copy);
        return error_set(error, STATUS_NO_MEMORY, "cannot allocate a file");
    }
    *file = (struct file){.descriptor = -1, .directory = directory, .path = copy, .links = links};
    show(path, file->shown);
    if ((status = open_checked(file, limit, error)) != STATUS_OK) {
        file_close(file);
        return status;
    }
    *out = file;
    return STATUS_OK;
}

enum status file_is_directory(const char *path, bool *out, struct error *error)
{
    struct stat found;
    char shown[SHOWN_MAX];
    *out = true;
    if (stat(path, &found) == 0) {
        *out = S_ISDIR(found.st_mode);
        return STATUS_OK;
    }
    if (errno != EIO) return STATUS_OK;
    show(path, shown);
    return refuse("cannot open", shown, error);
}

enum status file_directory(int directory, const char *path, int *out, struct error *error)
{
    char shown[SHOWN_MAX];
    show(path, shown);
    const enum status status = open_guarded(directory, path, O_DIRECTORY, shown, out, error);
    if (status == STATUS_OK && *out < 0) return refuse("cannot open", shown, error);
    if (status == STATUS_OK) return status;
    if (*out >= 0) (void)close(*out);
    *out = -1;
    return status;
}

enum status file_directory_list(const char *path, DIR **out, struct error *error)
{
    int descriptor;
    char shown[SHOWN_MAX];
    const enum status status = file_directory(AT_FDCWD, path, &descriptor, error);
    *out = status == STATUS_OK ? fdopendir(descriptor) : NULL;
    if (status != STATUS_OK || *out != NULL) return status;
    show(path, shown);
    const enum status refused = refuse("cannot list", shown, error);
    (void)close(descriptor);
    return refused;
}

void file_close(struct file *file)
{
    if (file == NULL) return;
    if (file->descriptor >= 0) (void)close(file->descriptor);
    free(file->path);
    free(file);
}

int64_t file_bytes(const struct file *file)
{
    return file->opened.st_size;
}

const char *file_name(const struct file *file)
{
    return file->shown;
}

enum status file_read(const struct file *file, int64_t offset, void *out, size_t bytes, struct error *error)
{
    char *to = out;
    if (offset < 0 || offset > file_bytes(file) || bytes > (uint64_t)(file_bytes(file) - offset))
        return error_set(error, STATUS_CORRUPT, "%s ends early: %zu bytes at %lld expected, it has %lld", file->shown,
                         bytes, (long long)offset, (long long)file_bytes(file));
    while (bytes > 0) {
        const ssize_t got = pread(file->descriptor, to, bytes < READ_MAX ? bytes : READ_MAX, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return refuse("cannot read", file->shown, error);
        if (got == 0)
            return error_set(error, STATUS_INPUT_CHANGED,
                             "%s became shorter while it was read: had %lld bytes, ends at %lld", file->shown,
                             (long long)file_bytes(file), (long long)offset);
        to += got;
        bytes -= (size_t)got;
        offset += got;
    }
    return STATUS_OK;
}

void file_readahead(const struct file *file, int64_t offset, int64_t bytes)
{
    if (bytes > 0) (void)posix_fadvise(file->descriptor, offset, bytes, POSIX_FADV_WILLNEED);
}

enum status file_check_unchanged(const struct file *file, struct error *error)
{
    const struct stat *then = &file->opened;
    struct stat now, there;
    if (fstat(file->descriptor, &now) != 0) return refuse("cannot examine", file->shown, error);
    if (now.st_size != then->st_size)
        return error_set(error, STATUS_INPUT_CHANGED, "%s has changed: had %lld bytes, has %lld", file->shown,
                         (long long)then->st_size, (long long)now.st_size);
    if (now.st_mtim.tv_sec != then->st_mtim.tv_sec || now.st_mtim.tv_nsec != then->st_mtim.tv_nsec)
        return error_set(error, STATUS_INPUT_CHANGED, "%s has been written to since it was opened", file->shown);
    const int flags = file->links == FILE_REFUSE_LINKS ? AT_SYMLINK_NOFOLLOW : 0;
    const bool found = fstatat(file->directory, file->path, &there, flags) == 0;
    if (!found && errno != ENOENT && errno != ENOTDIR) return refuse("cannot examine", file->shown, error);
    if (!found)
        return error_set(error, STATUS_INPUT_CHANGED, "%s is no longer there: %s", file->shown, strerror(errno));
    if (there.st_dev != then->st_dev || there.st_ino != then->st_ino)
        return error_set(error, STATUS_INPUT_CHANGED, "%s has been replaced by another file", file->shown);
    return STATUS_OK;
}

enum status file_read_all(int directory, const char *path, int64_t limit, char **out, size_t *bytes,
                          struct error *error)
{
    enum status status;
    struct file *file = NULL;
    char *content = NULL;
    *out = NULL;
    *bytes = 0;
    if ((status = file_open(directory, path, FILE_FOLLOW_LINKS, limit, &file, error)) != STATUS_OK) goto done;
    if ((status = memory_new(file_bytes(file) + 1, 1, file->shown, &content, error)) != STATUS_OK) goto done;
    if ((status = file_read(file, 0, content, (size_t)file_bytes(file), error)) != STATUS_OK) goto done;
    *out = content;
    *bytes = (size_t)file_bytes(file);
    content = NULL;
done:
    memory_free(content);
    file_close(file);
    return status;
}

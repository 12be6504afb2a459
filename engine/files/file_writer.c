#include "files/file_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE_MAX = 1 << 30, COPY_BYTES = 1 << 20, TEMPORARY_MAX = 280 };

struct file_writer {
    int directory, descriptor;
    char *path;                    /* owned */
    const char *name;              /* last component of path */
    char temporary[TEMPORARY_MAX]; /* in `directory`; "" when there is none to remove */
    bool left;                     /* a later writer may go on with it */
    int64_t appended;
};

/* The status of errno. Exceeding a file size limit counts as a full disk: both need more space. */
static enum status refuse(const char *action, struct error *error)
{
    const int number = errno;
    const enum status status = error_set_errno(error, action);
    return number == EFBIG ? error_set(error, STATUS_DISK_FULL, "%s: file size limit reached", action) : status;
}

/* Opens the directory of `path` and splits off the file's name. */
static enum status open_directory(struct file_writer *writer, struct error *error)
{
    char *slash = strrchr(writer->path, '/');
    writer->name = slash != NULL ? slash + 1 : writer->path;
    if (!*writer->name || strcmp(writer->name, ".") == 0 || strcmp(writer->name, "..") == 0)
        return error_set(error, STATUS_INVALID, "a file to write needs a name");
    const char *directory = slash == writer->path ? "/" : slash != NULL ? writer->path : ".";
    if (slash != NULL) *slash = '\0';
    writer->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return writer->directory < 0 ? refuse("cannot open the directory to write to", error) : STATUS_OK;
}

static enum status open_temporary(struct file_writer *writer, struct error *error)
{
    unsigned long long number = 0;
    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return refuse("cannot name a temporary file", error);
    (void)snprintf(writer->temporary, sizeof writer->temporary, ".deltaq-%016llx.tmp", number);
    writer->descriptor =
        openat(writer->directory, writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (writer->descriptor >= 0) return STATUS_OK;
    writer->temporary[0] = '\0';
    return refuse("cannot create a file to write to", error);
}

static enum status reserve(struct file_writer *writer, int64_t bytes, struct error *error)
{
    int result;
    do result = fallocate(writer->descriptor, 0, 0, bytes);
    while (result != 0 && errno == EINTR);
    /* A file system that cannot reserve space reports a full disk later, when bytes are written. */
    if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return STATUS_OK;
    return refuse("cannot set space aside", error);
}

/* A writer with its directory open. */
static enum status begin(const char *path, struct file_writer **out, struct error *error)
{
    struct file_writer *writer = calloc(1, sizeof *writer);
    *out = writer;
    if (writer == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a file writer");
    *writer = (struct file_writer){.directory = -1, .descriptor = -1, .path = strdup(path)};
    if (writer->path == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a file writer");
    return open_directory(writer, error);
}

enum status file_writer_open(const char *path, int64_t bytes, struct file_writer **out, struct error *error)
{
    enum status status;
    struct file_writer *writer = NULL;
    *out = NULL;
    if ((status = begin(path, &writer, error)) != STATUS_OK) goto done;
    if ((status = open_temporary(writer, error)) != STATUS_OK) goto done;
    if (bytes > 0 && (status = reserve(writer, bytes, error)) != STATUS_OK) goto done;
    *out = writer;
    writer = NULL;
done:
    file_writer_close(writer);
    return status;
}

/* Whether `name` is a regular file of that size. */
static bool is_there(const struct file_writer *writer, const char *name, int64_t bytes)
{
    struct stat found;
    return fstatat(writer->directory, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(found.st_mode) &&
           found.st_size == bytes;
}

static int open_existing(const struct file_writer *writer, const char *name)
{
    return openat(writer->directory, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
}

/* Whether the bytes are not the writer's alone. A finished file may have another link, under which its content must
 * stay as it is. A writer that lives has the file locked; without locks (another error) there is one writer. */
static bool is_shared(int descriptor)
{
    struct stat found;
    if (fstat(descriptor, &found) != 0 || found.st_nlink > 1) return true;
    return flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

static enum status create_left(struct file_writer *writer, int64_t bytes, struct error *error)
{
    (void)unlinkat(writer->directory, writer->temporary, 0);
    writer->descriptor =
        openat(writer->directory, writer->temporary, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT | O_EXCL, 0666);
    if (writer->descriptor < 0) return refuse("cannot create a file to write to", error);
    (void)flock(writer->descriptor, LOCK_EX | LOCK_NB);
    return reserve(writer, bytes, error);
}

enum status file_writer_write(struct file_writer *writer, int64_t offset, const void *bytes, size_t size,
                              struct error *error)
{
    const char *from = bytes;
    while (size > 0) {
        const ssize_t put = pwrite(writer->descriptor, from, size < WRITE_MAX ? size : WRITE_MAX, offset);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return refuse("cannot write", error);
        from += put;
        size -= (size_t)put;
        offset += put;
    }
    return STATUS_OK;
}

/* Copies the first `bytes` bytes of the file `from`. */
static enum status copy_from(int from, struct file_writer *writer, int64_t bytes, struct error *error)
{
    enum status status = STATUS_OK;
    char *chunk = malloc(COPY_BYTES);
    if (chunk == NULL) return error_set(error, STATUS_NO_MEMORY, "cannot allocate a part of a file");
    for (int64_t at = 0; status == STATUS_OK && at < bytes;) {
        const ssize_t got = pread(from, chunk, COPY_BYTES, at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) status = refuse("cannot read what was written", error);
        if (got == 0) status = error_set(error, STATUS_IO, "what was written has become shorter");
        if (got > 0) status = file_writer_write(writer, at, chunk, (size_t)got, error);
        at += got;
    }
    free(chunk);
    return status;
}

/* Continues the temporary file, else the finished one; a copy where it is not the writer's alone. */
static enum status open_left(struct file_writer *writer, int64_t bytes, bool *found, struct error *error)
{
    const int length = snprintf(writer->temporary, sizeof writer->temporary, ".deltaq-%s.part", writer->name);
    if (length >= (int)sizeof writer->temporary)
        return error_set(error, STATUS_INVALID, "a file's name is too long to write to");
    const char *name = is_there(writer, writer->temporary, bytes) ? writer->temporary
                       : is_there(writer, writer->name, bytes)    ? writer->name
                                                                  : NULL;
    const int left = name != NULL ? open_existing(writer, name) : -1;
    *found = left >= 0;
    if (!*found) return create_left(writer, bytes, error);
    if (is_shared(left)) {
        enum status status = create_left(writer, bytes, error);
        if (status == STATUS_OK) status = copy_from(left, writer, bytes, error);
        (void)close(left);
        return status;
    }
    writer->descriptor = left;
    if (name == writer->temporary ||
        renameat(writer->directory, writer->name, writer->directory, writer->temporary) == 0)
        return STATUS_OK;
    return refuse("cannot open a file to write to", error);
}

enum status file_writer_take_up(const char *path, int64_t bytes, struct file_writer **out, bool *found,
                                struct error *error)
{
    enum status status;
    struct file_writer *writer = NULL;
    *out = NULL;
    *found = false;
    if ((status = begin(path, &writer, error)) != STATUS_OK) goto done;
    if ((status = open_left(writer, bytes, found, error)) != STATUS_OK) goto done;
    writer->left = true;
    *out = writer;
    writer = NULL;
done:
    file_writer_close(writer);
    return status;
}

enum status file_writer_read(const struct file_writer *writer, int64_t offset, void *bytes, size_t size,
                             struct error *error)
{
    char *to = bytes;
    while (size > 0) {
        const ssize_t got = pread(writer->descriptor, to, size < WRITE_MAX ? size : WRITE_MAX, offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return refuse("cannot read what was written", error);
        if (got == 0) return error_set(error, STATUS_CORRUPT, "what was written ends at %lld bytes", (long long)offset);
        to += got;
        size -= (size_t)got;
        offset += got;
    }
    return STATUS_OK;
}

enum status file_writer_sync(struct file_writer *writer, struct error *error)
{
    return fdatasync(writer->descriptor) == 0 ? STATUS_OK : refuse("cannot make a file durable", error);
}

enum status file_writer_append(struct file_writer *writer, const void *bytes, size_t size, struct error *error)
{
    const enum status status = file_writer_write(writer, writer->appended, bytes, size, error);
    if (status == STATUS_OK) writer->appended += (int64_t)size;
    return status;
}

/* Whether the temporary file is still the writer's: a later writer may have put its own in its place. */
static bool is_ours(const struct file_writer *writer)
{
    struct stat named, opened;
    return fstatat(writer->directory, writer->temporary, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstat(writer->descriptor, &opened) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

enum status file_writer_commit(struct file_writer *writer, struct error *error)
{
    /* A failed fsync is final: the kernel may have dropped the pages that it could not write. */
    if (fsync(writer->descriptor) != 0) return refuse("cannot make a file durable", error);
    if (writer->left && !is_ours(writer))
        return error_set(error, STATUS_CONFLICT, "another writer has taken the file over");
    if (renameat(writer->directory, writer->temporary, writer->directory, writer->name) != 0)
        return refuse("cannot put a file in place", error);
    writer->temporary[0] = '\0';
    if (fsync(writer->directory) != 0)
        return refuse("the file is in place, but its directory cannot be made durable", error);
    return STATUS_OK;
}

void file_writer_close(struct file_writer *writer)
{
    if (writer == NULL) return;
    if (writer->temporary[0] && !writer->left) (void)unlinkat(writer->directory, writer->temporary, 0);
    if (writer->descriptor >= 0) (void)close(writer->descriptor);
    if (writer->directory >= 0) (void)close(writer->directory);
    free(writer->path);
    free(writer);
}

enum status file_writer_put(const char *path, const void *bytes, size_t size, struct error *error)
{
    enum status status;
    struct file_writer *writer = NULL;
    if ((status = file_writer_open(path, 0, &writer, error)) != STATUS_OK) goto done;
    if ((status = file_writer_append(writer, bytes, size, error)) != STATUS_OK) goto done;
    status = file_writer_commit(writer, error);
done:
    file_writer_close(writer);
    return status;
}

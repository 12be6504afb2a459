#include "track/append_file.h"

#include "base/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum status append_file_sync_directory(const char *path, struct error *error)
{
    char above[PATH_MAX];
    (void)snprintf(above, sizeof above, "%s", path);
    char *slash = strrchr(above, '/');
    if (slash == above) slash++;
    if (slash != NULL) *slash = '\0';
    const int directory = open(slash != NULL ? above : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return error_set_errno(error, "opening the directory");
    const bool good = fsync(directory) == 0;
    const enum status status = good ? STATUS_OK : error_set_errno(error, "syncing the directory");
    (void)close(directory);
    return status;
}

static enum status write_all(int file, const char *bytes, size_t size, int64_t at, struct error *error)
{
    while (size > 0) {
        const ssize_t done = pwrite(file, bytes, size, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return error_set_errno(error, "writing the file");
        bytes += done;
        at += done;
        size -= (size_t)done;
    }
    return fsync(file) == 0 ? STATUS_OK : error_set_errno(error, "syncing the file");
}

enum status append_file_write(const char *path, int64_t *length, const void *bytes, size_t size, struct error *error)
{
    struct stat found;
    const bool begins = *length == 0;
    enum status status = STATUS_OK;
    if (begins && directory_make_above(path, 0777) != 0) return error_set_errno(error, "making the directory");
    const int file = open(path, O_WRONLY | O_CLOEXEC | (begins ? O_CREAT : 0), 0666);
    if (file < 0) return error_set_errno(error, "opening the file");
    if (fstat(file, &found) != 0)
        status = error_set_errno(error, "reading the file's length");
    else if (found.st_size < *length)
        status = error_set(error, STATUS_NOT_FOUND, "the file has %lld bytes and its ledger says %lld: its end is gone",
                           (long long)found.st_size, (long long)*length);
    else if (found.st_size > *length)
        status =
            error_set(error, STATUS_CORRUPT, "the file has %lld bytes and its ledger says %lld: somebody wrote to it",
                      (long long)found.st_size, (long long)*length);
    if (status == STATUS_OK) status = write_all(file, bytes, size, *length, error);
    if (close(file) != 0 && status == STATUS_OK) status = error_set_errno(error, "closing the file");
    if (status == STATUS_OK && begins) status = append_file_sync_directory(path, error);
    if (status == STATUS_OK) *length += (int64_t)size;
    return status;
}

enum status append_file_cut(const char *path, int64_t length, bool *found, struct error *error)
{
    struct stat now;
    *found = stat(path, &now) == 0 && now.st_size >= length;
    if (!*found) return STATUS_OK;
    return truncate(path, (off_t)length) == 0 ? STATUS_OK : error_set_errno(error, "cutting the file");
}

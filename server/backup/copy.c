#include "backup/copy.h"

#include "base/directory.h"
#include "files/file_writer.h"
#include "inputs/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

/* For errors that the user who started the program sees: they name the file. */
static enum status file_failed(const char *action, const char *directory, const char *path, struct error *error)
{
    const enum status status = errno == ENOENT ? STATUS_NOT_FOUND : errno == ENOSPC ? STATUS_DISK_FULL : STATUS_IO;
    return error_set(error, status, "%s %.150s/%.200s: %s", action, directory, path, strerror(errno));
}

static enum status join(char out[PATH_MAX], const char *directory, const char *path, struct error *error)
{
    if (snprintf(out, PATH_MAX, "%s/%s", directory, path) < PATH_MAX) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "a path is too long: %.200s/%.100s", directory, path);
}

/* `writer` may be NULL. */
static enum status copy_bytes(int source, struct hash *hash, struct file_writer *writer, int64_t *bytes,
                              struct error *error)
{
    enum status status = STATUS_OK;
    char *buffer = malloc(CHUNK);
    if (buffer == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory to copy a file");
    for (*bytes = 0; status == STATUS_OK;) {
        const ssize_t length = read(source, buffer, CHUNK);
        if (length < 0 && errno == EINTR) continue;
        if (length < 0) status = error_set_errno(error, "cannot read a file");
        if (length <= 0) break;
        hash_add(hash, buffer, (size_t)length);
        *bytes += length;
        if (writer != NULL) status = file_writer_append(writer, buffer, (size_t)length, error);
    }
    free(buffer);
    return status;
}

/* Opens a regular file without following a link and without waiting. */
static enum status open_file(const char *directory, const char *path, int *fd, struct stat *file, struct error *error)
{
    char source[PATH_MAX];
    const enum status status = join(source, directory, path, error);
    *fd = -1;
    if (status != STATUS_OK) return status;
    *fd = open(source, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*fd < 0 || fstat(*fd, file) != 0) return file_failed("cannot read", directory, path, error);
    if (S_ISREG(file->st_mode)) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "%.150s/%.200s is not a regular file", directory, path);
}

enum status copy_digest_open(int fd, int64_t *bytes, char sha256[65], struct error *error)
{
    struct hash *hash = NULL;
    sha256[0] = '\0';
    enum status status = hash_new(&hash, error);
    if (status == STATUS_OK) status = copy_bytes(fd, hash, NULL, bytes, error);
    if (status == STATUS_OK)
        status = hash_finish(hash, sha256, error);
    else
        hash_free(hash);
    return status;
}

enum status copy_digest(const char *directory, const char *path, int64_t *bytes, char sha256[65], struct error *error)
{
    struct stat file;
    int fd;
    sha256[0] = '\0';
    enum status status = open_file(directory, path, &fd, &file, error);
    if (status == STATUS_OK) status = copy_digest_open(fd, bytes, sha256, error);
    if (fd >= 0) (void)close(fd);
    return status;
}

enum status copy_note(json_t *files, const char *path, int64_t bytes, const char *sha256, struct error *error)
{
    if (files == NULL || json_array_append_new(files, json_pack("{ss sI ss}", "path", path, "bytes", (json_int_t)bytes,
                                                                "sha256", sha256)) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for a list of files");
}

enum status copy_open(int fd, const char *from, const char *to, const char *path, const char *sha256, json_t *files,
                      struct error *error)
{
    char target[PATH_MAX], found[HASH_TEXT] = "";
    struct file_writer *writer = NULL;
    struct hash *hash = NULL;
    struct stat file;
    int64_t bytes = 0;
    enum status status = join(target, to, path, error);
    if (status == STATUS_OK && fstat(fd, &file) != 0) status = file_failed("cannot read", from, path, error);
    if (status == STATUS_OK && directory_make_above(target, 0700) != 0)
        status = file_failed("cannot make the directory of", to, path, error);
    if (status == STATUS_OK) status = file_writer_open(target, 0, &writer, error);
    if (status == STATUS_OK) status = hash_new(&hash, error);
    if (status == STATUS_OK) status = copy_bytes(fd, hash, writer, &bytes, error);
    if (status == STATUS_OK)
        status = hash_finish(hash, found, error);
    else
        hash_free(hash);
    if (status == STATUS_OK && sha256 != NULL && strcmp(found, sha256) != 0)
        status = error_set(error, STATUS_CORRUPT, "%.150s/%.200s is damaged: its SHA-256 is another", from, path);
    if (status == STATUS_OK) status = file_writer_commit(writer, error);
    if (status == STATUS_OK) {
        const struct timespec times[2] = {file.st_atim, file.st_mtim};
        (void)utimensat(AT_FDCWD, target, times, 0); /* a copy without its time is as good as one with it */
        status = copy_note(files, path, bytes, found, error);
    }
    file_writer_close(writer);
    return status;
}

enum status copy_file(const char *from, const char *to, const char *path, const char *sha256, json_t *files,
                      struct error *error)
{
    struct stat file;
    int fd;
    enum status status = open_file(from, path, &fd, &file, error);
    if (status == STATUS_OK) status = copy_open(fd, from, to, path, sha256, files, error);
    if (fd >= 0) (void)close(fd);
    return status;
}

static enum status copy_entry(const char *from, const char *to, const char *path, json_t *files, struct error *error)
{
    char source[PATH_MAX];
    struct stat found;
    const enum status status = join(source, from, path, error);
    if (status != STATUS_OK) return status;
    if (lstat(source, &found) != 0) return file_failed("cannot read", from, path, error);
    if (S_ISDIR(found.st_mode)) return copy_tree(from, to, path, files, error);
    if (S_ISREG(found.st_mode)) return copy_file(from, to, path, NULL, files, error);
    return error_set(error, STATUS_UNSUPPORTED, "%.150s/%.200s is neither a file nor a directory", from, path);
}

/* Copies the entries of a directory; `below`: with those of the directories in it. */
static enum status copy_entries(DIR *directory, const char *from, const char *to, const char *path, bool below,
                                json_t *files, struct error *error)
{
    char entry_path[PATH_MAX];
    enum status status = STATUS_OK;
    for (const struct dirent *entry; status == STATUS_OK && (entry = readdir(directory)) != NULL;) {
        struct stat found;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (!below && fstatat(dirfd(directory), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(found.st_mode))
            continue;
        status = join(entry_path, path, entry->d_name, error);
        if (status == STATUS_OK) status = copy_entry(from, to, entry_path, files, error);
    }
    (void)closedir(directory);
    return status;
}

/* Configuration, tokenizer and further parts of the weights lie beside a file that was registered by its own name. */
static enum status copy_beside(const char *from, const char *to, const char *path, json_t *files, struct error *error)
{
    char source[PATH_MAX], parent[PATH_MAX];
    (void)snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
    const enum status status = join(source, from, parent, error);
    if (status != STATUS_OK) return status;
    DIR *directory = opendir(source);
    if (directory == NULL) return file_failed("cannot list", from, parent, error);
    return copy_entries(directory, from, to, parent, false, files, error);
}

enum status copy_tree(const char *from, const char *to, const char *path, json_t *files, struct error *error)
{
    char source[PATH_MAX];
    const enum status status = join(source, from, path, error);
    if (status != STATUS_OK) return status;
    DIR *directory = opendir(source);
    if (directory == NULL && errno == ENOTDIR && strchr(path, '/') != NULL)
        return copy_beside(from, to, path, files, error);
    if (directory == NULL) return file_failed("cannot list", from, path, error);
    return copy_entries(directory, from, to, path, true, files, error);
}

bool copy_is_there(const char *directory, const char *path)
{
    char name[PATH_MAX];
    struct stat found;
    return snprintf(name, sizeof name, "%s/%s", directory, path) < (int)sizeof name && lstat(name, &found) == 0;
}

enum status copy_is_empty(const char *path, bool *empty, struct error *error)
{
    DIR *directory = opendir(path);
    *empty = directory == NULL && errno == ENOENT;
    if (*empty) return STATUS_OK;
    if (directory == NULL) return error_set(error, STATUS_IO, "opening %.300s: %s", path, strerror(errno));
    int count = 0;
    while (readdir(directory) != NULL) count++;
    (void)closedir(directory);
    *empty = count == 2; /* only "." and ".." */
    return STATUS_OK;
}

#include "backup/artifact_copy.h"

#include "backup/copy.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ARTIFACT_PATH = 100 };

static enum status name_artifact(enum status status, const char *sha256, const char *advice, struct error *error)
{
    const struct error cause = *error;
    return error_set(error, status, "the artifact %.64s: %.250s%s", sha256, cause.detail, advice);
}

static enum status open_artifact(const struct artifact_place *place, const char *sha256, int64_t bytes, int *fd,
                                 struct error *error)
{
    const enum status status = artifact_file_open(place, sha256, bytes, fd, error);
    if (status == STATUS_OK) return status;
    if (status == STATUS_NOT_FOUND && place->store == NULL)
        return error_set(error, status,
                         "the artifact %.64s is not in %.200s/artifacts: where artifacts lie in a bucket, give "
                         "--artifacts (DELTAQ_ARTIFACTS) as the server has it",
                         sha256, place->data_directory);
    return name_artifact(status, sha256, "", error);
}

enum status artifact_copy_out(const struct artifact_place *place, const char *sha256, int64_t bytes, const char *to,
                              json_t *files, struct error *error)
{
    char path[ARTIFACT_PATH];
    int fd = -1;
    enum status status = open_artifact(place, sha256, bytes, &fd, error);
    (void)snprintf(path, sizeof path, ARTIFACT_COPY_DIRECTORY "%.64s", sha256);
    if (status == STATUS_OK) status = copy_open(fd, place->data_directory, to, path, sha256, files, error);
    if (fd >= 0) (void)close(fd);
    return status;
}

enum status artifact_copy_check(const struct artifact_place *place, const char *sha256, int64_t bytes,
                                struct error *error)
{
    char found[65];
    int64_t read_bytes = 0;
    int fd = -1;
    enum status status = open_artifact(place, sha256, bytes, &fd, error);
    if (status == STATUS_OK) status = copy_digest_open(fd, &read_bytes, found, error);
    if (status == STATUS_OK && (read_bytes != bytes || strcmp(found, sha256) != 0))
        status = error_set(error, STATUS_CORRUPT, "%.150s/" ARTIFACT_COPY_DIRECTORY "%.64s is damaged",
                           place->data_directory, sha256);
    if (fd >= 0) (void)close(fd);
    return status;
}

enum status artifact_copy_in(const struct artifact_place *place, const char *sha256, int64_t bytes, const char *from,
                             struct error *error)
{
    char path[PATH_MAX];
    int there = -1;
    (void)snprintf(path, sizeof path, "%s/" ARTIFACT_COPY_DIRECTORY "%.64s", from, sha256);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    enum status status = fd < 0 ? error_set_errno(error, "opening it in the backup") : STATUS_OK;
    if (status == STATUS_OK) status = artifact_store_put(place->store, sha256, fd, bytes, NULL, error);
    /* An object that was there already has been compared only by its ETag. */
    if (status == STATUS_OK)
        status = artifact_store_get(place->store, sha256, bytes, place->data_directory, NULL, &there, error);
    if (fd >= 0) (void)close(fd);
    if (there >= 0) (void)close(there);
    if (status == STATUS_OK) return status;
    return name_artifact(status, sha256, status == STATUS_CORRUPT ? "; delete that object and restore again" : "",
                         error);
}

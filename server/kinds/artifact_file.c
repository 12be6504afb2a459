#include "kinds/artifact_file.h"

#include "hub/hub.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status fetch(const struct artifact_place *place, const char *sha256, int64_t bytes, int *fd,
                         struct error *error)
{
    if (place->visited != NULL) {
        const enum status status = hub_enter(place->visited, error);
        if (status != STATUS_OK) return status;
    }
    const enum status status =
        artifact_store_get(place->store, sha256, bytes, place->data_directory, place->monitor, fd, error);
    if (place->visited != NULL) hub_leave(place->visited);
    return status;
}

bool artifact_file_here(const struct artifact_place *place, const char *sha256)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/artifacts/%s", place->data_directory, sha256);
    return access(path, F_OK) == 0;
}

enum status artifact_file_open(const struct artifact_place *place, const char *sha256, int64_t bytes, int *fd,
                               struct error *error)
{
    struct stat found;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/artifacts/%s", place->data_directory, sha256);
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*fd < 0 && errno == ENOENT && place->store != NULL) return fetch(place, sha256, bytes, fd, error);
    if (*fd < 0) return error_set_errno(error, "opening the artifact");
    if (fstat(*fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == bytes) return STATUS_OK;
    (void)close(*fd);
    *fd = -1;
    return error_set(error, STATUS_CORRUPT, "the artifact on disk is not the one that was published; retry the run");
}

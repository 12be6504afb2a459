#include "inputs/object_file.h"

#include "inputs/checkpoint_place.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum status object_file_read(const char *path, const char *pointer, struct object_file *out, struct error *error)
{
    struct objects_place place;
    *out = (struct object_file){.name = ""};
    const enum status status = objects_place_read(path, pointer, &place, error);
    if (status != STATUS_OK) return status;
    char *slash = strrchr(place.key, '/');
    const char *name = slash != NULL ? slash + 1 : place.key;
    const bool fits = names_is_file(name) && snprintf(out->name, sizeof out->name, "%s", name) < (int)sizeof out->name;
    *(slash != NULL ? slash : place.key) = '\0';
    objects_place_write(&place, out->directory, sizeof out->directory);
    if (fits) return STATUS_OK;
    return error_set_at(
        error, STATUS_INVALID, pointer,
        "must be an object, s3://BUCKET/DIRECTORY/NAME, whose name has no \"\\\" and at most 200 bytes");
}

static struct fetch_request request_of(const struct object_file *file, const char *const *names, const char *commit)
{
    return (struct fetch_request){.repo = file->directory, .commit = commit, .files = names, .file_count = 1};
}

enum status object_file_commit(const struct hub *hub, const struct object_file *file, const char *pointer,
                               char out[NAMES_COMMIT], struct error *error)
{
    const char *const names[] = {file->name};
    struct fetch_request request = request_of(file, names, NULL);
    request.hub = hub;
    const enum status status = fetch_commit(&request, out, error);
    const struct error cause = *error;
    if (status == STATUS_OK || status == STATUS_UNAVAILABLE || status == STATUS_TOO_MANY || status == STATUS_NO_MEMORY)
        return status;
    return error_set_at(error, STATUS_INVALID, pointer, "%s", cause.detail);
}

enum status object_file_open(const struct run_context *context, const struct object_file *file, const char *commit,
                             char path[4096], struct hub_cache_hold **hold, struct error *error)
{
    const char *const names[] = {file->name};
    const struct fetch_request request = request_of(file, names, commit);
    struct fetch_result found = {0};
    char directory[PATH_MAX];
    enum status status;
    (void)snprintf(directory, sizeof directory, "%s/hub", context->data_directory);
    status = context->planning ? fetch_find(directory, &request, &found, error)
                               : checkpoint_place_fetch(context, &request, &found, error);
    *hold = found.hold;
    if (status != STATUS_OK) return status;
    if (found.hold == NULL)
        return error_set(error, STATUS_INVALID,
                         "%.300s/%.100s is not here yet: what the run takes is known once a run has fetched it",
                         file->directory, file->name);
    if (snprintf(path, 4096, "%s/%s", found.path, file->name) < 4096) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "the data directory's path is too long");
}

#include "backup/restore.h"

#include "backup/artifact_copy.h"
#include "backup/copy.h"
#include "backup/manifest.h"
#include "files/file_writer.h"
#include "files/spill.h"
#include "log/log.h"
#include "postgres/tools.h"
#include "store/backup_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A full backup is restored into an empty directory; a backup of the database only, beside the files that it left. */
static enum status check_place(const char *data_directory, const json_t *manifest, struct error *error)
{
    char database[PATH_MAX];
    bool empty;
    enum status status = restore_check_finished(data_directory, error);
    if (status == STATUS_OK) status = copy_is_empty(data_directory, &empty, error);
    if (status != STATUS_OK || empty) return status;
    if (json_is_true(json_object_get(manifest, "whole")))
        return error_set(error, STATUS_CONFLICT,
                         "the data directory %.300s is not empty: restore into a new one (--data-dir)", data_directory);
    if (snprintf(database, sizeof database, "%s/pg", data_directory) < (int)sizeof database &&
        access(database, F_OK) != 0 && errno == ENOENT)
        return STATUS_OK;
    return error_set(error, STATUS_CONFLICT,
                     "the data directory %.300s has a database: move its directory pg away first", data_directory);
}

/* Checks the artifacts that a backup of the database only left in their place. Where that place is, those of runs that
 * were deleted since are gone for good: the way back is not closed by them. */
static enum status check_elsewhere(const struct artifact_place *place, const json_t *elsewhere, struct error *error)
{
    size_t index;
    const json_t *file;
    const char *first = NULL;
    int gone = 0;
    enum status status = STATUS_OK;
    const bool stayed = copy_is_there(place->data_directory, "artifacts");
    json_array_foreach(elsewhere, index, file)
    {
        const char *sha256 = json_string_value(json_object_get(file, "sha256"));
        if (status != STATUS_OK) break;
        status = artifact_copy_check(place, sha256, json_integer_value(json_object_get(file, "bytes")), error);
        if (status != STATUS_NOT_FOUND || !stayed) continue;
        if (gone++ == 0) first = sha256;
        status = STATUS_OK;
    }
    if (status == STATUS_OK && gone > 0)
        log_warning(
            LOG_COMPONENT_BACKUP,
            "of the artifacts that the backup names %d may be gone (the first is %.64s): runs that were deleted "
            "since had them, or they lie in a bucket (--artifacts)",
            gone, first);
    return status;
}

enum status restore_check(const char *directory, const struct artifact_place *place, int schema,
                          struct connection *database, json_t **manifest, struct error *error)
{
    enum status status = manifest_read(directory, manifest, error);
    if (status != STATUS_OK) return status;
    const json_int_t number = json_integer_value(json_object_get(*manifest, "schema"));
    if (number > schema)
        status =
            error_set(error, STATUS_UNSUPPORTED, "the backup has schema %lld, this deltaq knows %d: use a newer deltaq",
                      (long long)number, schema);
    if (status == STATUS_OK) status = check_place(place->data_directory, *manifest, error);
    if (status == STATUS_OK && database != NULL) status = backup_rows_check_empty(database, error);
    if (status == STATUS_OK) status = manifest_verify(json_object_get(*manifest, "files"), directory, error);
    if (status == STATUS_OK) status = check_elsewhere(place, json_object_get(*manifest, "elsewhere"), error);
    if (status == STATUS_OK) return STATUS_OK;
    json_decref(*manifest);
    *manifest = NULL;
    return status;
}

static enum status marker_path(const char *data_directory, char out[PATH_MAX], struct error *error)
{
    if (snprintf(out, PATH_MAX, "%s/" RESTORE_MARKER, data_directory) < PATH_MAX) return STATUS_OK;
    return error_set(error, STATUS_INVALID, "the data directory's path is too long");
}

enum status restore_begin(const char *data_directory, struct error *error)
{
    static const char text[] = "`deltaq restore` fills this directory, or was killed while it did\n";
    char marker[PATH_MAX];
    const enum status status = marker_path(data_directory, marker, error);
    return status == STATUS_OK ? file_writer_put(marker, text, sizeof text - 1, error) : status;
}

static enum status restore_file(const char *directory, const struct artifact_place *place, const json_t *file,
                                struct error *error)
{
    const char *path = json_string_value(json_object_get(file, "path")),
               *sha256 = json_string_value(json_object_get(file, "sha256"));
    if (strcmp(path, MANIFEST_DUMP) == 0) return STATUS_OK;
    if (place->store != NULL && strncmp(path, ARTIFACT_COPY_DIRECTORY, strlen(ARTIFACT_COPY_DIRECTORY)) == 0)
        return artifact_copy_in(place, sha256, json_integer_value(json_object_get(file, "bytes")), directory, error);
    return copy_file(directory, place->data_directory, path, sha256, NULL, error);
}

enum status restore_files(const char *directory, const struct artifact_place *place, const json_t *manifest,
                          struct error *error)
{
    size_t index;
    const json_t *file;
    enum status status = restore_begin(place->data_directory, error);
    json_array_foreach(json_object_get(manifest, "files"), index, file)
    {
        if (status == STATUS_OK) status = restore_file(directory, place, file, error);
    }
    return status;
}

static enum status place_moved(struct connection *connection, const char *data_directory, const json_t *moved,
                               struct error *error)
{
    char to[PATH_MAX];
    size_t index;
    const json_t *row;
    enum status status = STATUS_OK;
    json_array_foreach(moved, index, row)
    {
        const char *at = json_string_value(json_object_get(row, "at"));
        if (status != STATUS_OK || !copy_is_there(data_directory, at)) continue;
        (void)snprintf(to, sizeof to, "%s/%s", data_directory, at);
        status = backup_rows_place(connection, json_string_value(json_object_get(row, "path")), to, error);
    }
    return status;
}

enum status restore_paths(struct connection *connection, const char *former, const char *data_directory,
                          struct error *error)
{
    char from[PATH_MAX], to[PATH_MAX];
    json_t *moved = NULL;
    if (snprintf(from, sizeof from, "%s/checkpoints/", former) >= (int)sizeof from ||
        snprintf(to, sizeof to, "%s/checkpoints/", data_directory) >= (int)sizeof to)
        return error_set(error, STATUS_INVALID, "the data directory's path is too long");
    enum status status = backup_rows_move(connection, from, to, error);
    if (status == STATUS_OK) status = backup_rows_moved(connection, to, &moved, error);
    if (status == STATUS_OK) status = place_moved(connection, data_directory, moved, error);
    json_decref(moved);
    return status;
}

enum status restore_database(struct connection *connection, const char *conninfo, const char *directory,
                             const char *data_directory, const json_t *manifest, struct error *error)
{
    const int script = spill_nameless(data_directory);
    if (script < 0) return error_set_errno(error, "cannot make a file in the data directory");
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const enum status status = fd < 0 ? error_set_errno(error, "cannot open the backup")
                                      : tools_restore(conninfo, fd, MANIFEST_DUMP, script, error);
    if (fd >= 0) (void)close(fd);
    (void)close(script);
    if (status != STATUS_OK) return status;
    return restore_paths(connection, json_string_value(json_object_get(manifest, "data_directory")), data_directory,
                         error);
}

enum status restore_finish(const char *data_directory, struct error *error)
{
    char marker[PATH_MAX];
    const enum status status = marker_path(data_directory, marker, error);
    if (status != STATUS_OK) return status;
    const int fd = open(data_directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool done = fd >= 0 && unlink(marker) == 0 && fsync(fd) == 0;
    if (fd >= 0) (void)close(fd);
    return done ? STATUS_OK : error_set_errno(error, "cannot take away " RESTORE_MARKER);
}

enum status restore_check_finished(const char *data_directory, struct error *error)
{
    char marker[PATH_MAX];
    const enum status status = marker_path(data_directory, marker, error);
    if (status != STATUS_OK || access(marker, F_OK) != 0) return status;
    return error_set(error, STATUS_CONFLICT,
                     "a restore into %.200s was not finished (" RESTORE_MARKER
                     "): delete what is in it and restore again; where the database alone was to be put beside files "
                     "that had stayed there, delete only pg and " RESTORE_MARKER,
                     data_directory);
}

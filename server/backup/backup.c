#include "backup/backup.h"

#include "backup/artifact_copy.h"
#include "backup/copy.h"
#include "backup/manifest.h"
#include "base/directory.h"
#include "base/version.h"
#include "log/log.h"
#include "postgres/tools.h"
#include "store/backup_lock.h"
#include "store/backup_rows.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BACKUPS "backups"
enum { KEPT_BACKUPS = 2 };

struct making {
    const char *conninfo, *directory;
    const struct artifact_place *place; /* the place of the files */
    bool with_files;
    int fd; /* the directory's descriptor */
    json_t *files, *elsewhere;
};

static enum status dump(const struct making *making, const char *snapshot, struct error *error)
{
    char sha256[65];
    int64_t bytes = 0;
    enum status status = tools_dump(making->conninfo, snapshot, making->fd, MANIFEST_DUMP, error);
    if (status != STATUS_OK) return status;
    const int dumped = openat(making->fd, MANIFEST_DUMP, O_RDONLY | O_CLOEXEC);
    if (dumped < 0 || fsync(dumped) != 0) status = error_set_errno(error, "cannot make the dump durable");
    if (dumped >= 0) (void)close(dumped);
    if (status == STATUS_OK) status = copy_digest(making->directory, MANIFEST_DUMP, &bytes, sha256, error);
    return status == STATUS_OK ? copy_note(making->files, MANIFEST_DUMP, bytes, sha256, error) : status;
}

static enum status copy_artifacts(const struct making *making, const json_t *artifacts, struct error *error)
{
    size_t index;
    const json_t *artifact;
    enum status status = STATUS_OK;
    json_array_foreach(artifacts, index, artifact)
    {
        char path[100];
        const char *sha256 = json_string_value(json_object_get(artifact, "sha256"));
        const int64_t bytes = json_integer_value(json_object_get(artifact, "bytes"));
        (void)snprintf(path, sizeof path, ARTIFACT_COPY_DIRECTORY "%s", sha256);
        if (making->with_files)
            status = artifact_copy_out(making->place, sha256, bytes, making->directory, making->files, error);
        else
            status = copy_note(making->elsewhere, path, bytes, sha256, error);
        if (status != STATUS_OK) return status;
    }
    return STATUS_OK;
}

static enum status copy_checkpoints(const struct making *making, const json_t *checkpoints, struct error *error)
{
    size_t index;
    const json_t *path;
    const char *from = making->place->data_directory;
    enum status status = STATUS_OK;
    json_array_foreach(checkpoints, index, path)
    {
        const char *relative = json_string_value(path) + strlen(from) + 1;
        if (status == STATUS_OK) status = copy_tree(from, making->directory, relative, making->files, error);
    }
    return status;
}

/* Those that were written while the data directory had another path lie in it all the same. What is not there is
 * another machine's. */
static enum status copy_moved(const struct making *making, const json_t *moved, struct error *error)
{
    size_t index;
    const json_t *row;
    const char *from = making->place->data_directory;
    enum status status = STATUS_OK;
    json_array_foreach(moved, index, row)
    {
        const char *at = json_string_value(json_object_get(row, "at"));
        if (status == STATUS_OK && copy_is_there(from, at))
            status = copy_tree(from, making->directory, at, making->files, error);
    }
    return status;
}

static enum status write_manifest(const struct making *making, const json_t *contents, struct error *error)
{
    json_t *manifest = json_pack("{si sb ss sO sO sO ss sO sO}", "format", MANIFEST_FORMAT, "whole", making->with_files,
                                 "deltaq", DELTAQ_VERSION, "schema", json_object_get(contents, "schema"), "postgresql",
                                 json_object_get(contents, "postgresql"), "made_at",
                                 json_object_get(contents, "made_at"), "data_directory", making->place->data_directory,
                                 "files", making->files, "elsewhere", making->elsewhere);
    if (manifest == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a manifest");
    const enum status status = manifest_write(making->directory, manifest, error);
    json_decref(manifest);
    return status;
}

/* Runs while the snapshot is held. The snapshot pins no files on disk; the lock keeps artifacts that it names. */
static enum status make(const json_t *contents, void *context, struct error *error)
{
    const struct making *making = context;
    enum status status = dump(making, json_string_value(json_object_get(contents, "snapshot")), error);
    if (status == STATUS_OK) status = copy_artifacts(making, json_object_get(contents, "artifacts"), error);
    if (status == STATUS_OK && making->with_files)
        status = copy_checkpoints(making, json_object_get(contents, "checkpoints"), error);
    if (status == STATUS_OK && making->with_files)
        status = copy_moved(making, json_object_get(contents, "moved"), error);
    return status == STATUS_OK ? write_manifest(making, contents, error) : status;
}

static enum status open_directory(const char *directory, int *fd, struct error *error)
{
    bool empty;
    const enum status status = copy_is_empty(directory, &empty, error);
    if (status != STATUS_OK) return status;
    if (!empty)
        return error_set(
            error, STATUS_CONFLICT,
            "%.300s is not empty: a backup goes into a new directory (what was not finished has no " MANIFEST_NAME
            " and may be deleted)",
            directory);
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        return error_set(error, STATUS_IO, "making %.300s: %s", directory, strerror(errno));
    *fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd >= 0) return STATUS_OK;
    return error_set(error, STATUS_IO, "opening %.300s: %s", directory, strerror(errno));
}

/* Without files nothing is copied that could be removed meanwhile. */
static enum status read_rows(struct connection *connection, const char *prefix, struct making *making,
                             struct error *error)
{
    enum status status = making->with_files ? backup_lock_hold(connection, error) : STATUS_OK;
    if (status != STATUS_OK) return status;
    status = backup_rows_read(connection, prefix, make, making, error);
    if (making->with_files) backup_lock_let_go(connection);
    return status;
}

enum status backup_make(struct connection *connection, const char *conninfo, const struct artifact_place *place,
                        const char *directory, bool files, struct error *error)
{
    char prefix[PATH_MAX];
    struct making making = {
        .conninfo = conninfo, .place = place, .directory = directory, .with_files = files, .fd = -1};
    enum status status = open_directory(directory, &making.fd, error);
    if (status != STATUS_OK) return status;
    (void)snprintf(prefix, sizeof prefix, "%s/checkpoints/", place->data_directory);
    making.files = json_array();
    making.elsewhere = json_array();
    if (making.files == NULL || making.elsewhere == NULL)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for a backup");
    if (status == STATUS_OK) status = read_rows(connection, prefix, &making, error);
    (void)close(making.fd);
    json_decref(making.files);
    json_decref(making.elsewhere);
    if (status != STATUS_OK) directory_remove(AT_FDCWD, directory);
    return status;
}

/* ---- before migrations ---- */

/* "20261122T164611Z-schema-17" */
static bool is_ours(const char *name)
{
    return strlen(name) > 24 && strspn(name, "0123456789") == 8 && strncmp(name + 15, "Z-schema-", 9) == 0;
}

static int by_name(const struct dirent **left, const struct dirent **right)
{
    return strcmp((*left)->d_name, (*right)->d_name);
}

static int is_kept(const struct dirent *entry)
{
    return is_ours(entry->d_name);
}

/* Names sort by time. Removes unfinished copies, and all others except the newest and `made`, which a clock that was
 * set back may name before older ones. */
static void keep_newest(const char *parent, const char *made)
{
    char path[PATH_MAX + 256], manifest[2 * PATH_MAX];
    struct dirent **entries = NULL;
    int whole = 0;
    const int count = scandir(parent, &entries, is_kept, by_name);
    for (int i = count - 1; i >= 0; i--) {
        (void)snprintf(path, sizeof path, "%s/%s", parent, entries[i]->d_name);
        (void)snprintf(manifest, sizeof manifest, "%s/" MANIFEST_NAME, path);
        if (strcmp(path, made) != 0 && (access(manifest, F_OK) != 0 || ++whole >= KEPT_BACKUPS))
            directory_remove(AT_FDCWD, path);
        free(entries[i]);
    }
    free(entries);
}

enum status backup_before_migration(struct connection *connection, const char *conninfo, const char *data_directory,
                                    int number, struct error *error)
{
    char parent[PATH_MAX - 64], directory[PATH_MAX], at[32];
    const time_t now = time(NULL);
    struct tm utc;
    (void)strftime(at, sizeof at, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &utc));
    if (snprintf(parent, sizeof parent, "%s/" BACKUPS, data_directory) >= (int)sizeof parent)
        return error_set(error, STATUS_INVALID, "the data directory's path is too long for a backup");
    if (mkdir(parent, 0700) != 0 && errno != EEXIST)
        return error_set(error, STATUS_IO, "making %.300s: %s", parent, strerror(errno));
    (void)snprintf(directory, sizeof directory, "%s/%s-schema-%d", parent, at, number);
    const struct artifact_place place = {.data_directory = data_directory};
    const enum status status = backup_make(connection, conninfo, &place, directory, false, error);
    if (status != STATUS_OK) return status;
    log_info(LOG_COMPONENT_BACKUP, "backed the database up before its schema changes: %s", directory);
    keep_newest(parent, directory);
    return STATUS_OK;
}

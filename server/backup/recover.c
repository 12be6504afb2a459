#include "backup/recover.h"

#include "backup/artifact_copy.h"
#include "backup/copy.h"
#include "backup/restore.h"
#include "store/backup_rows.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum status check_schema(const json_t *manifest, int schema, struct error *error)
{
    const json_int_t number = json_integer_value(json_object_get(manifest, "schema"));
    if (number <= schema) return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "the archive has schema %lld, this deltaq knows %d: use a newer deltaq",
                     (long long)number, schema);
}

static enum status check_empty(const char *data_directory, struct error *error)
{
    bool empty;
    const enum status status = copy_is_empty(data_directory, &empty, error);
    if (status != STATUS_OK || empty) return status;
    return error_set(error, STATUS_CONFLICT,
                     "the data directory %.300s is not empty: restore into a new one (--data-dir)", data_directory);
}

/* Refuses a gap when the whole archive is to be replayed. */
static enum status refuse_gap(const struct recover *recover, const char *archive, struct error *error)
{
    if (recover->segments.gap[0] == '\0' || recover->until[0] != '\0') return STATUS_OK;
    return error_set(error, STATUS_CORRUPT,
                     "the archive %.250s lacks wal/%s.gz, and has later ones: give the time of a moment before that "
                     "(--until)",
                     archive, recover->segments.gap);
}

enum status recover_check(const char *archive, const char *until, const char *data_directory, int schema,
                          struct recover *out, struct error *error)
{
    char time[BASE_TIME];
    struct archive opened = {.wal = -1};
    json_t *manifest = NULL;
    *out = (struct recover){.lock = -1};
    enum status status = until != NULL ? base_read_time(until, time, error) : STATUS_OK;
    if (status == STATUS_OK && until != NULL) (void)snprintf(out->until, sizeof out->until, "%s+00", time);
    if (status == STATUS_OK) status = check_empty(data_directory, error);
    if (status == STATUS_OK) status = archive_read(archive, out->former, &opened, error);
    if (status == STATUS_OK) status = archive_lock(&opened, false, &out->lock, error);
    if (status == STATUS_OK)
        status = base_find(archive, until != NULL ? time : NULL, out->base, sizeof out->base, &manifest, error);
    if (status == STATUS_OK) status = check_schema(manifest, schema, error);
    if (status == STATUS_OK)
        status = archive_segments_look(&opened, json_string_value(json_object_get(manifest, "segment")), &out->segments,
                                       error);
    if (status == STATUS_OK) status = refuse_gap(out, archive, error);
    archive_close(&opened);
    json_decref(manifest);
    return status;
}

void recover_reset(struct recover *recover)
{
    if (recover->lock >= 0) (void)close(recover->lock);
    recover->lock = -1;
}

enum status recover_explain(const struct recover *recover, const char *archive, struct error *error)
{
    const struct error cause = *error;
    if (cause.status == STATUS_NOT_FOUND && recover->segments.gap[0] != '\0')
        return error_set(error, STATUS_CORRUPT, "the archive %.250s lacks wal/%s.gz, so nothing later can be had",
                         archive, recover->segments.gap);
    if (strstr(cause.detail, "from archive") != NULL) /* PostgreSQL's message, which contains the segment's name */
        return error_set(error, STATUS_CORRUPT, "a segment of the archive %.150s is damaged or cannot be read: %.300s",
                         archive, cause.detail);
    return error_set(error, cause.status, "replaying the archive %.150s: %.300s", archive, cause.detail);
}

/* ---- files ---- */

struct finding {
    const struct recover *recover;
    const struct artifact_place *place;
    const char *from[2]; /* NULL: none */
    int missing;
    char first[300];
};

/* The directory that contains `path`; NULL: none does. */
static const char *find(const struct finding *finding, const char *path)
{
    for (int i = 0; i < 2; i++)
        if (finding->from[i] != NULL && copy_is_there(finding->from[i], path)) return finding->from[i];
    return NULL;
}

static void note_missing(struct finding *finding, const char *path)
{
    if (finding->missing++ == 0) (void)snprintf(finding->first, sizeof finding->first, "%s", path);
}

static enum status recover_artifact(struct finding *finding, const json_t *artifact, struct error *error)
{
    char path[100];
    const char *sha256 = json_string_value(json_object_get(artifact, "sha256"));
    (void)snprintf(path, sizeof path, ARTIFACT_COPY_DIRECTORY "%.64s", sha256);
    const char *from = find(finding, path);
    if (from != NULL) return copy_file(from, finding->place->data_directory, path, sha256, NULL, error);
    if (finding->place->store != NULL)
        return artifact_copy_check(finding->place, sha256, json_integer_value(json_object_get(artifact, "bytes")),
                                   error);
    note_missing(finding, path);
    return STATUS_OK;
}

static enum status recover_checkpoint(struct finding *finding, const char *relative, const char *from,
                                      struct error *error)
{
    if (from != NULL) return copy_tree(from, finding->place->data_directory, relative, NULL, error);
    note_missing(finding, relative);
    return STATUS_OK;
}

/* One that a run wrote while the archived directory had another path is where that directory was moved to, or still at
 * that path. */
static enum status recover_moved(struct finding *finding, const json_t *row, struct error *error)
{
    char root[PATH_MAX];
    const char *path = json_string_value(json_object_get(row, "path")),
               *at = json_string_value(json_object_get(row, "at")), *from = find(finding, at);
    (void)snprintf(root, sizeof root, "%.*s", (int)(strlen(path) - strlen(at) - 1), path);
    if (from == NULL && copy_is_there(root, at)) from = root;
    return recover_checkpoint(finding, at, from, error);
}

static enum status recover_all(const json_t *contents, void *context, struct error *error)
{
    struct finding *finding = context;
    const size_t former = strlen(finding->recover->former) + 1;
    size_t index;
    const json_t *entry;
    enum status status = STATUS_OK;
    json_array_foreach(json_object_get(contents, "artifacts"), index, entry)
    {
        if (status == STATUS_OK) status = recover_artifact(finding, entry, error);
    }
    json_array_foreach(json_object_get(contents, "checkpoints"), index, entry)
    {
        const char *relative = json_string_value(entry) + former;
        if (status == STATUS_OK) status = recover_checkpoint(finding, relative, find(finding, relative), error);
    }
    json_array_foreach(json_object_get(contents, "moved"), index, entry)
    {
        if (status == STATUS_OK) status = recover_moved(finding, entry, error);
    }
    if (status != STATUS_OK || finding->missing == 0) return status;
    return error_set(error, STATUS_NOT_FOUND,
                     "%d files that the database names are not in %.120s (the first is %.120s): give the backup or the "
                     "data directory that has them (deltaq restore DIR --archive …), or --artifacts for a bucket",
                     finding->missing, finding->recover->former, finding->first);
}

enum status recover_files(struct connection *connection, const struct recover *recover, const char *given,
                          const struct artifact_place *place, struct error *error)
{
    char from[PATH_MAX];
    const bool same = strcmp(recover->former, place->data_directory) == 0;
    struct finding finding = {.recover = recover, .place = place, .from = {same ? NULL : recover->former, given}};
    if (snprintf(from, sizeof from, "%s/checkpoints/", recover->former) >= (int)sizeof from)
        return error_set(error, STATUS_INVALID, "the data directory's path is too long");
    const enum status status = backup_rows_read(connection, from, recover_all, &finding, error);
    return status == STATUS_OK ? restore_paths(connection, recover->former, place->data_directory, error) : status;
}

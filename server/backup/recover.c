#include "backup/recover.h"

#include "backup/artifact_copy.h"
#include "backup/copy.h"
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

static bool is_there(const char *directory, const char *path)
{
    char name[PATH_MAX];
    struct stat found;
    return directory != NULL && snprintf(name, sizeof name, "%s/%s", directory, path) < (int)sizeof name &&
           lstat(name, &found) == 0;
}

/* The directory that contains `path`; NULL: none does. */
static const char *find(const struct finding *finding, const char *path)
{
    if (is_there(finding->from[0], path)) return finding->from[0];
    return is_there(finding->from[1], path) ? finding->from[1] : NULL;
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

static enum status recover_checkpoint(struct finding *finding, const char *path, struct error *error)
{
    const char *relative = path + strlen(finding->recover->former) + 1, *from = find(finding, relative);
    if (from != NULL) return copy_tree(from, finding->place->data_directory, relative, NULL, error);
    note_missing(finding, relative);
    return STATUS_OK;
}

static enum status recover_all(const json_t *contents, void *context, struct error *error)
{
    struct finding *finding = context;
    size_t index;
    const json_t *entry;
    enum status status = STATUS_OK;
    json_array_foreach(json_object_get(contents, "artifacts"), index, entry)
    {
        if (status == STATUS_OK) status = recover_artifact(finding, entry, error);
    }
    json_array_foreach(json_object_get(contents, "checkpoints"), index, entry)
    {
        if (status == STATUS_OK) status = recover_checkpoint(finding, json_string_value(entry), error);
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
    char from[PATH_MAX], to[PATH_MAX];
    const bool same = strcmp(recover->former, place->data_directory) == 0;
    struct finding finding = {.recover = recover, .place = place, .from = {same ? NULL : recover->former, given}};
    if (snprintf(from, sizeof from, "%s/checkpoints/", recover->former) >= (int)sizeof from ||
        snprintf(to, sizeof to, "%s/checkpoints/", place->data_directory) >= (int)sizeof to)
        return error_set(error, STATUS_INVALID, "the data directory's path is too long");
    const enum status status = backup_rows_read(connection, from, recover_all, &finding, error);
    return status == STATUS_OK ? backup_rows_move(connection, from, to, error) : status;
}

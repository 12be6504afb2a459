#include "backup/base.h"

#include "backup/copy.h"
#include "backup/manifest.h"
#include "base/directory.h"
#include "base/version.h"
#include "log/log.h"
#include "postgres/archive.h"
#include "postgres/tools.h"
#include "store/backup_rows.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *const parts[] = {"base.tar.gz", "pg_wal.tar.gz", "backup_manifest"};
enum { PARTS = sizeof parts / sizeof parts[0] };

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* ---- making one ---- */

/* The segment of the log (16 MiB) from which the copy must be replayed, from PostgreSQL's own list. */
static enum status read_segment(const char *directory, char out[25], struct error *error)
{
    char path[PATH_MAX + 32], *end = NULL;
    (void)snprintf(path, sizeof path, "%.4095s/backup_manifest", directory);
    json_t *list = json_load_file(path, 0, NULL), *range = json_array_get(json_object_get(list, "WAL-Ranges"), 0);
    const char *start = text_of(range, "Start-LSN"); /* "0/4000028" */
    const unsigned long long upper = strtoull(start, &end, 16), lower = *end == '/' ? strtoull(end + 1, &end, 16) : 0;
    const long long timeline = json_integer_value(json_object_get(range, "Timeline"));
    const bool known = lower > 0 && *end == '\0' && timeline > 0;
    (void)snprintf(out, 25, "%08llX%08llX%08llX", (unsigned long long)timeline & 0xffffffff, upper & 0xffffffff,
                   (lower >> 24) & 0xff);
    json_decref(list);
    return known ? STATUS_OK : error_set(error, STATUS_CORRUPT, "pg_basebackup's list does not say where it begins");
}

static enum status write_manifest(const char *directory, const json_t *before, const json_t *after,
                                  const char *data_directory, json_t *files, struct error *error)
{
    char segment[25];
    const enum status known = read_segment(directory, segment, error);
    if (known != STATUS_OK) return known;
    json_t *manifest = json_pack("{si sb ss sO sO sO sO ss ss sO s[]}", "format", MANIFEST_FORMAT, "whole", false,
                                 "deltaq", DELTAQ_VERSION, "schema", json_object_get(before, "schema"), "postgresql",
                                 json_object_get(before, "postgresql"), "made_at", json_object_get(before, "made_at"),
                                 "ended_at", json_object_get(after, "made_at"), "segment", segment, "data_directory",
                                 data_directory, "files", files, "elsewhere");
    if (manifest == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for a manifest");
    const enum status status = manifest_write(directory, manifest, error);
    json_decref(manifest);
    return status;
}

static enum status note_parts(const char *directory, json_t *files, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < PARTS; i++) {
        char sha256[65];
        int64_t bytes = 0;
        status = copy_digest(directory, parts[i], &bytes, sha256, error);
        if (status == STATUS_OK) status = copy_note(files, parts[i], bytes, sha256, error);
    }
    return status;
}

static enum status copy_database(struct connection *connection, const char *conninfo, const char *directory,
                                 const char *data_directory, const json_t *before, struct error *error)
{
    json_t *after = NULL, *files = json_array();
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum status status = fd >= 0 ? STATUS_OK : error_set_errno(error, "cannot open a new directory of the archive");
    if (status == STATUS_OK && files == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for a copy");
    if (status == STATUS_OK) status = tools_copy(conninfo, fd, error);
    if (status == STATUS_OK) status = note_parts(directory, files, error);
    if (status == STATUS_OK) status = backup_rows_now(connection, &after, error);
    if (status == STATUS_OK) status = write_manifest(directory, before, after, data_directory, files, error);
    if (fd >= 0) (void)close(fd);
    json_decref(files);
    json_decref(after);
    return status;
}

/* A name without ".unfinished" means that the copy is complete. */
static enum status put_in_place(const char *unfinished, const char *finished, struct error *error)
{
    char parent[PATH_MAX];
    (void)snprintf(parent, sizeof parent, "%s", finished);
    *strrchr(parent, '/') = '\0';
    const int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool done = fd >= 0 && rename(unfinished, finished) == 0 && fsync(fd) == 0;
    const enum status status = done ? STATUS_OK : error_set_errno(error, "cannot put the copy in place");
    if (fd >= 0) (void)close(fd);
    return status;
}

static enum status lock_archive(const char *directory, int *lock, struct error *error)
{
    char owner[ARCHIVE_PATH];
    struct archive archive;
    enum status status = archive_read(directory, owner, &archive, error);
    if (status == STATUS_OK) status = archive_lock(&archive, false, lock, error);
    archive_close(&archive);
    return status;
}

enum status base_make(struct connection *connection, const char *conninfo, const char *archive,
                      const char *data_directory, struct error *error)
{
    char finished[PATH_MAX], unfinished[PATH_MAX + 16];
    json_t *before = NULL;
    int lock = -1;
    enum status status = lock_archive(archive, &lock, error);
    if (status == STATUS_OK) status = backup_rows_now(connection, &before, error);
    if (status == STATUS_OK) status = base_list_path(archive, text_of(before, "name"), finished, error);
    if (status == STATUS_OK) {
        (void)snprintf(unfinished, sizeof unfinished, "%s" BASE_UNFINISHED, finished);
        status = mkdir(unfinished, 0700) == 0
                     ? copy_database(connection, conninfo, unfinished, data_directory, before, error)
                     : error_set_errno(error, "cannot make a directory");
        if (status == STATUS_OK) status = put_in_place(unfinished, finished, error);
        if (status != STATUS_OK) directory_remove(AT_FDCWD, unfinished);
    }
    json_decref(before);
    if (lock >= 0) (void)close(lock);
    if (status == STATUS_OK) {
        log_info(LOG_COMPONENT_BACKUP, "copied the database into its archive: %s", finished);
        return STATUS_OK;
    }
    const struct error cause = *error;
    return error_set(error, status, "no copy of the database in its archive %.150s: %.250s", archive, cause.detail);
}

/* ---- finding one ---- */

enum status base_ensure(struct connection *connection, const char *conninfo, const char *archive,
                        const char *data_directory, struct error *error)
{
    struct base_list list;
    const enum status status = base_list_read(archive, &list, error);
    const int count = list.count;
    base_list_reset(&list);
    if (status != STATUS_OK || count > 0) return status;
    return base_make(connection, conninfo, archive, data_directory, error);
}

static enum status none_so_early(const char *archive, const struct base_list *list, struct error *error)
{
    if (list->count == 0)
        return error_set(error, STATUS_NOT_FOUND,
                         "the archive %.300s has no copy of the database to begin from (its directory base)", archive);
    const char *earliest = list->items[0].ended_at;
    return error_set(error, STATUS_NOT_FOUND,
                     "the archive %.250s goes back to %.10sT%.15sZ, when its first copy of the database was whole",
                     archive, earliest, earliest + 11);
}

/* For a damaged copy: adds whether there is an earlier one to begin with. */
static enum status fall_back(enum status status, const char *path, bool earlier, struct error *error)
{
    const struct error cause = *error;
    if (status != STATUS_CORRUPT || !earlier) return status;
    return error_set(error, status, "%.230s; to begin from an earlier copy, move %.170s away", cause.detail, path);
}

static enum status read_base(const char *archive, const struct base_list *list, int chosen, char path[PATH_MAX],
                             json_t **manifest, struct error *error)
{
    const struct base_entry *entry = &list->items[chosen];
    enum status status = base_list_path(archive, entry->name, path, error);
    if (status == STATUS_OK) status = base_list_verify(archive, entry, error);
    if (status == STATUS_OK) status = manifest_read(path, manifest, error);
    return fall_back(status, path, chosen > 0, error);
}

enum status base_find(const char *archive, const char *until, char *path, size_t size, json_t **manifest,
                      struct error *error)
{
    struct base_list list;
    char found[PATH_MAX] = "";
    *manifest = NULL;
    enum status status = base_list_read(archive, &list, error);
    int chosen = list.count - 1;
    while (chosen >= 0 && list.items[chosen].fault[0] == '\0' && until != NULL &&
           strcmp(list.items[chosen].ended_at, until) > 0)
        chosen--;
    if (status == STATUS_OK && chosen < 0) status = none_so_early(archive, &list, error);
    if (status == STATUS_OK) status = read_base(archive, &list, chosen, found, manifest, error);
    base_list_reset(&list);
    if (status == STATUS_OK && snprintf(path, size, "%s", found) < (int)size) return STATUS_OK;
    if (status == STATUS_OK) status = error_set(error, STATUS_INVALID, "the archive's path is too long");
    json_decref(*manifest);
    *manifest = NULL;
    return status;
}

/* Whether the date and the time exist. */
static bool is_moment(const char *text)
{
    struct tm fields = {0};
    if (strptime(text, "%Y-%m-%dT%H:%M:%S", &fields) == NULL) return false;
    const struct tm said = fields;
    (void)timegm(&fields); /* timegm turns the 31st of a shorter month into another day, and the 60th second into
                            * another minute */
    return said.tm_mday == fields.tm_mday && said.tm_sec == fields.tm_sec;
}

enum status base_read_time(const char *text, char out[BASE_TIME], struct error *error)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd";
    const size_t length = sizeof form - 1;
    char fraction[7] = "000000";
    bool fits = strnlen(text, 40) < 40 && strlen(text) > length;
    for (size_t i = 0; fits && i < length; i++)
        fits = form[i] == 'd' ? text[i] >= '0' && text[i] <= '9' : text[i] == form[i];
    const char *rest = fits ? text + length : "";
    if (fits && *rest == '.') {
        const size_t digits = strspn(++rest, "0123456789");
        fits = digits > 0;
        memcpy(fraction, rest, digits < 6 ? digits : 6);
        rest += digits;
    }
    if (!fits || strcmp(rest, "Z") != 0 || !is_moment(text))
        return error_set(error, STATUS_INVALID, "--until: expected a time like 2026-11-23T15:04:05Z, found %.60s",
                         text);
    (void)snprintf(out, BASE_TIME, "%.10s %.8s.%s", text, text + 11, fraction);
    return STATUS_OK;
}

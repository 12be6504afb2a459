#include "backup/prune.h"

#include "base/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DAY_SECONDS = 86400 };

static enum status failed(const char *action, const char *name, struct error *error)
{
    char text[400];
    const int cause = errno;
    (void)snprintf(text, sizeof text, "%s base/%.200s of the archive", action, name);
    errno = cause;
    return error_set_errno(error, text);
}

/* ---- what stays ---- */

/* Writes the moment in the form of base_entry.ended_at. */
static void name_moment(time_t moment, char out[BASE_TIME])
{
    struct tm utc = {0};
    out[0] = '\0';
    if (gmtime_r(&moment, &utc) != NULL) (void)strftime(out, BASE_TIME, "%Y-%m-%d %H:%M:%S.000000", &utc);
}

/* The oldest copy that the rule needs; -1: too few are undamaged, or none is old enough. Every counted copy is read to
 * its end, because the others are removed in reliance on it. */
static int find_oldest(const char *archive, const struct base_list *list, const struct prune_rule *rule, time_t now,
                       struct prune_found *out)
{
    char moment[BASE_TIME];
    int64_t whole = 0;
    bool reached = rule->days == 0;
    struct error error;
    name_moment(now - (time_t)rule->days * DAY_SECONDS, moment);
    for (int i = list->count - 1; i >= 0; i--) {
        const struct base_entry *entry = &list->items[i];
        if (base_list_verify(archive, entry, &error) != STATUS_OK) {
            if (out->damaged++ == 0) (void)snprintf(out->fault, sizeof out->fault, "%.299s", error.detail);
            continue;
        }
        (void)snprintf(out->since, sizeof out->since, "%s", entry->ended_at);
        reached = reached || strcmp(entry->ended_at, moment) <= 0;
        if (++whole >= rule->copies && reached) return i;
    }
    return -1;
}

/* The first segment that a copy which stays needs. Names sort by the clock: one that ran ahead names a copy after
 * others that begin with later segments. */
static const char *first_segment(const struct base_list *list, int oldest)
{
    const char *first = list->items[oldest].segment;
    for (int i = oldest + 1; i < list->count; i++)
        if (list->items[i].fault[0] == '\0' && strcmp(list->items[i].segment, first) < 0)
            first = list->items[i].segment;
    return first;
}

/* ---- what goes ---- */

static int is_unfinished(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name), end = strlen(BASE_UNFINISHED);
    return length == BASE_NAME - 1 + end && strcmp(entry->d_name + length - end, BASE_UNFINISHED) == 0;
}

/* Renames the copies, so that no recovery begins with one that is partly removed. */
static enum status put_aside(int base, const struct base_list *list, int count, struct error *error)
{
    char aside[BASE_NAME + sizeof BASE_UNFINISHED];
    for (int i = 0; i < count; i++) {
        (void)snprintf(aside, sizeof aside, "%s" BASE_UNFINISHED, list->items[i].name);
        if (renameat(base, list->items[i].name, base, aside) != 0)
            return failed("cannot put aside", list->items[i].name, error);
    }
    return fsync(base) == 0 ? STATUS_OK : failed("cannot sync", "", error);
}

/* No copy is being made meanwhile, because the archive is locked. */
static enum status remove_unfinished(int base, bool remove, int *found, struct error *error)
{
    struct dirent **entries = NULL;
    struct stat left;
    enum status status = STATUS_OK;
    const int count = scandirat(base, ".", &entries, is_unfinished, NULL);
    *found = count > 0 ? count : 0;
    if (count < 0) return failed("cannot list", "", error);
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (remove && status == STATUS_OK) {
            directory_remove(base, name);
            if (fstatat(base, name, &left, AT_SYMLINK_NOFOLLOW) == 0)
                status = error_set(error, STATUS_IO, "cannot remove all of base/%s in the archive: remove it", name);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

/* Copies are removed before the segments that they need. */
static enum status remove_all(const struct archive *archive, int base, const struct base_list *list, bool remove,
                              struct prune_found *out, struct error *error)
{
    int unfinished;
    enum status status = remove_unfinished(base, false, &out->unfinished, error);
    if (status == STATUS_OK && remove) status = put_aside(base, list, out->go, error);
    if (status == STATUS_OK) status = remove_unfinished(base, remove, &unfinished, error);
    if (status == STATUS_OK && out->enough)
        status = archive_segments_before(archive, first_segment(list, out->go), remove, &out->segments, error);
    return status;
}

static enum status check_gap(const struct archive *archive, const char *first, struct error *error)
{
    struct archive_segments segments;
    const enum status status = archive_segments_look(archive, first, &segments, error);
    if (status != STATUS_OK || segments.gap[0] == '\0') return status;
    return error_set(error, STATUS_CORRUPT,
                     "the archive %.200s lacks wal/%s.gz, which restores from the copies that would stay need: nothing "
                     "is removed; put it back, or make a copy that needs it no more (deltaq archive copy)",
                     archive->directory, segments.gap);
}

static enum status prune_locked(const struct archive *archive, const struct prune_rule *rule, time_t now, bool remove,
                                struct prune_found *out, struct error *error)
{
    struct base_list list;
    int base = -1;
    enum status status = base_list_read(archive->directory, &list, error);
    const int oldest = status == STATUS_OK ? find_oldest(archive->directory, &list, rule, now, out) : -1;
    out->enough = oldest >= 0;
    out->go = out->enough ? oldest : 0;
    out->stay = list.count - out->go;
    for (int i = 0; i < out->go; i++) out->bytes += list.items[i].bytes;
    if (status == STATUS_OK && out->enough) status = check_gap(archive, first_segment(&list, oldest), error);
    if (status == STATUS_OK) {
        char path[PATH_MAX];
        status = base_list_path(archive->directory, "", path, error);
        base = status == STATUS_OK ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
        if (status == STATUS_OK && base < 0) status = failed("cannot open", "", error);
    }
    if (status == STATUS_OK) status = remove_all(archive, base, &list, remove, out, error);
    if (base >= 0) (void)close(base);
    base_list_reset(&list);
    return status;
}

enum status prune_run(const char *directory, const struct prune_rule *rule, time_t now, bool remove,
                      struct prune_found *out, struct error *error)
{
    char owner[ARCHIVE_PATH];
    struct archive archive;
    int lock = -1;
    *out = (struct prune_found){.since = ""};
    enum status status = archive_read(directory, owner, &archive, error);
    if (status == STATUS_OK) status = archive_lock(&archive, true, &lock, error);
    if (status == STATUS_OK) status = prune_locked(&archive, rule, now, remove, out, error);
    if (lock >= 0) (void)close(lock);
    archive_close(&archive);
    return status;
}

#include "pool/unused_artifacts.h"

#include "inputs/hash.h"
#include "kinds/artifacts.h"
#include "log/log.h"
#include "store/backup_lock.h"
#include "store/leftovers.h"

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

/* A run records its artifacts only when it ends: younger ones may be those of a run that is under way. */
enum { OLD_SECONDS = 24 * 3600 };

/* An old published file as it was when it was looked at. */
struct judged {
    char name[HASH_TEXT];
    ino_t inode;
    struct timespec modified;
};

struct unused_artifacts {
    DIR *directory; /* owns */
    bool keep;
    struct judged judged[UNUSED_ARTIFACTS_PART]; /* those of the present part */
    size_t count;
};

enum status unused_artifacts_new(const char *data_directory, bool keep, struct unused_artifacts **out,
                                 struct error *error)
{
    char path[PATH_MAX];
    *out = NULL;
    (void)snprintf(path, sizeof path, "%s/artifacts", data_directory);
    DIR *directory = opendir(path);
    if (directory == NULL && errno == ENOENT) return STATUS_OK;
    if (directory == NULL) return error_set_errno(error, "cannot list the artifacts");
    struct unused_artifacts *unused = calloc(1, sizeof *unused);
    if (unused == NULL) {
        (void)closedir(directory);
        return error_no_memory(error, "a list of artifacts");
    }
    unused->directory = directory;
    unused->keep = keep;
    *out = unused;
    return STATUS_OK;
}

void unused_artifacts_free(struct unused_artifacts *unused)
{
    if (unused == NULL) return;
    (void)closedir(unused->directory);
    free(unused);
}

static bool is_hash(const char *name)
{
    return strlen(name) == HASH_TEXT - 1 && name[strspn(name, "0123456789abcdef")] == '\0';
}

/* Removes the file when it is an old temporary one, and notes it when it is an old published one. */
static void judge(struct unused_artifacts *unused, const char *name, int *removed)
{
    struct stat file;
    const int directory = dirfd(unused->directory);
    const bool temporary = strncmp(name, ARTIFACTS_TEMPORARY, strlen(ARTIFACTS_TEMPORARY)) == 0;
    if (!temporary && (unused->keep || !is_hash(name))) return;
    if (fstatat(directory, name, &file, AT_SYMLINK_NOFOLLOW) != 0 || time(NULL) - file.st_mtime < OLD_SECONDS) return;
    if (temporary) {
        *removed += unlinkat(directory, name, 0) == 0;
        return;
    }
    struct judged *judged = &unused->judged[unused->count++];
    *judged = (struct judged){.inode = file.st_ino, .modified = file.st_mtim};
    memcpy(judged->name, name, HASH_TEXT);
}

/* Removes the file that was judged. A run may since have put an object of this name in its place, which no row names
 * before the run ends: so the name is taken away first, and what is not the judged file gets it back. */
static bool remove_judged(int directory, const struct judged *judged)
{
    char aside[HASH_TEXT + 16];
    struct stat taken;
    (void)snprintf(aside, sizeof aside, ARTIFACTS_TEMPORARY "unused-%s", judged->name);
    if (renameat(directory, judged->name, directory, aside) != 0) return false;
    const bool same = fstatat(directory, aside, &taken, AT_SYMLINK_NOFOLLOW) == 0 && taken.st_ino == judged->inode &&
                      taken.st_mtim.tv_sec == judged->modified.tv_sec &&
                      taken.st_mtim.tv_nsec == judged->modified.tv_nsec;
    if (same) return unlinkat(directory, aside, 0) == 0;
    (void)renameat(directory, aside, directory, judged->name);
    return false;
}

static enum status list_names(const struct unused_artifacts *unused, json_t **out, struct error *error)
{
    json_t *names = json_array();
    for (size_t i = 0; i < unused->count; i++)
        if (json_array_append_new(names, json_string(unused->judged[i].name)) != 0) {
            json_decref(names);
            return error_no_memory(error, "a list of artifacts");
        }
    *out = names;
    return STATUS_OK;
}

/* The files were looked at before the database is asked: what a run records later, it has put in place later, too. */
static enum status remove_unrecorded(const struct unused_artifacts *unused, struct connection *connection, int *removed,
                                     struct error *error)
{
    json_t *names = NULL, *places = NULL, *place;
    size_t i;
    enum status status = list_names(unused, &names, error);
    if (status == STATUS_OK) status = leftovers_unrecorded(connection, names, &places, error);
    json_array_foreach(places, i, place)
    {
        const size_t at = (size_t)json_integer_value(place);
        if (at < unused->count) *removed += remove_judged(dirfd(unused->directory), &unused->judged[at]);
    }
    json_decref(places);
    json_decref(names);
    return status;
}

struct removal {
    const struct unused_artifacts *unused;
    enum backup_lock_found found;
    int *removed;
};

/* Removing a thousand files may take a while, in which the session is idle. */
static enum status remove_locked(struct connection *connection, void *context, struct error *error)
{
    struct removal *removal = context;
    enum status status = connection_script(connection, "set local idle_in_transaction_session_timeout = '60s'", error);
    if (status == STATUS_OK) status = backup_lock_try(connection, &removal->found, error);
    if (status != STATUS_OK || removal->found != BACKUP_LOCK_TAKEN) return status;
    return remove_unrecorded(removal->unused, connection, removal->removed, error);
}

/* Published files stay while a backup may still copy them; the round is then over. Those that another clean-up is in
 * the way of are left to the next round. */
static enum status remove_published(const struct unused_artifacts *unused, struct connection *connection, bool *done,
                                    int *removed, struct error *error)
{
    struct removal removal = {.unused = unused, .removed = removed};
    bool unknown; /* does not matter: the transaction changed nothing */
    const enum status status = connection_transaction(connection, remove_locked, &removal, &unknown, error);
    if (status != STATUS_OK || removal.found != BACKUP_LOCK_BACKUP) return status;
    log_info(LOG_COMPONENT_WORKER, "a backup is made: unused artifacts are removed the next time");
    *done = true;
    return status;
}

enum status unused_artifacts_remove(struct unused_artifacts *unused, struct connection *connection, bool *done,
                                    int *removed, struct error *error)
{
    unused->count = 0;
    *done = false;
    for (int seen = 0; seen < UNUSED_ARTIFACTS_PART && !*done; seen++) {
        const struct dirent *entry = readdir(unused->directory);
        *done = entry == NULL;
        if (entry != NULL) judge(unused, entry->d_name, removed);
    }
    return unused->count > 0 ? remove_published(unused, connection, done, removed, error) : STATUS_OK;
}

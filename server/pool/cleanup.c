#include "pool/cleanup.h"

#include "base/directory.h"
#include "inputs/node_files.h"
#include "kinds/resume_store.h"
#include "pool/unused_artifacts.h"
#include "postgres/archive.h"
#include "store/leftovers.h"
#include "store/nodes.h"
#include "store/store.h"
#include "store/workers.h"

#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A work directory whose run is not in the database may belong to a server with another database: it is kept this
 * long. */
enum { UNKNOWN_SECONDS = 24 * 3600 };
/* Twice the time between two clean-ups of one worker. */
enum { OVERDUE_SECONDS = 2 * 3600 };

/* Files that a run may have left in the data directory. */
struct leftover {
    const char *data_directory, *run;
    bool removed;
};

/* What was put aside while the run was locked, and is removed afterwards: removing gigabytes may take longer than the
 * lock may be held. Whatever is there may go, whoever put it there. */
#define ASIDE_PREFIX "gone-"

/* Moves it to ASIDE/AS; what cannot be moved is removed at once. */
static void put_aside(int at, const char *name, const char *aside, const char *as)
{
    char to[PATH_MAX];
    if (snprintf(to, sizeof to, "%s/%s", aside, as) >= (int)sizeof to || renameat(at, name, AT_FDCWD, to) != 0)
        directory_remove(at, name);
}

static bool is_old(int at, const char *path)
{
    struct stat found;
    return fstatat(at, path, &found, 0) == 0 && time(NULL) - found.st_mtime > UNKNOWN_SECONDS;
}

/* Whether it is a file or a checkpoint that is being written: ".deltaq-NUMBER.tmp" (file_writer_open),
 * ".NAME.NUMBER.tmp" (checkpoint_write). */
static bool is_unfinished(const char *name)
{
    const size_t length = strlen(name);
    return name[0] == '.' && length > 4 && strcmp(name + length - 4, ".tmp") == 0;
}

/* Puts aside what is unfinished in $DATA/checkpoints/RUN, and removes the directory if it is then empty. Of a run that
 * is not `known` only what is old. */
static void put_aside_unfinished_checkpoints(const struct leftover *leftover, bool known, const char *aside)
{
    char parent[PATH_MAX];
    (void)snprintf(parent, sizeof parent, "%s/checkpoints/%s", leftover->data_directory, leftover->run);
    DIR *directory = opendir(parent);
    if (directory == NULL) return;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (is_unfinished(entry->d_name) && (known || is_old(dirfd(directory), entry->d_name)))
            put_aside(dirfd(directory), entry->d_name, aside, entry->d_name);
    (void)closedir(directory);
    (void)rmdir(parent);
}

static void aside_path(const struct leftover *leftover, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/tmp/" ASIDE_PREFIX "%s", leftover->data_directory, leftover->run);
}

/* The work directory is last: as long as it is there, the next cleanup finds the run again. */
static enum status cleanup_locked(struct connection *connection, void *context, struct error *error)
{
    struct leftover *leftover = context;
    char work[PATH_MAX], aside[PATH_MAX];
    bool known, ended;
    aside_path(leftover, aside);
    (void)snprintf(work, sizeof work, "%s/tmp/" CLEANUP_WORK_PREFIX "%s", leftover->data_directory, leftover->run);
    const enum status status = leftovers_lock_run(connection, leftover->run, &known, &ended, error);
    if (status != STATUS_OK) return status;
    if (!ended && (known || !is_old(AT_FDCWD, work))) return STATUS_OK;
    (void)mkdir(aside, 0700);
    put_aside_unfinished_checkpoints(leftover, known, aside);
    put_aside(AT_FDCWD, work, aside, "work");
    leftover->removed = true;
    return STATUS_OK;
}

static enum status cleanup_one(struct connection *connection, struct leftover *leftover, struct error *error)
{
    bool unknown; /* does not matter: the transaction changed nothing */
    return connection_transaction(connection, cleanup_locked, leftover, &unknown, error);
}

void cleanup_remove(const char *data_directory, const char *run)
{
    const struct leftover leftover = {.data_directory = data_directory, .run = run};
    char aside[PATH_MAX];
    aside_path(&leftover, aside);
    directory_remove(AT_FDCWD, aside);
}

enum status cleanup_run(struct connection *connection, const char *data_directory, const char *run, bool *ended,
                        struct error *error)
{
    struct leftover leftover = {.data_directory = data_directory, .run = run};
    const enum status status = cleanup_one(connection, &leftover, error);
    *ended = status == STATUS_OK && leftover.removed;
    return status;
}

/* ---- of a run that goes on ---- */

static void remove_unfinished(char *directory)
{
    char *paths[] = {directory, NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL);
    for (FTSENT *entry; tree != NULL && (entry = fts_read(tree)) != NULL;) {
        if (entry->fts_level == FTS_ROOTLEVEL || entry->fts_info == FTS_DP || !is_unfinished(entry->fts_name)) continue;
        directory_remove(AT_FDCWD, entry->fts_path);
        (void)fts_set(tree, entry, FTS_SKIP);
    }
    if (tree != NULL) (void)fts_close(tree);
}

void cleanup_unfinished(const char *data_directory, const char *run)
{
    static const char *const places[] = {"tmp/" CLEANUP_WORK_PREFIX, "checkpoints/"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s/%s%s", data_directory, places[i], run) < (int)sizeof path)
            remove_unfinished(path);
    }
}

/* ---- of all runs ---- */

static enum status cleanup_runs(struct connection *connection, const char *data_directory, int *removed,
                                struct error *error)
{
    char path[PATH_MAX];
    enum status status = STATUS_OK;
    (void)snprintf(path, sizeof path, "%s/tmp", data_directory);
    DIR *directory = opendir(path);
    if (directory == NULL) return STATUS_OK; /* no run was executed here */
    for (const struct dirent *entry; status == STATUS_OK && (entry = readdir(directory)) != NULL;) {
        const size_t prefix = strlen(CLEANUP_WORK_PREFIX);
        if (strncmp(entry->d_name, ASIDE_PREFIX, strlen(ASIDE_PREFIX)) == 0)
            directory_remove(dirfd(directory), entry->d_name); /* of a worker that was killed */
        if (strncmp(entry->d_name, CLEANUP_WORK_PREFIX, prefix) != 0) continue;
        struct leftover leftover = {.data_directory = data_directory, .run = entry->d_name + prefix};
        status = cleanup_one(connection, &leftover, error);
        cleanup_remove(data_directory, leftover.run);
        *removed += leftover.removed;
    }
    (void)closedir(directory);
    return status;
}

static void note_path(const char *data_directory, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/cleaned", data_directory);
}

bool cleanup_overdue(const char *data_directory)
{
    char path[PATH_MAX];
    struct stat found;
    note_path(data_directory, path);
    if (stat(path, &found) == 0) return time(NULL) - found.st_mtime > OVERDUE_SECONDS;
    cleanup_note(data_directory);
    return false;
}

void cleanup_note(const char *data_directory)
{
    char path[PATH_MAX];
    note_path(data_directory, path);
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return; /* then workers that live long enough clean up, as every hour */
    (void)futimens(file, NULL);
    (void)close(file);
}

enum status cleanup_all(struct connection *connection, const char *node, const char *data_directory, int *removed,
                        struct error *error)
{
    enum status status = cleanup_runs(connection, data_directory, removed, error);
    if (status == STATUS_OK) status = node_files_check(connection, node, data_directory, error);
    if (status == STATUS_OK) status = nodes_prune(connection, error);
    if (status == STATUS_OK) status = workers_prune(connection, error);
    return status;
}

enum status cleanup_artifacts(const char *data_directory, struct unused_artifacts **out, struct error *error)
{
    char archive[ARCHIVE_PATH];
    /* When the owner cannot be determined, because the private database is another user's, the files are kept. */
    struct error untold;
    const bool keep = archive_recorded(data_directory, archive, &untold) != STATUS_OK || archive[0] != '\0';
    return unused_artifacts_new(data_directory, keep, out, error);
}

/* ---- in the bucket ---- */

struct asked_run {
    const char *run;
    bool known, ended;
};

static enum status ask_locked(struct connection *connection, void *context, struct error *error)
{
    struct asked_run *asked = context;
    return leftovers_lock_run(connection, asked->run, &asked->known, &asked->ended, error);
}

/* A run that is retried after this check begins without saved state, because all of it was listed before. */
static enum status has_ended(void *owner, const char *run, double age, bool *yes, struct error *error)
{
    struct asked_run asked = {.run = run};
    bool unknown; /* does not matter: the transaction changed nothing */
    const enum status status = connection_transaction(owner, ask_locked, &asked, &unknown, error);
    *yes = asked.known ? asked.ended : age > UNKNOWN_SECONDS;
    return status;
}

enum status cleanup_bucket(struct connection *connection, const struct artifact_store *store, int *removed,
                           struct error *error)
{
    return resume_store_clean(store, has_ended, connection, removed, error);
}

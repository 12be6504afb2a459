#include "pool/sweep.h"

#include "kinds/artifacts.h"
#include "store/leftovers.h"
#include "store/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A work directory whose run is not in the database may belong to a server with another one. It gets this long. */
enum { UNKNOWN_SECONDS = 24 * 3600, DESCRIPTORS = 16 };

struct broom {
    const char *data_directory, *run;
    bool swept;
};

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)where;
    (void)(type == FTW_DP ? rmdir(path) : unlink(path));
    return 0;
}

static void remove_tree(const char *path)
{
    (void)nftw(path, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}

/* $DATA/checkpoints/RUN/.NAME.tmp: what checkpoint_write had not finished. The directory goes too when nothing else is
 * in it. */
static void remove_unfinished_checkpoints(const struct broom *broom)
{
    char parent[PATH_MAX], path[2 * PATH_MAX];
    (void)snprintf(parent, sizeof parent, "%s/checkpoints/%s", broom->data_directory, broom->run);
    DIR *directory = opendir(parent);
    if (directory == NULL) return;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        const size_t length = strlen(entry->d_name);
        if (entry->d_name[0] != '.' || length < 5 || strcmp(entry->d_name + length - 4, ".tmp") != 0) continue;
        (void)snprintf(path, sizeof path, "%s/%s", parent, entry->d_name);
        remove_tree(path);
    }
    (void)closedir(directory);
    (void)rmdir(parent);
}

static bool is_old(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && time(NULL) - found.st_mtime > UNKNOWN_SECONDS;
}

/* The work directory goes last: as long as it is there, the next sweep comes by again. */
static enum status sweep_locked(struct connection *connection, void *context, struct error *error)
{
    struct broom *broom = context;
    char work[PATH_MAX];
    bool known, ended;
    (void)snprintf(work, sizeof work, "%s/tmp/" SWEEP_WORK_PREFIX "%s", broom->data_directory, broom->run);
    const enum status status = leftovers_lock_run(connection, broom->run, &known, &ended, error);
    if (status != STATUS_OK) return status;
    if (!ended && (known || !is_old(work))) return STATUS_OK;
    if (known) remove_unfinished_checkpoints(broom);
    remove_tree(work);
    broom->swept = true;
    return STATUS_OK;
}

static enum status sweep_one(struct connection *connection, struct broom *broom, struct error *error)
{
    bool unknown; /* whether the end of a transaction that changed nothing was heard of does not matter */
    return connection_transaction(connection, sweep_locked, broom, &unknown, error);
}

enum status sweep_run(struct connection *connection, const char *data_directory, const char *run, struct error *error)
{
    struct broom broom = {.data_directory = data_directory, .run = run};
    return sweep_one(connection, &broom, error);
}

static enum status sweep_runs(struct connection *connection, const char *data_directory, int *removed,
                              struct error *error)
{
    char path[PATH_MAX];
    enum status status = STATUS_OK;
    (void)snprintf(path, sizeof path, "%s/tmp", data_directory);
    DIR *directory = opendir(path);
    if (directory == NULL) return STATUS_OK; /* no run has been here */
    for (const struct dirent *entry; status == STATUS_OK && (entry = readdir(directory)) != NULL;) {
        const size_t prefix = strlen(SWEEP_WORK_PREFIX);
        if (strncmp(entry->d_name, SWEEP_WORK_PREFIX, prefix) != 0) continue;
        struct broom broom = {.data_directory = data_directory, .run = entry->d_name + prefix};
        status = sweep_one(connection, &broom, error);
        *removed += broom.swept;
    }
    (void)closedir(directory);
    return status;
}

enum status sweep_all(struct connection *connection, const char *data_directory, int *removed, struct error *error)
{
    int artifacts = 0;
    *removed = 0;
    const enum status status = sweep_runs(connection, data_directory, removed, error);
    if (status != STATUS_OK) return status;
    const enum status swept = artifacts_sweep(connection, data_directory, &artifacts, error);
    *removed += artifacts;
    return swept;
}

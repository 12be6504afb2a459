#include "backup/backup.h"
#include "backup/base.h"
#include "cli/command.h"
#include "cli/place.h"
#include "kinds/artifact_file.h"
#include "postgres/archive.h"
#include "store/migrations.h"

#include <signal.h>
#include <sys/stat.h>

static const struct option_row backup_options[] = {PLACE_DATA_DIR, PLACE_DATABASE_URL, PLACE_STORE, {0}};

/* With --database-url the database is not in the data directory, but its files are. */
static enum status find_data_directory(const struct options *options, struct place_database *database,
                                       struct error *error)
{
    bool there = true;
    if (options_text(options, "--database-url") != NULL)
        return place_data_directory(options, database->data_directory, error);
    const enum status status = place_has_database(options, &there, error);
    if (status != STATUS_OK || there) return status;
    return error_set(error, STATUS_NOT_FOUND, "the data directory has no database: there is nothing to back up");
}

/* Makes a newer base copy in the archive, if there is one, so that a recovery replays less. */
static enum status back_up_archive(struct place_database *database, const char *backup, struct error *error)
{
    char archive[ARCHIVE_PATH];
    if (database->data_directory[0] == '\0') return STATUS_OK; /* the database is another server's */
    enum status status = archive_recorded(database->data_directory, archive, error);
    if (status != STATUS_OK || archive[0] == '\0') return status;
    status = base_make(database->connection, database->conninfo, archive, database->data_directory, error);
    if (status == STATUS_OK) return STATUS_OK;
    const struct error cause = *error;
    return error_set(error, status, "%.400s; the backup %.48s itself is whole", cause.detail, backup);
}

static enum status back_up(const struct options *options, const struct artifact_store *store,
                           struct place_database *database, struct error *error)
{
    char data_directory[PLACE_PATH];
    enum status status = find_data_directory(options, database, error);
    (void)snprintf(data_directory, sizeof data_directory, "%s", database->data_directory);
    if (status == STATUS_OK) status = place_database_open(options, database, error);
    if (status != STATUS_OK) return status;
    if (data_directory[0] == '\0')
        (void)snprintf(data_directory, sizeof data_directory, "%s", database->data_directory);
    if ((status = migrations_check(database->connection, error)) != STATUS_OK) return status;
    const struct artifact_place place = {.data_directory = data_directory, .store = store};
    status = backup_make(database->connection, database->conninfo, &place, options->positional, true, error);
    return status == STATUS_OK ? back_up_archive(database, options->positional, error) : status;
}

static int backup_run(const struct options *options)
{
    struct place_database database = {0};
    struct place_store store;
    struct error error;
    if (options->positional == NULL) {
        (void)fputs("deltaq backup: expected a directory: deltaq backup DIR\n", stderr);
        return 2;
    }
    (void)umask(077);
    (void)signal(SIGXFSZ, SIG_IGN);
    enum status status = place_store_open(options, &store, &error);
    if (status == STATUS_OK) status = back_up(options, store.artifacts, &database, &error);
    place_database_close(&database);
    place_store_close(&store);
    if (status != STATUS_OK) return place_fail("backup", &error);
    return printf("backed up into %s\n", options->positional) < 0;
}

const struct command command_backup = {
    .name = "backup",
    .usage = "DIR",
    .help = "Copy database, artifacts and written checkpoints, while runs go on",
    .options = backup_options,
    .run = backup_run,
    .words = 1,
    .notes =
        "DIR must be missing or empty. It is whole when it has a manifest.json, which is written last. Artifacts that\n"
        "lie in a bucket alone, because workers elsewhere made them, need --artifacts as `serve` has it. Where the\n"
        "server has an --archive the database is copied into that, too.\n"};

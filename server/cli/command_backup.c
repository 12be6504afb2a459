#include "backup/backup.h"
#include "cli/command.h"
#include "cli/place.h"
#include "store/migrations.h"

#include <signal.h>
#include <sys/stat.h>

static const struct option_row backup_options[] = {PLACE_DATA_DIR, PLACE_DATABASE_URL, {0}};

/* Somebody else's database has its files in our data directory all the same. */
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

static enum status back_up(const struct options *options, struct place_database *database, struct error *error)
{
    char data_directory[PLACE_PATH];
    enum status status = find_data_directory(options, database, error);
    (void)snprintf(data_directory, sizeof data_directory, "%s", database->data_directory);
    if (status == STATUS_OK) status = place_database_open(options, database, error);
    if (status != STATUS_OK) return status;
    if (data_directory[0] == '\0')
        (void)snprintf(data_directory, sizeof data_directory, "%s", database->data_directory);
    if ((status = migrations_check(database->connection, error)) != STATUS_OK) return status;
    return backup_make(database->connection, database->conninfo, data_directory, options->positional, true, error);
}

static int backup_run(const struct options *options)
{
    struct place_database database = {0};
    struct error error;
    if (options->positional == NULL) {
        (void)fputs("deltaq backup: expected a directory: deltaq backup DIR\n", stderr);
        return 2;
    }
    (void)umask(077);
    (void)signal(SIGXFSZ, SIG_IGN);
    const enum status status = back_up(options, &database, &error);
    place_database_close(&database);
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
    .notes = "DIR must be missing or empty. It is whole when it has a manifest.json, which is written last.\n"};

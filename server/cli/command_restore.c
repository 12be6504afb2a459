#include "backup/restore.h"
#include "cli/command.h"
#include "cli/place.h"
#include "postgres/embedded.h"
#include "store/migrations.h"

#include <signal.h>
#include <sys/stat.h>

static const struct option_row restore_options[] = {PLACE_DATA_DIR, PLACE_DATABASE_URL, {0}};

/* Where the backup goes. */
struct target {
    char data_directory[PLACE_PATH];
    const char *conninfo; /* lent */
    struct embedded *embedded;
    struct connection *connection;
};

/* The private cluster is made after the files are there: until then the directory holds no database. */
static enum status start_embedded(struct target *target, struct error *error)
{
    const enum status status = place_embedded_start(target->data_directory, &target->embedded, error);
    if (status != STATUS_OK) return status;
    target->conninfo = embedded_conninfo(target->embedded);
    return connection_new(target->conninfo, "deltaq restore", &target->connection, error);
}

/* A given database is asked whether it may be filled before anything is written. */
static enum status restore(const struct options *options, struct target *target, struct error *error)
{
    const char *from = options->positional, *data_directory = target->data_directory;
    json_t *manifest = NULL;
    enum status status = place_data_directory(options, target->data_directory, error);
    target->conninfo = options_text(options, "--database-url");
    if (status == STATUS_OK && target->conninfo != NULL)
        status = connection_new(target->conninfo, "deltaq restore", &target->connection, error);
    if (status == STATUS_OK)
        status = restore_check(from, data_directory, migrations_latest(), target->connection, &manifest, error);
    if (status == STATUS_OK) status = restore_files(from, data_directory, manifest, error);
    if (status == STATUS_OK && target->conninfo == NULL) status = start_embedded(target, error);
    if (status == STATUS_OK)
        status = restore_database(target->connection, target->conninfo, from, data_directory, manifest, error);
    json_decref(manifest);
    return status;
}

/* The data directory is no longer marked when all is durable: the private cluster has stopped. */
static enum status restore_all(const struct options *options, struct error *error)
{
    struct target target = {.conninfo = NULL};
    const enum status status = restore(options, &target, error);
    connection_free(target.connection);
    embedded_stop(target.embedded);
    return status == STATUS_OK ? restore_finish(target.data_directory, error) : status;
}

static int restore_run(const struct options *options)
{
    struct error error;
    if (options->positional == NULL) {
        (void)fputs("deltaq restore: expected a directory: deltaq restore DIR --data-dir NEW\n", stderr);
        return 2;
    }
    (void)umask(077);
    (void)signal(SIGXFSZ, SIG_IGN);
    if (restore_all(options, &error) != STATUS_OK) return place_fail("restore", &error);
    return printf("restored %s\n", options->positional) < 0;
}

const struct command command_restore = {
    .name = "restore",
    .usage = "DIR",
    .help = "Put a backup into an empty data directory",
    .options = restore_options,
    .run = restore_run,
    .words = 1,
    .notes =
        "A dump is run as SQL by the database's owner: restore only backups that you trust. A backup made before a\n"
        "migration has the database alone: move the directory pg away and restore into the same data directory.\n"};

#include "backup/restore.h"
#include "cli/command.h"
#include "cli/place.h"
#include "postgres/embedded.h"
#include "store/migrations.h"

#include <signal.h>
#include <sys/stat.h>

static const struct option_row restore_options[] = {PLACE_DATA_DIR, PLACE_DATABASE_URL, {0}};

/* The private cluster is made after the files are there: until then the directory holds no database. */
static enum status fill_database(const struct options *options, const char *data_directory, const json_t *manifest,
                                 struct error *error)
{
    struct embedded *embedded = NULL;
    struct connection *connection = NULL;
    const char *conninfo = options_text(options, "--database-url");
    enum status status = STATUS_OK;
    if (conninfo == NULL && (status = place_embedded_start(data_directory, &embedded, error)) == STATUS_OK)
        conninfo = embedded_conninfo(embedded);
    if (status == STATUS_OK) status = connection_new(conninfo, "deltaq restore", &connection, error);
    if (status == STATUS_OK)
        status = restore_database(connection, conninfo, options->positional, data_directory, manifest, error);
    connection_free(connection);
    embedded_stop(embedded);
    return status;
}

static enum status restore(const struct options *options, struct error *error)
{
    char data_directory[PLACE_PATH];
    json_t *manifest = NULL;
    enum status status = place_data_directory(options, data_directory, error);
    if (status == STATUS_OK)
        status = restore_check(options->positional, data_directory, migrations_latest(), &manifest, error);
    if (status == STATUS_OK) status = restore_files(options->positional, data_directory, manifest, error);
    if (status == STATUS_OK) status = fill_database(options, data_directory, manifest, error);
    if (status == STATUS_OK) status = restore_finish(data_directory, error);
    json_decref(manifest);
    return status;
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
    if (restore(options, &error) != STATUS_OK) return place_fail("restore", &error);
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

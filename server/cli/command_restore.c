#include "backup/recover.h"
#include "backup/restore.h"
#include "cli/command.h"
#include "cli/place.h"
#include "kinds/artifact_file.h"
#include "postgres/embedded.h"
#include "postgres/recovery.h"
#include "store/changes.h"
#include "store/migrations.h"

#include <signal.h>
#include <sys/stat.h>

static const struct option_row restore_options[] = {
    PLACE_DATA_DIR,
    PLACE_DATABASE_URL,
    PLACE_STORE,
    {"--archive", "DIR", NULL, NULL, OPTION_ONCE,
     "What `deltaq serve --archive DIR` has written, in place of a backup"},
    {"--until", "TIME", NULL, NULL, OPTION_ONCE, "The database as of then (2026-11-23T15:04:05Z), of an archive"},
    {0}};

/* The destination of the backup. */
struct target {
    char data_directory[PLACE_PATH];
    struct place_store store;
    const char *conninfo; /* lent */
    struct embedded *embedded;
    struct connection *connection;
};

/* The private cluster is made after the files are in place, so that the directory has no database until then. */
static enum status start_embedded(struct target *target, struct error *error)
{
    const enum status status = place_embedded_start(target->data_directory, &target->embedded, error);
    if (status != STATUS_OK) return status;
    target->conninfo = embedded_conninfo(target->embedded);
    return connection_new(target->conninfo, "deltaq restore", &target->connection, error);
}

/* A given database is checked before anything is written. */
static enum status restore(const struct options *options, struct target *target, struct error *error)
{
    const char *from = options->positional, *data_directory = target->data_directory;
    json_t *manifest = NULL;
    enum status status = place_store_open(options, &target->store, error);
    const struct artifact_place place = {.data_directory = data_directory, .store = target->store.artifacts};
    if (status == STATUS_OK) status = place_data_directory(options, target->data_directory, error);
    target->conninfo = options_text(options, "--database-url");
    if (status == STATUS_OK && target->conninfo != NULL)
        status = connection_new(target->conninfo, "deltaq restore", &target->connection, error);
    if (status == STATUS_OK)
        status = restore_check(from, &place, migrations_latest(), target->connection, &manifest, error);
    if (status == STATUS_OK) status = restore_files(from, &place, manifest, error);
    if (status == STATUS_OK && target->conninfo == NULL) status = start_embedded(target, error);
    if (status == STATUS_OK)
        status = restore_database(target->connection, target->conninfo, from, data_directory, manifest, error);
    json_decref(manifest);
    return status;
}

static enum status start_recovered(struct target *target, const struct recover *recover, const char *archive,
                                   struct error *error)
{
    const struct recovery how = {.archive = archive,
                                 .base = recover->base,
                                 .until = recover->until[0] != '\0' ? recover->until : NULL,
                                 .last = recover->segments.last};
    const struct embedded_options options = {
        .data_directory = target->data_directory, .ballast_bytes = -1, .recovery = &how};
    const enum status status = place_embedded_start_as(&options, &target->embedded, error);
    if (status != STATUS_OK) return recover_explain(recover, archive, error);
    return connection_new(embedded_conninfo(target->embedded), "deltaq restore", &target->connection, error);
}

/* Restores from an archive. The new data directory may have the path of the lost one. */
static enum status recover(const struct options *options, struct target *target, struct error *error)
{
    struct recover how = {.lock = -1};
    const char *archive = options_text(options, "--archive"), *until = options_text(options, "--until"),
               *data_directory = target->data_directory;
    enum status status = place_store_open(options, &target->store, error);
    const struct artifact_place place = {.data_directory = data_directory, .store = target->store.artifacts};
    if (status == STATUS_OK) status = place_data_directory(options, target->data_directory, error);
    if (status == STATUS_OK) status = recover_check(archive, until, data_directory, migrations_latest(), &how, error);
    if (status == STATUS_OK) status = restore_begin(data_directory, error);
    if (status == STATUS_OK) status = start_recovered(target, &how, archive, error);
    if (status == STATUS_OK) status = recover_files(target->connection, &how, options->positional, &place, error);
    recover_reset(&how);
    return status;
}

static enum status check(const struct options *options, struct error *error)
{
    const bool archive = options_text(options, "--archive") != NULL;
    if (!archive && options_text(options, "--until") != NULL)
        return error_set(error, STATUS_INVALID, "--until is of an archive: give --archive, too");
    if (archive && options_text(options, "--database-url") != NULL)
        return error_set(error, STATUS_INVALID, "--archive restores a private database: leave --database-url away");
    return STATUS_OK;
}

/* The mark in the data directory is removed when everything is durable, after the private cluster has stopped. */
static enum status restore_all(const struct options *options, struct error *error)
{
    struct target target = {.conninfo = NULL};
    enum status status = check(options, error);
    if (status == STATUS_OK && options_text(options, "--archive") != NULL)
        status = recover(options, &target, error);
    else if (status == STATUS_OK)
        status = restore(options, &target, error);
    if (status == STATUS_OK) status = changes_leave_lost(target.connection, error);
    connection_free(target.connection);
    embedded_stop(target.embedded);
    place_store_close(&target.store);
    return status == STATUS_OK ? restore_finish(target.data_directory, error) : status;
}

static int restore_run(const struct options *options)
{
    struct error error;
    const char *archive = options_text(options, "--archive");
    if (options->positional == NULL && archive == NULL) {
        (void)fputs("deltaq restore: expected a directory: deltaq restore DIR --data-dir NEW\n", stderr);
        return 2;
    }
    (void)umask(077);
    (void)signal(SIGXFSZ, SIG_IGN);
    if (restore_all(options, &error) != STATUS_OK) return place_fail("restore", &error);
    return printf("restored %s\n", archive != NULL ? archive : options->positional) < 0;
}

const struct command command_restore = {
    .name = "restore",
    .usage = "[DIR]",
    .help = "Put a backup, or an archive as of a moment, into an empty data directory",
    .options = restore_options,
    .run = restore_run,
    .words = 1,
    .notes =
        "A dump is run as SQL by the database's owner: restore only backups that you trust. A backup made before a\n"
        "migration has the database alone: move the directory pg away and restore into the same data directory. With\n"
        "--artifacts the artifacts go into that bucket in place of the data directory, and each is read back.\n"
        "With --archive the database comes from there, and files from the data directory that it is of; DIR, if\n"
        "given, is where else they may lie: a backup, or that data directory where it was moved to.\n"};

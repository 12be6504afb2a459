#include "cli/migrate.h"

#include "backup/backup.h"
#include "store/migrations.h"
#include "store/roles.h"

static enum status back_up(struct connection *connection, const char *conninfo, const char *data_directory,
                           struct error *error)
{
    int number;
    enum status status = migrations_number(connection, &number, error);
    if (status != STATUS_OK || number == 0 || number >= migrations_latest()) return status;
    status = backup_before_migration(connection, conninfo, data_directory, number, error);
    if (status == STATUS_OK) return STATUS_OK;
    const struct error cause = *error;
    return error_set(error, status,
                     "no backup of the database before its schema changes (--no-backup leaves it out): %.300s",
                     cause.detail);
}

enum status migrate_schema(const struct options *options, struct connection *connection, const char *conninfo,
                           const char *data_directory, int *applied, struct error *error)
{
    enum status status = STATUS_OK;
    int steps = 0;
    if (data_directory != NULL && options_text(options, "--no-backup") == NULL)
        status = back_up(connection, conninfo, data_directory, error);
    if (status == STATUS_OK) status = migrations_apply(connection, &steps, error);
    if (applied != NULL) *applied = steps;
    return status == STATUS_OK && steps > 0 ? roles_renew(connection, error) : status;
}

enum status migrate_database(const struct options *options, struct place_database *database, int *applied,
                             struct error *error)
{
    return migrate_schema(options, database->connection, database->conninfo,
                          database->data_directory[0] != '\0' ? database->data_directory : NULL, applied, error);
}

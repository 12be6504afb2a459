#include "cli/command.h"
#include "cli/migrate.h"
#include "cli/place.h"
#include "store/migrations.h"
#include "store/roles.h"

static const struct option_row migrate_options[] = {
    PLACE_DATA_DIR,
    PLACE_DATABASE_URL,
    MIGRATE_NO_BACKUP,
    {"--roles", NULL, NULL, NULL, OPTION_ONCE,
     "Make the roles deltaq_server, deltaq_worker and deltaq_reader with the rights that each needs"},
    {0},
};

static int migrate_run(const struct options *options)
{
    struct place_database database = {0};
    struct error error;
    int applied = 0;
    enum status status = place_database_open(options, &database, &error);
    if (status == STATUS_OK) status = migrate_database(options, &database, &applied, &error);
    const bool roles = options_given(options, "--roles");
    if (status == STATUS_OK)
        status = roles ? roles_make(database.connection, &error) : roles_renew(database.connection, &error);
    place_database_close(&database);
    if (status != STATUS_OK) return place_fail("migrate", &error);
    if (roles && puts("roles deltaq_server, deltaq_worker, deltaq_reader") < 0) return 1;
    return printf("schema %d, %d step%s applied\n", migrations_latest(), applied, applied == 1 ? "" : "s") < 0;
}

const struct command command_migrate = {.name = "migrate",
                                        .usage = "",
                                        .help = "Bring the database's schema up to this binary's",
                                        .options = migrate_options,
                                        .run = migrate_run};

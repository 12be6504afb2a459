#include "cli/command.h"
#include "cli/place.h"
#include "store/migrations.h"
#include "store/tokens.h"

#include <string.h>

static const struct option_row token_options[] = {
    {"--scope", "SCOPE", NULL, NULL, false, "read, write or admin; each includes the ones before"},
    {"--name", "NAME", NULL, NULL, false, "What it is called in lists and logs"},
    PLACE_DATA_DIR,
    PLACE_DATABASE_URL,
    {0},
};

static int token_run(const struct options *options)
{
    struct place_database database = {0};
    struct error error;
    enum token_scope scope;
    char text[64] = "";
    const char *given = options_text(options, "--scope");
    enum status status = STATUS_OK;
    if (options->positional == NULL || strcmp(options->positional, "create") != 0 || given == NULL) {
        (void)fputs("deltaq token: expected `deltaq token create --scope read|write|admin`\n", stderr);
        return 2;
    }
    status = token_scope_parse(given, &scope, &error);
    if (status == STATUS_OK) status = place_database_open(options, &database, &error);
    if (status == STATUS_OK) status = migrations_apply(database.connection, NULL, &error);
    if (status == STATUS_OK)
        status = token_create(database.connection, scope, options_text(options, "--name"), text, &error);
    place_database_close(&database);
    if (status != STATUS_OK) return place_fail("token", &error);
    return puts(text) < 0;
}

const struct command command_token = {"token", "create", "Make an access token; it is shown once", token_options,
                                      token_run};

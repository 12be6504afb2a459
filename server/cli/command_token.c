#include "cli/command.h"
#include "cli/migrate.h"
#include "cli/place.h"
#include "store/migrations.h"
#include "store/tokens.h"

#include <string.h>

static const struct option_row token_options[] = {
    {"--scope", "SCOPE", NULL, NULL, OPTION_ONCE, "create: read, write or admin; each includes the ones before"},
    {"--name", "NAME", NULL, NULL, OPTION_ONCE, "create: what it is called in lists and logs; revoke: its name or id"},
    {"--days", "N", NULL, "0", OPTION_ONCE, "create: how long it is valid; 0: until it is revoked"},
    PLACE_DATA_DIR,
    PLACE_DATABASE_URL,
    {0},
};

static enum status create(struct connection *connection, const struct options *options, struct error *error)
{
    enum token_scope scope;
    char text[TOKEN_TEXT] = "";
    json_t *document = NULL;
    int64_t days;
    enum status status = token_scope_parse(options_text(options, "--scope"), &scope, error);
    if (status == STATUS_OK) status = options_integer(options, "--days", 0, TOKEN_DAYS_MOST, &days, error);
    if (status == STATUS_OK)
        status = token_create(connection, scope, options_text(options, "--name"), days, text, &document, error);
    json_decref(document);
    if (status == STATUS_OK) (void)puts(text);
    return status;
}

static const char *text_of(const json_t *item, const char *key)
{
    const char *text = json_string_value(json_object_get(item, key));
    return text != NULL ? text : "-";
}

static void print_items(const json_t *items, const char *const *columns, size_t count)
{
    const json_t *item;
    size_t index;
    json_array_foreach(items, index, item)
    {
        for (size_t i = 0; i < count; i++) (void)printf("%s%s", i > 0 ? "\t" : "", text_of(item, columns[i]));
        (void)puts("");
    }
}

static enum status list(struct connection *connection, const struct options *options, struct error *error)
{
    static const char *const columns[] = {"id",         "name",       "scope",       "created_at",
                                          "expires_at", "revoked_at", "last_used_at"};
    enum { COLUMNS = sizeof columns / sizeof columns[0] };
    char cursor[32] = "";
    enum status status = STATUS_OK;
    (void)options;
    for (size_t i = 0; i < COLUMNS; i++) (void)printf("%s%s", i > 0 ? "\t" : "", columns[i]);
    (void)puts("");
    do {
        const struct page page = {.cursor = cursor[0] != '\0' ? cursor : NULL};
        json_t *document = NULL;
        status = token_list(connection, NULL, &page, &document, error);
        print_items(json_object_get(document, "items"), columns, COLUMNS);
        const char *next = json_string_value(json_object_get(document, "next"));
        (void)snprintf(cursor, sizeof cursor, "%s", next != NULL ? next : "");
        json_decref(document);
    } while (status == STATUS_OK && cursor[0] != '\0');
    return status;
}

static enum status revoke(struct connection *connection, const struct options *options, struct error *error)
{
    return token_revoke(connection, options_text(options, "--name"), "", error);
}

/* Makes the database if it does not exist, because the first token may be made before the first server starts. An older
 * schema is left as it is, because workers of that schema may be running. */
static enum status open_or_make(const struct options *options, struct place_database *database, struct error *error)
{
    int number;
    enum status status = place_database_open(options, database, error);
    if (status == STATUS_OK) status = migrations_number(database->connection, &number, error);
    return status == STATUS_OK && number == 0 ? migrate_database(options, database, NULL, error) : status;
}

static const struct action {
    const char *word, *needs; /* needs: the option that the action requires, or NULL */
    enum status (*open)(const struct options *options, struct place_database *database, struct error *error);
    enum status (*run)(struct connection *connection, const struct options *options, struct error *error);
} actions[] = {{"create", "--scope", open_or_make, create},
               {"list", NULL, place_database_look, list},
               {"revoke", "--name", place_database_look, revoke}};

static const struct action *find_action(const struct options *options)
{
    for (size_t i = 0; options->positional != NULL && i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].word, options->positional) == 0 &&
            (actions[i].needs == NULL || options_text(options, actions[i].needs) != NULL))
            return &actions[i];
    return NULL;
}

static int token_run(const struct options *options)
{
    struct place_database database = {0};
    struct error error;
    const struct action *action = find_action(options);
    if (action == NULL) {
        (void)fputs("deltaq token: expected `deltaq token create --scope read|write|admin`, `deltaq token list` or"
                    " `deltaq token revoke --name NAME`\n",
                    stderr);
        return 2;
    }
    const char *scope = options_text(options, "--scope");
    enum token_scope ignored;
    enum status status = scope != NULL ? token_scope_parse(scope, &ignored, &error) : STATUS_OK;
    if (status == STATUS_OK) status = action->open(options, &database, &error);
    if (status == STATUS_OK) status = migrations_check(database.connection, &error);
    if (status == STATUS_OK) status = action->run(database.connection, options, &error);
    place_database_close(&database);
    return status == STATUS_OK ? 0 : place_fail("token", &error);
}

const struct command command_token = {.name = "token",
                                      .usage = "create|list|revoke",
                                      .help = "Make, list and revoke access tokens",
                                      .options = token_options,
                                      .run = token_run,
                                      .words = 1};

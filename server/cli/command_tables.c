#include "cli/command.h"
#include "resources/routes.h"

#include <stdlib.h>

static const struct option_row no_options[] = {{0}};

static int routes_run(const struct options *options)
{
    size_t count;
    const struct route *routes = routes_all(&count);
    (void)options;
    for (size_t i = 0; i < count; i++) {
        if (printf("%s %s", routes[i].method, routes[i].pattern) < 0) return 1;
        for (const char *const *name = routes[i].query; *name != NULL; name++)
            if (printf(" %s", *name) < 0) return 1;
        if (puts("") < 0) return 1;
    }
    return 0;
}

static int schema_run(const struct options *options)
{
    json_t *document;
    struct error error;
    (void)options;
    if (routes_schemas(&document, &error) != STATUS_OK) {
        (void)fprintf(stderr, "%s\n", error.detail);
        return 1;
    }
    const int wrong = json_dumpf(document, stdout, JSON_INDENT(2)) != 0 || puts("") < 0;
    json_decref(document);
    return wrong;
}

const struct command command_tables_routes = {.name = "routes", .usage = "", .options = no_options, .run = routes_run};
const struct command command_tables_schema = {.name = "schema", .usage = "", .options = no_options, .run = schema_run};

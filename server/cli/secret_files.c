#include "cli/secret_files.h"

#include "postgres/conninfo.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By a variable's value, or else at that place in the home directory. */
static const struct {
    const char *variable, *at_home;
} known[] = {
    {"AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"},
    {"AWS_CONFIG_FILE", ".aws/config"},
    {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", NULL},
    {"PGPASSFILE", ".pgpass"},
    {"PGSERVICEFILE", ".pg_service.conf"},
    {"PGSSLKEY", ".postgresql/postgresql.key"},
    {"HF_TOKEN_PATH", ".cache/huggingface/token"},
    {"DELTAQ_CLIENT_FILE", ".config/deltaq/client.json"},
};
enum { KNOWN = sizeof known / sizeof known[0] };
/* Named by --database-url, in place of those above. */
static const char *const of_database[] = {"passfile", "sslkey"};
enum { OF_DATABASE = sizeof of_database / sizeof of_database[0] };
static_assert(KNOWN + OF_DATABASE + 1 <= SECRET_FILES_MOST, "the list has room for all");

static bool find(size_t i, char out[PATH_MAX])
{
    const char *named = getenv(known[i].variable), *home = getenv("HOME");
    if (named != NULL && named[0] != '\0') return snprintf(out, PATH_MAX, "%s", named) < PATH_MAX;
    if (known[i].at_home == NULL || home == NULL || home[0] != '/') return false;
    return snprintf(out, PATH_MAX, "%s/%s", home, known[i].at_home) < PATH_MAX;
}

enum status secret_files_list(const struct options *options, char *paths[SECRET_FILES_MOST + 1], struct error *error)
{
    size_t count = 0;
    char path[PATH_MAX];
    const char *key = options_text(options, "--tls-key"), *database = options_text(options, "--database-url");
    bool good = true;
    for (size_t i = 0; i <= SECRET_FILES_MOST; i++) paths[i] = NULL;
    if (key != NULL) good = (paths[count++] = strdup(key)) != NULL;
    for (size_t i = 0; i < KNOWN && good; i++)
        if (find(i, path)) good = (paths[count++] = strdup(path)) != NULL;
    for (size_t i = 0; i < OF_DATABASE && good && database != NULL; i++)
        if (conninfo_find(database, of_database[i], path, sizeof path)) good = (paths[count++] = strdup(path)) != NULL;
    if (good) return STATUS_OK;
    for (size_t i = 0; i < count; i++) free(paths[i]);
    paths[0] = NULL;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the names of files");
}

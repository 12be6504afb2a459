#include "cli/secret_files.h"

#include "inputs/roots.h"
#include "postgres/conninfo.h"

#include <assert.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files, and directories with all that is in them: what a variable names, with `below` behind it, and that place in the
 * home directory, which programs without the variable read. */
static const struct {
    const char *variable, *below, *at_home;
} known[] = {
    /* read by the server and what it starts */
    {"AWS_SHARED_CREDENTIALS_FILE", NULL, ".aws"},
    {"AWS_CONFIG_FILE", NULL, NULL},
    {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", NULL, NULL},
    {"AWS_WEB_IDENTITY_TOKEN_FILE", NULL, NULL},
    {"PGPASSFILE", NULL, ".pgpass"},
    {"PGSERVICEFILE", NULL, ".pg_service.conf"},
    {"PGSSLKEY", NULL, ".postgresql"},
    {"HF_TOKEN_PATH", NULL, ".cache/huggingface/token"},
    {"HF_STORED_TOKENS_PATH", NULL, ".cache/huggingface/stored_tokens"},
    {"HF_HOME", "/token", ".huggingface"},
    {"HF_HOME", "/stored_tokens", NULL},
    {"XDG_CACHE_HOME", "/huggingface/token", NULL},
    {"XDG_CACHE_HOME", "/huggingface/stored_tokens", NULL},
    {"DELTAQ_CLIENT_FILE", NULL, NULL},
    {"XDG_CONFIG_HOME", "/deltaq", ".config/deltaq"},
    /* of its user, who may have started it at home */
    {NULL, NULL, ".ssh"},
    {"GNUPGHOME", NULL, ".gnupg"},
    {"NETRC", NULL, ".netrc"},
    {NULL, NULL, ".git-credentials"},
    {"XDG_CONFIG_HOME", "/git/credentials", ".config/git/credentials"},
    {"XDG_CONFIG_HOME", "/gh", ".config/gh"},
    {NULL, NULL, ".kube"}, /* and KUBECONFIG, a list */
    {"DOCKER_CONFIG", NULL, ".docker"},
    {"XDG_CONFIG_HOME", "/containers", ".config/containers"},
    {"CLOUDSDK_CONFIG", NULL, NULL},
    {"XDG_CONFIG_HOME", "/gcloud", ".config/gcloud"},
    {"GOOGLE_APPLICATION_CREDENTIALS", NULL, NULL},
    {"AZURE_CONFIG_DIR", NULL, ".azure"},
    {NULL, NULL, ".oci"},
    {"KAGGLE_CONFIG_DIR", "/kaggle.json", ".kaggle"},
    {"XDG_CONFIG_HOME", "/rclone", ".config/rclone"},
    {NULL, NULL, ".s3cfg"},
    {"BOTO_CONFIG", NULL, ".boto"},
    {NULL, NULL, ".pypirc"},
    {NULL, NULL, ".npmrc"},
    {NULL, NULL, ".vault-token"},
    {NULL, NULL, ".password-store"},
    {"XDG_DATA_HOME", "/keyrings", ".local/share/keyrings"},
};
enum { KNOWN = sizeof known / sizeof known[0] };
/* Named by --database-url, beside those above. */
static const char *const of_database[] = {"passfile", "sslkey"};
enum { OF_DATABASE = sizeof of_database / sizeof of_database[0] };
static_assert(2 * KNOWN + OF_DATABASE + 8 <= SECRET_FILES_MOST, "the list has space for all");
static_assert((int)SECRET_FILES_MOST <= (int)ROOTS_SECRETS_MOST, "and the roots take it");

/* $HOME, or what the system has of the user where a service has none: its files are there all the same. */
static const char *home_of_user(void)
{
    const char *home = getenv("HOME");
    if (home != NULL && home[0] == '/') return home;
    const struct passwd *user = getpwuid(geteuid());
    return user != NULL && user->pw_dir != NULL && user->pw_dir[0] == '/' ? user->pw_dir : NULL;
}

/* The list as it grows. */
struct list {
    char **paths;
    size_t count;
    enum status status;
};

static void add(struct list *list, const char *first, const char *then)
{
    if (list->status == STATUS_OK && list->count == SECRET_FILES_MOST) list->status = STATUS_INVALID;
    if (list->status == STATUS_OK && asprintf(&list->paths[list->count], "%s%s", first, then) < 0)
        list->status = STATUS_NO_MEMORY;
    list->count += list->status == STATUS_OK;
}

/* The files that a list with colons names. */
static void add_each(struct list *list, const char *names)
{
    for (size_t length; *names != '\0'; names += length + (names[length] == ':')) {
        char name[PATH_MAX];
        length = strcspn(names, ":");
        if (length > 0 && snprintf(name, sizeof name, "%.*s", (int)length, names) < PATH_MAX) add(list, name, "");
    }
}

static void add_known(struct list *list)
{
    const char *home = home_of_user();
    char beside[PATH_MAX];
    for (size_t i = 0; i < KNOWN; i++) {
        const char *named = known[i].variable != NULL ? getenv(known[i].variable) : NULL;
        if (named != NULL && named[0] != '\0') add(list, named, known[i].below != NULL ? known[i].below : "");
        if (home == NULL || known[i].at_home == NULL) continue;
        if (snprintf(beside, sizeof beside, "/%s", known[i].at_home) < PATH_MAX) add(list, home, beside);
    }
}

enum status secret_files_list(const struct options *options, char *paths[SECRET_FILES_MOST + 1], struct error *error)
{
    struct list list = {.paths = paths};
    char path[PATH_MAX];
    const char *key = options_text(options, "--tls-key"), *database = options_text(options, "--database-url");
    const char *kubernetes = getenv("KUBECONFIG");
    for (size_t i = 0; i <= SECRET_FILES_MOST; i++) paths[i] = NULL;
    if (key != NULL) add(&list, key, "");
    add_known(&list);
    for (size_t i = 0; i < OF_DATABASE && database != NULL; i++)
        if (conninfo_find(database, of_database[i], path, sizeof path)) add(&list, path, "");
    if (kubernetes != NULL) add_each(&list, kubernetes);
    if (list.status == STATUS_OK) return STATUS_OK;
    for (size_t i = 0; i < list.count; i++) free(paths[i]);
    paths[0] = NULL;
    return list.status == STATUS_INVALID
               ? error_set(error, list.status, "KUBECONFIG names too many files for all to be kept from clients")
               : error_set(error, list.status, "no memory for the names of files");
}

/* The environment, and the shared file, whose sections are profiles:
 *
 *   [default]
 *   aws_access_key_id = …
 *   aws_secret_access_key = …
 *   aws_session_token = …        (of a session) */
#include "objects/credentials_source.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096, PROFILE_BYTES = 256 };

static enum status from_environment(const struct credentials_environment *environment, struct credentials_found *out,
                                    struct error *error)
{
    if (environment->access == NULL && environment->secret == NULL) return STATUS_OK;
    if (!credentials_source_copy(environment->access, out->keys.access, sizeof out->keys.access) ||
        !credentials_source_copy(environment->secret, out->keys.secret, sizeof out->keys.secret))
        return error_set(error, STATUS_INVALID,
                         "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must both be set, to keys as they are issued");
    if (environment->session != NULL &&
        !credentials_source_copy(environment->session, out->keys.session, sizeof out->keys.session))
        return error_set(error, STATUS_INVALID, "AWS_SESSION_TOKEN: has characters that no token has");
    return STATUS_OK;
}

const struct credentials_source credentials_source_environment = {.name = "environment", .find = from_environment};

/* ---- the shared file ---- */

/* Without white space at both ends. */
static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) text[--length] = '\0';
    return text;
}

struct section {
    const char *wanted;
    bool within, found, elsewhere; /* elsewhere: the profile takes its keys from another source */
    struct credentials_keys *keys;
    bool good;
};

static void read_key(struct section *section, const char *key, const char *value)
{
    struct credentials_keys *keys = section->keys;
    const struct {
        const char *name;
        char *out;
        size_t size;
    } fields[] = {{"aws_access_key_id", keys->access, sizeof keys->access},
                  {"aws_secret_access_key", keys->secret, sizeof keys->secret},
                  {"aws_session_token", keys->session, sizeof keys->session}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strcasecmp(fields[i].name, key) == 0 && !credentials_source_copy(value, fields[i].out, fields[i].size))
            section->good = false;
    if (strcasecmp(key, "role_arn") == 0 || strcasecmp(key, "credential_process") == 0 ||
        strcasecmp(key, "source_profile") == 0 || strcasecmp(key, "sso_session") == 0)
        section->elsewhere = true;
}

static void read_line(struct section *section, char *line)
{
    char *text = trimmed(line), *equal = strchr(text, '=');
    if (text[0] == '\0' || text[0] == '#' || text[0] == ';') return;
    if (text[0] == '[') {
        char *end = strchr(text, ']');
        if (end != NULL) *end = '\0';
        section->within = strcmp(trimmed(text + 1), section->wanted) == 0;
        section->found = section->found || section->within;
    } else if (section->within && equal != NULL) {
        *equal = '\0';
        read_key(section, trimmed(text), trimmed(equal + 1));
    }
}

static enum status judge(const struct section *section, struct error *error)
{
    const struct credentials_keys *keys = section->keys;
    const char *profile = section->wanted;
    if (section->found && section->good && keys->access[0] != '\0' && keys->secret[0] != '\0') return STATUS_OK;
    if (!section->found)
        return error_set(error, STATUS_INVALID, "the shared credentials file has no profile \"%.200s\" (AWS_PROFILE)",
                         profile);
    if (section->elsewhere && keys->access[0] == '\0')
        return error_set(
            error, STATUS_UNSUPPORTED,
            "the profile \"%.200s\" has its keys from a role, a process or a login, which is not done here:"
            " put keys into the file, or into the environment",
            profile);
    return error_set(error, STATUS_INVALID,
                     "the profile \"%.200s\" of the shared credentials file lacks aws_access_key_id or"
                     " aws_secret_access_key, or they have characters that no key has",
                     profile);
}

/* A missing file means no source, unless it was named explicitly. */
static enum status from_file(const struct credentials_environment *environment, struct credentials_found *out,
                             struct error *error)
{
    char path[PATH_BYTES];
    char *line = NULL;
    size_t size = 0;
    const bool named = environment->file != NULL;
    struct section section = {
        .wanted = environment->profile != NULL ? environment->profile : "default", .keys = &out->keys, .good = true};
    if (!named && environment->home == NULL) return STATUS_OK;
    (void)snprintf(path, sizeof path, "%s%s", named ? environment->file : environment->home,
                   named ? "" : "/.aws/credentials");
    FILE *file = fopen(path, "re");
    if (file == NULL && errno == ENOENT && !named && environment->profile == NULL) return STATUS_OK;
    if (file == NULL)
        return error_set(error, errno == EIO ? STATUS_IO : STATUS_INVALID,
                         "the shared credentials file cannot be read: %s", strerror(errno));
    while (getline(&line, &size, file) >= 0) read_line(&section, line);
    if (line != NULL) explicit_bzero(line, size);
    const bool whole = feof(file) != 0; /* false when there was no memory for a line */
    free(line);
    (void)fclose(file);
    if (!whole) {
        credentials_wipe(&out->keys);
        return error_set(error, STATUS_NO_MEMORY, "no memory for the shared credentials file, or it cannot be read");
    }
    if (!section.found && environment->profile == NULL) return STATUS_OK;
    const enum status status = judge(&section, error);
    if (status != STATUS_OK) credentials_wipe(&out->keys);
    return status;
}

const struct credentials_source credentials_source_file = {.name = "shared file", .find = from_file};

#include "objects/credentials_profile.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PLACE(field) offsetof(struct credentials_profile, field), sizeof((struct credentials_profile *)NULL)->field

/* What a profile may say. `plain`: no white space inside, since it becomes part of a request. */
static const struct {
    const char *name;
    size_t offset, size;
    bool plain;
} texts[] = {
    {"aws_access_key_id", PLACE(keys.access), true},  {"aws_secret_access_key", PLACE(keys.secret), true},
    {"aws_session_token", PLACE(keys.session), true}, {"role_arn", PLACE(role), true},
    {"role_session_name", PLACE(session), true},      {"duration_seconds", PLACE(seconds), true},
    {"external_id", PLACE(external_id), true},        {"web_identity_token_file", PLACE(identity_file), false},
    {"source_profile", PLACE(source), false},         {"credential_source", PLACE(source_kind), true},
    {"mfa_serial", PLACE(code_device), true},
};
enum { TEXTS = sizeof texts / sizeof texts[0], KEYS = 3 }; /* the first are keys */

static const char *const elsewhere[] = {"credential_process", "sso_session", "sso_start_url", "login_session"};

/* One of the two files. */
struct file {
    const char *named, *below_home; /* what the environment names; else below HOME */
    const char *title;              /* in messages */
    bool prefixed;                  /* sections are "profile NAME" */
};

struct reading {
    const struct file *file;
    const char *wanted;
    bool within, keyed; /* keyed: the file has had a key of the profile */
    struct credentials_profile *profile;
};

/* Without white space at both ends. */
static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) text[--length] = '\0';
    return text;
}

static bool copy(const char *value, bool plain, char *out, size_t size)
{
    if (plain) return credentials_source_copy(value, out, size);
    return snprintf(out, size, "%s", value) < (int)size;
}

/* Keys of one file never mix with those of the other. */
static void read_text(struct reading *reading, size_t index, const char *value)
{
    struct credentials_profile *profile = reading->profile;
    if (index < KEYS && !reading->keyed) {
        credentials_wipe(&profile->keys);
        reading->keyed = true;
    }
    if (!copy(value, texts[index].plain, (char *)profile + texts[index].offset, texts[index].size))
        profile->bad = texts[index].name;
}

static void read_pair(struct reading *reading, const char *name, const char *value)
{
    if (value[0] == '\0') return; /* as if it were not there; also the head of a group of indented lines */
    for (size_t i = 0; i < TEXTS; i++)
        if (strcasecmp(texts[i].name, name) == 0) read_text(reading, i, value);
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++)
        if (strcasecmp(elsewhere[i], name) == 0) reading->profile->elsewhere = true;
}

static bool is_wanted(const struct reading *reading, char *section)
{
    char *name = trimmed(section);
    if (reading->file->prefixed && strncmp(name, "profile", 7) == 0 && isspace((unsigned char)name[7]))
        return strcmp(trimmed(name + 7), reading->wanted) == 0;
    return strcmp(name, reading->wanted) == 0 && (!reading->file->prefixed || strcmp(name, "default") == 0);
}

static void read_line(struct reading *reading, char *line)
{
    char *text = trimmed(line), *equal = strchr(text, '=');
    if (text[0] == '\0' || text[0] == '#' || text[0] == ';') return;
    if (text[0] == '[') {
        char *end = strchr(text, ']');
        if (end != NULL) *end = '\0';
        reading->within = is_wanted(reading, text + 1);
        reading->profile->found = reading->profile->found || reading->within;
    } else if (reading->within && equal != NULL) {
        *equal = '\0';
        read_pair(reading, trimmed(text), trimmed(equal + 1));
    }
}

static bool is_absent(int fault)
{
    return fault == ENOENT || fault == ENOTDIR;
}

static void note_change(struct credentials_profile *profile, int file)
{
    struct stat found;
    if (fstat(file, &found) == 0 && found.st_mtime > profile->changed) profile->changed = found.st_mtime;
}

static enum status read_file(struct reading *reading, const char *home, struct error *error)
{
    const struct file *file = reading->file;
    char path[CREDENTIALS_PROFILE_PATH];
    char *line = NULL;
    size_t size = 0;
    if (file->named == NULL && home == NULL) return STATUS_OK;
    (void)snprintf(path, sizeof path, "%s%s", file->named != NULL ? file->named : home,
                   file->named != NULL ? "" : file->below_home);
    FILE *stream = fopen(path, "re");
    if (stream == NULL && is_absent(errno) && file->named == NULL) return STATUS_OK;
    if (stream == NULL)
        return error_set(error, errno == EIO ? STATUS_IO : STATUS_INVALID, "%s cannot be read: %s", file->title,
                         strerror(errno));
    note_change(reading->profile, fileno(stream));
    while (getline(&line, &size, stream) >= 0) read_line(reading, line);
    if (line != NULL) explicit_bzero(line, size);
    const bool whole = feof(stream) != 0; /* false when there was no memory for a line */
    free(line);
    (void)fclose(stream);
    return whole ? STATUS_OK
                 : error_set(error, STATUS_NO_MEMORY, "no memory for %s, or it cannot be read", file->title);
}

enum status credentials_profile_read(const struct credentials_environment *environment, const char *name,
                                     struct credentials_profile *out, struct error *error)
{
    const struct file files[] = {
        {environment->config, "/.aws/config", "the shared configuration file (AWS_CONFIG_FILE)", true},
        {environment->file, "/.aws/credentials", "the shared credentials file (AWS_SHARED_CREDENTIALS_FILE)", false}};
    enum status status = STATUS_OK;
    *out = (struct credentials_profile){.found = false};
    for (size_t i = 0; i < sizeof files / sizeof files[0] && status == STATUS_OK; i++) {
        struct reading reading = {.file = &files[i], .wanted = name, .profile = out};
        status = read_file(&reading, environment->home, error);
    }
    return status;
}

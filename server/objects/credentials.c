#include "objects/credentials.h"

#include "objects/credentials_source.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* EARLY: how long before their end keys are renewed. BELIEVED: how long the keys of a source without an end are used
 * before it is asked again, because somebody may rewrite the file. KEPT: how long they are used when it has none any
 * more. WRITTEN: how long a file must have been as it is; the program that writes it may not be finished. NONE: how
 * long to wait before asking again when no source has ever had keys, because a missing metadata service answers
 * slowly. */
enum { EARLY_SECONDS = 300, BELIEVED_SECONDS = 60, KEPT_SECONDS = 300, WRITTEN_SECONDS = 3, NONE_SECONDS = 600 };
/* How often a file that was just written is read, when the server takes the known keys no more. */
enum { READS_MOST = 4 };

static const struct credentials_source *const chain[] = {&credentials_source_environment, &credentials_source_identity,
                                                         &credentials_source_file, &credentials_source_container,
                                                         &credentials_source_instance};

struct credentials {
    struct credentials_environment environment; /* owned */
    pthread_mutex_t lock;
    struct credentials_found found;
    const char *source;                   /* NULL: no source was asked yet, or the server takes its keys no more */
    bool refused;                         /* the server takes the known keys no more */
    const struct credentials_source *had; /* the last source that had keys; NULL: there has been none */
    time_t asked, believed;               /* when a source was asked, and when to ask again */
    time_t good_until;                    /* how long the keys are used when no source gives others */
};

/* ---- the environment ---- */

#define VARIABLE(name, field)                                 \
    {                                                         \
        name, offsetof(struct credentials_environment, field) \
    }
static const struct {
    const char *name;
    size_t offset;
} variables[] = {
    VARIABLE("AWS_ACCESS_KEY_ID", access),
    VARIABLE("AWS_SECRET_ACCESS_KEY", secret),
    VARIABLE("AWS_SESSION_TOKEN", session),
    VARIABLE("AWS_ROLE_ARN", role),
    VARIABLE("AWS_ROLE_SESSION_NAME", role_session),
    VARIABLE("AWS_WEB_IDENTITY_TOKEN_FILE", identity_file),
    VARIABLE("AWS_ENDPOINT_URL_STS", roles_endpoint),
    VARIABLE("AWS_SHARED_CREDENTIALS_FILE", file),
    VARIABLE("AWS_CONFIG_FILE", config),
    VARIABLE("AWS_PROFILE", profile),
    VARIABLE("HOME", home),
    VARIABLE("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", relative_uri),
    VARIABLE("AWS_CONTAINER_CREDENTIALS_FULL_URI", full_uri),
    VARIABLE("AWS_CONTAINER_AUTHORIZATION_TOKEN", token),
    VARIABLE("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token_file),
    VARIABLE("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata),
    VARIABLE("AWS_EC2_METADATA_DISABLED", metadata_disabled),
};
enum { VARIABLES = sizeof variables / sizeof variables[0] };

static char **variable_at(struct credentials_environment *environment, size_t index)
{
    return (char **)(void *)((char *)environment + variables[index].offset);
}

enum status credentials_new(const char *region, struct credentials **out, struct error *error)
{
    struct credentials *credentials = calloc(1, sizeof *credentials);
    bool good = credentials != NULL && (credentials->environment.region = strdup(region)) != NULL;
    *out = NULL;
    for (size_t i = 0; good && i < VARIABLES; i++) {
        const char *value = getenv(variables[i].name);
        if (value == NULL || value[0] == '\0') continue;
        char **place = variable_at(&credentials->environment, i);
        *place = strdup(value);
        good = *place != NULL;
    }
    if (credentials != NULL) (void)pthread_mutex_init(&credentials->lock, NULL);
    if (good) {
        *out = credentials;
        return STATUS_OK;
    }
    credentials_free(credentials);
    return error_set(error, STATUS_NO_MEMORY, "no memory for credentials");
}

void credentials_free(struct credentials *credentials)
{
    if (credentials == NULL) return;
    for (size_t i = 0; i < VARIABLES; i++) {
        char *value = *variable_at(&credentials->environment, i);
        if (value != NULL) explicit_bzero(value, strlen(value));
        free(value);
    }
    free(credentials->environment.region);
    credentials_wipe(&credentials->found.keys);
    (void)pthread_mutex_destroy(&credentials->lock);
    free(credentials);
}

/* ---- the chain ---- */

bool credentials_source_copy(const char *text, char *out, size_t size)
{
    const size_t length = text != NULL ? strlen(text) : 0;
    if (length == 0 || length >= size) return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~') return false;
    memcpy(out, text, length + 1);
    return true;
}

bool credentials_source_end(const char *text, time_t *out)
{
    struct tm end = {0};
    if (text == NULL || strptime(text, "%Y-%m-%dT%H:%M:%S", &end) == NULL) return false;
    *out = timegm(&end);
    return true;
}

/* Finds the keys of the first source that has any. *source is NULL when none has. An instance's service that does not
 * answer counts as one that does not exist, unless the last keys were its own. */
static enum status find(const struct credentials *credentials, struct credentials_found *found,
                        const struct credentials_source **source, struct error *error)
{
    enum status status = STATUS_OK;
    *source = NULL;
    for (size_t i = 0; i < sizeof chain / sizeof chain[0] && status == STATUS_OK && found->keys.access[0] == '\0';
         i++) {
        status = chain[i]->find(&credentials->environment, found, error);
        if (found->keys.access[0] != '\0') *source = chain[i];
    }
    if (status == STATUS_OK && found->silent && credentials->had == &credentials_source_instance)
        status = error_set(error, STATUS_UNAVAILABLE,
                           "credentials: the metadata service of the instance, which had some before, gives none now");
    return status;
}

/* Whether somebody may be writing the file of these keys, so that a part of it is missing. A moment ahead is one of a
 * wrong clock, which says nothing. */
static bool is_fresh(const struct credentials_found *found, time_t now)
{
    return found->changed > 0 && now >= found->changed && now - found->changed < WRITTEN_SECONDS;
}

static void put(struct credentials *credentials, const struct credentials_found *found,
                const struct credentials_source *source, time_t now)
{
    if (source != NULL) credentials->had = source;
    credentials->refused = false;
    credentials->found = *found;
    credentials->source = source != NULL ? source->name : "none";
    credentials->believed = now + (credentials->had != NULL ? BELIEVED_SECONDS : NONE_SECONDS);
    credentials->good_until = now + BELIEVED_SECONDS + KEPT_SECONDS;
    if (found->expires == 0) return;
    credentials->believed = found->expires - EARLY_SECONDS;
    credentials->good_until = found->expires;
}

/* As find(). When the known keys are of no use any more, a file that was just written is read again until nobody writes
 * it: a part of a secret would be refused like a wrong one, and the run would fail for good. */
static enum status find_written(const struct credentials *credentials, struct credentials_found *found,
                                const struct credentials_source **source, struct error *error)
{
    for (int reads = 1;; reads++) {
        const enum status status = find(credentials, found, source, error);
        const time_t now = time(NULL);
        if (!credentials->refused || !is_fresh(found, now)) return status;
        if (reads == READS_MOST)
            return error_set(error, STATUS_UNAVAILABLE,
                             "credentials: the known keys have expired, and the file of the new ones is being written");
        const struct timespec rest = {.tv_sec = found->changed + WRITTEN_SECONDS - now};
        credentials_wipe(&found->keys);
        *found = (struct credentials_found){.expires = 0};
        (void)nanosleep(&rest, NULL);
    }
}

/* Takes the keys of the first source that has any. Known keys stay while they are good when a source fails, when its
 * file was just written, and also when no source has keys any more, which may be true for a moment only. */
static enum status ask(struct credentials *credentials, struct error *error)
{
    const struct credentials_source *source;
    struct credentials_found *found = calloc(1, sizeof *found);
    if (found == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for credentials");
    enum status status = find_written(credentials, found, &source, error);
    const time_t now = time(NULL);
    const struct credentials_found *old = &credentials->found;
    const bool old_ones = credentials->source != NULL && old->keys.access[0] != '\0' && credentials->good_until > now;
    const bool fresh = is_fresh(found, now);
    credentials->asked = now;
    if (old_ones && (status != STATUS_OK || source == NULL || fresh)) {
        const time_t next = now + (fresh ? WRITTEN_SECONDS : BELIEVED_SECONDS);
        credentials->believed = next < credentials->good_until ? next : credentials->good_until;
        status = STATUS_OK;
    } else if (status == STATUS_OK) {
        put(credentials, found, source, now);
    }
    credentials_wipe(&found->keys);
    free(found);
    return status;
}

static enum status take(struct credentials *credentials, struct credentials_keys *out, char *source,
                        struct error *error)
{
    enum status status = STATUS_OK;
    const struct credentials_found *found = &credentials->found;
    const time_t now = time(NULL);
    (void)pthread_mutex_lock(&credentials->lock);
    if (credentials->source == NULL || now >= credentials->believed || now < credentials->asked) /* or set back */
        status = ask(credentials, error);
    if (status == STATUS_OK && out != NULL) *out = found->keys;
    if (status == STATUS_OK && source != NULL)
        (void)snprintf(source, CREDENTIALS_SOURCE, "%s%s%s", credentials->source, found->role[0] != '\0' ? ", " : "",
                       found->role);
    (void)pthread_mutex_unlock(&credentials->lock);
    return status;
}

enum status credentials_take(struct credentials *credentials, struct credentials_keys *out, struct error *error)
{
    return take(credentials, out, NULL, error);
}

enum status credentials_source(struct credentials *credentials, char out[CREDENTIALS_SOURCE], struct error *error)
{
    return take(credentials, NULL, out, error);
}

void credentials_wipe(struct credentials_keys *keys)
{
    explicit_bzero(keys, sizeof *keys);
}

void credentials_forget(struct credentials *credentials)
{
    (void)pthread_mutex_lock(&credentials->lock);
    credentials->source = NULL;
    credentials->refused = true;
    (void)pthread_mutex_unlock(&credentials->lock);
}

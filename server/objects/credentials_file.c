/* The environment's keys, and the profile of the shared files: its keys, or those of a role that it may take. */
#include "objects/credentials_profile.h"
#include "objects/credentials_role.h"
#include "objects/credentials_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- the shared files ---- */

/* Profiles in a row, each of which asks with the keys of the next one. */
enum { MOST_PROFILES = 4 };

struct link {
    const char *name;
    const struct link *after; /* whose role asks for the keys; NULL: the first one */
    bool optional;            /* nobody named it */
    struct credentials_profile profile;
};

static enum status find_keys(const struct credentials_environment *environment, struct link *link,
                             struct credentials_found *out, struct error *error);

static enum status keys_of_next(const struct credentials_environment *environment, const struct link *link,
                                struct credentials_found *out, struct error *error)
{
    int count = 1;
    for (const struct link *at = link; at != NULL; at = at->after) count++;
    if (count > MOST_PROFILES)
        return error_set(error, STATUS_INVALID,
                         "the profile \"%.200s\": source_profile leads through more than %d profiles", link->name,
                         MOST_PROFILES);
    struct link *next = calloc(1, sizeof *next);
    if (next == NULL) return error_no_memory(error, "credentials");
    next->name = link->profile.source;
    next->after = link;
    const enum status status = find_keys(environment, next, out, error);
    explicit_bzero(next, sizeof *next);
    free(next);
    return status;
}

/* The keys that ask for the role of the profile; none when it does not say which. A profile may name itself. The kind
 * "Environment" is not among them: keys of the environment come before all profiles. */
static enum status keys_for_role(const struct credentials_environment *environment, const struct link *link,
                                 struct credentials_found *out, struct error *error)
{
    static const struct {
        const char *name;
        const struct credentials_source *source;
    } kinds[] = {{"EcsContainer", &credentials_source_container},
                 {"Ec2InstanceMetadata", &credentials_source_instance}};
    const struct credentials_profile *profile = &link->profile;
    if (strcmp(profile->source, link->name) == 0)
        out->keys = profile->keys;
    else if (profile->source[0] != '\0')
        return keys_of_next(environment, link, out, error);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, profile->source_kind) == 0) status = kinds[i].source->find(environment, out, error);
    if (status == STATUS_OK && out->silent)
        status = error_set(error, STATUS_UNAVAILABLE,
                           "the profile \"%.200s\" has its keys from the instance's metadata service, which does not"
                           " answer",
                           link->name);
    return status;
}

static enum status take_role(const struct credentials_environment *environment, const struct link *link,
                             struct credentials_found *out, struct error *error)
{
    const struct credentials_profile *profile = &link->profile;
    const bool by_token = profile->identity_file[0] != '\0';
    char named[CREDENTIALS_PROFILE_NAME + 64];
    if (profile->code_device[0] != '\0')
        return error_set(
            error, STATUS_UNSUPPORTED,
            "the role of the profile \"%.200s\" wants a person's code (mfa_serial), for which nobody is here:"
            " take a role that does without",
            link->name);
    struct credentials_found *asking = calloc(1, sizeof *asking);
    if (asking == NULL) return error_no_memory(error, "credentials");
    (void)snprintf(named, sizeof named, "web_identity_token_file of the profile \"%s\"", link->name);
    const struct credentials_role role = {.arn = profile->role,
                                          .session = profile->session,
                                          .seconds = profile->seconds,
                                          .external_id = profile->external_id,
                                          .identity_file = profile->identity_file,
                                          .identity_name = named,
                                          .keys = by_token ? NULL : &asking->keys};
    enum status status = by_token ? STATUS_OK : keys_for_role(environment, link, asking, error);
    if (status == STATUS_OK && !by_token && (asking->keys.access[0] == '\0' || asking->keys.secret[0] == '\0'))
        status = error_set(error, STATUS_INVALID,
                           "the profile \"%.200s\" has a role and no keys that ask for it: it needs source_profile,"
                           " credential_source (EcsContainer, Ec2InstanceMetadata) or"
                           " web_identity_token_file",
                           link->name);
    if (status == STATUS_OK) status = credentials_role_assume(environment, &role, out, error);
    explicit_bzero(asking, sizeof *asking);
    free(asking);
    return status;
}

static bool is_bare(const struct credentials_profile *profile)
{
    return profile->role[0] == '\0' && profile->identity_file[0] == '\0' && profile->keys.access[0] == '\0' &&
           profile->keys.secret[0] == '\0' && profile->bad == NULL && !profile->elsewhere;
}

/* A role comes before keys of the same profile, which may be those that ask for it. */
static enum status find_keys(const struct credentials_environment *environment, struct link *link,
                             struct credentials_found *out, struct error *error)
{
    struct credentials_profile *profile = &link->profile;
    const char *name = link->name;
    const enum status status = credentials_profile_read(environment, name, profile, error);
    if (profile->changed > out->changed) out->changed = profile->changed;
    if (status != STATUS_OK || (link->optional && is_bare(profile))) return status;
    if (!profile->found)
        return error_set(error, STATUS_INVALID, "the shared files have no profile \"%.200s\" (AWS_PROFILE)", name);
    if (profile->bad != NULL)
        return error_set(error, STATUS_INVALID,
                         "the profile \"%.200s\": %s is too long, or has characters that it cannot have", name,
                         profile->bad);
    if (profile->role[0] != '\0') return take_role(environment, link, out, error);
    if (profile->identity_file[0] != '\0')
        return error_set(error, STATUS_INVALID,
                         "the profile \"%.200s\" has web_identity_token_file and lacks role_arn, the role to ask for",
                         name);
    if (profile->keys.access[0] != '\0' && profile->keys.secret[0] != '\0') {
        out->keys = profile->keys;
        return STATUS_OK;
    }
    if (profile->elsewhere)
        return error_set(error, STATUS_UNSUPPORTED,
                         "the profile \"%.200s\" has its keys from a program or a login, which is not done here: put"
                         " keys into the file, or into the environment",
                         name);
    return error_set(error, STATUS_INVALID,
                     "the profile \"%.200s\" of the shared files lacks aws_access_key_id or aws_secret_access_key",
                     name);
}

/* No files, and files that say nothing of keys in "default", mean no source, unless a profile was named. */
static enum status from_file(const struct credentials_environment *environment, struct credentials_found *out,
                             struct error *error)
{
    struct link *link = calloc(1, sizeof *link);
    if (link == NULL) return error_no_memory(error, "credentials");
    link->optional = environment->profile == NULL;
    link->name = link->optional ? "default" : environment->profile;
    const enum status status = find_keys(environment, link, out, error);
    explicit_bzero(link, sizeof *link);
    free(link);
    return status;
}

const struct credentials_source credentials_source_file = {.name = "shared file", .find = from_file};

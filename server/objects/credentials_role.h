/* credentials_role.h: the temporary keys of a role, from the security token service (STS) of Amazon or of whoever
 * speaks like it. A caller proves who it is in one of two ways: with the token of a web identity, which somebody else
 * writes into a file (AssumeRoleWithWebIdentity, not signed), or with keys (AssumeRole, signed). */
#ifndef OBJECTS_CREDENTIALS_ROLE_H
#define OBJECTS_CREDENTIALS_ROLE_H

#include "objects/credentials_source.h"

/* Everything is lent; "" is as good as NULL. */
struct credentials_role {
    const char *arn;
    const char *session;                 /* the name of the session in the role's logs; NULL: "deltaq" */
    const char *seconds;                 /* how long the keys are good; NULL: an hour, as the service decides */
    const char *external_id;             /* what the role's owner asks for beside the keys; NULL: nothing */
    const char *identity_file;           /* holds the token, and is read anew each time */
    const char *identity_name;           /* where the file is named, for messages: "AWS_WEB_IDENTITY_TOKEN_FILE" */
    const struct credentials_keys *keys; /* sign the request; NULL: the token is the proof */
};

/* Asks for the role's keys. On STATUS_OK out->keys, out->expires and out->role are set. STATUS_INVALID (a file without
 * a token, an address that is not https, an answer without keys), STATUS_FORBIDDEN with the service's own words,
 * STATUS_UNAVAILABLE, STATUS_NO_MEMORY. */
MUST_CHECK enum status credentials_role_assume(const struct credentials_environment *environment,
                                               const struct credentials_role *role, struct credentials_found *out,
                                               struct error *error);

#endif

/* credentials.h: who asks for objects, by the chain that clients of S3 have in common. The first of these that is
 * there:
 *
 *   environment   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *   shared file   AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials, section AWS_PROFILE or "default"
 *   container     AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or …_FULL_URI, with AWS_CONTAINER_AUTHORIZATION_TOKEN or
 *                 …_TOKEN_FILE
 *   instance      the metadata service of the machine (IMDSv2), unless AWS_EC2_METADATA_DISABLED is "true"
 *
 * None of them is fine, for public buckets. What expires is asked for again before it does. Secrets stay in memory:
 * they are in no message and no log. Threads may share it. */
#ifndef OBJECTS_CREDENTIALS_H
#define OBJECTS_CREDENTIALS_H

#include "base/error.h"

struct credentials;

enum { CREDENTIALS_KEY = 256, CREDENTIALS_SESSION = 8192 };

/* Empty texts: no credentials, or no session. Overwrite with credentials_wipe. */
struct credentials_keys {
    char access[CREDENTIALS_KEY], secret[CREDENTIALS_KEY], session[CREDENTIALS_SESSION];
};

/* Reads the environment, and nothing else yet. The caller owns *out (credentials_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status credentials_new(struct credentials **out, struct error *error);
void credentials_free(struct credentials *credentials); /* NULL is fine */

/* Returns the current keys. Asks the machine's services when the known keys are about to expire. STATUS_INVALID (a file
 * or an answer without keys), STATUS_FORBIDDEN, STATUS_UNAVAILABLE, STATUS_NO_MEMORY. */
MUST_CHECK enum status credentials_take(struct credentials *credentials, struct credentials_keys *out,
                                        struct error *error);
void credentials_wipe(struct credentials_keys *keys);

/* Call it when the server says that the keys have expired: the next credentials_take asks again. */
void credentials_forget(struct credentials *credentials);

/* The source of the keys ("environment", "shared file", "container", "instance", "none"), for people. Takes the keys
 * first. Statuses of credentials_take. */
MUST_CHECK enum status credentials_source(struct credentials *credentials, const char **out, struct error *error);

#endif

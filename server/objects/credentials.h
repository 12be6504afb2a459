/* credentials.h: who asks for objects, by the chain that clients of S3 have in common. The first of these that is
 * there:
 *
 *   environment   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *   web identity  AWS_WEB_IDENTITY_TOKEN_FILE, with the role in AWS_ROLE_ARN (AWS_ROLE_SESSION_NAME): the file's token
 *                 is exchanged for the role's keys, at AWS_ENDPOINT_URL_STS or Amazon's service of the region
 *   shared file   the profile AWS_PROFILE or "default" of AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials, and of
 *                 AWS_CONFIG_FILE or ~/.aws/config: keys, or a role
 *   container     AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or …_FULL_URI, with AWS_CONTAINER_AUTHORIZATION_TOKEN or
 *                 …_TOKEN_FILE
 *   instance      the metadata service of the machine (IMDSv2), unless AWS_EC2_METADATA_DISABLED is "true"
 *
 * None of them is fine, for public buckets. What expires is asked for again before it does. While nothing hands out new
 * ones, keys stay in use until they expire, and those without an end for five minutes. Secrets stay in memory: they are
 * in no message and no log. Threads may share it. */
#ifndef OBJECTS_CREDENTIALS_H
#define OBJECTS_CREDENTIALS_H

#include "base/error.h"

struct credentials;

enum { CREDENTIALS_KEY = 256, CREDENTIALS_SESSION = 8192, CREDENTIALS_ROLE = 1024 };
enum { CREDENTIALS_SOURCE = CREDENTIALS_ROLE + 32 };

/* Empty texts: no credentials, or no session. Overwrite with credentials_wipe. */
struct credentials_keys {
    char access[CREDENTIALS_KEY], secret[CREDENTIALS_KEY], session[CREDENTIALS_SESSION];
};

/* Reads the environment, and nothing else yet. `region`: that of object storage, which is asked for roles as well. The
 * caller owns *out (credentials_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status credentials_new(const char *region, struct credentials **out, struct error *error);
void credentials_free(struct credentials *credentials); /* NULL is fine */

/* Returns the current keys. Asks the source's service when the known keys are about to expire. STATUS_INVALID (a file
 * or an answer without keys), STATUS_UNSUPPORTED (a profile whose keys come from elsewhere), STATUS_FORBIDDEN,
 * STATUS_UNAVAILABLE, STATUS_NO_MEMORY. */
MUST_CHECK enum status credentials_take(struct credentials *credentials, struct credentials_keys *out,
                                        struct error *error);
void credentials_wipe(struct credentials_keys *keys);

/* Call it when the server says that the keys have expired: the next credentials_take asks again. It waits, for some
 * seconds at most, until nobody writes the file of the keys any more. */
void credentials_forget(struct credentials *credentials);

/* The source of the keys ("environment", "web identity", "shared file", "container", "instance", "none"), for people,
 * and the role where there is one: "web identity, arn:aws:iam::123456789012:role/lab". Takes the keys first. Statuses
 * of credentials_take. */
MUST_CHECK enum status credentials_source(struct credentials *credentials, char out[CREDENTIALS_SOURCE],
                                          struct error *error);

#endif

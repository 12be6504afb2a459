/* credentials_profile.h: one profile of the two files that clients of S3 share: ~/.aws/config and ~/.aws/credentials,
 * whose sections are profiles:
 *
 *   [default]                                           [default]
 *   region = …                                          aws_access_key_id = …
 *   [profile lab]                                       aws_secret_access_key = …
 *   role_arn = arn:aws:iam::123456789012:role/lab       aws_session_token = …        (of a session)
 *   source_profile = default */
#ifndef OBJECTS_CREDENTIALS_PROFILE_H
#define OBJECTS_CREDENTIALS_PROFILE_H

#include "objects/credentials_source.h"

#include <stdbool.h>

enum { CREDENTIALS_PROFILE_PATH = 4096, CREDENTIALS_PROFILE_NAME = 256, CREDENTIALS_PROFILE_ID = 1280 };

/* A text is "" when neither file has it; where both have it, that of the credentials file counts. */
struct credentials_profile {
    bool found;                   /* one of the files has the profile */
    const char *bad;              /* the name of a key whose value cannot be used; NULL: none */
    struct credentials_keys keys; /* all of one file */
    char role[CREDENTIALS_ROLE], session[CREDENTIALS_KEY], seconds[16], external_id[CREDENTIALS_PROFILE_ID];
    char identity_file[CREDENTIALS_PROFILE_PATH];
    char source[CREDENTIALS_PROFILE_NAME]; /* the profile whose keys ask for the role */
    char source_kind[32];                  /* or who else has such keys: "Ec2InstanceMetadata" */
    char code_device[CREDENTIALS_KEY];     /* asks a person for a code */
    time_t changed;                        /* when the newer of the files was written; 0: there is none */
    bool elsewhere;                        /* the keys come from a program or a login */
};

/* Reads the profile `name`. The caller overwrites *out after use. STATUS_INVALID (a file that cannot be read, also one
 * that is missing where the environment names it), STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status credentials_profile_read(const struct credentials_environment *environment, const char *name,
                                                struct credentials_profile *out, struct error *error);

#endif

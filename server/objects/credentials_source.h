/* credentials_source.h: the sources of credentials.h, asked in order. */
#ifndef OBJECTS_CREDENTIALS_SOURCE_H
#define OBJECTS_CREDENTIALS_SOURCE_H

#include "objects/credentials.h"

#include <time.h>

/* The region of object storage, and the variables of the environment; NULL where one is not set. Owned. */
struct credentials_environment {
    char *region;
    char *access, *secret, *session, *file, *config, *profile, *home;
    char *role, *role_session, *identity_file, *roles_endpoint;
    char *relative_uri, *full_uri, *token, *token_file;
    char *metadata, *metadata_disabled;
};

struct credentials_found {
    struct credentials_keys keys; /* keys.access is "" when the source has none */
    time_t expires;               /* 0: never */
    time_t changed;               /* when the newest file that was read for them was written; 0: none was */
    char role[CREDENTIALS_ROLE];  /* whose keys they are, where the source is told that; "": it is not */
    bool silent;                  /* no keys, because no answer came: the source may not exist, or have trouble */
};

/* `find` returns STATUS_OK without keys when the source does not exist. It returns another status when the source
 * exists and cannot be used, because the next source might belong to somebody else. */
struct credentials_source {
    const char *name;
    enum status (*find)(const struct credentials_environment *environment, struct credentials_found *out,
                        struct error *error);
};
extern const struct credentials_source credentials_source_environment, credentials_source_identity,
    credentials_source_file, credentials_source_container, credentials_source_instance;

/* Copies a key or a session. False when it does not fit, is empty, or has characters that a header must not have. */
bool credentials_source_copy(const char *text, char *out, size_t size);

/* Reads the end of keys, "2026-01-31T12:00:00Z" (in UTC). False for NULL and for what is no time. */
bool credentials_source_end(const char *text, time_t *out);

#endif

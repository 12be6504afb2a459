/* credentials_source.h: the links of the chain of credentials.h, each asked in its turn. */
#ifndef OBJECTS_CREDENTIALS_SOURCE_H
#define OBJECTS_CREDENTIALS_SOURCE_H

#include "objects/credentials.h"

#include <time.h>

/* What the environment says; a text is NULL where it says nothing. Owned. */
struct credentials_environment {
    char *access, *secret, *session, *file, *profile, *home;
    char *relative_uri, *full_uri, *token, *token_file;
    char *metadata, *metadata_disabled;
};

struct credentials_found {
    struct credentials_keys keys; /* keys.access is "" when the source has none */
    time_t expires;               /* 0: never */
};

/* `found` gives STATUS_OK without keys where the source is not there, and another status where it is there and cannot
 * be used: the next one would be somebody else. */
struct credentials_source {
    const char *name;
    enum status (*find)(const struct credentials_environment *environment, struct credentials_found *out,
                        struct error *error);
};
extern const struct credentials_source credentials_source_environment, credentials_source_file,
    credentials_source_container, credentials_source_instance;

/* Copies a key or a session. False when it does not fit, is empty, or has characters that no header may have. */
bool credentials_source_copy(const char *text, char *out, size_t size);

#endif

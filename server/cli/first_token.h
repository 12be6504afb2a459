/* first_token.h: the token that a server makes by itself while there is none, so that a container can be reached from
 * elsewhere without a step before it. */
#ifndef CLI_FIRST_TOKEN_H
#define CLI_FIRST_TOKEN_H

#include "base/error.h"

#include <stdbool.h>

/* Its name below the data directory; no root opens it to requests (inputs/roots.c). */
#define FIRST_TOKEN_FILE "first-token"
#define FIRST_TOKEN_OPTION                                                                                            \
    {                                                                                                                 \
        "--first-token", NULL, "DELTAQ_FIRST_TOKEN", NULL, OPTION_ONCE,                                               \
            "While there is no token, make one for an admin; it stands in " FIRST_TOKEN_FILE " in the data directory" \
    }

/* Makes a token of scope admin called "first" in the database, which has this binary's schema, and writes its text to
 * FIRST_TOKEN_FILE, for its owner alone: both or neither. Does nothing when there is a token already, of another
 * server of this database too. Statuses of connection_transaction and file_writer_put. */
MUST_CHECK enum status first_token_make(const char *conninfo, const char *data_directory, struct error *error);

#endif

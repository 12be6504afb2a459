/* first_token.h: the token that a server makes when the database has none, so that a container can be reached from
 * other machines without a step before it. */
#ifndef CLI_FIRST_TOKEN_H
#define CLI_FIRST_TOKEN_H

#include "base/error.h"

#include <stdbool.h>

/* The file's name in the data directory; requests cannot read it, whatever the roots (inputs/roots.c). */
#define FIRST_TOKEN_FILE "first-token"
#define FIRST_TOKEN_OPTION                                                                                            \
    {                                                                                                                 \
        "--first-token", NULL, "DELTAQ_FIRST_TOKEN", NULL, OPTION_ONCE,                                               \
            "While there is no token, make one for an admin; it stands in " FIRST_TOKEN_FILE " in the data directory" \
    }

/* Makes a token of scope admin called "first" in the database, which has this binary's schema, and writes its text to
 * FIRST_TOKEN_FILE, readable by the owner only: both or neither. Does nothing when the database has any token, also one
 * that another server made. Statuses of connection_transaction and file_writer_put. */
MUST_CHECK enum status first_token_make(const char *conninfo, const char *data_directory, struct error *error);

#endif

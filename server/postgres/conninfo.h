/* conninfo.h: checks the address of a database before connecting. An address that can never be reached would look like
 * a database that is temporarily unavailable, for which everything waits. */
#ifndef POSTGRES_CONNINFO_H
#define POSTGRES_CONNINFO_H

#include "base/error.h"

/* `conninfo` as connection_new takes it, with what libpq reads from the environment (PGHOST, PGPORT). STATUS_INVALID:
 * libpq cannot read it (its text is not repeated, since it may have a password), or all that it names are unix sockets
 * whose paths are too long for the system. */
MUST_CHECK enum status conninfo_check(const char *conninfo, struct error *error);

/* The value of `keyword` ("passfile") in `conninfo` itself. False: it is missing, or longer than `size`. */
bool conninfo_find(const char *conninfo, const char *keyword, char *out, size_t size);

#endif

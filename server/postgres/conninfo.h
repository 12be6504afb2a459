/* conninfo.h: what can be told of the place of a database before anybody connects. A place that can never be reached
 * looks like a database that is away, for which everything waits. */
#ifndef POSTGRES_CONNINFO_H
#define POSTGRES_CONNINFO_H

#include "base/error.h"

/* `conninfo` as connection_new takes it, with what libpq reads from the environment (PGHOST, PGPORT). STATUS_INVALID:
 * libpq cannot read it (its text is not repeated, since it may have a password), or all that it names are unix sockets
 * whose paths are too long for the system. */
MUST_CHECK enum status conninfo_check(const char *conninfo, struct error *error);

/* What it says itself of `keyword` ("passfile"). False: nothing, or what is longer than `size`. */
bool conninfo_find(const char *conninfo, const char *keyword, char *out, size_t size);

#endif

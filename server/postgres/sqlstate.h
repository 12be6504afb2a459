/* sqlstate.h: the one place where PostgreSQL's error codes become ours. The code decides, never the text of the
 * message. */
#ifndef POSTGRES_SQLSTATE_H
#define POSTGRES_SQLSTATE_H

#include "base/error.h"

struct sqlstate_row {
    const char *prefix; /* of the five characters */
    enum status status;
    bool again; /* the transaction may simply be run again */
    bool lost;  /* the session is gone */
};

/* The row with the longest prefix of `code`; NULL or "" (libpq's own failures) is a lost session. */
const struct sqlstate_row *sqlstate_find(const char *code);

#endif

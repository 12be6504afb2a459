/* migrate.h: brings the schema up to this binary's, after a backup of the private database, and gives the roles their
 * rights on what is new. */
#ifndef CLI_MIGRATE_H
#define CLI_MIGRATE_H

#include "cli/place.h"

#define MIGRATE_NO_BACKUP                                                   \
    {                                                                       \
        "--no-backup", NULL, "DELTAQ_NO_BACKUP", NULL, OPTION_ONCE,         \
            "Do not back the private database up before its schema changes" \
    }

/* Calls migrations_apply, and roles_renew after any step; *applied (may be NULL) counts the steps. When that will
 * change the private database of `data_directory` (NULL: the database belongs to somebody else), it makes a backup
 * first, unless the options say otherwise; without the backup nothing is changed. */
MUST_CHECK enum status migrate_schema(const struct options *options, struct connection *connection,
                                      const char *conninfo, const char *data_directory, int *applied,
                                      struct error *error);

/* The same for the database of a small command. */
MUST_CHECK enum status migrate_database(const struct options *options, struct place_database *database, int *applied,
                                        struct error *error);

#endif

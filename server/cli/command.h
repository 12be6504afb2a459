/* command.h: the words after `deltaq`. One file a command, one row each, listed in commands.c. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/options.h"

struct command {
    const char *name, *usage, *help; /* usage: what follows the name; a NULL help hides the command from the list */
    const struct option_row *options;
    int (*run)(const struct options *options); /* exit status; says what went wrong on stderr */
};

extern const struct command command_serve, command_worker, command_migrate, command_token, command_doctor,
    command_version, command_tables_routes, command_tables_schema;

/* Runs `deltaq argv[1] …`; the exit status: 2 for a wrong command line. `commit`: what it was built from, NULL when not
 * known. */
int command_main(int argc, char **argv, const char *commit);

#endif

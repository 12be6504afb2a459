/* command.h: the words after `deltaq`. One file a command, one row each, listed in commands.c. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/fields.h"
#include "cli/options.h"

/* A first word that makes nothing: what is done with something that is there. */
struct command_action {
    const char *word, *help; /* help: one line, ends without a full stop */
};

struct command {
    const char *name, *usage, *help; /* usage: what follows the name; a NULL help hides the command from the list */
    const struct option_row *options;
    int (*run)(const struct options *options); /* exit status; says what went wrong on stderr */
    int words;                                 /* most words that are no option; 0: none */
    /* The first word of the usage picks what else there is, so that word must come first: adds the parameters of the
     * API that become flags. `word` is NULL where there is none yet. STATUS_INVALID: no such word. */
    enum status (*fields)(const char *word, struct fields *fields, struct error *error);
    const char *const *(*choices)(void);  /* what the first word may be, ends with NULL; NULL: anything */
    const struct command_action *actions; /* further first words; ends with a NULL word; NULL: none */
    const char *notes;                    /* what stands below the options in the help; or NULL */
};

extern const struct command command_serve, command_worker, command_launcher, command_migrate, command_token,
    command_doctor, command_backup, command_restore, command_archive, command_version, command_register, command_run,
    command_sweep, command_curve, command_gate, command_track, command_ready, command_completion, command_manual,
    command_complete, command_tables_routes, command_tables_schema;

/* Every command; ends with NULL. */
extern const struct command *const commands[];
const struct command *command_find(const char *name); /* or NULL */

/* A command's line, read: its own rows, and those of the parameters that its first word has. */
struct command_line {
    struct fields fields;
    struct options options;
};
/* STATUS_INVALID naming what is wrong. command_line_reset in any case. */
MUST_CHECK enum status command_line_parse(const struct command *command, int argc, char **argv,
                                          struct command_line *out, struct error *error);
void command_line_reset(struct command_line *line);

/* Runs `deltaq argv[1] …`; the exit status: 2 for a wrong command line. `commit`: what it was built from, NULL when not
 * known. */
int command_main(int argc, char **argv, const char *commit);

#endif

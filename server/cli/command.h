/* command.h: the commands of `deltaq`: one file and one row for each, listed in commands.c. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/fields.h"
#include "cli/options.h"

/* An action on an existing object (`sweep extend`), as opposed to creating one. */
struct command_action {
    const char *word, *help; /* help: one line, ends without a full stop */
};

struct command {
    const char *name, *usage, *help; /* usage: what follows the name; a NULL help hides the command from the list */
    const struct option_row *options;
    int (*run)(const struct options *options); /* returns the exit status, after writing the error to stderr */
    int words;                                 /* the most words that are not options; 0: none */
    /* Adds the parameters of the API that become flags. The first word of the usage selects them, so it must come
     * before them; `word` is NULL when there is none. STATUS_INVALID: no such word. */
    enum status (*fields)(const char *word, struct fields *fields, struct error *error);
    const char *const *(*choices)(void);  /* the allowed first words, ends with NULL; NULL: any word */
    const struct command_action *actions; /* the actions, which are also allowed as first words; ends with a NULL word;
                                           * NULL: none */
    const char *notes;                    /* text after the options in the help; or NULL */
};

extern const struct command command_serve, command_worker, command_launcher, command_migrate, command_token,
    command_doctor, command_backup, command_restore, command_archive, command_version, command_register, command_run,
    command_sweep, command_curve, command_gate, command_track, command_ready, command_completion, command_manual,
    command_complete, command_tables_routes, command_tables_schema;

/* Every command; ends with NULL. */
extern const struct command *const commands[];
const struct command *command_find(const char *name); /* or NULL */

/* A parsed command line: the command's own options, and the parameters that its first word selects. */
struct command_line {
    struct fields fields;
    struct options options;
};
/* Parses a command line. STATUS_INVALID says what is wrong. command_line_reset in any case. */
MUST_CHECK enum status command_line_parse(const struct command *command, int argc, char **argv,
                                          struct command_line *out, struct error *error);
void command_line_reset(struct command_line *line);

/* Runs `deltaq argv[1] …` and returns the exit status, 2 for a wrong command line. `commit`: the commit that the binary
 * was built from; NULL when not known. */
int command_main(int argc, char **argv, const char *commit);

#endif

#include "cli/command.h"

#include "base/version.h"

#include <errno.h>
#include <string.h>

const struct command *const commands[] = {
    &command_serve,
    &command_worker,
    &command_launcher,
    &command_migrate,
    &command_token,
    &command_doctor,
    &command_backup,
    &command_restore,
    &command_archive,
    &command_version,
    &command_register,
    &command_run,
    &command_sweep,
    &command_curve,
    &command_gate,
    &command_track,
    &command_ready,
    &command_completion,
    &command_manual,
    &command_complete,
    &command_tables_routes,
    &command_tables_schema,
    NULL,
};

static int version_run(const struct options *options)
{
    if (options->commit == NULL) return puts("deltaq " DELTAQ_VERSION) < 0;
    return printf("deltaq " DELTAQ_VERSION " (%s)\n", options->commit) < 0;
}

static const struct option_row no_options[] = {{0}};
const struct command command_version = {.name = "version",
                                        .usage = "",
                                        .help = "Print the version, and the commit that it was built from",
                                        .options = no_options,
                                        .run = version_run};

static void print_usage(FILE *out)
{
    (void)fputs("usage: deltaq COMMAND [OPTION]…\n\nMeasures what low-bit quantization costs checkpoints of language"
                " models.\n\n",
                out);
    for (int i = 0; commands[i] != NULL; i++)
        if (commands[i]->help != NULL) (void)fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->help);
    (void)fputs("\n`deltaq COMMAND --help` lists the options of a command.\n", out);
}

static void print_actions(const struct command *command)
{
    const struct command_action *action = command->actions;
    if (action == NULL) return;
    (void)puts("\nActions:\n");
    for (; action->word != NULL; action++) (void)printf("  %-14s %s\n", action->word, action->help);
}

static void print_help(const struct command *command, const struct fields *fields)
{
    const char *const *choices = command->choices != NULL ? command->choices() : NULL;
    (void)printf("usage: deltaq %s%s%s [OPTION]…\n\n%s.\n\n", command->name, command->usage[0] != '\0' ? " " : "",
                 command->usage, command->help != NULL ? command->help : "For the tests");
    options_print(command->options, stdout);
    if (fields->count > 0) (void)puts("\nParameters of the request:\n");
    fields_print(fields, stdout);
    print_actions(command);
    if (choices != NULL && command->fields != NULL && fields->count == 0) {
        (void)printf("\nThe options of each kind are listed by deltaq %s KIND --help:\n\n ", command->name);
        for (; *choices != NULL; choices++) (void)printf(" %s", *choices);
        (void)puts("");
    }
    if (command->notes != NULL) (void)printf("\n%s", command->notes);
}

enum status command_line_parse(const struct command *command, int argc, char **argv, struct command_line *out,
                               struct error *error)
{
    const struct option_row *rows = command->options;
    const char *word = options_first_word(rows, argc, argv);
    enum status status;
    *out = (struct command_line){0};
    if (command->fields != NULL) {
        if ((status = command->fields(word, &out->fields, error)) != STATUS_OK) return status;
        if ((status = fields_rows(&out->fields, rows, error)) != STATUS_OK) return status;
        rows = out->fields.rows;
    }
    status = options_parse(rows, argc, argv, command->words, &out->options, error);
    out->options.fields = &out->fields;
    /* "--dataset evaluate quantize": what was taken for the first word is the value of a flag that it would select. */
    if (status == STATUS_OK && command->choices != NULL && word != NULL && out->options.positional != word)
        status = error_set(error, STATUS_INVALID, "the kind must come before its parameters; see --help");
    return status;
}

void command_line_reset(struct command_line *line)
{
    options_reset(&line->options); /* reads the rows, which belong to the fields */
    fields_reset(&line->fields);
}

static int run_command(const struct command *command, int argc, char **argv, const char *commit)
{
    struct command_line line;
    struct error error;
    int exit_status = 0;
    if (command_line_parse(command, argc, argv, &line, &error) != STATUS_OK) {
        (void)fprintf(stderr, "deltaq %s: %s\n", command->name, error.detail);
        exit_status = 2;
    } else if (line.options.help) {
        print_help(command, &line.fields);
    } else {
        line.options.commit = commit;
        exit_status = command->run(&line.options);
    }
    command_line_reset(&line);
    return exit_status;
}

const struct command *command_find(const char *name)
{
    for (int i = 0; commands[i] != NULL; i++)
        if (strcmp(name, commands[i]->name) == 0) return commands[i];
    return NULL;
}

static int not_understood(const char *word)
{
    (void)fprintf(stderr, "deltaq: no command \"%s\"; see deltaq --help\n", word);
    return 2;
}

/* `deltaq help serve`, `deltaq help run quantize` */
static int help(int argc, char **argv)
{
    char flag[] = "--help", *words[] = {argc > 1 ? argv[1] : flag, flag};
    const struct command *command = command_find(argv[0]);
    if (command == NULL || argc > (command->choices != NULL ? 2 : 1)) return not_understood(argv[argc - 1]);
    return run_command(command, argc > 1 ? 2 : 1, words, NULL);
}

static int dispatch(int argc, char **argv, const char *commit)
{
    const char *word = argc > 1 ? argv[1] : "";
    const bool asks_help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (asks_help && argc == 2) {
        print_usage(stdout);
        return 0;
    }
    if (asks_help) return help(argc - 2, argv + 2);
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) word = command_version.name;
    const struct command *command = command_find(word);
    return command != NULL ? run_command(command, argc - 2, argv + 2, commit) : not_understood(word);
}

/* What a full disk or another broken destination did not take: a table that is cut must not look whole. */
int command_main(int argc, char **argv, const char *commit)
{
    const int exit_status = dispatch(argc, argv, commit);
    const bool cut = ferror(stdout) != 0;
    errno = 0;
    if (fflush(stdout) == 0 && !cut) return exit_status;
    (void)fprintf(stderr, "deltaq: the output is incomplete%s%s\n", errno != 0 ? ": " : "",
                  errno != 0 ? strerror(errno) : "");
    return exit_status != 0 ? exit_status : 1;
}

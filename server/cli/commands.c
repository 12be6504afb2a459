#include "cli/command.h"

#include "base/version.h"

#include <string.h>

static const struct command *const commands[] = {
    &command_serve,  &command_worker,  &command_migrate,       &command_token,
    &command_doctor, &command_version, &command_tables_routes, &command_tables_schema,
};
enum { COMMANDS = sizeof commands / sizeof commands[0] };

static int version_run(const struct options *options)
{
    if (options->commit == NULL) return puts("deltaq " DELTAQ_VERSION) < 0;
    return printf("deltaq " DELTAQ_VERSION " (%s)\n", options->commit) < 0;
}

static const struct option_row no_options[] = {{0}};
const struct command command_version = {"version", "", "Print the version, and the commit that it was built from",
                                        no_options, version_run};

static void print_usage(FILE *out)
{
    (void)fputs("usage: deltaq COMMAND [OPTION]…\n\nMeasures what low-bit quantization costs checkpoints of language"
                " models.\n\n",
                out);
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i]->help != NULL) (void)fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->help);
    (void)fputs("\n`deltaq COMMAND --help` lists the options of a command.\n", out);
}

static void print_help(const struct command *command)
{
    (void)printf("usage: deltaq %s%s%s [OPTION]…\n\n%s.\n\n", command->name, command->usage[0] != '\0' ? " " : "",
                 command->usage, command->help != NULL ? command->help : "For the tests");
    options_print(command->options, stdout);
}

/* What follows the command's name must be options, and the one word of `usage` where there is one. */
static enum status parse(const struct command *command, int argc, char **argv, struct options *options,
                         struct error *error)
{
    const enum status status = options_parse(command->options, argc, argv, options, error);
    if (status != STATUS_OK || options->positional == NULL || command->usage[0] != '\0') return status;
    return error_set(error, STATUS_INVALID, "unexpected word \"%.100s\"; see deltaq %s --help", options->positional,
                     command->name);
}

static int run_command(const struct command *command, int argc, char **argv, const char *commit)
{
    struct options options;
    struct error error;
    int exit_status = 0;
    if (parse(command, argc, argv, &options, &error) != STATUS_OK) {
        (void)fprintf(stderr, "deltaq %s: %s\n", command->name, error.detail);
        exit_status = 2;
    } else if (options.help) {
        print_help(command);
    } else {
        options.commit = commit;
        exit_status = command->run(&options);
    }
    options_reset(&options);
    return exit_status;
}

static const struct command *find_command(const char *name)
{
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i]->name) == 0) return commands[i];
    return NULL;
}

static int not_understood(const char *word)
{
    (void)fprintf(stderr, "deltaq: no command \"%s\"; see deltaq --help\n", word);
    return 2;
}

int command_main(int argc, char **argv, const char *commit)
{
    const char *word = argc > 1 ? argv[1] : "";
    const bool help = strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (help && argc == 2) {
        print_usage(stdout);
        return 0;
    }
    if (help) { /* `deltaq help serve` */
        const struct command *command = find_command(argv[2]);
        if (argc > 3 || command == NULL) return not_understood(argv[argc > 3 ? 3 : 2]);
        print_help(command);
        return 0;
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) word = command_version.name;
    const struct command *command = find_command(word);
    return command != NULL ? run_command(command, argc - 2, argv + 2, commit) : not_understood(word);
}

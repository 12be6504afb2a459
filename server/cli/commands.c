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
    (void)options;
    return puts("deltaq " DELTAQ_VERSION) < 0;
}

static const struct option_row no_options[] = {{0}};
const struct command command_version = {"version", "", "Print the version", no_options, version_run};

static void print_usage(FILE *out)
{
    (void)fputs("usage: deltaq COMMAND [OPTION]…\n\nMeasures what low-bit quantization costs checkpoints of language models.\n\n",
                out);
    for (int i = 0; i < COMMANDS; i++)
        if (commands[i]->help != NULL) (void)fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->help);
    (void)fputs("\n`deltaq COMMAND --help` lists the options of a command.\n", out);
}

static void print_help(const struct command *command)
{
    (void)printf("usage: deltaq %s%s%s [OPTION]…\n\n%s.\n\n", command->name, command->usage[0] != '\0' ? " " : "", command->usage,
                 command->help != NULL ? command->help : "For the tests");
    options_print(command->options, stdout);
}

static int run_command(const struct command *command, int argc, char **argv)
{
    struct options options;
    struct error error;
    int exit_status = 0;
    if (options_parse(command->options, argc, argv, &options, &error) != STATUS_OK) {
        (void)fprintf(stderr, "deltaq %s: %s\n", command->name, error.detail);
        exit_status = 2;
    } else if (options.help) {
        print_help(command);
    } else {
        exit_status = command->run(&options);
    }
    options_reset(&options);
    return exit_status;
}

int command_main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) return version_run(NULL);
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i]->name) == 0) return run_command(commands[i], argc - 2, argv + 2);
    (void)fprintf(stderr, "deltaq: unknown command \"%s\"; see deltaq --help\n", argv[1]);
    return 2;
}

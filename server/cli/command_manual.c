#include "cli/command.h"

#include "base/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Manual pages in man(7), from the tables behind --help: `make install` writes one for the program and one for each
 * command. Formatters read a dot or an apostrophe at the start of a line as an instruction, and a minus as a hyphen, so
 * these are escaped. */
static void text(const char *words)
{
    bool begins = true;
    for (; *words != '\0'; words++) {
        if (begins && (*words == '.' || *words == '\'')) (void)fputs("\\&", stdout);
        if (*words == '\\')
            (void)fputs("\\e", stdout);
        else if (*words == '-')
            (void)fputs("\\-", stdout);
        else
            (void)putchar(*words);
        begins = *words == '\n';
    }
}

static void line(const char *words)
{
    text(words);
    (void)putchar('\n');
}

/* Prints lines unchanged. */
static void verbatim(const char *words)
{
    (void)puts(".EX");
    text(words);
    (void)puts(".EE");
}

static void begin_page(const char *name, const char *what)
{
    (void)printf(".TH \"");
    for (const char *at = name; *at != '\0'; at++) (void)putchar(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    (void)printf("\" 1 \"\" \"deltaq " DELTAQ_VERSION "\" \"deltaq\"\n.SH NAME\n");
    text(name);
    (void)printf(" \\- ");
    line(what);
}

static void option(const struct option_row *row)
{
    if (row->help == NULL) return;
    (void)printf(".TP\n.B ");
    text(row->flag);
    if (row->value != NULL) {
        (void)printf(" \\fI");
        text(row->value);
        (void)printf("\\fR%s", row->times != OPTION_ONCE ? "..." : "");
    }
    (void)putchar('\n');
    text(row->help);
    if (row->fallback != NULL) {
        (void)printf(" (default ");
        text(row->fallback);
        (void)putchar(')');
    }
    (void)puts(row->times != OPTION_ONCE ? ". May be given several times." : ".");
    if (row->environment != NULL) (void)printf("Without it the variable \\fB%s\\fR is read.\n", row->environment);
}

/* Prints the parameters that `word` adds to the command, as --help does. */
static enum status parameters(const struct command *command, const char *word, struct error *error)
{
    struct fields fields = {0};
    char *printed = NULL;
    size_t size = 0;
    enum status status = command->fields(word, &fields, error);
    if (status == STATUS_OK) status = fields_rows(&fields, command->options, error);
    FILE *out = status == STATUS_OK ? open_memstream(&printed, &size) : NULL;
    if (status == STATUS_OK && out == NULL) status = error_set(error, STATUS_NO_MEMORY, "no memory for the manual");
    if (out != NULL) {
        fields_print(&fields, out);
        if (fclose(out) != 0) status = error_set(error, STATUS_NO_MEMORY, "no memory for the manual");
    }
    if (status == STATUS_OK && size > 0) {
        (void)printf(".SS \"Parameters of the request: %s\"\n", word);
        verbatim(printed);
    }
    free(printed);
    fields_reset(&fields);
    return status;
}

static void actions(const struct command *command)
{
    const struct command_action *action = command->actions;
    if (action != NULL) (void)puts(".SH ACTIONS");
    for (; action != NULL && action->word != NULL; action++) {
        (void)printf(".TP\n.B ");
        line(action->word);
        text(action->help);
        (void)puts(".");
    }
}

static enum status command_page(const struct command *command, struct error *error)
{
    const struct command_action *action = command->actions;
    char name[64];
    enum status status = STATUS_OK;
    const char *const *choices = command->choices != NULL ? command->choices() : NULL;
    (void)snprintf(name, sizeof name, "deltaq-%s", command->name);
    begin_page(name, command->help);
    (void)printf(".SH SYNOPSIS\n.B deltaq %s\n", command->name);
    if (command->usage[0] != '\0') line(command->usage);
    (void)puts("[\\fIOPTION\\fR ...]");
    actions(command);
    (void)puts(".SH OPTIONS");
    for (const struct option_row *row = command->options; row->flag != NULL; row++) option(row);
    (void)printf(".TP\n.B \\-\\-help\nPrint the options.\n");
    for (; status == STATUS_OK && choices != NULL && command->fields != NULL && *choices != NULL; choices++)
        status = parameters(command, *choices, error);
    for (; status == STATUS_OK && action != NULL && action->word != NULL; action++)
        status = parameters(command, action->word, error);
    if (command->notes != NULL) {
        (void)puts(".SH NOTES");
        verbatim(command->notes);
    }
    (void)puts(".SH SEE ALSO\n.BR deltaq (1)");
    return status;
}

static void program_page(void)
{
    begin_page("deltaq", "measure what low-bit quantization costs checkpoints of language models");
    (void)puts(".SH SYNOPSIS\n.B deltaq\n\\fICOMMAND\\fR [\\fIOPTION\\fR ...]\n.SH COMMANDS");
    for (int i = 0; commands[i] != NULL; i++) {
        if (commands[i]->help == NULL) continue;
        (void)printf(".TP\n.BR deltaq\\-%s (1)\n", commands[i]->name);
        (void)printf("%s.\n", commands[i]->help);
    }
}

static const struct option_row no_options[] = {{0}};

static int manual_run(const struct options *options)
{
    const struct command *command = options->positional != NULL ? command_find(options->positional) : NULL;
    struct error error;
    if (options->positional != NULL && (command == NULL || command->help == NULL)) {
        (void)fprintf(stderr, "deltaq manual: no command \"%s\"; see deltaq --help\n", options->positional);
        return 2;
    }
    if (command == NULL) {
        program_page();
    } else if (command_page(command, &error) != STATUS_OK) {
        (void)fprintf(stderr, "deltaq manual: %s\n", error.detail);
        return 1;
    }
    return fflush(stdout) != 0;
}

const struct command command_manual = {
    .name = "manual",
    .usage = "[COMMAND]",
    .help = "Print the manual page of the program or of a command, for man",
    .options = no_options,
    .run = manual_run,
    .words = 1,
};

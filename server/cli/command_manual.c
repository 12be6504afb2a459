#include "cli/command.h"

#include "base/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* What a line of notes is: a sentence, a command that stays as it is, or "WORDS  what they mean" and a further line of
 * that. */
enum note { NOTE_SENTENCE, NOTE_COMMAND, NOTE_ITEM, NOTE_ITEM_GOES_ON };

static enum note note_of(const char *words)
{
    return words[0] == ' '                     ? NOTE_ITEM_GOES_ON
           : strncmp(words, "deltaq ", 7) == 0 ? NOTE_COMMAND
           : strstr(words, "  ") != NULL       ? NOTE_ITEM
                                               : NOTE_SENTENCE;
}

/* Prints one line of notes behind one of kind `before`; `apart`: an empty line is between them. Sentences and items are
 * filled, so they fit any terminal. */
static void note(char *words, enum note kind, enum note before, bool apart)
{
    if ((kind == NOTE_COMMAND) != (before == NOTE_COMMAND)) (void)puts(kind == NOTE_COMMAND ? ".EX" : ".EE");
    if (kind == NOTE_SENTENCE && (apart || before != NOTE_SENTENCE)) (void)puts(".PP");
    if (kind == NOTE_ITEM) {
        char *gap = strstr(words, "  ");
        *gap = '\0';
        (void)printf(".TP\n.B ");
        line(words);
        words = gap + 1;
    }
    line(words + strspn(words, " "));
}

static enum status notes(const char *words, struct error *error)
{
    enum note before = NOTE_SENTENCE;
    bool apart = false;
    (void)puts(".SH NOTES");
    while (*words != '\0') {
        const size_t length = strcspn(words, "\n");
        char *part = strndup(words, length);
        if (part == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the manual");
        const enum note kind = note_of(part);
        if (length > 0) {
            note(part, kind, before, apart);
            before = kind;
        }
        apart = length == 0;
        free(part);
        words += length + (words[length] == '\n');
    }
    if (before == NOTE_COMMAND) (void)puts(".EE");
    return STATUS_OK;
}

/* The day of the page, which reproducible builds give (reproducible-builds.org): SOURCE_DATE_EPOCH, in seconds since
 * 1970. Without it there is none. */
static void day(void)
{
    const char *given = getenv("SOURCE_DATE_EPOCH");
    const bool is_given = given != NULL && given[0] != '\0';
    const time_t seconds = is_given ? (time_t)strtoll(given, NULL, 10) : 0;
    struct tm parts;
    char made[32] = "";
    if (is_given && gmtime_r(&seconds, &parts) != NULL) (void)strftime(made, sizeof made, "%Y-%m-%d", &parts);
    (void)printf("\"%s\"", made);
}

static void begin_page(const char *name, const char *what)
{
    (void)printf(".TH \"");
    for (const char *at = name; *at != '\0'; at++) (void)putchar(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
    (void)printf("\" 1 ");
    day();
    (void)printf(" \"deltaq " DELTAQ_VERSION "\" \"deltaq\"\n.SH NAME\n");
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

/* Prints one parameter of a request: its flag and placeholder, or the two flags of a boolean, and what it is. */
static enum status parameter(const struct field *field, struct error *error)
{
    char *help = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&help, &size);
    if (out == NULL) return error_set(error, STATUS_NO_MEMORY, "no memory for the manual");
    fields_print_help(field, out);
    const bool whole = fclose(out) == 0;
    if (whole) {
        (void)printf(".TP\n\\fB");
        text(field->flags[FIELDS_SHORT]);
        (void)printf(field->value[0] != '\0' ? "\\fR \\fI" : "\\fR, \\fB");
        text(field->value[0] != '\0' ? field->value : field->flags[FIELDS_NO_SHORT]);
        (void)printf("\\fR\n");
        line(help);
    }
    free(help);
    return whole ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "no memory for the manual");
}

/* Prints the parameters that `word` (NULL: any) adds to the command. */
static enum status parameters(const struct command *command, const char *word, struct error *error)
{
    struct fields fields = {0};
    enum status status = command->fields(word, &fields, error);
    if (status == STATUS_OK) status = fields_rows(&fields, command->options, error);
    if (status == STATUS_OK && fields.count > 0)
        (void)printf(".SS \"Parameters of the request%s%s\"\n", word != NULL ? ": " : "", word != NULL ? word : "");
    for (int64_t i = 0; status == STATUS_OK && i < fields.count; i++) {
        const struct field *field = &fields.items[i];
        const char *title = i == 0 || field[-1].object != field->object ? fields.titles[field->object] : NULL;
        if (title != NULL) {
            if (i > 0) (void)puts(".PP");
            line(title);
        }
        status = parameter(field, error);
    }
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
    if (choices == NULL && action == NULL && command->fields != NULL) status = parameters(command, NULL, error);
    for (; status == STATUS_OK && choices != NULL && command->fields != NULL && *choices != NULL; choices++)
        status = parameters(command, *choices, error);
    for (; status == STATUS_OK && action != NULL && action->word != NULL; action++)
        status = parameters(command, action->word, error);
    if (status == STATUS_OK && command->notes != NULL) status = notes(command->notes, error);
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
    return 0;
}

const struct command command_manual = {
    .name = "manual",
    .usage = "[COMMAND]",
    .help = "Print the manual page of the program or of a command, for man",
    .options = no_options,
    .run = manual_run,
    .words = 1,
};

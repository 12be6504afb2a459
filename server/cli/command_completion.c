#include "cli/command.h"

#include <stdlib.h>
#include <string.h>

/* The scripts ask the program, which knows its own tables: `deltaq complete -- WORD…`, where the last word is
 * incomplete. When the program offers nothing, the shell offers files. */
static const struct shell {
    const char *name, *script;
} shells[] = {
    {"bash", "_deltaq() {\n"
             "    local IFS=$'\\n'\n"
             "    COMPREPLY=($(\"${COMP_WORDS[0]}\" complete -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null))\n"
             "}\n"
             "complete -o default -F _deltaq deltaq\n"},
    {"zsh", "#compdef deltaq\n"
            "_deltaq() {\n"
            "    local -a found\n"
            "    found=(\"${(@f)$(\"${words[1]}\" complete -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
            "    if [[ -n \"$found\" ]]; then compadd -a found; else _files; fi\n"
            "}\n"
            "compdef _deltaq deltaq\n"},
};
enum { SHELLS = sizeof shells / sizeof shells[0] };

static const struct option_row no_options[] = {{0}};

static int completion_run(const struct options *options)
{
    for (int i = 0; options->positional != NULL && i < SHELLS; i++)
        if (strcmp(options->positional, shells[i].name) == 0) return fputs(shells[i].script, stdout) < 0;
    (void)fputs("deltaq completion: expected `deltaq completion bash` or `deltaq completion zsh`\n", stderr);
    return 2;
}

const struct command command_completion = {
    .name = "completion",
    .usage = "SHELL",
    .help = "Print a script that completes this command line in bash or zsh",
    .options = no_options,
    .run = completion_run,
    .words = 1,
    .notes = "bash  source <(deltaq completion bash)\nzsh   source <(deltaq completion zsh), after compinit\n",
};

/* ---- which words are allowed here ---- */

static void offer(const char *word, const char *begun)
{
    if (strncmp(word, begun, strlen(begun)) == 0) (void)puts(word);
}

static void offer_flags(const struct command *command, const struct fields *fields, const char *begun)
{
    for (const struct option_row *row = command->options; row->flag != NULL; row++) offer(row->flag, begun);
    for (int64_t i = 0; i < fields->count; i++) {
        const struct field *field = &fields->items[i];
        offer(field->flags[FIELDS_SHORT], begun);
        if (field->flags[FIELDS_NO_SHORT][0] != '\0') offer(field->flags[FIELDS_NO_SHORT], begun);
    }
    offer("--help", begun);
}

/* Offers the values of the flag before the word, where they can be listed. */
static void offer_values(const struct fields *fields, const char *flag, const char *begun)
{
    for (int64_t i = 0; i < fields->count; i++) {
        const struct field *field = &fields->items[i];
        if (strcmp(flag, field->flags[FIELDS_SHORT]) != 0 && strcmp(flag, field->flags[FIELDS_FULL]) != 0) continue;
        const char **choices = fields_choices(field);
        for (size_t at = 0; choices != NULL && choices[at] != NULL; at++) offer(choices[at], begun);
        free(choices);
        return;
    }
}

static void offer_options(const struct command *command, const struct options *options)
{
    struct command_line line;
    struct error error;
    const int last = options->word_count - 1;
    const char *begun = options->words[last], *before = options->words[last - 1];
    char *first[] = {last > 1 ? strdup(options->words[1]) : NULL};
    if (command_line_parse(command, first[0] != NULL && first[0][0] != '-' ? 1 : 0, first, &line, &error) ==
        STATUS_OK) {
        if (begun[0] == '-')
            offer_flags(command, &line.fields, begun);
        else if (before[0] == '-')
            offer_values(&line.fields, before, begun);
    }
    command_line_reset(&line);
    free(first[0]);
}

static int complete_run(const struct options *options)
{
    const int last = options->word_count - 1;
    const struct command *command = last > 0 ? command_find(options->words[0]) : NULL;
    for (int i = 0; last == 0 && commands[i] != NULL; i++)
        if (commands[i]->help != NULL) offer(commands[i]->name, options->words[0]);
    const char *const *choices = last == 1 && command != NULL && command->choices != NULL ? command->choices() : NULL;
    const struct command_action *actions = last == 1 && command != NULL ? command->actions : NULL;
    for (; choices != NULL && *choices != NULL; choices++) offer(*choices, options->words[last]);
    for (; actions != NULL && actions->word != NULL; actions++) offer(actions->word, options->words[last]);
    for (int i = 0; last == 1 && command == &command_completion && i < SHELLS; i++)
        offer(shells[i].name, options->words[last]);
    if (command != NULL) offer_options(command, options);
    return 0;
}

const struct command command_complete = {
    .name = "complete", .usage = "-- WORD...", .options = no_options, .run = complete_run, .words = OPTIONS_WORDS};

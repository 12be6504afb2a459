/* options.h: command lines by tables: a row for each option, with its flag, environment variable, default and help. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/error.h"

#include <stdint.h>
#include <stdio.h>

/* Whether an option may be repeated, and then the separator of its environment variable. */
enum option_times { OPTION_ONCE, OPTION_COLONS, OPTION_SPACES, OPTION_SEMICOLONS };

struct option_row {
    const char *flag;        /* "--listen" */
    const char *value;       /* placeholder of its value in the help: "ADDRESS"; NULL: a switch */
    const char *environment; /* "DELTAQ_LISTEN" or NULL */
    const char *fallback;    /* or NULL */
    enum option_times times; /* whether it may be repeated */
    const char *help;        /* NULL: accepted, but not listed */
};

struct fields;
enum { OPTIONS_WORDS = 64 };

struct options {
    const struct option_row *rows;    /* ends with a NULL flag; lent until options_reset */
    char ***values;                   /* owned; a list for each row, which ends with NULL; NULL: not given */
    const char *words[OPTIONS_WORDS]; /* the words that are not options, in order; lent */
    int word_count;
    const char *positional; /* the first of them (`token create`), or NULL */
    bool help;
    const char *commit;          /* set by command_main; options_parse leaves NULL */
    const struct fields *fields; /* set by command_line_parse (fields.h); options_parse leaves NULL */
};

/* Whether the `length` bytes of `word` are the name of a flag or of a parameter. "-" and "_" are the same:
 * --sequence-length is the API's sequence_length. */
bool options_same_name(const char *name, const char *word, size_t length);

/* Reads argv[0 … argc), then the environment for options that are missing. In flags "-" and "_" are the same;
 * everything after "--" is a word. Because every user of the machine sees command lines, values in argv that may hold a
 * password or a token are overwritten with "xxx" after reading. STATUS_INVALID names the option, or the word that is
 * one too many. options_reset in any case. */
MUST_CHECK enum status options_parse(const struct option_row *rows, int argc, char **argv, int most_words,
                                     struct options *out, struct error *error);
void options_reset(struct options *options);

/* The first word that is no option, which may select further rows: flags that `rows` lacks count as switches. Lent;
 * NULL: there is none. */
const char *options_first_word(const struct option_row *rows, int argc, char **argv);

/* Whether the option was given, on the command line or in the environment. */
bool options_given(const struct options *options, const char *flag);
/* The first value, else the fallback, else NULL; for a switch "1" or NULL. Lent. */
const char *options_text(const struct options *options, const char *flag);
/* All values, ends with NULL; never NULL itself. */
const char *const *options_all(const struct options *options, const char *flag);
/* STATUS_INVALID unless the value is a whole number in [minimum, maximum]; the row must have a `fallback`. */
MUST_CHECK enum status options_integer(const struct options *options, const char *flag, int64_t minimum,
                                       int64_t maximum, int64_t *out, struct error *error);

/* Reads a size in bytes: a number, optionally followed by K, M, G or T (powers of 1,024). The row must have a
 * `fallback`. STATUS_INVALID. */
MUST_CHECK enum status options_size(const struct options *options, const char *flag, int64_t *out, struct error *error);

/* Prints one line for each option. */
void options_print(const struct option_row *rows, FILE *out);

#endif

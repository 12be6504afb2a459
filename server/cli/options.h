/* options.h: command lines by tables: one row an option, which is its flag, its environment variable, its default and
 * its help. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/error.h"

#include <stdint.h>
#include <stdio.h>

/* Once, or several times: what separates the values of the environment variable then. */
enum option_times { OPTION_ONCE, OPTION_COLONS, OPTION_SPACES, OPTION_SEMICOLONS };

struct option_row {
    const char *flag;        /* "--listen" */
    const char *value;       /* what stands for its value in the help: "ADDRESS"; NULL: a switch */
    const char *environment; /* "DELTAQ_LISTEN" or NULL */
    const char *fallback;    /* or NULL */
    enum option_times times; /* how often it may stand */
    const char *help;        /* NULL: understood, and not listed */
};

struct fields;
enum { OPTIONS_WORDS = 64 };

struct options {
    const struct option_row *rows;    /* ends with a NULL flag; lent until options_reset */
    char ***values;                   /* owned; a list for each row, which ends with NULL; NULL: not given anywhere */
    const char *words[OPTIONS_WORDS]; /* what is no option, in order; lent */
    int word_count;
    const char *positional; /* the first of them (`token create`), or NULL */
    bool help;
    const char *commit;          /* of command_main; options_parse leaves NULL */
    const struct fields *fields; /* likewise: of command_line_parse (fields.h) */
};

/* Reads argv[0 … argc), then the environment for what is missing. In flags "-" and "_" are the same; what follows "--"
 * are words. Every user sees command lines, so in argv what may hold a password or a token becomes "xxx" once it is
 * read. STATUS_INVALID naming the option or the word that is one too many. options_reset in any case. */
MUST_CHECK enum status options_parse(const struct option_row *rows, int argc, char **argv, int most_words,
                                     struct options *out, struct error *error);
void options_reset(struct options *options);

/* Whether it was given, on the command line or in the environment. */
bool options_given(const struct options *options, const char *flag);
/* First value, else the fallback, else NULL; for a switch "1" or NULL. Lent. */
const char *options_text(const struct options *options, const char *flag);
/* All values, ends with NULL; never NULL itself. */
const char *const *options_all(const struct options *options, const char *flag);
/* STATUS_INVALID unless it is a whole number in [minimum, maximum]; `fallback` of the row is required. */
MUST_CHECK enum status options_integer(const struct options *options, const char *flag, int64_t minimum,
                                       int64_t maximum, int64_t *out, struct error *error);

/* Bytes: a number, with K, M, G or T behind it (powers of 1,024) or not; `fallback` is required. STATUS_INVALID. */
MUST_CHECK enum status options_size(const struct options *options, const char *flag, int64_t *out, struct error *error);

/* One line an option. */
void options_print(const struct option_row *rows, FILE *out);

#endif

/* pattern.h: finds the matches of a regular expression or of a fixed string in a text, in order, as Oniguruma does.
 * Uses PCRE2 with its just-in-time compiler. A pattern does not change, so threads may share it, each with its own
 * scratch. PCRE2's Unicode tables (10.42: Unicode 14) decide what a letter is; characters assigned later count as
 * unassigned. */
#ifndef TOKENIZER_PATTERN_H
#define TOKENIZER_PATTERN_H

#include "base/error.h"

#include <stdint.h>

struct pattern;
struct pattern_scratch;

enum pattern_syntax { PATTERN_ONIGURUMA, PATTERN_LITERAL, PATTERN_PCRE2 };

/* The caller owns *out. STATUS_UNSUPPORTED (a construct that deltaq refuses, or that does not compile),
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status pattern_new(const char *expression, size_t bytes, enum pattern_syntax syntax,
                                   struct pattern **out, struct error *error);
void pattern_free(struct pattern *pattern);                          /* NULL is fine */
bool pattern_same(const struct pattern *a, const struct pattern *b); /* same source and syntax; NULL equals NULL */

MUST_CHECK enum status pattern_scratch_new(struct pattern_scratch **out, struct error *error);
void pattern_scratch_free(struct pattern_scratch *scratch); /* NULL is fine */

/* State of a search. Set text and bytes, leave the rest 0. `text` is valid UTF-8, lent. */
struct pattern_search {
    const char *text;
    size_t bytes;
    size_t start, end; /* the latest match */
    size_t from;       /* where the next search begins */
    bool any;          /* there has been a match */
    int64_t windows;
    double deadline; /* processor seconds of this thread; set when the clock is first read */
};

/* Finds the next match. *found false: there is none. STATUS_UNSUPPORTED when the expression backtracks too much on this
 * text. */
MUST_CHECK enum status pattern_next(const struct pattern *pattern, struct pattern_scratch *scratch,
                                    struct pattern_search *search, bool *found, struct error *error);

#endif

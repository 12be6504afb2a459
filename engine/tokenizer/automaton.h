/* automaton.h: many patterns found in a text in one pass, leftmost first and of those the longest (Aho and Corasick,
 * "Efficient string matching", CACM 18, 1975). The time does not depend on how many patterns there are. */
#ifndef TOKENIZER_AUTOMATON_H
#define TOKENIZER_AUTOMATON_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct automaton;

#define AUTOMATON_PATTERN 65535 /* bytes of a pattern */

struct automaton_pattern {
    const char *bytes;
    size_t size; /* 1 to AUTOMATON_PATTERN */
};

/* Of `count` patterns in ascending order of their bytes, no two the same. They are only read. The caller owns *out
 * (automaton_free). STATUS_UNSUPPORTED (more than AUTOMATON_STATES different beginnings), STATUS_NO_MEMORY. */
#define AUTOMATON_STATES (4 << 20)
MUST_CHECK enum status automaton_new(const struct automaton_pattern *patterns, uint32_t count, struct automaton **out,
                                     struct error *error);
void automaton_free(struct automaton *automaton); /* NULL is fine */

/* The leftmost longest pattern that lies in text[from, bytes): its number, its start and its end. False: there is none.
 * An automaton does not change, so threads may share it. */
bool automaton_find(const struct automaton *automaton, const char *text, size_t bytes, size_t from, uint32_t *pattern,
                    size_t *start, size_t *end);

#endif

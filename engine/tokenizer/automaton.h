/* automaton.h: finds many patterns in a text in one pass: the leftmost match, and of several the longest (Aho and
 * Corasick, "Efficient string matching", CACM 18, 1975). The time does not depend on the number of patterns. */
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

/* Builds an automaton for `count` different patterns in ascending order of their bytes. They are read only during the
 * call. The caller owns *out (automaton_free). STATUS_UNSUPPORTED (more than AUTOMATON_STATES different prefixes),
 * STATUS_NO_MEMORY. */
#define AUTOMATON_STATES (4 << 20)
MUST_CHECK enum status automaton_new(const struct automaton_pattern *patterns, uint32_t count, struct automaton **out,
                                     struct error *error);
void automaton_free(struct automaton *automaton); /* NULL is fine */

/* Finds the leftmost longest pattern in text[from, bytes): its number, start and end. False: there is none. An
 * automaton does not change, so threads may share it. */
bool automaton_find(const struct automaton *automaton, const char *text, size_t bytes, size_t from, uint32_t *pattern,
                    size_t *start, size_t *end);

#endif

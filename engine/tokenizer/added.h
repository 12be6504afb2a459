/* added.h: the "added_tokens" of a tokenizer.json: strings that are found in the text before any other step. */
#ifndef TOKENIZER_ADDED_H
#define TOKENIZER_ADDED_H

#include "tokenizer/automaton.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pair_map.h"
#include "tokenizer/vocabulary.h"

struct added_token {
    uint32_t id;
    struct text content; /* as written */
    struct text pattern; /* the string to find: the content, normalized if `normalized` */
    bool single_word;    /* matches only where no word character is next to it */
    bool lstrip, rstrip; /* the match includes the white space before (behind) it */
    bool normalized;     /* found in the normalized text, not in the original */
    bool special;
};

/* Caller's memory; {0} is none. Filled by added_load; then it does not change. */
struct added {
    struct added_token *tokens;
    int64_t count, capacity;
    struct added_set {
        uint32_t *order; /* indices of tokens in byte order of their patterns */
        uint32_t count;
        struct automaton *automaton; /* finds their patterns, in that order; owned; NULL when there are none */
    } raw, normalized;
    struct pair_map by_id; /* (id, 0) -> index in tokens */
    struct pattern *word;  /* matches one word character; NULL when no token needs it */
};

/* Reads the list and checks it against the model's `vocabulary`. The caller resets *out, also on failure.
 * STATUS_CORRUPT (a duplicate id or content, or one that contradicts the vocabulary), STATUS_UNSUPPORTED (an empty or
 * very long token, or too many bytes in all). */
MUST_CHECK enum status added_load(const struct part_document *document, struct json_reader_text span,
                                  const struct normalizer *normalizer, const struct vocabulary *vocabulary,
                                  struct added *out, struct error *error);
void added_reset(struct added *added);

struct added_match {
    size_t start, end; /* includes white space that the match takes */
    const struct added_token *token;
};

/* Finds the leftmost longest token of `set` at or behind `*from` and moves *from behind it. `done`: the end of the
 * previous match. *match.token NULL: there is none. */
MUST_CHECK enum status added_next(const struct added *added, const struct added_set *set,
                                  struct pattern_scratch *scratch, const char *text, size_t bytes, size_t done,
                                  size_t *from, struct added_match *match, struct error *error);

/* The token with this id, or NULL. */
const struct added_token *added_find(const struct added *added, uint32_t id);

/* True when no token contains, or tests the characters at, a border between an ASCII letter and a space. */
bool added_splits(const struct added *added);

#endif

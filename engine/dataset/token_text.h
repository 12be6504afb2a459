/* token_text.h: the text of one token with the text around it. */
#ifndef DATASET_TOKEN_TEXT_H
#define DATASET_TOKEN_TEXT_H

#include "tokenizer/tokenizer.h"

/* A text in three consecutive parts; UTF-8, each ends with 0. Owned (token_text_reset). */
struct token_text {
    char *before, *token, *after;
};

/* Decodes ids[count] together and splits the text around the token ids[place]. A character of several tokens belongs to
 * the token that completes it, so the text of a token may be empty. Invalid UTF-8 and the byte 0 become U+FFFD. The
 * caller resets *out, also after a failure. STATUS_INVALID (an id that the tokenizer does not have),
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status token_text_of(const struct tokenizer *tokenizer, const uint32_t *ids, int64_t count,
                                     int64_t place, struct token_text *out, struct error *error);
void token_text_reset(struct token_text *text); /* {0} is fine */

#endif

/* token_text.h: one token in the text around it. */
#ifndef DATASET_TOKEN_TEXT_H
#define DATASET_TOKEN_TEXT_H

#include "tokenizer/tokenizer.h"

/* Parts of one text, in this order; UTF-8, each ends with 0. Owned (token_text_reset). */
struct token_text {
    char *before, *token, *after;
};

/* The text of ids[count] as `tokenizer` decodes them together, with that of ids[place] apart. A character that several
 * tokens make up stands with the one that completes it, so the text of a token may be empty. Bytes that are no UTF-8,
 * and the byte 0, become U+FFFD. The caller resets *out, also after a failure. STATUS_INVALID (an id that the tokenizer
 * has not), STATUS_NO_MEMORY. */
MUST_CHECK enum status token_text_of(const struct tokenizer *tokenizer, const uint32_t *ids, int64_t count,
                                     int64_t place, struct token_text *out, struct error *error);
void token_text_reset(struct token_text *text); /* {0} is fine */

#endif

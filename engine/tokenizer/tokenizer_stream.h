/* tokenizer_stream.h: encodes a long document that arrives in pieces. The ids are exactly those of the whole text in
 * one call: text is released only at places where every step of the tokenizer is known to split. A tokenizer without
 * such places keeps the whole text until the end. A stream adds no special tokens; its caller does. */
#ifndef TOKENIZER_TOKENIZER_STREAM_H
#define TOKENIZER_TOKENIZER_STREAM_H

#include "tokenizer/tokenizer.h"

struct tokenizer_stream;

/* The tokenizer is lent until tokenizer_stream_close. The caller owns *out. STATUS_NO_MEMORY. */
MUST_CHECK enum status tokenizer_stream_open(const struct tokenizer *tokenizer, struct tokenizer_stream **out,
                                             struct error *error);

/* Takes the next `bytes` of the document (cut anywhere, even inside a character) and appends the ids that are certain
 * to *out. Statuses of tokenizer_encode; byte offsets in messages count from the start of the document. */
MUST_CHECK enum status tokenizer_stream_feed(struct tokenizer_stream *stream, const char *text, size_t bytes,
                                             struct token_list *out, struct error *error);

/* Ends the document: appends the remaining ids. The stream is then ready for another document. */
MUST_CHECK enum status tokenizer_stream_end(struct tokenizer_stream *stream, struct token_list *out,
                                            struct error *error);

void tokenizer_stream_close(struct tokenizer_stream *stream); /* NULL is fine */

#endif

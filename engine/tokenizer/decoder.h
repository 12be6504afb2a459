/* decoder.h: the "decoder" of a tokenizer.json: joins the contents of tokens to a text. */
#ifndef TOKENIZER_DECODER_H
#define TOKENIZER_DECODER_H

#include "tokenizer/part.h"
#include "tokenizer/pattern.h"

struct decoder;

/* Consecutive strings: string i is bytes[ends[i - 1]] to bytes[ends[i] - 1]. Start with {0}. */
struct decoder_strings {
    struct text text;
    size_t *ends;
    int64_t count, capacity;
};
MUST_CHECK enum status decoder_append(struct decoder_strings *strings, const char *bytes, size_t size,
                                      struct error *error);
void decoder_strings_free(struct decoder_strings *strings);

/* Loads a decoder. Null gives one that joins the contents with spaces. The caller owns *out. STATUS_UNSUPPORTED names
 * the unsupported feature. */
MUST_CHECK enum status decoder_load(const struct part_document *document, struct json_reader_text span,
                                    struct decoder **out, struct error *error);
void decoder_free(struct decoder *decoder); /* NULL is fine */

/* Joins `strings`, the contents of the tokens, and appends the text to *out. `strings` is overwritten. */
MUST_CHECK enum status decoder_apply(const struct decoder *decoder, struct pattern_scratch *scratch,
                                     struct decoder_strings *strings, struct text *out, struct error *error);

#endif

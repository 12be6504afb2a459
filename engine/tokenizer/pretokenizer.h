/* pretokenizer.h: the "pre_tokenizer" of a tokenizer.json: cuts text into pieces, which BPE encodes one by one. */
#ifndef TOKENIZER_PRETOKENIZER_H
#define TOKENIZER_PRETOKENIZER_H

#include "tokenizer/part.h"
#include "tokenizer/pattern.h"

struct pretokenizer;

struct pretokenizer_piece {
    uint32_t start, end; /* in pieces->text; never empty */
};

/* The pieces of a text, in order. Start with {0}; reused from text to text. */
struct pretokenizer_pieces {
    const char *text; /* lent by the caller's text or by own.bytes */
    struct pretokenizer_piece *items;
    int64_t count;
    /* working memory */
    int64_t capacity, spare_capacity;
    struct pretokenizer_piece *spare;
    struct text own, other;
};
void pretokenizer_pieces_reset(struct pretokenizer_pieces *pieces); /* releases */

/* Loads a pre-tokenizer. Null gives one that does not split. With `raw_bytes` (the model can look up bytes itself) a
 * byte-level step at the end is left to the model. The caller owns *out. STATUS_UNSUPPORTED names the unsupported
 * feature. */
MUST_CHECK enum status pretokenizer_load(const struct part_document *document, struct json_reader_text span,
                                         bool raw_bytes, struct pretokenizer **out, struct error *error);
void pretokenizer_free(struct pretokenizer *pretokenizer); /* NULL is fine */

/* Whether both have the same steps in the same order, so that they cut every text alike. */
bool pretokenizer_same(const struct pretokenizer *a, const struct pretokenizer *b);

/* True when the pieces are raw bytes, which the model must replace by their stand-ins (byte_alphabet.h). */
bool pretokenizer_raw_bytes(const struct pretokenizer *pretokenizer);

/* Cuts `text` [bytes], which must outlive the pieces. `at_start`: the text begins the document. */
MUST_CHECK enum status pretokenizer_apply(const struct pretokenizer *pretokenizer, struct pattern_scratch *scratch,
                                          const char *text, size_t bytes, bool at_start,
                                          struct pretokenizer_pieces *out, struct error *error);

/* Properties of the border between an ASCII letter and a space behind it. harmless: text cut there gives the same
 * pieces. separates: pieces always end there. */
struct pretokenizer_border {
    bool harmless, separates;
};
struct pretokenizer_border pretokenizer_border(const struct pretokenizer *pretokenizer);

#endif

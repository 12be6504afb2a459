/* pretokenizer.h: the "pre_tokenizer" of a tokenizer.json: cuts text into the pieces that BPE works on, one by one. */
#ifndef TOKENIZER_PRETOKENIZER_H
#define TOKENIZER_PRETOKENIZER_H

#include "tokenizer/part.h"
#include "tokenizer/pattern.h"

struct pretokenizer;

struct pretokenizer_piece {
    uint32_t start, end; /* in the text of its pieces; never empty */
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

/* The caller owns *out, also for null (no splitting at all). With `raw_bytes`, which asks whether the model can look up
 * bytes itself, a byte-level step at the end is left to it. STATUS_UNSUPPORTED names what deltaq does not do. */
MUST_CHECK enum status pretokenizer_load(const struct part_document *document, struct json_reader_text span,
                                         bool raw_bytes, struct pretokenizer **out, struct error *error);
void pretokenizer_free(struct pretokenizer *pretokenizer); /* NULL is fine */

/* Whether both cut every text alike by construction: the same steps in the same order. */
bool pretokenizer_same(const struct pretokenizer *a, const struct pretokenizer *b);

/* True when the pieces are bytes whose stand-ins (byte_alphabet.h) the model must take. */
bool pretokenizer_raw_bytes(const struct pretokenizer *pretokenizer);

/* Cuts `text` [bytes], which must outlive the pieces. `at_start`: it is the beginning of the document. */
MUST_CHECK enum status pretokenizer_apply(const struct pretokenizer *pretokenizer, struct pattern_scratch *scratch,
                                          const char *text, size_t bytes, bool at_start,
                                          struct pretokenizer_pieces *out, struct error *error);

/* What is known of a border between an ASCII letter and a space behind it: text cut there gives the same pieces; and
 * whether there is always a border of pieces. */
struct pretokenizer_border {
    bool harmless, separates;
};
struct pretokenizer_border pretokenizer_border(const struct pretokenizer *pretokenizer);

#endif

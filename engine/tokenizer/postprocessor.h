/* postprocessor.h: the "post_processor" of a tokenizer.json, as far as a single text goes: ids put before and after
 * it. */
#ifndef TOKENIZER_POSTPROCESSOR_H
#define TOKENIZER_POSTPROCESSOR_H

#include "tokenizer/part.h"
#include "tokenizer/tokenizer.h"

/* {0}: nothing is added. The owner calls postprocessor_reset. */
struct postprocessor {
    struct token_list before, after;
};

/* STATUS_UNSUPPORTED names what deltaq does not do; STATUS_CORRUPT (a special token without ids, no place for the
 * text). */
MUST_CHECK enum status postprocessor_load(const struct part_document *document, struct json_reader_text span,
                                          struct postprocessor *out, struct error *error);
void postprocessor_reset(struct postprocessor *postprocessor);

#endif

/* postprocessor.h: the "post_processor" of a tokenizer.json for single texts: the ids that it puts before and after a
 * text. */
#ifndef TOKENIZER_POSTPROCESSOR_H
#define TOKENIZER_POSTPROCESSOR_H

#include "tokenizer/part.h"
#include "tokenizer/tokenizer.h"

/* {0}: nothing is added. The owner calls postprocessor_reset. */
struct postprocessor {
    struct token_list before, after;
};

/* STATUS_UNSUPPORTED names the unsupported feature; STATUS_CORRUPT (a special token without ids, no place for the
 * text). */
MUST_CHECK enum status postprocessor_load(const struct part_document *document, struct json_reader_text span,
                                          struct postprocessor *out, struct error *error);
void postprocessor_reset(struct postprocessor *postprocessor);

#endif

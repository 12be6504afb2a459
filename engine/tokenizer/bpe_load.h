/* bpe_load.h: reads the "model" of a tokenizer.json. */
#ifndef TOKENIZER_BPE_LOAD_H
#define TOKENIZER_BPE_LOAD_H

#include "tokenizer/bpe.h"
#include "tokenizer/part.h"

/* Fills *out from the object at `span`. The caller resets *out (bpe_reset), also on failure. STATUS_UNSUPPORTED (a
 * model other than BPE, dropout, affixes of subwords), STATUS_CORRUPT (duplicate contents or ids, merges of missing
 * tokens), STATUS_NO_MEMORY. */
MUST_CHECK enum status bpe_load(const struct part_document *document, struct json_reader_text span, struct bpe *out,
                                struct error *error);

#endif

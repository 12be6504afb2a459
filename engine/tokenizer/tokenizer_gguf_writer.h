/* tokenizer_gguf_writer.h: a tokenizer in the metadata of a GGUF file (tokenizer.ggml.*), from which tokenizer_gguf.h
 * makes one that gives the same ids again.
 *
 * GGUF has a name for a way to split text and no words for it, so only what has one of the names of
 * tokenizer_gguf_steps.h can be said, and SentencePiece-style vocabularies whose merges follow from a score of each
 * piece, which is all that llama.cpp reads. */
#ifndef TOKENIZER_TOKENIZER_GGUF_WRITER_H
#define TOKENIZER_TOKENIZER_GGUF_WRITER_H

#include "formats/gguf/gguf_writer.h"
#include "tokenizer/tokenizer.h"

/* Appends its keys: model, pre, tokens, token_type, merges, scores, the ids of special tokens and whether they are
 * added. Ids that no token has, up to `vocabulary_size` (of the model), become unused ones. STATUS_UNSUPPORTED names
 * what GGUF cannot say of it; STATUS_NO_MEMORY. */
MUST_CHECK enum status tokenizer_gguf_write(const struct tokenizer *tokenizer, int64_t vocabulary_size,
                                            struct gguf_metadata *metadata, struct error *error);

#endif

/* tokenizer_gguf_steps.h: the ways to split text that GGUF has names for (tokenizer.ggml.pre), each as the steps of a
 * tokenizer.json. For the reader and the writer of tokenizers in GGUF files. */
#ifndef TOKENIZER_TOKENIZER_GGUF_STEPS_H
#define TOKENIZER_TOKENIZER_GGUF_STEPS_H

#include "tokenizer/text.h"

/* What stands for a piece in the metadata: llama.cpp's numbers. */
enum tokenizer_gguf_type {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER,
    TOKEN_UNUSED,
    TOKEN_BYTE,
    TOKEN_TYPES
};

/* A byte-level tokenizer whose splitting is known by that name. */
struct tokenizer_gguf_splitting {
    const char *name;
    const char *expression; /* NULL: GPT-2's, which the byte level step has in itself */
    bool digits;            /* each digit by itself, before that */
    bool normal_form;       /* NFC first */
    bool whole_words;       /* a word of the vocabulary is not put together from merges */
    bool begins;            /* the first token is added unless the metadata says otherwise */
};
#define TOKENIZER_GGUF_KNOWN "gpt-2, olmo, mpt, smollm, dbrx, llama-bpe, qwen2 and tekken"

/* The row at `index`, from 0 on; NULL behind the last. */
const struct tokenizer_gguf_splitting *tokenizer_gguf_splitting_at(int index);

/* Appends "normalizer": …, "pre_tokenizer": …, "decoder": …, with a comma behind each. `splitting` NULL:
 * SentencePiece's, `prefix` with a space before every text. */
MUST_CHECK enum status tokenizer_gguf_steps(const struct tokenizer_gguf_splitting *splitting, bool prefix,
                                            struct text *out, struct error *error);

#endif

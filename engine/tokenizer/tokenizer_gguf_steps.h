/* tokenizer_gguf_steps.h: the ways to split text that GGUF has names for (tokenizer.ggml.pre), each as the steps of a
 * tokenizer.json. Used to read and to write tokenizers in GGUF files. */
#ifndef TOKENIZER_TOKENIZER_GGUF_STEPS_H
#define TOKENIZER_TOKENIZER_GGUF_STEPS_H

#include "tokenizer/text.h"

/* Kinds of tokens in the metadata, with llama.cpp's numbers. */
enum tokenizer_gguf_type {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER,
    TOKEN_UNUSED,
    TOKEN_BYTE,
    TOKEN_TYPES
};

/* A byte-level tokenizer; the name stands for its way to split text. */
struct tokenizer_gguf_splitting {
    const char *name;
    const char *expression; /* NULL: GPT-2's, which is part of the byte level step */
    bool digits;            /* each digit is split off first */
    bool normal_form;       /* NFC first */
    bool whole_words;       /* a word in the vocabulary is taken whole, without merges */
    bool begins;            /* the first token is added unless the metadata denies it */
};
#define TOKENIZER_GGUF_KNOWN "gpt-2, olmo, mpt, smollm, dbrx, llama-bpe, qwen2 and tekken"

/* The row at `index`, from 0; NULL behind the last. */
const struct tokenizer_gguf_splitting *tokenizer_gguf_splitting_at(int index);

/* Appends "normalizer": …, "pre_tokenizer": …, "decoder": …, with a comma behind each. `splitting` NULL:
 * SentencePiece's, where `prefix` puts a space before every text. */
MUST_CHECK enum status tokenizer_gguf_steps(const struct tokenizer_gguf_splitting *splitting, bool prefix,
                                            struct text *out, struct error *error);

#endif

/* tokenizer_train.h: learns a byte-level BPE vocabulary from text (Sennrich et al., ACL 2016, with GPT-2's
 * pre-tokenization): the most frequent pair of neighbours inside words becomes a token, again and again. Ties go to the
 * pair with the smaller ids, so the same text gives the same file everywhere. */
#ifndef TOKENIZER_TOKENIZER_TRAIN_H
#define TOKENIZER_TOKENIZER_TRAIN_H

#include "base/error.h"

#include <stdint.h>

enum { TOKENIZER_TRAIN_WORD = 256 }; /* bytes: what is longer is no word of a language */

struct tokenizer_trainer;

/* The caller owns *out (tokenizer_train_free). */
MUST_CHECK enum status tokenizer_train_new(struct tokenizer_trainer **out, struct error *error);

/* Counts the words of `text` [bytes], which is one document, but for those that are too long. STATUS_MALFORMED (not
 * UTF-8), STATUS_TOO_LARGE, STATUS_NO_MEMORY. */
MUST_CHECK enum status tokenizer_train_add(struct tokenizer_trainer *trainer, const char *text, size_t bytes,
                                           struct error *error);

/* The share of all bytes so far that is in words that are too long. */
double tokenizer_train_left_out(const struct tokenizer_trainer *trainer);

/* Learns `vocabulary_size` tokens (257 to 2^20: `<|endoftext|>` is id 0, then the 256 bytes, then merges; fewer tokens
 * when no pair occurs twice any more) and writes a standard tokenizer.json to `path`. STATUS_INVALID, STATUS_DISK_FULL,
 * STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status tokenizer_train_write(struct tokenizer_trainer *trainer, int64_t vocabulary_size,
                                             const char *path, struct error *error);

void tokenizer_train_free(struct tokenizer_trainer *trainer); /* NULL is fine */

#endif

/* tokenizer.h: text to token ids and back, exactly as the Hugging Face tokenizers library does it from the same
 * `tokenizer.json`: byte-level BPE (GPT-2, Pythia, OLMo 2, SmolLM2, Llama 3, Tekken) and SentencePiece-style BPE (Llama
 * 2). Opening refuses unsupported features of a file by name; `truncation` and `padding` are ignored, because callers
 * set these themselves. For callers an open tokenizer does not change: threads may encode with the same one at the same
 * time. */
#ifndef TOKENIZER_TOKENIZER_H
#define TOKENIZER_TOKENIZER_H

#include "base/error.h"
#include "base/monitor.h"

#include <stdint.h>

enum { TOKENIZER_ID_LIMIT = 1 << 24 };           /* ids are below this */
#define TOKENIZER_FILE_LIMIT (INT64_C(64) << 20) /* bytes of a tokenizer.json */
#define TOKENIZER_TEXT_LIMIT (INT64_C(1) << 30)  /* bytes of a text encoded in one call */

struct tokenizer;

/* A growing array of ids. Start with {0}; the caller owns `ids` (tokenizer_list_free). */
struct token_list {
    uint32_t *ids;
    int64_t count, capacity;
};
void tokenizer_list_free(struct token_list *list); /* leaves {0} */

/* Reads the tokenizer.json at `path`, or the tokenizer in the .gguf at `path` (tokenizer_gguf.h). The caller owns *out
 * (tokenizer_close). STATUS_NOT_FOUND, STATUS_TOO_LARGE, STATUS_MALFORMED (not JSON), STATUS_CORRUPT (contradicts
 * itself: duplicate ids, a merge of unknown tokens, ...), STATUS_UNSUPPORTED (names the unsupported part), STATUS_IO,
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status tokenizer_open(const char *path, struct tokenizer **out, struct error *error);

/* Like tokenizer_open, from bytes in memory, which are copied; `name` names the source in messages. */
MUST_CHECK enum status tokenizer_open_memory(const char *name, const char *json, size_t bytes, struct tokenizer **out,
                                             struct error *error);

/* The built-in tokenizer `bytes`: the id of a byte is its value; 256 ids, no special tokens. For models without a
 * tokenizer.json whose vocabulary has at least 256 ids. */
MUST_CHECK enum status tokenizer_open_bytes(struct tokenizer **out, struct error *error);

void tokenizer_close(struct tokenizer *tokenizer); /* NULL is fine */

/* Appends the ids of `text` [bytes] to *out, whose content stays on failure. With `add_special_tokens` also the ids
 * that the file's post-processor adds (a BOS, ...). STATUS_MALFORMED (not UTF-8; says at which byte), STATUS_TOO_LARGE
 * (over TOKENIZER_TEXT_LIMIT), STATUS_UNSUPPORTED (the file's regular expression takes too long on this text),
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                                        bool add_special_tokens, struct token_list *out, struct error *error);

/* Like tokenizer_encode; also checks `monitor` at least once per mebibyte of text: its statuses. */
MUST_CHECK enum status tokenizer_encode_watched(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                                                bool add_special_tokens, const struct monitor *monitor,
                                                struct token_list *out, struct error *error);

/* The text of `ids` [count]; `skip_special` leaves out tokens marked special. Invalid UTF-8 becomes U+FFFD. The caller
 * owns *text (memory_free), NUL-terminated at *bytes. STATUS_INVALID (an id that the tokenizer does not have). */
MUST_CHECK enum status tokenizer_decode(const struct tokenizer *tokenizer, const uint32_t *ids, int64_t count,
                                        bool skip_special, char **text, size_t *bytes, struct error *error);

/* Largest id + 1: the least size of a model's vocabulary. */
int64_t tokenizer_vocabulary_size(const struct tokenizer *tokenizer);

/* The id of the token whose content is exactly `content`, -1 when there is none. */
int64_t tokenizer_find(const struct tokenizer *tokenizer, const char *content);

/* The first (last) token that `add_special_tokens` puts before (after) a text, otherwise the token with a well-known
 * name ("<|endoftext|>", "</s>", ...); -1 when there is none. */
int64_t tokenizer_bos(const struct tokenizer *tokenizer);
int64_t tokenizer_eos(const struct tokenizer *tokenizer);

/* Writes a tokenizer.json that gives the same ids in deltaq and in the tokenizers library: the bytes that were read, or
 * a new one for `bytes`. STATUS_DISK_FULL, STATUS_IO, STATUS_NOT_FOUND (no such directory). */
MUST_CHECK enum status tokenizer_write(const struct tokenizer *tokenizer, const char *path, struct error *error);

/* The bytes of its tokenizer.json, lent until tokenizer_close: for hashing. */
void tokenizer_source(const struct tokenizer *tokenizer, const char **json, size_t *bytes);

#endif

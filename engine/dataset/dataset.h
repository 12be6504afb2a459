/* dataset.h: reads token sequences from text or tokens, for evaluation, calibration and training.
 *
 * Documents: each of these is one document: a line of a jsonl file, a text file, a row of a 2-D array, an inline
 * sequence, a whole 1-D array, a whole .bin file. A directory means its regular files in byte order of their names
 * (without hidden files and subdirectories); format `tokens` reads the .npy and .bin files in it.
 *
 * Packing `blocks`: all documents are joined with no separator and cut into blocks of `sequence_length`; the last
 * partial block is dropped. Packing `documents`: each document is cut to `sequence_length` (its head is kept);
 * documents of 10 tokens or fewer are dropped; nothing is padded. A plain text file is one document in both packings,
 * so `documents` makes at most one sequence of it; use jsonl for many documents. With `sequence_length` 0, `documents`
 * cuts only at `longest`, and `blocks` takes inline sequences or rows of arrays as they are, whatever their lengths,
 * and refuses text.
 *
 * Large files are streamed; the tokens are held in memory, as uint32. */
#ifndef DATASET_DATASET_H
#define DATASET_DATASET_H

#include "base/error.h"
#include "base/monitor.h"
#include "tensor/dtype.h"
#include "tokenizer/tokenizer.h"

#include <stdint.h>

enum dataset_format { DATASET_TEXT, DATASET_JSONL, DATASET_TOKENS, DATASET_INLINE, DATASET_FORMAT_COUNT };
enum dataset_packing { DATASET_BLOCKS, DATASET_DOCUMENTS, DATASET_PACKING_COUNT };

/* "text", "jsonl", "tokens", "inline"; "blocks", "documents"; each ends with NULL. */
extern const char *const dataset_format_names[];
extern const char *const dataset_packing_names[];

/* Sequence i is tokens[starts[i]] to tokens[starts[i + 1] - 1]; starts has count + 1 entries. The caller owns it
 * (dataset_sequences_free). */
struct sequences {
    int64_t count;
    int64_t *starts;
    uint32_t *tokens;
};
void dataset_sequences_free(struct sequences *sequences); /* leaves {0}; {0} is fine */

/* A source of tokens. All pointers are lent for the call. */
struct dataset_source {
    enum dataset_format format;
    const char *path;                /* file or directory; not for inline */
    const char *field;               /* jsonl: the key of the text; NULL: "text" */
    enum dtype dtype;                /* .bin: DTYPE_U8, DTYPE_U16, DTYPE_U32, DTYPE_I32 or DTYPE_I64, little endian */
    const struct sequences *inlined; /* DATASET_INLINE */
};

struct dataset_use {
    enum dataset_packing packing;
    int64_t sequence_length; /* 2 or more; 0: do not cut */
    int64_t longest;         /* the model's largest number of positions, which cuts documents, not blocks; 0: none */
    int64_t max_sequences;   /* reading stops after so many; 0: read all */
    int64_t vocabulary_size; /* ids must be below; 0: not checked */
    int64_t most_tokens;     /* STATUS_TOO_LARGE beyond so many, or beyond 8 bytes of text per token; 0: no limit */
    bool add_special_tokens; /* text, jsonl: once per document */
};

/* Reads sequences. `tokenizer` may be NULL for tokens and inline; `monitor` may be NULL. On STATUS_OK the caller owns
 * *out: at least one sequence, each of at least 2 tokens. STATUS_INVALID (too little text: says how many tokens there
 * were and were needed; an id outside the vocabulary: says which and where; a jsonl line without the field: says which
 * line), STATUS_MALFORMED (a line that is not JSON, text that is not UTF-8), STATUS_CORRUPT (a broken .npy),
 * STATUS_UNSUPPORTED (its dtype, order or version), STATUS_NOT_FOUND, STATUS_CANCELLED, STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status dataset_load(const struct dataset_source *source, const struct dataset_use *use,
                                    const struct tokenizer *tokenizer, const struct monitor *monitor,
                                    struct sequences *out, struct error *error);

/* Reads every token of the source as one stream (documents joined with no separator), for training: *tokens
 * (memory_free) [*count]. */
MUST_CHECK enum status dataset_load_tokens(const struct dataset_source *source, const struct tokenizer *tokenizer,
                                           int64_t vocabulary_size, const struct monitor *monitor, uint32_t **tokens,
                                           int64_t *count, struct error *error);

/* Reads every token of the source with the borders of its documents: sequence i is the i-th document that has a token,
 * whole and however short. The caller owns *out. */
MUST_CHECK enum status dataset_load_documents(const struct dataset_source *source, const struct tokenizer *tokenizer,
                                              int64_t vocabulary_size, const struct monitor *monitor,
                                              struct sequences *out, struct error *error);

/* The files of a source, in the order in which they are read: for hashing and for detecting changes. */
struct dataset_files {
    int64_t count;
    char **paths; /* each and the array owned (dataset_files_free) */
};
MUST_CHECK enum status dataset_files_list(const struct dataset_source *source, struct dataset_files *out,
                                          struct error *error);
void dataset_files_free(struct dataset_files *files); /* leaves {0} */

/* Checks the beginning of each of those files. An error there is STATUS_CORRUPT, STATUS_INVALID or STATUS_UNSUPPORTED
 * and names the file. Errors further on are only found by reading the source. */
MUST_CHECK enum status dataset_look(const struct dataset_source *source, struct error *error);

#endif

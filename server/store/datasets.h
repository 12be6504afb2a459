/* datasets.h: the sources of tokens. A reference is an id or a name. Document: id, name, format ("text", "jsonl",
 * "tokens", "sequences"), the rest of its definition (path, field, dtype, add_special_tokens), sequences (count; null
 * unless inline), tokens (count; null unless inline), sha256, created_at. */
#ifndef STORE_DATASETS_H
#define STORE_DATASETS_H

#include "store/store.h"

/* The numbers of an inline dataset: the lengths of its sequences, and their tokens, one sequence after another. */
enum dataset_part { DATASET_PART_LENGTHS, DATASET_PART_TOKENS, DATASET_PARTS };

/* Inline token sequences, from memory or a request. */
struct dataset_sequences {
    int64_t counts[DATASET_PARTS]; /* of numbers; both at least 1 */
    const void *owner;             /* lent, for `read` */
    /* Copies numbers first … first + count of a part into `out`; the same numbers may be asked for again. */
    enum status (*read)(const void *owner, enum dataset_part part, int64_t first, int64_t count, int32_t *out,
                        struct error *error);
};

struct dataset_new {
    const char *name;
    const char *format;
    const json_t *definition;                  /* {"path", "field", ...}; {} for inline ones */
    const struct dataset_sequences *sequences; /* or NULL */
    const char *fingerprint;                   /* sizes and samples of the files; NULL: inline */
    const char *sha256; /* hash of the content; NULL: the files were not hashed yet (dataset_set_content) */
};

struct dataset {
    struct store_id id;
    char name[STORE_NAME];
    char format[16];
    char fingerprint[65], sha256[65]; /* "": not known */
    json_t *definition;               /* owns */
    bool inline_sequences;
    int64_t counts[DATASET_PARTS]; /* of inline sequences */
};

/* Inline sequences are written in chunks of one mebibyte; each chunk is a statement with its own deadline.
 * STATUS_CONFLICT: another dataset has the name, or a deleted one had it whose measurements are kept and whose data is
 * other. */
MUST_CHECK enum status dataset_insert(struct connection *connection, const struct dataset_new *dataset,
                                      enum store_outcome *outcome, json_t **document, struct error *error);
/* *out is filled for dataset_reset. STATUS_NOT_FOUND. */
MUST_CHECK enum status dataset_find(struct connection *connection, const char *reference, struct dataset *out,
                                    struct error *error);
void dataset_reset(struct dataset *dataset);
/* Copies all numbers of a part of an inline dataset into `out` [counts[part]], in chunks. STATUS_CORRUPT when the
 * database has fewer or more. */
MUST_CHECK enum status dataset_numbers(struct connection *connection, const struct dataset *dataset,
                                       enum dataset_part part, int32_t *out, struct error *error);
/* Stores the content hash that the first run over large files computes. STATUS_INPUT_CHANGED when another one is stored
 * already, or a deleted dataset of the name had another one and its measurements are kept. */
MUST_CHECK enum status dataset_set_content(struct connection *connection, const struct store_id *id, const char *sha256,
                                           struct error *error);
MUST_CHECK enum status dataset_get(struct connection *connection, const char *reference, json_t **document,
                                   struct error *error);
MUST_CHECK enum status dataset_list(struct connection *connection, const struct list_filter *filter,
                                    const struct page *page, json_t **document, struct error *error);
/* The name under which measurements are of that dataset, given by name or id; also of one that was deleted, if a run
 * had read it. "": there is none. */
MUST_CHECK enum status dataset_name_measured(struct connection *connection, const char *reference, char out[STORE_NAME],
                                             struct error *error);
/* STATUS_CONFLICT while a queued or running run uses it. */
MUST_CHECK enum status dataset_delete(struct connection *connection, const char *reference, struct error *error);

#endif

/* datasets.h: where tokens come from. A reference is an id or a name.
 * Document: id, name, format ("text", "jsonl", "tokens", "sequences"), the rest of its definition (path, field, dtype,
 * add_special_tokens), sequences (count; null unless inline), tokens (count; null unless inline), sha256,
 * created_at. */
#ifndef STORE_DATASETS_H
#define STORE_DATASETS_H

#include "store/store.h"

/* Inline token sequences: `tokens` holds them one after another. */
struct dataset_sequences {
    int64_t count;
    int32_t *lengths; /* [count] */
    int32_t *tokens;  /* [sum of lengths] */
    int64_t tokens_count;
};

struct dataset_new {
    const char *name;
    const char *format;
    const json_t *definition;                  /* {"path", "field", ...}; {} for inline ones */
    const struct dataset_sequences *sequences; /* or NULL */
    const char *fingerprint;                   /* sizes and samples of the files; NULL: inline */
    const char *sha256;                        /* of the content; NULL: not known yet (dataset_set_content) */
};

struct dataset {
    struct store_id id;
    char name[256];
    char format[16];
    char fingerprint[65], sha256[65]; /* "": not known */
    json_t *definition;               /* owns */
    bool inline_sequences;
};

MUST_CHECK enum status dataset_insert(struct connection *connection, const struct dataset_new *dataset,
                                      enum store_outcome *outcome, json_t **document, struct error *error);
/* *out is filled for dataset_reset. STATUS_NOT_FOUND. */
MUST_CHECK enum status dataset_find(struct connection *connection, const char *reference, struct dataset *out,
                                    struct error *error);
void dataset_reset(struct dataset *dataset);
/* The tokens of an inline dataset; dataset_sequences_reset frees what is in *out. (dataset/dataset.h has the name
 * dataset_load.) */
MUST_CHECK enum status dataset_contents(struct connection *connection, const struct store_id *id,
                                        struct dataset_sequences *out, struct error *error);
void dataset_sequences_reset(struct dataset_sequences *sequences);
/* Stores the content hash that the first run over large files computes. STATUS_INPUT_CHANGED when another one is stored
 * already. */
MUST_CHECK enum status dataset_set_content(struct connection *connection, const struct store_id *id, const char *sha256,
                                           struct error *error);
MUST_CHECK enum status dataset_get(struct connection *connection, const char *reference, json_t **document,
                                   struct error *error);
MUST_CHECK enum status dataset_list(struct connection *connection, const struct page *page, json_t **document,
                                    struct error *error);
/* STATUS_CONFLICT while a queued or running run uses it. */
MUST_CHECK enum status dataset_delete(struct connection *connection, const char *reference, struct error *error);

#endif

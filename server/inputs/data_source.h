/* data_source.h: a registered dataset as the engine reads it, and the hash of what is in it. */
#ifndef INPUTS_DATA_SOURCE_H
#define INPUTS_DATA_SOURCE_H

#include "base/param.h"
#include "dataset/dataset.h"
#include "inputs/hash.h"
#include "store/datasets.h"

/* How a run uses a dataset; its tables are data_source_evaluation and data_source_calibration. */
struct data_use {
    const char *dataset;                    /* id */
    int64_t sequence_length, max_sequences; /* 0: as they are; all */
    int packing;                            /* enum dataset_packing */
};
extern const struct param data_source_evaluation[], data_source_calibration[];

/* The default of sequence_length, in tokens. */
enum { DATA_SOURCE_LENGTH = 2048 };

/* Rows that fill a struct data_use `base` bytes into the struct that is filled. */
/* clang-format off */
#define DATA_SOURCE_PARAMS(base, packing_fallback) \
    {.name = "dataset", .type = PARAM_DATASET, .offset = (base) + offsetof(struct data_use, dataset), \
     .help = "Id or name of the dataset"}, \
    {.name = "sequence_length", .type = PARAM_INTEGER, .offset = (base) + offsetof(struct data_use, sequence_length), \
     .fallback = "2048", .minimum = 2, .maximum = 1 << 24, .nullable = true, \
     .help = "Tokens of a sequence; null: documents as they are. The default is no more than the model's positions," \
             " and null for sequences given inline, sent or not"}, \
    {.name = "packing", .type = PARAM_CHOICE, .schema = "Packing", \
     .offset = (base) + offsetof(struct data_use, packing), \
     .fallback = packing_fallback, .choices = dataset_packing_names, \
     .help = "blocks: all documents joined, then cut; documents: each one cut"}, \
    {.name = "max_sequences", .type = PARAM_INTEGER, .offset = (base) + offsetof(struct data_use, max_sequences), \
     .fallback = "null", .minimum = 1, .maximum = 1 << 30, .nullable = true, \
     .help = "Most sequences that are read; null: all"}
/* clang-format on */

struct hub_cache_hold;

struct data_source {
    struct dataset row;
    struct dataset_source source; /* what the engine is given */
    struct sequences inlined;     /* owned */
    char fetched[4096];           /* where an object of a bucket lies on this machine */
    struct hub_cache_hold *hold;  /* keeps it there; owned */
    int add_special_tokens;       /* -1: as the use has it */
};

struct run_context;

/* The dataset `id`; one in a bucket is fetched (object_file.h). Else with its path checked against the roots and its
 * files against the registered ones (STATUS_INPUT_CHANGED): by their hash, or large ones by their fingerprint, and then
 * hashed if nobody has yet. The caller resets *out. */
MUST_CHECK enum status data_source_open(const struct run_context *context, const char *id, struct data_source *out,
                                        struct error *error);
void data_source_reset(struct data_source *source);

/* From a definition {"path", "field", "dtype"} and a format of the API; lent from both. STATUS_INVALID. */
MUST_CHECK enum status data_source_parse(const char *format, const json_t *definition, struct dataset_source *out,
                                         struct error *error);

/* What is known of its files when they are registered: sizes and samples, and SHA-256 over all bytes ("": too many to
 * hash at once). */
struct data_source_files {
    char fingerprint[HASH_TEXT], sha256[HASH_TEXT];
};
/* `monitor` may be NULL; its statuses are given. */
MUST_CHECK enum status data_source_read(const struct dataset_source *source, const struct monitor *monitor,
                                        struct data_source_files *out, struct error *error);

/* Tokens that the dataset may hold: a text has no more of them than bytes, a file of tokens at most one for two bytes.
 * STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status data_source_tokens_at_most(const struct data_source *source, int64_t *out, struct error *error);

/* Whether a tokenizer is needed. */
bool data_source_is_text(const struct dataset_source *source);

#endif

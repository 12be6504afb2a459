/* data_source.h: opens a registered dataset for the engine, and hashes its content. */
#ifndef INPUTS_DATA_SOURCE_H
#define INPUTS_DATA_SOURCE_H

#include "base/param.h"
#include "dataset/dataset.h"
#include "inputs/hash.h"
#include "store/datasets.h"

/* How a run uses a dataset; its tables are data_source_evaluation and data_source_calibration. */
struct data_use {
    const char *dataset;                    /* id */
    int64_t sequence_length, max_sequences; /* 0: sequences as they are, and all of them */
    int packing;                            /* enum dataset_packing */
};
extern const struct param data_source_evaluation[], data_source_calibration[];

/* The default of sequence_length, in tokens. */
enum { DATA_SOURCE_LENGTH = 2048 };

/* Rows that fill a struct data_use at offset `base` of the filled struct. */
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
     .help = "blocks: all documents joined, then cut, without the shorter rest; documents: the head of each one of" \
             " more than 10 tokens, so a text file is one sequence"}, \
    {.name = "max_sequences", .type = PARAM_INTEGER, .offset = (base) + offsetof(struct data_use, max_sequences), \
     .fallback = "null", .minimum = 1, .maximum = 1 << 30, .nullable = true, \
     .help = "Most sequences that are read; null: all"}
/* clang-format on */

struct hub_cache_hold;

struct data_source {
    struct dataset row;
    struct dataset_source source; /* the part that the engine gets */
    struct sequences inlined;     /* owned */
    char fetched[4096];           /* the path on this machine of an object from a bucket */
    struct hub_cache_hold *hold;  /* keeps that file from eviction; owned */
    int add_special_tokens;       /* -1: as the use decides */
};

struct run_context;

/* Opens the dataset `id`. One in a bucket is fetched (object_file.h). The path of any other is checked against the
 * roots, and its files against the registered ones (STATUS_INPUT_CHANGED): by their hash, or for large files by their
 * fingerprint; large files are hashed now if nobody has done so. The caller resets *out. */
MUST_CHECK enum status data_source_open(const struct run_context *context, const char *id, struct data_source *out,
                                        struct error *error);
void data_source_reset(struct data_source *source);

/* Makes a source from a definition {"path", "field", "dtype"} and a format of the API; lent from both.
 * STATUS_INVALID. */
MUST_CHECK enum status data_source_parse(const char *format, const json_t *definition, struct dataset_source *out,
                                         struct error *error);

/* Properties of its files at registration: sizes and samples, and SHA-256 over all bytes ("": too many to hash at
 * once). */
struct data_source_files {
    char fingerprint[HASH_TEXT], sha256[HASH_TEXT];
};
/* `monitor` may be NULL; its statuses are returned. */
MUST_CHECK enum status data_source_read(const struct dataset_source *source, const struct monitor *monitor,
                                        struct data_source_files *out, struct error *error);

/* An upper bound on the tokens of the dataset: a text has at most as many as bytes, a file of tokens at most one in two
 * bytes. STATUS_IO, STATUS_NO_MEMORY. */
MUST_CHECK enum status data_source_tokens_at_most(const struct data_source *source, int64_t *out, struct error *error);

/* Whether the source needs a tokenizer. */
bool data_source_is_text(const struct dataset_source *source);

#endif

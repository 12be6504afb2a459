/* dataset_sink.h: takes tokens from the readers of a dataset, checks them and packs them into sequences. */
#ifndef DATASET_DATASET_SINK_H
#define DATASET_DATASET_SINK_H

#include "dataset/dataset.h"

struct dataset_sink {
    const struct dataset_use *use;
    struct sequences out;
    int64_t tokens_capacity, starts_capacity;
    int64_t total;     /* tokens held in `out` */
    int64_t begin;     /* index of the open document's first token in `out` */
    int64_t seen;      /* tokens of the open document, cut or not */
    int64_t documents; /* finished, kept or not */
    int64_t found;     /* tokens of all documents, cut or not */
    int64_t longest;   /* length of the longest document so far */
    int64_t text_read; /* bytes */
    bool raw;          /* keep all tokens as one sequence, or as one of each document */
    bool apart;        /* raw: each document is a sequence, whatever its length */
};

/* Appends tokens to the open document. STATUS_INVALID (outside the vocabulary: says which and where),
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status dataset_sink_put(struct dataset_sink *sink, const uint32_t *tokens, int64_t count,
                                        struct error *error);
/* Counts `bytes` more of text. STATUS_TOO_LARGE: more text than use->most_tokens allows. */
MUST_CHECK enum status dataset_sink_read(struct dataset_sink *sink, size_t bytes, struct error *error);

/* Ends the open document. */
MUST_CHECK enum status dataset_sink_end(struct dataset_sink *sink, struct error *error);

/* Refuses the number `token`, which cannot be a token and comes `ahead` tokens after those put so far:
 * STATUS_INVALID. */
MUST_CHECK enum status dataset_sink_refuse(const struct dataset_sink *sink, int64_t ahead, int64_t token,
                                           struct error *error);

/* True when no further token of the open document (of any document) will be kept. */
bool dataset_sink_document_full(const struct dataset_sink *sink);
bool dataset_sink_full(const struct dataset_sink *sink);

/* Hands the sequences over. STATUS_INVALID when there is none. The sink is then empty either way. */
MUST_CHECK enum status dataset_sink_finish(struct dataset_sink *sink, struct sequences *out, struct error *error);

#endif

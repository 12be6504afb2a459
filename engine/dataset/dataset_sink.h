/* dataset_sink.h: where the readers of a dataset put tokens: checks them and packs them into sequences. */
#ifndef DATASET_DATASET_SINK_H
#define DATASET_DATASET_SINK_H

#include "dataset/dataset.h"

struct dataset_sink {
    const struct dataset_use *use;
    struct sequences out;
    int64_t tokens_capacity, starts_capacity;
    int64_t total;     /* tokens held in `out` */
    int64_t begin;     /* where the open document begins in them */
    int64_t seen;      /* tokens of the open document, cut or not */
    int64_t documents; /* finished, kept or not */
    int64_t found;     /* tokens of all documents, cut or not */
    int64_t longest;   /* document met */
    int64_t text_read; /* bytes */
    bool raw;          /* keep everything as one run of tokens */
};

/* Appends tokens to the open document. STATUS_INVALID (outside the vocabulary: says which and where),
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status dataset_sink_put(struct dataset_sink *sink, const uint32_t *tokens, int64_t count,
                                        struct error *error);
/* `bytes` more of text were read. STATUS_TOO_LARGE: more than use->most_tokens may have. */
MUST_CHECK enum status dataset_sink_read(struct dataset_sink *sink, size_t bytes, struct error *error);

/* The document ends. */
MUST_CHECK enum status dataset_sink_end(struct dataset_sink *sink, struct error *error);

/* A number that can be no token, `ahead` tokens behind those put so far: STATUS_INVALID. */
MUST_CHECK enum status dataset_sink_refuse(const struct dataset_sink *sink, int64_t ahead, int64_t token,
                                           struct error *error);

/* Nothing more of the open document (of any document) can matter. */
bool dataset_sink_document_full(const struct dataset_sink *sink);
bool dataset_sink_full(const struct dataset_sink *sink);

/* Hands the sequences over. STATUS_INVALID when there is none. The sink is then empty either way. */
MUST_CHECK enum status dataset_sink_finish(struct dataset_sink *sink, struct sequences *out, struct error *error);

#endif

/* dataset_reader.h: the readers of a dataset's files, one a format. Each puts what it reads into the sink until that is
 * full. */
#ifndef DATASET_DATASET_READER_H
#define DATASET_DATASET_READER_H

#include "dataset/dataset_sink.h"

struct dataset_reader {
    const struct dataset_source *source;
    const struct tokenizer *tokenizer;
    const struct monitor *monitor;
    bool add_special_tokens;
    struct dataset_sink *sink;
};

MUST_CHECK enum status dataset_reader_text(struct dataset_reader *reader, const char *path, struct error *error);
MUST_CHECK enum status dataset_reader_jsonl(struct dataset_reader *reader, const char *path, struct error *error);
MUST_CHECK enum status dataset_reader_tokens(struct dataset_reader *reader, const char *path, struct error *error);

#endif

/* dataset_reader.h: the readers of a dataset's files, one per format. Each puts tokens into the sink until it is
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

/* Checks the beginning of a file before it is read: for tokens the header (type, shape, size); for text and jsonl that
 * the first 64 KiB are UTF-8; for jsonl also that the lines in them have the field. Statuses of the readers. */
MUST_CHECK enum status dataset_reader_look_tokens(const struct dataset_source *source, const char *path,
                                                  struct error *error);
MUST_CHECK enum status dataset_reader_look_text(const struct dataset_source *source, const char *path,
                                                struct error *error);

#endif

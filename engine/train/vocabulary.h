/* vocabulary.h: learns a tokenizer from the text that a model will be trained on. */
#ifndef TRAIN_VOCABULARY_H
#define TRAIN_VOCABULARY_H

#include "base/monitor.h"
#include "dataset/dataset.h"

/* Learns a byte-level BPE of `vocabulary_size` tokens from all text of the source (text or jsonl) and writes it to
 * `path`. Words are counted within each document (dataset.h). STATUS_INVALID (the source is not text); statuses of
 * dataset_load_documents and tokenizer_train_write. */
MUST_CHECK enum status vocabulary_learn(const struct dataset_source *source, int64_t vocabulary_size, const char *path,
                                        const struct monitor *monitor, struct error *error);

#endif

/* gguf_config.h: the metadata of a GGUF file as the text of a config.json, with the keys that the Hugging Face layout
 * has for them. */
#ifndef GGUF_GGUF_CONFIG_H
#define GGUF_GGUF_CONFIG_H

#include "formats/gguf/gguf.h"

#define GGUF_CONFIG_ROPE_TENSOR \
    "rope_freqs.weight" /* divisors of the rotary frequencies: llama3 scaling is stored as these */

/* Rows of a query or key head: key_length, else embedding_length / head_count. 0 when the metadata does not say. */
int64_t gguf_config_head_rows(const struct gguf *file);

/* The value of "ARCHITECTURE.rest", a whole number. */
bool gguf_config_integer(const struct gguf *file, const char *rest, int64_t *out);

/* Of a model in `count` files, the metadata in the first. The caller frees *out. STATUS_UNSUPPORTED (frequency divisors
 * that no known scaling gives), STATUS_NO_MEMORY, statuses of gguf_read_f32. What is missing is left out: whoever reads
 * a config.json says what it lacks. */
MUST_CHECK enum status gguf_config_text(struct gguf *const *files, int count, char **out, struct error *error);

#endif

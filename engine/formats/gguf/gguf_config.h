/* gguf_config.h: converts the metadata of a GGUF file to the text of a config.json with Hugging Face's keys. */
#ifndef GGUF_GGUF_CONFIG_H
#define GGUF_GGUF_CONFIG_H

#include "formats/gguf/gguf.h"

/* A tensor of divisors of the rotary frequencies, as which llama3 scaling is stored. */
#define GGUF_CONFIG_ROPE_TENSOR "rope_freqs.weight"

/* Rows of a query or key head: key_length, else embedding_length / head_count; 0 when the metadata has neither. */
int64_t gguf_config_head_rows(const struct gguf *file);

/* The value of "ARCHITECTURE.rest", a whole number. */
bool gguf_config_integer(const struct gguf *file, const char *rest, int64_t *out);

/* The text for a model in `count` files; the first has the metadata. The caller frees *out. Missing metadata is left
 * out of the text, because the readers of a config.json report what it lacks. STATUS_UNSUPPORTED (frequency divisors
 * that no known scaling gives; a sliding window in an architecture that has none here), STATUS_NO_MEMORY, statuses of
 * gguf_read_f32. */
MUST_CHECK enum status gguf_config_text(struct gguf *const *files, int count, char **out, struct error *error);

#endif

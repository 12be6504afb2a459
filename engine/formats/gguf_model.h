/* gguf_model.h: a GGUF file as a checkpoint in the words of the Hugging Face layout: tensor names, the order of rows, and metadata
 * as the text of a config.json. Converters of GGUF rename tensors and, for some architectures, reorder the rows of queries and keys
 * so that rotated pairs are neighbours; both are undone. */
#ifndef FORMATS_GGUF_MODEL_H
#define FORMATS_GGUF_MODEL_H

#include "formats/gguf.h"

struct gguf_model;

struct gguf_model_tensor {
    char *name; /* owned by the model: "model.layers.0.self_attn.q_proj.weight" */
    const struct gguf_tensor *stored;
    int64_t head_rows; /* not 0: rows are interleaved within heads of so many */
};

/* Takes `file`, also on failure. STATUS_UNSUPPORTED (an architecture, a mixture of experts, a part of a split file, a tensor that
 * has no counterpart), STATUS_INVALID (metadata that does not fit the tensors), STATUS_NO_MEMORY. The caller owns *out. */
MUST_CHECK enum status gguf_model_new(struct gguf *file, struct gguf_model **out, struct error *error);
void gguf_model_free(struct gguf_model *model); /* NULL is fine */

const struct gguf *gguf_model_file(const struct gguf_model *model);
int64_t gguf_model_count(const struct gguf_model *model);
const struct gguf_model_tensor *gguf_model_tensor(const struct gguf_model *model, int64_t index); /* ascending by name */
const char *gguf_model_config(const struct gguf_model *model); /* the text of a config.json; lent */

/* As gguf_read_f32, rows in the order that their names promise. */
MUST_CHECK enum status gguf_model_read_f32(const struct gguf_model *model, int64_t index, int64_t first, int64_t count, float *out,
                                           struct error *error);

#endif

/* gguf_model.h: a GGUF file as a checkpoint in the Hugging Face layout: tensor names, the order of rows, and metadata
 * as the text of a config.json. Converters of GGUF rename tensors and, for some architectures, reorder the rows of
 * queries and keys so that rotated pairs are neighbours, and store the experts of a layer in one tensor; the reader
 * undoes all of it. */
#ifndef GGUF_GGUF_MODEL_H
#define GGUF_GGUF_MODEL_H

#include "formats/gguf/gguf.h"

struct gguf_model;

struct gguf_model_tensor {
    char *name; /* owned by the model: "model.layers.0.self_attn.q_proj.weight" */
    const struct gguf_tensor *stored;
    int part;          /* file that it lies in */
    int64_t head_rows; /* not 0: rows are interleaved within heads of so many */
    /* The file keeps the experts of a layer in one tensor [experts, ...]; then this is one expert, otherwise all of
     * `stored`. */
    int64_t first, elements, bytes; /* elements before it in `stored`; its own elements; their bytes */
    int rank;
    const int64_t *shape; /* [rank]; lent by `stored` */
};

/* Opens the model at `path` below the descriptor `directory`: a file, or the first part of a split one
 * (X-00001-of-0000N.gguf), whose other parts lie beside it. The caller owns *out. STATUS_UNSUPPORTED (an architecture,
 * a tensor that has no counterpart), STATUS_INVALID (metadata that does not fit the tensors; a part that is not the
 * first), STATUS_NOT_FOUND (the file, a part), STATUS_CORRUPT (parts that do not belong together), statuses of
 * gguf_open. */
MUST_CHECK enum status gguf_model_open(int directory, const char *path, struct gguf_model **out, struct error *error);
void gguf_model_close(struct gguf_model *model); /* NULL is fine */

/* Its files; part 0 has the metadata. */
int gguf_model_parts(const struct gguf_model *model);
const struct gguf *gguf_model_part(const struct gguf_model *model, int part);
int64_t gguf_model_count(const struct gguf_model *model);
const struct gguf_model_tensor *gguf_model_tensor(const struct gguf_model *model,
                                                  int64_t index); /* ascending by name */
const char *gguf_model_config(const struct gguf_model *model);    /* the text of a config.json; lent */

/* Like gguf_read_f32, with rows in the order of the Hugging Face layout. */
MUST_CHECK enum status gguf_model_read_f32(const struct gguf_model *model, int64_t index, int64_t first, int64_t count,
                                           float *out, struct error *error);

#endif

/* model.h: a checkpoint as a model: its configuration, its blocks' programs, and where its tensors are. Opening reads
 * headers alone; loader.h reads the blocks, one at a time. */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "model/config.h"
#include "model/decoder.h"
#include "weights/weights.h"

struct model {
    struct model_config config;
    struct weights *weights;  /* owned */
    struct program *programs; /* [config.layers], owned */
    struct decoder_ends ends;
    int64_t parameters; /* trainable numbers; a tied matrix counts once */
};

/* Opens the checkpoint at `path` (weights_open, recognise_config) and checks that the file has every tensor of the
 * architecture, with its shape and a floating point dtype, and no tensor that the architecture does not use. The caller
 * owns *out (model_close). Statuses of both, and STATUS_INVALID, STATUS_UNSUPPORTED naming the tensor. */
MUST_CHECK enum status model_open(const char *path, struct model **out, struct error *error);
/* model_open with `config` (may be NULL), the text of a JSON object whose keys have precedence over those of
 * config.json (weights_give_config). */
MUST_CHECK enum status model_open_as(const char *path, const char *config, struct model **out, struct error *error);
/* model_open for open weights, which the model takes, also on failure. Their directory has config.json. */
MUST_CHECK enum status model_of_weights(struct weights *weights, struct model **out, struct error *error);
/* Checks that `weights` (lent) are those of a model with this configuration; else the status and the reason. */
MUST_CHECK enum status model_fits(const struct weights *weights, const struct model_config *config,
                                  struct error *error);
void model_close(struct model *model); /* NULL is fine */

/* Reads a tensor into dense memory, [rows, columns], in parts that the team's threads share (NULL: the caller alone). A
 * tensor stored transposed goes through `scratch` of as many floats (NULL: its own). STATUS_NOT_FINITE names the tensor
 * and the first bad element; statuses of weights_read_f32. */
MUST_CHECK enum status model_read_dense(const struct model *model, const struct parameter *parameter, float *to,
                                        float *scratch, struct team *team, struct error *error);
/* How model_read_stored reads a tensor: BF16 or F16, if it is stored so and in the order in which it is used; else
 * F32. */
enum dtype model_stored_dtype(const struct model *model, const struct parameter *parameter);
/* model_read_dense, into dense elements of that dtype. */
MUST_CHECK enum status model_read_stored(const struct model *model, const struct parameter *parameter, void *to,
                                         struct team *team, struct error *error);
/* model_read_dense into a matrix: host backends read directly into it; others through `staging`, of at least as many
 * floats (otherwise NULL). */
MUST_CHECK enum status model_read(const struct model *model, struct backend *backend, const struct parameter *parameter,
                                  struct matrix to, float *staging, struct error *error);

/* Reads a tensor into memory of its own; to a device with the threads of the backend's team, which must be idle. The
 * caller releases to->data through the backend. */
MUST_CHECK enum status model_load(const struct model *model, struct backend *backend, const struct parameter *parameter,
                                  struct matrix *to, struct error *error);

/* Cosines and sines of `positions` positions, [positions, rotary / 2] each, in one block that the caller releases
 * (cosine->data). */
MUST_CHECK enum status model_rope_tables(const struct model_config *config, struct backend *backend, int64_t positions,
                                         struct matrix *cosine, struct matrix *sine, struct error *error);

/* Bytes that the tables take of the backend's memory, and of the host's while they are made. */
int64_t model_rope_bytes(const struct model_config *config, const struct backend *backend, int64_t positions);
int64_t model_rope_making_bytes(const struct model_config *config, int64_t positions);

#endif

/* recognise.h: which architecture a checkpoint is of, and its configuration, from all that says something of it: what
 * was given with the registration, config.json, what the files of weights say themselves (GGUF), names and shapes of
 * tensors. */
#ifndef MODEL_RECOGNISE_H
#define MODEL_RECOGNISE_H

#include "model/config.h"
#include "weights/weights.h"

/* For each key the first of these that has it counts: weights_given_config, config.json beside the weights,
 * weights_config, and what the tensors show (widths, layers, whether the output matrix is tied, biases). A model_type
 * that deltaq has is believed, and held against the tensors when the model is opened; one of somebody's own is refused,
 * with advice; without any the architectures are tried: the one that uses every tensor and lacks none is taken. Where
 * several do, `architectures` decides, then keys that only one of them reads (no_rope_layers, sliding_window), then the
 * order of the rows: Llama goes before what is built like it. STATUS_NOT_FOUND (nothing but tensors: they do not show
 * heads or positions), STATUS_UNSUPPORTED (no architecture fits), statuses of config_parse. */
MUST_CHECK enum status recognise_config(const struct weights *weights, struct model_config *out, struct error *error);

/* The same as the text of a config.json, for those who write checkpoints. The caller frees *out (memory_free). */
MUST_CHECK enum status recognise_text(const struct weights *weights, char **out, size_t *size, struct error *error);

#endif

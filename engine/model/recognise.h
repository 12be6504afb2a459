/* recognise.h: the architecture and the configuration of a checkpoint, from all sources: what was given with the
 * registration, config.json, the metadata of weights (GGUF), names and shapes of tensors. */
#ifndef MODEL_RECOGNISE_H
#define MODEL_RECOGNISE_H

#include "model/config.h"
#include "weights/weights.h"

/* Each key is taken from the first of these sources that has it: weights_given_config, config.json beside the weights,
 * weights_config, and the tensors (widths, layers, whether the output matrix is tied, biases). A known model_type is
 * used, and checked against the tensors when the model is opened. An unknown one is refused, with advice. Without a
 * model_type, the architecture is the one that uses every tensor and lacks none. If several such architectures exist,
 * `architectures` decides, then keys that only one of them reads (no_rope_layers, sliding_window), then the order of
 * the rows: Llama precedes those that are built like it. A class in `architectures` that is another one is refused as
 * an unknown model_type is. STATUS_NOT_FOUND (only tensors, which do not show heads or
 * positions), STATUS_UNSUPPORTED (no architecture fits), statuses of config_parse. */
MUST_CHECK enum status recognise_config(const struct weights *weights, struct model_config *out, struct error *error);

/* recognise_config as the text of a config.json, for writers of checkpoints. The caller frees *out (memory_free). */
MUST_CHECK enum status recognise_text(const struct weights *weights, char **out, size_t *size, struct error *error);

#endif

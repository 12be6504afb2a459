/* decoder.h: builds a block's program, and names the tensors around the blocks, from a configuration. */
#ifndef MODEL_DECODER_H
#define MODEL_DECODER_H

#include "model/config.h"
#include "model/program.h"

/* The program of block `layer`, in [0, config->layers). */
void decoder_block(const struct model_config *config, int64_t layer, struct program *out);

/* The tensors outside the blocks: embedding [V, d]; norm weight and bias [1, d] (name "" when absent); output [V, d] (the embedding
 * itself when tied). */
struct decoder_ends {
    struct parameter embedding, norm_weight, norm_bias, output;
};
void decoder_ends(const struct model_config *config, struct decoder_ends *out);

#endif

/* decoder.h: builds the program of a block from a configuration, and names the tensors outside the blocks. */
#ifndef MODEL_DECODER_H
#define MODEL_DECODER_H

#include "model/config.h"
#include "model/program.h"

/* The program of block `layer`, in [0, config->layers). */
void decoder_block(const struct model_config *config, int64_t layer, struct program *out);

/* The tensors outside the blocks; name "" when absent. Embeddings have `e` columns, which is d without projections:
 * embedding [V, e]; positions [P, d], learned ones; project_in [d, e]; norm weight and bias [1, d]; project_out [e, d];
 * output [V, e] (the embedding itself when tied). */
struct decoder_ends {
    struct parameter embedding, positions, project_in, norm_weight, norm_bias, project_out, output;
};
void decoder_ends(const struct model_config *config, struct decoder_ends *out);

/* The tensors that exist, without a tied output: pointers into `ends`, in the order above. Returns their number. */
enum { DECODER_ENDS = 7 };
int decoder_ends_list(const struct decoder_ends *ends, bool tied, const struct parameter *list[DECODER_ENDS]);

#endif

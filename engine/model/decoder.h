/* decoder.h: builds a block's program, and names the tensors around the blocks, from a configuration. */
#ifndef MODEL_DECODER_H
#define MODEL_DECODER_H

#include "model/config.h"
#include "model/program.h"

/* The program of block `layer`, in [0, config->layers). */
void decoder_block(const struct model_config *config, int64_t layer, struct program *out);

/* The tensors outside the blocks; name "" when absent. Embeddings have `e` columns, d unless the projections stand
 * between: embedding [V, e]; positions [P, d], learned ones; project_in [d, e]; norm weight and bias [1, d];
 * project_out [e, d]; output [V, e] (the embedding itself when tied). */
struct decoder_ends {
    struct parameter embedding, positions, project_in, norm_weight, norm_bias, project_out, output;
};
void decoder_ends(const struct model_config *config, struct decoder_ends *out);

/* Those that are there, a tied output left out: pointers into `ends`, in the order above. Returns how many. */
enum { DECODER_ENDS = 7 };
int decoder_ends_list(const struct decoder_ends *ends, bool tied, const struct parameter *list[DECODER_ENDS]);

#endif

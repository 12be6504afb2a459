/* work.h: the arithmetic of a forward pass: multiplications and additions of matrix products, attention, convolutions
 * and scans. Operations on single rows (norms, activations, sums) are not counted. */
#ifndef MODEL_WORK_H
#define MODEL_WORK_H

#include "model/chunks.h"
#include "model/program.h"

/* Work of steps [from, to) of a block over the tokens of `chunks`, forward. */
double work_steps(const struct program *program, int from, int to, const struct chunks *chunks);

/* Work of all blocks. */
struct model_config;
double work_blocks(const struct model_config *config, const struct program *programs, const struct chunks *chunks);

/* Work of the head on `tokens` tokens: the projection before it, and the logits. */
double work_head(const struct model_config *config, int64_t tokens);

#endif

/* walk.h: walks over a block's steps with the memory they need. A walk holds the slots of one chunk of tokens; the same walk serves
 * every block of a model and every chunk, in turn. */
#ifndef MODEL_WALK_H
#define MODEL_WALK_H

#include "model/chunks.h"
#include "model/model.h"

enum walk_kind {
    WALK_FORWARD, /* slots share memory; hidden states are updated in place */
    WALK_GRADIENT /* every slot is kept, and has a gradient */
};

struct walk {
    struct backend *backend;
    enum walk_kind kind;
    struct matrix cosine, sine; /* lent */
    int64_t tokens;             /* capacity */
    void *values_memory, *gradients_memory;
    const struct program *program; /* of the walk_begin before */
    struct pass pass;
    struct matrix values[PROGRAM_SLOTS], gradients[PROGRAM_SLOTS];
    bool written[PROGRAM_SLOTS];
};

/* Memory for chunks of up to `tokens` tokens of any block of the model; cosine and sine (model_rope_tables) are lent for its life.
 * The caller owns it (walk_reset). STATUS_NO_MEMORY. */
MUST_CHECK enum status walk_init(struct walk *walk, const struct model_config *config, struct backend *backend, enum walk_kind kind,
                                 int64_t tokens, struct matrix cosine, struct matrix sine, struct error *error);
void walk_reset(struct walk *walk); /* {0} is fine */

/* Lays the slots out for a chunk: `hidden` [tokens, hidden_size] is the block's input. Read the slots in walk->values. */
void walk_begin(struct walk *walk, const struct program *program, const struct batch *batch, const struct matrix *parameters,
                struct matrix hidden);

/* Runs steps [from, to) forward. */
void walk_steps(struct walk *walk, int from, int to);

/* All of a block, leaving its output in `hidden` (WALK_FORWARD) or in walk->values[program->output] (WALK_GRADIENT). */
void walk_forward(struct walk *walk, const struct program *program, const struct batch *batch, const struct matrix *parameters,
                  struct matrix hidden);

/* Back through all steps after walk_forward on a WALK_GRADIENT walk. `dhidden` holds the gradient of the block's output and gets
 * that of its input; parameter_gradients (by parameter, NULL: none) are added to. */
void walk_backward(struct walk *walk, struct matrix dhidden, struct matrix *parameter_gradients);

/* Bytes that walk_init would allocate. */
int64_t walk_bytes(const struct model_config *config, struct backend *backend, enum walk_kind kind, int64_t tokens);

#endif

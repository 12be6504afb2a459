/* walk.h: passes over the steps of a block, with the memory that they need. A walk holds the slots of one chunk of
 * tokens; the same walk serves every block of a model and every chunk, in turn. */
#ifndef MODEL_WALK_H
#define MODEL_WALK_H

#include "model/cache.h"
#include "model/chunks.h"
#include "model/model.h"

enum walk_kind {
    WALK_FORWARD,  /* slots share memory; hidden states are updated in place */
    WALK_GRADIENT, /* every slot is kept, and has a gradient */
    WALK_TANGENT   /* likewise, and both have tangents: Hessian-vector products */
};

enum walk_part { WALK_VALUES, WALK_GRADIENTS, WALK_VALUE_TANGENTS, WALK_GRADIENT_TANGENTS, WALK_PARTS };

struct walk {
    struct backend *backend;
    enum walk_kind kind;
    struct matrix cosine, sine; /* lent */
    /* used in forward passes; the caller sets and clears it between them. Lent; NULL: none */
    const struct linear_product *product;
    int64_t tokens;      /* capacity */
    struct cache *cache; /* lent; for batches with branches (WALK_FORWARD); else NULL */
    /* a caller may replace memory[WALK_VALUES] by its own between passes, and must restore it before walk_reset */
    void *memory[WALK_PARTS];
    const struct program *program; /* of the walk_begin before */
    struct pass pass;
    struct matrix values[PROGRAM_SLOTS], gradients[PROGRAM_SLOTS];
    struct matrix value_tangents[PROGRAM_SLOTS], gradient_tangents[PROGRAM_SLOTS];
    bool written[PROGRAM_SLOTS];
    struct experts_starts starts;
};

/* Memory for chunks of up to `tokens` tokens of any block of the model; cosine and sine (model_rope_tables) are lent
 * for its life. The caller owns it (walk_reset). STATUS_NO_MEMORY. */
MUST_CHECK enum status walk_init(struct walk *walk, const struct model_config *config, struct backend *backend,
                                 enum walk_kind kind, int64_t tokens, struct matrix cosine, struct matrix sine,
                                 struct error *error);
void walk_reset(struct walk *walk); /* {0} is fine */

/* Lays the slots out for a chunk: `hidden` [tokens, hidden_size] is the block's input. Read the slots in
 * walk->values. */
void walk_begin(struct walk *walk, const struct program *program, const struct batch *batch,
                const struct matrix *parameters, struct matrix hidden);

/* Runs steps [from, to) forward. Batches with branches need walk_forward, which marks where a batch begins and ends. */
void walk_steps(struct walk *walk, int from, int to);

/* All of a block, leaving its output in `hidden` (WALK_FORWARD) or in walk->values[program->output] (WALK_GRADIENT). */
void walk_forward(struct walk *walk, const struct program *program, const struct batch *batch,
                  const struct matrix *parameters, struct matrix hidden);

/* Goes back through all steps after walk_forward on a WALK_GRADIENT walk. `dhidden` holds the gradient of the block's
 * output and gets that of its input; adds to parameter_gradients (by parameter, NULL: none). */
void walk_backward(struct walk *walk, struct matrix dhidden, struct matrix *parameter_gradients);

/* A block and its derivative along a direction: `hidden_t` is the direction of the block's input (not changed),
 * parameter_tangents those of its parameters. Outputs are in walk->values and walk->value_tangents [program->output].
 * WALK_TANGENT. All arguments stay lent until walk_backward_tangent is done. */
void walk_tangent(struct walk *walk, const struct program *program, const struct batch *batch,
                  const struct matrix *parameters, const struct matrix *parameter_tangents, struct matrix hidden,
                  struct matrix hidden_t);

/* The two parts of walk_tangent, for a caller that keeps the memory of both between passes: the layout, and the steps.
 * Without `values` the steps compute the tangents alone, and the values are those of an earlier pass over the same
 * chunk. */
void walk_tangent_begin(struct walk *walk, const struct program *program, const struct batch *batch,
                        const struct matrix *parameters, const struct matrix *parameter_tangents, struct matrix hidden,
                        struct matrix hidden_t);
void walk_tangent_steps(struct walk *walk, bool values);

/* Goes back after walk_tangent: dhidden and dhidden_t hold the gradient of the block's output and its tangent and get
 * those of its input; adds to parameter_gradient_tangents (the Hessian times the direction, by parameter). */
void walk_backward_tangent(struct walk *walk, struct matrix dhidden, struct matrix dhidden_t,
                           struct matrix *parameter_gradient_tangents);

/* Bytes that walk_init would allocate. */
int64_t walk_bytes(const struct model_config *config, struct backend *backend, enum walk_kind kind, int64_t tokens);

#endif

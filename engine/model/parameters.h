/* parameters.h: all parameters of a model in one flat buffer, and buffers of the same layout for gradients, moments and
 * directions. Order: embedding, blocks from first to last (each in the order of its program), final norm, output matrix
 * unless tied (a tied matrix is there once, as the embedding). Each tensor starts at a multiple of 16 elements; the
 * gaps hold zeros, so that sums and updates may run over the whole buffer. Constants are in it too; their gradients are
 * zero, and they belong to no space of directions. */
#ifndef MODEL_PARAMETERS_H
#define MODEL_PARAMETERS_H

#include "model/embed.h"
#include "model/head.h"

struct parameters_tensor {
    struct parameter parameter; /* name and shape */
    int64_t offset;             /* of its first element in the buffer */
    /* a matrix, including the embedding: weight decay acts on it, but not on norms, biases and a scan's decays */
    bool decays;
    bool residual; /* the last matrix of a residual branch: initialised smaller (parameters_initialise) */
};

/* Neighbouring tensors that decay, or that do not: [first, first + count) of the buffer. */
struct parameters_span {
    int64_t first, count;
    bool decays;
};

struct parameters_layout {
    struct model_config config;
    struct program *programs; /* [config.layers] */
    int64_t tensor_count, span_count;
    struct parameters_tensor *tensors; /* in the order of the buffer */
    struct parameters_span *spans;
    int64_t *blocks; /* [config.layers] index of each block's first tensor */
    /* Indices of tensors; -1: there is none (every model has an embedding and an output). */
    int64_t embedding, positions, project_in;
    int64_t norm_weight, norm_bias, project_out, output; /* output == embedding when tied */
    int64_t elements;                                    /* of the buffer, gaps included */
    int64_t numbers;                                     /* without the gaps and constants */
};

/* The caller owns *out (parameters_layout_free). STATUS_NO_MEMORY. */
MUST_CHECK enum status parameters_layout_new(const struct model_config *config, struct parameters_layout **out,
                                             struct error *error);
void parameters_layout_free(struct parameters_layout *layout); /* NULL is fine */

/* Columns that the slots of the widest layer need (program_plan). */
int64_t parameters_slots_width(const struct parameters_layout *layout, bool keep_all);

/* Index of the tensor `name`, -1 when there is none. */
int64_t parameters_find(const struct parameters_layout *layout, const char *name);

/* One buffer. Layout and backend are lent for its life. */
struct parameters {
    const struct parameters_layout *layout;
    struct backend *backend;
    void *data;
};

/* Allocates zeroed parameters. The caller owns them (parameters_reset). `what` names them in messages.
 * STATUS_NO_MEMORY. */
MUST_CHECK enum status parameters_init(struct parameters *parameters, const struct parameters_layout *layout,
                                       struct backend *backend, const char *what, struct error *error);
void parameters_reset(struct parameters *parameters); /* {0} is fine */

struct matrix parameters_all(const struct parameters *parameters);                  /* [1, elements] */
struct matrix parameters_view(const struct parameters *parameters, int64_t tensor); /* absent for -1 */
/* Copies a tensor into dense host memory of F32 or F64 in the orientation of the file: transposed where the program
 * says so. STATUS_NO_MEMORY, of a transposed tensor. */
MUST_CHECK enum status parameters_download(const struct parameters *parameters, int64_t tensor, void *to,
                                           enum dtype dtype, struct error *error);
/* The matrices of block `layer` by parameter number of its program, into `out` [PROGRAM_PARAMETERS]. */
void parameters_block(const struct parameters *parameters, int64_t layer, struct matrix *out);

/* The weights before and after the blocks, as embed.h and head.h take them. */
struct embed_weights parameters_embed(const struct parameters *parameters);
struct head_weights parameters_head(const struct parameters *parameters);

/* Fresh weights: matrices from N(0, initializer_range²), those that end a residual branch with initializer_range /
 * sqrt(branches) (Radford et al. 2019, "Language models are unsupervised multitask learners", 2.3; a layer has two, of
 * a state space model one); vectors and constants get their `initial` (norms 1, biases 0); enum fresh has the rest. An
 * element is a pure function of (seed, tensor, element). STATUS_NO_MEMORY. */
MUST_CHECK enum status parameters_initialise(struct parameters *parameters, uint64_t seed, struct error *error);

/* Reads every tensor from a checkpoint of the same configuration. Statuses of model_read. */
MUST_CHECK enum status parameters_read(struct parameters *parameters, const struct model *model, struct error *error);

#endif
